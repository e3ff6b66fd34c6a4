package s3_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
	"github.com/blobd/blobd/internal/servers"
)

// What SeaweedFS does otherwise than S3, as docs/backends.md tells. A test here
// that fails because the server does right now is to be removed with its line.

// TestSeaweedFSKeepsTheMarkerOfASuspendedBucket: the marker of a plain DELETE
// has the id null, and to delete that version is answered 204 and does nothing.
// The bytes are gone, but the name stays listed, and the driver says so.
func TestSeaweedFSKeepsTheMarkerOfASuspendedBucket(t *testing.T) {
	t.Parallel() // each waits long for a server of its own
	server, bucket, key := servers.SeaweedFS(t, servers.SeaweedFSOptions{}), "bucket", "a/b"
	server.Bucket(t, bucket, servers.Bucket{Suspended: true})
	putRaw(t, server, bucket, key, "text")
	deleteRaw(t, server, bucket, key)
	out, err := server.Client().DeleteObject(t.Context(), &awss3.DeleteObjectInput{Bucket: &bucket, Key: &key, VersionId: aws.String("null")})
	if err != nil || aws.ToString(out.VersionId) != "null" {
		t.Fatalf("%+v, %v", out, err)
	}
	listed, err := server.Client().ListObjectVersions(t.Context(), &awss3.ListObjectVersionsInput{Bucket: &bucket})
	if err != nil || len(listed.Versions) != 0 || len(listed.DeleteMarkers) != 1 || aws.ToString(listed.DeleteMarkers[0].VersionId) != "null" {
		t.Fatalf("%+v, %v", listed, err)
	}

	s := open(t, options(server, bucket, ""))
	scope := backends.Scope{Prefix: "a/"}
	if e, err := s.Erase(t.Context(), scope); !errors.Is(err, blobd.ErrUnavailable) {
		t.Errorf("erase: %+v, %v", e, err)
	}
	if left, err := s.Residue(t.Context(), scope, 10); err != nil || len(left) != 1 || left[0].Name != key {
		t.Errorf("residue: %+v, %v", left, err)
	}
	if f := examined(t, s, "delete"); f.Status != backends.Fail || !f.NoErasure {
		t.Errorf("%+v", f)
	}
}

// TestSeaweedFSMakesABucketThatIsMissing unless it is started with
// -s3.autoCreateBucket=false: see TestAMissingBucketIsAnOutage.
func TestSeaweedFSMakesABucketThatIsMissing(t *testing.T) {
	t.Parallel() // each waits long for a server of its own
	server, bucket := servers.SeaweedFS(t, servers.SeaweedFSOptions{}), "absent"
	put(t, open(t, options(server, bucket, "")), "a/b", []byte("text"))
	if _, err := server.Client().HeadBucket(t.Context(), &awss3.HeadBucketInput{Bucket: &bucket}); err != nil {
		t.Fatal(err)
	}
}

// TestSeaweedFSKeepsDeletedBytesUntilItsVacuum: an erased object is absent and
// unlisted, and its sealed bytes lie in the volume's file until that is vacuumed.
func TestSeaweedFSKeepsDeletedBytesUntilItsVacuum(t *testing.T) {
	t.Parallel() // each waits long for a server of its own
	server := servers.SeaweedFS(t, servers.SeaweedFSOptions{})
	server.Bucket(t, "bucket", servers.Bucket{})
	s := open(t, options(server, "bucket", ""))
	data := make([]byte, 4000)
	_, _ = rand.Read(data) // as sealed bytes are: nothing that could be compressed
	put(t, s, "a/b", data)
	if e, err := s.Erase(t.Context(), backends.Scope{Prefix: "a/"}); err != nil || e.Objects != 1 {
		t.Fatalf("%+v, %v", e, err)
	}
	if !holds(t, server.Dir, data) {
		t.Error("the bytes are gone without a vacuum")
	}
	// What was deleted counts as garbage a moment after the answer.
	for end := time.Now().Add(time.Minute); holds(t, server.Dir, data); server.Vacuum(t) {
		if time.Now().After(end) {
			t.Fatal("the bytes outlived every vacuum")
		}
	}
}

// holds reports whether a file below a folder has the bytes.
func holds(t *testing.T, folder string, data []byte) bool {
	t.Helper()
	found := false
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		found = found || bytes.Contains(b, data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
