package api_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/api"
	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/backends"
	backendmem "github.com/blobd/blobd/backends/mem"
	"github.com/blobd/blobd/evidence"
	"github.com/blobd/blobd/keys"
	keymem "github.com/blobd/blobd/keys/mem"
	"github.com/blobd/blobd/ledger"
	ledgermem "github.com/blobd/blobd/ledger/mem"
	"github.com/blobd/blobd/resolver"
	"github.com/blobd/blobd/retention"
	"github.com/blobd/blobd/store"
)

// Canaries: what must never appear where it does not belong.
const (
	canaryText    = "CANARY-text-that-only-its-reader-sees"
	canarySubject = "canary.subject@example.org"
	canaryPurpose = "canary purpose of a person"
)

// clock is a clock that a test moves.
type clock struct {
	mu  sync.Mutex
	t   time.Time     // guarded by mu
	ran time.Duration // guarded by mu; how much time passed, whatever the clock said
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t, c.ran = c.t.Add(d), c.ran+d
}

// jump sets the clock where no time passes.
func (c *clock) jump(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

func (c *clock) elapsed() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ran
}

// gate makes a ledger or a store fail while it is shut.
type gate struct {
	mu  sync.Mutex
	err error // guarded by mu
}

func (g *gate) shut(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.err = err
}

func (g *gate) check() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

// gatedLedger fails what the API and the core ask most while its gate is shut.
type gatedLedger struct {
	ledger.Ledger
	gate *gate
	// reports fails the listings of reports.
	reports *gate
	later   *gate // of pages after the first
	// onFence is called inside every fence.
	onFence func()
}

func (l gatedLedger) TokenByHash(ctx context.Context, h [32]byte) (ledger.Token, error) {
	if err := l.gate.check(); err != nil {
		return ledger.Token{}, err
	}
	return l.Ledger.TokenByHash(ctx, h)
}

func (l gatedLedger) Lookup(ctx context.Context, tag blobd.ExecutionTag, refs []blobd.Ref) (ledger.View, error) {
	if err := l.gate.check(); err != nil {
		return ledger.View{}, err
	}
	return l.Ledger.Lookup(ctx, tag, refs)
}

func (l gatedLedger) Check(ctx context.Context) error {
	if err := l.gate.check(); err != nil {
		return err
	}
	return l.Ledger.Check(ctx)
}

func (l gatedLedger) Fence(ctx context.Context, f ledger.Fence) (ledger.Erasure, ledger.Record, error) {
	if l.onFence != nil {
		l.onFence()
	}
	if err := l.gate.check(); err != nil {
		return ledger.Erasure{}, ledger.Record{}, err
	}
	return l.Ledger.Fence(ctx, f)
}

func (l gatedLedger) ListErasures(ctx context.Context, q ledger.ErasureQuery) ([]ledger.Erasure, error) {
	if err := l.reports.check(); err != nil {
		return nil, err
	}
	if err := l.later.check(); err != nil && q.Before != (ledger.ErasureCursor{}) {
		return nil, err
	}
	return l.Ledger.ListErasures(ctx, q)
}

func (l gatedLedger) ListOrders(ctx context.Context, q ledger.OrderQuery) ([]ledger.Order, error) {
	if err := l.reports.check(); err != nil {
		return nil, err
	}
	return l.Ledger.ListOrders(ctx, q)
}

// env is a whole server over drivers in memory.
type env struct {
	t       *testing.T
	clock   *clock
	gate    *gate // of the ledger
	reports *gate // of its listings
	later   *gate // of their pages after the first
	ledger  ledger.Ledger
	objects backends.Store
	store   *store.Store
	api     *api.API
	url     string
	logs    *lockedBuffer
	tokens  map[string]string // by role, and "all"
	onFence func()
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func newEnv(t *testing.T, tune ...func(*api.Config)) *env {
	t.Helper()
	e := &env{
		t: t, clock: &clock{t: time.Now().UTC()}, gate: new(gate), reports: new(gate), later: new(gate), logs: new(lockedBuffer), tokens: make(map[string]string),
	}
	e.ledger = gatedLedger{ledgermem.New(e.clock.now), e.gate, e.reports, e.later, func() {
		if e.onFence != nil {
			e.onFence()
		}
	}}
	e.objects = backendmem.New(e.clock.now)
	log := slog.New(slog.NewJSONHandler(e.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	ring := keymem.New(rand.Reader)
	core := keys.NewCore(ring, keys.Options{})
	e.store = store.New(store.Config{
		Ledger: e.ledger, Objects: e.objects, Keys: core, Journal: evidence.NewJournal(e.ledger, e.objects),
		Now: e.clock.now, Random: rand.Reader, PutMargin: store.DefaultPutMargin, Log: log,
		ClockWatch: ledger.NewWatch(time.Hour, 7*24*time.Hour, e.clock.elapsed),
	})
	must(t, e.store.Start(t.Context()))
	if _, err := e.store.CreateTenant(t.Context(), "default", ""); err != nil {
		t.Fatal(err)
	}
	config := api.Config{
		Store:    e.store,
		Resolver: resolver.New(e.store, e.ledger, resolver.Options{Now: e.clock.now, Random: rand.Reader, Log: log}),
		Ledger:   e.ledger, Keys: core.Stats, Now: e.clock.now, Random: rand.Reader, Log: log, Version: "test",
	}
	for _, f := range tune {
		f(&config)
	}
	var err error
	e.api, err = api.New(config)
	must(t, err)
	server := httptest.NewUnstartedServer(nil)
	server.Config = api.Server(e.api)
	server.Start()
	t.Cleanup(server.Close)
	e.url = server.URL
	for _, role := range wire.Roles() {
		e.tokens[role] = e.newToken("default", role)
	}
	e.tokens["all"] = e.newToken("default", wire.Roles()...)
	return e
}

func (e *env) newToken(tenant string, roles ...string) string {
	e.t.Helper()
	secret, _, err := e.store.CreateToken(e.t.Context(), store.NewToken{Tenant: tenant, Name: "test", Roles: roles})
	must(e.t, err)
	return secret
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// runErasures runs the second half of every erasure to its end.
func (e *env) runErasures() {
	e.t.Helper()
	runner := retention.NewErasures(e.store, e.ledger, "test", e.clock.now, slog.New(slog.DiscardHandler))
	for range 3 {
		e.clock.add(time.Minute)
		for {
			again, err := runner.RunOne(e.t.Context())
			must(e.t, err)
			if !again {
				break
			}
		}
	}
}

// answer is an answer read whole.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a answer) problem(t *testing.T) wire.Problem {
	t.Helper()
	var p wire.Problem
	if got := a.header.Get("Content-Type"); got != wire.TypeProblem {
		t.Fatalf("status %d: Content-Type = %q, want a problem; body %s", a.status, got, a.body)
	}
	must(t, json.Unmarshal(a.body, &p))
	return p
}

func (a answer) into(t *testing.T, v any) {
	t.Helper()
	if err := json.Unmarshal(a.body, v); err != nil {
		t.Fatalf("%v: %s", err, a.body)
	}
}

// ask sends a request with a token's role, "" for none. Headers are pairs.
func (e *env) ask(role, method, path, body string, headers ...string) answer {
	e.t.Helper()
	r, err := http.NewRequestWithContext(e.t.Context(), method, e.url+path, strings.NewReader(body))
	must(e.t, err)
	if role != "" {
		token := role
		if known, ok := e.tokens[role]; ok {
			token = known
		}
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return e.send(r)
}

func (e *env) send(r *http.Request) answer {
	e.t.Helper()
	transport := &http.Transport{DisableCompression: true}
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(r)
	must(e.t, err)
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	must(e.t, err)
	return answer{resp.StatusCode, resp.Header, b}
}

// want checks a status and, for problems, the code.
func (a answer) want(t *testing.T, status int, code wire.Code) {
	t.Helper()
	if a.status != status {
		t.Fatalf("status = %d, want %d %s; body %s", a.status, status, code, a.body)
	}
	if code != "" {
		if p := a.problem(t); p.Code != code || p.Status != status {
			t.Fatalf("problem = %s (%d), want %s (%d); detail %q", p.Code, p.Status, code, status, p.Detail)
		}
	}
}

func (e *env) put(execution, text string, headers ...string) wire.Stored {
	e.t.Helper()
	a := e.ask("runtime", "POST", "/v1/executions/"+execution+"/blobs", text, headers...)
	if a.status != http.StatusCreated && a.status != http.StatusOK {
		e.t.Fatalf("put: %d %s", a.status, a.body)
	}
	var s wire.Stored
	a.into(e.t, &s)
	return s
}

// forget removes an object behind the server's back.
func (e *env) forget(name string) {
	e.t.Helper()
	_, err := e.objects.Erase(e.t.Context(), backends.Scope{Names: []string{name}})
	must(e.t, err)
}
