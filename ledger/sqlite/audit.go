package sqlite

import (
	"context"

	"github.com/blobd/blobd/ledger"
)

// appendEntries inserts evidence in the caller's transaction.
func appendEntries(ctx context.Context, w *conn, es ...ledger.Entry) error {
	for _, e := range es {
		_, err := w.exec(ctx, "INSERT INTO evidence (tenant, kind, at, body) VALUES (?, ?, ?, ?)",
			e.Tenant, string(e.Kind), e.At.UnixMicro(), notNull(e.Body))
		if err != nil {
			return err
		}
		if e.FreeText == "" && len(e.Salt) == 0 {
			continue
		}
		_, err = w.exec(ctx, "INSERT INTO free_texts (evidence_id, text, salt) VALUES (last_insert_rowid(), ?, ?)",
			e.FreeText, notNull(e.Salt))
		if err != nil {
			return err
		}
	}
	return nil
}

// Append implements ledger.Audit.
func (l *Ledger) Append(ctx context.Context, e ledger.Entry) error {
	return l.write(ctx, "append", func(w *conn) error { return appendEntries(ctx, w, e) })
}

// Entries implements ledger.Audit.
func (l *Ledger) Entries(ctx context.Context, after int64, limit int) (es []ledger.StoredEntry, err error) {
	if err := checkLimit(limit); err != nil {
		return nil, classify("entries", err)
	}
	err = l.read(ctx, "entries", func(c *conn) error {
		return c.query(ctx, `SELECT e.id, e.tenant, e.kind, e.at, e.body, f.text, f.salt
			FROM evidence e LEFT JOIN free_texts f ON f.evidence_id = e.id
			WHERE e.id > ? ORDER BY e.id LIMIT ?`,
			func(r *row) { es = append(es, r.entry()) }, after, int64(limit))
	})
	return es, err
}

func (r *row) entry() ledger.StoredEntry {
	e := ledger.StoredEntry{ID: r.int(0), Entry: ledger.Entry{
		Tenant: r.text(1), Kind: ledger.EntryKind(r.text(2)), At: r.time(3), Body: r.bytes(4),
	}}
	if !r.null(5) {
		e.FreeText, e.Salt = r.text(5), r.bytes(6)
	}
	return e
}
