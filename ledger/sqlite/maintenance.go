package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// ScanBlobs implements ledger.Maintenance.
func (l *Ledger) ScanBlobs(ctx context.Context, after ledger.Position, limit int) (bs []ledger.ScannedBlob, err error) {
	if err := checkLimit(limit); err != nil {
		return nil, classify("scan blobs", err)
	}
	known, err := l.known(ctx)
	if err != nil {
		return nil, classify("scan blobs", err)
	}
	err = l.snapshot(ctx, "scan blobs", func(c *conn) error {
		err := c.query(ctx, "SELECT "+blobColumns+`, b.execution_tag, ifnull(e.tenant, ''), ifnull(e.id, ''),
			ifnull(e.state, 0), e.key_id, e.key_version, k.wrapped, e.ended_at
			FROM blobs b LEFT JOIN executions e ON e.tag = b.execution_tag LEFT JOIN execution_keys k ON k.n = e.n
			WHERE (b.execution_tag, b.ref) > (?, ?) ORDER BY b.execution_tag, b.ref LIMIT ?`,
			func(r *row) { bs = append(bs, r.scanned(known)) }, after.Tag[:], after.Ref[:], int64(limit))
		if err != nil {
			return err
		}
		return l.tellScanned(ctx, c, known, bs)
	})
	return bs, err
}

// tellScanned says of scanned rows and their executions what open orders say. Rows
// of one execution lie together.
func (l *Ledger) tellScanned(ctx context.Context, c *conn, known *facts, bs []ledger.ScannedBlob) error {
	now := stored(l.now())
	for len(bs) > 0 {
		n := 1
		for n < len(bs) && bs[n].Tag == bs[0].Tag {
			n++
		}
		its := bs[:n]
		bs = bs[n:]
		e := ledger.Execution{Tag: its[0].Tag, Tenant: its[0].Tenant, State: its[0].ExecutionState}
		standing := known.standing[e.Tenant]
		if !standing.closes && !standing.holds || known.erased(&e) {
			continue
		}
		rows := make([]*ledger.Blob, len(its))
		for i := range its {
			rows[i] = &its[i].Blob
		}
		if err := l.tellClosed(ctx, c, known, &e, rows); err != nil {
			return err
		}
		for i := range its {
			its[i].ExecutionState = e.State
		}
		if !standing.holds {
			continue
		}
		if err := tellHeld(ctx, c, e.Tag, rows, now); err != nil {
			return err
		}
	}
	return nil
}

func (r *row) scanned(known *facts) ledger.ScannedBlob {
	const i = blobColumnCount
	s := ledger.ScannedBlob{
		Blob: *r.blob(0), Tenant: r.text(i + 1), ExecutionID: r.text(i + 2),
		ExecutionState: ledger.ExecutionState(r.int(i + 3)), Key: r.wrappedKey(i + 4),
	}
	if _, fenced := known.fenced[s.Tenant]; fenced {
		s.ExecutionState, s.Key = ledger.ExecutionErased, nil
	}
	s.Position = ledger.Position{Tag: r.tag(i), Ref: s.Blob.Ref}
	if s.Tenant != "" {
		s.Blob.ExpiresAt = known.expires(s.Tenant, &s.Blob, r.time(i+7))
	}
	return s
}

const bareBlob = `INSERT INTO blobs (execution_tag, ref, state, class, kind, content_type, size, sealed_size, step_id, created_at)
	VALUES (?, ?, ?, '', '', '', 0, 0, '', ?)`

// insertBare inserts a row that says nothing of a content.
func insertBare(ctx context.Context, w *conn, tag blobd.ExecutionTag, ref blobd.Ref, s ledger.BlobState, at time.Time) error {
	_, err := w.exec(ctx, bareBlob, tag[:], ref[:], int64(s), at.UnixMicro())
	return err
}

// EnterMissing implements ledger.Maintenance.
func (l *Ledger) EnterMissing(ctx context.Context, objects []ledger.Position, at time.Time) (entered int, err error) {
	err = l.write(ctx, "enter missing", func(w *conn) error {
		for _, p := range objects {
			n, err := w.exec(ctx, bareBlob+" ON CONFLICT DO NOTHING",
				p.Tag[:], p.Ref[:], int64(ledger.BlobMissing), at.UnixMicro())
			if err != nil {
				return err
			}
			entered += int(n)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return entered, nil
}

// AcceptLoss implements ledger.Maintenance.
func (l *Ledger) AcceptLoss(ctx context.Context, tag blobd.ExecutionTag, ref blobd.Ref, at time.Time, e ledger.Entry) error {
	return l.write(ctx, "accept loss", func(w *conn) error {
		var state ledger.BlobState
		var execution ledger.ExecutionState
		var size int64
		found, err := w.one(ctx, `SELECT b.state, b.size, CASE WHEN t.fenced_at IS NULL THEN ifnull(e.state, 0) ELSE 3 END
			FROM blobs b LEFT JOIN executions e ON e.tag = b.execution_tag LEFT JOIN tenants t ON t.id = e.tenant WHERE b.execution_tag = ? AND b.ref = ?`,
			func(r *row) {
				state, size, execution = ledger.BlobState(r.int(0)), r.int(1), ledger.ExecutionState(r.int(2))
			}, tag[:], ref[:])
		if err := orNotFound(found, err); err != nil {
			return err
		}
		if !ledger.Legal(ledger.BlobMoves(), state, ledger.BlobLost) || execution == ledger.ExecutionErased {
			return fmt.Errorf("the blob's state is %d: %w", state, blobd.ErrConflict)
		}
		// A put of the same text makes a new blob, so the repeat tag is released.
		_, err = w.exec(ctx, "UPDATE blobs SET state = ?, repeat = NULL WHERE execution_tag = ? AND ref = ?",
			int64(ledger.BlobLost), tag[:], ref[:])
		if err != nil {
			return err
		}
		if err := appendEntries(ctx, w, e); err != nil || state != ledger.BlobLive {
			return err
		}
		_, err = w.exec(ctx, "UPDATE executions SET blobs = blobs - 1, bytes = bytes - ? WHERE tag = ?", size, tag[:])
		if err != nil {
			return err
		}
		return count(ctx, w, -1, -size, 0)
	})
}

// Collect implements ledger.Maintenance.
func (l *Ledger) Collect(ctx context.Context, p ledger.Position, at time.Time) error {
	return l.write(ctx, "collect", func(w *conn) error {
		err := insertBare(ctx, w, p.Tag, p.Ref, ledger.BlobCollected, at)
		if isConstraint(err) {
			return fmt.Errorf("the ref has a row: %w", blobd.ErrConflict)
		}
		return err
	})
}

// Settle implements ledger.Maintenance.
func (l *Ledger) Settle(ctx context.Context) (residuals []string, err error) {
	err = l.withWriter(ctx, func(w *conn) (bool, error) { return false, l.truncateWAL(ctx, w) })
	if err != nil {
		return nil, classify("settle", err)
	}
	return []string{
		"blocks that the file system freed or moved",
		"snapshots and backups of the ledger's files",
	}, nil
}

// Stats implements ledger.Maintenance.
func (l *Ledger) Stats(ctx context.Context) (s ledger.Stats, err error) {
	err = l.read(ctx, "stats", func(c *conn) error {
		_, err := c.one(ctx, `SELECT d.blobs, d.executions, d.bytes,
			(SELECT count(*) FROM erasures WHERE state NOT IN ('erased', 'denied', 'cancelled')),
			(SELECT min(fenced_at) FROM erasures WHERE state = 'running'),
			(SELECT count(*) FROM journal WHERE published = 0) FROM deployment d`,
			func(r *row) {
				s = ledger.Stats{
					Blobs: r.int(0), Executions: r.int(1), Bytes: r.int(2),
					ErasuresOpen: r.int(3), OldestErasure: r.time(4), JournalUnpublished: r.int(5),
				}
			})
		return err
	})
	if err != nil {
		return ledger.Stats{}, err
	}
	s.WALBytes = walBytes(l.path)
	return s, nil
}
