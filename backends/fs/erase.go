package fs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
)

// erasePage is how many records one step of an erasure takes.
const erasePage = 4096

// Erase implements backends.Store. The write order, for each page of names:
// overwrite names and data with zeros, make that durable, read it back; take
// the word LIVE away, make that durable; forget the names in the index; remove
// segments that hold nothing any more. After a crash anywhere in between the
// names are still found and erased again.
func (s *Store) Erase(ctx context.Context, scope backends.Scope) (backends.Erased, error) {
	var erased backends.Erased
	err := s.eachOf(ctx, scope, func(page []named) error {
		n, err := s.erase(page)
		erased.Objects += n
		erased.Versions += n
		return err
	})
	return erased, classify("erase", err)
}

// Residue implements backends.Store. It reads every record that the index still
// names; one that was erased reads back as such.
func (s *Store) Residue(ctx context.Context, scope backends.Scope, limit int) ([]backends.Object, error) {
	var left []backends.Object
	err := s.eachOf(ctx, scope, func(page []named) error {
		for _, e := range page {
			live, err := s.lives(e.place)
			if errors.Is(kindOf(err), blobd.ErrNotFound) {
				continue // its whole segment is gone
			}
			if err != nil {
				return err
			}
			if live && len(left) < limit {
				left = append(left, object(e))
			}
		}
		return nil
	})
	return left, classify("residue", err)
}

// List implements backends.Store.
func (s *Store) List(ctx context.Context, prefix, after string, limit int) ([]backends.Object, error) {
	if err := ended(ctx); err != nil {
		return nil, classify("list", err)
	}
	if limit < 1 || limit > 1000 {
		return nil, classify("list", fmt.Errorf("limit %d: %w", limit, blobd.ErrInvalid))
	}
	page, err := s.names(prefix, after, limit)
	if err != nil {
		return nil, classify("list", err)
	}
	var found []backends.Object
	for _, e := range page {
		found = append(found, object(e))
	}
	return found, nil
}

func object(e named) backends.Object {
	return backends.Object{Name: e.name, Size: e.dataLen, Modified: timeOf(e.written)}
}

// eachOf calls use with the names in scope that the store knows, page by page.
func (s *Store) eachOf(ctx context.Context, scope backends.Scope, use func([]named) error) error {
	if err := backends.CheckScope(scope); err != nil {
		return err
	}
	if scope.Prefix == "" {
		return s.eachNamed(ctx, scope.Names, use)
	}
	for after := ""; ; {
		if err := ended(ctx); err != nil {
			return err
		}
		page, err := s.names(scope.Prefix, after, erasePage)
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
	for chunk := range slices.Chunk(names, erasePage) {
		if err := ended(ctx); err != nil {
			return err
		}
		var page []named
		for _, name := range chunk {
			p, ok, err := s.find(name)
			if err != nil {
				return err
			}
			if ok {
				page = append(page, named{name, p})
			}
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

// names merges the index and what it lacks, in order.
func (s *Store) names(prefix, after string, limit int) ([]named, error) {
	s.mu.RLock()
	closed := s.closed
	merged := make(map[string]place)
	for name, p := range s.pending {
		if strings.HasPrefix(name, prefix) && name > after {
			merged[name] = p
		}
	}
	s.mu.RUnlock()
	if closed {
		return nil, errClosed
	}
	// Read after pending: what left pending meanwhile is in the index.
	page, err := s.index.page(prefix, after, limit)
	if err != nil {
		return nil, err
	}
	for _, e := range page {
		if _, newer := merged[e.name]; !newer {
			merged[e.name] = e.place
		}
	}
	all := make([]named, 0, len(merged))
	for _, name := range slices.Sorted(maps.Keys(merged)) {
		all = append(all, named{name, merged[name]})
	}
	return all[:min(limit, len(all))], nil
}

// erase erases one page of records and returns how many were live.
func (s *Store) erase(page []named) (int, error) {
	bySegment := make(map[uint64][]named)
	for _, e := range page {
		bySegment[e.segment] = append(bySegment[e.segment], e)
	}
	live := 0
	for _, segment := range slices.Sorted(maps.Keys(bySegment)) {
		records := bySegment[segment]
		slices.SortFunc(records, func(a, b named) int { return cmp.Compare(a.offset, b.offset) })
		n, err := 0, error(nil)
		err = s.files.use(segment, func(f file) error {
			n, err = blank(f, records)
			return err
		})
		if err != nil && !errors.Is(kindOf(err), blobd.ErrNotFound) {
			return live, err
		}
		live += n
	}
	return live, s.forget(page)
}

// blank overwrites records of one segment, in the order that record.go states.
func blank(f file, records []named) (live int, err error) {
	for _, r := range records {
		is, err := isLive(f, r.place)
		if err != nil {
			return 0, err
		}
		if is {
			live++
		}
		if err := overwrite(f, r.offset+blankFrom, r.blankSize()); err != nil {
			return 0, err
		}
	}
	if err := f.Sync(); err != nil {
		return 0, err
	}
	buffer := make([]byte, len(zeros))
	for _, r := range records {
		gone, err := readsAsZeros(f, r.offset+blankFrom, r.blankSize(), buffer)
		if err != nil {
			return 0, err
		}
		if !gone {
			return 0, fmt.Errorf("erased bytes read back otherwise: %w", blobd.ErrConflict)
		}
		if err := overwrite(f, r.offset+liveAt, blankFrom-liveAt); err != nil {
			return 0, err
		}
	}
	if err := f.Sync(); err != nil {
		return 0, err
	}
	for _, r := range records {
		if err := f.GiveBack(r.offset+blankFrom, r.blankSize()); err != nil {
			return 0, err
		}
	}
	return live, nil
}

// blankSize is how many bytes of a record an erasure overwrites.
func (r named) blankSize() int64 {
	return headerSize - blankFrom + int64(len(r.name)) + r.dataLen
}

// forget removes names from the index and from what it lacks, and segments that
// hold nothing any more from the folder.
func (s *Store) forget(page []named) error {
	s.indexing.Lock()
	defer s.indexing.Unlock()
	empty, err := s.index.remove(page)
	if err != nil {
		return err
	}
	s.mu.Lock()
	used := map[uint64]bool{s.current.segment: true}
	for _, e := range page {
		if s.pending[e.name] == e.place {
			delete(s.pending, e.name)
			empty = append(empty, e.segment)
		}
	}
	for _, p := range s.pending {
		used[p.segment] = true
	}
	s.mu.Unlock()
	slices.Sort(empty)
	return s.removeSegments(slices.DeleteFunc(slices.Compact(empty), func(n uint64) bool { return used[n] }))
}

// removeSegments removes segment files, except those that the index still
// counts objects in.
func (s *Store) removeSegments(segments []uint64) error {
	removed := false
	for _, n := range segments {
		inUse, err := s.index.counts(n)
		if err != nil {
			return err
		}
		if inUse {
			continue
		}
		s.files.forget(n)
		if err := s.root.Remove(segmentName(n)); err != nil && !errors.Is(kindOf(err), blobd.ErrNotFound) {
			return err
		}
		removed = true
	}
	if !removed {
		return nil
	}
	return s.syncFolder()
}
