package s3_test

import (
	"crypto/rand"
	"fmt"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
	"github.com/blobd/blobd/backends/backendtest"
	"github.com/blobd/blobd/backends/s3"
	"github.com/blobd/blobd/internal/servers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// options are those of a bucket of a server.
func options(server *servers.S3, bucket, prefix string) s3.Options {
	return s3.Options{
		Endpoint: server.Endpoint, Bucket: bucket, Region: server.Region, PathStyle: true, Prefix: prefix,
		AccessKey: server.AccessKey, SecretKey: blobd.TextOf([]byte(server.SecretKey)), Random: rand.Reader,
	}
}

func open(t *testing.T, o s3.Options) *s3.Store {
	t.Helper()
	s, err := s3.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// kinds are the buckets of which every one must do.
func kinds() map[string]servers.Bucket {
	return map[string]servers.Bucket{
		"plain": {}, "versioned": {Versioned: true}, "suspended": {Suspended: true},
	}
}

// eachServer runs a test on every kind of bucket of every server.
func eachServer(t *testing.T, test func(t *testing.T, server *servers.S3, bucket string)) {
	for _, c := range []struct {
		name   string
		server *servers.S3
	}{
		{"minio", servers.MinIO(t, servers.MinIOOptions{})},
		{"versitygw", servers.VersityGW(t, servers.VersityGWOptions{})},
		{"seaweedfs", servers.SeaweedFS(t, servers.SeaweedFSOptions{})},
	} {
		for kind, like := range kinds() {
			t.Run(c.name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				c.server.Bucket(t, kind, like)
				test(t, c.server, kind)
			})
		}
	}
}

func TestContract(t *testing.T) {
	var n atomic.Int64
	eachServer(t, func(t *testing.T, server *servers.S3, bucket string) {
		var now s3.Options
		backendtest.Run(t, backendtest.Harness{
			New: func(t *testing.T) backends.Store {
				now = options(server, bucket, fmt.Sprintf("deployment-%d", n.Add(1)))
				return open(t, now)
			},
			Reopen:    func(t *testing.T, _ backends.Store) backends.Store { return open(t, now) },
			NoNesting: true, // MinIO does not list what lies under an object, versitygw refuses it
		})
	})
}
