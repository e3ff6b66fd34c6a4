package target

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/blobd/blobd/bench/load"
)

const (
	bucket  = "bench"
	region  = "us-east-1"
	s3User  = "bench-user"
	s3Pass  = "bench-password" // of a server that lives for one run on the loopback
	signed  = 24 * time.Hour
	s3Ready = 30 * time.Second
)

// S3 is a running S3 server of one node with one bucket. Objects are put and got
// through presigned URLs; signing happens outside the time that is reported per
// operation.
type S3 struct {
	*Process
	client *minio.Client
	filled map[int][]stored // by client; one goroutine prepares at a time
}

// Find returns the path of a server's binary: given, else $BLOBD_CACHE/bin/NAME
// or the same in the user's cache folder, else the PATH's. It is empty if there is
// none.
func Find(name, given string) string {
	paths := []string{given}
	if c := os.Getenv("BLOBD_CACHE"); c != "" {
		paths = append(paths, filepath.Join(c, "bin", name))
	}
	if c, err := os.UserCacheDir(); err == nil {
		paths = append(paths, filepath.Join(c, "blobd-tools", "bin", name))
	}
	for _, path := range append(paths, name) {
		if found, err := exec.LookPath(path); path != "" && err == nil {
			return found
		}
	}
	return ""
}

// StartMinIO starts a MinIO with an empty folder in dir.
func StartMinIO(ctx context.Context, binary, dir string) (*S3, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(binary, "server", filepath.Join(dir, "minio"), "--address", addr, "--quiet")
	cmd.Env = append(without(os.Environ(), "MINIO_"), "MINIO_ROOT_USER="+s3User, "MINIO_ROOT_PASSWORD="+s3Pass, "MINIO_BROWSER=off")
	return startS3(ctx, "minio", addr, dir, cmd)
}

// StartVersityGW starts a versitygw over an empty folder in dir.
func StartVersityGW(ctx context.Context, binary, dir string) (*S3, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "versitygw")
	if err := os.Mkdir(data, 0o700); err != nil {
		return nil, err
	}
	cmd := exec.Command(binary, "--access", s3User, "--secret", s3Pass, "--region", region, "--port", addr,
		"--quiet", "--keep-alive", "posix", data)
	return startS3(ctx, "versitygw", addr, dir, cmd)
}

func startS3(ctx context.Context, name, addr, dir string, cmd *exec.Cmd) (*S3, error) {
	p, err := launch(name, dir, cmd)
	if err != nil {
		return nil, err
	}
	p.Addr = addr
	s := &S3{Process: p, filled: make(map[int][]stored)}
	if err := s.prepare(ctx); err != nil {
		err = fmt.Errorf("%s: %w; its log ends: %s", name, err, p.tail())
		_ = p.Stop()
		return nil, err
	}
	return s, nil
}

// Backend is the environment of a blobd that keeps its objects here, under a
// prefix of its own.
func (m *S3) Backend(driver, prefix string) []string {
	return []string{
		"BLOBD_BACKEND=" + driver, "BLOBD_BACKEND_ENDPOINT=http://" + m.Addr, "BLOBD_BACKEND_BUCKET=" + bucket,
		"BLOBD_BACKEND_REGION=" + region, "BLOBD_BACKEND_ACCESS_KEY=" + s3User, "BLOBD_BACKEND_SECRET_KEY=" + s3Pass,
		"BLOBD_BACKEND_PATH_STYLE=true", "BLOBD_BACKEND_PREFIX=" + prefix,
	}
}

// connect makes the client for the server's address.
func (m *S3) connect() (err error) {
	m.client, err = minio.New(m.Addr, &minio.Options{
		Creds:  credentials.NewStaticV4(s3User, s3Pass, ""),
		Region: region, // known, so that presigning asks nobody
	})
	return err
}

func (m *S3) prepare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s3Ready)
	defer cancel()
	if err := m.connect(); err != nil {
		return err
	}
	for { // until it answers
		err := m.client.MakeBucket(ctx, bucket, minio.MakeBucketOptions{Region: region})
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not ready: %w", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Put stores new bodies under new names.
func (m *S3) Put(ctx context.Context, seed uint64, client int, _ load.Client) (load.Op, error) {
	return putEachOp(seed, client, func(turn int) (*load.Request, error) {
		return m.sign(ctx, http.MethodPut, fmt.Sprintf("put-%x-%d/%d", seed, client, turn))
	}), nil
}

// Get reads what the client stored before, one object after the other.
func (m *S3) Get(ctx context.Context, client int, c load.Client) (load.Op, error) {
	if m.filled[client] == nil {
		all, err := m.fill(ctx, client, c)
		if err != nil {
			return nil, err
		}
		m.filled[client] = all
	}
	return getOp(m.filled[client]), nil
}

func (m *S3) fill(ctx context.Context, client int, c load.Client) ([]stored, error) {
	var all []stored
	for i, body := range clientBodies(client) {
		name := fmt.Sprintf("read-%d/%d", client, i)
		put, err := m.sign(ctx, http.MethodPut, name)
		if err != nil {
			return nil, err
		}
		ans, err := c.Do(put, body)
		if err != nil {
			return nil, err
		}
		if ans.Status != http.StatusOK {
			return nil, unexpected("fill", ans)
		}
		get, err := m.sign(ctx, http.MethodGet, name)
		if err != nil {
			return nil, err
		}
		all = append(all, stored{get, body})
	}
	return all, nil
}

// sign returns a presigned request.
func (m *S3) sign(ctx context.Context, method, name string) (*load.Request, error) {
	u, err := m.client.Presign(ctx, method, bucket, name, signed, url.Values{})
	if err != nil {
		return nil, fmt.Errorf("presign: %w", err)
	}
	return &load.Request{Method: method, Host: m.Addr, Target: u.RequestURI()}, nil
}

// freeAddr returns an address on the loopback that was free a moment ago.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}
