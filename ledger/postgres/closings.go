package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// closeScope places a closing over a scope, with its record, in place of a fence. The
// closing has the id of its erasure.
func closeScope(x *tx, sc *scope, f *ledger.Fence, rec *ledger.Record) standing {
	o := ledger.Order{ID: f.ID, Kind: ledger.OrderClosing, Scope: f.Scope, ErasureID: f.ID, PlacedAt: f.At, PlacedBy: f.RequestedBy}
	x.append(f.Closed...)
	x.move(counts{entries: int64(len(f.Closed))})
	x.record(rec, ledger.RecordOf(&o, f.GraceUntil))
	insertOrder(x, &o, nil)
	to := standing{state: passing, closing: true, plan: f.Plan, planned: planned(f), runAt: f.RunAt, grace: f.GraceUntil, wrap: sc.wrap}
	switch {
	case !f.GraceUntil.IsZero():
		to.state, to.runAt = string(ledger.ErasureGrace), f.GraceUntil
	case !f.DeferUntil.IsZero():
		to.state, to.runAt = string(ledger.ErasureDeferred), f.DeferUntil
	}
	return to
}

// wakeDeferred queues that a tenant's deferred erasures are due, under the tenant's
// lock alone. Those that a worker has in hand are so from when it defers them.
func (t *tx) wakeDeferred(tenant string, at time.Time) {
	t.exec(`UPDATE erasures SET run_at = CASE state WHEN 'deferred' THEN least(run_at, $2) ELSE run_at END,
		woken_at = CASE state WHEN 'passing' THEN least(woken_at, $2) ELSE woken_at END
		WHERE tenant = $1 AND state IN ('deferred', 'passing')`, tenant, at.UnixMicro())
}

// Decide implements ledger.Closings.
func (l *Ledger) Decide(ctx context.Context, d ledger.Decision) (e ledger.Erasure, rec ledger.Record, err error) {
	const op = "decide"
	if err := d.Check(); err != nil {
		return e, rec, classify(op, err)
	}
	alone := d.Act != ledger.ActApprove || !d.GraceUntil.IsZero()
	err = l.writeAlone(ctx, op, alone, func(ctx context.Context, x *tx, alone bool) error {
		e, rec = ledger.Erasure{}, ledger.Record{}
		return decide(ctx, x, &d, alone, &e, &rec)
	})
	if err != nil {
		return ledger.Erasure{}, ledger.Record{}, err
	}
	return e, rec, nil
}

// decide reads what an erasure is of, which nothing changes, to lock its tenant, and
// then the erasure.
func decide(ctx context.Context, x *tx, d *ledger.Decision, alone bool, e *ledger.Erasure, rec *ledger.Record) error {
	var refs [][32]byte
	found := false
	x.scan(&found, append(erasureTo(e), hashes{&refs}), "SELECT "+erasureColumns+", x.scope_refs FROM erasures x WHERE x.id = $1 AND x.tenant = $2",
		d.ID, d.Tenant)
	if err := orNotFound(true, x.flush(ctx)); err != nil || !found {
		return orNotFound(found, err)
	}
	s := e.Scope
	s.Refs = refsOf(refs)
	sc := newScope(s, e.OfRefs)
	alone = alone || !s.Form().Bounded()
	sc.lock(x, alone)
	x.exec("SELECT 1 FROM erasures WHERE id = $1 FOR UPDATE", d.ID)
	x.readErasure(e, d.ID)
	if err := x.flush(ctx); err != nil {
		return err
	}
	if d.Act == ledger.ActApprove {
		return approve(ctx, x, d, sc, alone, e, rec)
	}
	return call(x, d, e, rec)
}

func approve(ctx context.Context, x *tx, d *ledger.Decision, sc *scope, alone bool, e *ledger.Erasure, rec *ledger.Record) error {
	switch {
	case slices.Contains(e.ApprovedBy, d.By):
		return nil
	case e.State != ledger.ErasureAwaiting:
		return fmt.Errorf("the erasure is %s: %w", e.State, blobd.ErrConflict)
	case e.PlanDigest != d.PlanDigest:
		return blobd.ErrPlanDrift
	case e.RequestedBy == d.By:
		return fmt.Errorf("who asked for it may not approve it: %w", blobd.ErrDenied)
	}
	x.exec("UPDATE erasures SET approved_by = array_append(approved_by, $2) WHERE id = $1", d.ID, d.By)
	if len(e.ApprovedBy)+1 < e.Approvals {
		x.append(d.Entries...)
		x.move(counts{entries: int64(len(d.Entries))})
		x.readErasure(e, d.ID)
		return nil
	}
	sc.read(x, true)
	if err := x.flush(ctx); err != nil {
		return err
	}
	if err := sc.count(); err != nil {
		return err
	}
	to, err := proceed(ctx, x, sc, &ledger.Fence{
		ID: d.ID, Scope: sc.Scope, RequestedBy: e.RequestedBy, At: d.At, RunAt: d.RunAt, GraceUntil: d.GraceUntil, DeferUntil: d.DeferUntil,
		Entries: slices.Concat(d.Entries, d.Fenced), Closed: slices.Concat(d.Entries, d.Closed), Plan: e.Plan,
	}, alone, rec)
	if err != nil {
		return err
	}
	if to.closing {
		to.wrap = 0 // that of when it was asked for stays
	} else {
		to.beside(e)
	}
	moveErasure(x, d.ID, to, nil)
	x.readErasure(e, d.ID)
	return nil
}

// call denies or cancels.
func call(x *tx, d *ledger.Decision, e *ledger.Erasure, rec *ledger.Record) error {
	to, code := ledger.ErasureCancelled, ""
	if d.Act == ledger.ActDeny {
		to, code = ledger.ErasureDenied, d.Code
	}
	switch e.State {
	case to:
		return nil
	case ledger.ErasureAwaiting, ledger.ErasureGrace, ledger.ErasureDeferred:
	default:
		return fmt.Errorf("the erasure is %s: %w", e.State, blobd.ErrConflict)
	}
	x.exec("UPDATE erasures SET state = $2, decided_by = $3, code = $4, decision_reason = $5, decided_at = $6 WHERE id = $1",
		d.ID, string(to), d.By, code, []byte(d.Reason), d.At.UnixMicro())
	closed := e.State != ledger.ErasureAwaiting
	if closed {
		liftOrder(x, ledger.Lift{ID: d.ID, At: d.At, By: d.By})
	}
	x.append(d.Entries...)
	x.move(counts{entries: int64(len(d.Entries))})
	if closed {
		x.record(rec, ledger.LiftRecordOf(&ledger.Order{ID: d.ID, Kind: ledger.OrderClosing, Scope: e.Scope, LiftedAt: d.At}))
	}
	x.readErasure(e, d.ID)
	return nil
}

// Replan implements ledger.Closings.
func (l *Ledger) Replan(ctx context.Context, tenant, id string, p ledger.Plan, digest [32]byte, e ledger.Entry) error {
	return l.write(ctx, "replan", func(ctx context.Context, x *tx) error {
		found, state := false, ""
		x.scan(&found, []any{&state}, "SELECT state FROM erasures WHERE id = $1 AND tenant = $2 FOR UPDATE", id, tenant)
		switch err := x.flush(ctx); {
		case err != nil || !found:
			return orNotFound(found, err)
		case state != string(ledger.ErasureAwaiting):
			return fmt.Errorf("the erasure is %s: %w", state, blobd.ErrConflict)
		}
		x.exec(`UPDATE erasures SET plan_executions = $2, plan_blobs = $3, plan_bytes = $4, already_erased = $5, not_found = $6,
			plan_held = $7, plan_floor = $8, plan_shared = $9, plan_digest = $10, approved_by = '{}' WHERE id = $1`,
			id, p.Executions, p.Blobs, p.Bytes, p.AlreadyErased, p.NotFound, p.Held, p.Floor, p.Shared, digest[:])
		x.append(e)
		x.move(counts{entries: 1})
		return nil
	})
}

// closedScope locks the tenant of a lease's erasure, and then, while the lease is
// still its holder's, the erasure, which must not have fenced.
func closedScope(ctx context.Context, x *tx, l ledger.Lease, lock func(tenant string, whole bool)) (job, error) {
	var tenant string
	var whole, found bool
	x.scan(&found, []any{&tenant, &whole}, "SELECT tenant, whole_tenant FROM erasures WHERE id = $1", l.ErasureID)
	if err := x.flush(ctx); err != nil {
		return job{}, err
	}
	if found {
		lock(tenant, whole)
	}
	j, err := held(ctx, x, l)
	if err == nil && !j.closing {
		err = fmt.Errorf("the erasure has fenced: %w", blobd.ErrConflict)
	}
	return j, err
}

// FenceClosed implements ledger.Closings.
func (l *Ledger) FenceClosed(ctx context.Context, lease ledger.Lease, at time.Time, es []ledger.Entry) (e ledger.Erasure, rec ledger.Record, err error) {
	err = l.write(ctx, "fence what is closed", func(ctx context.Context, x *tx) error {
		e, rec = ledger.Erasure{}, ledger.Record{}
		return fenceClosed(ctx, x, lease, at, es, &e, &rec)
	})
	if err != nil {
		return ledger.Erasure{}, ledger.Record{}, err
	}
	return e, rec, nil
}

func fenceClosed(ctx context.Context, x *tx, l ledger.Lease, at time.Time, es []ledger.Entry, e *ledger.Erasure, rec *ledger.Record) error {
	var sc *scope
	j, err := closedScope(ctx, x, l, func(tenant string, whole bool) {
		sc = newScope(ledger.Scope{Tenant: tenant, WholeTenant: whole}, false)
		sc.lock(x, false)
	})
	if err != nil {
		return err
	}
	if !j.scope.Form().Fenceable() {
		return fmt.Errorf("no fence is of this form: %w", blobd.ErrHeld)
	}
	holds, floors := sc.holds, sc.floors
	sc = newScope(j.scope, j.ofRefs)
	sc.holds, sc.floors = holds, floors
	sc.read(x, true)
	var asked ledger.Erasure
	x.readErasure(&asked, l.ErasureID)
	if err := x.flush(ctx); err != nil {
		return err
	}
	if err := sc.count(); err != nil {
		return err
	}
	sc.wrap = max(sc.wrap, int64(asked.Wrap)) // what it dropped before may have been under newer versions
	protected, err := sc.protected(ctx, x, at)
	if err != nil {
		return err
	}
	if protected {
		return fmt.Errorf("something in scope is protected: %w", blobd.ErrHeld)
	}
	to, err := fenceNow(ctx, x, sc, &ledger.Fence{ID: l.ErasureID, Scope: j.scope, At: at, RunAt: at, Entries: es}, rec)
	if err != nil {
		return err
	}
	to.grace = j.grace
	to.beside(&asked)
	moveErasure(x, l.ErasureID, to, nil)
	liftOrder(x, ledger.Lift{ID: l.ErasureID, At: at})
	x.readErasure(e, l.ErasureID)
	return nil
}

// Defer implements ledger.Closings. It shares the tenant's lock, so that a hold that
// was lifted meanwhile is seen here, or sees it deferred.
func (l *Ledger) Defer(ctx context.Context, lease ledger.Lease, due time.Time, p ledger.Progress, es []ledger.Entry) error {
	return l.write(ctx, "defer", func(ctx context.Context, x *tx) error { return deferUntil(ctx, x, lease, due, p, es) })
}

func deferUntil(ctx context.Context, x *tx, lease ledger.Lease, due time.Time, p ledger.Progress, es []ledger.Entry) error {
	j, err := closedScope(ctx, x, lease, func(tenant string, _ bool) { x.shareTenant(tenant) })
	if err != nil {
		return err
	}
	if err := saveProgress(x, j, p); err != nil {
		return err
	}
	x.exec("UPDATE erasures SET state = 'deferred', lease_owner = NULL, lease_until = NULL, run_at = least($2, woken_at) WHERE seq = $1",
		j.seq, due.UnixMicro())
	x.append(es...)
	x.move(counts{entries: int64(len(es))})
	return nil
}

// SetApprovals implements ledger.Closings.
func (l *Ledger) SetApprovals(ctx context.Context, tenant string, approvals int, e ledger.Entry) error {
	const op = "set approvals"
	if approvals < 0 {
		return classify(op, fmt.Errorf("%d approvals: %w", approvals, blobd.ErrInvalid))
	}
	return l.write(ctx, op, func(ctx context.Context, x *tx) error {
		if err := x.living(ctx, tenant); err != nil {
			return err
		}
		x.exec("UPDATE tenants SET approvals = $2 WHERE id = $1", tenant, approvals)
		x.append(e)
		x.move(counts{entries: 1})
		return nil
	})
}
