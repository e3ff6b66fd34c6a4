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

// epochColumns are scanned by epochTo, from epochs x.
const epochColumns = `x.id, x.tenant, x.state, x.from_version, x.version, x.total, x.rewrapped, x.rekeyed,
	x.last_error, x.attempts, x.started_at, x.completed_at, x.trim_at, x.trimmed_at, x.run_at`

func epochTo(e *ledger.Epoch) []any {
	return []any{
		&e.ID, &e.Tenant, &e.State, &e.From, &e.Version, &e.Total, &e.Rewrapped, &e.Rekeyed,
		&e.LastError, &e.Attempts, moment{&e.StartedAt}, moment{&e.CompletedAt}, moment{&e.TrimAt}, moment{&e.TrimmedAt},
		moment{&e.RunAt},
	}
}

func scanEpoch(r pgx.CollectableRow) (e ledger.Epoch, err error) {
	err = r.Scan(epochTo(&e)...)
	return e, err
}

// StartEpoch implements ledger.Epochs.
func (l *Ledger) StartEpoch(ctx context.Context, n ledger.NewEpoch) (e ledger.Epoch, err error) {
	const op = "start an epoch"
	if n.ID == "" {
		return e, classify(op, fmt.Errorf("no id: %w", blobd.ErrInvalid))
	}
	err = l.write(ctx, op, func(ctx context.Context, x *tx) error {
		e = ledger.Epoch{}
		var again, open bool
		var one int
		x.scan(&again, epochTo(&e), "SELECT "+epochColumns+" FROM epochs x WHERE x.id = $1", n.ID)
		living := x.living(ctx, n.Tenant)
		x.scan(&open, []any{&one}, "SELECT 1 FROM epochs WHERE tenant = $1 AND state IN (1, 2)", n.Tenant)
		switch err := x.flush(ctx); {
		case err != nil:
			return err
		case again && e.Tenant != n.Tenant:
			return fmt.Errorf("the id is another tenant's: %w", blobd.ErrConflict)
		case again:
			return nil
		case living != nil:
			return living
		case open:
			return fmt.Errorf("an epoch of the tenant is not complete: %w", blobd.ErrConflict)
		}
		// One that was started meanwhile is refused by the constraints, and then
		// this is done again.
		x.exec("INSERT INTO epochs (id, tenant, state, started_at, run_at) VALUES ($1, $2, 1, $3, $3)", n.ID, n.Tenant, n.At.UnixMicro())
		x.append(n.Entry)
		x.move(counts{entries: 1})
		e = ledger.Epoch{ID: n.ID, Tenant: n.Tenant, State: ledger.EpochRotating, StartedAt: stored(n.At), RunAt: stored(n.At)}
		return nil
	})
	if err != nil {
		return ledger.Epoch{}, err
	}
	return e, nil
}

// ClaimEpoch implements ledger.Epochs.
func (l *Ledger) ClaimEpoch(ctx context.Context, owner string, at, until time.Time) (j ledger.EpochJob, err error) {
	const op = "claim an epoch"
	found := false
	err = l.write(ctx, op, func(_ context.Context, x *tx) error {
		j, found = ledger.EpochJob{}, false
		x.scan(&found, append(epochTo(&j.Epoch), &j.Lease.Term),
			`UPDATE epochs x SET term = term + 1, attempts = attempts + 1, lease_owner = $1, lease_until = $2
			WHERE seq = (SELECT seq FROM epochs WHERE state <> 4 AND state <> 5 AND run_at <= $3
				AND (lease_owner IS NULL OR lease_until <= $3) ORDER BY run_at, seq LIMIT 1 FOR UPDATE SKIP LOCKED)
			RETURNING `+epochColumns+", x.term", owner, until.UnixMicro(), at.UnixMicro())
		return nil
	})
	if err := classifyFound(op, found, err); err != nil {
		return ledger.EpochJob{}, err
	}
	j.Lease.EpochID, j.Lease.Owner, j.Lease.Until = j.Epoch.ID, owner, stored(until)
	return j, nil
}

// heldEpoch locks and returns the epoch of a lease that is still its holder's.
func heldEpoch(ctx context.Context, x *tx, l ledger.EpochLease) (e ledger.Epoch, err error) {
	found := false
	x.scan(&found, epochTo(&e), "SELECT "+epochColumns+` FROM epochs x
		WHERE x.id = $1 AND x.state NOT IN (4, 5) AND x.lease_owner = $2 AND x.term = $3 FOR UPDATE`, l.EpochID, l.Owner, l.Term)
	err = x.flush(ctx)
	if err == nil && !found {
		err = fmt.Errorf("the lease is stale: %w", blobd.ErrConflict)
	}
	return e, err
}

// below counts the wraps of the tenant $1 below the version $2.
const below = `SELECT (SELECT count(*) FROM tenants WHERE id = $1 AND index_wrap < $2)
	+ (SELECT count(*) FROM execution_keys WHERE tenant = $1 AND version < $2)`

// MoveEpoch implements ledger.Epochs. A raise of the minimum takes the tenant's
// lock alone: every put that may have read the one before has ended then, and
// what it inserted is seen by who looks for wraps.
func (l *Ledger) MoveEpoch(ctx context.Context, lease ledger.EpochLease, m ledger.EpochMove) error {
	const op = "move an epoch"
	total, err := l.countBelow(ctx, op, lease, m)
	if err != nil {
		return err
	}
	return l.write(ctx, op, func(ctx context.Context, x *tx) error {
		e, err := heldEpoch(ctx, x, lease)
		if err != nil {
			return err
		}
		next, err := movedEpoch(e, m)
		if err != nil {
			return err
		}
		if next.State != e.State {
			if err := enterState(ctx, x, &next, total); err != nil {
				return err
			}
		}
		saveEpoch(x, next, m)
		x.append(m.Entries...)
		x.move(counts{entries: int64(len(m.Entries))})
		return nil
	})
}

// countBelow counts what a raise of the minimum makes work of. It reads every
// key of the tenant, so no lock is held meanwhile: the figure only serves to
// show progress.
func (l *Ledger) countBelow(ctx context.Context, op string, lease ledger.EpochLease, m ledger.EpochMove) (int64, error) {
	if m.To != ledger.EpochRewrapping {
		return 0, nil
	}
	e, found, err := one(ctx, l, op, scanEpoch, "SELECT "+epochColumns+" FROM epochs x WHERE x.id = $1", lease.EpochID)
	if err != nil || !found || e.State == m.To {
		return 0, err
	}
	n, _, err := one(ctx, l, op, pgx.RowTo[int64], below, e.Tenant, int64(max(e.Version, m.Version)))
	return n, err
}

// movedEpoch returns an epoch as a move leaves it, if the move is legal.
func movedEpoch(e ledger.Epoch, m ledger.EpochMove) (ledger.Epoch, error) {
	if m.To != e.State && !ledger.Legal(ledger.EpochMoves(), e.State, m.To) {
		return e, fmt.Errorf("the epoch is %v: %w", e.State, blobd.ErrConflict)
	}
	e.From, e.Version = or(m.From, e.From), or(m.Version, e.Version)
	if !m.TrimAt.IsZero() {
		e.TrimAt = m.TrimAt
	}
	if m.Until.IsZero() {
		e.RunAt = m.Due
	}
	e.LastError = m.LastError
	if m.To == e.State {
		return e, nil
	}
	e.State = m.To
	switch {
	case e.State == ledger.EpochRewrapping && e.Version <= e.From:
		return e, fmt.Errorf("version %d after %d: %w", e.Version, e.From, blobd.ErrInvalid)
	case e.State == ledger.EpochWaiting:
		e.CompletedAt = m.At
	case e.State == ledger.EpochTrimmed:
		e.TrimmedAt = m.At
	}
	return e, nil
}

// enterState does what an epoch's new state asks of the ledger.
func enterState(ctx context.Context, x *tx, e *ledger.Epoch, total int64) error {
	switch e.State {
	case ledger.EpochRewrapping:
		e.Total = total
		x.exec("SELECT pg_advisory_xact_lock($1)", tenantLock(e.Tenant))
		x.exec("UPDATE tenants SET minimum_wrap = greatest(minimum_wrap, $1) WHERE id = $2", int64(e.Version), e.Tenant)
	case ledger.EpochWaiting:
		var left int64
		x.scan(nil, []any{&left}, below, e.Tenant, int64(e.Version))
		if err := x.flush(ctx); err != nil {
			return err
		}
		if left > 0 {
			return fmt.Errorf("%d wraps are below version %d: %w", left, e.Version, blobd.ErrConflict)
		}
	}
	return nil
}

func saveEpoch(x *tx, e ledger.Epoch, m ledger.EpochMove) {
	until := micros(m.Until)
	if e.State == ledger.EpochTrimmed {
		until = nil
	}
	x.exec(`UPDATE epochs SET state = $1, from_version = $2, version = $3, total = $4, last_error = $5,
		completed_at = $6, trim_at = $7, trimmed_at = $8, run_at = $9,
		lease_until = $10, lease_owner = CASE WHEN $10::bigint IS NOT NULL THEN lease_owner END WHERE id = $11`,
		int16(e.State), int64(e.From), int64(e.Version), e.Total, e.LastError,
		micros(e.CompletedAt), micros(e.TrimAt), micros(e.TrimmedAt), e.RunAt.UnixMicro(), until, e.ID)
}

// ListEpochs implements ledger.Epochs.
func (l *Ledger) ListEpochs(ctx context.Context, q ledger.EpochQuery) ([]ledger.Epoch, error) {
	const op = "list epochs"
	if err := checkLimit(op, q.Limit); err != nil {
		return nil, err
	}
	f := filter{"SELECT " + epochColumns + " FROM epochs x WHERE x.tenant = $1", []any{q.Tenant}}
	if q.Before != (ledger.EpochCursor{}) {
		f.and("(x.started_at, x.id) < (%, %)", q.Before.StartedAt.UnixMicro(), q.Before.ID)
	}
	f.args = append(f.args, q.Limit)
	return list(ctx, l, op, scanEpoch,
		f.sql+" ORDER BY x.started_at DESC, x.id DESC LIMIT $"+strconv.Itoa(len(f.args)), f.args...)
}

// Wraps implements ledger.Epochs.
func (l *Ledger) Wraps(ctx context.Context, q ledger.WrapQuery) (ws []ledger.Wrap, err error) {
	const op = "wraps"
	if err := checkLimit(op, q.Limit); err != nil {
		return nil, err
	}
	f := filter{`SELECT e.tag, e.created_at, e.lost_blob, k.id, k.version, k.wrapped
		FROM executions e JOIN execution_keys k ON k.tag = e.tag WHERE e.tenant = $1 AND k.version < $2
		AND NOT EXISTS (SELECT 1 FROM tenants t WHERE t.id = e.tenant AND t.fenced_at IS NOT NULL)`,
		[]any{q.Tenant, int64(q.Below)}}
	first := q.After == (ledger.ExecutionCursor{})
	if !first {
		f.and("(e.created_at, e.tag) > (%, %)", q.After.CreatedAt.UnixMicro(), q.After.Tag[:])
	}
	f.args = append(f.args, q.Limit)
	err = l.readOnly(ctx, "REPEATABLE READ", func(_ context.Context, x *tx) error {
		ws = nil
		add := func(r pgx.CollectableRow) error {
			w, err := scanWrap(r)
			if len(ws) < q.Limit {
				ws = append(ws, w)
			}
			return err
		}
		if first {
			x.each(add, `SELECT NULL::bytea, NULL::bigint, FALSE, NULL::bytea, index_wrap, index_key
				FROM tenants WHERE id = $1 AND index_wrap < $2 AND fenced_at IS NULL`, q.Tenant, int64(q.Below))
		}
		x.each(add, f.sql+" ORDER BY e.created_at, e.tag LIMIT $"+strconv.Itoa(len(f.args)), f.args...)
		return nil
	})
	if err != nil {
		return nil, classify(op, err)
	}
	return ws, nil
}

func scanWrap(r pgx.CollectableRow) (w ledger.Wrap, err error) {
	err = r.Scan(fixed(w.Tag[:]), moment{&w.CreatedAt}, &w.LostBlob, fixed(w.Key.ID[:]), &w.Key.Version, &w.Key.Ciphertext)
	return w, err
}
