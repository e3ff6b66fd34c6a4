package sqlite

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// A closing has the id of its erasure, of which there is one.

// closeScope places the closing of an erasure that has a row, with its record.
func closeScope(ctx context.Context, w *conn, s ledger.Scope, seq int64, t turn) (rec ledger.Record, err error) {
	if err := appendEntries(ctx, w, t.closed...); err != nil {
		return rec, err
	}
	o := ledger.Order{ID: t.id, Kind: ledger.OrderClosing, Scope: s, ErasureID: t.id, PlacedAt: stored(t.at), PlacedBy: t.by}
	rec, err = record(ctx, w, ledger.RecordOf(&o, stored(t.graceUntil)))
	if err != nil {
		return rec, err
	}
	if err := insertOrder(ctx, w, o, rec.Seq); err != nil {
		return rec, err
	}
	_, err = w.exec(ctx, "UPDATE erasures SET record = CASE record WHEN 0 THEN ? ELSE record END WHERE seq = ?", rec.Seq, seq)
	return rec, err
}

// liftClosing ends the open closing of an erasure, if it has one.
func liftClosing(ctx context.Context, w *conn, erasure, by string, at time.Time) (o ledger.Order, lifted bool, err error) {
	o, lifted, err = orderByID(ctx, w, erasure)
	if err != nil || !lifted || o.Kind != ledger.OrderClosing || !o.Open() {
		return o, false, err
	}
	o.LiftedAt, o.LiftedBy = stored(at), by
	return o, true, endOrder(ctx, w, o)
}

// endClosing ends the closing of an erasure that has erased its scope; that of
// subjects goes on as a suppression.
func endClosing(ctx context.Context, w *conn, erasure string, at time.Time) error {
	n, err := w.exec(ctx, `UPDATE orders SET kind = 4 WHERE erasure = ? AND kind = 3 AND lifted_at IS NULL AND form = 3`, erasure)
	if err != nil {
		return err
	}
	if n == 0 {
		_, _, err = liftClosing(ctx, w, erasure, "", at)
		return err
	}
	_, err = w.exec(ctx, `UPDATE order_subjects SET kind = 4
		WHERE placed IN (SELECT seq FROM orders WHERE erasure = ? AND kind = 4)`, erasure)
	return err
}

// Decide implements ledger.Closings.
func (l *Ledger) Decide(ctx context.Context, d ledger.Decision) (e ledger.Erasure, rec ledger.Record, err error) {
	const op = "decide"
	if err := d.Check(); err != nil {
		return e, rec, classify(op, err)
	}
	err = l.write(ctx, op, func(w *conn) error {
		known, err := l.factsOn(ctx, w)
		if err != nil {
			return err
		}
		var found bool
		e, found, err = erasureByID(ctx, w, d.ID)
		if err := orNotFound(found && e.Scope.Tenant == d.Tenant, err); err != nil {
			return err
		}
		if d.Act == ledger.ActApprove {
			rec, err = approve(ctx, w, known, &e, d)
		} else {
			rec, err = refuse(ctx, w, &e, d)
		}
		if err != nil {
			return err
		}
		e, _, err = erasureByID(ctx, w, d.ID)
		return err
	})
	if err != nil {
		return ledger.Erasure{}, ledger.Record{}, err
	}
	return e, rec, nil
}

func approve(ctx context.Context, w *conn, known *facts, e *ledger.Erasure, d ledger.Decision) (rec ledger.Record, err error) {
	switch {
	case slices.Contains(e.ApprovedBy, d.By):
		return rec, nil
	case e.State != ledger.ErasureAwaiting:
		return rec, wrongState(e)
	case e.PlanDigest != d.PlanDigest:
		return rec, blobd.ErrPlanDrift
	case e.RequestedBy == d.By:
		return rec, fmt.Errorf("an approval by who asked: %w", blobd.ErrDenied)
	}
	list, err := listText(append(e.ApprovedBy, d.By))
	if err != nil {
		return rec, err
	}
	if _, err := w.exec(ctx, "UPDATE erasures SET approved_by = ? WHERE id = ?", list, e.ID); err != nil {
		return rec, err
	}
	if err := appendEntries(ctx, w, d.Entries...); err != nil || len(e.ApprovedBy)+1 < e.Approvals {
		return rec, err
	}
	s, seq, err := scopeOf(ctx, w, e.ID)
	if err != nil {
		return rec, err
	}
	t := turn{
		id: e.ID, by: e.RequestedBy, at: d.At, runAt: d.RunAt, graceUntil: d.GraceUntil, deferUntil: d.DeferUntil,
		fenced: d.Fenced, closed: d.Closed,
	}
	may, err := mayFence(ctx, w, known, s, &t, false)
	if err != nil {
		return rec, err
	}
	sc, err := readScope(ctx, w, s, e.OfRefs, false)
	if err != nil {
		return rec, err
	}
	return proceed(ctx, w, sc, seq, t, may)
}

func wrongState(e *ledger.Erasure) error {
	return fmt.Errorf("the erasure is %s: %w", e.State, blobd.ErrConflict)
}

// refuse denies or cancels.
func refuse(ctx context.Context, w *conn, e *ledger.Erasure, d ledger.Decision) (rec ledger.Record, err error) {
	to, code := ledger.ErasureDenied, d.Code
	if d.Act == ledger.ActCancel {
		to, code = ledger.ErasureCancelled, ""
	}
	switch e.State {
	case to:
		return rec, nil
	case ledger.ErasureAwaiting, ledger.ErasureGrace, ledger.ErasureDeferred:
	default:
		return rec, wrongState(e)
	}
	_, err = w.exec(ctx, "UPDATE erasures SET state = ?, decided_by = ?, decided_at = ?, code = ?, decision_reason = ? WHERE id = ?",
		string(to), d.By, d.At.UnixMicro(), code, d.Reason, e.ID)
	if err != nil {
		return rec, err
	}
	o, lifted, err := liftClosing(ctx, w, e.ID, d.By, d.At)
	if err != nil {
		return rec, err
	}
	if err := appendEntries(ctx, w, d.Entries...); err != nil || !lifted {
		return rec, err
	}
	return record(ctx, w, ledger.LiftRecordOf(&o))
}

// Replan implements ledger.Closings.
func (l *Ledger) Replan(ctx context.Context, tenant, id string, p ledger.Plan, digest [32]byte, entry ledger.Entry) error {
	return l.write(ctx, "replan", func(w *conn) error {
		e, found, err := erasureByID(ctx, w, id)
		if err := orNotFound(found && e.Scope.Tenant == tenant, err); err != nil {
			return err
		}
		if e.State != ledger.ErasureAwaiting {
			return wrongState(&e)
		}
		_, err = w.exec(ctx, `UPDATE erasures SET plan_executions = ?, plan_blobs = ?, plan_bytes = ?, already_erased = ?,
			not_found = ?, plan_held = ?, plan_floor = ?, plan_shared = ?, plan_digest = ?, approved_by = '' WHERE id = ?`,
			p.Executions, p.Blobs, p.Bytes, p.AlreadyErased, p.NotFound, p.Held, p.Floor, p.Shared, digestOrNull(digest), id)
		if err != nil {
			return err
		}
		return appendEntries(ctx, w, entry)
	})
}

// heldClosing returns the job of a lease, which must only have closed its scope.
func heldClosing(ctx context.Context, w *conn, lease ledger.Lease) (job, error) {
	j, err := held(ctx, w, lease)
	if err == nil && !j.closing {
		err = fmt.Errorf("the erasure has fenced: %w", blobd.ErrConflict)
	}
	return j, err
}

// FenceClosed implements ledger.Closings.
func (l *Ledger) FenceClosed(ctx context.Context, lease ledger.Lease, at time.Time, es []ledger.Entry) (
	e ledger.Erasure, rec ledger.Record, err error,
) {
	err = l.write(ctx, "fence what was closed", func(w *conn) error {
		known, err := l.factsOn(ctx, w)
		if err != nil {
			return err
		}
		j, err := heldClosing(ctx, w, lease)
		if err != nil {
			return err
		}
		s, seq, err := scopeOf(ctx, w, lease.ErasureID)
		if err != nil {
			return err
		}
		if j.wide {
			return fmt.Errorf("no fence is of this form: %w", blobd.ErrHeld)
		}
		t := turn{id: lease.ErasureID, at: at, fenced: es}
		if _, err := mayFence(ctx, w, known, s, &t, true); err != nil {
			return err
		}
		sc, err := readScope(ctx, w, s, j.ofRefs, false)
		if err != nil {
			return err
		}
		if rec, err = fenceNow(ctx, w, sc, seq, t); err != nil {
			return err
		}
		if _, _, err := liftClosing(ctx, w, lease.ErasureID, "", at); err != nil {
			return err
		}
		e, _, err = erasureByID(ctx, w, lease.ErasureID)
		return err
	})
	if err != nil {
		return ledger.Erasure{}, ledger.Record{}, err
	}
	return e, rec, nil
}

// Defer implements ledger.Closings.
func (l *Ledger) Defer(ctx context.Context, lease ledger.Lease, due time.Time, p ledger.Progress, es []ledger.Entry) error {
	return l.write(ctx, "defer", func(w *conn) error {
		j, err := heldClosing(ctx, w, lease)
		if err != nil {
			return err
		}
		if err := saveProgress(ctx, w, j, p); err != nil {
			return err
		}
		_, err = w.exec(ctx, `UPDATE erasures SET state = 'deferred', lease_owner = NULL, lease_until = NULL,
			run_at = min(?, ifnull(woken, ?)) WHERE seq = ?`, due.UnixMicro(), due.UnixMicro(), j.seq)
		if err != nil {
			return err
		}
		return appendEntries(ctx, w, es...)
	})
}

// SetApprovals implements ledger.Closings.
func (l *Ledger) SetApprovals(ctx context.Context, tenant string, approvals int, e ledger.Entry) error {
	if approvals < 0 {
		return classify("set approvals", fmt.Errorf("%d approvals: %w", approvals, blobd.ErrInvalid))
	}
	return l.write(ctx, "set approvals", func(w *conn) error {
		if err := living(ctx, w, tenant); err != nil {
			return err
		}
		if _, err := w.exec(ctx, "UPDATE tenants SET approvals = ? WHERE id = ?", int64(approvals), tenant); err != nil {
			return err
		}
		return appendEntries(ctx, w, e)
	})
}
