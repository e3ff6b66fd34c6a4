package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/keys"
	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/seal"
)

// rewrapAll passes over the tenant's wraps until none is below the epoch's
// version. What moved while it was re-wrapped is taken by the next pass; a pass
// that achieves nothing ends the run with its first error, and the job is tried
// again later: nothing is ever given up.
func (w *epochWorker) rewrapAll(ctx context.Context) error {
	for {
		p := pass{epochWorker: w}
		if err := p.run(ctx); err != nil {
			return err
		}
		switch {
		case p.seen == 0:
			return nil
		case p.done == 0 && p.failure != nil:
			return p.failure
		case p.done == 0:
			return fmt.Errorf("%d keys kept moving: %w", p.seen, blobd.ErrConflict)
		}
	}
}

// pass is one walk over the wraps that are below.
type pass struct {
	*epochWorker
	seen, done int
	failure    error // the first that concerned one key
}

func (p *pass) run(ctx context.Context) error {
	e, err := p.now(ctx)
	if err != nil {
		return err
	}
	q := ledger.WrapQuery{Tenant: p.e.Tenant, Below: p.e.Version, Limit: p.o.Batch}
	for {
		wraps, err := p.Ledger.Wraps(ctx, q)
		if err != nil || len(wraps) == 0 {
			return err
		}
		if err := p.o.Wait(ctx, len(wraps)); err != nil {
			return fmt.Errorf("%w: %w", blobd.ErrUnavailable, err)
		}
		if err := p.renew(ctx); err != nil {
			return err
		}
		done, err := p.batch(ctx, wraps)
		if err != nil {
			return err
		}
		p.seen, p.done = p.seen+len(wraps), p.done+done
		if p.o.Progress != nil {
			p.o.Progress(e.Rewrapped+int64(p.done), e.Total)
		}
		last := wraps[len(wraps)-1]
		q.After = ledger.ExecutionCursor{CreatedAt: last.CreatedAt, Tag: last.Tag}
		if last.Tag == (blobd.ExecutionTag{}) && done == 0 {
			// Only the index key was told, and after it the walk starts over.
			return nil
		}
	}
}

// batch re-wraps what it can and returns how many wraps were replaced.
func (p *pass) batch(ctx context.Context, wraps []ledger.Wrap) (int, error) {
	items, err := p.renewals(ctx, wraps)
	if err != nil || len(items) == 0 {
		return 0, err
	}
	return p.Ledger.Rewrap(ctx, p.lease, items)
}

// renewals asks the key service once for all wraps of a batch.
func (p *pass) renewals(ctx context.Context, wraps []ledger.Wrap) ([]ledger.Rewrap, error) {
	var items []ledger.Rewrap
	var asked []keys.Renewal
	var of []ledger.Wrap
	for _, wrap := range wraps {
		if wrap.Tag != (blobd.ExecutionTag{}) {
			asked = append(asked, keys.Renewal{
				Tag: wrap.Tag, ID: wrap.Key.ID, Wrapped: wrappedOf(wrap.Key), Replace: wrap.LostBlob,
			})
			of = append(of, wrap)
			continue
		}
		renewed, err := p.Keys.RewrapIndex(ctx, p.e.Tenant, wrappedOf(wrap.Key))
		if err != nil {
			return nil, err // without it the tenant does not work: nothing else matters
		}
		items = append(items, ledger.Rewrap{Old: wrap.Key, New: rewrapped(keys.ID{}, renewed)})
	}
	if len(asked) == 0 {
		return items, nil
	}
	renewed, err := p.Keys.Renew(ctx, p.e.Tenant, asked)
	if err != nil {
		return nil, err
	}
	defer func() {
		for _, r := range renewed {
			r.Wipe()
		}
	}()
	for i, r := range renewed {
		item, err := p.item(ctx, of[i], r)
		switch {
		case errors.Is(err, blobd.ErrUnavailable):
			return nil, err
		case err != nil:
			p.fail(of[i], err)
		default:
			items = append(items, item)
		}
	}
	return items, nil
}

func rewrapped(id keys.ID, w keys.Wrapped) ledger.WrappedKey {
	return ledger.WrappedKey{ID: id, Version: uint32(w.Version), Ciphertext: w.Ciphertext}
}

// fail notes a key that could not be re-wrapped; the others go on.
func (p *pass) fail(wrap ledger.Wrap, err error) {
	p.Log.Error("a key cannot be re-wrapped", "execution", wrap.Tag.String(), "error", err)
	if p.failure == nil {
		p.failure = err
	}
}

// item is one execution's replacement. Where the execution key is replaced, so
// are the keys of all blobs that it wraps.
func (p *pass) item(ctx context.Context, wrap ledger.Wrap, r keys.Renewed) (ledger.Rewrap, error) {
	item := ledger.Rewrap{Tag: wrap.Tag, Old: wrap.Key, New: rewrapped(r.ID, r.Wrapped)}
	if r.Err != nil || r.New == nil {
		return item, r.Err
	}
	for after := (ledger.Position{Tag: wrap.Tag}); ; {
		rows, err := p.Ledger.ScanBlobs(ctx, after, verifyPage)
		if err != nil {
			return item, err
		}
		for _, row := range rows {
			if row.Tag != wrap.Tag {
				return item, nil
			}
			after = row.Position
			if row.Blob.WrappedKey == nil {
				continue
			}
			blob, err := p.rewrapBlob(row, r)
			if err != nil {
				return item, err
			}
			item.Blobs = append(item.Blobs, blob)
		}
		if len(rows) < verifyPage {
			return item, nil
		}
	}
}

// rewrapBlob wraps a blob's key by its execution's new key. One that does not
// open is kept as it is: it opened nothing before, and is an error to a reader.
func (p *pass) rewrapBlob(row ledger.ScannedBlob, r keys.Renewed) (ledger.RewrapBlob, error) {
	b := ledger.RewrapBlob{Ref: row.Ref, Old: row.Blob.WrappedKey, New: row.Blob.WrappedKey}
	key, err := seal.UnwrapKey(r.Old, row.Ref, row.Blob.WrappedKey)
	if errors.Is(err, blobd.ErrCorrupt) {
		p.Log.Error("a blob's wrapped key is damaged", "ref", row.Ref.String(), "error", err)
		return b, nil
	}
	if err != nil {
		return b, err
	}
	defer key.Wipe()
	b.New, err = seal.WrapKey(p.Random, r.New, row.Ref, key)
	return b, err
}
