package postgres

import (
	"context"
	"fmt"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// Replay implements ledger.Journal. It keeps every put and fence out until it is
// done: both lock rows of the table that it locks, and neither holds anything
// that it still waits for.
func (l *Ledger) Replay(ctx context.Context, rs []ledger.Record) error {
	return l.writeAnywhere(ctx, "replay", func(ctx context.Context, x *tx) error { return replayAll(ctx, x, rs) })
}

func replayAll(ctx context.Context, x *tx, rs []ledger.Record) error {
	x.exec("LOCK TABLE executions IN EXCLUSIVE MODE")
	x.lockHead()
	var lost, own []ledger.Record
	for i, r := range rs {
		if i > 0 && r.Seq <= rs[i-1].Seq || r.Seq < 1 {
			return fmt.Errorf("record %d is out of order: %w", r.Seq, blobd.ErrInvalid)
		}
		has, gave, err := giveWay(ctx, x, r)
		if err != nil {
			return err
		}
		if !has {
			lost = append(lost, r)
			own = append(own, gave...)
		}
	}
	for _, r := range lost {
		if err := replay(ctx, x, r); err != nil {
			return fmt.Errorf("record %d: %w", r.Seq, err)
		}
	}
	return renumber(ctx, x, own)
}

// giveWay reports whether the ledger has exactly this record. A record of its
// own that stands in the way and was not published is taken out.
func giveWay(ctx context.Context, x *tx, r ledger.Record) (has bool, own []ledger.Record, err error) {
	var row recordRow
	found, published := false, false
	x.scan(&found, append(row.to(), &published), "SELECT "+recordColumns+", j.published FROM journal j WHERE j.seq = $1", r.Seq)
	if err := x.flush(ctx); err != nil || !found {
		return false, nil, err
	}
	has, err = equal(row.get(), r)
	switch {
	case err != nil || has:
		return has, nil, err
	case published:
		return false, nil, fmt.Errorf("record %d: the ledger published another one: %w", r.Seq, blobd.ErrConflict)
	}
	x.exec("DELETE FROM journal WHERE seq = $1", r.Seq)
	return false, []ledger.Record{row.get()}, nil
}

// renumber puts records that gave way behind all others.
func renumber(ctx context.Context, x *tx, own []ledger.Record) error {
	for _, r := range own {
		var made ledger.Record
		x.record(&made, r)
		if err := x.flush(ctx); err != nil {
			return err
		}
		if r.ErasureID != "" {
			x.exec("UPDATE erasures SET record = $1 WHERE id = $2 AND record = $3", made.Seq, r.ErasureID, r.Seq)
		}
		if r.OrderID != "" {
			x.exec("UPDATE orders SET record = $1 WHERE id = $2 AND record = $3", made.Seq, r.OrderID, r.Seq)
		}
	}
	return nil
}

// replay applies a lost record.
func replay(ctx context.Context, x *tx, r ledger.Record) error {
	if err := reapply(ctx, x, r); err != nil {
		return err
	}
	args, err := recordArgs(r)
	if err != nil {
		return err
	}
	// It was read from the journal, so it is published.
	x.exec(`INSERT INTO journal (seq, kind, at, tenant, tag, refs, reason, erasure_id, token_id, wrap, order_fields, writes, published)
		VALUES ($10, $1, $2, $3, $4, $5, 0, $6, $7, $8, $9, $11, TRUE)`, append(args, r.Seq, r.Writes)...)
	x.exec(`UPDATE deployment SET head = greatest(head, $1), head_entries = (SELECT coalesce(sum(entries), 0) FROM counters)`, r.Seq)
	// The counter of writes is never behind a record.
	x.exec(`UPDATE counters SET writes = writes + greatest(0, $1 - (SELECT sum(writes) FROM counters)::bigint) WHERE slot = 0`, r.Writes)
	return x.flush(ctx)
}

// reapply makes the change that a record speaks of, as far as this ledger still
// has what was changed.
func reapply(ctx context.Context, x *tx, r ledger.Record) error {
	switch r.Kind {
	case ledger.RecordMark:
	case ledger.RecordFence, ledger.RecordErase, ledger.RecordTenant:
		return refence(ctx, x, r)
	case ledger.RecordOrder:
		return reorder(ctx, x, r)
	case ledger.RecordLift:
		return relift(ctx, x, r)
	case ledger.RecordRevoke:
		x.exec("UPDATE tokens SET revoked_at = $1 WHERE id = $2 AND tenant = $3 AND revoked_at IS NULL",
			r.At.UnixMicro(), r.TokenID, r.Tenant)
	default:
		return fmt.Errorf("kind %q: %w", r.Kind, blobd.ErrInvalid)
	}
	return nil
}

// refence applies the fence of a record and makes its job again, due at once. An
// erasure that is there and has not fenced becomes that job.
func refence(ctx context.Context, x *tx, r ledger.Record) error {
	f := ledger.Fence{
		ID: r.ErasureID, At: r.At, RunAt: r.At,
		Scope: ledger.Scope{Tenant: r.Tenant, Tag: r.Tag, Refs: r.Refs, WholeTenant: r.Kind == ledger.RecordTenant},
	}
	// A record of refs may name none: then its erasure found no row. It must
	// never be taken for one of the whole execution.
	ofRefs := r.Kind == ledger.RecordErase
	if len(r.Refs) > 0 && !ofRefs || f.ID == "" || f.Scope.WholeTenant && r.Tenant == "" {
		return fmt.Errorf("%s record of %d refs: %w", r.Kind, len(r.Refs), blobd.ErrInvalid)
	}
	sc := newScope(f.Scope, ofRefs)
	if sc.WholeTenant {
		enterTenant(x, r)
		sc.readTenantRow(x) // puts and fences are kept out already
	} else {
		sc.read(x, true)
	}
	var asked ledger.Erasure
	x.readErasure(&asked, f.ID)
	if err := x.flush(ctx); err != nil {
		return err
	}
	if err := sc.count(); err != nil {
		return err
	}
	sc.wrap = max(sc.wrap, int64(r.Wrap))
	moved, err := applyFence(ctx, x, sc, f, true)
	if err != nil {
		return err
	}
	if moved != (counts{}) {
		x.move(moved)
	}
	switch {
	case asked.ID == "":
		insertErasure(x, &f, ofRefs, sc.running(r.At), r.Seq)
	case asked.Closing:
		to := sc.running(r.At)
		to.grace = asked.GraceUntil
		to.beside(&asked)
		moveErasure(x, f.ID, to, r.Seq)
		liftOrder(x, ledger.Lift{ID: f.ID, At: r.At})
	}
	return x.flush(ctx)
}

// reorder brings back the order of a record. A closing comes with its erasure, which
// runs again when its grace is over.
func reorder(ctx context.Context, x *tx, r ledger.Record) error {
	s := storedScope(r.Scope())
	o := ledger.Order{ID: r.OrderID, Kind: r.OrderKind, Scope: s, ErasureID: r.ErasureID, Purposes: r.Purposes, PlacedAt: r.At}
	isClosing := o.Kind == ledger.OrderClosing
	if o.Kind == ledger.OrderSuppression {
		o.ExpiresAt = r.Until
	}
	if !isOrder(&r, &s) {
		return fmt.Errorf("%s record of a %s: %w", r.Kind, o.Kind, blobd.ErrInvalid)
	}
	known, erasure := false, false
	var state ledger.ErasureState
	owner := ""
	x.scan(nil, []any{&owner}, "SELECT tenant FROM executions WHERE tag = $1", s.Tag[:])
	x.scan(&known, []any{new(int)}, "SELECT 1 FROM orders WHERE id = $1", o.ID)
	x.scan(&erasure, []any{&state}, "SELECT state FROM erasures WHERE id = $1", r.ErasureID)
	if err := x.flush(ctx); err != nil {
		return err
	}
	if s.Form().Bounded() && owner != "" && owner != s.Tenant {
		return fmt.Errorf("the execution is another tenant's: %w", blobd.ErrConflict)
	}
	if !known && !(isClosing && state.Ended()) {
		insertOrder(x, &o, r.Seq)
	}
	if !isClosing || erasure && state != ledger.ErasureAwaiting {
		return nil
	}
	return reclose(ctx, x, r, s)
}

// isOrder reports whether a ledger made the record of an order.
func isOrder(r *ledger.Record, s *ledger.Scope) bool {
	switch {
	case r.OrderID == "", r.Tenant == "", s.Check() != nil, s.Form() != r.Form:
		return false
	case r.OrderKind == ledger.OrderClosing:
		return r.ErasureID == r.OrderID
	case r.OrderKind == ledger.OrderSuppression:
		return r.Form == ledger.ScopeSubjects
	}
	return r.OrderKind == ledger.OrderHold || r.OrderKind == ledger.OrderRestriction
}

// reclose makes the job of a closing again, or brings one that awaited approvals on.
func reclose(ctx context.Context, x *tx, r ledger.Record, s ledger.Scope) error {
	sc := newScope(s, s.Form() == ledger.ScopeRefs)
	sc.read(x, true)
	if err := x.flush(ctx); err != nil {
		return err
	}
	to := standing{state: passing, closing: true, runAt: r.At, grace: r.Until, wrap: sc.wrap}
	if !r.Until.IsZero() {
		to.state, to.runAt = string(ledger.ErasureGrace), r.Until
	}
	x.exec("UPDATE erasures SET state = $2, run_at = $3, grace_until = $4, record = $5 WHERE id = $1 AND state = 'awaiting_approval'",
		r.ErasureID, to.state, to.runAt.UnixMicro(), micros(to.grace), r.Seq)
	var n int64
	x.count(&n, "SELECT 1 FROM erasures WHERE id = $1", r.ErasureID)
	if err := x.flush(ctx); err != nil || n > 0 {
		return err
	}
	insertErasure(x, &ledger.Fence{ID: r.ErasureID, Scope: s, At: r.At}, sc.ofRefs, to, r.Seq)
	return nil
}

// relift ends the order of a record, if it is there. A closing was lifted because its
// erasure was denied or cancelled. Where a closing stands for the suppression that it
// became, its erasure has to run again first.
func relift(ctx context.Context, x *tx, r ledger.Record) error {
	if r.OrderID == "" {
		return fmt.Errorf("%s record of no order: %w", r.Kind, blobd.ErrInvalid)
	}
	var o ledger.Order
	x.readOrder(&o, r.OrderID)
	if err := x.flush(ctx); err != nil || o.ID == "" || o.Scope.Tenant != r.Tenant || !o.Open() {
		return err
	}
	switch {
	case o.Kind == ledger.OrderClosing && r.OrderKind == ledger.OrderSuppression:
		x.exec("UPDATE orders SET lift_at = $2 WHERE id = $1", r.OrderID, r.At.UnixMicro())
		return nil
	case o.Kind == ledger.OrderClosing:
		x.exec(`UPDATE erasures SET state = 'cancelled', decided_at = $2, lease_owner = NULL, lease_until = NULL
			WHERE id = $1 AND closing AND state IN ('awaiting_approval', 'grace', 'passing', 'deferred')`, o.ErasureID, r.At.UnixMicro())
	case o.Kind == ledger.OrderHold:
		x.wakeDeferred(r.Tenant, r.At)
	}
	liftOrder(x, ledger.Lift{ID: r.OrderID, At: r.At})
	return nil
}
