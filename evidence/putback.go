package evidence

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// claimPause is how long Restore waits before it asks again for the lease.
const claimPause = 200 * time.Millisecond

// claim takes the sequencer's lease, or waits until its owner gives it up.
func (r *restorer) claim(ctx context.Context) error {
	r.lease = NewSequencer(r.log, r.options.Owner, r.options.Now, slog.New(slog.DiscardHandler))
	for range 2 * SequencerLeaseTime / claimPause {
		held, err := r.lease.claim(ctx)
		if err != nil || held {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", blobd.ErrUnavailable, ctx.Err())
		case <-time.After(claimPause):
		}
	}
	return fmt.Errorf("another process keeps the sequencer's lease: %w", blobd.ErrUnavailable)
}

// run puts back what is missing, under the sequencer's lease.
func (r *restorer) run(ctx context.Context) (out Restored, err error) {
	if err := r.claim(ctx); err != nil {
		return out, err
	}
	defer func() { r.lease.release(context.WithoutCancel(ctx)) }()
	if out, err = r.compare(ctx); err != nil || out.PutBack == 0 {
		return out, err
	}
	if err := r.findWaiting(ctx); err != nil {
		return out, err
	}
	state, err := r.log.ledger.LogState(ctx, 0)
	if err != nil {
		return out, err
	}
	sign, err := openSigner(ctx, r.log.keys, r.log.origin, *state.Key)
	if err != nil {
		return out, err
	}
	defer sign.wipe()
	// Where the places forgot it too, they know from now on how far the log was: if this
	// ends half-way, no sequencer goes on from there.
	if err := r.log.journal.publishCheckpoint(ctx, r.export); err != nil {
		return out, err
	}
	missing := out.PutBack
	out.PutBack = 0
	for size := out.Had; size < r.export.Size; size = out.Had + out.PutBack {
		if err := r.putBack(ctx, sign, size, &out); err != nil {
			return out, err
		}
		if r.options.Progress != nil {
			r.options.Progress(out.PutBack, missing)
		}
	}
	_, err = r.log.settle(ctx)
	return out, err
}

// findWaiting reads what waits in the ledger and may be in the log already: what was
// made after the last of its entries is not.
func (r *restorer) findWaiting(ctx context.Context) error {
	r.waiting = make(map[tlog.Hash][]kept)
	for after := int64(0); ; {
		es, err := r.log.ledger.Unsequenced(ctx, after, sequenceBatch)
		if err != nil {
			return err
		}
		for _, e := range es {
			after = e.ID
			if !e.At.After(r.newest) {
				h := leafHash(e.Entry)
				r.waiting[h] = append(r.waiting[h], kept{e.ID, objectOf(e.Entry)})
			}
		}
		if len(es) < sequenceBatch {
			return nil
		}
	}
}

// putBack commits the missing entries of one bundle.
func (r *restorer) putBack(ctx context.Context, sign *signer, size int64, out *Restored) error {
	if held, err := r.lease.claim(ctx); err != nil {
		return err
	} else if !held {
		return fmt.Errorf("another process took the sequencer's lease: %w", blobd.ErrConflict)
	}
	leaves, err := r.leaves(size)
	if err != nil {
		return err
	}
	a, waited, hashOnly, err := r.grow(ctx, size, leaves)
	if err != nil {
		return err
	}
	end := size + int64(len(leaves))
	root, err := r.rootAt(end)
	if err != nil {
		return err
	}
	if a.Checkpoint = r.export.Note; end < r.export.Size {
		if a.Checkpoint, err = sign.checkpoint(end, root); err != nil {
			return err
		}
	}
	if err := r.log.ledger.AppendToLog(ctx, r.lease.lease, a); err != nil {
		return err
	}
	out.PutBack += int64(len(leaves))
	out.Waited += waited
	out.HashOnly += hashOnly
	return nil
}

// leaves returns the export's leaves from an index to the end of its bundle, each of
// them proved.
func (r *restorer) leaves(from int64) ([][]byte, error) {
	t := tlog.Tile{H: tileHeight, L: 0, N: from / tileWidth}
	first := t.N * tileWidth
	t.W = int(min(tileWidth, r.export.Size-first))
	hashes, err := tlog.ReadTileData(t, r.of(r.export))
	if err != nil {
		return nil, err
	}
	_, leaves, err := r.bundle(t, hashes)
	if err != nil {
		return nil, err
	}
	return leaves[from-first:], nil
}

// grow makes the step that puts leaves on top of the ledger's tree, which is the
// export's then. An entry that waits is not put there a second time: of equal ones
// each leaf takes one.
func (r *restorer) grow(ctx context.Context, size int64, leaves [][]byte) (a ledger.LogAppend, waited, hashOnly int64, err error) {
	a.Size = size
	t := tree{ctx: ctx, ledger: r.log.ledger, known: make(map[int64]tlog.Hash)}
	for i, leaf := range leaves {
		h := tlog.RecordHash(leaf)
		hashes, err := t.add(size+int64(i), h)
		if err != nil {
			return a, 0, 0, err
		}
		if same := r.waiting[h]; len(same) > 0 {
			a.Entries = append(a.Entries, ledger.NewLogEntry{ID: same[0].id, Object: same[0].object, Hashes: hashes})
			r.waiting[h] = same[1:]
			waited++
			continue
		}
		e, err := entryOf(leaf)
		if err != nil {
			return a, 0, 0, err
		}
		if _, lost := lostBody(e.Body); lost {
			hashOnly++
		}
		a.Entries = append(a.Entries, ledger.NewLogEntry{Insert: &e, Object: objectOf(e), Hashes: hashes})
	}
	end := size + int64(len(leaves))
	root, err := t.root(end)
	if err != nil {
		return a, 0, 0, err
	}
	if err := r.hasTree(Checkpoint{Size: end, Root: root}, "what is put back does not make the tree of %d"); errors.Is(err, ErrOtherHistory) {
		return a, 0, 0, fmt.Errorf("%w: %w", blobd.ErrCorrupt, err)
	} else if err != nil {
		return a, 0, 0, err
	}
	return a, waited, hashOnly, nil
}
