package minio

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
)

// Residue implements backends.Store.
func (s *Store) Residue(ctx context.Context, scope backends.Scope, limit int) ([]backends.Object, error) {
	if err := backends.CheckScope(scope); err != nil {
		return nil, fmt.Errorf("minio: residue: %w", err)
	}
	if limit < 1 {
		return nil, fmt.Errorf("minio: residue: limit %d: %w", limit, blobd.ErrInvalid)
	}
	parts := s.parts(scope)
	if err := s.ready(ctx, parts); err != nil {
		return nil, err
	}
	var mu sync.Mutex
	var left []backends.Object
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, p := range parts {
		group.Go(func() error {
			found, err := s.residue(ctx, p, limit)
			mu.Lock()
			defer mu.Unlock()
			left = append(left, found...)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return left[:min(limit, len(left))], nil
}

// residue returns what is in a part, at most limit entries.
func (s *Store) residue(ctx context.Context, p part, limit int) ([]backends.Object, error) {
	return try(ctx, s, "residue", func(ctx context.Context) ([]backends.Object, error) {
		var left []backends.Object
		known := make(map[string]bool)
		err := s.walk(ctx, p, func(x entry) error {
			if id := x.id(); !known[id] {
				known[id] = true
				left = append(left, x.Object)
			}
			if len(left) == limit {
				return errEnough
			}
			return nil
		})
		return left, unless(err, errEnough)
	})
}

// ready makes sure that listings show all there is.
func (s *Store) ready(ctx context.Context, parts []part) error {
	if err := s.learnUploads(ctx); err != nil {
		return err
	}
	return s.visible(ctx, parts)
}
