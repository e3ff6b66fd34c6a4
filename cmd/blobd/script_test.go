package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"
)

// TestMain lets the scripts run this program as the command blobd.
func TestMain(m *testing.M) {
	testscript.Main(leakCheck{m}, map[string]func(){"blobd": main})
}

// leakCheck fails the package if a goroutine outlives its tests.
type leakCheck struct{ m *testing.M }

func (l leakCheck) Run() int {
	code := l.m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, "leaked:", err)
			return 1
		}
	}
	return code
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Values["servers"] = make(map[string]*process)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"serve":    serveScript,
			"term":     termScript,
			"exitcode": exitCodeScript,
			"field":    fieldScript,
			"until":    untilScript,
			"mode":     modeScript,
			"damage":   damageScript,
			"signal2":  secondSignalScript,
			"seen":     seenScript,
		},
	})
}

// process is a server that a script started.
type process struct {
	cmd    *exec.Cmd
	stderr bytes.Buffer
	ended  chan error
}

// startTime bounds the wait for a server to come up or to end.
const startTime = 20 * time.Second

// serveScript: serve DIR [flag…] starts a server on a free port and sets
// BLOBD_SERVER and BLOBD_DATA_DIR for what follows.
func serveScript(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: serve DIR [flag...]")
	}
	dir := ts.MkAbs(args[0])
	flags := append([]string{"serve", "--listen", "127.0.0.1:0", "--data-dir", dir}, args[1:]...)
	p := &process{cmd: exec.Command("blobd", flags...), ended: make(chan error, 1)}
	p.cmd.Dir, p.cmd.Env = ts.MkAbs("."), serverEnv(ts)
	p.cmd.Path = lookPath(ts, "blobd")
	p.cmd.Err = nil
	p.cmd.Stderr = &p.stderr
	out, err := p.cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(p.cmd.Start())
	ts.Defer(func() { _ = p.cmd.Process.Kill() })
	line := make(chan string, 1)
	go func() {
		s := bufio.NewScanner(out)
		s.Scan()
		line <- s.Text()
		for s.Scan() { // drained, so that the process never waits for us
		}
		p.ended <- p.cmd.Wait()
	}()
	select {
	case got := <-line:
		url, ok := strings.CutPrefix(got, "listening on ")
		if !ok {
			<-p.ended
			ts.Fatalf("the server said %q\n%s", got, p.stderr.String())
		}
		ts.Setenv("BLOBD_SERVER", url)
		ts.Setenv("BLOBD_DATA_DIR", dir)
		ts.Value("servers").(map[string]*process)[dir] = p
	case <-time.After(startTime):
		ts.Fatalf("the server did not come up")
	}
}

// serverEnv is the script's environment without what is for clients.
func serverEnv(ts *testscript.TestScript) []string {
	env := []string{"HOME=" + ts.Getenv("HOME"), "PATH=" + ts.Getenv("PATH"), "TMPDIR=" + ts.Getenv("TMPDIR")}
	for _, name := range []string{"BLOBD_PUT_MARGIN", "BLOBD_JOURNAL_DIR", "BLOBD_TOKEN_CACHE", "BLOBD_METRICS_LISTEN", "BLOBD_LEDGER_DSN", "BLOBD_SWEEP_CRON", "BLOBD_HOLIDAYS"} {
		if v := ts.Getenv(name); v != "" {
			env = append(env, name+"="+v)
		}
	}
	return env
}

func lookPath(ts *testscript.TestScript, name string) string {
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	ts.Fatalf("%s is not in PATH", name)
	return ""
}

// termScript: term DIR ends a server by SIGTERM and wants a clean end. Its
// variables are unset, its log is kept as DIR.log.
func termScript(ts *testscript.TestScript, neg bool, args []string) {
	dir := ts.MkAbs(args[0])
	p := ts.Value("servers").(map[string]*process)[dir]
	if neg || p == nil {
		ts.Fatalf("usage: term DIR")
	}
	ts.Check(p.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case err := <-p.ended:
		if err != nil {
			ts.Fatalf("the server ended with %v\n%s", err, p.stderr.String())
		}
	case <-time.After(startTime):
		ts.Fatalf("the server did not end")
	}
	ts.Setenv("BLOBD_SERVER", "")
	ts.Setenv("BLOBD_DATA_DIR", "")
	ts.Check(os.WriteFile(dir+".log", p.stderr.Bytes(), 0o600))
}

// secondSignalScript: signal2 DIR holds a server's end up by a request that
// never completes, and wants a second signal to end it at once.
func secondSignalScript(ts *testscript.TestScript, neg bool, args []string) {
	p := ts.Value("servers").(map[string]*process)[ts.MkAbs(args[0])]
	if neg || p == nil {
		ts.Fatalf("usage: signal2 DIR")
	}
	host := strings.TrimPrefix(ts.Getenv("BLOBD_SERVER"), "http://")
	c, err := net.Dial("tcp", host)
	ts.Check(err)
	defer func() { _ = c.Close() }()
	token := strings.TrimSpace(ts.ReadFile(filepath.Join(args[0], tokenFile)))
	_, err = io.WriteString(c, putHead(token))
	ts.Check(err)
	_, err = c.Read(make([]byte, 1024)) // the server asks for the body
	ts.Check(err)

	ts.Check(p.cmd.Process.Signal(syscall.SIGTERM))
	for { // until the end has begun
		again, err := net.Dial("tcp", host)
		if err != nil {
			break
		}
		ts.Check(again.Close())
	}
	select {
	case err := <-p.ended:
		ts.Fatalf("the server ended with a request under way: %v", err)
	default:
	}
	ts.Check(p.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case err := <-p.ended:
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
			ts.Fatalf("the server ended with %v", err)
		}
	case <-time.After(drainTime / 2):
		ts.Fatalf("the second signal did not end the server")
	}
	ts.Setenv("BLOBD_SERVER", "")
	ts.Setenv("BLOBD_DATA_DIR", "")
}

// exitCodeScript: exitcode N CMD… runs a command and wants exactly this code.
// Its output is kept as out and err.
func exitCodeScript(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exitcode N CMD...")
	}
	var cmd exec.Cmd
	cmd.Path, cmd.Args = lookPath(ts, args[1]), args[1:]
	cmd.Dir = ts.MkAbs(".")
	for _, name := range []string{"HOME", "PATH", "TMPDIR"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	for _, s := range settings() {
		if v := ts.Getenv(s.Env); v != "" {
			cmd.Env = append(cmd.Env, s.Env+"="+v)
		}
	}
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if in, err := os.Open(ts.MkAbs("in")); err == nil {
		defer func() { _ = in.Close() }()
		cmd.Stdin = in
	}
	_ = cmd.Run()
	if cmd.ProcessState == nil {
		ts.Fatalf("did not run")
	}
	ts.Check(os.WriteFile(ts.MkAbs("out"), out.Bytes(), 0o600))
	ts.Check(os.WriteFile(ts.MkAbs("err"), errOut.Bytes(), 0o600))
	if got := fmt.Sprint(cmd.ProcessState.ExitCode()); got != args[0] {
		ts.Fatalf("exit code %s, want %s\nstdout: %s\nstderr: %s", got, args[0], out.String(), errOut.String())
	}
}

// fieldScript: field FILE PATH NAME sets a variable to a member of a JSON file;
// PATH is dotted, with numbers for elements.
func fieldScript(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: field FILE PATH NAME")
	}
	var v any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &v))
	for key := range strings.SplitSeq(args[1], ".") {
		switch node := v.(type) {
		case map[string]any:
			v = node[key]
		case []any:
			var i int
			_, err := fmt.Sscan(key, &i)
			ts.Check(err)
			if i >= len(node) {
				ts.Fatalf("%s has no element %d", args[1], i)
			}
			v = node[i]
		default:
			ts.Fatalf("%s: nothing at %s", args[1], key)
		}
	}
	ts.Setenv(args[2], fmt.Sprint(v))
}

// modeScript: mode PERM PATH… wants permissions, in octal.
func modeScript(ts *testscript.TestScript, neg bool, args []string) {
	for _, path := range args[1:] {
		info, err := os.Stat(ts.MkAbs(path))
		ts.Check(err)
		if got := fmt.Sprintf("%o", info.Mode().Perm()); (got == args[0]) == neg {
			ts.Fatalf("%s has mode %s", path, got)
		}
	}
}

// damageScript: damage DIR flips one byte inside every sealed blob that lies in
// the files of a stopped server's store.
func damageScript(ts *testscript.TestScript, neg bool, args []string) {
	const magic, inside = "BLOBSEAL", 100
	damaged := 0
	ts.Check(filepath.WalkDir(ts.MkAbs(args[0]), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for at := 0; ; {
			i := bytes.Index(b[at:], []byte(magic))
			if i < 0 {
				return os.WriteFile(path, b, 0o600)
			}
			at += i + inside
			b[at] ^= 1
			damaged++
		}
	}))
	if neg || damaged == 0 {
		ts.Fatalf("no sealed blob in %s", args[0])
	}
}
