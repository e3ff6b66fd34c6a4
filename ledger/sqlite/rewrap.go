package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// Wraps implements ledger.Epochs. It goes by the order that lists a tenant's
// executions, so that no index is written with every put for the sake of a job
// that runs a few times a year.
func (l *Ledger) Wraps(ctx context.Context, q ledger.WrapQuery) (ws []ledger.Wrap, err error) {
	if err := checkLimit(q.Limit); err != nil {
		return nil, classify("wraps", err)
	}
	err = l.snapshot(ctx, "wraps", func(c *conn) error {
		from := ""
		args := []any{q.Tenant, int64(q.Below)}
		if q.After == (ledger.ExecutionCursor{}) {
			err := c.query(ctx, "SELECT index_wrap, index_key FROM tenants WHERE id = ? AND index_wrap < ? AND fenced_at IS NULL",
				func(r *row) {
					ws = append(ws, ledger.Wrap{Key: ledger.WrappedKey{Version: uint32(r.int(0)), Ciphertext: r.bytes(1)}})
				}, args...)
			if err != nil || len(ws) == q.Limit {
				return err
			}
		} else {
			from = " AND (e.created_at, e.tag) > (?, ?)"
			args = append(args, micros(q.After.CreatedAt), q.After.Tag[:])
		}
		return c.query(ctx, `SELECT e.tag, e.created_at, e.lost_blob, e.key_id, e.key_version, k.wrapped
			FROM executions e LEFT JOIN execution_keys k ON k.n = e.n WHERE e.tenant = ? AND e.key_version < ?
				AND NOT EXISTS (SELECT 1 FROM tenants t WHERE t.id = e.tenant AND t.fenced_at IS NOT NULL)`+from+`
			ORDER BY e.created_at, e.tag LIMIT ?`,
			func(r *row) {
				w := ledger.Wrap{Tag: r.tag(0), CreatedAt: r.time(1), LostBlob: r.bool(2)}
				if key := r.wrappedKey(3); key != nil {
					w.Key = *key
				}
				ws = append(ws, w)
			}, append(args, int64(q.Limit-len(ws)))...)
	})
	if err != nil {
		return nil, err
	}
	return ws, nil
}

// Rewrap implements ledger.Epochs.
func (l *Ledger) Rewrap(ctx context.Context, lease ledger.EpochLease, items []ledger.Rewrap) (done int, err error) {
	if err := checkRewraps(items); err != nil {
		return 0, classify("rewrap", err)
	}
	err = l.write(ctx, "rewrap", func(w *conn) (err error) {
		done, err = rewrapAll(ctx, w, lease, items)
		return err
	})
	if err != nil {
		return 0, err
	}
	return done, nil
}

// checkRewraps refuses a blob's wrapped key that is longer than the one that it
// replaces: the rows that hold keys must stay where they are (see the schema).
func checkRewraps(items []ledger.Rewrap) error {
	if len(items) < 1 || len(items) > maxRefs {
		return fmt.Errorf("%d items: %w", len(items), blobd.ErrInvalid)
	}
	for _, item := range items {
		for _, b := range item.Blobs {
			if len(b.New) > len(b.Old) {
				return fmt.Errorf("a blob's wrapped key is longer than the one before it: %w", blobd.ErrInvalid)
			}
		}
	}
	return nil
}

func rewrapAll(ctx context.Context, w *conn, lease ledger.EpochLease, items []ledger.Rewrap) (int, error) {
	e, err := heldEpoch(ctx, w, lease)
	if err != nil {
		return 0, err
	}
	if e.State != ledger.EpochRewrapping {
		return 0, fmt.Errorf("the epoch is %v: %w", e.State, blobd.ErrConflict)
	}
	var minimum uint32
	_, err = w.one(ctx, "SELECT minimum_wrap FROM tenants WHERE id = ?", func(r *row) { minimum = uint32(r.int(0)) }, e.Tenant)
	if err != nil {
		return 0, err
	}
	var done, rekeyed int64
	for _, item := range items {
		if item.New.Version < minimum {
			return 0, fmt.Errorf("wrapped by version %d, minimum %d: %w", item.New.Version, minimum, blobd.ErrConflict)
		}
		replaced, err := rewrap(ctx, w, e.Tenant, item)
		if err != nil {
			return 0, err
		}
		if !replaced {
			continue
		}
		done++
		if item.New.ID != item.Old.ID {
			rekeyed++
		}
	}
	_, err = w.exec(ctx, "UPDATE epochs SET rewrapped = rewrapped + ?, rekeyed = rekeyed + ? WHERE id = ?", done, rekeyed, e.ID)
	return int(done), err
}

// rewrap replaces one wrap, if the ledger still has what it was made from.
func rewrap(ctx context.Context, w *conn, tenant string, item ledger.Rewrap) (bool, error) {
	if item.Tag == (blobd.ExecutionTag{}) {
		n, err := w.exec(ctx, "UPDATE tenants SET index_key = ?, index_wrap = ? WHERE id = ? AND index_key = ? AND index_wrap = ?",
			notNull(item.New.Ciphertext), int64(item.New.Version), tenant, notNull(item.Old.Ciphertext), int64(item.Old.Version))
		return n == 1, err
	}
	var number int64
	var same, lost bool
	found, err := w.one(ctx, `SELECT e.n, e.lost_blob, e.key_id, e.key_version, k.wrapped
		FROM executions e LEFT JOIN execution_keys k ON k.n = e.n WHERE e.tag = ? AND e.tenant = ?`,
		func(r *row) {
			number, lost = r.int(0), r.bool(1)
			key := r.wrappedKey(2)
			same = key != nil && key.ID == item.Old.ID && bytes.Equal(key.Ciphertext, item.Old.Ciphertext)
		}, item.Tag[:], tenant)
	rekey := item.New.ID != item.Old.ID
	if err != nil || !found || !same || lost && !rekey {
		return false, err
	}
	if rekey {
		whole, err := rewrapBlobs(ctx, w, item)
		if err != nil || !whole {
			return false, err
		}
	}
	if len(item.New.Ciphertext) > len(item.Old.Ciphertext) {
		number, err = renumberKey(ctx, w, number)
	}
	if err != nil {
		return false, err
	}
	_, err = w.exec(ctx, `INSERT INTO execution_keys (n, wrapped) VALUES (?, ?)
		ON CONFLICT (n) DO UPDATE SET wrapped = excluded.wrapped`, number, notNull(item.New.Ciphertext))
	if err != nil {
		return false, err
	}
	_, err = w.exec(ctx, "UPDATE executions SET key_id = ?, key_version = ?, lost_blob = 0 WHERE n = ?",
		item.New.ID[:], int64(item.New.Version), number)
	return err == nil, err
}

// renumberKey makes room for a key longer than the one that it replaces: no row
// that holds a key may grow, so the execution gets a new number, whose key is
// appended, and the row of its old number stays empty.
func renumberKey(ctx context.Context, w *conn, old int64) (number int64, err error) {
	if _, err := w.exec(ctx, "UPDATE execution_keys SET wrapped = NULL WHERE n = ?", old); err != nil {
		return 0, err
	}
	_, err = w.one(ctx, "UPDATE executions SET n = (SELECT max(n) + 1 FROM executions) WHERE n = ? RETURNING n",
		func(r *row) { number = r.int(0) }, old)
	return number, err
}

// errUnlisted undoes the change of an execution that has a blob which was not
// listed.
var errUnlisted = fmt.Errorf("a blob came in between: %w", blobd.ErrConflict)

// rewrapBlobs gives an execution's blobs keys wrapped by its new key: all that
// still have one, or none. A key that was dropped meanwhile stays dropped.
func rewrapBlobs(ctx context.Context, w *conn, item ledger.Rewrap) (whole bool, err error) {
	err = w.savepoint(ctx, func() error {
		var replaced int64
		for _, b := range item.Blobs {
			n, err := w.exec(ctx, "UPDATE blobs SET wrapped = ? WHERE execution_tag = ? AND ref = ? AND wrapped = ?",
				notNull(b.New), item.Tag[:], b.Ref[:], notNull(b.Old))
			if err != nil {
				return err
			}
			replaced += n
		}
		var have int64
		_, err := w.one(ctx, "SELECT count(*) FROM blobs WHERE execution_tag = ? AND wrapped IS NOT NULL",
			func(r *row) { have = r.int(0) }, item.Tag[:])
		if err == nil && have != replaced {
			err = errUnlisted
		}
		return err
	})
	if errors.Is(err, errUnlisted) {
		return false, nil
	}
	return err == nil, err
}
