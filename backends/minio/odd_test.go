package minio_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/blobd/blobd/backends/minio"
	"github.com/blobd/blobd/internal/servers"
)

// between stands between a store and a real server. answer may answer in the
// server's place, or change what is asked; it returns whether it answered.
type between struct {
	*httptest.Server
	server http.Handler
	answer atomic.Pointer[odd]
}

type odd func(w http.ResponseWriter, r *http.Request) bool

// strange returns a store on a new bucket of a MinIO, through something that
// passes everything on until told otherwise.
func strange(t *testing.T) (*minio.Store, *between, *servers.S3, string) {
	t.Helper()
	server := servers.MinIO(t, servers.MinIOOptions{})
	bucket := unique()
	server.Bucket(t, bucket, servers.Bucket{})
	b := inFrontOf(t, server)
	o := options(server, bucket)
	o.Endpoint, o.RetryFor = b.URL, 2*time.Second
	return open(t, o), b, server, bucket
}

func inFrontOf(t *testing.T, server *servers.S3) *between {
	t.Helper()
	target, err := url.Parse(server.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	b := &between{server: &httputil.ReverseProxy{
		Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true},
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host // it is signed
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}}
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if answer := b.answer.Load(); answer == nil || !(*answer)(w, r) {
			b.server.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(b.Close)
	return b
}

// with has answers from now on; nil: only the server answers.
func (b *between) with(answer odd) {
	if answer == nil {
		b.answer.Store(nil)
		return
	}
	b.answer.Store(&answer)
}

// gives answers everything with a status and a body.
func gives(status int, body string) odd {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		if len(body) > 0 && body[0] == '<' {
			w.Header().Set("Content-Type", "application/xml")
		}
		w.WriteHeader(status)
		_, _ = fmt.Fprint(w, body)
		return true
	}
}

// to answers only requests of a method, and with a query's name if one is given.
func to(method, query string, answer odd) odd {
	return func(w http.ResponseWriter, r *http.Request) bool {
		return r.Method == method && (query == "" || r.URL.Query().Has(query)) && answer(w, r)
	}
}

// once answers the first time only.
func once(answer odd) odd {
	var before atomic.Bool
	return func(w http.ResponseWriter, r *http.Request) bool { return !before.Swap(true) && answer(w, r) }
}

func xmlError(code string) string {
	return `<?xml version="1.0" encoding="UTF-8"?><Error><Code>` + code + `</Code><Message>m</Message><RequestId>1</RequestId></Error>`
}

// loses lets the server act, and hands nothing of its answer on.
func (b *between) loses(_ http.ResponseWriter, r *http.Request) bool {
	b.server.ServeHTTP(httptest.NewRecorder(), r)
	panic(http.ErrAbortHandler)
}

// cuts hands half of an answer on, without saying how long it should be.
func (b *between) cuts(w http.ResponseWriter, r *http.Request) bool {
	whole := httptest.NewRecorder()
	b.server.ServeHTTP(whole, r)
	for name, values := range whole.Header() {
		if name != "Content-Length" {
			w.Header()[name] = values
		}
	}
	w.WriteHeader(whole.Code)
	_, _ = w.Write(whole.Body.Bytes()[:whole.Body.Len()/2])
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}
