package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/blobd/blobd/internal/servers"
)

// logBucket is a command line whose exports go to a bucket.
type logBucket struct {
	t       *testing.T
	server  *servers.S3
	environ []string
}

// do runs a command and returns its exit code and what it said.
func (l logBucket) do(args ...string) (int, string) {
	l.t.Helper()
	var out, errs bytes.Buffer
	code := run(l.t.Context(), args, l.environ, strings.NewReader(""), &out, &errs)
	if strings.Contains(out.String()+errs.String(), l.server.SecretKey) {
		l.t.Error("the secret key was printed")
	}
	return code, out.String() + errs.String()
}

// TestTheLogIsExportedToABucket of another store than blobs lie in, and verified there.
func TestTheLogIsExportedToABucket(t *testing.T) {
	server := servers.MinIO(t, servers.MinIOOptions{})
	server.Bucket(t, "audit", servers.Bucket{})
	r := start(t, testConfig(t, filepath.Join(t.TempDir(), "data"), nil))
	defer r.end(t)
	l := logBucket{t, server, environOf(map[string]string{
		"server": r.url, "dataDir": r.folder, "export.endpoint": server.Endpoint,
		"export.accessKey": server.AccessKey, "export.secretKey": server.SecretKey,
	})}
	code, key := l.do("evidence", "key")
	for end := time.Now().Add(startTime); code != exitOK && time.Now().Before(end); { // until the log has a key
		code, key = l.do("evidence", "key")
	}
	keyFile := filepath.Join(t.TempDir(), "key")
	must(t, os.WriteFile(keyFile, []byte(key), 0o600))
	const place = "s3://audit/team/log"
	for range 2 { // the second brings it up to date
		if status, answer := r.ask(t, "POST", putPath, strings.NewReader("one thought")); status/100 != 2 {
			t.Fatal(answer)
		}
		if code, said := l.do("evidence", "export", place); code != exitOK || !strings.Contains(said, "exported ") {
			t.Fatalf("export: %d %s", code, said)
		}
	}
	if code, said := l.do("evidence", "verify", "--key", keyFile, "--log", place); code != exitOK || !strings.Contains(said, "ok    log of") {
		t.Errorf("verify: %d %s", code, said)
	}
	// What is kept there is the key too, and it is the log's.
	kept, err := server.Client().GetObject(t.Context(), &awss3.GetObjectInput{Bucket: aws.String("audit"), Key: aws.String("team/log/key")})
	must(t, err)
	var b bytes.Buffer
	_, err = b.ReadFrom(kept.Body)
	must(t, err)
	must(t, kept.Body.Close())
	if b.String() != key {
		t.Errorf("kept %q, the key is %q", &b, key)
	}
	// Somebody changes a byte of an entry.
	l.flip("team/log/tile/0/000")
	if code, said := l.do("evidence", "verify", "--key", keyFile, "--log", place); code != exitError || !strings.Contains(said, "WRONG log") {
		t.Errorf("verify of what was changed: %d %s", code, said)
	}
	for what, args := range map[string][]string{
		"no such bucket": {"evidence", "export", "s3://nowhere/log"},
		"no bucket":      {"evidence", "export", "s3://"},
		"a bare host":    {"evidence", "export", place, "--endpoint", "127.0.0.1:1"},
	} {
		if code, said := l.do(args...); code == exitOK {
			t.Errorf("%s: %d %s", what, code, said)
		}
	}
}

// flip changes the one bundle or tile below a name, whatever its width.
func (l logBucket) flip(prefix string) {
	l.t.Helper()
	c := l.server.Client()
	list, err := c.ListObjectsV2(l.t.Context(), &awss3.ListObjectsV2Input{Bucket: aws.String("audit"), Prefix: &prefix})
	must(l.t, err)
	if len(list.Contents) != 1 {
		l.t.Fatalf("%d objects below %s", len(list.Contents), prefix)
	}
	key := list.Contents[0].Key
	got, err := c.GetObject(l.t.Context(), &awss3.GetObjectInput{Bucket: aws.String("audit"), Key: key})
	must(l.t, err)
	var b bytes.Buffer
	_, err = b.ReadFrom(got.Body)
	must(l.t, err)
	must(l.t, got.Body.Close())
	b.Bytes()[b.Len()/2] ^= 1
	_, err = c.PutObject(l.t.Context(), &awss3.PutObjectInput{Bucket: aws.String("audit"), Key: key, Body: bytes.NewReader(b.Bytes())})
	must(l.t, err)
}
