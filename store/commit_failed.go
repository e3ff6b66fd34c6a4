package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
	"github.com/blobd/blobd/ledger"
)

// failed decides what a refused or unanswered commit means.
func (s *Store) failed(ctx context.Context, d *draft, x execution, err error) error {
	var other *ledger.KeyConflict
	switch {
	case errors.As(err, &other):
		return errAgain // the next round wraps under the winner's key
	case errors.Is(err, blobd.ErrConflict):
		// Our ref was collected, a row that we relied on moved, or our wrap is
		// older than the tenant's minimum: nothing of this round holds.
		if err := s.discard(ctx, d); err != nil {
			return err
		}
		return errAgain
	case errors.Is(err, blobd.ErrBlobErased) && d.omitErased:
		return errAgain
	case definite(err):
		return s.undo(ctx, d, err)
	}
	return s.readBack(d, err)
}

// readBack turns an unanswered commit into an acknowledgement if the ledger has
// the rows. Otherwise nobody knows: nothing is deleted, for it may still land.
func (s *Store) readBack(d *draft, cause error) error {
	unsure := fmt.Errorf("commit: %w: %w", blobd.ErrUnavailable, cause)
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var refs []blobd.Ref
	var texts []*text
	for _, t := range d.texts {
		if t.sealed != nil && t.row == nil && !t.erased {
			refs, texts = append(refs, t.sealed.ref), append(texts, t)
		}
	}
	if len(refs) == 0 {
		return unsure
	}
	view, err := s.Ledger.Lookup(ctx, d.tag, refs)
	if err != nil {
		return unsure
	}
	for i, b := range view.Blobs {
		if b == nil || b.State != ledger.BlobLive {
			return unsure
		}
		texts[i].row, texts[i].fresh = b, true
	}
	return nil
}

// undo deletes the draft's own objects after a definite refusal and returns the
// refusal. What it cannot delete is unreadable (its key was never stored) and
// left to the collector.
func (s *Store) undo(ctx context.Context, d *draft, refusal error) error {
	if !definite(refusal) {
		return refusal
	}
	_ = s.discard(ctx, d)
	return refusal
}

// discard forgets and deletes what the draft sealed.
func (s *Store) discard(ctx context.Context, d *draft) error {
	var names []string
	for _, t := range d.texts {
		if t.sealed == nil {
			continue
		}
		names = append(names, s.blobName(d.tenant, d.tag, t.sealed.ref))
		t.sealed.key.Wipe()
		t.sealed = nil
	}
	return s.eraseOwn(ctx, names)
}

// ownTime bounds how long an answer waits for the deletion of own objects: what
// is left then is unreadable, and the collector's.
const ownTime = 2 * time.Second

// eraseOwn deletes objects that no row names or ever will.
func (s *Store) eraseOwn(ctx context.Context, names []string) error {
	if len(names) == 0 {
		return nil
	}
	for _, n := range names {
		s.cache.remove(n)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ownTime)
	defer cancel()
	if _, err := s.Objects.Erase(ctx, backends.Scope{Names: names}); err != nil {
		s.Log.Warn("own objects left to the collector", "objects", len(names), "error", err)
		return fmt.Errorf("delete own objects: %w", err)
	}
	return nil
}

// unused are the objects that the draft stored and no row names: another put of
// the same text won, or the text was erased meanwhile.
func (s *Store) unused(d *draft) []string {
	var names []string
	for _, t := range d.texts {
		if t.sealed != nil && (t.row == nil || t.row.Ref != t.sealed.ref) {
			names = append(names, s.blobName(d.tenant, d.tag, t.sealed.ref))
		}
	}
	return names
}
