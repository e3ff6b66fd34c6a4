package sqlite

import (
	"context"
	"fmt"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// Drop implements ledger.Closings.
func (l *Ledger) Drop(ctx context.Context, lease ledger.Lease, d ledger.Drop) (done ledger.Dropped, err error) {
	const op = "drop"
	if d.Limit < 1 || d.Limit > ledger.MaxExpiry {
		return done, classify(op, fmt.Errorf("%d rows: %w", d.Limit, blobd.ErrInvalid))
	}
	err = l.write(ctx, op, func(w *conn) error {
		known, err := l.factsOn(ctx, w)
		if err != nil {
			return err
		}
		j, err := heldClosing(ctx, w, lease)
		if err != nil {
			return err
		}
		s, _, err := scopeOf(ctx, w, lease.ErasureID)
		if err != nil {
			return err
		}
		done, err = drop(ctx, w, known, j, s, d)
		return err
	})
	if err != nil {
		return ledger.Dropped{}, err
	}
	return done, nil
}

// drop visits a page of a scope. All that it decides by was read in its transaction.
func drop(ctx context.Context, w *conn, known *facts, j job, s ledger.Scope, d ledger.Drop) (done ledger.Dropped, err error) {
	rows, next, err := newWalk(w, known, s).page(ctx, d.After, d.Limit)
	if err != nil {
		return done, err
	}
	done.Next = next
	lost := map[blobd.ExecutionTag]*executionLoss{}
	var listed [][]any
	met := map[blobd.ExecutionTag]bool{}
	for i := range rows {
		r := &rows[i]
		met[r.Tag] = met[r.Tag] || !r.Erased
		verdict, until := known.protects(r, s.Tenant, d.At)
		if verdict != ledger.VerdictErase {
			done.Kept = append(done.Kept, ledger.Kept{
				Position: r.Position, ExecutionID: r.ExecutionID, Verdict: verdict, Until: stored(until), Extent: r.Extent(s.Form()),
			})
			continue
		}
		listed = append(listed, []any{j.seq, r.Tag[:], r.Ref[:], int64(0)})
		if r.Erased {
			continue
		}
		if err := dropRow(ctx, w, r, lost); err != nil {
			return done, err
		}
		done.Dropped = append(done.Dropped, r.DueRow)
	}
	err = w.insertMany(ctx, "INSERT INTO erasure_rows (erasure, execution_tag, ref, tombstoned) VALUES ", " ON CONFLICT DO NOTHING", listed)
	if err != nil {
		return done, err
	}
	if err := raiseWrap(ctx, w, j, listed); err != nil {
		return done, err
	}
	if err := meetExecutions(ctx, w, j, met); err != nil || len(done.Dropped) == 0 {
		return done, err
	}
	var taken ledger.Extent
	for i := range done.Dropped {
		taken = taken.Plus(done.Dropped[i].Extent(s.Form()))
	}
	return done, settleDrop(ctx, w, j, d, lost, done.Dropped, taken)
}

// dropRow erases a row as the fence of named refs does.
func dropRow(ctx context.Context, w *conn, r *metRow, lost map[blobd.ExecutionTag]*executionLoss) error {
	if _, err := w.exec(ctx, "UPDATE blobs SET state = 2, wrapped = NULL WHERE n = ?", r.N); err != nil {
		return err
	}
	its := lost[r.Tag]
	if its == nil {
		its = new(executionLoss)
		lost[r.Tag] = its
	}
	if r.State == ledger.BlobLive {
		its.blobs, its.bytes = its.blobs+1, its.bytes+r.Size
	}
	return nil
}

// raiseWrap notes the newest KEK version under which a backup may hold what the
// erasure dropped or found erased.
func raiseWrap(ctx context.Context, w *conn, j job, listed [][]any) error {
	seen := map[string]bool{}
	for _, row := range listed {
		tag := row[1].([]byte)
		if seen[string(tag)] {
			continue
		}
		seen[string(tag)] = true
		_, err := w.exec(ctx, `UPDATE erasures SET wrap = max(wrap, ifnull((SELECT ifnull(x.key_version,
			(SELECT max(e.wrap) FROM erasures e WHERE e.execution_tag = x.tag)) FROM executions x WHERE x.tag = ?), 0)) WHERE seq = ?`, tag, j.seq)
		if err != nil {
			return err
		}
	}
	return nil
}

// meetExecutions counts the executions in which an erasure of a form that nothing
// fences met a row that was not erased, each once.
func meetExecutions(ctx context.Context, w *conn, j job, met map[blobd.ExecutionTag]bool) error {
	if !j.wide {
		return nil
	}
	var first int64
	for tag, alive := range met {
		if !alive {
			continue
		}
		n, err := w.exec(ctx, "INSERT INTO erasure_executions (erasure, execution_tag) VALUES (?, ?) ON CONFLICT DO NOTHING", j.seq, tag[:])
		if err != nil {
			return err
		}
		first += n
	}
	if first == 0 {
		return nil
	}
	_, err := w.exec(ctx, "UPDATE erasures SET drop_executions = drop_executions + ? WHERE seq = ?", first, j.seq)
	return err
}

// settleDrop moves the counts, the erasure's row and its evidence after rows.
func settleDrop(ctx context.Context, w *conn, j job, d ledger.Drop, lost map[blobd.ExecutionTag]*executionLoss, rows []ledger.DueRow, taken ledger.Extent) error {
	if err := takeOff(ctx, w, lost); err != nil {
		return err
	}
	_, err := w.exec(ctx, "UPDATE erasures SET dropped = dropped + ?, drop_blobs = drop_blobs + ?, drop_bytes = drop_bytes + ? WHERE seq = ?",
		int64(len(rows)), taken.Blobs, taken.Bytes, j.seq)
	if err != nil {
		return err
	}
	entry, err := d.Entry(rows)
	if err != nil {
		return err
	}
	return appendEntries(ctx, w, entry)
}

// DroppedRows implements ledger.Closings.
func (l *Ledger) DroppedRows(ctx context.Context, erasureID string, after ledger.Position, limit int) (ps []ledger.Position, err error) {
	if err := checkLimit(limit); err != nil {
		return nil, classify("dropped rows", err)
	}
	err = l.snapshot(ctx, "dropped rows", func(c *conn) error {
		var seq int64
		found, err := c.one(ctx, "SELECT seq FROM erasures WHERE id = ?", func(r *row) { seq = r.int(0) }, erasureID)
		if err := orNotFound(found, err); err != nil {
			return err
		}
		tag, ref := after.Tag[:], after.Ref[:]
		if after == (ledger.Position{}) {
			tag, ref = []byte{}, []byte{}
		}
		return c.query(ctx, `SELECT execution_tag, ref FROM erasure_rows INDEXED BY erasure_rows_left
			WHERE erasure = ? AND tombstoned = 0 AND (execution_tag, ref) > (?, ?) ORDER BY execution_tag, ref LIMIT ?`,
			func(r *row) { ps = append(ps, ledger.Position{Tag: r.tag(0), Ref: r.ref(1)}) }, seq, tag, ref, int64(limit))
	})
	return ps, err
}

// leftOfDropped are the rows that a job dropped and has not turned into tombstones.
const leftOfDropped = " FROM erasure_rows INDEXED BY erasure_rows_left WHERE erasure = ? AND tombstoned = 0"

// tombstoneDropped keeps the repeat tags, as for named refs: the executions live.
func tombstoneDropped(ctx context.Context, w *conn, j job, limit int) error {
	var rows []ledger.Position
	err := w.query(ctx, "SELECT execution_tag, ref"+leftOfDropped+" ORDER BY execution_tag, ref LIMIT ?", func(r *row) {
		rows = append(rows, ledger.Position{Tag: r.tag(0), Ref: r.ref(1)})
	}, j.seq, int64(limit))
	if err != nil {
		return err
	}
	for _, p := range rows {
		if err := tombstoneRow(ctx, w, p.Tag, p.Ref, true); err != nil {
			return err
		}
		_, err := w.exec(ctx, "UPDATE erasure_rows SET tombstoned = 1 WHERE erasure = ? AND execution_tag = ? AND ref = ?",
			j.seq, p.Tag[:], p.Ref[:])
		if err != nil {
			return err
		}
	}
	return nil
}

// countDropped counts what is left of those, up to limit.
func countDropped(ctx context.Context, c *conn, j job, limit int) (left int, err error) {
	_, err = c.one(ctx, "SELECT count(*) FROM (SELECT 1"+leftOfDropped+" LIMIT ?)", func(r *row) { left = int(r.int(0)) }, j.seq, int64(limit))
	return left, err
}

// closingDone refuses while anything of a scope that was only closed is left.
func closingDone(ctx context.Context, w *conn, known *facts, j job, id string) error {
	left, err := countDropped(ctx, w, j, 1)
	switch {
	case err != nil:
		return err
	case !j.wide: // it ends with a fence
		return fmt.Errorf("it has not fenced: %w", blobd.ErrConflict)
	case left > 0:
		return fmt.Errorf("rows are left: %w", blobd.ErrConflict)
	}
	s, _, err := scopeOf(ctx, w, id)
	if err != nil {
		return err
	}
	walk := newWalk(w, known, s)
	walk.standing = standing{} // whoever holds them, they are left
	rest, err := walk.any(ctx, func(r *metRow) bool { return !r.Erased && r.State != ledger.BlobExpired })
	if err == nil && rest {
		err = fmt.Errorf("rows in scope are left: %w", blobd.ErrConflict)
	}
	return err
}
