package postgres

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// Drop implements ledger.Closings. It shares the tenant's lock: a hold was placed
// before, and is seen, or waits.
func (l *Ledger) Drop(ctx context.Context, lease ledger.Lease, d ledger.Drop) (done ledger.Dropped, err error) {
	const op = "drop"
	if d.Limit < 1 || d.Limit > ledger.MaxExpiry {
		return done, classify(op, fmt.Errorf("%d rows: %w", d.Limit, blobd.ErrInvalid))
	}
	err = l.write(ctx, op, func(ctx context.Context, x *tx) (err error) {
		done, err = drop(ctx, x, lease, d)
		return err
	})
	if err != nil {
		return ledger.Dropped{}, err
	}
	return done, nil
}

func drop(ctx context.Context, x *tx, l ledger.Lease, d ledger.Drop) (done ledger.Dropped, err error) {
	j, err := closedScope(ctx, x, l, func(tenant string, _ bool) { x.shareTenant(tenant) })
	if err != nil {
		return done, err
	}
	page, next, err := pageOf(ctx, x, &j.scope, d.After, d.Limit)
	if err != nil {
		return done, err
	}
	done.Next = next
	if len(page) == 0 {
		return done, nil
	}
	versions := make(map[class][]ledger.Policy)
	rows, err := lockMet(ctx, x, j.tenant, page, versions)
	if err != nil {
		return done, err
	}
	wrap := int64(0)
	var listed []ledger.Position
	met := make(map[blobd.ExecutionTag]bool)
	for i := range page {
		r, found := rows[page[i].Position]
		if !found { // another erasure made a tombstone of it meanwhile
			continue
		}
		if !r.Erased {
			met[r.Tag] = true
			verdict, until := ledger.Protects(&r.DueRow, versions[class{j.tenant, r.Class}], d.At)
			if verdict != ledger.VerdictErase {
				done.Kept = append(done.Kept, ledger.Kept{Position: r.Position, ExecutionID: r.ExecutionID, Verdict: verdict, Until: until, Extent: r.Extent(j.scope.Form())})
				continue
			}
			done.Dropped = append(done.Dropped, r.DueRow)
		}
		wrap = max(wrap, r.wrap)
		listed = append(listed, r.Position)
	}
	j.meet(x, met)
	return done, j.dropped(x, &done, listed, wrap, d)
}

// meet queues the count of the executions in which an erasure of a form that nothing
// fences met a row that was not erased, each once.
func (j *job) meet(x *tx, met map[blobd.ExecutionTag]bool) {
	if j.scope.Form().Fenceable() || len(met) == 0 {
		return
	}
	tags := make([][]byte, 0, len(met))
	for tag := range met {
		tags = append(tags, tag[:])
	}
	x.exec(`WITH first AS (INSERT INTO erasure_executions (erasure, execution_tag) SELECT $1, t FROM unnest($2::bytea[]) t
			ON CONFLICT DO NOTHING RETURNING 1)
		UPDATE erasures SET drop_executions = drop_executions + (SELECT count(*) FROM first) WHERE seq = $1`, j.seq, once(tags))
}

// dropped queues what a page changes.
func (j *job) dropped(x *tx, done *ledger.Dropped, listed []ledger.Position, wrap int64, d ledger.Drop) error {
	tags, refs := positions(listed)
	x.exec(`INSERT INTO erasure_rows (erasure, execution_tag, ref) SELECT $1, tag, ref FROM unnest($2::bytea[], $3::bytea[]) r (tag, ref)
		ON CONFLICT DO NOTHING`, j.seq, tags, refs)
	var taken ledger.Extent
	for i := range done.Dropped {
		taken = taken.Plus(done.Dropped[i].Extent(j.scope.Form()))
	}
	x.exec(`UPDATE erasures SET dropped = dropped + $2, wrap = greatest(wrap, $3), drop_blobs = drop_blobs + $4,
		drop_bytes = drop_bytes + $5 WHERE seq = $1`, j.seq, len(done.Dropped), wrap, taken.Blobs, taken.Bytes)
	if len(done.Dropped) == 0 {
		return nil
	}
	entry, err := d.Entry(done.Dropped)
	if err != nil {
		return err
	}
	takeOff(x, done.Dropped, "state = 2, wrapped = NULL")
	x.append(entry)
	return nil
}

func positions(at []ledger.Position) (tags, refs [][]byte) {
	tags, refs = make([][]byte, len(at)), make([][]byte, len(at))
	for i := range at {
		tags[i], refs[i] = at[i].Tag[:], at[i].Ref[:]
	}
	return tags, refs
}

// metRow is a row that an erasure met and locked.
type metRow struct {
	placed
	wrap int64 // newest KEK version under which a backup may hold it
}

// metQuery reads rows ($2, $3) of a tenant ($1) that are no tombstones, and keeps them.
const metQuery = "SELECT " + scopeColumns + `, FALSE, b.created_at,
		coalesce(k.version, (SELECT max(w.wrap) FROM erasures w WHERE w.execution_tag = b.execution_tag), 0)
	FROM unnest($2::bytea[], $3::bytea[]) q (tag, ref) JOIN blobs b ON b.execution_tag = q.tag AND b.ref = q.ref` + fromAny + `
	LEFT JOIN execution_keys k ON k.tag = b.execution_tag
	WHERE e.tenant = $1 AND ` + told + " ORDER BY b.execution_tag, b.ref FOR NO KEY UPDATE OF b"

// lockMet locks rows for a change, their executions first as puts do, and reads them
// again, with the policies of the tenant.
func lockMet(ctx context.Context, x *tx, tenant string, page []ledger.ScopeRow, versions map[class][]ledger.Policy) (map[ledger.Position]metRow, error) {
	at := make([]ledger.Position, len(page))
	for i := range page {
		at[i] = page[i].Position
	}
	tags, refs := positions(at)
	x.exec("SELECT 1 FROM executions WHERE tag = ANY($1::bytea[]) ORDER BY tag FOR NO KEY UPDATE", once(tags))
	found := make(map[ledger.Position]metRow, len(page))
	x.each(func(r pgx.CollectableRow) error {
		var m metRow
		err := r.Scan(append(dueTo(&m.DueRow), &m.Erased, &m.Shared, moment{&m.at.CreatedAt}, &m.wrap)...)
		found[m.Position] = m
		return err
	}, metQuery, tenant, tags, refs)
	versionsOf(x, versions, "tenant = $1", tenant)
	return found, x.flush(ctx)
}

// once returns tags in order, each once.
func once(tags [][]byte) [][]byte {
	tags = slices.Clone(tags)
	slices.SortFunc(tags, bytes.Compare)
	return slices.CompactFunc(tags, bytes.Equal)
}

// droppedRows are those of an erasure that are no tombstones by it, after a place.
const droppedRows = " FROM erasure_rows r WHERE r.erasure = $1 AND NOT r.done AND (r.execution_tag, r.ref) > ($2, $3)"

// DroppedRows implements ledger.Closings.
func (l *Ledger) DroppedRows(ctx context.Context, erasureID string, after ledger.Position, limit int) ([]ledger.Position, error) {
	const op = "dropped rows"
	if err := checkLimit(op, limit); err != nil {
		return nil, err
	}
	seq, found, err := one(ctx, l, op, pgx.RowTo[int64], "SELECT seq FROM erasures WHERE id = $1", erasureID)
	if err := classifyFound(op, found, err); err != nil {
		return nil, err
	}
	return list(ctx, l, op, func(r pgx.CollectableRow) (p ledger.Position, err error) {
		err = r.Scan(fixed(p.Tag[:]), fixed(p.Ref[:]))
		return p, err
	}, "SELECT r.execution_tag, r.ref"+droppedRows+" ORDER BY r.execution_tag, r.ref LIMIT $4", append(afterPosition(seq, after), limit)...)
}

// afterPosition are the arguments of droppedRows; the zero position is the start.
func afterPosition(seq int64, p ledger.Position) []any {
	if p == (ledger.Position{}) {
		return []any{seq, []byte{}, []byte{}}
	}
	return []any{seq, p.Tag[:], p.Ref[:]}
}

// tombstoneDropped makes tombstones of rows that Drop listed. Those of a living
// execution keep their repeat tags.
func tombstoneDropped(ctx context.Context, x *tx, j job, limit int) error {
	var rows []ledger.Position
	x.each(func(r pgx.CollectableRow) error {
		var p ledger.Position
		err := r.Scan(fixed(p.Tag[:]), fixed(p.Ref[:]))
		rows = append(rows, p)
		return err
	}, `SELECT b.execution_tag, b.ref FROM erasure_rows r JOIN blobs b ON b.execution_tag = r.execution_tag AND b.ref = r.ref
		WHERE r.erasure = $1 AND NOT r.done ORDER BY r.execution_tag, r.ref LIMIT $2 FOR UPDATE OF b`, j.seq, limit)
	if err := x.flush(ctx); err != nil {
		return err
	}
	tags, refs := positions(rows)
	x.exec(`UPDATE blobs b SET state = 2, class = '', class_n = NULL, kind = '', content_type = '', size = 0, sealed_size = 0,
		step_id = '', wrapped = NULL, audience = NULL
		FROM unnest($1::bytea[], $2::bytea[]) g (tag, ref)
		WHERE b.execution_tag = g.tag AND b.ref = g.ref`, tags, refs)
	x.exec(`DELETE FROM subjects s USING unnest($1::bytea[], $2::bytea[]) g (tag, ref)
		WHERE s.execution_tag = g.tag AND s.ref = g.ref`, tags, refs)
	x.exec(`UPDATE erasure_rows r SET done = TRUE FROM unnest($2::bytea[], $3::bytea[]) g (tag, ref)
		WHERE r.erasure = $1 AND r.execution_tag = g.tag AND r.ref = g.ref`, j.seq, tags, refs)
	return nil
}

// droppable refuses to finish an erasure that has not fenced while something of its
// scope is left.
func (j *job) droppable(ctx context.Context, x *tx) error {
	if j.scope.Form().Fenceable() {
		return fmt.Errorf("the erasure has not fenced: %w", blobd.ErrConflict)
	}
	var listed, left bool
	var one int
	x.scan(&listed, []any{&one}, "SELECT 1 FROM erasure_rows WHERE erasure = $1 AND NOT done LIMIT 1", j.seq)
	from, args := within(&j.scope, "b.state IN (1, 3, 4, 6) AND "+living+" LIMIT 1")
	x.scan(&left, []any{&one}, "SELECT 1"+from, args...)
	if err := x.flush(ctx); err != nil {
		return err
	}
	if listed || left {
		return fmt.Errorf("rows are left: %w", blobd.ErrConflict)
	}
	return nil
}

// endClosing queues the end of a closing whose erasure finished: one of subjects
// becomes a suppression, lifted where the journal said so.
func endClosing(x *tx, j *job, l ledger.Lease, lift ledger.Lift) {
	if j.scope.Form() != ledger.ScopeSubjects {
		lift.ID = l.ErasureID
		liftOrder(x, lift)
		return
	}
	x.exec("UPDATE orders SET kind = 4, lifted_at = lift_at WHERE id = $1 AND lifted_at IS NULL", l.ErasureID)
	forgetItems(x, l.ErasureID)
}
