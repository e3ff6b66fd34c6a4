package faults

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
)

// relay hands connections on to a server, and counts them: the server's own
// view of who is connected.
type relay struct {
	listener net.Listener
	target   string
	done     sync.WaitGroup

	changed news

	mu    sync.Mutex
	open  map[net.Conn]struct{} // guarded by mu
	total int                   // guarded by mu; accepted since the start
}

func newRelay(t *testing.T, target string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{listener: l, target: target, open: make(map[net.Conn]struct{})}
	r.done.Go(r.accept)
	t.Cleanup(r.close)
	return r
}

func (r *relay) address() string { return r.listener.Addr().String() }

func (r *relay) accept() {
	for {
		c, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.done.Go(func() { r.serve(c) })
	}
}

// serve joins two connections until either ends.
func (r *relay) serve(c net.Conn) {
	r.update(func() { r.open[c] = struct{}{}; r.total++ })
	defer r.update(func() { delete(r.open, c) })
	defer func() { _ = c.Close() }()
	server, err := net.Dial("tcp", r.target)
	if err != nil {
		return // the server is down: the caller sees the connection end
	}
	var both sync.WaitGroup
	join := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		_, _ = to.Close(), from.Close()
	}
	both.Go(func() { join(server, c) })
	both.Go(func() { join(c, server) })
	both.Wait()
}

func (r *relay) update(change func()) {
	r.mu.Lock()
	change()
	r.mu.Unlock()
	r.changed.tell()
}

// counts returns how many connections are open and how many there were.
func (r *relay) counts() (open, total int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.open), r.total
}

// await returns once ok holds of the counts.
func (r *relay) await(ctx context.Context, ok func(open, total int) bool) error {
	return r.changed.await(ctx, func() bool { return ok(r.counts()) })
}

func (r *relay) close() {
	_ = r.listener.Close()
	r.mu.Lock()
	for c := range r.open {
		_ = c.Close()
	}
	r.mu.Unlock()
	r.done.Wait()
}
