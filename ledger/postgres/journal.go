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
	INSERT INTO journal (seq, kind, at, tenant, tag, refs, reason, erasure_id, token_id, wrap, writes, published)
	SELECT h.head, $2, $3, $4, $5, $6, $7, $8, $9, $10, h.writes, FALSE FROM h RETURNING seq, writes`

// record queues a record, after the evidence and the counters of the change,
// and leaves in made what became of it.
func (t *tx) record(made *ledger.Record, r ledger.Record) { t.recordIf(true, made, r) }

func (t *tx) recordIf(always bool, made *ledger.Record, r ledger.Record) {
	t.lockHead()
	r.At = stored(r.At)
	t.each(func(row pgx.CollectableRow) error {
		if err := row.Scan(&r.Seq, &r.Writes); err != nil {
			return err
		}
		*made = r
		return nil
	}, nextRecord, append([]any{always}, recordArgs(r)...)...)
}

// recordArgs are a record's kind to wrap as arguments.
func recordArgs(r ledger.Record) []any {
	tag := r.Tag
	return []any{
		string(r.Kind), r.At.UnixMicro(), r.Tenant, tag[:], notNull(joined(r.Refs)), int16(0),
		r.ErasureID, r.TokenID, int64(r.Wrap),
	}
}

const recordColumns = "j.seq, j.kind, j.at, j.tenant, j.tag, j.refs, j.reason, j.erasure_id, j.token_id, j.wrap, j.writes"

// recordRow scans recordColumns.
type recordRow struct {
	record ledger.Record
	refs   [][32]byte
	reason int16
}

func (r *recordRow) to() []any {
	x := &r.record
	return []any{
		&x.Seq, &x.Kind, moment{&x.At}, &x.Tenant, fixed(x.Tag[:]), hashes{&r.refs}, &r.reason,
		&x.ErasureID, &x.TokenID, &x.Wrap, &x.Writes,
	}
}

func (r *recordRow) get() ledger.Record {
	r.record.Refs = nil
	for _, ref := range r.refs {
		r.record.Refs = append(r.record.Refs, blobd.Ref(ref))
	}
	return r.record
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
