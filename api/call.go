package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/api/wire"
)

// call is one request on its way. One goroutine owns it; it is pooled, so
// nothing may keep it.
type call struct {
	w   http.ResponseWriter
	r   *http.Request
	rt  *boundRoute
	who caller
	id  string // of the request

	executionID string
	query       [maxQuery]string // values of rt.query, in its order
	status      int              // of the answer, once it began
	offboards   bool             // the tenant of the call

	share share // of memory
	asked int64 // what the share was asked for: it may be cut
	kept  int64 // of it, what stays when the share is changed
}

// ServeHTTP answers every path: with a route, or with a problem. It never
// redirects: a path that is not spelled as a route is not one.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h[headerCacheControl] = a.shared.noStore
	h[headerContentTypeOptions] = a.shared.nosniff
	h[wire.HeaderRequestID] = []string{a.requestID()}
	if !plainPath(r) {
		a.noSuchRoute.serve(w, r)
		return
	}
	a.mux.ServeHTTP(w, r)
}

// plainPath reports whether the mux would take the path as it is.
func plainPath(r *http.Request) bool {
	p := r.URL.EscapedPath()
	if p == "" || p[0] != '/' {
		return false
	}
	for i := 0; i < len(p); i++ {
		if p[i] != '/' {
			continue
		}
		rest := p[i+1:]
		switch {
		case rest == "":
		case rest[0] == '/':
			return false
		case rest[0] == '.' && (len(rest) == 1 || rest[1] == '/'):
			return false
		case len(rest) > 1 && rest[0] == '.' && rest[1] == '.' && (len(rest) == 2 || rest[2] == '/'):
			return false
		}
	}
	return true
}

// serve takes one request along the one path.
func (rt *boundRoute) serve(w http.ResponseWriter, r *http.Request) {
	a := rt.api
	start := a.Now()
	c := a.calls.Get().(*call)
	*c = call{w: w, r: r, rt: rt, id: w.Header()[wire.HeaderRequestID][0]}
	rt.figures.begin()
	defer func() {
		took := a.Now().Sub(start)
		c.letGo()
		rt.figures.end(c.status, took)
		a.logCall(c, took)
		*c = call{}
		a.calls.Put(c)
	}()
	defer func() {
		if v := recover(); v != nil {
			a.recovered(c, v)
		}
	}()
	if err := a.run(c); err != nil {
		c.letGo() // a refused client may be heard out for long
		a.fail(c, err)
		c.hearOut()
	}
}

// A refused request may still be sending its body, and a client that sends does
// not read: if the connection were closed now it would see a reset and not the
// answer. So the rest is read and thrown away, up to a size and a time.
const (
	hearOutBytes = 64 << 20
	hearOutTime  = 5 * time.Second
)

func (c *call) hearOut() {
	if c.r.ContentLength == 0 {
		return
	}
	rc := http.NewResponseController(c.w)
	if rc.Flush() != nil || rc.SetReadDeadline(time.Now().Add(hearOutTime)) != nil {
		return // the writer of a test, or a connection that is gone
	}
	_, _ = io.CopyN(io.Discard, c.r.Body, hearOutBytes)
}

// run identifies, checks the role, checks what the URL says, and acts.
func (a *API) run(c *call) error {
	rt := c.rt
	if rt.roles == 0 {
		return rt.act(a, c)
	}
	if err := a.identify(c); err != nil {
		return err
	}
	if rt.act == nil {
		return refuse(wire.CodeNotImplemented, "this version does not have this route yet")
	}
	if rt.needs != nil {
		if err := rt.needs(a); err != nil {
			return err
		}
	}
	if rt.namesExecution {
		if err := c.readExecutionID(); err != nil {
			return err
		}
	}
	if err := c.readQuery(); err != nil {
		return err
	}
	if rt.request != nil { // the time begins when the body is read
		return rt.act(a, c)
	}
	if rt.method != http.MethodGet {
		return a.withoutBody(c, func() error { return rt.act(a, c) })
	}
	return c.inTime(func() error { return rt.act(a, c) })
}

// inTime bounds what the request waits for, unless the core does.
func (c *call) inTime(act func() error) error {
	if c.rt.ownDeadline {
		return act()
	}
	ctx, cancel := context.WithTimeout(c.r.Context(), requestTimeout)
	defer cancel()
	c.r = c.r.WithContext(ctx)
	return act()
}

// fail answers an error. What is not the caller's fault is logged under the
// request id; the answer says nothing of the inside.
func (a *API) fail(c *call, err error) {
	p := a.errors.classify(err)
	k := a.errors.kinds[p.code]
	a.metrics.alarm(p.code)
	if errors.Is(err, blobd.ErrSuppressed) {
		a.metrics.suppressed.Inc()
	}
	if k.status >= http.StatusInternalServerError && p.code != wire.CodeNotImplemented {
		a.logFailure(c, p, err)
	}
	if c.status != 0 { // the answer began: all that is left is to break it off
		panic(http.ErrAbortHandler)
	}
	a.writeProblem(c, k, p, refsOf(err))
}

func (a *API) logFailure(c *call, p *problem, err error) {
	level := slog.LevelWarn
	switch {
	case errors.Is(err, context.Canceled) && c.r.Context().Err() != nil:
		level = slog.LevelDebug // the caller went away
	case p.code != wire.CodeUnavailable:
		level = slog.LevelError // an alarm
	}
	a.Log.LogAttrs(c.r.Context(), level, "request failed",
		slog.String("requestId", c.id), slog.String("route", c.rt.pattern), slog.String("code", string(p.code)),
		slog.String("error", err.Error()))
}

// recovered answers a panic. Its value may hold what the request held: only its
// type is logged, unless the runtime made it.
func (a *API) recovered(c *call, v any) {
	if v == http.ErrAbortHandler { //nolint:errorlint // the value itself is the signal
		panic(v)
	}
	what := fmt.Sprintf("%T", v)
	if e, ok := v.(runtime.Error); ok {
		what = e.Error()
	}
	a.Log.LogAttrs(c.r.Context(), slog.LevelError, "panic",
		slog.String("requestId", c.id), slog.String("route", c.rt.pattern), slog.String("panic", what),
		slog.String("stack", string(debug.Stack())))
	if c.status != 0 {
		panic(http.ErrAbortHandler)
	}
	p := &problem{wire.CodeInternal, "the server failed; what the request did is not known"}
	a.metrics.alarm(p.code)
	a.writeProblem(c, a.errors.kinds[p.code], p, nil)
}

func (a *API) logCall(c *call, took time.Duration) {
	if !a.Log.Enabled(c.r.Context(), slog.LevelDebug) {
		return
	}
	a.Log.LogAttrs(c.r.Context(), slog.LevelDebug, "request",
		slog.String("requestId", c.id), slog.String("method", c.r.Method), slog.String("route", c.rt.pattern),
		slog.Int("status", c.status), slog.Duration("took", took))
}

func (a *API) writeProblem(c *call, k kind, p *problem, refs []string) {
	a.writeProblemChecks(c, k, p, refs, nil)
}

func (a *API) writeProblemChecks(c *call, k kind, p *problem, refs []string, checks []wire.Check) {
	body, err := json.Marshal(&wire.Problem{
		Type: wire.ProblemTypePrefix + string(p.code), Title: k.title, Status: k.status, Code: p.code,
		Detail: p.detail, RequestID: c.id, Refs: refs, Checks: checks,
	})
	if err != nil {
		body = nil // strings of ours always marshal
	}
	h := c.w.Header()
	switch p.code {
	case wire.CodeUnauthenticated:
		h["Www-Authenticate"] = []string{"Bearer"}
	case wire.CodeUnavailable, wire.CodeRateLimited:
		h[headerRetryAfter] = []string{"1"}
	case wire.CodeNull:
		h[wire.HeaderResolution] = []string{wire.ResolutionNull}
	case wire.CodeCorrupt:
		h[wire.HeaderResolution] = []string{wire.ResolutionCorrupt}
	}
	c.write(k.status, a.shared.problem, body)
}

// write sends a whole answer of this package's own making. contentType is a
// shared value.
func (c *call) write(status int, contentType []string, body []byte) {
	h := c.w.Header()
	h[headerContentType] = contentType
	h[headerContentLength] = []string{strconv.Itoa(len(body))}
	c.send(status, body)
}

// send writes the head and, unless the method is HEAD, the body. A failed write
// means that the caller went away: there is nobody to tell.
func (c *call) send(status int, body []byte) {
	c.status = status
	if len(body) > largeAnswer {
		c.allowWrite(int64(len(body)))
	}
	c.w.WriteHeader(status)
	if c.r.Method != http.MethodHead {
		_, _ = c.w.Write(body)
	}
}

// reply sends v as JSON.
func (c *call) reply(status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode the answer: %w: %w", blobd.ErrUnavailable, err)
	}
	c.write(status, c.rt.api.shared.json, body)
	return nil
}

// shared are header values that never change: nobody may write to them.
type shared struct {
	noStore, nosniff, json, problem, text []string
}

func newShared() shared {
	return shared{
		noStore: []string{"no-store"}, nosniff: []string{"nosniff"},
		json: []string{wire.TypeJSON}, problem: []string{wire.TypeProblem}, text: []string{"text/plain; charset=utf-8"},
	}
}
