package api_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/api"
	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/resolver"
	"github.com/blobd/blobd/store"
)

// cut sends bytes as they are, closes its side, and reads the answer.
func (e *env) cut(request string) *http.Response {
	e.t.Helper()
	return e.exchange(request, true)
}

// raw sends bytes as they are, and reads the answer. Its side stays open: the
// server takes a closed one for a caller that went away.
func (e *env) raw(request string) *http.Response {
	e.t.Helper()
	return e.exchange(request, false)
}

func (e *env) exchange(request string, closes bool) *http.Response {
	e.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(e.url, "http://"))
	must(e.t, err)
	e.t.Cleanup(func() { _ = conn.Close() })
	_, err = io.WriteString(conn, strings.ReplaceAll(request, "TOKEN", e.tokens["runtime"]))
	must(e.t, err)
	if closes {
		must(e.t, conn.(*net.TCPConn).CloseWrite())
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	must(e.t, err)
	return resp
}

func readBody(t *testing.T, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	must(t, err)
	return string(b)
}

// A body that ends before its announced length stores nothing.
func TestShortBody(t *testing.T) {
	e := newEnv(t)
	const head = "POST /v1/executions/x/blobs HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer TOKEN\r\n"
	for name, rest := range map[string]string{
		"sized":   "Content-Length: 100\r\n\r\nshort",
		"chunked": "Transfer-Encoding: chunked\r\n\r\n64\r\nshort",
	} {
		resp := e.cut(head + rest)
		if body := readBody(t, resp); resp.StatusCode != http.StatusBadRequest || !strings.Contains(body, `"code":"invalid"`) {
			t.Errorf("%s: %d %s", name, resp.StatusCode, body)
		}
	}
	if s, err := e.ledger.Stats(t.Context()); err != nil || s.Blobs != 0 {
		t.Errorf("a short body left %+v, %v", s, err)
	}
	resp := e.raw(head + "Transfer-Encoding: chunked\r\n\r\n5\r\nwhole\r\n0\r\n\r\n")
	if body := readBody(t, resp); resp.StatusCode != http.StatusCreated || !strings.Contains(body, `"size":5`) {
		t.Errorf("a whole chunked body: %d %s", resp.StatusCode, body)
	}
}

// A body of unknown length is held to the limit while it is read; one of a known
// length is refused before.
func TestBodyLimits(t *testing.T) {
	e := newEnv(t, func(c *api.Config) { c.MaxBlob = 10_000 })
	send := func(size int, chunked bool) answer {
		var body io.Reader = strings.NewReader(strings.Repeat("x", size))
		if chunked {
			body = io.MultiReader(body) // hides its length
		}
		r, err := http.NewRequestWithContext(t.Context(), "POST", e.url+"/v1/executions/x/blobs", body)
		must(t, err)
		r.Header.Set("Authorization", "Bearer "+e.tokens["runtime"])
		return e.send(r)
	}
	for _, chunked := range []bool{false, true} {
		a := send(10_000, chunked)
		if a.status >= 300 {
			t.Errorf("chunked %t: a blob of the limit: %d %s", chunked, a.status, a.body)
		}
		send(10_001, chunked).want(t, http.StatusRequestEntityTooLarge, wire.CodeTooLarge)
	}
}

// stuckCore is a core whose puts wait, fail or panic as told.
type stuckCore struct {
	api.Core
	put func(context.Context, store.PutRequest) (store.Stored, error)
}

func (s stuckCore) Put(ctx context.Context, r store.PutRequest) (store.Stored, error) {
	return s.put(ctx, r)
}

// A panic is answered and logged without its value, and the server goes on.
func TestPanic(t *testing.T) {
	e := newEnv(t, func(c *api.Config) {
		inner := c.Store
		c.Store = stuckCore{inner, func(ctx context.Context, r store.PutRequest) (store.Stored, error) {
			if r.ExecutionID == "panic" {
				panic(errors.New(string(r.Text.Bytes())))
			}
			return inner.Put(ctx, r)
		}}
	})
	e.ask("runtime", "POST", "/v1/executions/panic/blobs", canaryText).want(t, http.StatusInternalServerError, wire.CodeInternal)
	if !strings.Contains(e.logs.String(), `"msg":"panic"`) {
		t.Error("the panic is not in the log")
	}
	refuseCanaries(t, "the log", e.logs.String(), e)
	e.ask("runtime", "POST", "/v1/executions/x/blobs", canaryText).want(t, http.StatusCreated, "")
	if m := string(e.ask("", "GET", "/metrics", "").body); !strings.Contains(m, "blobd_http_requests_in_flight 1") {
		t.Error("a panicked request is still counted as in flight")
	}
}

// An error that wraps both what is definite and what is not is not definite.
func TestIndefiniteWins(t *testing.T) {
	var answerWith error
	e := newEnv(t, func(c *api.Config) {
		c.Store = stuckCore{c.Store, func(context.Context, store.PutRequest) (store.Stored, error) { return store.Stored{}, answerWith }}
	})
	for _, err := range unclear() {
		answerWith = err
		a := e.ask("runtime", "POST", "/v1/executions/x/blobs", "x")
		a.want(t, http.StatusServiceUnavailable, wire.CodeUnavailable)
		if strings.Contains(string(a.body), "inner detail") {
			t.Errorf("the answer tells the inside: %s", a.body)
		}
	}
}

// Metrics name routes, never what was asked for.
func TestMetrics(t *testing.T) {
	e := newEnv(t)
	s := e.put("secret-execution", canaryText)
	e.ask("runtime", "GET", "/v1/executions/secret-execution/blobs/"+anyRef, "").want(t, http.StatusNotFound, wire.CodeNull)
	e.ask("runtime", "GET", "/nothing/secret-path", "")
	m := string(e.ask("", "GET", "/metrics", "").body)
	for _, want := range []string{
		`blobd_http_requests_total{method="POST",route="/v1/executions/{executionId}/blobs",status="201"} 1`,
		`blobd_http_requests_total{method="GET",route="/v1/executions/{executionId}/blobs/{ref}",status="404"} 1`,
		`blobd_http_requests_total{method="any",route="none",status="404"} 1`,
		`blobd_http_request_duration_seconds_count{method="POST",route="/v1/executions/{executionId}/blobs"} 1`,
		"blobd_ledger_up 1", "blobd_blobs 1", "blobd_bytes 37", "blobd_store_puts_total 1", "go_goroutines", "process_open_fds",
	} {
		if !strings.Contains(m, want) {
			t.Errorf("no %s in the metrics", want)
		}
	}
	refuseCanaries(t, "the metrics", m, e)
	for _, never := range []string{"secret-execution", "secret-path", s.Ref, s.Digest} {
		if strings.Contains(m, never) {
			t.Errorf("the metrics hold %s", never)
		}
		if strings.Contains(e.logs.String(), never) && never != s.Ref {
			t.Errorf("the log holds %s", never)
		}
	}
	hidden := newEnv(t, func(c *api.Config) { c.HideMetrics = true })
	hidden.ask("", "GET", "/metrics", "").want(t, http.StatusNotFound, wire.CodeNoSuchRoute)
}

func TestDocs(t *testing.T) {
	e := newEnv(t)
	a := e.ask("", "GET", "/docs", "")
	a.want(t, http.StatusOK, "")
	if !strings.HasPrefix(a.header.Get("Content-Type"), "text/html") || !strings.Contains(a.header.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Errorf("headers = %v", a.header)
	}
	if strings.Contains(string(a.body), "://") {
		t.Error("the page fetches from elsewhere")
	}
}

// Request ids differ, and no answer is without one.
func TestRequestIDs(t *testing.T) {
	e := newEnv(t)
	seen := make(map[string]bool)
	for _, path := range []string{"/livez", "/readyz", "/nothing", "/v1/tokens", "/docs", "/openapi.json", "/metrics", "/livez"} {
		id := e.ask("", "GET", path, "", wire.HeaderRequestID, "mine").header.Get(wire.HeaderRequestID)
		if len(id) != 32 || seen[id] {
			t.Errorf("%s: request id %q", path, id)
		}
		seen[id] = true
	}
}

var (
	_ api.Core   = (*store.Store)(nil)
	_ api.Reader = (*resolver.Resolver)(nil)
	_ api.Ledger = ledger.Ledger(nil)
)

// unclear are errors of which nobody can tell what happened.
func unclear() []error {
	wrap := func(a, b error) error { return fmt.Errorf("inner detail: %w: %w", a, b) }
	return []error{
		errors.New("inner detail"), blobd.ErrDenied, context.DeadlineExceeded,
		wrap(blobd.ErrUnavailable, blobd.ErrConflict), wrap(blobd.ErrNotFound, blobd.ErrUnavailable),
		wrap(blobd.ErrErased, context.DeadlineExceeded),
	}
}

func TestServerHasEveryTimeout(t *testing.T) {
	s := api.Server(newEnv(t).api)
	if s.ReadHeaderTimeout != 10*time.Second || s.MaxHeaderBytes != 64<<10 || s.ReadTimeout == 0 || s.WriteTimeout <= s.ReadTimeout || s.IdleTimeout == 0 {
		t.Errorf("timeouts = %v %v %v %v", s.ReadHeaderTimeout, s.ReadTimeout, s.WriteTimeout, s.IdleTimeout)
	}
}

// A client that sends before it reads gets the refusal, not a reset: the rest of
// its body is heard out.
func TestARefusedClientMaySendItsBodyFirst(t *testing.T) {
	e := newEnv(t)
	const size = 8 << 20 // more than a connection buffers
	for name, c := range map[string]struct {
		path, token string
		status      int
	}{
		"no token":  {"/v1/executions/x/blobs", "", http.StatusUnauthorized},
		"bad class": {"/v1/executions/x/blobs?class=A", "TOKEN", http.StatusBadRequest},
		"no route":  {"/v1/nothing", "TOKEN", http.StatusNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			e.t = t
			resp := e.raw("POST " + c.path + " HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer " + c.token +
				fmt.Sprintf("\r\nContent-Length: %d\r\n\r\n", size) + strings.Repeat("x", size))
			if resp.StatusCode != c.status {
				t.Errorf("%d, want %d", resp.StatusCode, c.status)
			}
		})
	}
}
