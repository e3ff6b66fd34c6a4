package postgres

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// Interleavings of erasures that only close their scopes, each in both orders.
func TestClosingLocks(t *testing.T) {
	b := newBench(t)
	for name, test := range map[string]func(*testing.T, *bench){
		"a fence of a closed scope waits for a hold and is refused":        fenceClosedAgainstHold,
		"a drop waits for a hold and keeps what it covers":                 dropAgainstHold,
		"a hold waits for a drop and comes too late":                       holdAgainstDrop,
		"a put waits for a closing of its subject and is refused":          putAgainstClosing,
		"a closing of a subject waits for a put, whose row is then in it":  closingAgainstPut,
		"a lift waits for a deferral, which is then due":                   liftAgainstDefer,
		"a deferral waits for a lift and is due at once":                   deferAgainstLift,
		"a deferral waits for a policy and is due at once":                 deferAgainstPolicy,
		"a denial waits for a claim and is refused":                        denialAgainstClaim,
		"erasures that close at once do not stop each other":               closingsAtOnce,
		"of two last approvals one goes on, and the other changes nothing": approvalsAtOnce,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, b)
		})
	}
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
