package sqlite

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// record inserts a journal record in the caller's transaction, after its
// evidence entries, and returns it with its sequence number.
func record(ctx context.Context, w *conn, r ledger.Record) (ledger.Record, error) {
	_, err := w.one(ctx, `UPDATE deployment SET head = head + 1, head_evidence = (SELECT ifnull(max(id), 0) FROM evidence)
		RETURNING head, writes`, func(row *row) { r.Seq, r.Writes = row.int(0), row.int(1) })
	if err != nil {
		return ledger.Record{}, err
	}
	r.At = stored(r.At)
	return r, insertRecord(ctx, w, r, false)
}

func insertRecord(ctx context.Context, w *conn, r ledger.Record, published bool) error {
	body, err := r.Encode()
	if err != nil {
		return err
	}
	_, err = w.exec(ctx, "INSERT INTO journal (seq, body, published) VALUES (?, ?, ?)", r.Seq, body, flag(published))
	return err
}

func (r *row) record(i int) ledger.Record {
	rec, err := ledger.DecodeRecord(r.bytes(i))
	if err != nil && r.err == nil {
		r.err = err
	}
	return rec
}

// Mark implements ledger.Journal.
func (l *Ledger) Mark(ctx context.Context, at time.Time) (rec ledger.Record, err error) {
	err = l.write(ctx, "mark", func(w *conn) error {
		news := false
		_, err := w.one(ctx, "SELECT (SELECT ifnull(max(id), 0) FROM evidence) > head_evidence FROM deployment",
			func(r *row) { news = r.bool(0) })
		if err != nil || !news {
			return err
		}
		rec, err = record(ctx, w, ledger.Record{Kind: ledger.RecordMark, At: at})
		return err
	})
	return given(rec, err)
}

// Unpublished implements ledger.Journal.
func (l *Ledger) Unpublished(ctx context.Context, limit int) (rs []ledger.Record, err error) {
	if err := checkLimit(limit); err != nil {
		return nil, classify("unpublished", err)
	}
	err = l.read(ctx, "unpublished", func(c *conn) error {
		return c.query(ctx, "SELECT body FROM journal WHERE published = 0 ORDER BY seq LIMIT ?",
			func(r *row) { rs = append(rs, r.record(0)) }, int64(limit))
	})
	return rs, err
}

// Published implements ledger.Journal.
func (l *Ledger) Published(ctx context.Context, seqs []int64) error {
	return l.write(ctx, "published", func(w *conn) error {
		for _, seq := range seqs {
			n, err := w.exec(ctx, "UPDATE journal SET published = 1 WHERE seq = ?", seq)
			if err != nil {
				return err
			}
			if n == 0 {
				return fmt.Errorf("record %d: %w", seq, blobd.ErrNotFound)
			}
		}
		return nil
	})
}

// Head implements ledger.Journal.
func (l *Ledger) Head(ctx context.Context) (rec ledger.Record, err error) {
	err = l.read(ctx, "head", func(c *conn) error {
		_, err := c.one(ctx, "SELECT body FROM journal ORDER BY seq DESC LIMIT 1", func(r *row) { rec = r.record(0) })
		return err
	})
	return given(rec, err)
}

// HasRecord implements ledger.Journal.
func (l *Ledger) HasRecord(ctx context.Context, r ledger.Record) (has bool, err error) {
	err = l.read(ctx, "has record", func(c *conn) (err error) {
		has, err = hasRecord(ctx, c, r)
		return err
	})
	return has, err
}

func hasRecord(ctx context.Context, c *conn, r ledger.Record) (bool, error) {
	want, err := r.Encode()
	if err != nil {
		return false, err
	}
	same := false
	_, err = c.one(ctx, "SELECT body FROM journal WHERE seq = ?",
		func(row *row) { same = bytes.Equal(row.bytes(0), want) }, r.Seq)
	return same, err
}

// Replay implements ledger.Journal.
func (l *Ledger) Replay(ctx context.Context, rs []ledger.Record) error {
	return l.write(ctx, "replay", func(w *conn) error {
		for i, r := range rs {
			if i > 0 && r.Seq <= rs[i-1].Seq || r.Seq < 1 {
				return fmt.Errorf("record %d is out of order: %w", r.Seq, blobd.ErrInvalid)
			}
			if err := replay(ctx, w, r); err != nil {
				return fmt.Errorf("record %d: %w", r.Seq, err)
			}
		}
		return nil
	})
}

// replay applies one record unless the ledger has it.
func replay(ctx context.Context, w *conn, r ledger.Record) error {
	has, err := hasRecord(ctx, w, r)
	if err != nil || has {
		return err
	}
	other, err := w.one(ctx, "SELECT 1 FROM journal WHERE seq = ?", func(*row) {}, r.Seq)
	if err != nil {
		return err
	}
	if other {
		return fmt.Errorf("the ledger has another one under this number: %w", blobd.ErrConflict)
	}
	if err := reapply(ctx, w, r); err != nil {
		return err
	}
	if err := insertRecord(ctx, w, r, true); err != nil { // it was read from the journal
		return err
	}
	_, err = w.exec(ctx, `UPDATE deployment SET head = max(head, ?), writes = max(writes, ?),
		head_evidence = (SELECT ifnull(max(id), 0) FROM evidence)`, r.Seq, r.Writes)
	return err
}

// reapply makes the change that a record speaks of, as far as this ledger still
// has what was changed.
func reapply(ctx context.Context, w *conn, r ledger.Record) (err error) {
	switch r.Kind {
	case ledger.RecordMark:
	case ledger.RecordFence, ledger.RecordErase:
		err = refence(ctx, w, r)
	case ledger.RecordClose:
		_, err = w.exec(ctx, "UPDATE executions SET state = 2, reason = ? WHERE tag = ? AND state = 1",
			int64(r.Reason), r.Tag[:])
	case ledger.RecordReopen:
		_, err = w.exec(ctx, "UPDATE executions SET state = 1, reason = 0 WHERE tag = ? AND state = 2", r.Tag[:])
	case ledger.RecordRevoke:
		_, err = w.exec(ctx, "UPDATE tokens SET revoked_at = ? WHERE id = ? AND tenant = ? AND revoked_at IS NULL",
			r.At.UnixMicro(), r.TokenID, r.Tenant)
	default:
		err = fmt.Errorf("kind %q: %w", r.Kind, blobd.ErrInvalid)
	}
	return err
}

// refence applies the fence of a record and makes its job again, due at once.
func refence(ctx context.Context, w *conn, r ledger.Record) error {
	f := ledger.Fence{
		ID: r.ErasureID, At: r.At, RunAt: r.At,
		Scope: ledger.EraseScope{Tenant: r.Tenant, Tag: r.Tag, Refs: r.Refs},
	}
	if len(r.Refs) > 0 != (r.Kind == ledger.RecordErase) || f.ID == "" {
		return fmt.Errorf("%s record of %d refs: %w", r.Kind, len(r.Refs), blobd.ErrInvalid)
	}
	sc, err := readScope(ctx, w, f.Scope)
	if err != nil {
		return err
	}
	if err := applyFence(ctx, w, sc, f, true); err != nil {
		return err
	}
	known, err := w.one(ctx, "SELECT 1 FROM erasures WHERE id = ?", func(*row) {}, f.ID)
	if err != nil || known {
		return err
	}
	return insertErasure(ctx, w, sc, f, r.Seq)
}
