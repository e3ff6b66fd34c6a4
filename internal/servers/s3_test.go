package servers

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

func TestS3ServersMakeBucketsAsAsked(t *testing.T) {
	for name, server := range map[string]*S3{
		"minio": MinIO(t, MinIOOptions{}), "versitygw": VersityGW(t, VersityGWOptions{}),
		"seaweedfs": SeaweedFS(t, SeaweedFSOptions{}),
	} {
		for _, c := range []struct {
			name string
			like Bucket
			want types.BucketVersioningStatus
		}{
			{"plain", Bucket{}, ""},
			{"versioned", Bucket{Versioned: true}, types.BucketVersioningStatusEnabled},
			{"suspended", Bucket{Suspended: true}, types.BucketVersioningStatusSuspended},
			{"locked", Bucket{ObjectLock: true}, types.BucketVersioningStatusEnabled},
		} {
			t.Run(name+" "+c.name, func(t *testing.T) {
				server.Bucket(t, c.name, c.like)
				got, err := server.Client().GetBucketVersioning(t.Context(), &s3.GetBucketVersioningInput{Bucket: &c.name})
				if err != nil || got.Status != c.want {
					t.Fatalf("%q, %v", got.Status, err)
				}
				lock, err := server.Client().GetObjectLockConfiguration(t.Context(), &s3.GetObjectLockConfigurationInput{Bucket: &c.name})
				if locked := err == nil && lock.ObjectLockConfiguration.ObjectLockEnabled == types.ObjectLockEnabledEnabled; locked != c.like.ObjectLock {
					t.Fatalf("locked: %v, %v", locked, err)
				}
			})
		}
	}
}

func TestAServerKeepsItsDataOverARestart(t *testing.T) {
	for name, server := range map[string]*S3{
		"minio": MinIO(t, MinIOOptions{}), "versitygw": VersityGW(t, VersityGWOptions{}),
		"seaweedfs": SeaweedFS(t, SeaweedFSOptions{}),
	} {
		t.Run(name, func(t *testing.T) {
			server.Bucket(t, "kept", Bucket{})
			server.Kill()
			server.Start()
			bucket := "kept"
			if _, err := server.Client().HeadBucket(t.Context(), &s3.HeadBucketInput{Bucket: &bucket}); err != nil {
				t.Fatal(err)
			}
		})
	}
}
