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
	bucket     = "bench"
	region     = "us-east-1"
	minioUser  = "bench-user"
	minioPass  = "bench-password" // of a server that lives for one run on the loopback
	signedFor  = 24 * time.Hour
	minioReady = 30 * time.Second
)

// MinIO is a running single-node MinIO with one bucket. Objects are put and got
// through presigned URLs; signing happens outside the time that is reported per
// operation.
type MinIO struct {
	*Process
	client *minio.Client
	filled map[int][]stored // by client; one goroutine prepares at a time
}

// FindMinIO returns the path of a MinIO binary: given, else $MINIO_BIN, else
// $BLOBD_CACHE/bin/minio, else the PATH's. It is empty if there is none.
func FindMinIO(given string) string {
	cached := ""
	if c := os.Getenv("BLOBD_CACHE"); c != "" {
		cached = filepath.Join(c, "bin", "minio")
	}
	for _, path := range []string{given, os.Getenv("MINIO_BIN"), cached, "minio"} {
		if found, err := exec.LookPath(path); path != "" && err == nil {
			return found
		}
	}
	return ""
}

// StartMinIO starts binary with an empty folder in dir.
func StartMinIO(ctx context.Context, binary, dir string) (*MinIO, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	console, err := freeAddr()
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "minio")
	cmd := exec.Command(binary, "server", data, "--address", addr, "--console-address", console, "--quiet")
	cmd.Env = append(without(os.Environ(), "MINIO_"), "MINIO_ROOT_USER="+minioUser, "MINIO_ROOT_PASSWORD="+minioPass)
	p, err := launch("minio", dir, cmd)
	if err != nil {
		return nil, err
	}
	p.Addr = addr
	m := &MinIO{Process: p, filled: make(map[int][]stored)}
	if err := m.prepare(ctx); err != nil {
		err = fmt.Errorf("minio: %w; its log ends: %s", err, p.tail())
		_ = p.Stop()
		return nil, err
	}
	return m, nil
}

func (m *MinIO) prepare(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, minioReady)
	defer cancel()
	m.client, err = minio.New(m.Addr, &minio.Options{
		Creds:  credentials.NewStaticV4(minioUser, minioPass, ""),
		Region: region, // known, so that presigning asks nobody
	})
	if err != nil {
		return err
	}
	if err := m.awaitReady(ctx); err != nil {
		return err
	}
	return m.client.MakeBucket(ctx, bucket, minio.MakeBucketOptions{Region: region})
}

func (m *MinIO) awaitReady(ctx context.Context) error {
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.Addr+"/minio/health/ready", nil)
		if err != nil {
			return err
		}
		if res, err := http.DefaultClient.Do(req); err == nil {
			_ = res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not ready: %w", ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Put stores new bodies under new names.
func (m *MinIO) Put(ctx context.Context, seed uint64, client int, _ load.Client) (load.Op, error) {
	return putEachOp(seed, client, func(turn int) (*load.Request, error) {
		return m.sign(ctx, http.MethodPut, fmt.Sprintf("put-%x-%d/%d", seed, client, turn))
	}), nil
}

// Get reads what the client stored before, one object after the other.
func (m *MinIO) Get(ctx context.Context, client int, c load.Client) (load.Op, error) {
	if m.filled[client] == nil {
		all, err := m.fill(ctx, client, c)
		if err != nil {
			return nil, err
		}
		m.filled[client] = all
	}
	return getOp(m.filled[client]), nil
}

func (m *MinIO) fill(ctx context.Context, client int, c load.Client) ([]stored, error) {
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
func (m *MinIO) sign(ctx context.Context, method, name string) (*load.Request, error) {
	u, err := m.client.Presign(ctx, method, bucket, name, signedFor, url.Values{})
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
