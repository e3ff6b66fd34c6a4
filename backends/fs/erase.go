package fs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
)

// erasePage is how many names one step of an erasure takes.
const erasePage = 8 << 10

// Erase implements backends.Store. For each page of records, sorted by segment:
// mark them dead, fdatasync; overwrite names and data with zeros, fdatasync;
// read the zeros back; give their space back; forget them in the index; remove
// segments without a live record. A crash in between leaves either a live
// record or a dead one that no read returns, and a repetition finds both. Memory
// does not grow with the scope.
func (s *Store) Erase(ctx context.Context, scope backends.Scope) (backends.Erased, error) {
	if err := s.enter(ctx); err != nil {
		return backends.Erased{}, classify("erase", err)
	}
	defer s.life.RUnlock()
	var erased backends.Erased
	if err := s.awaitWrites(ctx); err != nil {
		return erased, classify("erase", err)
	}
	err := s.eachPage(ctx, scope, func(page []named) error { return s.erasePage(ctx, page, &erased) })
	return erased, classify("erase", err)
}

// Residue implements backends.Store: every record that the index still knows is
// read, and only one that is dead and reads as zeros throughout counts as gone.
func (s *Store) Residue(ctx context.Context, scope backends.Scope, limit int) ([]backends.Object, error) {
	if err := s.enter(ctx); err != nil {
		return nil, classify("residue", err)
	}
	defer s.life.RUnlock()
	if limit < 1 {
		return nil, classify("residue", fmt.Errorf("limit %d: %w", limit, blobd.ErrInvalid))
	}
	if err := s.awaitWrites(ctx); err != nil {
		return nil, classify("residue", err)
	}
	left, err := s.residue(ctx, scope, limit)
	if err == nil && len(left) == 0 {
		err = s.index.damaged() // what cannot be read is not proved absent
	}
	if err != nil {
		return nil, classify("residue", err)
	}
	return left, nil
}

// errEnough ends a walk through a scope early.
var errEnough = errors.New("enough")

func (s *Store) residue(ctx context.Context, scope backends.Scope, limit int) ([]backends.Object, error) {
	var left []backends.Object
	err := s.eachPage(ctx, scope, func(page []named) error {
		for _, n := range page {
			if err := ctx.Err(); err != nil {
				return err
			}
			gone, err := s.isGone(n)
			if err != nil {
				return err
			}
			if gone {
				continue
			}
			f, err := s.readHeader(n)
			if err != nil {
				return err
			}
			if left = append(left, object(n, f)); len(left) == limit {
				return errEnough
			}
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return left, err
}

// isGone reports whether a record was erased and overwritten.
func (s *Store) isGone(n named) (gone bool, err error) {
	err = s.handles.use(n.segment, func(f file) error {
		gone, err = readsAsErased(f, n, make([]byte, 64<<10))
		return err
	})
	if errors.Is(err, os.ErrNotExist) {
		f := found{}
		err = s.lost(n, &f, err)
		gone = f.fate == dead
	}
	return gone, err
}

// eachPage calls use with the records in scope, page by page.
func (s *Store) eachPage(ctx context.Context, scope backends.Scope, use func([]named) error) error {
	if err := backends.CheckScope(scope); err != nil {
		return err
	}
	if scope.Prefix == "" {
		return s.eachNamed(ctx, scope.Names, use)
	}
	for after := ""; ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		page, err := s.index.page(scope.Prefix, after, erasePage)
		if err != nil || len(page) == 0 {
			return err
		}
		if err := use(page); err != nil {
			return err
		}
		after = page[len(page)-1].name
	}
}

func (s *Store) eachNamed(ctx context.Context, names []string, use func([]named) error) error {
	for chunk := range slices.Chunk(slices.Compact(slices.Sorted(slices.Values(names))), erasePage) {
		var page []named
		for _, name := range chunk {
			if err := ctx.Err(); err != nil {
				return err
			}
			records, err := s.index.all(name)
			if err != nil {
				return err
			}
			page = append(page, records...)
		}
		if len(page) == 0 {
			continue
		}
		if err := use(page); err != nil {
			return err
		}
	}
	return nil
}

// erasePage erases records, one caller at a time.
func (s *Store) erasePage(ctx context.Context, page []named, total *backends.Erased) error {
	select {
	case s.erasing <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.erasing }()
	bySegment := make(map[segmentID][]named)
	for _, n := range page {
		bySegment[n.segment] = append(bySegment[n.segment], n)
	}
	names := make(map[string]bool)
	defer func() { total.Objects += len(names) }()
	for _, id := range slices.Sorted(maps.Keys(bySegment)) {
		if err := ctx.Err(); err != nil {
			return err
		}
		died, err := s.eraseIn(id, bySegment[id])
		if err != nil {
			return err
		}
		total.Versions += len(died)
		for _, n := range died {
			names[n.name] = true
		}
	}
	return nil
}

// eraseIn erases records of one segment and returns those that were there.
func (s *Store) eraseIn(id segmentID, records []named) ([]named, error) {
	f, err := s.openSegment(id, os.O_RDWR)
	if errors.Is(err, os.ErrNotExist) {
		return nil, s.removedBefore(records)
	}
	if err != nil {
		return nil, err
	}
	slices.SortFunc(records, func(a, b named) int { return cmp.Compare(a.offset, b.offset) })
	e := eraser{file: f, segment: id, zeros: s.zeros, buffer: make([]byte, 256<<10)}
	died, err := e.erase(records, s.index.erased(id))
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return nil, err
	}
	if err := s.index.remove(records, map[segmentID]int64{id: int64(len(died))}); err != nil {
		return nil, err
	}
	if s.index.seemsEmpty(id) {
		err = s.dropIfEmpty(id)
	}
	return died, err
}

// removedBefore is nil if another erasure removed the segment of records after
// they were looked up. A file that is lost otherwise may come back, so nothing
// is proved by it.
func (s *Store) removedBefore(records []named) error {
	for _, n := range records {
		f := found{}
		if err := s.lost(n, &f, os.ErrNotExist); err != nil {
			return err
		}
		if f.fate != dead {
			return fmt.Errorf("%s is lost: %w", n.segment.path(), blobd.ErrCorrupt)
		}
	}
	return nil
}

// dropIfEmpty removes a segment that holds no live record and is not written. It
// reads all headers first: the count is a hint, the file is the proof.
func (s *Store) dropIfEmpty(id segmentID) error {
	if id == s.currentSegment() {
		return nil
	}
	err := s.handles.use(id, func(f file) error {
		return walk(f, id, segmentStart, func(i item) error {
			if i.header.live || i.isGap && !i.zero {
				return errEnough
			}
			return nil
		})
	})
	if errors.Is(err, errEnough) || errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	// The table first: a segment that it knows and that is gone is a loss.
	if err := s.index.dropSegment(id); err != nil {
		return err
	}
	s.handles.forget(id)
	if err := s.root.Remove(id.path()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return syncFolder(s.root, segmentFolder)
}
