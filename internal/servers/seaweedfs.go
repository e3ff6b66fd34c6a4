package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// SeaweedFSOptions are what a test may want of SeaweedFS; the zero value is
// plain.
type SeaweedFSOptions struct {
	Dir  string   // "": a temporary folder of the test
	Args []string // more options of `weed server`
}

// seaweedParts are the servers that one `weed server` is: each has a port for
// HTTP and one for gRPC.
var seaweedParts = [...]string{"master", "volume", "filer", "s3"}

// SeaweedFS starts a SeaweedFS of one node: master, volume server, filer and S3
// gateway in one process, as `weed server -s3` does.
func SeaweedFS(t testing.TB, o SeaweedFSOptions) *S3 {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	ports := freePorts(t, 2*len(seaweedParts))
	sockets := seaweedSockets(t, ports)
	args := []string{
		"-logtostderr=true", "server", "-dir=" + o.Dir, "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-s3",
		"-master.peers=none", "-master.telemetry=false", "-s3.port.iceberg=0", "-s3.port.lance=0",
		"-master.volumeSizeLimitMB=64", "-volume.max=0", // as many as the disk holds: every bucket has its own
		"-volume.preStopSeconds=0",
		"-filer.localSocket=" + sockets + "/filer", "-s3.localSocket=" + sockets + "/s3",
	}
	for i, part := range seaweedParts {
		args = append(args, fmt.Sprintf("-%s.port=%d", part, ports[2*i]), fmt.Sprintf("-%s.port.grpc=%d", part, ports[2*i+1]))
	}
	s := &S3{
		Endpoint: "http://" + loopback(ports[6]), Region: region, Dir: o.Dir,
		AccessKey: "seaweed-root", SecretKey: "seaweed-root-secret",
		master: loopback(ports[0]),
	}
	s.Process = start(t, command{
		path: program(t, "weed"), args: append(args, o.Args...), dir: o.Dir,
		env: bareEnv(
			"HOME="+o.Dir, "AWS_ACCESS_KEY_ID="+s.AccessKey, "AWS_SECRET_ACCESS_KEY="+s.SecretKey,
			"WEED_MASTER_VOLUME_GROWTH_COPY_1=1", // one file per bucket, not seven
		),
		ready: s.takesWrites,
	})
	return s
}

// seaweedSockets returns a folder for the sockets that may lie anywhere: a short
// one, as a socket's path must be. It is removed with the test, and with it the
// sockets that weed makes in /tmp whatever it is told, and leaves if killed.
func seaweedSockets(t testing.TB, ports []int) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "weed")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = os.RemoveAll(dir)
		for i, part := range seaweedParts {
			_ = os.Remove(fmt.Sprintf("/tmp/seaweedfs-%s-grpc-%d.sock", part, ports[2*i+1]))
		}
	})
	return dir
}

// takesWrites is ready once a bucket was made, written into and removed again.
// The gateway lists buckets long before: no write goes through until the parts
// have found each other, which takes seconds, longer after a restart.
func (s *S3) takesWrites(ctx context.Context) error {
	c, bucket, key := s.Client(), "readiness", "object"
	once := func(o *s3.Options) { o.Retryer = aws.NopRetryer{} }
	_, err := c.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: &bucket}, once)
	if mine := new(types.BucketAlreadyOwnedByYou); err != nil && !errors.As(err, &mine) {
		return fmt.Errorf("make a bucket: %w", err)
	}
	if _, err := c.PutObject(ctx, &s3.PutObjectInput{Bucket: &bucket, Key: &key}, once); err != nil {
		return fmt.Errorf("put: %w", err)
	}
	if _, err := c.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &bucket, Key: &key}, once); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	if _, err := c.DeleteBucket(ctx, &s3.DeleteBucketInput{Bucket: &bucket}, once); err != nil {
		return fmt.Errorf("delete the bucket: %w", err)
	}
	return nil
}

// Vacuum makes a SeaweedFS give up the bytes of what was deleted, which lie in
// its volumes until then, and returns once it has.
func (s *S3) Vacuum(t testing.TB) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.master+"/vol/vacuum?garbageThreshold=0.0001", nil)
	if err != nil {
		t.Fatal(err)
	}
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := c.Do(q)
	if err != nil {
		t.Fatalf("vacuum: %v", err)
	}
	if err := r.Body.Close(); err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("vacuum: %s, %v", r.Status, err)
	}
}

// freePorts returns ports of 127.0.0.1, no two the same, that were free a moment
// ago.
func freePorts(t testing.TB, n int) []int {
	t.Helper()
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }() // held until all are known
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}
