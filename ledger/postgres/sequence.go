package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// ClaimSequencer implements ledger.Sequence.
func (l *Ledger) ClaimSequencer(ctx context.Context, owner string, at, until time.Time) (ledger.SequencerLease, error) {
	const op = "claim the sequencer"
	lease := ledger.SequencerLease{Owner: owner, Until: stored(until)}
	found := false
	err := l.write(ctx, op, func(_ context.Context, x *tx) error {
		found = false
		x.scan(&found, []any{&lease.Term}, `UPDATE evidence_log SET term = term + 1, lease_owner = $1, lease_until = $2
			WHERE lease_owner IS NULL OR lease_owner = $1 OR lease_until <= $3 RETURNING term`,
			owner, until.UnixMicro(), at.UnixMicro())
		return nil
	})
	if err == nil && !found {
		err = classify(op, fmt.Errorf("another has it: %w", blobd.ErrConflict))
	}
	if err != nil {
		return ledger.SequencerLease{}, err
	}
	return lease, nil
}

// waiting finds the entries without an index, with ids above $1.
const waiting = ` FROM evidence e WHERE e.id > greatest($1::bigint, (SELECT low FROM evidence_log))
	AND NOT EXISTS (SELECT 1 FROM evidence_indexes i WHERE i.entry = e.id) ORDER BY e.id LIMIT `

// Unsequenced implements ledger.Sequence. One that commits late is told late.
func (l *Ledger) Unsequenced(ctx context.Context, after int64, limit int) ([]ledger.StoredEntry, error) {
	if err := checkLimit("unsequenced", limit); err != nil {
		return nil, err
	}
	return list(ctx, l, "unsequenced", func(r pgx.CollectableRow) (e ledger.StoredEntry, err error) {
		err = r.Scan(bareEntryTo(&e)...)
		return e, err
	}, "SELECT "+bareEntryColumns+waiting+"$2", after, limit)
}

// bareEntryColumns are an entry without its free text, from evidence e.
const bareEntryColumns = "e.id, e.tenant, e.kind, e.at, e.body"

func bareEntryTo(e *ledger.StoredEntry) []any {
	return []any{&e.ID, &e.Tenant, &e.Kind, moment{&e.At}, &e.Body}
}

// AppendToLog implements ledger.Sequence.
func (l *Ledger) AppendToLog(ctx context.Context, lease ledger.SequencerLease, a ledger.LogAppend) error {
	const op = "append to the log"
	if err := a.Check(); err != nil {
		return classify(op, err)
	}
	return l.write(ctx, op, func(ctx context.Context, x *tx) error { return appendToLog(ctx, x, lease, a) })
}

func appendToLog(ctx context.Context, x *tx, lease ledger.SequencerLease, a ledger.LogAppend) error {
	var size, value int64
	var mark *int64
	held := false
	x.scan(&held, []any{&size}, "SELECT size FROM evidence_log WHERE lease_owner = $1 AND term = $2 FOR UPDATE", lease.Owner, lease.Term)
	x.scan(nil, []any{&value}, "SELECT last_value FROM evidence_ids")
	x.scan(nil, []any{&mark}, lowestMark)
	switch err := x.flush(ctx); {
	case err != nil:
		return err
	case !held:
		return fmt.Errorf("the lease is stale: %w", blobd.ErrConflict)
	case size != a.Size:
		return fmt.Errorf("the log has %d entries, not %d: %w", size, a.Size, blobd.ErrConflict)
	}
	if err := setLogKey(ctx, x, a.Key); err != nil || len(a.Entries) == 0 {
		return err
	}
	if err := giveIndexes(ctx, x, size, a.Entries); err != nil {
		return err
	}
	size += int64(len(a.Entries))
	x.exec("INSERT INTO evidence_checkpoints (size, note) VALUES ($1, $2)", size, a.Checkpoint)
	// Up to bound nothing comes any more (see Entries), so what is visible and
	// waits is all that waits there.
	bound := value
	if mark != nil {
		bound = min(value, *mark)
	}
	x.exec(`UPDATE evidence_log SET size = $2, low = greatest(low, least($3::bigint, (SELECT e.id - 1`+waiting+`1)))`, 0, size, bound)
	return nil
}

// giveIndexes inserts where each entry is there and has no index. Those that are given
// whole are put there with it.
func giveIndexes(ctx context.Context, x *tx, size int64, entries []ledger.NewLogEntry) error {
	var ns, ids []int64
	var objects []*string
	var nodes [][]byte
	for i := range entries {
		e := &entries[i]
		n, object := size+int64(i), &e.Object
		if e.Object == "" {
			object = nil
		}
		if e.Insert != nil {
			x.insertLogged(n, object, e)
			continue
		}
		ns, ids, objects, nodes = append(ns, n), append(ids, e.ID), append(objects, object), append(nodes, joined(e.Hashes))
	}
	var n int64
	x.count(&n, `INSERT INTO evidence_indexes (n, entry, object, hashes) SELECT q.n, e.id, q.object, q.hashes
		FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bytea[]) q (n, id, object, hashes) JOIN evidence e ON e.id = q.id
		ON CONFLICT DO NOTHING`, ns, ids, objects, nodes)
	if inserted := int64(len(entries) - len(ids)); inserted > 0 {
		x.move(counts{entries: inserted})
	}
	if err := x.flush(ctx); err != nil {
		return err
	}
	if n != int64(len(ids)) {
		return fmt.Errorf("%d of %d entries can get an index: %w", n, len(ids), blobd.ErrConflict)
	}
	return nil
}

// insertLogged queues an entry with its index.
func (t *tx) insertLogged(n int64, object *string, e *ledger.NewLogEntry) {
	t.exec(`WITH e AS (INSERT INTO evidence (tenant, kind, at, body) VALUES ($1, $2, $3, $4) RETURNING id)
		INSERT INTO evidence_indexes (n, entry, object, hashes) SELECT $5, id, $6, $7 FROM e`,
		e.Insert.Tenant, string(e.Insert.Kind), e.Insert.At.UnixMicro(), notNull(e.Insert.Body), n, object, joined(e.Hashes))
}

const logKeyOf = "SELECT key_version, key_wrapped, verifier FROM evidence_log WHERE key_version IS NOT NULL"

func setLogKey(ctx context.Context, x *tx, k *ledger.LogKey) error {
	if k == nil {
		return nil
	}
	var have ledger.LogKey
	found := false
	x.exec("UPDATE evidence_log SET key_version = $1, key_wrapped = $2, verifier = $3 WHERE key_version IS NULL",
		int64(k.Version), notNull(k.Ciphertext), k.Verifier)
	x.scan(&found, []any{&have.Version, &have.Ciphertext, &have.Verifier}, logKeyOf)
	if err := x.flush(ctx); err != nil {
		return err
	}
	if !found || !have.Same(*k) {
		return fmt.Errorf("the log has another key: %w", blobd.ErrConflict)
	}
	return nil
}

// Logged implements ledger.Sequence.
func (l *Ledger) Logged(ctx context.Context, q ledger.LogQuery) ([]ledger.LoggedEntry, error) {
	const op = "logged"
	if err := q.Check(); err != nil {
		return nil, classify(op, err)
	}
	columns, from := "i.entry", " FROM evidence_indexes i"
	if !q.HashesOnly {
		columns, from = bareEntryColumns, " FROM evidence_indexes i JOIN evidence e ON e.id = i.entry"
	}
	where, args := " WHERE i.n = ANY($1::bigint[]) ORDER BY i.n", []any{q.Indexes}
	if q.Object != "" {
		where, args = " WHERE i.object = $1 ORDER BY i.n LIMIT $2", []any{q.Object, ledger.MaxLogQuery}
	}
	return list(ctx, l, op, func(r pgx.CollectableRow) (e ledger.LoggedEntry, err error) {
		var object *string
		to := []any{&e.Index, &object, hashes{&e.Hashes}}
		if q.HashesOnly {
			err = r.Scan(append(to, &e.ID)...)
		} else {
			err = r.Scan(append(to, bareEntryTo(&e.StoredEntry)...)...)
		}
		e.Object = deref(object)
		return e, err
	}, "SELECT i.n, i.object, i.hashes, "+columns+from+where, args...)
}

// LogState implements ledger.Sequence.
func (l *Ledger) LogState(ctx context.Context, size int64) (s ledger.LogState, err error) {
	const op = "log state"
	order := "ASC"
	if size <= 0 {
		order = "DESC"
	}
	found := false
	err = l.readOnly(ctx, "REPEATABLE READ", func(_ context.Context, x *tx) error {
		s, found = ledger.LogState{}, false
		x.each(func(r pgx.CollectableRow) error {
			s.Key = new(ledger.LogKey)
			return r.Scan(&s.Key.Version, &s.Key.Ciphertext, &s.Key.Verifier)
		}, logKeyOf)
		x.scan(&found, []any{&s.Size, &s.Checkpoint},
			"SELECT size, note FROM evidence_checkpoints WHERE size >= $1 ORDER BY size "+order+" LIMIT 1", size)
		return nil
	})
	if err := classifyFound(op, found || size <= 0, classify(op, err)); err != nil {
		return ledger.LogState{}, err
	}
	return s, nil
}
