package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// claimable is the erasure that is due first. One whose grace is over, or that was
// deferred until now, runs from its claim on.
const claimable = `SELECT seq FROM erasures WHERE state IN ('running', 'grace', 'deferred') AND run_at <= ?
	AND (lease_owner IS NULL OR lease_until <= ?) ORDER BY run_at, seq LIMIT 1`

// Claim implements ledger.Jobs.
func (l *Ledger) Claim(ctx context.Context, owner string, at, until time.Time) (j ledger.Job, err error) {
	err = l.write(ctx, "claim", func(w *conn) error {
		found, err := w.one(ctx, `UPDATE erasures SET state = 'running', term = term + 1, attempts = attempts + 1, lease_owner = ?, lease_until = ?, woken = NULL
			WHERE seq = (`+claimable+`)
			RETURNING `+erasureColumns+", term",
			func(r *row) {
				j.Erasure = r.erasure()
				j.Lease = ledger.Lease{
					ErasureID: j.Erasure.ID, Owner: owner, Term: r.int(erasureColumnCount), Until: stored(until),
				}
			}, owner, until.UnixMicro(), at.UnixMicro(), at.UnixMicro())
		return orNotFound(found, err)
	})
	if err != nil {
		return ledger.Job{}, err
	}
	return j, nil
}

// job is what a lease's holder works on.
type job struct {
	seq        int64
	tag        blobd.ExecutionTag
	ofRefs     bool
	tombstoned []byte

	tenant      string
	wholeTenant bool
	closing     bool // it has not fenced
	wide        bool // of subjects, or a class
	planned     bool
}

// held returns the job of a lease that is still its holder's.
func held(ctx context.Context, w *conn, l ledger.Lease) (j job, err error) {
	found, err := w.one(ctx, `SELECT seq, execution_tag, of_refs, tombstoned, tenant, whole_tenant,
			closing, class <> '' OR subjects IS NOT NULL, planned FROM erasures
		WHERE id = ? AND state = 'running' AND lease_owner = ? AND term = ?`,
		func(r *row) {
			j = job{r.int(0), r.tag(1), r.bool(2), notNull(r.bytes(3)), r.text(4), r.bool(5), r.bool(6), r.bool(7), r.bool(8)}
		}, l.ErasureID, l.Owner, l.Term)
	if err == nil && !found {
		err = fmt.Errorf("the lease is stale: %w", blobd.ErrConflict)
	}
	return j, err
}

// Postpone implements ledger.Jobs.
func (l *Ledger) Postpone(ctx context.Context, lease ledger.Lease, due time.Time, p ledger.Progress, es []ledger.Entry) error {
	return l.write(ctx, "postpone", func(w *conn) error {
		j, err := held(ctx, w, lease)
		if err != nil {
			return err
		}
		if err := saveProgress(ctx, w, j, p); err != nil {
			return err
		}
		_, err = w.exec(ctx, "UPDATE erasures SET run_at = ?, lease_owner = NULL, lease_until = NULL WHERE seq = ?",
			due.UnixMicro(), j.seq)
		if err != nil {
			return err
		}
		return appendEntries(ctx, w, es...)
	})
}

func saveProgress(ctx context.Context, w *conn, j job, p ledger.Progress) error {
	encoded, err := p.Details()
	if err != nil {
		return err
	}
	_, err = w.exec(ctx, `UPDATE erasures SET keys_destroyed = ?, objects_deleted = ?, versions_deleted = ?,
		failed = ?, remaining = ?, settled = ?, swept = ?, last_error = ?, details = ? WHERE seq = ?`,
		p.KeysDestroyed, p.ObjectsDeleted, p.VersionsDeleted, p.Failed, p.Remaining,
		flag(p.Settled), flag(p.Swept), p.LastError, orNull(encoded), j.seq)
	return err
}

// Renew implements ledger.Jobs.
func (l *Ledger) Renew(ctx context.Context, lease ledger.Lease, until time.Time) error {
	return l.write(ctx, "renew", func(w *conn) error {
		j, err := held(ctx, w, lease)
		if err != nil {
			return err
		}
		_, err = w.exec(ctx, "UPDATE erasures SET lease_until = ? WHERE seq = ?", until.UnixMicro(), j.seq)
		return err
	})
}

// The rows of a job's scope that are not tombstones yet. A collected row never
// was a blob and stays. A whole execution's tombstones release their repeat
// tags; refs erased in a living execution keep them.
const (
	leftOfExecution = ` FROM blobs b WHERE b.execution_tag = ? AND b.ref > ?
		AND b.state <> 5 AND (b.state <> 2 OR b.class <> '' OR b.repeat IS NOT NULL)`
	leftOfRefs = ` FROM erasure_refs r JOIN blobs b ON b.execution_tag = ? AND b.ref = r.ref
		WHERE r.ref > ? AND r.erasure = ? AND b.state <> 5 AND (b.state <> 2 OR b.class <> '')`
)

// leftAfter returns a query's end and its arguments for what is left of a job
// after a ref.
func (j job) leftAfter(ref []byte) (from string, args []any) {
	if j.ofRefs {
		return leftOfRefs, []any{j.tag[:], ref, j.seq}
	}
	return leftOfExecution, []any{j.tag[:], ref}
}

// Tombstone implements ledger.Jobs.
func (l *Ledger) Tombstone(ctx context.Context, lease ledger.Lease, limit int) (left int, err error) {
	if err := checkLimit(limit); err != nil {
		return 0, classify("tombstone", err)
	}
	var j job
	err = l.write(ctx, "tombstone", func(w *conn) (err error) {
		if j, err = held(ctx, w, lease); err != nil {
			return err
		}
		switch {
		case j.closing:
			return tombstoneDropped(ctx, w, j, limit)
		case j.wholeTenant:
			return tombstoneTenant(ctx, w, &j, limit)
		}
		return tombstone(ctx, w, &j, limit)
	})
	if err != nil {
		return 0, err
	}
	// Kept off the writer, since at the end it reads every row once; nothing adds
	// rows to a fenced scope but recovery.
	err = l.read(ctx, "tombstone", func(c *conn) (err error) {
		switch {
		case j.closing:
			left, err = countDropped(ctx, c, j, limit)
			return err
		case j.wholeTenant:
			left, err = countTenant(ctx, c, j, limit)
			return err
		}
		left, err = countLeft(ctx, c, j, limit)
		return err
	})
	return left, err
}

// countLeft counts what is left of an execution or of refs, up to limit: after the
// place that the job is at, and if that is nothing, from the start.
func countLeft(ctx context.Context, c *conn, j job, limit int) (left int, err error) {
	for _, after := range [][]byte{j.tombstoned, {}} {
		from, args := j.leftAfter(after)
		_, err = c.one(ctx, "SELECT count(*) FROM (SELECT 1"+from+" LIMIT ?)", func(r *row) { left = int(r.int(0)) }, append(args, int64(limit))...)
		if err != nil || left > 0 {
			return left, err
		}
	}
	return 0, nil
}

// tombstone goes on after the last row that the job passed, so that many calls
// together read the scope once; at its end it starts over.
func tombstone(ctx context.Context, w *conn, j *job, limit int) error {
	from, args := j.leftAfter(j.tombstoned)
	var refs []blobd.Ref
	err := w.query(ctx, "SELECT b.ref"+from+" ORDER BY b.ref LIMIT ?", func(r *row) {
		refs = append(refs, r.ref(0))
	}, append(args, int64(limit))...)
	if err != nil {
		return err
	}
	for _, ref := range refs {
		if err := tombstoneRow(ctx, w, j.tag, ref, j.ofRefs); err != nil {
			return err
		}
	}
	j.tombstoned = []byte{}
	if len(refs) == limit {
		j.tombstoned = refs[limit-1][:]
	}
	_, err = w.exec(ctx, "UPDATE erasures SET tombstoned = ? WHERE seq = ?", j.tombstoned, j.seq)
	return err
}

func tombstoneRow(ctx context.Context, w *conn, tag blobd.ExecutionTag, ref blobd.Ref, keepRepeat bool) error {
	return bareRow(ctx, w, tag, ref, ledger.BlobErased, keepRepeat)
}

// bareRow takes from a row what it says of a content, and gives it a state.
func bareRow(ctx context.Context, w *conn, tag blobd.ExecutionTag, ref blobd.Ref, s ledger.BlobState, keepRepeat bool) error {
	_, err := w.exec(ctx, `DELETE FROM due WHERE (class, created_at, blob) IN (SELECT c.n, b.created_at, b.n FROM blobs b
		JOIN executions e ON e.tag = b.execution_tag JOIN classes c ON c.tenant = e.tenant AND c.name = b.class
		WHERE b.execution_tag = ? AND b.ref = ?)`, tag[:], ref[:])
	if err != nil {
		return err
	}
	_, err = w.exec(ctx, `INSERT INTO parts (seq, execution_tag, step_id, attempt, part_index, ref, kind, status, provider, model, at)
		SELECT record, execution_tag, step_id, attempt, part_index, ref, kind, 1, provider, model, created_at FROM blobs
		WHERE execution_tag = ? AND ref = ? AND record IS NOT NULL`, tag[:], ref[:])
	if err != nil {
		return err
	}
	_, err = w.exec(ctx, `UPDATE blobs SET state = ?, class = '', kind = '', content_type = '', size = 0, sealed_size = 0,
		step_id = '', wrapped = NULL, audience = NULL, repeat = CASE WHEN ? THEN repeat END,
		record = NULL, attempt = NULL, part_index = NULL, provider = NULL, model = NULL
		WHERE execution_tag = ? AND ref = ?`, int64(s), flag(keepRepeat), tag[:], ref[:])
	if err != nil {
		return err
	}
	_, err = w.exec(ctx, "DELETE FROM subjects WHERE execution_tag = ? AND ref = ?", tag[:], ref[:])
	return err
}

// earlierRunning finds an erasure before this one that has fenced what it covers:
// the whole execution, refs that both name, or the whole tenant.
const earlierRunning = `SELECT 1 FROM erasures e WHERE e.execution_tag = ? AND e.seq < ? AND e.state = 'running' AND e.closing = 0
	AND (e.of_refs = 0 OR EXISTS (SELECT 1 FROM erasure_refs a JOIN erasure_refs b ON a.ref = b.ref
		WHERE a.erasure = e.seq AND b.erasure = ?))
	UNION ALL SELECT 1 FROM erasures e WHERE e.tenant = ? AND e.whole_tenant = 1 AND e.seq < ? AND e.state = 'running' AND e.closing = 0
	LIMIT 1`

// Finish implements ledger.Jobs.
func (l *Ledger) Finish(ctx context.Context, lease ledger.Lease, p ledger.Progress, at time.Time, es []ledger.Entry) error {
	if err := l.tenantDone(ctx, lease); err != nil {
		return classify("finish", err)
	}
	return l.write(ctx, "finish", func(w *conn) error {
		known, err := l.factsOn(ctx, w)
		if err != nil {
			return err
		}
		j, err := held(ctx, w, lease)
		if err != nil {
			return err
		}
		if err := finished(ctx, w, known, j, lease.ErasureID); err != nil {
			return err
		}
		tag := j.tag[:]
		if j.wide { // its scope is no execution
			tag = []byte{}
		}
		earlier, err := w.one(ctx, earlierRunning, func(*row) {}, tag, j.seq, j.seq, j.tenant, j.seq)
		if err != nil {
			return err
		}
		if earlier {
			return fmt.Errorf("an earlier erasure of this scope has not finished: %w", blobd.ErrConflict)
		}
		if err := saveProgress(ctx, w, j, p); err != nil {
			return err
		}
		_, err = w.exec(ctx, `UPDATE erasures SET state = 'erased', erased_at = ?, lease_owner = NULL, lease_until = NULL
			WHERE seq = ?`, at.UnixMicro(), j.seq)
		if err != nil {
			return err
		}
		if j.closing {
			if err := endClosing(ctx, w, lease.ErasureID, at); err != nil {
				return err
			}
		}
		return appendEntries(ctx, w, es...)
	})
}

// finished refuses while something of a job's scope is left.
func finished(ctx context.Context, w *conn, known *facts, j job, id string) error {
	if j.closing {
		return closingDone(ctx, w, known, j, id)
	}
	from, args := j.leftAfter([]byte{})
	left, err := w.one(ctx, "SELECT 1"+from+" LIMIT 1", func(*row) {}, args...)
	if err == nil && left {
		err = fmt.Errorf("rows are left: %w", blobd.ErrConflict)
	}
	return err
}
