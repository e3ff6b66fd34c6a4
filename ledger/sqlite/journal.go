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
