package postgres

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// lockHead queues the journal's lock: the last one that a transaction takes, so
// that COMMIT is all that its holder still waits for.
func (t *tx) lockHead() { t.exec("SELECT head FROM deployment FOR UPDATE") }

// nextRecord inserts a record under the next number, if anything was written
// since the last one or $1 says so anyway. It is a statement after the one that
// locks the head, so that it sees what was counted before.
const nextRecord = `WITH n AS (SELECT coalesce(sum(entries), 0)::bigint AS entries, coalesce(sum(writes), 0)::bigint AS writes FROM counters),
	h AS (UPDATE deployment SET head = head + 1, head_entries = n.entries FROM n
		WHERE $1 OR n.entries > head_entries RETURNING head, n.writes)
	INSERT INTO journal (seq, kind, at, tenant, tag, refs, reason, erasure_id, token_id, wrap, order_fields, writes, published)
	SELECT h.head, $2, $3, $4, $5, $6, 0, $7, $8, $9, $10, h.writes, FALSE FROM h RETURNING seq, writes`

// record queues a record, after the evidence and the counters of the change,
// and leaves in made what became of it.
func (t *tx) record(made *ledger.Record, r ledger.Record) { t.recordIf(true, made, r) }

func (t *tx) recordIf(always bool, made *ledger.Record, r ledger.Record) {
	t.lockHead()
	r.At, r.Before, r.Until = stored(r.At), stored(r.Before), stored(r.Until)
	args, err := recordArgs(r)
	t.each(func(row pgx.CollectableRow) error {
		if err != nil {
			return err
		}
		if err := row.Scan(&r.Seq, &r.Writes); err != nil {
			return err
		}
		*made = r
		return nil
	}, nextRecord, append([]any{always}, args...)...)
}

// recordArgs are a record's kind to what it says of an order as arguments.
func recordArgs(r ledger.Record) ([]any, error) {
	tag := r.Tag
	fields, err := orderFields(r)
	return []any{
		string(r.Kind), r.At.UnixMicro(), r.Tenant, tag[:], notNull(joined(r.Refs)), r.ErasureID, r.TokenID, int64(r.Wrap), fields,
	}, err
}

// orderFields is the stored form of what a record says of an order: the encoding of a
// record of nothing else.
func orderFields(r ledger.Record) ([]byte, error) {
	if r.OrderID == "" {
		return []byte{}, nil
	}
	return ledger.Record{
		OrderID: r.OrderID, OrderKind: r.OrderKind, Form: r.Form, Subjects: r.Subjects, Class: r.Class, Before: r.Before,
		Purposes: r.Purposes, Until: r.Until,
	}.Encode()
}

// orderOf scans what orderFields made.
type orderOf struct{ r *ledger.Record }

// ScanBytes implements pgtype.BytesScanner.
func (o orderOf) ScanBytes(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	f, err := ledger.DecodeRecord(b)
	r := o.r
	r.OrderID, r.OrderKind, r.Form, r.Subjects, r.Class = f.OrderID, f.OrderKind, f.Form, f.Subjects, f.Class
	r.Before, r.Purposes, r.Until = f.Before, f.Purposes, f.Until
	return err
}

const recordColumns = "j.seq, j.kind, j.at, j.tenant, j.tag, j.refs, j.erasure_id, j.token_id, j.wrap, j.order_fields, j.writes"

// recordRow scans recordColumns, of an outer join too.
type recordRow struct {
	record    ledger.Record
	seq, wrap *int64
	writes    *int64
	refs      [][32]byte

	kind, tenant, erasureID, tokenID *string
}

func (r *recordRow) to() []any {
	x := &r.record
	return []any{
		&r.seq, &r.kind, moment{&x.At}, &r.tenant, fixed(x.Tag[:]), hashes{&r.refs}, &r.erasureID, &r.tokenID, &r.wrap,
		orderOf{x}, &r.writes,
	}
}

// get returns the record, the zero one if the join found none.
func (r *recordRow) get() ledger.Record {
	x := &r.record
	x.Seq, x.Kind, x.Tenant, x.ErasureID = deref(r.seq), ledger.RecordKind(deref(r.kind)), deref(r.tenant), deref(r.erasureID)
	x.TokenID, x.Wrap, x.Writes, x.Refs = deref(r.tokenID), uint32(deref(r.wrap)), deref(r.writes), refsOf(r.refs)
	return *x
}

func scanRecord(r pgx.CollectableRow) (ledger.Record, error) {
	var row recordRow
	err := r.Scan(row.to()...)
	return row.get(), err
}

// Mark implements ledger.Journal.
func (l *Ledger) Mark(ctx context.Context, at time.Time) (ledger.Record, error) {
	var made ledger.Record
	err := l.write(ctx, "mark", func(_ context.Context, x *tx) error {
		made = ledger.Record{}
		x.recordIf(false, &made, ledger.Record{Kind: ledger.RecordMark, At: at})
		return nil
	})
	return given(made, err)
}

// Unpublished implements ledger.Journal.
func (l *Ledger) Unpublished(ctx context.Context, limit int) ([]ledger.Record, error) {
	if err := checkLimit("unpublished", limit); err != nil {
		return nil, err
	}
	return list(ctx, l, "unpublished", scanRecord,
		"SELECT "+recordColumns+" FROM journal j WHERE NOT j.published ORDER BY j.seq LIMIT $1", limit)
}

// Published implements ledger.Journal.
func (l *Ledger) Published(ctx context.Context, seqs []int64) error {
	seqs = slices.Clone(seqs)
	slices.Sort(seqs)
	seqs = slices.Compact(seqs)
	return l.writeAnywhere(ctx, "published", func(ctx context.Context, x *tx) error {
		var n int64
		x.exec("SELECT seq FROM journal WHERE seq = ANY($1::bigint[]) ORDER BY seq FOR UPDATE", seqs)
		x.count(&n, "UPDATE journal SET published = TRUE WHERE seq = ANY($1::bigint[])", seqs)
		if err := x.flush(ctx); err != nil {
			return err
		}
		if n != int64(len(seqs)) {
			return fmt.Errorf("%d of %d records: %w", n, len(seqs), blobd.ErrNotFound)
		}
		return nil
	})
}

// Head implements ledger.Journal.
func (l *Ledger) Head(ctx context.Context) (ledger.Record, error) {
	r, _, err := one(ctx, l, "head", scanRecord, "SELECT "+recordColumns+" FROM journal j ORDER BY j.seq DESC LIMIT 1")
	return r, err
}

const recordOf = "SELECT " + recordColumns + " FROM journal j WHERE j.seq = $1"

// HasRecord implements ledger.Journal.
func (l *Ledger) HasRecord(ctx context.Context, r ledger.Record) (bool, error) {
	const op = "has record"
	own, found, err := one(ctx, l, op, scanRecord, recordOf, r.Seq)
	if err != nil || !found {
		return false, err
	}
	same, err := equal(own, r)
	return same, classify(op, err)
}

// equal reports whether two records are one.
func equal(a, b ledger.Record) (bool, error) {
	one, err := a.Encode()
	if err != nil {
		return false, err
	}
	other, err := b.Encode()
	return bytes.Equal(one, other), err
}
