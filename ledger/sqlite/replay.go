package sqlite

import (
	"context"
	"fmt"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// Replay implements ledger.Journal.
func (l *Ledger) Replay(ctx context.Context, rs []ledger.Record) error {
	return l.writeFacts(ctx, "replay", func(w *conn) error {
		var lost, own []ledger.Record
		for i, r := range rs {
			if i > 0 && r.Seq <= rs[i-1].Seq || r.Seq < 1 {
				return fmt.Errorf("record %d is out of order: %w", r.Seq, blobd.ErrInvalid)
			}
			has, err := hasRecord(ctx, w, r)
			if err != nil {
				return err
			}
			if has {
				continue
			}
			lost = append(lost, r)
			if own, err = giveWay(ctx, w, r.Seq, own); err != nil {
				return err
			}
		}
		for _, r := range lost {
			if err := replay(ctx, w, r); err != nil {
				return fmt.Errorf("record %d: %w", r.Seq, err)
			}
		}
		return renumber(ctx, w, own)
	})
}

// giveWay takes out a record of this ledger that stands in the way of a lost
// one, and adds it to own.
func giveWay(ctx context.Context, w *conn, seq int64, own []ledger.Record) ([]ledger.Record, error) {
	var r ledger.Record
	published := false
	found, err := w.one(ctx, "SELECT body, published FROM journal WHERE seq = ?",
		func(row *row) { r, published = row.record(0), row.bool(1) }, seq)
	switch {
	case err != nil || !found:
		return own, err
	case published:
		return own, fmt.Errorf("record %d: the ledger published another one: %w", seq, blobd.ErrConflict)
	}
	_, err = w.exec(ctx, "DELETE FROM journal WHERE seq = ?", seq)
	return append(own, r), err
}

// renumber puts records that gave way behind all others.
func renumber(ctx context.Context, w *conn, own []ledger.Record) error {
	for _, r := range own {
		old := r.Seq
		r, err := record(ctx, w, r)
		if err != nil {
			return err
		}
		if err := firstRecord(ctx, w, r, old); err != nil {
			return err
		}
	}
	return nil
}

// firstRecord tells the erasure and the order whose first record got a new number.
func firstRecord(ctx context.Context, w *conn, r ledger.Record, old int64) error {
	if r.ErasureID != "" {
		_, err := w.exec(ctx, "UPDATE erasures SET record = ? WHERE id = ? AND record = ?", r.Seq, r.ErasureID, old)
		if err != nil {
			return err
		}
	}
	if r.Kind != ledger.RecordOrder {
		return nil
	}
	_, err := w.exec(ctx, "UPDATE orders SET record = ? WHERE id = ? AND record = ?", r.Seq, r.OrderID, old)
	return err
}

// replay applies a lost record.
func replay(ctx context.Context, w *conn, r ledger.Record) error {
	if err := reapply(ctx, w, r); err != nil {
		return err
	}
	if err := insertRecord(ctx, w, r, true); err != nil { // it was read from the journal
		return err
	}
	_, err := w.exec(ctx, `UPDATE deployment SET head = max(head, ?), writes = max(writes, ?),
		head_evidence = (SELECT ifnull(max(id), 0) FROM evidence)`, r.Seq, r.Writes)
	return err
}

// reapply makes the change that a record speaks of, as far as this ledger still
// has what was changed.
func reapply(ctx context.Context, w *conn, r ledger.Record) (err error) {
	switch r.Kind {
	case ledger.RecordMark:
	case ledger.RecordFence, ledger.RecordErase, ledger.RecordTenant:
		err = refence(ctx, w, r)
	case ledger.RecordOrder:
		err = reorder(ctx, w, r)
	case ledger.RecordLift:
		err = relift(ctx, w, r)
	case ledger.RecordRevoke:
		_, err = w.exec(ctx, "UPDATE tokens SET revoked_at = ? WHERE id = ? AND tenant = ? AND revoked_at IS NULL",
			r.At.UnixMicro(), r.TokenID, r.Tenant)
	default:
		err = fmt.Errorf("kind %q: %w", r.Kind, blobd.ErrInvalid)
	}
	return err
}

// refence applies the fence of a record and makes its job again, due at once. One
// whose erasure is there and has not fenced fences it.
func refence(ctx context.Context, w *conn, r ledger.Record) error {
	f := ledger.Fence{
		ID: r.ErasureID, At: r.At, RunAt: r.At,
		Scope: ledger.Scope{Tenant: r.Tenant, Tag: r.Tag, Refs: r.Refs, WholeTenant: r.Kind == ledger.RecordTenant},
	}
	// A record of refs may name none: then its erasure found no row. It must
	// never be taken for one of the whole execution.
	ofRefs := r.Kind == ledger.RecordErase
	if len(r.Refs) > 0 && !ofRefs || f.ID == "" || f.Scope.WholeTenant && r.Tenant == "" {
		return fmt.Errorf("%s record of %d refs: %w", r.Kind, len(r.Refs), blobd.ErrInvalid)
	}
	if f.Scope.WholeTenant {
		if err := enterTenant(ctx, w, r); err != nil {
			return err
		}
	}
	e, known, err := erasureByID(ctx, w, f.ID)
	if err != nil {
		return err
	}
	if known && e.Closing {
		asked, _, err := scopeOf(ctx, w, f.ID)
		if err != nil {
			return err
		}
		f.Scope.Refs = append(asked.Refs, r.Refs...)
		f.Scope.ExecutionID = asked.ExecutionID
	}
	sc, err := readScope(ctx, w, f.Scope, ofRefs, false)
	if err != nil {
		return err
	}
	sc.wrap = max(sc.wrap, r.Wrap)
	if err := applyFence(ctx, w, sc, f.ID, f.At, true); err != nil {
		return err
	}
	if known && !e.Closing {
		return nil
	}
	if !known {
		if _, err = insertErasure(ctx, w, sc, f, false); err != nil {
			return err
		}
	}
	return rerun(ctx, w, sc, r)
}

// rerun makes an erasure that a replayed record fenced run, and ends its closing.
func rerun(ctx context.Context, w *conn, sc *scope, r ledger.Record) error {
	var seq int64
	_, err := w.one(ctx, `UPDATE erasures SET state = 'running', run_at = ?, lease_owner = NULL, lease_until = NULL
		WHERE id = ? RETURNING seq`, func(row *row) { seq = row.int(0) }, r.At.UnixMicro(), r.ErasureID)
	if err != nil {
		return err
	}
	if err := saveFence(ctx, w, sc, seq, r.Seq); err != nil {
		return err
	}
	_, _, err = liftClosing(ctx, w, r.ErasureID, "", r.At)
	return err
}
