package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// epochColumns are read by row.epoch, from epochs.
const epochColumns = `id, tenant, state, from_version, version, total, rewrapped, rekeyed,
	last_error, attempts, started_at, completed_at, trim_at, trimmed_at, run_at`

const epochColumnCount = 15

func (r *row) epoch() ledger.Epoch {
	return ledger.Epoch{
		ID: r.text(0), Tenant: r.text(1), State: ledger.EpochState(r.int(2)),
		From: uint32(r.int(3)), Version: uint32(r.int(4)),
		Total: r.int(5), Rewrapped: r.int(6), Rekeyed: r.int(7), LastError: r.text(8), Attempts: r.int(9),
		StartedAt: r.time(10), CompletedAt: r.time(11), TrimAt: r.time(12), TrimmedAt: r.time(13), RunAt: r.time(14),
	}
}

func epochByID(ctx context.Context, c *conn, id string) (e ledger.Epoch, found bool, err error) {
	found, err = c.one(ctx, "SELECT "+epochColumns+" FROM epochs WHERE id = ?", func(r *row) { e = r.epoch() }, id)
	return e, found, err
}

// StartEpoch implements ledger.Epochs.
func (l *Ledger) StartEpoch(ctx context.Context, n ledger.NewEpoch) (e ledger.Epoch, err error) {
	if n.ID == "" {
		return e, classify("start an epoch", fmt.Errorf("no id: %w", blobd.ErrInvalid))
	}
	err = l.write(ctx, "start an epoch", func(w *conn) error {
		first, again, err := epochByID(ctx, w, n.ID)
		switch {
		case err != nil:
			return err
		case again && first.Tenant != n.Tenant:
			return fmt.Errorf("the id is another tenant's: %w", blobd.ErrConflict)
		case again:
			e = first
			return nil
		}
		if err := startEpoch(ctx, w, n); err != nil {
			return err
		}
		e, _, err = epochByID(ctx, w, n.ID)
		return err
	})
	if err != nil {
		return ledger.Epoch{}, err
	}
	return e, nil
}

func startEpoch(ctx context.Context, w *conn, n ledger.NewEpoch) error {
	if err := living(ctx, w, n.Tenant); err != nil {
		return err
	}
	inserted, err := w.exec(ctx, `INSERT INTO epochs (id, tenant, state, started_at, run_at)
		VALUES (?, ?, 1, ?, ?) ON CONFLICT DO NOTHING`, n.ID, n.Tenant, n.At.UnixMicro(), n.At.UnixMicro())
	if err != nil {
		return err
	}
	if inserted == 0 {
		return fmt.Errorf("an epoch of the tenant is not complete: %w", blobd.ErrConflict)
	}
	return appendEntries(ctx, w, n.Entry)
}

// ClaimEpoch implements ledger.Epochs.
func (l *Ledger) ClaimEpoch(ctx context.Context, owner string, at, until time.Time) (j ledger.EpochJob, err error) {
	err = l.write(ctx, "claim an epoch", func(w *conn) error {
		found, err := w.one(ctx, `UPDATE epochs SET term = term + 1, attempts = attempts + 1, lease_owner = ?, lease_until = ?
			WHERE seq = (SELECT seq FROM epochs WHERE state <> 4 AND state <> 5 AND run_at <= ?
				AND (lease_owner IS NULL OR lease_until <= ?) ORDER BY run_at, seq LIMIT 1)
			RETURNING `+epochColumns+", term",
			func(r *row) {
				j.Epoch = r.epoch()
				j.Lease = ledger.EpochLease{EpochID: j.Epoch.ID, Owner: owner, Term: r.int(epochColumnCount), Until: stored(until)}
			}, owner, until.UnixMicro(), at.UnixMicro(), at.UnixMicro())
		return orNotFound(found, err)
	})
	if err != nil {
		return ledger.EpochJob{}, err
	}
	return j, nil
}

// heldEpoch returns the epoch of a lease that is still its holder's.
func heldEpoch(ctx context.Context, c *conn, l ledger.EpochLease) (e ledger.Epoch, err error) {
	found, err := c.one(ctx, "SELECT "+epochColumns+` FROM epochs
		WHERE id = ? AND state NOT IN (4, 5) AND lease_owner = ? AND term = ?`,
		func(r *row) { e = r.epoch() }, l.EpochID, l.Owner, l.Term)
	if err == nil && !found {
		err = fmt.Errorf("the lease is stale: %w", blobd.ErrConflict)
	}
	return e, err
}

// MoveEpoch implements ledger.Epochs.
func (l *Ledger) MoveEpoch(ctx context.Context, lease ledger.EpochLease, m ledger.EpochMove) error {
	below, err := l.countBelow(ctx, lease, m)
	if err != nil {
		return classify("move an epoch", err)
	}
	// What the minimum is made of is a fact that every commit needs.
	return l.writeFacts(ctx, "move an epoch", func(w *conn) error {
		e, err := heldEpoch(ctx, w, lease)
		if err != nil {
			return err
		}
		next, err := movedEpoch(e, m, below)
		if err != nil {
			return err
		}
		if err := saveEpoch(ctx, w, next, m); err != nil {
			return err
		}
		if next.State == ledger.EpochRewrapping && e.State != next.State {
			_, err := w.exec(ctx, "UPDATE tenants SET minimum_wrap = max(minimum_wrap, ?) WHERE id = ?",
				int64(next.Version), e.Tenant)
			if err != nil {
				return err
			}
		}
		return appendEntries(ctx, w, m.Entries...)
	})
}

// countBelow counts the wraps below the epoch's version, for the moves that ask.
// Counting reads every execution of the tenant, so it is kept off the writer. It
// may: once the minimum is raised no wrap comes to be below it, and for the
// raise itself the figure only serves to show progress.
func (l *Ledger) countBelow(ctx context.Context, lease ledger.EpochLease, m ledger.EpochMove) (below int64, err error) {
	if m.To != ledger.EpochRewrapping && m.To != ledger.EpochWaiting {
		return 0, nil
	}
	err = l.withReader(ctx, func(c *conn) error {
		e, found, err := epochByID(ctx, c, lease.EpochID)
		if err != nil || !found || e.State == m.To {
			return err
		}
		version := max(e.Version, m.Version)
		_, err = c.one(ctx, `SELECT (SELECT count(*) FROM tenants WHERE id = ? AND index_wrap < ?)
			+ (SELECT count(*) FROM executions WHERE tenant = ? AND key_version < ?)`,
			func(r *row) { below = r.int(0) }, e.Tenant, int64(version), e.Tenant, int64(version))
		return err
	})
	return below, err
}

// movedEpoch returns an epoch as a move leaves it, if the move is legal.
func movedEpoch(e ledger.Epoch, m ledger.EpochMove, below int64) (ledger.Epoch, error) {
	moves := m.To != e.State
	if moves && !ledger.Legal(ledger.EpochMoves(), e.State, m.To) {
		return e, fmt.Errorf("the epoch is %v: %w", e.State, blobd.ErrConflict)
	}
	if m.From != 0 {
		e.From = m.From
	}
	if m.Version != 0 {
		e.Version = m.Version
	}
	if !m.TrimAt.IsZero() {
		e.TrimAt = m.TrimAt
	}
	if m.Until.IsZero() {
		e.RunAt = m.Due
	}
	e.LastError = m.LastError
	if !moves {
		return e, nil
	}
	e.State = m.To
	switch e.State {
	case ledger.EpochRewrapping:
		if e.Version <= e.From {
			return e, fmt.Errorf("version %d after %d: %w", e.Version, e.From, blobd.ErrInvalid)
		}
		e.Total = below
	case ledger.EpochWaiting:
		if below > 0 {
			return e, fmt.Errorf("%d wraps are below version %d: %w", below, e.Version, blobd.ErrConflict)
		}
		e.CompletedAt = m.At
	case ledger.EpochTrimmed:
		e.TrimmedAt = m.At
	}
	return e, nil
}

func saveEpoch(ctx context.Context, w *conn, e ledger.Epoch, m ledger.EpochMove) error {
	_, err := w.exec(ctx, `UPDATE epochs SET state = ?, from_version = ?, version = ?, total = ?, last_error = ?,
		completed_at = ?, trim_at = ?, trimmed_at = ?, run_at = ? WHERE id = ?`,
		int64(e.State), int64(e.From), int64(e.Version), e.Total, e.LastError,
		micros(e.CompletedAt), micros(e.TrimAt), micros(e.TrimmedAt), e.RunAt.UnixMicro(), e.ID)
	if err != nil {
		return err
	}
	if m.Until.IsZero() || e.State == ledger.EpochTrimmed {
		_, err = w.exec(ctx, "UPDATE epochs SET lease_owner = NULL, lease_until = NULL WHERE id = ?", e.ID)
	} else {
		_, err = w.exec(ctx, "UPDATE epochs SET lease_until = ? WHERE id = ?", m.Until.UnixMicro(), e.ID)
	}
	return err
}

// ListEpochs implements ledger.Epochs.
func (l *Ledger) ListEpochs(ctx context.Context, q ledger.EpochQuery) (es []ledger.Epoch, err error) {
	if err := checkLimit(q.Limit); err != nil {
		return nil, classify("list epochs", err)
	}
	query, args := "SELECT "+epochColumns+" FROM epochs WHERE tenant = ?", []any{q.Tenant}
	if q.Before != (ledger.EpochCursor{}) {
		query += " AND (started_at, id) < (?, ?)"
		args = append(args, q.Before.StartedAt.UnixMicro(), q.Before.ID)
	}
	query += " ORDER BY started_at DESC, id DESC LIMIT ?"
	args = append(args, int64(q.Limit))
	err = l.read(ctx, "list epochs", func(c *conn) error {
		return c.query(ctx, query, func(r *row) { es = append(es, r.epoch()) }, args...)
	})
	return es, err
}
