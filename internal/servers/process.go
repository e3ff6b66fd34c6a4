package servers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

// readyTime bounds how long a server may take to come up on a busy machine.
const readyTime = 60 * time.Second

// command says how a server's process is started.
type command struct {
	path  string
	args  []string
	env   []string // the whole environment
	dir   string
	user  *syscall.Credential // nil: the test's own
	ready func(context.Context) error
}

// Process is a server's process, which a test may kill, pause and start again
// on the same port and folder.
type Process struct {
	t       testing.TB
	command command

	mu     sync.Mutex
	cmd    *exec.Cmd     // guarded by mu; nil while it does not run
	exited chan struct{} // guarded by mu; closed once the process has ended
	log    log
}

// log is what a process printed.
type log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// start runs a command until it is ready, and ends it with the test.
func start(t testing.TB, c command) *Process {
	t.Helper()
	p := &Process{t: t, command: c}
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("%s printed:\n%s", filepath.Base(c.path), p.log.String())
		}
	})
	p.Start()
	return p
}

// Start starts a process that does not run, and returns once it is ready.
func (p *Process) Start() {
	p.t.Helper()
	p.spawn()
	if err := p.awaitReady(); err != nil {
		p.Kill()
		p.t.Fatalf("%s did not come up: %v\n%s", filepath.Base(p.command.path), err, p.log.String())
	}
}

func (p *Process) spawn() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil {
		p.t.Fatalf("%s runs already", filepath.Base(p.command.path))
	}
	cmd := exec.Command(p.command.path, p.command.args...)
	cmd.Env, cmd.Dir = p.command.env, p.command.dir
	cmd.Stdout, cmd.Stderr = &p.log, &p.log
	// A group of its own, so that children end with it, and it with the test.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Credential: p.command.user}
	if err := cmd.Start(); err != nil {
		p.t.Fatalf("start %s: %v", p.command.path, err)
	}
	exited := make(chan struct{})
	p.cmd, p.exited = cmd, exited
	go func() {
		_ = cmd.Wait() // how it ended is in its log
		close(exited)
	}()
}

// awaitReady asks until the server answers, the process has ended or the time
// is over.
func (p *Process) awaitReady() error {
	ctx, cancel := context.WithTimeout(context.Background(), readyTime)
	defer cancel()
	p.mu.Lock()
	exited := p.exited
	p.mu.Unlock()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		err := p.command.ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-exited:
			return errors.New("the process ended")
		case <-ctx.Done():
			return err
		case <-again.C:
		}
	}
}

// Kill ends the process and its children at once, as kill -9 does, and waits
// until it has ended. A process that does not run is fine.
func (p *Process) Kill() { p.end(syscall.SIGKILL) }

// Stop asks the process to end (SIGTERM) and waits until it has.
func (p *Process) Stop() { p.end(syscall.SIGTERM) }

func (p *Process) end(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return
	}
	_ = syscall.Kill(-p.cmd.Process.Pid, s)
	if s != syscall.SIGKILL {
		late := time.AfterFunc(readyTime, func() { _ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) })
		defer late.Stop()
	}
	<-p.exited
	p.cmd = nil
}

// Pause stops the process where it is (SIGSTOP); Resume lets it go on.
func (p *Process) Pause()  { p.signal(syscall.SIGSTOP) }
func (p *Process) Resume() { p.signal(syscall.SIGCONT) }

func (p *Process) signal(s syscall.Signal) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		p.t.Fatalf("%s does not run", filepath.Base(p.command.path))
	}
	if err := syscall.Kill(-p.cmd.Process.Pid, s); err != nil {
		p.t.Fatalf("signal %s: %v", filepath.Base(p.command.path), err)
	}
}

// Program is the path of the program that runs.
func (p *Process) Program() string { return p.command.path }

// Log returns what the process has printed so far.
func (p *Process) Log() string { return p.log.String() }

// program returns the path of a program that scripts/test installs.
func program(t testing.TB, name string) string {
	t.Helper()
	cache := os.Getenv("BLOBD_CACHE")
	if cache == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		cache = filepath.Join(dir, "blobd-tools")
	}
	path := filepath.Join(cache, "bin", name)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%s is missing: `make tools` installs what the tests need (%v)", name, err)
	}
	return path
}

// freePort returns a port of 127.0.0.1 that was free a moment ago.
func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}

// loopback is the address of a port.
func loopback(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// bareEnv is an environment with nothing of the test's own but PATH.
func bareEnv(more ...string) []string {
	return append([]string{"PATH=" + os.Getenv("PATH")}, more...)
}
