package s3_test

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/blobd/blobd/internal/servers"
)

// What tests do to a bucket behind the driver's back.

// versionsIn lists versions and markers behind the driver's back, as "key id".
func versionsIn(t *testing.T, server *servers.S3, bucket, prefix string) []string {
	t.Helper()
	var found []string
	pages := awss3.NewListObjectVersionsPaginator(server.Client(), &awss3.ListObjectVersionsInput{Bucket: &bucket, Prefix: &prefix})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range page.Versions {
			found = append(found, *v.Key+" "+*v.VersionId)
		}
		for _, m := range page.DeleteMarkers {
			found = append(found, *m.Key+" "+*m.VersionId)
		}
	}
	return found
}

func uploadsOf(t *testing.T, server *servers.S3, bucket, key string) int {
	t.Helper()
	out, err := server.Client().ListMultipartUploads(t.Context(), &awss3.ListMultipartUploadsInput{Bucket: &bucket, Prefix: &key})
	if err != nil {
		t.Fatal(err)
	}
	return len(out.Uploads)
}

// putRaw writes behind the driver's back.
func putRaw(t *testing.T, server *servers.S3, bucket, key, body string) string {
	t.Helper()
	out, err := server.Client().PutObject(t.Context(), &awss3.PutObjectInput{Bucket: &bucket, Key: &key, Body: strings.NewReader(body)})
	if err != nil {
		t.Fatal(err)
	}
	return aws.ToString(out.VersionId)
}

func deleteRaw(t *testing.T, server *servers.S3, bucket, key string) {
	t.Helper()
	if _, err := server.Client().DeleteObject(t.Context(), &awss3.DeleteObjectInput{Bucket: &bucket, Key: &key}); err != nil {
		t.Fatal(err)
	}
}

func setVersioning(t *testing.T, server *servers.S3, bucket string, status types.BucketVersioningStatus) {
	t.Helper()
	_, err := server.Client().PutBucketVersioning(t.Context(), &awss3.PutBucketVersioningInput{
		Bucket: &bucket, VersioningConfiguration: &types.VersioningConfiguration{Status: status},
	})
	if err != nil {
		t.Fatal(err)
	}
}

func lockByDefault(t *testing.T, server *servers.S3, bucket string) {
	t.Helper()
	_, err := server.Client().PutObjectLockConfiguration(t.Context(), &awss3.PutObjectLockConfigurationInput{
		Bucket: &bucket, ObjectLockConfiguration: &types.ObjectLockConfiguration{
			ObjectLockEnabled: types.ObjectLockEnabledEnabled,
			Rule: &types.ObjectLockRule{DefaultRetention: &types.DefaultRetention{
				Mode: types.ObjectLockRetentionModeGovernance, Days: aws.Int32(1),
			}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// both runs a test on both servers.
func both(t *testing.T, test func(t *testing.T, server *servers.S3)) {
	t.Run("minio", func(t *testing.T) { test(t, servers.MinIO(t, servers.MinIOOptions{})) })
	t.Run("versitygw", func(t *testing.T) { test(t, servers.VersityGW(t, servers.VersityGWOptions{})) })
}

func retain(t *testing.T, server *servers.S3, key, version, mode string, until time.Time) error {
	_, err := server.Client().PutObjectRetention(t.Context(), &awss3.PutObjectRetentionInput{
		Bucket: aws.String("bucket"), Key: &key, VersionId: &version,
		Retention: &types.ObjectLockRetention{Mode: types.ObjectLockRetentionMode(mode), RetainUntilDate: &until},
	})
	return err
}

func hold(t *testing.T, server *servers.S3, key, version, status string) error {
	_, err := server.Client().PutObjectLegalHold(t.Context(), &awss3.PutObjectLegalHoldInput{
		Bucket: aws.String("bucket"), Key: &key, VersionId: &version,
		LegalHold: &types.ObjectLockLegalHold{Status: types.ObjectLockLegalHoldStatus(status)},
	})
	return err
}

func beginUpload(t *testing.T, server *servers.S3, bucket, key string) {
	t.Helper()
	c := server.Client()
	out, err := c.CreateMultipartUpload(t.Context(), &awss3.CreateMultipartUploadInput{Bucket: &bucket, Key: &key})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.UploadPart(t.Context(), &awss3.UploadPartInput{
		Bucket: &bucket, Key: &key, UploadId: out.UploadId, PartNumber: aws.Int32(1), Body: strings.NewReader("part"),
	})
	if err != nil {
		t.Fatal(err)
	}
}
