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

// ScanBlobs implements ledger.Maintenance.
func (l *Ledger) ScanBlobs(ctx context.Context, after ledger.Position, limit int) ([]ledger.ScannedBlob, error) {
	if err := checkLimit("scan blobs", limit); err != nil {
		return nil, err
	}
	return list(ctx, l, "scan blobs", scanScanned, "SELECT "+blobColumns+", "+ruleColumns+", "+coverColumns+", (SELECT coalesce($4::bigint, "+serverClock+`)), b.execution_tag,
		coalesce(e.tenant, ''), coalesce(e.id, ''), CASE WHEN t.fenced_at IS NOT NULL THEN 3 WHEN e.tag IS NULL THEN 0 ELSE e.state END,
		`+closedExecution+`, k.id, k.version, k.wrapped
		FROM blobs b LEFT JOIN executions e ON e.tag = b.execution_tag LEFT JOIN tenants t ON t.id = e.tenant
		LEFT JOIN execution_keys k ON k.tag = e.tag AND t.fenced_at IS NULL
		`+governing+` WHERE (b.execution_tag, b.ref) > ($1, $2) ORDER BY b.execution_tag, b.ref LIMIT $3`, after.Tag[:], after.Ref[:], limit, l.now())
}

func scanScanned(r pgx.CollectableRow) (s ledger.ScannedBlob, err error) {
	var b blobRow
	var k keyRow
	var now time.Time
	var closed int16
	to := append(b.to(), moment{&now}, fixed(s.Tag[:]), &s.Tenant, &s.ExecutionID, &s.ExecutionState, &closed)
	if err := r.Scan(append(to, k.to()...)...); err != nil {
		return s, err
	}
	blob, err := b.blob(now)
	if err != nil {
		return s, err
	}
	if closed != 0 && s.ExecutionState == ledger.ExecutionOpen {
		s.ExecutionState = ledger.ExecutionClosed
	}
	s.Blob, s.Ref, s.Key = *blob, blob.Ref, k.key()
	return s, nil
}

// insertBare queues rows that say nothing of a content, for refs in order; refs
// that have a row are left. n may be nil.
func insertBare(x *tx, n *int64, tag blobd.ExecutionTag, refs []blobd.Ref, s ledger.BlobState, at time.Time) {
	if n == nil {
		n = new(int64)
	}
	x.count(n, `INSERT INTO blobs (execution_tag, ref, state, class, kind, content_type, size, sealed_size, step_id, created_at)
		SELECT $1, r, $3, '', '', '', 0, 0, '', $4 FROM unnest($2::bytea[]) r ON CONFLICT DO NOTHING`,
		tag[:], raw(refs), int16(s), at.UnixMicro())
}

// EnterMissing implements ledger.Maintenance.
func (l *Ledger) EnterMissing(ctx context.Context, objects []ledger.Position, at time.Time) (int, error) {
	objects = slices.Clone(objects)
	slices.SortFunc(objects, comparePositions)
	objects = slices.Compact(objects)
	var entered int64
	err := l.writeAnywhere(ctx, "enter missing", func(_ context.Context, x *tx) error {
		tags, refs := make([][]byte, len(objects)), make([][]byte, len(objects))
		for i := range objects {
			tags[i], refs[i] = objects[i].Tag[:], objects[i].Ref[:]
		}
		x.count(&entered, `INSERT INTO blobs (execution_tag, ref, state, class, kind, content_type, size, sealed_size, step_id, created_at)
			SELECT o.tag, o.ref, $3, '', '', '', 0, 0, '', $4 FROM unnest($1::bytea[], $2::bytea[]) o (tag, ref)
			ON CONFLICT DO NOTHING`, tags, refs, int16(ledger.BlobMissing), at.UnixMicro())
		return nil
	})
	if err != nil {
		return 0, err
	}
	return int(entered), nil
}

func comparePositions(a, b ledger.Position) int {
	if c := bytes.Compare(a.Tag[:], b.Tag[:]); c != 0 {
		return c
	}
	return bytes.Compare(a.Ref[:], b.Ref[:])
}

// AcceptLoss implements ledger.Maintenance.
func (l *Ledger) AcceptLoss(ctx context.Context, tag blobd.ExecutionTag, ref blobd.Ref, at time.Time, e ledger.Entry) error {
	return l.write(ctx, "accept loss", func(ctx context.Context, x *tx) error {
		var state, execution int16
		var size int64
		var one int
		found, fenced := false, false
		x.scan(&fenced, []any{&one}, inFencedTenant, tag[:])
		x.scan(nil, []any{&execution}, "SELECT state FROM executions WHERE tag = $1 FOR NO KEY UPDATE", tag[:])
		x.scan(&found, []any{&state, &size}, "SELECT state, size FROM blobs WHERE execution_tag = $1 AND ref = $2 FOR NO KEY UPDATE",
			tag[:], ref[:])
		err := x.flush(ctx)
		if err := orNotFound(found, err); err != nil {
			return err
		}
		s := ledger.BlobState(state)
		if !ledger.Legal(ledger.BlobMoves(), s, ledger.BlobLost) || fenced || ledger.ExecutionState(execution) == ledger.ExecutionErased {
			return fmt.Errorf("the blob's state is %d: %w", state, blobd.ErrConflict)
		}
		// A put of the same text makes a new blob, so the repeat tag is released.
		x.exec("UPDATE blobs SET state = $3, repeat = NULL WHERE execution_tag = $1 AND ref = $2", tag[:], ref[:], int16(ledger.BlobLost))
		moved := counts{entries: 1}
		if s == ledger.BlobLive {
			x.exec("UPDATE executions SET blobs = blobs - 1, bytes = bytes - $2 WHERE tag = $1", tag[:], size)
			moved.blobs, moved.bytes = -1, -size
		}
		x.append(e)
		x.move(moved)
		return nil
	})
}

// Collect implements ledger.Maintenance.
func (l *Ledger) Collect(ctx context.Context, p ledger.Position, at time.Time) error {
	return l.write(ctx, "collect", func(ctx context.Context, x *tx) error {
		var n int64
		insertBare(x, &n, p.Tag, []blobd.Ref{p.Ref}, ledger.BlobCollected, at)
		if err := x.flush(ctx); err != nil {
			return err
		}
		if n == 0 {
			return fmt.Errorf("the ref has a row: %w", blobd.ErrConflict)
		}
		return nil
	})
}

// Settle implements ledger.Maintenance. What a transaction replaced lies in the
// server's files until they are written anew, and nothing that a client of it
// may do reaches all of them, so each place is named.
func (l *Ledger) Settle(ctx context.Context) ([]string, error) {
	if _, _, err := one(ctx, l, "settle", pgx.RowTo[int], "SELECT 1"); err != nil {
		return nil, err
	}
	return []string{
		"dead rows in the database's tables and indexes, until vacuum has removed them and their pages were written anew",
		"write-ahead log of the server, until its segments were recycled and written anew",
		"archived write-ahead log, base backups, dumps and snapshots of the database",
		"replicas of the database, with their own files and write-ahead log",
	}, nil
}

// Stats implements ledger.Maintenance.
func (l *Ledger) Stats(ctx context.Context) (ledger.Stats, error) {
	s, _, err := one(ctx, l, "stats", func(r pgx.CollectableRow) (s ledger.Stats, err error) {
		err = r.Scan(&s.Blobs, &s.Executions, &s.Bytes, &s.ErasuresOpen, moment{&s.OldestErasure}, &s.JournalUnpublished)
		return s, err
	}, `SELECT coalesce(sum(blobs), 0)::bigint, coalesce(sum(executions), 0)::bigint, coalesce(sum(bytes), 0)::bigint,
		(SELECT count(*) FROM erasures WHERE state NOT IN ('erased', 'denied', 'cancelled')),
		(SELECT min(fenced_at) FROM erasures WHERE state IN ('running', 'passing')),
		(SELECT count(*) FROM journal WHERE NOT published) FROM counters`)
	return s, err
}
