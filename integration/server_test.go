package integration

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// program is the path of the program under test, built once as users build it.
var program string

func TestMain(m *testing.M) {
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "blobd-integration")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	program = filepath.Join(dir, "blobd")
	build := exec.Command("go", "build", "-o", program, "github.com/blobd/blobd/cmd/blobd")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// margin is the put margin of the servers here: how long an erasure waits, and
// how long a put may take, on a busy machine too.
const margin = "2s"

// server is one process on a data folder.
type server struct {
	t      *testing.T
	dir    string
	url    string
	token  string
	cmd    *exec.Cmd
	stderr *buffer
	exited chan struct{} // closed once the process has ended
	client *http.Client
}

// buffer is a bytes.Buffer for two goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// environ is the test's environment without settings of blobd, and with these.
func environ(settings ...string) []string {
	var env []string
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "BLOBD_") {
			env = append(env, e)
		}
	}
	return append(append(env, "BLOBD_PUT_MARGIN="+margin), settings...)
}

// start starts a server and waits until it listens and is ready.
func start(t *testing.T, dir string, settings ...string) *server {
	t.Helper()
	s := listen(t, dir, settings...)
	s.waitReady()
	return s
}

// listen starts a server and waits until it listens.
func listen(t *testing.T, dir string, settings ...string) *server {
	t.Helper()
	s := &server{
		t: t, dir: dir, stderr: new(buffer), exited: make(chan struct{}),
		client: &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 128}},
	}
	s.cmd = exec.Command(program, "serve", "--data-dir", dir, "--listen", "127.0.0.1:0")
	s.cmd.Env = environ(settings...)
	s.cmd.Stderr = s.stderr
	stdout, err := s.cmd.StdoutPipe()
	must(t, err)
	must(t, s.cmd.Start())
	t.Cleanup(s.kill)
	lines := make(chan string, 1)
	go func() {
		scan := bufio.NewScanner(stdout)
		for scan.Scan() {
			if url, ok := strings.CutPrefix(scan.Text(), "listening on "); ok {
				lines <- url
			}
		}
		_ = s.cmd.Wait()
		close(s.exited)
	}()
	select {
	case s.url = <-lines:
	case <-s.exited:
		t.Fatalf("serve ended: %s\n%s", s.cmd.ProcessState, s.stderr)
	case <-time.After(30 * time.Second):
		t.Fatalf("serve does not listen\n%s", s.stderr)
	}
	token, err := os.ReadFile(filepath.Join(dir, "admin.token"))
	must(t, err)
	s.token = strings.TrimSpace(string(token))
	return s
}

func (s *server) waitReady() {
	s.t.Helper()
	s.eventually(20*time.Second, "the server to be ready", func() bool {
		a := s.get("/readyz")
		return a.status == http.StatusOK
	})
}

// kill ends the process as a power cut would, and waits for its end.
func (s *server) kill() {
	_ = s.cmd.Process.Kill()
	<-s.exited
	s.client.CloseIdleConnections()
}

// stop asks the process to end, and returns how long it took.
func (s *server) stop() time.Duration {
	s.t.Helper()
	begin := time.Now()
	must(s.t, s.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-s.exited:
	case <-time.After(20 * time.Second):
		s.t.Errorf("the server does not end\n%s", tail(s.stderr.String()))
		s.kill()
	}
	if code := s.cmd.ProcessState.ExitCode(); code != 0 {
		s.t.Errorf("the server ended with %d\n%s", code, tail(s.stderr.String()))
	}
	s.client.CloseIdleConnections()
	return time.Since(begin)
}

func tail(s string) string { return s[max(0, len(s)-4000):] }

// eventually polls what can be seen from outside, with a deadline.
func (s *server) eventually(limit time.Duration, what string, seen func() bool) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), limit)
	defer cancel()
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for !seen() {
		select {
		case <-ctx.Done():
			s.t.Fatalf("waited %v for %s\n%s", limit, what, tail(s.stderr.String()))
		case <-tick.C:
		}
	}
}

// offline runs a command that needs no server, and returns its exit code.
func offline(t *testing.T, args ...string) (int, string) {
	t.Helper()
	return offlineWith(t, nil, args...)
}

func offlineWith(t *testing.T, settings []string, args ...string) (int, string) {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env = environ(settings...)
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// wantVerified: fsck finds that every live row opens.
func wantVerified(t *testing.T, dir string, settings ...string) {
	t.Helper()
	if code, out := offlineWith(t, settings, "verify", "--data-dir", dir); code != 0 {
		t.Errorf("verify exits with %d:\n%s", code, out)
	}
}
