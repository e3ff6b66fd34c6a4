package postgres

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// counter counts the round trips of a ledger.
type counter struct{ queries, batches atomic.Int64 }

func (c *counter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.queries.Add(1)
	return ctx
}
func (c *counter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (c *counter) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	c.batches.Add(1)
	return ctx
}
func (c *counter) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (c *counter) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

// counted has a ledger's statements counted from now on.
func counted(t *testing.T, l *Ledger) *counter {
	t.Helper()
	c := new(counter)
	config := l.pool.Config()
	config.ConnConfig.Tracer = c
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	must(t, err)
	l.pool.Close()
	l.pool = pool
	return c
}

// TestOrdersCostReadsLittle counts what a resolve and a put ask. What covers nothing of
// them costs them nothing; what may cover them costs a resolve one statement more.
func TestOrdersCostReadsLittle(t *testing.T) {
	b := newBench(t)
	l := b.withTenant(t, Options{Now: hourLater})
	put(t, l, 1, 1)
	c := counted(t, l)
	lookup := func() ledger.View {
		v, err := l.Lookup(t.Context(), tagOf(1), []blobd.Ref{refOf(1)})
		must(t, err)
		return v
	}
	step := func(what string, queries int64) {
		t.Helper()
		lookup() // who asks first learns the types
		c.queries.Store(0)
		c.batches.Store(0)
		if v := lookup(); v.Blobs[0].Held || v.Blobs[0].Closed != 0 {
			t.Errorf("%s: the row is told as covered: %+v", what, v.Blobs[0])
		}
		if got := c.queries.Load(); got != queries {
			t.Errorf("%s: a resolve asks %d statements, want %d", what, got, queries)
		}
		before := c.batches.Load()
		_, err := l.Commit(t.Context(), capture(1, 1))
		must(t, err)
		if got := c.batches.Load() - before; got != 2 {
			t.Errorf("%s: a put takes %d round trips, want 2", what, got)
		}
	}
	step("without orders", 1)
	order(t, l, ordered("suppression", ledger.OrderSuppression, ledger.Scope{Subjects: [][32]byte{person}}))
	step("with a suppression", 1)
	order(t, l, ordered("hold", ledger.OrderHold, wholeOf(1)))
	step("with a hold", 1)
	order(t, l, ordered("restriction", ledger.OrderRestriction, ledger.Scope{Class: "other"}))
	step("with a restriction of something else", 2)
	_, _, err := l.LiftOrder(t.Context(), ledger.Lift{Tenant: acme, Kind: ledger.OrderRestriction, ID: "restriction", At: noon}, entry(ledger.EntryOrder))
	must(t, err)
	step("with a restriction that was lifted", 1)
	must(t, l.SetPolicy(t.Context(), ledger.Policy{
		Tenant: acme, Class: "reasoning", At: noon, Existing: true, Rule: ledger.Rule{Maximum: ledger.Period{Time: time.Second}},
	}, entry(ledger.EntryPolicy)))
	c.queries.Store(0)
	if v := lookup(); !v.Blobs[0].Held || c.queries.Load() != 2 {
		t.Errorf("past its maximum a held row is told as %+v by %d statements", v.Blobs[0], c.queries.Load())
	}
}

// TestWhatTheJournalBringsBackKeepsATenant lets a record of a hold come back into a
// tenant that was fenced: no key is dropped while it covers something.
func TestWhatTheJournalBringsBackKeepsATenant(t *testing.T) {
	b := newBench(t)
	l := b.withTenant(t, Options{})
	put(t, l, 1, 1)
	_, _, err := l.Fence(t.Context(), tenantFence())
	must(t, err)
	o := ordered("hold", ledger.OrderHold, wholeOf(1))
	r := ledger.RecordOf(&o, time.Time{})
	r.Seq, r.Writes = 70, 1
	must(t, l.Replay(t.Context(), []ledger.Record{r}))
	j := claimAt(t, l, noon)
	_, _, err = l.DropKeys(t.Context(), j.Lease, 10)
	refused(t, err, blobd.ErrHeld)
	_, _, err = l.LiftOrder(t.Context(), ledger.Lift{Tenant: acme, Kind: ledger.OrderHold, ID: "hold", At: noon}, entry(ledger.EntryOrder))
	must(t, err)
	p, more, err := l.DropKeys(t.Context(), j.Lease, 10)
	must(t, err)
	if p.Blobs != 1 || more {
		t.Fatalf("plan %+v, more %v", p, more)
	}
}
