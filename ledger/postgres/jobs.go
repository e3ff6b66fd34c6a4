package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// Claim implements ledger.Jobs. Nodes that claim at once skip what another has
// in hand, so they wait for nobody.
func (l *Ledger) Claim(ctx context.Context, owner string, at, until time.Time) (j ledger.Job, err error) {
	const op = "claim"
	found := false
	err = l.write(ctx, op, func(_ context.Context, x *tx) error {
		j, found = ledger.Job{}, false
		claim(x, &found, &j, owner, at, until)
		return nil
	})
	if err := classifyFound(op, found, err); err != nil {
		return ledger.Job{}, err
	}
	j.Lease.ErasureID, j.Lease.Owner, j.Lease.Until = j.Erasure.ID, owner, stored(until)
	return j, nil
}

// claim queues the lease of the erasure that is due first. One whose grace is over,
// or that was deferred until then, passes over its scope from now on.
func claim(x *tx, found *bool, j *ledger.Job, owner string, at, until time.Time) {
	x.scan(found, append(erasureTo(&j.Erasure), &j.Lease.Term),
		`UPDATE erasures x SET term = term + 1, attempts = attempts + 1, lease_owner = $1, lease_until = $2,
				state = CASE WHEN state IN ('grace', 'deferred') THEN 'passing' ELSE state END,
				woken_at = NULL
			WHERE seq = (SELECT seq FROM erasures WHERE state IN ('running', 'passing', 'grace', 'deferred') AND run_at <= $3
				AND (lease_owner IS NULL OR lease_until <= $3) ORDER BY run_at, seq LIMIT 1 FOR UPDATE SKIP LOCKED)
			RETURNING `+erasureColumns+", x.term", owner, until.UnixMicro(), at.UnixMicro())
}

// job is what a lease's holder works on.
type job struct {
	seq        int64
	tag        blobd.ExecutionTag
	ofRefs     bool
	tombstoned []byte

	tenant      string
	wholeTenant bool

	closing bool // it has not fenced
	planned bool
	scope   ledger.Scope // whole, then
	grace   time.Time
}

// held locks and returns the job of a lease that is still its holder's.
func held(ctx context.Context, x *tx, l ledger.Lease) (j job, err error) {
	found := false
	var refs [][32]byte
	s := &j.scope
	x.scan(&found, []any{
		&j.seq, fixed(j.tag[:]), &j.ofRefs, &j.tombstoned, &j.tenant, &j.wholeTenant, &j.closing, &j.planned, moment{&j.grace},
		&s.ExecutionID, hashes{&refs}, hashes{&s.Subjects}, &s.Class, moment{&s.CapturedBefore},
	}, `SELECT seq, execution_tag, of_refs, tombstoned, tenant, whole_tenant, closing, planned, grace_until,
			execution_id, scope_refs, subjects, class, captured_before FROM erasures
		WHERE id = $1 AND state IN ('running', 'passing') AND lease_owner = $2 AND term = $3 FOR UPDATE`, l.ErasureID, l.Owner, l.Term)
	err = x.flush(ctx)
	s.Tenant, s.Tag, s.Refs, s.WholeTenant = j.tenant, j.tag, refsOf(refs), j.wholeTenant
	if err == nil && !found {
		err = fmt.Errorf("the lease is stale: %w", blobd.ErrConflict)
	}
	return j, err
}

// Postpone implements ledger.Jobs.
func (l *Ledger) Postpone(ctx context.Context, lease ledger.Lease, due time.Time, p ledger.Progress, es []ledger.Entry) error {
	return l.write(ctx, "postpone", func(ctx context.Context, x *tx) error {
		j, err := held(ctx, x, lease)
		if err != nil {
			return err
		}
		if err := saveProgress(x, j, p); err != nil {
			return err
		}
		x.exec("UPDATE erasures SET run_at = $1, lease_owner = NULL, lease_until = NULL WHERE seq = $2", due.UnixMicro(), j.seq)
		x.append(es...)
		x.move(counts{entries: int64(len(es))})
		return nil
	})
}

func saveProgress(x *tx, j job, p ledger.Progress) error {
	details, err := p.Details()
	if err != nil {
		return err
	}
	x.exec(`UPDATE erasures SET keys_destroyed = $1, objects_deleted = $2, versions_deleted = $3,
		failed = $4, remaining = $5, settled = $6, swept = $7, last_error = $8, details = $9 WHERE seq = $10`,
		p.KeysDestroyed, p.ObjectsDeleted, p.VersionsDeleted, p.Failed, p.Remaining, p.Settled, p.Swept, p.LastError,
		details, j.seq)
	return nil
}

// Renew implements ledger.Jobs.
func (l *Ledger) Renew(ctx context.Context, lease ledger.Lease, until time.Time) error {
	return l.write(ctx, "renew", func(ctx context.Context, x *tx) error {
		j, err := held(ctx, x, lease)
		if err != nil {
			return err
		}
		x.exec("UPDATE erasures SET lease_until = $1 WHERE seq = $2", until.UnixMicro(), j.seq)
		return nil
	})
}

// The rows of a job's scope that are not tombstones yet: $1 is the execution,
// $2 a ref to start after, $3 the job. A collected row never was a blob and
// stays. A whole execution's tombstones release their repeat tags; refs erased
// in a living execution keep them.
const (
	leftOfExecution = ` FROM blobs b WHERE b.execution_tag = $1 AND b.ref > $2 AND $3::bigint IS NOT NULL
		AND b.state <> 5 AND (b.state <> 2 OR b.class <> '' OR b.repeat IS NOT NULL)`
	leftOfRefs = ` FROM erasure_refs r JOIN blobs b ON b.execution_tag = $1 AND b.ref = r.ref
		WHERE r.ref > $2 AND r.erasure = $3 AND b.state <> 5 AND (b.state <> 2 OR b.class <> '')`
)

// leftAfter returns a query's end and its arguments for what is left of a job
// after a ref.
func (j job) leftAfter(ref []byte) (from string, args []any) {
	args = []any{j.tag[:], notNull(ref), j.seq}
	if j.ofRefs {
		return leftOfRefs, args
	}
	return leftOfExecution, args
}

// Tombstone implements ledger.Jobs.
func (l *Ledger) Tombstone(ctx context.Context, lease ledger.Lease, limit int) (int, error) {
	const op = "tombstone"
	if err := checkLimit(op, limit); err != nil {
		return 0, err
	}
	var j job
	err := l.write(ctx, op, func(ctx context.Context, x *tx) (err error) {
		if j, err = held(ctx, x, lease); err != nil {
			return err
		}
		switch {
		case j.closing:
			return tombstoneDropped(ctx, x, j, limit)
		case j.wholeTenant:
			return tombstoneTenant(ctx, x, &j, limit)
		default:
			return tombstone(ctx, x, &j, limit)
		}
	})
	if err != nil {
		return 0, err
	}
	// Counted apart, so that no lock is held meanwhile: at the end it reads every row
	// once. Nothing adds rows to a fenced scope but recovery.
	switch {
	case j.closing:
		left, _, err := one(ctx, l, op, pgx.RowTo[int], "SELECT count(*) FROM (SELECT 1"+droppedRows+" LIMIT $4) q",
			append(afterPosition(j.seq, ledger.Position{}), limit)...)
		return left, err
	case j.wholeTenant:
		return l.countTenant(ctx, op, j, limit)
	}
	return l.countLeft(ctx, op, j, limit)
}

// countLeft counts what is left of an execution or of refs, up to limit: after the
// place that the job is at, and if that is nothing, from the start.
func (l *Ledger) countLeft(ctx context.Context, op string, j job, limit int) (left int, err error) {
	for _, after := range [][]byte{j.tombstoned, nil} {
		from, args := j.leftAfter(after)
		left, _, err = one(ctx, l, op, pgx.RowTo[int], "SELECT count(*) FROM (SELECT 1"+from+" LIMIT $4) q", append(args, limit)...)
		if err != nil || left > 0 {
			return left, err
		}
	}
	return 0, nil
}

// tombstone goes on after the last row that the job passed, so that many calls
// together read the scope once; at its end it starts over.
func tombstone(ctx context.Context, x *tx, j *job, limit int) error {
	from, args := j.leftAfter(j.tombstoned)
	var refs [][]byte
	x.each(func(r pgx.CollectableRow) error {
		ref, err := pgx.RowTo[[]byte](r)
		refs = append(refs, ref)
		return err
	}, "SELECT b.ref"+from+" ORDER BY b.ref LIMIT $4 FOR UPDATE OF b", append(args, limit)...)
	if err := x.flush(ctx); err != nil {
		return err
	}
	x.exec(`UPDATE blobs SET state = 2, class = '', class_n = NULL, kind = '', content_type = '', size = 0, sealed_size = 0,
		step_id = '', wrapped = NULL, audience = NULL, repeat = CASE WHEN $1 THEN repeat END
		WHERE execution_tag = $2 AND ref = ANY($3::bytea[])`, j.ofRefs, j.tag[:], refs)
	x.exec("DELETE FROM subjects WHERE execution_tag = $1 AND ref = ANY($2::bytea[])", j.tag[:], refs)
	x.exec("UPDATE erasure_rows SET done = TRUE WHERE erasure = $1 AND execution_tag = $2 AND ref = ANY($3::bytea[])", j.seq, j.tag[:], refs)
	j.tombstoned = []byte{}
	if len(refs) == limit {
		j.tombstoned = refs[limit-1]
	}
	x.exec("UPDATE erasures SET tombstoned = $1 WHERE seq = $2", j.tombstoned, j.seq)
	return nil
}

// earlierRunning finds an erasure before this one that fenced what it covers: the
// whole execution, refs that both name, or the whole tenant.
const earlierRunning = `SELECT 1 FROM erasures e WHERE e.execution_tag = $1 AND e.seq < $2 AND e.state = 'running'
	AND (NOT e.of_refs OR EXISTS (SELECT 1 FROM erasure_refs a JOIN erasure_refs b ON a.ref = b.ref
		WHERE a.erasure = e.seq AND b.erasure = $2))
	UNION ALL SELECT 1 FROM erasures e WHERE e.tenant = $3 AND e.whole_tenant AND e.seq < $2 AND e.state = 'running' LIMIT 1`

// Finish implements ledger.Jobs.
func (l *Ledger) Finish(ctx context.Context, lease ledger.Lease, p ledger.Progress, at time.Time, es []ledger.Entry) error {
	const op = "finish"
	if err := l.tenantDone(ctx, op, lease); err != nil {
		return err
	}
	return l.write(ctx, op, func(ctx context.Context, x *tx) error {
		j, err := held(ctx, x, lease)
		if err != nil {
			return err
		}
		if err := finishable(ctx, x, j); err != nil {
			return err
		}
		if err := saveProgress(x, j, p); err != nil {
			return err
		}
		x.exec(`UPDATE erasures SET state = 'erased', erased_at = $1, lease_owner = NULL, lease_until = NULL
			WHERE seq = $2`, at.UnixMicro(), j.seq)
		if j.closing {
			endClosing(x, &j, lease, ledger.Lift{At: at})
		}
		x.append(es...)
		x.move(counts{entries: int64(len(es))})
		return nil
	})
}

func finishable(ctx context.Context, x *tx, j job) error {
	var left, earlier bool
	var one int
	if j.closing {
		if err := j.droppable(ctx, x); err != nil {
			return err
		}
	} else {
		from, args := j.leftAfter(nil)
		x.scan(&left, []any{&one}, "SELECT 1"+from+" LIMIT 1", args...)
	}
	x.scan(&earlier, []any{&one}, earlierRunning, j.tag[:], j.seq, j.tenant)
	switch err := x.flush(ctx); {
	case err != nil:
		return err
	case left:
		return fmt.Errorf("rows are left: %w", blobd.ErrConflict)
	case earlier:
		return fmt.Errorf("an earlier erasure of this scope has not finished: %w", blobd.ErrConflict)
	}
	return nil
}
