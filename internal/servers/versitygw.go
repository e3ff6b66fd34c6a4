package servers

import (
	"os"
	"path/filepath"
	"testing"
)

// VersityGWOptions are what a test may want of versitygw; the zero value is
// plain.
type VersityGWOptions struct {
	Dir  string   // holds data and versions; "": a temporary folder of the test
	Args []string // more global options
}

// VersityGW starts a versitygw over a folder, with a folder for versions beside
// it, so that buckets may be versioned. The folder's filesystem must know
// extended attributes.
func VersityGW(t testing.TB, o VersityGWOptions) *S3 {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	data, versions := filepath.Join(o.Dir, "data"), filepath.Join(o.Dir, "versions")
	users := filepath.Join(o.Dir, "users")
	for _, dir := range []string{data, versions, users} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	address := loopback(freePort(t))
	s := &S3{
		Endpoint: "http://" + address, Region: region, Dir: data,
		AccessKey: "versity-root", SecretKey: "versity-root-secret",
	}
	args := []string{
		"--access", s.AccessKey, "--secret", s.SecretKey, "--region", region,
		"--port", address, "--quiet", "--keep-alive", "--iam-dir", users,
	}
	args = append(append(args, o.Args...), "posix", "--versioning-dir", versions, data)
	s.Process = start(t, command{
		path: program(t, "versitygw"), args: args, env: bareEnv(), dir: o.Dir, ready: s.answers,
	})
	return s
}
