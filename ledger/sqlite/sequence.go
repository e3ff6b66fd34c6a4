package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// ClaimSequencer implements ledger.Sequence.
func (l *Ledger) ClaimSequencer(ctx context.Context, owner string, at, until time.Time) (lease ledger.SequencerLease, err error) {
	err = l.write(ctx, "claim the sequencer", func(w *conn) error {
		found, err := w.one(ctx, `UPDATE evidence_log SET term = term + 1, lease_owner = ?, lease_until = ?
			WHERE lease_owner IS NULL OR lease_owner = ? OR lease_until <= ? RETURNING term`,
			func(r *row) { lease = ledger.SequencerLease{Owner: owner, Term: r.int(0), Until: stored(until)} },
			owner, until.UnixMicro(), owner, at.UnixMicro())
		if err == nil && !found {
			err = fmt.Errorf("another has it: %w", blobd.ErrConflict)
		}
		return err
	})
	if err != nil {
		return ledger.SequencerLease{}, err
	}
	return lease, nil
}

// noIndex finds, among rows of evidence e, those that are not in the log.
const noIndex = "NOT EXISTS (SELECT 1 FROM evidence_indexes i WHERE i.entry = e.id)"

// Unsequenced implements ledger.Sequence. There is one writer, so an entry that
// is committed later has a larger id: all up to last have an index.
func (l *Ledger) Unsequenced(ctx context.Context, after int64, limit int) (es []ledger.StoredEntry, err error) {
	if err := checkLimit(limit); err != nil {
		return nil, classify("unsequenced", err)
	}
	err = l.read(ctx, "unsequenced", func(c *conn) error {
		return c.query(ctx, `SELECT id, tenant, kind, at, body FROM evidence e
			WHERE id > max(?, (SELECT last FROM evidence_log)) AND `+noIndex+` ORDER BY id LIMIT ?`,
			func(r *row) { es = append(es, r.bareEntry(0)) }, after, int64(limit))
	})
	return es, err
}

// bareEntry reads an entry without its free text from column i on.
func (r *row) bareEntry(i int) ledger.StoredEntry {
	return ledger.StoredEntry{ID: r.int(i), Entry: ledger.Entry{
		Tenant: r.text(i + 1), Kind: ledger.EntryKind(r.text(i + 2)), At: r.time(i + 3), Body: r.bytes(i + 4),
	}}
}

// AppendToLog implements ledger.Sequence.
func (l *Ledger) AppendToLog(ctx context.Context, lease ledger.SequencerLease, a ledger.LogAppend) error {
	if err := a.Check(); err != nil {
		return classify("append to the log", err)
	}
	return l.write(ctx, "append to the log", func(w *conn) error { return appendToLog(ctx, w, lease, a) })
}

func appendToLog(ctx context.Context, w *conn, lease ledger.SequencerLease, a ledger.LogAppend) error {
	var size int64
	held, err := w.one(ctx, "SELECT size FROM evidence_log WHERE lease_owner = ? AND term = ?",
		func(r *row) { size = r.int(0) }, lease.Owner, lease.Term)
	switch {
	case err != nil:
		return err
	case !held:
		return fmt.Errorf("the lease is stale: %w", blobd.ErrConflict)
	case size != a.Size:
		return fmt.Errorf("the log has %d entries, not %d: %w", size, a.Size, blobd.ErrConflict)
	}
	if err := setLogKey(ctx, w, a.Key); err != nil {
		return err
	}
	for _, e := range a.Entries {
		if err := giveIndex(ctx, w, size, e); err != nil {
			return err
		}
		size++
	}
	if len(a.Entries) == 0 {
		return nil
	}
	if _, err := w.exec(ctx, "INSERT INTO evidence_checkpoints (size, note) VALUES (?, ?)", size, a.Checkpoint); err != nil {
		return err
	}
	_, err = w.exec(ctx, `UPDATE evidence_log SET size = ?, last = ifnull(
		(SELECT min(e.id) - 1 FROM evidence e WHERE e.id > last AND `+noIndex+`), (SELECT max(id) FROM evidence))`, size)
	return err
}

// giveIndex inserts where the entry is there and has no index. One that is given
// whole is put there first.
func giveIndex(ctx context.Context, w *conn, index int64, e ledger.NewLogEntry) error {
	if e.Insert != nil {
		if err := appendEntries(ctx, w, *e.Insert); err != nil {
			return err
		}
		_, err := w.exec(ctx, "INSERT INTO evidence_indexes (n, entry, object, hashes) VALUES (?, last_insert_rowid(), ?, ?)",
			index, orNone(e.Object), joinHashes(e.Hashes))
		return err
	}
	n, err := w.exec(ctx, `INSERT INTO evidence_indexes (n, entry, object, hashes) SELECT ?, id, ?, ? FROM evidence e
		WHERE id = ? AND `+noIndex,
		index, orNone(e.Object), joinHashes(e.Hashes), e.ID)
	if err == nil && n == 0 {
		err = fmt.Errorf("entry %d cannot get an index: %w", e.ID, blobd.ErrConflict)
	}
	return err
}

// orNone is the stored form of a text where none is NULL.
func orNone(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func setLogKey(ctx context.Context, w *conn, k *ledger.LogKey) error {
	if k == nil {
		return nil
	}
	_, err := w.exec(ctx, "UPDATE evidence_log SET key_version = ?, key_wrapped = ?, verifier = ? WHERE key_version IS NULL",
		int64(k.Version), notNull(k.Ciphertext), k.Verifier)
	if err != nil {
		return err
	}
	have, err := logKey(ctx, w)
	if err != nil {
		return err
	}
	if have == nil || !have.Same(*k) {
		return fmt.Errorf("the log has another key: %w", blobd.ErrConflict)
	}
	return nil
}

func logKey(ctx context.Context, c *conn) (k *ledger.LogKey, err error) {
	_, err = c.one(ctx, "SELECT key_version, key_wrapped, verifier FROM evidence_log WHERE key_version IS NOT NULL", func(r *row) {
		k = &ledger.LogKey{Version: uint32(r.int(0)), Ciphertext: r.bytes(1), Verifier: r.text(2)}
	})
	return k, err
}

// Logged implements ledger.Sequence.
func (l *Ledger) Logged(ctx context.Context, q ledger.LogQuery) (es []ledger.LoggedEntry, err error) {
	if err := q.Check(); err != nil {
		return nil, classify("logged", err)
	}
	query, args := loggedQuery(q)
	err = l.read(ctx, "logged", func(c *conn) error {
		return c.query(ctx, query, func(r *row) { es = append(es, r.logged(q.HashesOnly)) }, args...)
	})
	return es, err
}

func loggedQuery(q ledger.LogQuery) (query string, args []any) {
	query = "SELECT i.n, i.object, i.hashes, i.entry FROM evidence_indexes i"
	if !q.HashesOnly {
		query = `SELECT i.n, i.object, i.hashes, e.id, e.tenant, e.kind, e.at, e.body
			FROM evidence_indexes i JOIN evidence e ON e.id = i.entry`
	}
	if q.Object != "" {
		return query + " WHERE i.object = ? ORDER BY i.n LIMIT ?", []any{q.Object, int64(ledger.MaxLogQuery)}
	}
	for _, n := range q.Indexes {
		args = append(args, n)
	}
	for len(args) < padded(len(q.Indexes)) {
		args = append(args, q.Indexes[0]) // once more is nothing more
	}
	return query + " WHERE i.n IN (" + placeholders(len(args)) + ") ORDER BY i.n", args
}

func (r *row) logged(hashesOnly bool) ledger.LoggedEntry {
	e := ledger.LoggedEntry{Index: r.int(0), Hashes: r.hashes(2)}
	if !r.null(1) {
		e.Object = r.text(1)
	}
	if hashesOnly {
		e.ID = r.int(3)
		return e
	}
	e.StoredEntry = r.bareEntry(3)
	return e
}

// LogState implements ledger.Sequence.
func (l *Ledger) LogState(ctx context.Context, size int64) (s ledger.LogState, err error) {
	query := "SELECT size, note FROM evidence_checkpoints WHERE size >= ? ORDER BY size LIMIT 1"
	if size <= 0 {
		query = "SELECT size, note FROM evidence_checkpoints WHERE size >= ? ORDER BY size DESC LIMIT 1"
	}
	err = l.snapshot(ctx, "log state", func(c *conn) (err error) {
		if s.Key, err = logKey(ctx, c); err != nil {
			return err
		}
		found, err := c.one(ctx, query, func(r *row) { s.Size, s.Checkpoint = r.int(0), r.bytes(1) }, size)
		return orNotFound(found || size <= 0, err)
	})
	if err != nil {
		return ledger.LogState{}, err
	}
	return s, nil
}
