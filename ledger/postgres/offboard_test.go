package postgres

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// The fence of a whole tenant against what another node has in hand, in both
// orders.
func TestTenantLocks(t *testing.T) {
	b := newBench(t)
	for name, test := range map[string]func(*testing.T, *bench){
		"a put waits for the fence of its tenant and is erased":        putAgainstTenantFence,
		"a first put waits for it too, and makes nothing":              firstPutAgainstTenantFence,
		"the fence of a tenant waits for a put and erases what it put": tenantFenceAgainstPut,
		"a put waits for a fence of its tenant that is undone":         putAgainstUndoneTenantFence,
		"another tenant does not wait":                                 besideTenantFence,
		"a token waits for the fence of its tenant and is refused":     tokenAgainstTenantFence,
		"the fence of a tenant waits for an epoch, which ends":         tenantFenceAgainstEpoch,
		"its time does not grow with what the tenant has":              tenantFenceTouchesOneRow,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, b)
		})
	}
}

func tenantFence() ledger.Fence {
	f := fenceOf(1)
	f.Scope = ledger.Scope{Tenant: acme, Tag: tagOf(1000), WholeTenant: true}
	return f
}

// erasedTenant drops what the job drops, and looks at an execution before and
// after.
func erasedTenant(t *testing.T, l *Ledger, x int, refs ...blobd.Ref) {
	t.Helper()
	v, err := l.Lookup(t.Context(), tagOf(x), refs)
	must(t, err)
	if v.Execution.State != ledger.ExecutionErased || v.Execution.Key != nil || v.Execution.Blobs != 0 {
		t.Fatalf("execution %+v", v.Execution)
	}
	due := tenantFence().RunAt
	j, err := l.Claim(t.Context(), "worker", due, due.Add(time.Hour))
	must(t, err)
	_, more, err := l.DropKeys(t.Context(), j.Lease, 100)
	must(t, err)
	if more {
		t.Error("keys are left")
	}
	erasedWhole(t, l, x, refs...)
}

func putAgainstTenantFence(t *testing.T, b *bench) {
	l := b.withTenant(t, Options{})
	put(t, l, 1, 1)
	open := begun(t, l, fencing(tenantFence()))
	answer := committing(t, l, capture(1, 2))
	awaitWaiting(t, l.options.URL, 1)
	open.end(t)
	refused(t, answer(), blobd.ErrErased)
	erasedTenant(t, l, 1, refOf(1), refOf(2))
}

func firstPutAgainstTenantFence(t *testing.T, b *bench) {
	l := b.withTenant(t, Options{})
	open := begun(t, l, fencing(tenantFence()))
	answer := committing(t, l, capture(1, 1))
	awaitWaiting(t, l.options.URL, 1)
	open.end(t)
	refused(t, answer(), blobd.ErrTenantErased)
	v, err := l.Lookup(t.Context(), tagOf(1), []blobd.Ref{refOf(1)})
	must(t, err)
	if v.Execution != nil {
		t.Fatalf("execution %+v", v.Execution)
	}
}

func tenantFenceAgainstPut(t *testing.T, b *bench) {
	l := b.withTenant(t, Options{})
	open := begun(t, l, putting(l, capture(1, 1)))
	answer := later(func() error {
		_, _, err := l.Fence(t.Context(), tenantFence())
		return err
	})
	awaitWaiting(t, l.options.URL, 1)
	open.end(t)
	must(t, answer())
	erasedTenant(t, l, 1, refOf(1))
}

func putAgainstUndoneTenantFence(t *testing.T, b *bench) {
	l := b.withTenant(t, Options{})
	open := begun(t, l, fencing(tenantFence()))
	answer := committing(t, l, capture(1, 1))
	awaitWaiting(t, l.options.URL, 1)
	open.finish()
	must(t, answer())
	tenant, err := l.Tenant(t.Context(), acme)
	must(t, err)
	if tenant.Fenced() {
		t.Fatal("the tenant is fenced")
	}
}

func besideTenantFence(t *testing.T, b *bench) {
	l := b.withTenant(t, Options{})
	must(t, l.CreateTenant(t.Context(), ledger.Tenant{ID: "beta", CreatedAt: time.Now()}, ledger.Entry{Tenant: "beta", Kind: ledger.EntryTenant}))
	open := begun(t, l, func(_ context.Context, x *tx) error { // what a fence holds while it decides
		sc := newScope(tenantFence().Scope, false)
		sc.lock(x, false)
		sc.read(x, true)
		return nil
	})
	c := capture(2, 2)
	c.Tenant = "beta"
	_, err := l.Commit(t.Context(), c)
	must(t, err)
	v, err := l.Lookup(t.Context(), tagOf(2), []blobd.Ref{refOf(2)})
	must(t, err)
	if v.Execution.State != ledger.ExecutionOpen || v.Blobs[0] == nil {
		t.Fatalf("view %+v", v)
	}
	open.finish()
}

func tokenAgainstTenantFence(t *testing.T, b *bench) {
	l := b.withTenant(t, Options{})
	open := begun(t, l, fencing(tenantFence()))
	answer := later(func() error {
		return l.CreateToken(t.Context(), ledger.Token{ID: "t", Tenant: acme, CreatedAt: time.Now()},
			ledger.Entry{Tenant: acme, Kind: ledger.EntryToken})
	})
	awaitWaiting(t, l.options.URL, 1)
	open.end(t)
	refused(t, answer(), blobd.ErrTenantErased)
}

func tenantFenceAgainstEpoch(t *testing.T, b *bench) {
	l := b.withTenant(t, Options{})
	now := time.Now()
	_, err := l.StartEpoch(t.Context(), ledger.NewEpoch{ID: "e", Tenant: acme, At: now, Entry: ledger.Entry{Tenant: acme, Kind: ledger.EntryKeys}})
	must(t, err)
	j, err := l.ClaimEpoch(t.Context(), "worker", now, now.Add(time.Hour))
	must(t, err)
	open := begun(t, l, func(ctx context.Context, x *tx) error { _, err := heldEpoch(ctx, x, j.Lease); return err })
	answer := later(func() error {
		_, _, err := l.Fence(t.Context(), tenantFence())
		return err
	})
	awaitWaiting(t, l.options.URL, 1)
	open.end(t)
	must(t, answer())
	if err := l.MoveEpoch(t.Context(), j.Lease, ledger.EpochMove{To: ledger.EpochRotating, From: 1, Due: now}); !errors.Is(err, blobd.ErrConflict) {
		t.Fatalf("the worker goes on: %v", err)
	}
}

// tenantFenceTouchesOneRow looks at how the server runs what a fence asks and
// changes, over ten thousand executions: none of their rows.
func tenantFenceTouchesOneRow(t *testing.T, b *bench) {
	l := b.withTenant(t, Options{})
	c := session(t, l.options.URL)
	do(t, c, `INSERT INTO executions (tag, tenant, id, state, reason, created_at, blobs, bytes)
		SELECT decode(md5(n::text), 'hex'), 'acme', 'x' || n, 1, 0, n, 0, 0 FROM generate_series(1, 10000) n`)
	_, _, err := l.Fence(t.Context(), tenantFence())
	must(t, err)
	var touched, left int
	must(t, c.QueryRow(t.Context(), "SELECT count(*) FILTER (WHERE state = 3), count(*) FROM executions").Scan(&touched, &left))
	if touched != 0 || left != 10000 {
		t.Errorf("%d of %d executions were changed", touched, left)
	}
	do(t, c, "ANALYZE")
	tag := tagOf(1)
	for name, q := range map[string]struct {
		sql  string
		args []any
	}{
		"keys to drop": {"SELECT tag" + keyed, []any{acme, int64(0), []byte{}, 10}},
		"earlier":      {earlierRunning, []any{tag[:], int64(1), acme}},
	} {
		for _, table := range scanned(t, c, q.sql, q.args) {
			if table == "executions" || table == "blobs" {
				t.Errorf("%s reads all of %s", name, table)
			}
		}
	}
}
