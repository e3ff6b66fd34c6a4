package servers

import (
	"fmt"
	"testing"
)

// MinIOOptions are what a test may want of MinIO; the zero value is plain.
type MinIOOptions struct {
	Dir string   // "": a temporary folder of the test
	Env []string // more of its environment, "NAME=value"
}

// MinIO starts a MinIO of one disk.
func MinIO(t testing.TB, o MinIOOptions) *S3 {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	address := loopback(freePort(t))
	s := &S3{
		Endpoint: "http://" + address, Region: region, Dir: o.Dir,
		AccessKey: "minio-root", SecretKey: "minio-root-secret",
	}
	env := bareEnv(
		"MINIO_ROOT_USER="+s.AccessKey, "MINIO_ROOT_PASSWORD="+s.SecretKey,
		"MINIO_CI_CD=on", // a folder on the system's disk will do
		"MINIO_UPDATE=off", "HOME="+t.TempDir(), "MINIO_BROWSER=off",
		"MINIO_SITE_REGION="+region, "MINIO_API_REQUESTS_MAX=1000",
	)
	s.Process = start(t, command{
		path: program(t, "minio"),
		args: []string{"server", "--quiet", "--anonymous", "--address", address, o.Dir},
		env:  append(env, o.Env...), dir: o.Dir, ready: s.answers,
	})
	return s
}

// Port returns where the server listens on 127.0.0.1.
func (s *S3) Port() (port int) {
	_, _ = fmt.Sscanf(s.Endpoint, "http://127.0.0.1:%d", &port)
	return port
}
