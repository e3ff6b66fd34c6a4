package servers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"
)

// PostgresOptions are what a server is started with beside the defaults.
type PostgresOptions struct {
	// Settings are written as NAME=VALUE, as postgres -c takes them.
	Settings []string
	// InMemory keeps the files in memory where the system can, for tests that ask
	// nothing of the disk. It takes out the time that fsync takes, and no more.
	InMemory bool
}

// Postgres is a PostgreSQL server of one test and its subtests, with fsync on
// and a superuser blobd that needs no password. It listens on 127.0.0.1 alone.
type Postgres struct {
	t       testing.TB
	bin     string // folder of the programs
	data    string
	port    int
	process *Process
	names   atomic.Int64 // databases made

	mu        sync.Mutex        // held while a database is copied
	templates map[string]string // guarded by mu; database by what prepared it
}

// NewPostgres starts a server on a folder of its own and ends it with t. Each
// test takes a Database of it, so one server serves a whole test binary.
func NewPostgres(t testing.TB, o PostgresOptions) *Postgres {
	t.Helper()
	p := &Postgres{t: t, bin: postgresPrograms(t), port: quietPort(t), templates: make(map[string]string)}
	who := postgresUser(t)
	dir := openFolder(t, who, o.InMemory)
	p.data = filepath.Join(dir, "data")
	p.tool(who, "initdb", "-D", p.data, "-U", "blobd", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	args := []string{
		"-D", p.data, "-p", strconv.Itoa(p.port), "-k", dir, "-c", "listen_addresses=127.0.0.1",
		"-c", "fsync=on", "-c", "max_connections=300", "-c", "shared_buffers=64MB",
	}
	for _, s := range o.Settings {
		args = append(args, "-c", s)
	}
	p.process = start(t, command{
		path: filepath.Join(p.bin, "postgres"), args: args, env: bareEnv("LC_ALL=C"), dir: dir, user: who,
		ready: p.ping,
	})
	t.Cleanup(p.Kill)
	return p
}

// quietPort returns a free port below those that the system gives to outgoing
// connections, so that a server that is down for a while finds it free again.
func quietPort(t testing.TB) int {
	t.Helper()
	var err error
	for range 100 {
		var l net.Listener
		port := 15_000 + rand.IntN(15_000)
		if l, err = net.Listen("tcp", loopback(port)); err == nil {
			_ = l.Close()
			return port
		}
	}
	t.Fatal(err)
	return 0
}

// postgresPrograms returns the folder of the newest installed version.
func postgresPrograms(t testing.TB) string {
	t.Helper()
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil || len(found) == 0 {
		t.Fatalf("PostgreSQL is missing: `make tools` installs what the tests need (%v)", err)
	}
	version := func(path string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path)))) // what is no number is the oldest
		return n
	}
	newest := slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) })
	return filepath.Dir(newest)
}

// postgresUser is who runs the server, which refuses root: the package's own
// user if the test is root, else the test's.
func postgresUser(t testing.TB) *syscall.Credential {
	t.Helper()
	if os.Getuid() != 0 {
		return nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		t.Fatal(err)
	}
	uid, errUID := strconv.ParseUint(u.Uid, 10, 32)
	gid, errGID := strconv.ParseUint(u.Gid, 10, 32)
	if err := errors.Join(errUID, errGID); err != nil {
		t.Fatal(err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// openFolder makes a folder that who owns. A test's own TempDir lies in one
// that nobody else can enter.
func openFolder(t testing.TB, who *syscall.Credential, inMemory bool) string {
	t.Helper()
	parent := ""
	if _, err := os.Stat("/dev/shm"); err == nil && inMemory {
		parent = "/dev/shm"
	}
	dir, err := os.MkdirTemp(parent, "postgres")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove the server's folder: %v", err)
		}
	})
	if who == nil {
		return dir
	}
	if err := os.Chown(dir, int(who.Uid), int(who.Gid)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// tool runs one of PostgreSQL's programs to its end.
func (p *Postgres) tool(who *syscall.Credential, name string, args ...string) {
	p.t.Helper()
	cmd := exec.Command(filepath.Join(p.bin, name), args...)
	cmd.Env, cmd.Dir = bareEnv("LC_ALL=C"), "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: who}
	if out, err := cmd.CombinedOutput(); err != nil {
		p.t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

// URL is the address of a database of this server.
func (p *Postgres) URL(database string) string {
	u := url.URL{Scheme: "postgres", User: url.User("blobd"), Host: loopback(p.port), Path: database}
	u.RawQuery = url.Values{"sslmode": {"disable"}}.Encode()
	return u.String()
}

// Address is the server's HOST:PORT, for what stands between it and a client.
func (p *Postgres) Address() string { return loopback(p.port) }

// Data is the server's data folder.
func (p *Postgres) Data() string { return p.data }

func (p *Postgres) ping(ctx context.Context) error {
	c, err := pgx.Connect(ctx, p.URL("postgres"))
	if err != nil {
		return err
	}
	return errors.Join(c.Ping(ctx), c.Close(ctx))
}

// Exec runs statements in a database as the superuser, each on its own.
func (p *Postgres) Exec(t testing.TB, database string, statements ...string) {
	t.Helper()
	ctx := context.Background() // also while t is cleaned up
	c, err := pgx.Connect(ctx, p.URL(database))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(ctx) }()
	for _, s := range statements {
		if _, err := c.Exec(ctx, s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// Database makes an empty database that goes with t, and returns its name.
func (p *Postgres) Database(t testing.TB) string {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.create(t, "template0")
}

// Prepared is Database for many tests that need the same start: prepare fills
// the first database of its name, and all are copies of that one. Nothing that
// prepare opened may stay open.
func (p *Postgres) Prepared(t testing.TB, name string, prepare func(url string)) string {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	from, ok := p.templates[name]
	if !ok {
		from = p.create(p.t, "template0")
		prepare(p.URL(from))
		p.templates[name] = from
	}
	return p.create(t, from)
}

// create copies a database; whoever calls it holds mu, since a database that
// is being copied takes no connection.
func (p *Postgres) create(t testing.TB, from string) string {
	t.Helper()
	name := fmt.Sprintf("test%d", p.names.Add(1))
	p.Exec(t, "postgres", fmt.Sprintf("CREATE DATABASE %s TEMPLATE %s", name, from))
	if t == p.t {
		return name // it goes with the server
	}
	t.Cleanup(func() {
		if p.Running() {
			p.Exec(t, "postgres", fmt.Sprintf("DROP DATABASE %s WITH (FORCE)", name))
		}
	})
	return name
}

// Running reports whether the server's process runs.
func (p *Postgres) Running() bool { return p.pid() != 0 }

func (p *Postgres) pid() int {
	p.process.mu.Lock()
	defer p.process.mu.Unlock()
	if p.process.cmd == nil {
		return 0
	}
	return p.process.cmd.Process.Pid
}

// Start starts a server that does not run, and returns once it answers.
func (p *Postgres) Start() { p.t.Helper(); p.process.Start() }

// Stop ends the server cleanly, and its connections with it.
func (p *Postgres) Stop() { p.process.end(syscall.SIGINT) }

// Kill ends the server and every process of it as kill -9 does. Each backend
// is in a process group of its own, so they are ended one by one.
func (p *Postgres) Kill() {
	backends := p.backends()
	p.process.Kill()
	for _, pid := range backends {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended with its parent
	}
	for _, pid := range backends {
		awaitEnd(pid)
	}
}

// Pause stops the server and every process of it where they are.
func (p *Postgres) Pause() { p.signalAll(syscall.SIGSTOP) }

// Resume lets a paused server go on.
func (p *Postgres) Resume() { p.signalAll(syscall.SIGCONT) }

func (p *Postgres) signalAll(s syscall.Signal) {
	p.process.signal(s) // first, so that a paused one makes no more backends
	for _, pid := range p.backends() {
		_ = syscall.Kill(pid, s)
	}
}

// Log returns what the server has printed so far.
func (p *Postgres) Log() string { return p.process.Log() }

// backends returns the server's child processes.
func (p *Postgres) backends() []int {
	parent := p.pid()
	if parent == 0 {
		return nil
	}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is right
	var pids []int
	for _, path := range stats {
		pid, ppid := readStat(path)
		if ppid == parent {
			pids = append(pids, pid)
		}
	}
	return pids
}

// readStat returns a process and its parent, or zeros for one that ended.
func readStat(path string) (pid, parent int) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, 0
	}
	// PID (NAME) STATE PARENT …, and the name may hold anything.
	first, _, _ := strings.Cut(string(b), " ")
	fields := strings.Fields(string(b)[strings.LastIndexByte(string(b), ')')+1:])
	if len(fields) < 2 {
		return 0, 0
	}
	pid, _ = strconv.Atoi(first)
	parent, _ = strconv.Atoi(fields[1])
	return pid, parent
}

// awaitEnd waits until a process that was killed is gone, for ten seconds at
// most.
func awaitEnd(pid int) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return // it is gone
	}
	defer func() { _ = unix.Close(fd) }()
	_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 10_000)
}
