package cluster

import (
	"bytes"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"
	"time"
)

// restTime is how long a node that refused a connection gets no request.
const restTime = 200 * time.Millisecond

// balancer is a plain load balancer: one node after the other, and the next one
// where a connection is refused. It knows nothing of readiness or of blobd.
type balancer struct {
	nodes     []*url.URL
	resting   []atomic.Int64 // until when, as UnixNano
	turn      atomic.Int64
	transport *http.Transport
	server    *httptest.Server
}

func newBalancer(t *testing.T, nodes []*node) *balancer {
	t.Helper()
	b := &balancer{
		resting:   make([]atomic.Int64, len(nodes)),
		transport: &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true},
	}
	for _, n := range nodes {
		u, err := url.Parse(n.url())
		must(t, err)
		b.nodes = append(b.nodes, u)
	}
	b.server = httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.Out.Host = "" }, // the node is chosen below
		Transport: b, ErrorLog: log.New(io.Discard, "", 0),
	})
	t.Cleanup(func() {
		b.server.CloseClientConnections()
		b.server.Close()
		b.transport.CloseIdleConnections()
	})
	return b
}

func (b *balancer) url() string { return b.server.URL }

// RoundTrip sends a request to the next node. Only what surely reached nobody is
// sent to another.
func (b *balancer) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	first := int(b.turn.Add(1))
	var refused error
	for i := range 2 * len(b.nodes) {
		n := (first + i) % len(b.nodes)
		if i < len(b.nodes) && time.Now().UnixNano() < b.resting[n].Load() {
			continue // unless all rest
		}
		out := r.Clone(r.Context())
		out.URL.Scheme, out.URL.Host = b.nodes[n].Scheme, b.nodes[n].Host
		out.Body = io.NopCloser(bytes.NewReader(body))
		resp, err := b.transport.RoundTrip(out)
		var dial *net.OpError
		if !errors.As(err, &dial) || dial.Op != "dial" {
			return resp, err
		}
		b.resting[n].Store(time.Now().Add(restTime).UnixNano())
		refused = err
	}
	return nil, refused
}
