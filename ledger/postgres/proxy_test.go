package postgres

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// deafProxy stands between a node and the server. While it is armed it passes a
// COMMIT on, and cuts the connection before the answer.
type deafProxy struct {
	listener net.Listener
	server   string
	armed    atomic.Bool
	cut      atomic.Int64
	wg       sync.WaitGroup
}

func newDeafProxy(t *testing.T, server string) *deafProxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	p := &deafProxy{listener: l, server: server}
	p.wg.Go(p.accept)
	t.Cleanup(func() { _ = l.Close(); p.wg.Wait() })
	return p
}

func (p *deafProxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		var deaf atomic.Bool
		p.wg.Go(func() { p.up(client, server, &deaf) })
		p.wg.Go(func() { p.down(client, server, &deaf) })
	}
}

// up passes on what the client says.
func (p *deafProxy) up(client, server net.Conn, deaf *atomic.Bool) {
	defer func() { _ = server.(*net.TCPConn).CloseWrite() }()
	buffer := make([]byte, 1<<16)
	for {
		n, err := client.Read(buffer)
		if p.armed.Load() && bytes.Contains(buffer[:n], []byte("COMMIT\x00")) {
			deaf.Store(true)
			p.cut.Add(1)
		}
		if n > 0 {
			if _, err := server.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// down passes on what the server says, until it must not.
func (p *deafProxy) down(client, server net.Conn, deaf *atomic.Bool) {
	defer func() { _, _ = client.Close(), server.Close() }()
	buffer := make([]byte, 1<<16)
	for {
		n, err := server.Read(buffer)
		if n > 0 && deaf.Load() {
			return // the server has answered, so it has committed
		}
		if n > 0 {
			if _, err := client.Write(buffer[:n]); err != nil {
				return
			}
		}
		if errors.Is(err, io.EOF) || err != nil {
			return
		}
	}
}

func ambiguousCommit(t *testing.T, b *bench) {
	direct := b.withTenant(t, Options{})
	proxy := newDeafProxy(t, b.server.Address())
	config := direct.pool.Config().ConnConfig
	url := "postgres://blobd@" + proxy.listener.Addr().String() + "/" + config.Database + "?sslmode=disable&pool_max_conns=1"
	l := openTest(t, Options{URL: url})
	put(t, l, 1, 1)                                 // describes the statements
	_, _, err := l.Fence(t.Context(), fenceOf(100)) // and those of a fence
	must(t, err)

	proxy.armed.Store(true)
	_, err = l.Commit(t.Context(), capture(1, 2))
	refused(t, err, blobd.ErrUnavailable)
	if proxy.cut.Load() == 0 {
		t.Fatal("no COMMIT was seen")
	}
	proxy.armed.Store(false)
	put(t, l, 1, 3) // describes again, on a new connection
	proxy.armed.Store(true)
	_, _, err = l.Fence(t.Context(), fenceOf(2))
	refused(t, err, blobd.ErrUnavailable)
	proxy.armed.Store(false)

	v, err := direct.Lookup(t.Context(), tagOf(1), []blobd.Ref{refOf(2)})
	must(t, err)
	if v.Blobs[0] != nil {
		wholeExecution(t, direct, 1)
	}
	again := capture(1, 2)
	again.Blobs[0].Ref = refOf(20) // sealed anew
	done, err := l.Commit(t.Context(), again)
	must(t, err)
	if v.Blobs[0] != nil && (done.Created[0] || done.Blobs[0].Ref != refOf(2)) {
		t.Fatalf("the repeat made a second row: %+v", done)
	}
	wholeExecution(t, direct, 1)
	e, r, err := l.Fence(t.Context(), fenceOf(2))
	must(t, err)
	es, err := direct.ListErasures(t.Context(), ledger.ErasureQuery{Tenant: acme, Limit: 10})
	must(t, err)
	if len(es) != 2 || e.ID != fenceOf(2).ID || r.Seq != 2 {
		t.Fatalf("erasures %+v, record %+v", es, r)
	}
}
