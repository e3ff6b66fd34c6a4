package client_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/blobd/blobd/api"
	"github.com/blobd/blobd/api/wire"
	backendmem "github.com/blobd/blobd/backends/mem"
	"github.com/blobd/blobd/client"
	"github.com/blobd/blobd/evidence"
	"github.com/blobd/blobd/keys"
	keymem "github.com/blobd/blobd/keys/mem"
	ledgermem "github.com/blobd/blobd/ledger/mem"
	"github.com/blobd/blobd/resolver"
	"github.com/blobd/blobd/retention"
	"github.com/blobd/blobd/store"
)

// server is a real server over drivers in memory, behind a front that a test
// can make misbehave.
type server struct {
	url    string
	token  string
	front  atomic.Pointer[func(http.ResponseWriter, *http.Request, http.Handler)]
	finish func()
}

func newServer(t *testing.T) *server {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	var ahead atomic.Int64 // how far the clock was moved
	now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	l, objects := ledgermem.New(now), backendmem.New(now)
	core := store.New(store.Config{
		Ledger: l, Objects: objects, Keys: keys.NewCore(keymem.New(rand.Reader), keys.Options{}),
		Journal: evidence.NewJournal(l, objects), Now: now, Random: rand.Reader, PutMargin: time.Second, Log: log,
	})
	must(t, core.Start(t.Context()))
	_, err := core.CreateTenant(t.Context(), "default", "")
	must(t, err)
	s := new(server)
	s.token, _, err = core.CreateToken(t.Context(), store.NewToken{Tenant: "default", Roles: wire.Roles()})
	must(t, err)
	a, err := api.New(api.Config{
		Store: core, Ledger: l, Now: now, Random: rand.Reader, Log: log,
		Resolver: resolver.New(core, l, resolver.Options{Now: now, Random: rand.Reader, Log: log}),
	})
	must(t, err)
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f := s.front.Load(); f != nil {
			(*f)(w, r, a)
			return
		}
		a.ServeHTTP(w, r)
	}))
	t.Cleanup(h.Close)
	s.url = h.URL
	runner := retention.NewErasures(core, l, "test", now, log)
	s.finish = func() {
		for range 3 {
			ahead.Add(int64(time.Minute))
			if _, err := runner.RunOne(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (s *server) client(t *testing.T, tune ...func(*client.Options)) *client.Client {
	t.Helper()
	o := client.Options{Server: s.url + "/", Token: s.token}
	for _, f := range tune {
		f(&o)
	}
	c, err := client.New(o)
	must(t, err)
	return c
}

const text = "what a model thought: é\r\n"

func TestWholeLife(t *testing.T) {
	s := newServer(t)
	c := s.client(t)
	ctx := t.Context()
	for _, execution := range []string{"run/1", "..x", "a b?c#d%", "-"} {
		stored, created, err := c.Put(ctx, execution, client.Put{
			StepID: "turn:1", Attempt: 2, Class: "notes", Kind: "summary", Provider: "p", Model: "m", Text: []byte(text),
			Subjects: []string{"ann@example.org", "zoë \"z\""}, Audience: []wire.Principal{{Tenant: "default", Actor: "ann"}},
		})
		must(t, err)
		if !created || stored.ExecutionID != execution || stored.Size != int64(len(text)) {
			t.Errorf("stored = %+v, %t", stored, created)
		}
		if _, err := c.Resolve(ctx, execution, stored.Ref, client.Resolve{}); !errors.Is(err, client.ErrNull) {
			t.Errorf("resolved for nobody: %v", err)
		}
		blob, err := c.Resolve(ctx, execution, stored.Ref, client.Resolve{
			StepID: "s", Origin: "o", Digest: stored.Digest, Principal: &wire.Principal{Tenant: "default", Actor: "ann"},
		})
		must(t, err)
		if string(blob.Bytes) != text || blob.Digest != stored.Digest || blob.Kind != "summary" || blob.Class != "notes" {
			t.Errorf("blob = %+v", blob)
		}
	}
	part := wire.TextOf([]byte(text))
	captured, err := c.Capture(ctx, "x", wire.CaptureRequest{StepID: "s", Reasoning: []wire.Reasoning{{Kind: "text", Text: &part}, {Kind: "redacted"}}})
	must(t, err)
	resolved, err := c.ResolveBatch(ctx, "x", wire.ResolveRequest{Parts: []wire.ResolvePart{{Ref: captured.Parts[0].TextRef}}})
	must(t, err)
	if resolved.FirstHole != nil || string(resolved.Parts[0].Text.Bytes()) != text {
		t.Errorf("resolved = %+v", resolved)
	}
	read, err := c.Read(ctx, "x", wire.ReadRequest{Purpose: "test", Events: []wire.CapturedEvent{*captured.Event}})
	must(t, err)
	if len(read.Parts) != 2 || read.Parts[0].Status != "ok" || string(read.Parts[0].Content.Text.Bytes()) != text {
		t.Errorf("read = %+v", read)
	}
	summary, err := c.Execution(ctx, "x")
	must(t, err)
	if summary.Blobs != 1 {
		t.Errorf("execution = %+v", summary)
	}
	x := "x"
	q := wire.EraseRequest{Scope: &wire.Scope{ExecutionID: &x}, Reason: "test"}
	plan, err := c.PlanErasure(ctx, q)
	must(t, err)
	started, err := c.Erase(ctx, q, "")
	must(t, err)
	if plan != started.Plan || plan.Blobs != 1 {
		t.Errorf("plan = %+v, erasure's %+v", plan, started.Plan)
	}
	if _, err := c.Resolve(ctx, "x", captured.Parts[0].TextRef, client.Resolve{}); !errors.Is(err, client.ErrNull) {
		t.Errorf("after the fence: %v", err)
	}
	calls := 0
	done, err := c.WaitErased(ctx, started.ID, func(wire.Erasure) {
		if calls == 0 {
			s.finish()
		}
		calls++
	})
	must(t, err)
	if done.State != "erased" || calls < 2 {
		t.Errorf("erasure = %+v after %d calls", done, calls)
	}
	if _, _, err := c.Put(ctx, "x", client.Put{Text: []byte("new")}); client.CodeOf(err) != wire.CodeExecutionErased {
		t.Errorf("a put after the erasure: %v", err)
	}
	if _, err := c.Ready(ctx); err != nil {
		t.Error(err)
	}
}

func TestAdministration(t *testing.T) {
	s := newServer(t)
	c := s.client(t)
	ctx := t.Context()
	if _, err := c.CreateTenant(ctx, "acme"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.CreateTenant(ctx, "acme"); client.CodeOf(err) != wire.CodeConflict {
		t.Errorf("twice: %v", err)
	}
	acme := s.client(t, func(o *client.Options) { o.Tenant = "acme" })
	token, err := acme.CreateToken(ctx, wire.NewToken{Roles: []string{"runtime"}}, "key")
	must(t, err)
	same, err := acme.CreateToken(ctx, wire.NewToken{Roles: []string{"runtime"}}, "key")
	must(t, err)
	if same.Secret != token.Secret || token.Tenant != "acme" {
		t.Errorf("token = %+v, then %+v", token.Token, same.Token)
	}
	page, err := acme.Tokens(ctx, client.Page{Limit: 1})
	must(t, err)
	tenants, err := c.Tenants(ctx, client.Page{Limit: 1})
	must(t, err)
	if len(page.Items) != 1 || page.Next != nil || len(tenants.Items) != 1 || tenants.Next == nil {
		t.Errorf("tokens = %+v, tenants = %+v", page, tenants)
	}
	must(t, acme.RevokeToken(ctx, token.ID))
	revoked := s.client(t, func(o *client.Options) { o.Token = token.Secret })
	if _, _, err := revoked.Put(ctx, "x", client.Put{}); client.CodeOf(err) != wire.CodeUnauthenticated {
		t.Errorf("a revoked token: %v", err)
	}
}

// Only the server itself makes a null.
func TestForeignAnswersAreNoNull(t *testing.T) {
	s := newServer(t)
	c := s.client(t, func(o *client.Options) { o.RetryFor = -1 })
	stored, _, err := c.Put(t.Context(), "x", client.Put{Text: []byte(text)})
	must(t, err)
	id := func(w http.ResponseWriter) { w.Header().Set(wire.HeaderRequestID, "r") }
	for name, f := range map[string]func(http.ResponseWriter){
		"bare 404":            func(w http.ResponseWriter) { w.WriteHeader(404) },
		"404 of a proxy":      func(w http.ResponseWriter) { http.Error(w, "default backend", 404) },
		"404 of a route":      func(w http.ResponseWriter) { id(w); w.WriteHeader(404); fmt.Fprint(w, `{"code":"no_such_route"}`) },
		"404 resolution none": func(w http.ResponseWriter) { w.Header().Set(wire.HeaderResolution, "none"); w.WriteHeader(404) },
		"200 of a proxy":      func(w http.ResponseWriter) { fmt.Fprint(w, "hello") },
		"redirect":            func(w http.ResponseWriter) { w.Header().Set("Location", "/"); w.WriteHeader(302) },
		"another text": func(w http.ResponseWriter) {
			id(w)
			w.Header().Set("Repr-Digest", "sha-256=:AAAA:")
			fmt.Fprint(w, "other")
		},
	} {
		front := func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { f(w) }
		s.front.Store(&front)
		blob, err := c.Resolve(t.Context(), "x", stored.Ref, client.Resolve{})
		if err == nil || errors.Is(err, client.ErrNull) || blob.Bytes != nil {
			t.Errorf("%s: %+v, %v", name, blob, err)
		}
	}
}

// What may be repeated is, until it succeeds; what may not is sent once.
func TestRetries(t *testing.T) {
	s := newServer(t)
	c := s.client(t, func(o *client.Options) { o.Tenant = "default" })
	var sent atomic.Int64
	keys := make(chan string, 10)
	broken := func(lose bool) func(http.ResponseWriter, *http.Request, http.Handler) {
		return func(w http.ResponseWriter, r *http.Request, h http.Handler) {
			keys <- r.Header.Get(wire.HeaderIdempotencyKey)
			switch {
			case sent.Add(1) > 1:
				h.ServeHTTP(w, r)
			case lose: // it acts, and its answer is lost
				h.ServeHTTP(httptest.NewRecorder(), r)
				panic(http.ErrAbortHandler)
			default:
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}
	}
	for _, lose := range []bool{true, false} {
		front := broken(lose)
		s.front.Store(&front)
		sent.Store(0)
		if _, _, err := c.Put(t.Context(), "x", client.Put{Text: []byte(text)}); err != nil || sent.Load() != 2 {
			t.Errorf("lose %t: put: %v after %d", lose, err, sent.Load())
		}
		sent.Store(0)
		if _, err := c.CreateTenant(t.Context(), "acme"); err == nil || sent.Load() != 1 {
			t.Errorf("lose %t: tenant: %v after %d", lose, err, sent.Load())
		}
	}
	s.front.Store(nil)
	for len(keys) > 0 {
		<-keys
	}
	front := broken(true)
	s.front.Store(&front)
	sent.Store(0)
	x := "gone"
	if _, err := c.Erase(t.Context(), wire.EraseRequest{Scope: &wire.Scope{ExecutionID: &x}, Reason: "r"}, ""); err != nil {
		t.Fatal(err)
	}
	if first, second := <-keys, <-keys; first == "" || first != second {
		t.Errorf("keys %q and %q", first, second)
	}
	s.front.Store(nil)
	list, err := c.Erasures(t.Context(), client.Page{})
	must(t, err)
	if len(list.Items) != 1 {
		t.Errorf("%d erasures of one request", len(list.Items))
	}
}

func TestOptions(t *testing.T) {
	for _, server := range []string{"", "localhost:8080", "ftp://h", "http://", "http://u:p@h", "http://h?x=1"} {
		if _, err := client.New(client.Options{Server: server}); err == nil {
			t.Errorf("%q is accepted", server)
		}
	}
}

// An error says nothing of what was sent.
func TestErrorsAreMute(t *testing.T) {
	s := newServer(t)
	c := s.client(t, func(o *client.Options) { o.RetryFor = -1 })
	_, _, err := c.Put(t.Context(), "x", client.Put{Text: []byte(text), Class: "WRONG", Subjects: []string{"ann@example.org"}})
	if client.CodeOf(err) != wire.CodeInvalid {
		t.Fatalf("err = %v", err)
	}
	for _, secret := range []string{s.token, text, "ann@example.org"} {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("%v holds %q", err, secret)
		}
	}
}
