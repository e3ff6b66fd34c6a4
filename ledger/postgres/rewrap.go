package postgres

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// Rewrap implements ledger.Epochs. It holds the executions' rows while it looks
// at their keys, so no fence and no put comes in between.
func (l *Ledger) Rewrap(ctx context.Context, lease ledger.EpochLease, items []ledger.Rewrap) (done int, err error) {
	const op = "rewrap"
	if len(items) < 1 || len(items) > maxRefs {
		return 0, classify(op, fmt.Errorf("%d items: %w", len(items), blobd.ErrInvalid))
	}
	err = l.write(ctx, op, func(ctx context.Context, x *tx) (err error) {
		done, err = rewrapAll(ctx, x, lease, items)
		return err
	})
	if err != nil {
		return 0, err
	}
	return done, nil
}

// wraps are the keys that a re-wrap looks at and changes, in memory.
type wraps struct {
	index      ledger.WrappedKey
	minimum    uint32
	executions map[blobd.ExecutionTag]*wrap

	newIndex *ledger.WrappedKey
	keys     []*wrap // that changed
	blobs    []blobKey
	rekeyed  int64
}

type wrap struct {
	tag     blobd.ExecutionTag
	lost    bool
	key     ledger.WrappedKey
	blobs   map[blobd.Ref][]byte // wrapped keys; filled in where a new key is asked for
	changed bool
}

type blobKey struct {
	tag blobd.ExecutionTag
	ref blobd.Ref
	key []byte
}

func rewrapAll(ctx context.Context, x *tx, lease ledger.EpochLease, items []ledger.Rewrap) (int, error) {
	e, err := heldEpoch(ctx, x, lease)
	if err != nil {
		return 0, err
	}
	if e.State != ledger.EpochRewrapping {
		return 0, fmt.Errorf("the epoch is %v: %w", e.State, blobd.ErrConflict)
	}
	w, err := loadWraps(ctx, x, e.Tenant, items)
	if err != nil {
		return 0, err
	}
	done := 0
	for i := range items {
		item := &items[i]
		if item.New.Version < w.minimum {
			return 0, fmt.Errorf("wrapped by version %d, minimum %d: %w", item.New.Version, w.minimum, blobd.ErrConflict)
		}
		if w.rewrap(item) {
			done++
		}
	}
	w.queue(x, e.Tenant)
	x.exec("UPDATE epochs SET rewrapped = rewrapped + $1, rekeyed = rekeyed + $2 WHERE id = $3", done, w.rekeyed, e.ID)
	return done, nil
}

func loadWraps(ctx context.Context, x *tx, tenant string, items []ledger.Rewrap) (*wraps, error) {
	w := &wraps{executions: make(map[blobd.ExecutionTag]*wrap)}
	var tags, rekeyed [][]byte
	for i := range items {
		item := &items[i]
		tags = append(tags, item.Tag[:])
		if item.New.ID != item.Old.ID {
			rekeyed = append(rekeyed, item.Tag[:])
		}
	}
	slices.SortFunc(tags, bytes.Compare)
	x.shareTenant(tenant)
	x.scan(nil, []any{&w.minimum, &w.index.Version, &w.index.Ciphertext},
		"SELECT minimum_wrap, index_wrap, index_key FROM tenants WHERE id = $1 FOR NO KEY UPDATE", tenant)
	x.each(w.scanExecution, `SELECT tag, lost_blob FROM executions WHERE tag = ANY($1::bytea[]) AND tenant = $2
		ORDER BY tag FOR NO KEY UPDATE`, tags, tenant)
	x.each(w.scanKey, "SELECT tag, id, version, wrapped FROM execution_keys WHERE tag = ANY($1::bytea[])", tags)
	x.each(w.scanBlob, "SELECT execution_tag, ref, wrapped FROM blobs WHERE execution_tag = ANY($1::bytea[]) AND wrapped IS NOT NULL", rekeyed)
	return w, x.flush(ctx)
}

func (w *wraps) scanExecution(r pgx.CollectableRow) error {
	e := &wrap{blobs: make(map[blobd.Ref][]byte)}
	err := r.Scan(fixed(e.tag[:]), &e.lost)
	w.executions[e.tag] = e
	return err
}

func (w *wraps) scanKey(r pgx.CollectableRow) error {
	var tag blobd.ExecutionTag
	var k keyRow
	err := r.Scan(append([]any{fixed(tag[:])}, k.to()...)...)
	if e := w.executions[tag]; e != nil && err == nil {
		e.key = *k.key()
	}
	return err
}

func (w *wraps) scanBlob(r pgx.CollectableRow) error {
	var tag blobd.ExecutionTag
	var ref blobd.Ref
	var wrapped []byte
	err := r.Scan(fixed(tag[:]), fixed(ref[:]), &wrapped)
	if e := w.executions[tag]; e != nil {
		e.blobs[ref] = wrapped
	}
	return err
}

// rewrap replaces one wrap, if the ledger still has what it was made from.
func (w *wraps) rewrap(item *ledger.Rewrap) bool {
	if item.Tag == (blobd.ExecutionTag{}) {
		if w.index.Version != item.Old.Version || !bytes.Equal(w.index.Ciphertext, item.Old.Ciphertext) {
			return false
		}
		w.index, w.newIndex = item.New, &item.New
		return true
	}
	e := w.executions[item.Tag]
	rekey := item.New.ID != item.Old.ID
	if e == nil || e.key.Ciphertext == nil || e.key.ID != item.Old.ID || !bytes.Equal(e.key.Ciphertext, item.Old.Ciphertext) ||
		e.lost && !rekey || rekey && !w.rewrapBlobs(e, item.Blobs) {
		return false
	}
	if rekey {
		e.lost = false
		w.rekeyed++
	}
	if !e.changed {
		e.changed = true
		w.keys = append(w.keys, e)
	}
	e.key = item.New
	return true
}

// rewrapBlobs gives an execution's blobs keys wrapped by its new key: all that
// still have one, or none. A key that was dropped meanwhile stays dropped.
func (w *wraps) rewrapBlobs(e *wrap, items []ledger.RewrapBlob) bool {
	made := make(map[blobd.Ref][]byte, len(items))
	for i := range items {
		b := &items[i]
		if have, ok := e.blobs[b.Ref]; ok && bytes.Equal(have, b.Old) {
			made[b.Ref] = notNull(b.New)
		}
	}
	if len(made) != len(e.blobs) {
		return false // a blob came in between
	}
	for ref, key := range made {
		e.blobs[ref] = key
		w.blobs = append(w.blobs, blobKey{e.tag, ref, key})
	}
	return true
}

func (w *wraps) queue(x *tx, tenant string) {
	if k := w.newIndex; k != nil {
		x.exec("UPDATE tenants SET index_key = $1, index_wrap = $2 WHERE id = $3", notNull(k.Ciphertext), int64(k.Version), tenant)
	}
	var tags, ids, keys [][]byte
	var versions []int64
	var lost []bool
	for _, e := range w.keys {
		tags, ids, keys = append(tags, e.tag[:]), append(ids, e.key.ID[:]), append(keys, notNull(e.key.Ciphertext))
		versions, lost = append(versions, int64(e.key.Version)), append(lost, e.lost)
	}
	if len(tags) > 0 {
		x.exec(`UPDATE execution_keys k SET id = n.id, version = n.version, wrapped = n.wrapped
			FROM unnest($1::bytea[], $2::bytea[], $3::bigint[], $4::bytea[]) n (tag, id, version, wrapped) WHERE k.tag = n.tag`,
			tags, ids, versions, keys)
		x.exec(`UPDATE executions e SET lost_blob = n.lost FROM unnest($1::bytea[], $2::boolean[]) n (tag, lost)
			WHERE e.tag = n.tag AND e.lost_blob <> n.lost`, tags, lost)
	}
	var of, refs, wrapped [][]byte
	for i := range w.blobs {
		b := &w.blobs[i]
		of, refs, wrapped = append(of, b.tag[:]), append(refs, b.ref[:]), append(wrapped, b.key)
	}
	if len(of) > 0 {
		x.exec(`UPDATE blobs b SET wrapped = n.wrapped FROM unnest($1::bytea[], $2::bytea[], $3::bytea[]) n (tag, ref, wrapped)
			WHERE b.execution_tag = n.tag AND b.ref = n.ref`, of, refs, wrapped)
	}
}
