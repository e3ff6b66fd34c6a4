package cluster

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/blobd/blobd/client"
)

// readyTime bounds how long a node may take to come up on a busy machine.
const readyTime = 60 * time.Second

// node is one process of the program on a data folder and a port of its own. It
// may be killed, paused and started again.
type node struct {
	t        *testing.T
	name     string
	dir      string
	address  string // HOST:PORT
	settings []string
	stderr   *output // of all its lives

	mu     sync.Mutex
	cmd    *exec.Cmd     // guarded by mu; nil while it does not run
	exited chan struct{} // guarded by mu; closed once the process has ended
}

// output is a bytes.Buffer for several goroutines.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

func newNode(t *testing.T, number int, dir string, settings []string) *node {
	t.Helper()
	n := &node{
		t: t, name: fmt.Sprintf("node %d", number), dir: dir, address: quietAddress(t), settings: settings, stderr: new(output),
	}
	t.Cleanup(func() {
		n.kill()
		if log := n.stderr.String(); t.Failed() {
			t.Logf("%s printed:\n%s", n.name, log[max(0, len(log)-6000):])
		}
	})
	return n
}

// quietAddress is a free address below the ports of outgoing connections, so
// that a node that is down for a while finds it free again.
func quietAddress(t *testing.T) string {
	t.Helper()
	var err error
	for range 100 {
		address := fmt.Sprintf("127.0.0.1:%d", 15_000+rand.IntN(15_000))
		var l net.Listener
		if l, err = net.Listen("tcp", address); err == nil {
			_ = l.Close()
			return address
		}
	}
	t.Fatal(err)
	return ""
}

func (n *node) url() string { return "http://" + n.address }

// launch starts the process, and does not wait for it.
func (n *node) launch() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd != nil {
		n.t.Errorf("%s runs already", n.name)
		return
	}
	cmd := exec.Command(program, "serve", "--data-dir", n.dir, "--listen", n.address)
	cmd.Env = environ(n.settings)
	cmd.Stderr = n.stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		n.t.Errorf("start %s: %v", n.name, err)
		return
	}
	exited := make(chan struct{})
	n.cmd, n.exited = cmd, exited
	go func() {
		_ = cmd.Wait() // how it ended is read from its state
		close(exited)
	}()
}

// environ is the test's environment without settings of blobd, and with these.
func environ(settings []string) (env []string) {
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "BLOBD_") {
			env = append(env, e)
		}
	}
	return append(env, settings...)
}

// start starts the process and waits until it is ready.
func (n *node) start() {
	n.t.Helper()
	n.launch()
	n.awaitReady()
}

// kill ends the process as kill -9 does, also a paused one.
func (n *node) kill() { n.end(syscall.SIGKILL) }

// stop asks the process to end, and returns its exit code and how long it took.
func (n *node) stop() (code int, took time.Duration) {
	begin := time.Now()
	return n.end(syscall.SIGTERM), time.Since(begin)
}

func (n *node) end(s syscall.Signal) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd == nil {
		return 0
	}
	_ = n.cmd.Process.Signal(s)
	late := time.AfterFunc(readyTime, func() { _ = n.cmd.Process.Kill() })
	defer late.Stop()
	<-n.exited
	code := n.cmd.ProcessState.ExitCode()
	n.cmd = nil
	return code
}

// pause stops the process where it is; resume lets it go on.
func (n *node) pause()  { n.signal(syscall.SIGSTOP) }
func (n *node) resume() { n.signal(syscall.SIGCONT) }

func (n *node) signal(s syscall.Signal) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd != nil {
		_ = n.cmd.Process.Signal(s)
	}
}

// exitedNow reports whether the process has ended by itself.
func (n *node) exitedNow() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd == nil {
		return false
	}
	select {
	case <-n.exited:
		return true
	default:
		return false
	}
}

func (n *node) awaitReady() {
	n.t.Helper()
	eventually(n.t, readyTime, n.name+" to be ready", func() bool {
		if n.exitedNow() {
			n.t.Fatalf("%s ended by itself:\n%s", n.name, n.stderr)
		}
		return n.ready() == http.StatusOK
	})
}

// awaitUnready waits until the node says that it is not ready.
func (n *node) awaitUnready() {
	n.t.Helper()
	eventually(n.t, readyTime, n.name+" to be unready", func() bool { return n.ready() == http.StatusServiceUnavailable })
}

// ready returns the status of readiness, 0 if nobody answered.
func (n *node) ready() int {
	ctx, cancel := context.WithTimeout(n.t.Context(), 15*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, n.url()+"/readyz", nil)
	must(n.t, err)
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// eventually asks until it is so. What it waits for can be seen from outside.
func eventually(t testing.TB, limit time.Duration, what string, seen func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !seen() {
		select {
		case <-ctx.Done():
			t.Fatalf("waited %v for %s", limit, what)
		case <-tick.C:
		}
	}
}

// newClient has connections of its own, which end with the test.
func newClient(t *testing.T, o client.Options) *client.Client {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	o.HTTP = &http.Client{Transport: transport, Timeout: 30 * time.Second}
	c, err := client.New(o)
	must(t, err)
	return c
}
