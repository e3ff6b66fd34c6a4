package postgres

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// Interleavings of orders with what they forbid, each in both orders: either sees
// the other, or came before it.
func TestOrderLocks(t *testing.T) {
	b := newBench(t)
	for name, test := range map[string]func(*testing.T, *bench){
		"an erasure waits for a hold and keeps what it covers":             fenceAgainstHold,
		"a hold waits for an erasure and comes too late":                   holdAgainstFence,
		"a fence of a closed scope waits for a hold and is refused":        fenceClosedAgainstHold,
		"a drop waits for a hold and keeps what it covers":                 dropAgainstHold,
		"a hold waits for a drop and comes too late":                       holdAgainstDrop,
		"a sweep waits for a hold and keeps what it covers":                expireAgainstHold,
		"a hold waits for a sweep and comes too late":                      holdAgainstExpire,
		"the fence of a tenant waits for a hold and closes it":             tenantFenceAgainstHold,
		"a put waits for a closing of its subject and is refused":          putAgainstClosing,
		"a closing of a subject waits for a put, whose row is then in it":  closingAgainstPut,
		"a put waits for a restriction and is refused":                     putAgainstRestriction,
		"a restriction waits for a put and covers its row":                 restrictionAgainstPut,
		"a put waits for a suppression and is refused":                     putAgainstSuppression,
		"a lift waits for a deferral, which is then due":                   liftAgainstDefer,
		"a deferral waits for a lift and is due at once":                   deferAgainstLift,
		"a deferral waits for a policy and is due at once":                 deferAgainstPolicy,
		"a denial waits for a claim and is refused":                        denialAgainstClaim,
		"erasures that close at once do not stop each other":               closingsAtOnce,
		"a put of another tenant does not wait for an order":               putBesideOrder,
		"of two last approvals one goes on, and the other changes nothing": approvalsAtOnce,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, b)
		})
	}
}

var (
	person = hash("subject", 1)
	other  = hash("subject", 2)
)

func ordered(id string, kind ledger.OrderKind, s ledger.Scope) ledger.Order {
	s.Tenant = acme
	return ledger.Order{ID: id, Kind: kind, Scope: s, PlacedAt: noon, PlacedBy: "counsel"}
}

func wholeOf(x int) ledger.Scope { return ledger.Scope{Tag: tagOf(x)} }

// placing runs an order up to its COMMIT.
func placing(o ledger.Order) func(context.Context, *tx) error {
	o.Scope = storedScope(o.Scope)
	return func(ctx context.Context, x *tx) error {
		return placeOrder(ctx, x, o, entry(ledger.EntryOrder), new(ledger.Order), new(ledger.Record))
	}
}

func order(t testing.TB, l *Ledger, o ledger.Order) {
	t.Helper()
	_, _, err := l.PlaceOrder(t.Context(), o, entry(ledger.EntryOrder))
	must(t, err)
}

func lift(l *Ledger, id string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, _, err := l.LiftOrder(ctx, ledger.Lift{Tenant: acme, Kind: ledger.OrderHold, ID: id, At: noon.Add(time.Minute)}, entry(ledger.EntryOrder))
		return err
	}
}

// captureOf is a put with subjects.
func captureOf(x, n int, subjects ...[32]byte) ledger.Capture {
	c := capture(x, n)
	c.Subjects = subjects
	return c
}

// wide is an erasure of a scope that only closes.
func wide(id string, s ledger.Scope) ledger.Fence {
	s.Tenant = acme
	return ledger.Fence{ID: id, Scope: s, RequestedBy: "asker", At: noon, RunAt: noon, Closed: []ledger.Entry{entry(ledger.EntryErasure)}}
}

// passingOver asks for an erasure of a wider scope and claims it.
func passingOver(t testing.TB, l *Ledger, s ledger.Scope) ledger.Job {
	t.Helper()
	_, _, err := l.Fence(t.Context(), wide("wide", s))
	must(t, err)
	return claimAt(t, l, noon)
}

func claimAt(t testing.TB, l *Ledger, at time.Time) ledger.Job {
	t.Helper()
	j, err := l.Claim(t.Context(), "worker", at, at.Add(time.Hour))
	must(t, err)
	return j
}

func dropOf(limit int) ledger.Drop {
	return ledger.Drop{At: noon, Limit: limit, Entry: func([]ledger.DueRow) (ledger.Entry, error) { return entry(ledger.EntryErasure), nil }}
}

func stateOf(t testing.TB, l *Ledger, x, n int) *ledger.Blob {
	t.Helper()
	v, err := l.Lookup(t.Context(), tagOf(x), []blobd.Ref{refOf(n)})
	must(t, err)
	if v.Blobs[0] == nil {
		t.Fatal("no row")
	}
	return v.Blobs[0]
}

// kept looks at a row that still has its key, or has lost it.
func kept(t testing.TB, l *Ledger, x, n int, want bool) {
	t.Helper()
	b := stateOf(t, l, x, n)
	if have := b.WrappedKey != nil; have != want {
		t.Fatalf("the row has its key: %v, want %v: %+v", have, want, b)
	}
}

func fenceAgainstHold(t *testing.T, b *bench) {
	l := b.withTenant(t, Options{})
	put(t, l, 1, 1)
	open := begun(t, l, placing(ordered("hold", ledger.OrderHold, wholeOf(1))))
	var e ledger.Erasure
	answer := later(func() (err error) { e, _, err = l.Fence(t.Context(), fenceOf(1)); return err })
	awaitWaiting(t, l.options.URL, 1)
	open.end(t)
	must(t, answer())
	if !e.Closing || e.State != ledger.ErasureRunning {
		t.Fatalf("erasure %+v", e)
	}
	kept(t, l, 1, 1, true)
}

func holdAgainstFence(t *testing.T, b *bench) {
	l := b.withTenant(t, Options{})
	put(t, l, 1, 1)
	open := begun(t, l, fencing(fenceOf(1)))
	answer := later(func() error {
		_, _, err := l.PlaceOrder(t.Context(), ordered("hold", ledger.OrderHold, wholeOf(1)), entry(ledger.EntryOrder))
		return err
	})
	awaitWaiting(t, l.options.URL, 1)
	open.end(t)
	must(t, answer())
	erasedWhole(t, l, 1, refOf(1))
}

func fenceClosedAgainstHold(t *testing.T, b *bench) {
	l := b.withTenant(t, Options{})
	put(t, l, 1, 1)
	f := fenceOf(1)
	f.GraceUntil = noon.Add(time.Minute)
	_, _, err := l.Fence(t.Context(), f)
	must(t, err)
	j := claimAt(t, l, noon.Add(time.Minute))
	open := begun(t, l, placing(ordered("hold", ledger.OrderHold, wholeOf(1))))
	answer := later(func() error { _, _, err := l.FenceClosed(t.Context(), j.Lease, noon, nil); return err })
	awaitWaiting(t, l.options.URL, 1)
	open.end(t)
	refused(t, answer(), blobd.ErrHeld)
	kept(t, l, 1, 1, true)
}

func dropAgainstHold(t *testing.T, b *bench) {
	l := b.withTenant(t, Options{})
	put(t, l, 1, 1)
	put(t, l, 2, 2)
	j := passingOver(t, l, ledger.Scope{Class: "reasoning"})
	open := begun(t, l, placing(ordered("hold", ledger.OrderHold, wholeOf(1))))
	var done ledger.Dropped
	answer := later(func() (err error) { done, err = l.Drop(t.Context(), j.Lease, dropOf(10)); return err })
	awaitWaiting(t, l.options.URL, 1)
	open.end(t)
	must(t, answer())
	if len(done.Dropped) != 1 || len(done.Kept) != 1 || done.Kept[0].Tag != tagOf(1) || done.Kept[0].Verdict != ledger.VerdictHeld {
		t.Fatalf("dropped %+v", done)
	}
	kept(t, l, 1, 1, true)
	kept(t, l, 2, 2, false)
}

func holdAgainstDrop(t *testing.T, b *bench) {
	l := b.withTenant(t, Options{})
	put(t, l, 1, 1)
	j := passingOver(t, l, ledger.Scope{Class: "reasoning"})
	open := begun(t, l, func(ctx context.Context, x *tx) error { _, err := drop(ctx, x, j.Lease, dropOf(10)); return err })
	answer := later(func() error {
		_, _, err := l.PlaceOrder(t.Context(), ordered("hold", ledger.OrderHold, wholeOf(1)), entry(ledger.EntryOrder))
		return err
	})
	awaitWaiting(t, l.options.URL, 1)
	open.end(t)
	must(t, answer())
	kept(t, l, 1, 1, false)
}

// expiring starts a sweep of a row that is past its maximum.
func expiring(t *testing.T, l *Ledger) (ledger.SweepLease, ledger.Expiry) {
	t.Helper()
	must(t, l.SetPolicy(t.Context(), ledger.Policy{
		Tenant: acme, Class: "reasoning", At: noon, Existing: true, Rule: ledger.Rule{Maximum: ledger.Period{Time: time.Second}},
	}, entry(ledger.EntryPolicy)))
	_, err := l.StartSweep(t.Context(), ledger.NewSweep{ID: "sweep", Tenant: acme, RunAt: noon, Entry: entry(ledger.EntrySweep)})
	must(t, err)
	j, err := l.ClaimSweep(t.Context(), "worker", noon.Add(time.Hour), noon.Add(2*time.Hour))
	must(t, err)
	return j.Lease, ledger.Expiry{
		Rows:  []ledger.Position{{Tag: tagOf(1), Ref: refOf(1)}},
		Entry: func([]ledger.DueRow) (ledger.Entry, error) { return entry(ledger.EntrySweep), nil },
	}
}

func hourLater() time.Time { return noon.Add(time.Hour) }

func expireAgainstHold(t *testing.T, b *bench) {
	l := b.withTenant(t, Options{Now: hourLater})
	put(t, l, 1, 1)
	lease, expiry := expiring(t, l)
	open := begun(t, l, placing(ordered("hold", ledger.OrderHold, ledger.Scope{Class: "reasoning"})))
	var expired []ledger.DueRow
	answer := later(func() (err error) { expired, err = l.Expire(t.Context(), lease, expiry); return err })
	awaitWaiting(t, l.options.URL, 1)
	open.end(t)
	must(t, answer())
	if len(expired) != 0 {
		t.Fatalf("expired %+v", expired)
	}
	kept(t, l, 1, 1, true)
	if !stateOf(t, l, 1, 1).Held {
		t.Fatal("a row past its maximum is not told as held")
	}
}

func holdAgainstExpire(t *testing.T, b *bench) {
	l := b.withTenant(t, Options{Now: hourLater})
	put(t, l, 1, 1)
	lease, expiry := expiring(t, l)
	open := begun(t, l, func(ctx context.Context, x *tx) error {
		return expireBatch(ctx, x, lease, expiry, new([]ledger.DueRow))
	})
	answer := later(func() error {
		_, _, err := l.PlaceOrder(t.Context(), ordered("hold", ledger.OrderHold, wholeOf(1)), entry(ledger.EntryOrder))
		return err
	})
	awaitWaiting(t, l.options.URL, 1)
	open.end(t)
	must(t, answer())
	kept(t, l, 1, 1, false)
}

func tenantFenceAgainstHold(t *testing.T, b *bench) {
	l := b.withTenant(t, Options{})
	put(t, l, 1, 1)
	open := begun(t, l, placing(ordered("hold", ledger.OrderHold, wholeOf(1))))
	var e ledger.Erasure
	answer := later(func() (err error) { e, _, err = l.Fence(t.Context(), tenantFence()); return err })
	awaitWaiting(t, l.options.URL, 1)
	open.end(t)
	must(t, answer())
	tenant, err := l.Tenant(t.Context(), acme)
	must(t, err)
	if !e.Closing || tenant.Fenced() {
		t.Fatalf("erasure %+v of %+v", e, tenant)
	}
	if got := stateOf(t, l, 1, 1); got.Closed != ledger.ClosedErasure {
		t.Fatalf("the row is closed by %d", got.Closed)
	}
}

func putAgainstClosing(t *testing.T, b *bench) {
	l := b.withTenant(t, Options{})
	put(t, l, 1, 1)
	open := begun(t, l, fencing(wide("wide", ledger.Scope{Subjects: [][32]byte{person}})))
	answer := committing(t, l, captureOf(1, 2, other, person))
	awaitWaiting(t, l.options.URL, 1)
	open.end(t)
	refused(t, answer(), blobd.ErrClosed)
	put(t, l, 1, 3) // of nobody
}

func closingAgainstPut(t *testing.T, b *bench) {
	l := b.withTenant(t, Options{})
	open := begun(t, l, putting(l, captureOf(1, 1, person)))
	answer := later(func() error {
		_, _, err := l.Fence(t.Context(), wide("wide", ledger.Scope{Subjects: [][32]byte{person}}))
		return err
	})
	awaitWaiting(t, l.options.URL, 1)
	open.end(t)
	must(t, answer())
	if got := stateOf(t, l, 1, 1); got.Closed != ledger.ClosedErasure {
		t.Fatalf("the row is closed by %d", got.Closed)
	}
	done, err := l.Drop(t.Context(), claimAt(t, l, noon).Lease, dropOf(10))
	must(t, err)
	if len(done.Dropped) != 1 {
		t.Fatalf("dropped %+v", done)
	}
}

func putAgainstRestriction(t *testing.T, b *bench) {
	l := b.withTenant(t, Options{})
	put(t, l, 1, 1)
	open := begun(t, l, placing(ordered("order", ledger.OrderRestriction, wholeOf(1))))
	answer := committing(t, l, capture(1, 2))
	awaitWaiting(t, l.options.URL, 1)
	open.end(t)
	refused(t, answer(), blobd.ErrRestricted)
}

func restrictionAgainstPut(t *testing.T, b *bench) {
	l := b.withTenant(t, Options{})
	open := begun(t, l, putting(l, capture(1, 1)))
	answer := later(func() error {
		_, _, err := l.PlaceOrder(t.Context(), ordered("order", ledger.OrderRestriction, wholeOf(1)), entry(ledger.EntryOrder))
		return err
	})
	awaitWaiting(t, l.options.URL, 1)
	open.end(t)
	must(t, answer())
	if got := stateOf(t, l, 1, 1); got.Closed != ledger.ClosedRestricted {
		t.Fatalf("the row is closed by %d", got.Closed)
	}
}

func putAgainstSuppression(t *testing.T, b *bench) {
	l := b.withTenant(t, Options{})
	open := begun(t, l, placing(ordered("order", ledger.OrderSuppression, ledger.Scope{Subjects: [][32]byte{person}})))
	answer := committing(t, l, captureOf(1, 1, person))
	awaitWaiting(t, l.options.URL, 1)
	open.end(t)
	refused(t, answer(), blobd.ErrSuppressed)
}

// heldBack is an erasure whose pass kept a row under a hold.
func heldBack(t *testing.T, l *Ledger) ledger.Job {
	t.Helper()
	put(t, l, 1, 1)
	order(t, l, ordered("hold", ledger.OrderHold, wholeOf(1)))
	j := passingOver(t, l, ledger.Scope{Class: "reasoning"})
	done, err := l.Drop(t.Context(), j.Lease, dropOf(10))
	must(t, err)
	if len(done.Kept) != 1 {
		t.Fatalf("dropped %+v", done)
	}
	return j
}

func liftAgainstDefer(t *testing.T, b *bench) {
	l := b.withTenant(t, Options{})
	j := heldBack(t, l)
	open := begun(t, l, func(ctx context.Context, x *tx) error {
		return deferUntil(ctx, x, j.Lease, noon.Add(24*time.Hour), ledger.Progress{}, nil)
	})
	answer := later(func() error { return lift(l, "hold")(t.Context()) })
	awaitWaiting(t, l.options.URL, 1)
	open.end(t)
	must(t, answer())
	claimAt(t, l, noon.Add(time.Minute))
}

func deferAgainstLift(t *testing.T, b *bench) {
	l := b.withTenant(t, Options{})
	j := heldBack(t, l)
	open := begun(t, l, func(_ context.Context, x *tx) error {
		x.tenantAlone(acme)
		liftOrder(x, ledger.Lift{ID: "hold", At: noon.Add(time.Minute)})
		x.wakeDeferred(acme, noon.Add(time.Minute))
		return nil
	})
	answer := later(func() error { return l.Defer(t.Context(), j.Lease, noon.Add(24*time.Hour), ledger.Progress{}, nil) })
	awaitWaiting(t, l.options.URL, 1)
	open.end(t)
	must(t, answer())
	claimAt(t, l, noon.Add(time.Minute))
}

func deferAgainstPolicy(t *testing.T, b *bench) {
	l := b.withTenant(t, Options{})
	j := heldBack(t, l)
	must(t, l.SetPolicy(t.Context(), ledger.Policy{
		Tenant: acme, Class: "other", At: noon.Add(time.Minute), Rule: ledger.DefaultRule(),
	}, entry(ledger.EntryPolicy)))
	must(t, l.Defer(t.Context(), j.Lease, noon.Add(24*time.Hour), ledger.Progress{}, nil))
	claimAt(t, l, noon.Add(time.Minute))
}

func denialAgainstClaim(t *testing.T, b *bench) {
	l := b.withTenant(t, Options{})
	put(t, l, 1, 1)
	f := fenceOf(1)
	f.GraceUntil = noon.Add(time.Minute)
	_, _, err := l.Fence(t.Context(), f)
	must(t, err)
	open := begun(t, l, func(_ context.Context, x *tx) error {
		claim(x, new(bool), new(ledger.Job), "worker", noon.Add(time.Minute), noon.Add(time.Hour))
		return nil
	})
	answer := later(func() error {
		_, _, err := l.Decide(t.Context(), ledger.Decision{Tenant: acme, ID: f.ID, Act: ledger.ActDeny, By: "dpo", At: noon.Add(time.Minute)})
		return err
	})
	awaitWaiting(t, l.options.URL, 1)
	open.end(t)
	refused(t, answer(), blobd.ErrConflict)
	if got := stateOf(t, l, 1, 1); got.Closed != ledger.ClosedErasure {
		t.Fatalf("the row is closed by %d", got.Closed)
	}
}

func closingsAtOnce(t *testing.T, b *bench) {
	l := b.withTenant(t, Options{})
	order(t, l, ordered("hold", ledger.OrderHold, ledger.Scope{Class: "reasoning"}))
	const n = 8
	for x := range n {
		put(t, l, x, x)
	}
	var wg sync.WaitGroup
	for x := range n {
		wg.Go(func() {
			e, _, err := l.Fence(context.Background(), fenceOf(x))
			if err != nil || !e.Closing {
				t.Errorf("erasure %+v: %v", e, err)
			}
		})
	}
	wg.Wait()
}

func putBesideOrder(t *testing.T, b *bench) {
	l := b.withTenant(t, Options{})
	must(t, l.CreateTenant(t.Context(), ledger.Tenant{ID: "beta", CreatedAt: noon}, ledger.Entry{Tenant: "beta", Kind: ledger.EntryTenant}))
	open := begun(t, l, func(_ context.Context, x *tx) error { x.tenantAlone(acme); return nil }) // what an order holds while it decides
	c := capture(2, 2)
	c.Tenant = "beta"
	_, err := l.Commit(t.Context(), c)
	must(t, err)
	open.finish()
}

func approvalsAtOnce(t *testing.T, b *bench) {
	l := b.withTenant(t, Options{})
	put(t, l, 1, 1)
	f := fenceOf(1)
	f.RequestedBy, f.Approvals = "asker", 1
	_, rec, err := l.Fence(t.Context(), f)
	must(t, err)
	if rec.Seq != 0 {
		t.Fatalf("record %+v", rec)
	}
	decide := func(by string) func() error {
		return later(func() error {
			_, _, err := l.Decide(t.Context(), ledger.Decision{Tenant: acme, ID: f.ID, Act: ledger.ActApprove, By: by, At: noon, RunAt: noon})
			return err
		})
	}
	one, two := decide("one"), decide("one")
	must(t, one())
	must(t, two())
	erasedWhole(t, l, 1, refOf(1))
	late := decide("two")
	refused(t, late(), blobd.ErrConflict)
}
