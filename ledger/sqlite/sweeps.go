package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// sweepColumns are read by row.sweep, from sweeps.
const sweepColumns = `id, tenant, state, trigger, requested_by, confirm, at, version, planned,
	scanned, plan_erase, plan_held, plan_floor, plan_review, plan_waiting, plan_bytes,
	erased, failed, late_until, last_error, attempts, started_at, finished_at, run_at, details`

const sweepColumnCount = 25

func (r *row) sweep() ledger.Sweep {
	s := ledger.Sweep{
		ID: r.text(0), Tenant: r.text(1), State: ledger.SweepState(r.text(2)), Trigger: r.text(3), RequestedBy: r.text(4),
		Confirm: r.int(5), At: r.time(6), Version: r.int(7), Planned: r.bool(8),
		Plan: ledger.Tally{
			Scanned: r.int(9), Erase: r.int(10), Held: r.int(11), Floor: r.int(12), Review: r.int(13), Waiting: r.int(14), Bytes: r.int(15),
		},
		Erased: r.int(16), Failed: r.int(17), LateUntil: r.time(18), LastError: r.text(19), Attempts: r.int(20),
		StartedAt: r.time(21), FinishedAt: r.time(22), RunAt: r.time(23),
	}
	var p ledger.Progress
	if err := p.SetDetails(r.bytes(24)); err != nil && r.err == nil {
		r.err = err
	}
	s.Refused = p.Refused
	return s
}

func sweepByID(ctx context.Context, c *conn, id string) (s ledger.Sweep, found bool, err error) {
	found, err = c.one(ctx, "SELECT "+sweepColumns+" FROM sweeps WHERE id = ?", func(r *row) { s = r.sweep() }, id)
	return s, found, err
}

// StartSweep implements ledger.Sweeps.
func (l *Ledger) StartSweep(ctx context.Context, n ledger.NewSweep) (s ledger.Sweep, err error) {
	if n.ID == "" {
		return s, classify("start a sweep", fmt.Errorf("no id: %w", blobd.ErrInvalid))
	}
	err = l.write(ctx, "start a sweep", func(w *conn) error {
		first, again, err := sweepByID(ctx, w, n.ID)
		switch {
		case err != nil:
			return err
		case again && first.Tenant != n.Tenant:
			return fmt.Errorf("the id is another tenant's: %w", blobd.ErrConflict)
		case again:
			s = first
			return nil
		}
		if err := living(ctx, w, n.Tenant); err != nil {
			return err
		}
		now := l.now().UnixMicro()
		inserted, err := w.exec(ctx, `INSERT INTO sweeps (id, tenant, state, trigger, requested_by, confirm, at, version, started_at, run_at)
			SELECT ?, ?, 'running', ?, ?, ?, ?, (SELECT ifnull(max(version), 0) FROM policy_versions), ?, ? WHERE true
			ON CONFLICT DO NOTHING`,
			n.ID, n.Tenant, n.Trigger, n.RequestedBy, n.Confirm, now, now, n.RunAt.UnixMicro())
		if err != nil {
			return err
		}
		if inserted == 0 {
			return fmt.Errorf("a sweep of the tenant runs: %w", blobd.ErrConflict)
		}
		if err := appendEntries(ctx, w, n.Entry); err != nil {
			return err
		}
		s, _, err = sweepByID(ctx, w, n.ID)
		return err
	})
	if err != nil {
		return ledger.Sweep{}, err
	}
	return s, nil
}

// ClaimSweep implements ledger.Sweeps.
func (l *Ledger) ClaimSweep(ctx context.Context, owner string, at, until time.Time) (j ledger.SweepJob, err error) {
	err = l.write(ctx, "claim a sweep", func(w *conn) error {
		found, err := w.one(ctx, `UPDATE sweeps SET term = term + 1, attempts = attempts + 1, lease_owner = ?, lease_until = ?
			WHERE seq = (SELECT seq FROM sweeps WHERE state = 'running' AND run_at <= ?
				AND (lease_owner IS NULL OR lease_until <= ?) ORDER BY run_at, seq LIMIT 1)
			RETURNING `+sweepColumns+", term",
			func(r *row) {
				j.Sweep = r.sweep()
				j.Lease = ledger.SweepLease{SweepID: j.Sweep.ID, Owner: owner, Term: r.int(sweepColumnCount), Until: stored(until)}
			}, owner, until.UnixMicro(), at.UnixMicro(), at.UnixMicro())
		return orNotFound(found, err)
	})
	if err != nil {
		return ledger.SweepJob{}, err
	}
	return j, nil
}

// heldSweep returns the sweep of a lease that is still its holder's.
func heldSweep(ctx context.Context, c *conn, l ledger.SweepLease) (s ledger.Sweep, err error) {
	found, err := c.one(ctx, "SELECT "+sweepColumns+` FROM sweeps
		WHERE id = ? AND state = 'running' AND lease_owner = ? AND term = ?`,
		func(r *row) { s = r.sweep() }, l.SweepID, l.Owner, l.Term)
	if err == nil && !found {
		err = fmt.Errorf("the lease is stale: %w", blobd.ErrConflict)
	}
	return s, err
}

// MoveSweep implements ledger.Sweeps.
func (l *Ledger) MoveSweep(ctx context.Context, lease ledger.SweepLease, m ledger.SweepMove) error {
	if err := m.Check(); err != nil {
		return classify("move a sweep", err)
	}
	details, err := ledger.Progress{Refused: m.Refused}.Details()
	if err != nil {
		return classify("move a sweep", err)
	}
	return l.write(ctx, "move a sweep", func(w *conn) error {
		s, err := heldSweep(ctx, w, lease)
		if err != nil {
			return err
		}
		if m.Plan != nil {
			if err := savePlan(ctx, w, s, *m.Plan); err != nil {
				return err
			}
		}
		_, err = w.exec(ctx, "UPDATE sweeps SET state = ?, failed = ?, details = ?, last_error = ? WHERE id = ?",
			string(m.To), m.Failed, orNull(details), m.LastError, s.ID)
		if err != nil {
			return err
		}
		const release = "UPDATE sweeps SET lease_owner = NULL, lease_until = NULL, "
		switch {
		case m.To != ledger.SweepRunning:
			_, err = w.exec(ctx, release+"finished_at = ? WHERE id = ?", m.At.UnixMicro(), s.ID)
		case m.Until.IsZero():
			_, err = w.exec(ctx, release+"run_at = ? WHERE id = ?", m.Due.UnixMicro(), s.ID)
		default:
			_, err = w.exec(ctx, "UPDATE sweeps SET lease_until = ? WHERE id = ?", m.Until.UnixMicro(), s.ID)
		}
		if err != nil {
			return err
		}
		return appendEntries(ctx, w, m.Entries...)
	})
}

func savePlan(ctx context.Context, w *conn, s ledger.Sweep, t ledger.Tally) error {
	if s.Planned {
		return fmt.Errorf("it has a plan: %w", blobd.ErrConflict)
	}
	_, err := w.exec(ctx, `UPDATE sweeps SET planned = 1, scanned = ?, plan_erase = ?, plan_held = ?, plan_floor = ?,
		plan_review = ?, plan_waiting = ?, plan_bytes = ? WHERE id = ?`,
		t.Scanned, t.Erase, t.Held, t.Floor, t.Review, t.Waiting, t.Bytes, s.ID)
	return err
}

// dueRow reads a row of the tenant as retention sees it.
func dueRow(ctx context.Context, c *conn, standing standing, tenant string, at ledger.Position) (r ledger.DueRow, found bool, err error) {
	found, err = c.one(ctx, standing.selectDue(` FROM blobs b JOIN executions e ON e.tag = b.execution_tag
		WHERE b.execution_tag = ? AND b.ref = ? AND e.tenant = ? AND `+retained),
		func(x *row) { r = x.due() }, at.Tag[:], at.Ref[:], tenant)
	return r, found, err
}

// Expire implements ledger.Sweeps.
func (l *Ledger) Expire(ctx context.Context, lease ledger.SweepLease, x ledger.Expiry) (expired []ledger.DueRow, err error) {
	if err := ledger.CheckBatch(x.Rows); err != nil {
		return nil, classify("expire", err)
	}
	err = l.write(ctx, "expire", func(w *conn) error {
		known, err := l.factsOn(ctx, w)
		if err != nil {
			return err
		}
		s, err := heldSweep(ctx, w, lease)
		if err != nil {
			return err
		}
		expired, err = expire(ctx, w, known, s, x)
		return err
	})
	if err != nil {
		return nil, err
	}
	return expired, nil
}

// executionLoss is what a batch takes from an execution.
type executionLoss struct{ blobs, bytes int64 }

func expire(ctx context.Context, w *conn, known *facts, s ledger.Sweep, x ledger.Expiry) ([]ledger.DueRow, error) {
	if _, fenced := known.fenced[s.Tenant]; fenced {
		return nil, nil
	}
	var expired []ledger.DueRow
	late := s.LateUntil
	lost := map[blobd.ExecutionTag]*executionLoss{}
	for _, at := range x.Rows {
		r, found, err := dueRow(ctx, w, known.standing[s.Tenant], s.Tenant, at)
		if err != nil {
			return nil, err
		}
		end, may := s.MayExpire(&r, known.versions[class{s.Tenant, r.Class}])
		if !found || !may { // what this batch expired already, too
			continue
		}
		if _, err := w.exec(ctx, "UPDATE blobs SET state = 7, wrapped = NULL, repeat = NULL WHERE n = ?", r.N); err != nil {
			return nil, err
		}
		if end = end.Add(x.Margin); end.After(late) {
			late = end
		}
		its := lost[r.Tag]
		if its == nil {
			its = new(executionLoss)
			lost[r.Tag] = its
		}
		if r.State == ledger.BlobLive {
			its.blobs, its.bytes = its.blobs+1, its.bytes+r.Size
		}
		expired = append(expired, r)
	}
	if len(expired) == 0 {
		return nil, nil
	}
	if err := takeOff(ctx, w, lost); err != nil {
		return nil, err
	}
	entry, err := x.Entry(expired)
	if err != nil {
		return nil, err
	}
	if _, err := w.exec(ctx, "UPDATE sweeps SET late_until = ? WHERE id = ?", micros(late), s.ID); err != nil {
		return nil, err
	}
	return expired, appendEntries(ctx, w, entry)
}

// takeOff moves the counts of what is live, and marks executions as having lost a
// blob.
func takeOff(ctx context.Context, w *conn, lost map[blobd.ExecutionTag]*executionLoss) error {
	var all executionLoss
	for tag, its := range lost {
		_, err := w.exec(ctx, "UPDATE executions SET blobs = blobs - ?, bytes = bytes - ?, lost_blob = 1 WHERE tag = ?",
			its.blobs, its.bytes, tag[:])
		if err != nil {
			return err
		}
		all.blobs, all.bytes = all.blobs+its.blobs, all.bytes+its.bytes
	}
	return count(ctx, w, -all.blobs, -all.bytes, 0)
}

// Bury implements ledger.Sweeps.
func (l *Ledger) Bury(ctx context.Context, lease ledger.SweepLease, rows []ledger.Position) (n int, err error) {
	if err := ledger.CheckBatch(rows); err != nil {
		return 0, classify("bury", err)
	}
	err = l.write(ctx, "bury", func(w *conn) error {
		n = 0
		s, err := heldSweep(ctx, w, lease)
		if err != nil {
			return err
		}
		for _, at := range rows {
			r, found, err := dueRow(ctx, w, standing{}, s.Tenant, at)
			if err != nil {
				return err
			}
			if !found || r.State != ledger.BlobExpired {
				continue
			}
			if err := bareRow(ctx, w, at.Tag, at.Ref, ledger.BlobExpired, false); err != nil {
				return err
			}
			n++
		}
		_, err = w.exec(ctx, "UPDATE sweeps SET erased = erased + ? WHERE id = ?", int64(n), s.ID)
		return err
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// Sweep implements ledger.Sweeps.
func (l *Ledger) Sweep(ctx context.Context, tenant, id string) (s ledger.Sweep, err error) {
	err = l.read(ctx, "sweep", func(c *conn) error {
		found, err := c.one(ctx, "SELECT "+sweepColumns+" FROM sweeps WHERE id = ? AND tenant = ?",
			func(r *row) { s = r.sweep() }, id, tenant)
		return orNotFound(found, err)
	})
	return s, err
}

// ListSweeps implements ledger.Sweeps.
func (l *Ledger) ListSweeps(ctx context.Context, q ledger.SweepQuery) (all []ledger.Sweep, err error) {
	if err := checkLimit(q.Limit); err != nil {
		return nil, classify("list sweeps", err)
	}
	query, args := "SELECT "+sweepColumns+" FROM sweeps WHERE tenant = ?", []any{q.Tenant}
	if q.Before != (ledger.SweepCursor{}) {
		query += " AND (started_at, id) < (?, ?)"
		args = append(args, q.Before.StartedAt.UnixMicro(), q.Before.ID)
	}
	if q.State != "" {
		query += " AND state = ?"
		args = append(args, string(q.State))
	}
	query += " ORDER BY started_at DESC, id DESC LIMIT ?"
	args = append(args, int64(q.Limit))
	err = l.read(ctx, "list sweeps", func(c *conn) error {
		return c.query(ctx, query, func(r *row) { all = append(all, r.sweep()) }, args...)
	})
	return all, err
}
