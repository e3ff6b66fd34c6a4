package faults

import (
	"encoding/json"
	"strings"
	"testing"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// toxic is one fault of the proxy, in its own words.
type toxic struct {
	Type       string         `json:"type"`
	Stream     string         `json:"stream"` // "upstream": what blobd sends; "downstream": what it gets
	Attributes map[string]any `json:"attributes"`
}

func upstream(kind string, attributes map[string]any) toxic {
	return toxic{kind, "upstream", attributes}
}

func downstream(kind string, attributes map[string]any) toxic {
	return toxic{kind, "downstream", attributes}
}

// proxy stands between the drivers and the relay, always at the same address.
// To change its faults it is stopped, which ends every connection, and begun
// again: toxics are not changed under a connection that works.
type proxy struct {
	t        *testing.T
	upstream string
	listen   string
	now      *toxiproxy.Proxy
}

func newProxy(t *testing.T, upstream string) *proxy {
	t.Helper()
	p := &proxy{t: t, upstream: upstream, listen: "127.0.0.1:0"}
	p.set()
	t.Cleanup(func() { p.now.Stop() })
	return p
}

// set makes the proxy one with exactly these faults, in every connection.
func (p *proxy) set(toxics ...toxic) {
	p.t.Helper()
	if p.now != nil {
		p.now.Stop()
	}
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	p.now = toxiproxy.NewProxy(server, "store", p.listen, p.upstream)
	for _, x := range toxics {
		b, err := json.Marshal(x)
		if err != nil {
			p.t.Error(err)
		}
		if _, err := p.now.Toxics.AddToxicJson(strings.NewReader(string(b))); err != nil {
			p.t.Errorf("%s: %v", b, err)
		}
	}
	if err := p.now.Start(); err != nil {
		p.t.Error(err)
	}
	p.listen = p.now.Listen
}

func (p *proxy) endpoint() string { return "http://" + p.listen }
