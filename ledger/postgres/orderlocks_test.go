package postgres

import (
	"context"
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
		"an erasure waits for a hold and keeps what it covers": fenceAgainstHold,
		"a hold waits for an erasure and comes too late":       holdAgainstFence,
		"a sweep waits for a hold and keeps what it covers":    expireAgainstHold,
		"a hold waits for a sweep and comes too late":          holdAgainstExpire,
		"the fence of a tenant waits for a hold and closes it": tenantFenceAgainstHold,
		"a put waits for a restriction and is refused":         putAgainstRestriction,
		"a restriction waits for a put and covers its row":     restrictionAgainstPut,
		"a put waits for a suppression and is refused":         putAgainstSuppression,
		"a put of another tenant does not wait for an order":   putBesideOrder,
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
