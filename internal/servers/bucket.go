package servers

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// region is what every server here is told and tells.
const region = "us-east-1"

// S3 is a server that speaks S3, at work.
type S3 struct {
	*Process
	Endpoint  string // URL, http
	Region    string
	AccessKey string // of the root user, who may do everything
	SecretKey string
	Dir       string // where its data lies

	master string // of SeaweedFS: host and port of the master's HTTP
}

// Bucket says what a new bucket is like; the zero value is a plain one.
type Bucket struct {
	Versioned  bool
	Suspended  bool // was versioned, and is not any more
	ObjectLock bool // implies Versioned
}

// Bucket makes a bucket, which must not be there yet.
func (s *S3) Bucket(t testing.TB, name string, b Bucket) {
	t.Helper()
	c := s.Client()
	in := &s3.CreateBucketInput{Bucket: &name}
	if b.ObjectLock {
		in.ObjectLockEnabledForBucket = aws.Bool(true)
	}
	if _, err := c.CreateBucket(t.Context(), in); err != nil {
		t.Fatalf("make bucket %s: %v", name, err)
	}
	if b.Versioned || b.Suspended {
		s.version(t, name, types.BucketVersioningStatusEnabled)
	}
	if b.Suspended {
		s.version(t, name, types.BucketVersioningStatusSuspended)
	}
}

func (s *S3) version(t testing.TB, bucket string, status types.BucketVersioningStatus) {
	t.Helper()
	_, err := s.Client().PutBucketVersioning(t.Context(), &s3.PutBucketVersioningInput{
		Bucket: &bucket, VersioningConfiguration: &types.VersioningConfiguration{Status: status},
	})
	if err != nil {
		t.Fatalf("versioning of bucket %s: %v", bucket, err)
	}
}

// Client is a plain client of the root user, for what a test does behind
// blobd's back.
func (s *S3) Client() *s3.Client { return s.ClientAs(s.AccessKey, s.SecretKey) }

// ClientAs is a plain client of another user.
func (s *S3) ClientAs(accessKey, secretKey string) *s3.Client {
	return s3.New(s3.Options{
		BaseEndpoint: &s.Endpoint, Region: s.Region, UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(accessKey, secretKey, ""),
		HTTPClient:  &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
	})
}

// answers is ready once the server lists its buckets.
func (s *S3) answers(ctx context.Context) error {
	c := s.Client()
	if _, err := c.ListBuckets(ctx, &s3.ListBucketsInput{}, func(o *s3.Options) { o.Retryer = aws.NopRetryer{} }); err != nil {
		return fmt.Errorf("list buckets: %w", err)
	}
	return nil
}
