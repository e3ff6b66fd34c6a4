package postgres

import (
	"context"
	"math/rand/v2"

	"github.com/jackc/pgx/v5"

	"github.com/blobd/blobd/ledger"
)

// append queues evidence. Whoever calls it counts the entries with move.
func (t *tx) append(es ...ledger.Entry) {
	for _, e := range es {
		if e.FreeText == "" && len(e.Salt) == 0 {
			t.exec("INSERT INTO evidence (tenant, kind, at, body) VALUES ($1, $2, $3, $4)",
				e.Tenant, string(e.Kind), e.At.UnixMicro(), notNull(e.Body))
			continue
		}
		t.exec(`WITH e AS (INSERT INTO evidence (tenant, kind, at, body) VALUES ($1, $2, $3, $4) RETURNING id)
			INSERT INTO free_texts (evidence_id, text, salt) SELECT id, $5, $6 FROM e`,
			e.Tenant, string(e.Kind), e.At.UnixMicro(), notNull(e.Body), []byte(e.FreeText), notNull(e.Salt))
	}
}

// slots is how many rows the counters are spread over.
const slots = 64

// counts is what a transaction adds to the counters.
type counts struct{ writes, blobs, bytes, executions, entries int64 }

// move queues the one change of counters that a transaction makes, after all
// other locks but the journal's.
func (t *tx) move(c counts) {
	t.exec(`UPDATE counters SET writes = writes + $2, blobs = blobs + $3, bytes = bytes + $4,
		executions = executions + $5, entries = entries + $6 WHERE slot = $1`,
		rand.IntN(slots), c.writes, c.blobs, c.bytes, c.executions, c.entries)
}

// Append implements ledger.Audit.
func (l *Ledger) Append(ctx context.Context, e ledger.Entry) error {
	return l.write(ctx, "append", func(_ context.Context, x *tx) error {
		x.append(e)
		x.move(counts{entries: 1})
		return nil
	})
}

// lowestMark is the lowest value of the sequence that a running transaction
// marked before it took a number, NULL if there is none.
const lowestMark = `SELECT min((classid::bigint << 32 | objid::bigint) - (1::bigint << 60)) FROM pg_locks
	WHERE locktype = 'advisory' AND objsubid = 1 AND classid::bigint >> 28 = 1
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`

// Entries implements ledger.Audit. It stops before an id below which others may
// still commit. The order of its statements is what makes that right: every id
// up to the sequence's value was taken by a transaction whose mark is seen, or
// which has ended, and then the last statement sees what it left.
func (l *Ledger) Entries(ctx context.Context, after int64, limit int) (es []ledger.StoredEntry, err error) {
	const op = "entries"
	if err := checkLimit(op, limit); err != nil {
		return nil, err
	}
	err = l.readOnly(ctx, "READ COMMITTED", func(ctx context.Context, x *tx) error {
		es = nil
		var value int64
		var mark *int64
		x.scan(nil, []any{&value}, "SELECT last_value FROM evidence_ids")
		x.scan(nil, []any{&mark}, lowestMark)
		x.each(func(r pgx.CollectableRow) error {
			e, err := scanEntry(r)
			if err == nil && e.ID <= value && (mark == nil || e.ID <= *mark) {
				es = append(es, e)
			}
			return err
		}, `SELECT e.id, e.tenant, e.kind, e.at, e.body, f.text, f.salt
			FROM evidence e LEFT JOIN free_texts f ON f.evidence_id = e.id
			WHERE e.id > $1 ORDER BY e.id LIMIT $2`, after, limit)
		return nil
	})
	return es, classify(op, err)
}

func scanEntry(r pgx.CollectableRow) (e ledger.StoredEntry, err error) {
	err = r.Scan(&e.ID, &e.Tenant, &e.Kind, moment{&e.At}, &e.Body, bytesText{&e.FreeText}, &e.Salt)
	return e, err
}
