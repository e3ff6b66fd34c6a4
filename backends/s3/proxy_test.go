package s3_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"

	"github.com/blobd/blobd/backends/s3"
	"github.com/blobd/blobd/internal/servers"
)

// proxy stands between a store and its server and may do wrong.
type proxy struct {
	*httptest.Server
	forward *httputil.ReverseProxy

	mu    sync.Mutex
	fault func(p *proxy, w http.ResponseWriter, r *http.Request) bool // guarded by mu; true: it answered
}

func newProxy(t *testing.T, server *servers.S3) *proxy {
	t.Helper()
	target, err := url.Parse(server.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DisableKeepAlives: true, DisableCompression: true}
	p := &proxy{forward: &httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = target.Scheme, target.Host
			r.Out.Host = r.In.Host // it is signed
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}}
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Server.Close)
	return p
}

// ServeHTTP lets the fault answer, or the server.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	fault := p.fault
	p.mu.Unlock()
	if fault == nil || !fault(p, w, r) {
		p.forward.ServeHTTP(w, r)
	}
}

// does sets the fault; nil: none any more.
func (p *proxy) does(fault func(p *proxy, w http.ResponseWriter, r *http.Request) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = fault
}

// through returns options that go through a proxy.
func through(p *proxy, o s3.Options) s3.Options {
	o.Endpoint = p.URL
	return o
}

// says answers with a status and a body.
func says(status int, contentType, body string) func(*proxy, http.ResponseWriter, *http.Request) bool {
	return func(_ *proxy, w http.ResponseWriter, r *http.Request) bool {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
		return true
	}
}

func errorXML(code string) string {
	return fmt.Sprintf(`<?xml version="1.0" encoding="UTF-8"?><Error><Code>%s</Code><Message>m</Message><RequestId>r</RequestId></Error>`, code)
}

// of restricts a fault to a kind of request.
func of(method, query string, fault func(*proxy, http.ResponseWriter, *http.Request) bool) func(*proxy, http.ResponseWriter, *http.Request) bool {
	return func(p *proxy, w http.ResponseWriter, r *http.Request) bool {
		return r.Method == method && (query == "" || r.URL.Query().Has(query)) && fault(p, w, r)
	}
}

// first restricts a fault to the first n requests that meet it.
func first(n int, fault func(*proxy, http.ResponseWriter, *http.Request) bool) func(*proxy, http.ResponseWriter, *http.Request) bool {
	var mu sync.Mutex
	return func(p *proxy, w http.ResponseWriter, r *http.Request) bool {
		mu.Lock()
		n--
		now := n >= 0
		mu.Unlock()
		return now && fault(p, w, r)
	}
}

// dropped lets the server act and loses its answer.
func dropped(p *proxy, _ http.ResponseWriter, r *http.Request) bool {
	p.forward.ServeHTTP(httptest.NewRecorder(), r)
	panic(http.ErrAbortHandler)
}

// cut lets the server answer without a length and breaks off after n bytes.
func cut(n int) func(*proxy, http.ResponseWriter, *http.Request) bool {
	return func(p *proxy, w http.ResponseWriter, r *http.Request) bool {
		answer := httptest.NewRecorder()
		p.forward.ServeHTTP(answer, r)
		for name, values := range answer.Header() {
			if name != "Content-Length" {
				w.Header()[name] = values
			}
		}
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes()[:n])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}
