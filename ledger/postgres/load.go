package postgres

import (
	"bytes"
	"context"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// questions are what a batch asks of the ledger.
type questions struct {
	tags                [][]byte
	locks               []int64
	tenants, ids        []string // of the same length
	classes             []string
	refTags, refs       [][]byte // of the same length
	repeatTags, repeats [][]byte // of the same length
	subjects            [][]byte
	oldest              int64 // time of a capture
}

func (b *batch) questions() questions {
	q := questions{oldest: math.MaxInt64}
	classes := make(map[string]bool)
	for tag := range b.executions {
		q.tags = append(q.tags, tag[:])
	}
	for _, item := range b.items {
		c := &item.capture
		q.locks = append(q.locks, tenantLock(c.Tenant))
		q.oldest = min(q.oldest, c.At.UnixMicro())
		q.subjects = append(q.subjects, raw(c.Subjects)...)
		q.tenants, q.ids = append(q.tenants, c.Tenant), append(q.ids, c.ExecutionID)
		for i := range c.Blobs {
			n := &c.Blobs[i]
			classes[n.Class] = true
			q.refTags, q.refs = append(q.refTags, c.Tag[:]), append(q.refs, n.Ref[:])
			q.repeatTags, q.repeats = append(q.repeatTags, c.Tag[:]), append(q.repeats, n.Repeat[:])
		}
		for i := range c.Parts {
			if p := &c.Parts[i]; p.Status == ledger.PartKept && p.Blob < 0 {
				q.refTags, q.refs = append(q.refTags, c.Tag[:]), append(q.refs, p.Ref[:])
			}
		}
	}
	for name := range classes {
		q.classes = append(q.classes, name)
	}
	slices.SortFunc(q.tags, bytes.Compare)
	slices.Sort(q.locks)
	q.locks = slices.Compact(q.locks)
	return q
}

// rowsOf finds rows by ref ($1, $2) and by repeat tag ($3, $4). A row of both is
// told twice.
const rowsOf = `SELECT b.execution_tag, ` + blobColumns + ", " + ruleColumns + ", " + joinColumns + ` FROM (
		SELECT b.* FROM unnest($1::bytea[], $2::bytea[]) q (tag, ref)
			JOIN blobs b ON b.execution_tag = q.tag AND b.ref = q.ref
		UNION ALL
		SELECT b.* FROM unnest($3::bytea[], $4::bytea[]) q (tag, repeat)
			JOIN blobs b ON b.execution_tag = q.tag AND b.repeat = q.repeat AND b.repeat IS NOT NULL
	) b LEFT JOIN executions e ON e.tag = b.execution_tag LEFT JOIN tenants t ON t.id = e.tenant` + governing

// load locks the batch's executions that have a row, in order, and in later
// statements reads all that its captures are decided by.
func (l *Ledger) load(ctx context.Context, x *tx, b *batch, orSkip string) error {
	q := b.questions()
	var at string
	seen := make(map[blobd.ExecutionTag]bool)
	keys := make(map[blobd.ExecutionTag]*ledger.WrappedKey)
	x.exec("SELECT pg_advisory_xact_lock_shared(k) FROM unnest($1::bigint[]) k", q.locks)
	x.scan(nil, []any{&at}, "SELECT "+timeline)
	x.each(b.scanExecution, `SELECT tag, tenant, state, ended_at FROM executions
		WHERE tag = ANY($1::bytea[]) ORDER BY tag FOR NO KEY UPDATE`+orSkip, q.tags)
	if orSkip != "" {
		x.each(func(r pgx.CollectableRow) error { return scanTag(r, seen) },
			"SELECT tag FROM executions WHERE tag = ANY($1::bytea[])", q.tags)
	}
	x.each(func(r pgx.CollectableRow) error { return scanKey(r, keys) },
		"SELECT tag, id, version, wrapped FROM execution_keys WHERE tag = ANY($1::bytea[])", q.tags)
	x.each(b.scanID, `SELECT e.tenant, e.id, e.tag FROM unnest($1::text[], $2::text[]) q (tenant, id)
		JOIN executions e ON e.tenant = q.tenant AND e.id = q.id AND e.id <> ''`, q.tenants, q.ids)
	x.each(b.scanMinimum, "SELECT id, minimum_wrap, fenced_at IS NOT NULL FROM tenants WHERE id = ANY($1::text[])", q.tenants)
	versionsOf(x, b.versions, "tenant = ANY($1::text[]) AND class = ANY($2::text[])", q.tenants, q.classes)
	x.each(b.scanClass, "SELECT tenant, name FROM classes WHERE tenant = ANY($1::text[]) AND name = ANY($2::text[])", q.tenants, q.classes)
	x.each(b.scanOrder, ordersMet, q.tenants, q.tags, q.classes, q.oldest, q.refs, q.subjects)
	x.each(b.scanRow, rowsOf, q.refTags, q.refs, q.repeatTags, q.repeats)
	if err := x.flush(ctx); err != nil {
		return err
	}
	for tag, e := range b.executions {
		e.key = keys[tag]
		b.busy[tag] = seen[tag] && e.isNew
	}
	return l.checkTimeline(at)
}

func scanTag(r pgx.CollectableRow, seen map[blobd.ExecutionTag]bool) error {
	var tag blobd.ExecutionTag
	err := r.Scan(fixed(tag[:]))
	seen[tag] = true
	return err
}

func scanKey(r pgx.CollectableRow, keys map[blobd.ExecutionTag]*ledger.WrappedKey) error {
	var tag blobd.ExecutionTag
	var k keyRow
	err := r.Scan(append([]any{fixed(tag[:])}, k.to()...)...)
	keys[tag] = k.key()
	return err
}

func (b *batch) scanExecution(r pgx.CollectableRow) error {
	var tag blobd.ExecutionTag
	var tenant string
	var state int16
	var ended time.Time
	if err := r.Scan(fixed(tag[:]), &tenant, &state, moment{&ended}); err != nil {
		return err
	}
	e := b.execution(tag)
	e.endedAt = ended
	e.isNew, e.tenant, e.state = false, tenant, ledger.ExecutionState(state)
	return nil
}

func (b *batch) scanID(r pgx.CollectableRow) error {
	var id executionID
	var tag blobd.ExecutionTag
	err := r.Scan(&id.tenant, &id.id, fixed(tag[:]))
	b.ids[id] = tag
	return err
}

func (b *batch) scanMinimum(r pgx.CollectableRow) error {
	var id string
	var minimum uint32
	var fenced bool
	err := r.Scan(&id, &minimum, &fenced)
	b.minimum[id], b.fenced[id] = minimum, fenced
	return err
}

func (b *batch) scanClass(r pgx.CollectableRow) error {
	var c class
	err := r.Scan(&c.tenant, &c.name)
	b.classes[c] = true
	return err
}

func (b *batch) scanRow(r pgx.CollectableRow) error {
	var tag blobd.ExecutionTag
	var row blobRow
	if err := r.Scan(append([]any{fixed(tag[:])}, row.to()...)...); err != nil {
		return err
	}
	blob, err := row.blob(time.Time{})
	if err != nil {
		return err
	}
	if e := b.execution(tag); e.byRef[blob.Ref] == nil {
		e.met(blob)
	}
	return nil
}
