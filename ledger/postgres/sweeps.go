package postgres

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// sweepColumns are scanned by sweepRow, from sweeps x.
const sweepColumns = `x.id, x.tenant, x.state, x.trigger, x.requested_by, x.confirm, x.at, x.version, x.planned,
	x.scanned, x.plan_erase, x.plan_held, x.plan_floor, x.plan_review, x.plan_waiting, x.plan_bytes,
	x.erased, x.failed, x.late_until, x.last_error, x.attempts, x.started_at, x.finished_at, x.run_at, x.details`

// sweepRow scans sweepColumns.
type sweepRow struct {
	ledger.Sweep
	details []byte
}

func (s *sweepRow) to() []any {
	return []any{
		&s.ID, &s.Tenant, &s.State, &s.Trigger, &s.RequestedBy, &s.Confirm, moment{&s.At}, &s.Version, &s.Planned,
		&s.Plan.Scanned, &s.Plan.Erase, &s.Plan.Held, &s.Plan.Floor, &s.Plan.Review, &s.Plan.Waiting, &s.Plan.Bytes,
		&s.Erased, &s.Failed, moment{&s.LateUntil}, &s.LastError, &s.Attempts, moment{&s.StartedAt}, moment{&s.FinishedAt},
		moment{&s.RunAt}, &s.details,
	}
}

func (s *sweepRow) sweep() (ledger.Sweep, error) {
	var p ledger.Progress
	err := p.SetDetails(s.details)
	s.Refused = p.Refused
	return s.Sweep, err
}

func scanSweep(r pgx.CollectableRow) (ledger.Sweep, error) {
	var s sweepRow
	if err := r.Scan(s.to()...); err != nil {
		return ledger.Sweep{}, err
	}
	return s.sweep()
}

// StartSweep implements ledger.Sweeps. It shares the tenant's lock, which a change
// of a policy takes alone: its version is the newest.
func (l *Ledger) StartSweep(ctx context.Context, n ledger.NewSweep) (s ledger.Sweep, err error) {
	const op = "start a sweep"
	if n.ID == "" {
		return s, classify(op, fmt.Errorf("no id: %w", blobd.ErrInvalid))
	}
	err = l.write(ctx, op, func(ctx context.Context, x *tx) error {
		var row sweepRow
		again := false
		x.scan(&again, row.to(), "SELECT "+sweepColumns+" FROM sweeps x WHERE x.id = $1", n.ID)
		if err := x.flush(ctx); err != nil {
			return err
		}
		if again {
			if row.Tenant != n.Tenant {
				return fmt.Errorf("the id is another tenant's: %w", blobd.ErrConflict)
			}
			s, err = row.sweep()
			return err
		}
		if err := x.living(ctx, n.Tenant); err != nil { // shares the tenant's lock
			return err
		}
		inserted := false
		row = sweepRow{}
		x.scan(&inserted, row.to(), `INSERT INTO sweeps AS x (id, tenant, state, trigger, requested_by, confirm, at, version, started_at, run_at)
			SELECT $1, $2, 'running', $3, $4, $5, m.now, (SELECT coalesce(max(version), 0) FROM policy_versions WHERE tenant = $2), m.now, $6
			FROM (SELECT coalesce($7::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS now) m
			ON CONFLICT DO NOTHING RETURNING `+sweepColumns,
			n.ID, n.Tenant, n.Trigger, n.RequestedBy, n.Confirm, n.RunAt.UnixMicro(), l.now())
		if err := x.flush(ctx); err != nil {
			return err
		}
		if !inserted {
			return fmt.Errorf("a sweep of the tenant runs: %w", blobd.ErrConflict)
		}
		x.append(n.Entry)
		x.move(counts{entries: 1})
		s, err = row.sweep()
		return err
	})
	if err != nil {
		return ledger.Sweep{}, err
	}
	return s, nil
}

// ClaimSweep implements ledger.Sweeps.
func (l *Ledger) ClaimSweep(ctx context.Context, owner string, at, until time.Time) (j ledger.SweepJob, err error) {
	const op = "claim a sweep"
	var row sweepRow
	found := false
	err = l.write(ctx, op, func(_ context.Context, x *tx) error {
		row, j, found = sweepRow{}, ledger.SweepJob{}, false
		x.scan(&found, append(row.to(), &j.Lease.Term),
			`UPDATE sweeps x SET term = term + 1, attempts = attempts + 1, lease_owner = $1, lease_until = $2
			WHERE seq = (SELECT seq FROM sweeps WHERE state = 'running' AND run_at <= $3
				AND (lease_owner IS NULL OR lease_until <= $3) ORDER BY run_at, seq LIMIT 1 FOR UPDATE SKIP LOCKED)
			RETURNING `+sweepColumns+", x.term", owner, until.UnixMicro(), at.UnixMicro())
		return nil
	})
	if err := classifyFound(op, found, err); err != nil {
		return ledger.SweepJob{}, err
	}
	if j.Sweep, err = row.sweep(); err != nil {
		return ledger.SweepJob{}, classify(op, err)
	}
	j.Lease.SweepID, j.Lease.Owner, j.Lease.Until = j.Sweep.ID, owner, stored(until)
	return j, nil
}

// heldSweep locks and returns the sweep of a lease that is still its holder's.
func heldSweep(ctx context.Context, x *tx, l ledger.SweepLease) (ledger.Sweep, error) {
	var row sweepRow
	found := false
	x.scan(&found, row.to(), "SELECT "+sweepColumns+` FROM sweeps x
		WHERE x.id = $1 AND x.state = 'running' AND x.lease_owner = $2 AND x.term = $3 FOR UPDATE`, l.SweepID, l.Owner, l.Term)
	err := x.flush(ctx)
	if err == nil && !found {
		err = fmt.Errorf("the lease is stale: %w", blobd.ErrConflict)
	}
	if err != nil {
		return ledger.Sweep{}, err
	}
	return row.sweep()
}

// MoveSweep implements ledger.Sweeps.
func (l *Ledger) MoveSweep(ctx context.Context, lease ledger.SweepLease, m ledger.SweepMove) error {
	const op = "move a sweep"
	if err := m.Check(); err != nil {
		return classify(op, err)
	}
	details, err := ledger.Progress{Refused: m.Refused}.Details()
	if err != nil {
		return classify(op, err)
	}
	return l.write(ctx, op, func(ctx context.Context, x *tx) error {
		s, err := heldSweep(ctx, x, lease)
		if err != nil {
			return err
		}
		if m.Plan != nil {
			if s.Planned {
				return fmt.Errorf("it has a plan: %w", blobd.ErrConflict)
			}
			t := m.Plan
			x.exec(`UPDATE sweeps SET planned = TRUE, scanned = $2, plan_erase = $3, plan_held = $4, plan_floor = $5,
				plan_review = $6, plan_waiting = $7, plan_bytes = $8 WHERE id = $1`,
				s.ID, t.Scanned, t.Erase, t.Held, t.Floor, t.Review, t.Waiting, t.Bytes)
		}
		x.exec("UPDATE sweeps SET state = $2, failed = $3, details = $4, last_error = $5 WHERE id = $1",
			s.ID, string(m.To), m.Failed, orNull(details), m.LastError)
		const release = "UPDATE sweeps SET lease_owner = NULL, lease_until = NULL, "
		switch {
		case m.To != ledger.SweepRunning:
			x.exec(release+"finished_at = $2 WHERE id = $1", s.ID, m.At.UnixMicro())
		case m.Until.IsZero():
			x.exec(release+"run_at = $2 WHERE id = $1", s.ID, m.Due.UnixMicro())
		default:
			x.exec("UPDATE sweeps SET lease_until = $2 WHERE id = $1", s.ID, m.Until.UnixMicro())
		}
		x.append(m.Entries...)
		x.move(counts{entries: int64(len(m.Entries))})
		return nil
	})
}

// lockRows locks rows of the sweep's tenant for a change, their executions first as
// puts do, and reads them as retention sees them.
func lockRows(ctx context.Context, x *tx, tenant string, at []ledger.Position) (map[ledger.Position]ledger.DueRow, error) {
	tags, refs := positions(at)
	x.shareTenant(tenant)
	x.exec("SELECT 1 FROM executions WHERE tag = ANY($1::bytea[]) ORDER BY tag FOR NO KEY UPDATE", tags)
	found := make(map[ledger.Position]ledger.DueRow, len(at))
	x.each(func(r pgx.CollectableRow) error {
		d, err := scanDue(r)
		found[d.Position] = d
		return err
	}, "SELECT "+dueColumns+" FROM unnest($1::bytea[], $2::bytea[]) q (tag, ref) JOIN blobs b ON b.execution_tag = q.tag AND b.ref = q.ref"+
		fromRetained+"WHERE e.tenant = $3 AND "+retained+" ORDER BY b.execution_tag, b.ref FOR NO KEY UPDATE OF b", tags, refs, tenant)
	return found, x.flush(ctx)
}

// Expire implements ledger.Sweeps.
func (l *Ledger) Expire(ctx context.Context, lease ledger.SweepLease, x ledger.Expiry) (expired []ledger.DueRow, err error) {
	const op = "expire"
	if err := ledger.CheckBatch(x.Rows); err != nil {
		return nil, classify(op, err)
	}
	err = l.write(ctx, op, func(ctx context.Context, t *tx) error { return expireBatch(ctx, t, lease, x, &expired) })
	if err != nil {
		return nil, err
	}
	return expired, nil
}

func expireBatch(ctx context.Context, t *tx, lease ledger.SweepLease, x ledger.Expiry, expired *[]ledger.DueRow) error {
	s, err := heldSweep(ctx, t, lease)
	if err != nil {
		return err
	}
	versions := make(map[class][]ledger.Policy)
	rows, err := lockRows(ctx, t, s.Tenant, x.Rows)
	if err != nil {
		return err
	}
	versionsOf(t, versions, "tenant = $1", s.Tenant)
	if err := t.flush(ctx); err != nil {
		return err
	}
	*expired, err = expire(t, &s, x, rows, versions)
	return err
}

// expire decides, and queues the changes.
func expire(t *tx, s *ledger.Sweep, x ledger.Expiry, rows map[ledger.Position]ledger.DueRow, versions map[class][]ledger.Policy,
) (expired []ledger.DueRow, err error) {
	late := s.LateUntil
	for _, at := range x.Rows {
		r, found := rows[at]
		if !found {
			continue
		}
		delete(rows, at) // each once
		end, may := s.MayExpire(&r, versions[class{s.Tenant, r.Class}])
		if !may {
			continue
		}
		if end = end.Add(x.Margin); end.After(late) {
			late = end
		}
		expired = append(expired, r)
	}
	if len(expired) == 0 {
		return nil, nil
	}
	entry, err := x.Entry(expired)
	if err != nil {
		return nil, err
	}
	takeOff(t, expired, "state = 7, wrapped = NULL, repeat = NULL")
	t.exec("UPDATE sweeps SET late_until = $2 WHERE id = $1", s.ID, micros(late))
	t.append(entry)
	return expired, nil
}

// takeOff queues what a batch of rows that lose their keys changes of them, by set,
// and of what is counted, and the move of the counters, its entry included.
func takeOff(t *tx, expired []ledger.DueRow, set string) {
	index := make(map[blobd.ExecutionTag]int)
	var tags, lost, refs [][]byte
	var blobs, sizes []int64
	moved := counts{entries: 1}
	for i := range expired {
		r := &expired[i]
		lost, refs = append(lost, r.Tag[:]), append(refs, r.Ref[:])
		at, seen := index[r.Tag]
		if !seen {
			at = len(tags)
			index[r.Tag] = at
			tags, blobs, sizes = append(tags, r.Tag[:]), append(blobs, 0), append(sizes, 0)
		}
		if r.State == ledger.BlobLive {
			blobs[at], sizes[at] = blobs[at]+1, sizes[at]+r.Size
			moved.blobs, moved.bytes = moved.blobs-1, moved.bytes-r.Size
		}
	}
	t.exec("UPDATE blobs b SET "+set+` FROM unnest($1::bytea[], $2::bytea[]) o (tag, ref)
		WHERE b.execution_tag = o.tag AND b.ref = o.ref`, lost, refs)
	t.exec(`UPDATE executions e SET blobs = e.blobs - g.blobs, bytes = e.bytes - g.bytes, lost_blob = TRUE
		FROM unnest($1::bytea[], $2::bigint[], $3::bigint[]) g (tag, blobs, bytes) WHERE e.tag = g.tag`, tags, blobs, sizes)
	t.move(moved)
}

// Bury implements ledger.Sweeps.
func (l *Ledger) Bury(ctx context.Context, lease ledger.SweepLease, rows []ledger.Position) (n int, err error) {
	const op = "bury"
	if err := ledger.CheckBatch(rows); err != nil {
		return 0, classify(op, err)
	}
	err = l.write(ctx, op, func(ctx context.Context, x *tx) error {
		n = 0
		s, err := heldSweep(ctx, x, lease)
		if err != nil {
			return err
		}
		found, err := lockRows(ctx, x, s.Tenant, rows)
		if err != nil {
			return err
		}
		var tags, refs [][]byte
		for at, r := range found {
			if r.State == ledger.BlobExpired {
				tags, refs = append(tags, at.Tag[:]), append(refs, at.Ref[:])
			}
		}
		if n = len(refs); n == 0 {
			return nil
		}
		x.exec(`UPDATE blobs b SET class = '', class_n = NULL, kind = '', content_type = '', size = 0, sealed_size = 0,
			step_id = '', audience = NULL FROM unnest($1::bytea[], $2::bytea[]) o (tag, ref)
			WHERE b.execution_tag = o.tag AND b.ref = o.ref`, tags, refs)
		x.exec(`DELETE FROM subjects s USING unnest($1::bytea[], $2::bytea[]) o (tag, ref)
			WHERE s.execution_tag = o.tag AND s.ref = o.ref`, tags, refs)
		x.exec("UPDATE sweeps SET erased = erased + $2 WHERE id = $1", s.ID, n)
		return nil
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// Sweep implements ledger.Sweeps.
func (l *Ledger) Sweep(ctx context.Context, tenant, id string) (ledger.Sweep, error) {
	const op = "sweep"
	s, found, err := one(ctx, l, op, scanSweep, "SELECT "+sweepColumns+" FROM sweeps x WHERE x.id = $1 AND x.tenant = $2", id, tenant)
	return s, classifyFound(op, found, err)
}

// ListSweeps implements ledger.Sweeps.
func (l *Ledger) ListSweeps(ctx context.Context, q ledger.SweepQuery) ([]ledger.Sweep, error) {
	const op = "list sweeps"
	if err := checkLimit(op, q.Limit); err != nil {
		return nil, err
	}
	f := filter{"SELECT " + sweepColumns + " FROM sweeps x WHERE x.tenant = $1", []any{q.Tenant}}
	if q.Before != (ledger.SweepCursor{}) {
		f.and("(x.started_at, x.id) < (%, %)", q.Before.StartedAt.UnixMicro(), q.Before.ID)
	}
	if q.State != "" {
		f.and("x.state = %", string(q.State))
	}
	f.args = append(f.args, q.Limit)
	return list(ctx, l, op, scanSweep, f.sql+" ORDER BY x.started_at DESC, x.id DESC LIMIT $"+strconv.Itoa(len(f.args)), f.args...)
}
