package minio

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
)

const (
	// parallel bounds the requests in flight of one call.
	parallel = 16
	// maxStalls bounds how often what was deleted may be listed again before the
	// store is not believed: puts that race an erasure end with the put margin.
	maxStalls = 20
)

// Erase implements backends.Store. It never asks to bypass a retention.
func (s *Store) Erase(ctx context.Context, scope backends.Scope) (backends.Erased, error) {
	if err := backends.CheckScope(scope); err != nil {
		return backends.Erased{}, fmt.Errorf("minio: erase: %w", err)
	}
	e := newEraser(s)
	err := e.erase(ctx, s.parts(scope))
	return e.result(), err
}

// eraser is one erasure.
type eraser struct {
	s *Store

	mu      sync.Mutex
	count   backends.Erased             // guarded by mu
	keys    map[string]bool             // guarded by mu; counted in this round
	before  map[string]bool             // guarded by mu; counted in the round before
	deleted map[string]bool             // guarded by mu; ids of this round
	refused map[string]backends.Refusal // guarded by mu; by id
}

func newEraser(s *Store) *eraser {
	return &eraser{
		s: s, keys: make(map[string]bool), before: make(map[string]bool), deleted: make(map[string]bool),
		refused: make(map[string]backends.Refusal),
	}
}

// id tells entries apart.
func (e entry) id() string { return e.key + "\x00" + e.Version }

func (e *eraser) result() backends.Erased {
	for _, r := range e.refused {
		e.count.Refused = append(e.count.Refused, r)
	}
	slices.SortFunc(e.count.Refused, func(a, b backends.Refusal) int {
		return compare(a.Name, b.Name, a.Version, b.Version)
	})
	return e.count
}

func (e *eraser) erase(ctx context.Context, parts []part) error {
	if err := e.s.ready(ctx, parts); err != nil {
		return err
	}
	if parts[0].exact {
		return e.names(ctx, parts)
	}
	return e.prefix(ctx, parts[0])
}

// prefix lists from the start after every batch, until nothing is left that
// was not refused.
func (e *eraser) prefix(ctx context.Context, p part) error {
	for stalls := 0; stalls < maxStalls; {
		batch, err := e.list(ctx, p)
		if err != nil || len(batch) == 0 {
			return err
		}
		if batch, err = e.withUploads(ctx, batch); err != nil {
			return err
		}
		if e.stalled(batch) {
			stalls++
		}
		e.begin()
		if err := e.deleteBatch(ctx, batch); err != nil {
			return err
		}
	}
	return fmt.Errorf("minio: erase: what was deleted is listed again: %w", blobd.ErrUnavailable)
}

// names lists each name once, and again those that have more than a page.
func (e *eraser) names(ctx context.Context, parts []part) error {
	for chunk := range slices.Chunk(parts, pageSize) {
		for stalls := 0; len(chunk) > 0; {
			batch, more, err := e.listAll(ctx, chunk)
			if err != nil {
				return err
			}
			if e.stalled(batch) {
				stalls++
			}
			if stalls == maxStalls {
				return fmt.Errorf("minio: erase: what was deleted is listed again: %w", blobd.ErrUnavailable)
			}
			e.begin()
			for some := range slices.Chunk(batch, pageSize) {
				if err := e.deleteBatch(ctx, some); err != nil {
					return err
				}
			}
			chunk = more
		}
	}
	return nil
}

// stalled reports whether something was deleted in the last round and is here
// again.
func (e *eraser) stalled(batch []entry) bool {
	return slices.ContainsFunc(batch, func(x entry) bool { return e.deleted[x.id()] })
}

// begin begins a round.
func (e *eraser) begin() {
	clear(e.deleted)
	clear(e.before)
	e.before, e.keys = e.keys, e.before
}

// list returns at most a page of what is in a part and was not refused.
func (e *eraser) list(ctx context.Context, p part) ([]entry, error) {
	return try(ctx, e.s, "erase: list", func(ctx context.Context) ([]entry, error) {
		var batch []entry
		known := make(map[string]bool)
		err := e.s.walk(ctx, p, func(x entry) error {
			if id := x.id(); !known[id] && !e.wasRefused(id) {
				known[id] = true
				batch = append(batch, x)
			}
			if len(batch) == pageSize {
				return errEnough
			}
			return nil
		})
		return batch, unless(err, errEnough)
	})
}

// withUploads adds the unfinished uploads of the keys in a batch, where the
// server lists them by key only.
func (e *eraser) withUploads(ctx context.Context, batch []entry) ([]entry, error) {
	if e.s.byFolder.Load() == uploadsByFolder {
		return batch, nil
	}
	known := make(map[string]bool, len(batch))
	keys := make(map[string]bool, len(batch))
	for _, x := range batch {
		known[x.id()] = true
		keys[x.key] = true
	}
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for key := range keys {
		group.Go(func() error {
			found, err := e.uploadsOf(ctx, key)
			mu.Lock()
			defer mu.Unlock()
			for _, x := range found {
				if !known[x.id()] {
					batch = append(batch, x)
				}
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return batch, nil
}

func (e *eraser) uploadsOf(ctx context.Context, key string) ([]entry, error) {
	return try(ctx, e.s, "erase: list", func(ctx context.Context) (found []entry, err error) {
		err = e.s.uploads(ctx, key, part{key, true}.in, func(x entry) error {
			found = append(found, x)
			return nil
		})
		return found, err
	})
}

// listAll lists parts at the same time, and says which have more.
func (e *eraser) listAll(ctx context.Context, parts []part) ([]entry, []part, error) {
	var mu sync.Mutex
	var batch []entry
	var more []part // have more than a page
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, p := range parts {
		group.Go(func() error {
			found, err := e.list(ctx, p)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			batch = append(batch, found...)
			if len(found) == pageSize {
				more = append(more, p)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, nil, err
	}
	return batch, more, nil
}

func (e *eraser) wasRefused(id string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, ok := e.refused[id]
	return ok
}

// took counts an entry that the store says it deleted.
func (e *eraser) took(x entry) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.deleted[x.id()] = true
	e.count.Versions++
	if !e.keys[x.key] && !e.before[x.key] { // a listing has the versions of a key together
		e.count.Objects++
	}
	e.keys[x.key] = true
}

func (e *eraser) refuse(x entry, r backends.Refusal) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.refused[x.id()] = r
}
