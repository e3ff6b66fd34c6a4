package minio_test

import (
	"crypto/rand"
	"encoding/hex"
	"testing"

	"go.uber.org/goleak"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
	"github.com/blobd/blobd/backends/backendtest"
	"github.com/blobd/blobd/backends/minio"
	"github.com/blobd/blobd/internal/servers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// options are those of a bucket of a server, as its root user.
func options(server *servers.S3, bucket string) minio.Options {
	return minio.Options{
		Endpoint: server.Endpoint, Bucket: bucket, Region: server.Region, PathStyle: true,
		AccessKey: server.AccessKey, SecretKey: blobd.TextOf([]byte(server.SecretKey)), Random: rand.Reader,
	}
}

func open(t *testing.T, o minio.Options) *minio.Store {
	t.Helper()
	s, err := minio.Open(t.Context(), o)
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

// unique returns a name that no other test has.
func unique() string {
	var b [8]byte
	_, _ = rand.Read(b[:])
	return "test-" + hex.EncodeToString(b[:])
}

// place is a kind of bucket of a server.
type place struct {
	name   string
	server *servers.S3
	like   servers.Bucket
}

// places are where the contract must hold.
func places(t *testing.T) []place {
	m := servers.MinIO(t, servers.MinIOOptions{})
	v := servers.VersityGW(t, servers.VersityGWOptions{})
	w := servers.SeaweedFS(t, servers.SeaweedFSOptions{})
	return []place{
		{"minio, plain", m, servers.Bucket{}},
		{"minio, versioned", m, servers.Bucket{Versioned: true}},
		{"minio, suspended", m, servers.Bucket{Suspended: true}},
		{"minio, with locks", m, servers.Bucket{ObjectLock: true}},
		{"versitygw, plain", v, servers.Bucket{}},
		{"versitygw, versioned", v, servers.Bucket{Versioned: true}},
		{"seaweedfs, plain", w, servers.Bucket{}},
		{"seaweedfs, versioned", w, servers.Bucket{Versioned: true}},
		{"seaweedfs, suspended", w, servers.Bucket{Suspended: true}},
		{"seaweedfs, with locks", w, servers.Bucket{ObjectLock: true}},
	}
}

func TestContract(t *testing.T) {
	for _, p := range places(t) {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			bucket := unique()
			p.server.Bucket(t, bucket, p.like)
			var now minio.Options
			backendtest.Run(t, backendtest.Harness{
				New: func(t *testing.T) backends.Store {
					now = options(p.server, bucket)
					now.Prefix = unique()
					return open(t, now)
				},
				Reopen:    func(t *testing.T, _ backends.Store) backends.Store { return open(t, now) },
				NoNesting: true, // MinIO lists nothing below an object, versitygw refuses it
			})
		})
	}
}
