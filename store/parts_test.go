package store_test

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
	backendfaulty "github.com/blobd/blobd/backends/faulty"
	backendmem "github.com/blobd/blobd/backends/mem"
	"github.com/blobd/blobd/evidence"
	"github.com/blobd/blobd/keys"
	keysfaulty "github.com/blobd/blobd/keys/faulty"
	keysmem "github.com/blobd/blobd/keys/mem"
	"github.com/blobd/blobd/ledger"
	ledgerfaulty "github.com/blobd/blobd/ledger/faulty"
	ledgermem "github.com/blobd/blobd/ledger/mem"
	"github.com/blobd/blobd/resolver"
	"github.com/blobd/blobd/retention"
	"github.com/blobd/blobd/store"
)

const (
	tenant = "acme"
	margin = 30 * time.Second
	reason = "reasoning"
	plain  = "text/plain; charset=utf-8"
)

// clock is a clock that only a test moves.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// parts are what survives a restart.
type parts struct {
	clock   *clock
	ledger  ledger.Ledger
	objects backends.Store
	second  backends.Store // the journal's second place; nil: none
	keys    keys.Keyring
}

// memParts are parts in memory with one tenant.
func memParts(t testing.TB) *parts {
	t.Helper()
	p := bareParts()
	p.start(t).createTenant(t, tenant)
	return p
}

// bareParts are parts in memory that nobody has started yet.
func bareParts() *parts {
	c := newClock()
	return &parts{
		clock: c, ledger: ledgermem.New(c.Now), objects: backendmem.New(c.Now), second: backendmem.New(c.Now),
		keys: keysmem.New(nil),
	}
}

// node is one process over the parts. Its decorators are its own, so that a
// restart forgets every fault.
type node struct {
	*parts
	ledger   *ledgerfaulty.Ledger
	objects  *backendfaulty.Store
	second   *backendfaulty.Store
	keys     *keysfaulty.Keyring
	store    *store.Store
	resolver *resolver.Resolver
	erasures *retention.Erasures
	sweeps   *retention.Sweeps
	journal  *evidence.Journal
}

// boot builds a node and does not start it.
func (p *parts) boot() *node {
	n := &node{parts: p}
	n.ledger, n.objects, n.keys = ledgerfaulty.New(p.ledger), backendfaulty.New(p.objects), keysfaulty.New(p.keys)
	places := []backends.Store{n.objects}
	if p.second != nil {
		n.second = backendfaulty.New(p.second)
		places = append(places, n.second)
	}
	n.journal = evidence.NewJournal(n.ledger, places...)
	log := slog.New(slog.DiscardHandler)
	n.store = store.New(store.Config{
		Ledger: n.ledger, Objects: n.objects, Journal: n.journal, Now: p.clock.Now, Random: rand.Reader,
		Keys:      keys.NewCore(n.keys, keys.Options{Now: p.clock.Now}),
		PutMargin: margin, CacheBytes: 1 << 20, Log: log,
	})
	n.resolver = resolver.New(n.store, n.ledger, resolver.Options{Now: p.clock.Now, Random: rand.Reader, Log: log})
	n.erasures = retention.NewErasures(n.store, n.ledger, "node", p.clock.Now, log)
	n.sweeps = retention.NewSweeps(n.store, n.ledger, "node", retention.SweepOptions{Breaker: store.Breaker{Percent: 50, Never: 100}}, p.clock.Now, log)
	return n
}

// start builds and starts a node.
func (p *parts) start(t testing.TB) *node {
	t.Helper()
	n := p.boot()
	if err := n.store.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return n
}

func (n *node) createTenant(t testing.TB, id string) {
	t.Helper()
	if _, err := n.store.CreateTenant(t.Context(), id, ""); err != nil {
		t.Fatal(err)
	}
}

func attempt(execution string) store.Attempt {
	return store.Attempt{Tenant: tenant, ExecutionID: execution, StepID: "step", Number: 1, Provider: "p", Actor: "token"}
}

// putText asks to keep a text; the request owns its own copy of the bytes.
func (n *node) putText(ctx context.Context, execution, text string) (store.Stored, error) {
	return n.store.Put(ctx, store.PutRequest{
		Attempt: attempt(execution),
		Content: store.Content{Class: reason, Kind: blobd.KindText, ContentType: plain, Text: blobd.TextOf([]byte(text))},
	})
}

func (n *node) mustPut(t testing.TB, execution, text string) store.Stored {
	t.Helper()
	s, err := n.putText(t.Context(), execution, text)
	if err != nil {
		t.Fatalf("put: %v", err)
	}
	return s
}

// captureTexts asks to keep texts as parts of one model call.
func (n *node) captureTexts(ctx context.Context, execution string, texts ...string) ([]store.CapturedPart, error) {
	r := store.CaptureRequest{Attempt: attempt(execution), Class: reason, Keep: true}
	for _, text := range texts {
		r.Parts = append(r.Parts, store.CapturePart{Kind: blobd.KindText, Text: blobd.TextOf([]byte(text))})
	}
	return n.store.Capture(ctx, r)
}

// resolve returns the texts of refs, nil for a null.
func (n *node) resolve(ctx context.Context, execution string, refs ...blobd.Ref) ([]*string, error) {
	q := resolver.Request{Tenant: tenant, ExecutionID: execution}
	for _, ref := range refs {
		q.Wants = append(q.Wants, resolver.Want{Ref: ref})
	}
	a, err := n.resolver.Resolve(ctx, q)
	if err != nil {
		return nil, err
	}
	texts := make([]*string, len(a.Parts))
	for i, p := range a.Parts {
		if !p.Null {
			text := string(p.Text.Bytes())
			texts[i] = &text
		}
	}
	return texts, nil
}

func (n *node) wantText(t testing.TB, execution string, ref blobd.Ref, want string) {
	t.Helper()
	got, err := n.resolve(t.Context(), execution, ref)
	switch {
	case err != nil:
		t.Errorf("resolve: %v, want the text", err)
	case got[0] == nil:
		t.Error("resolve: null, want the text")
	case *got[0] != want:
		t.Errorf("resolve: %q, want %q", *got[0], want)
	}
}

func (n *node) wantNull(t testing.TB, execution string, ref blobd.Ref) {
	t.Helper()
	got, err := n.resolve(t.Context(), execution, ref)
	if err != nil {
		t.Errorf("resolve: %v, want null", err)
	} else if got[0] != nil {
		t.Errorf("resolve: %q, want null", *got[0])
	}
}

func (n *node) erase(ctx context.Context, execution string, refs ...blobd.Ref) (ledger.Erasure, error) {
	return n.store.Erase(ctx, store.EraseRequest{Tenant: tenant, ExecutionID: execution, Refs: refs, Reason: "asked", Actor: "token"})
}

func (n *node) mustErase(t testing.TB, execution string, refs ...blobd.Ref) ledger.Erasure {
	t.Helper()
	e, err := n.erase(t.Context(), execution, refs...)
	if err != nil {
		t.Fatalf("erase: %v", err)
	}
	return e
}

// runJobs runs what is due until nothing is, moving the clock past every margin
// and back-off in between.
func (n *node) runJobs(t testing.TB) {
	t.Helper()
	for range 20 {
		for {
			worked, err := n.erasures.RunOne(t.Context())
			if err != nil {
				t.Fatalf("run a job: %v", err)
			}
			if !worked {
				break
			}
		}
		if n.openErasures(t) == 0 {
			return
		}
		n.clock.advance(10 * time.Minute)
	}
	t.Fatal("erasures do not finish")
}

func (n *node) openErasures(t testing.TB) int {
	t.Helper()
	all, err := n.parts.ledger.ListErasures(t.Context(), ledger.ErasureQuery{Tenant: tenant, Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	open := 0
	for _, e := range all {
		if !e.State.Ended() {
			open++
		}
	}
	return open
}

func (n *node) tag(t testing.TB, execution string) blobd.ExecutionTag {
	t.Helper()
	tag, err := n.store.Tag(t.Context(), tenant, execution)
	if err != nil {
		t.Fatal(err)
	}
	return tag
}

// sealedObjects returns the names of an execution's objects, of all with "".
func (n *node) sealedObjects(t testing.TB, execution string) []string {
	t.Helper()
	all, err := n.parts.objects.List(t.Context(), "", "", 1000)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, o := range all {
		p, ok := backends.ParseBlobName(o.Name)
		if ok && (execution == "" || p.Execution == n.tag(t, execution)) {
			names = append(names, o.Name)
		}
	}
	return names
}

// liveRows counts the live rows of an execution.
func (n *node) liveRows(t testing.TB, execution string) int {
	t.Helper()
	rows, err := n.parts.ledger.ScanBlobs(t.Context(), ledger.Position{}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	live := 0
	for _, r := range rows {
		if r.Tag == n.tag(t, execution) && r.Blob.State == ledger.BlobLive && r.ExecutionState != ledger.ExecutionErased {
			live++
		}
	}
	return live
}

// verify is the judge: nothing may be at fault.
func (n *node) verify(t testing.TB) store.Report {
	t.Helper()
	r, err := n.store.Verify(t.Context(), store.VerifyOptions{})
	if err != nil {
		t.Fatalf("verify: %v", err)
	}
	for _, f := range r.Faults {
		t.Errorf("verify: %s of %s: %s", f.Ref, f.Execution, f.Problem)
	}
	return r
}

func wantErr(t testing.TB, got, want error) {
	t.Helper()
	if !errors.Is(got, want) || want == nil && got != nil {
		t.Errorf("error %v, want %v", got, want)
	}
}
