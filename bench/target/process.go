// Package target starts the servers that are measured, each as a process of its
// own on 127.0.0.1, and knows how each is asked to store and to return bytes.
package target

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Process is a running server. Stop must be called exactly once.
type Process struct {
	Name string
	Addr string // host:port
	cmd  *exec.Cmd
	done chan error
	log  string
}

// stopTime is longer than the 15 s that blobd may take to drain.
const stopTime = 20 * time.Second

// listening is the line that blobd and the floor print once they serve.
const listening = "listening on http://"

// start runs cmd with its output in dir/name.log and waits until it printed the
// address it listens on.
func start(ctx context.Context, name, dir string, cmd *exec.Cmd) (*Process, error) {
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p, err := launch(name, dir, cmd)
	if err != nil {
		return nil, err
	}
	found := make(chan string, 1)
	go func() {
		defer close(found)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if addr, ok := strings.CutPrefix(lines.Text(), listening); ok {
				found <- strings.TrimSuffix(strings.TrimSpace(addr), "/")
				break
			}
		}
		_, _ = io.Copy(io.Discard, out) // a full pipe would stop the server
	}()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	select {
	case addr, ok := <-found:
		if ok {
			p.Addr = addr
			return p, nil
		}
		err = errors.New("ended before it listened")
	case <-ctx.Done():
		err = fmt.Errorf("did not say that it listens: %w", ctx.Err())
	}
	return nil, errors.Join(fmt.Errorf("%s: %w; its log ends: %s", name, err, p.tail()), p.Stop())
}

// launch runs cmd without waiting for anything.
func launch(name, dir string, cmd *exec.Cmd) (*Process, error) {
	p := &Process{Name: name, cmd: cmd, done: make(chan error, 1), log: filepath.Join(dir, name+".log")}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the child has its own copy
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	go func() { p.done <- cmd.Wait() }()
	return p, nil
}

// Stop asks the server to end and kills it if it does not. Having been killed
// is an error; a server's own exit code is not.
func (p *Process) Stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
		return nil
	case <-time.After(stopTime):
	}
	_ = p.cmd.Process.Kill()
	<-p.done
	return fmt.Errorf("%s did not end within %s of SIGTERM", p.Name, stopTime)
}

// tail returns the last kilobyte of the server's log.
func (p *Process) tail() string {
	b, _ := os.ReadFile(p.log)
	return strings.TrimSpace(string(b[max(0, len(b)-1024):]))
}
