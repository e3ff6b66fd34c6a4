// Package mem is an object store in memory, for unit tests and trials.
//
// It promises the whole contract of package backends except that anything
// outlives the process.
package mem

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
)

// Store is a store in memory.
type Store struct {
	now func() time.Time

	mu      sync.RWMutex
	objects map[string]object // guarded by mu
}

type object struct {
	data     []byte
	modified time.Time
}

var _ backends.Store = (*Store)(nil)

// New returns an empty store.
func New(now func() time.Time) *Store {
	return &Store{now: now, objects: make(map[string]object)}
}

// Put implements backends.Store.
func (s *Store) Put(ctx context.Context, name string, data []byte) error {
	if err := check(ctx, name); err != nil {
		return fmt.Errorf("mem: put: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if o, ok := s.objects[name]; ok {
		if bytes.Equal(o.data, data) {
			return nil
		}
		return fmt.Errorf("mem: put %s: other bytes are there: %w", name, blobd.ErrCorrupt)
	}
	s.objects[name] = object{slices.Clone(data), s.now().UTC()}
	return nil
}

// Get implements backends.Store.
func (s *Store) Get(ctx context.Context, name string) ([]byte, error) {
	if err := check(ctx, name); err != nil {
		return nil, fmt.Errorf("mem: get: %w", err)
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	o, ok := s.objects[name]
	if !ok {
		return nil, fmt.Errorf("mem: get %s: %w", name, blobd.ErrNotFound)
	}
	return append([]byte{}, o.data...), nil
}

// List implements backends.Store.
func (s *Store) List(ctx context.Context, prefix, after string, limit int) ([]backends.Object, error) {
	if err := ended(ctx); err != nil {
		return nil, fmt.Errorf("mem: list: %w", err)
	}
	if limit < 1 || limit > 1000 {
		return nil, fmt.Errorf("mem: list: limit %d: %w", limit, blobd.ErrInvalid)
	}
	return s.list(limit, func(name string) bool { return strings.HasPrefix(name, prefix) && name > after }), nil
}

// Erase implements backends.Store.
func (s *Store) Erase(ctx context.Context, scope backends.Scope) (backends.Erased, error) {
	if err := checkScope(ctx, scope); err != nil {
		return backends.Erased{}, fmt.Errorf("mem: erase: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var erased backends.Erased
	in := within(scope)
	for name, o := range s.objects {
		if !in(name) {
			continue
		}
		clear(o.data)
		delete(s.objects, name)
		erased.Objects++
		erased.Versions++
	}
	return erased, nil
}

// Residue implements backends.Store.
func (s *Store) Residue(ctx context.Context, scope backends.Scope, limit int) ([]backends.Object, error) {
	if err := checkScope(ctx, scope); err != nil {
		return nil, fmt.Errorf("mem: residue: %w", err)
	}
	if limit < 1 {
		return nil, fmt.Errorf("mem: residue: limit %d: %w", limit, blobd.ErrInvalid)
	}
	return s.list(limit, within(scope)), nil
}

// Check implements backends.Store.
func (s *Store) Check(ctx context.Context) error { return ended(ctx) }

func (s *Store) list(limit int, in func(string) bool) []backends.Object {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var found []backends.Object
	for name, o := range s.objects {
		if in(name) {
			found = append(found, backends.Object{Name: name, Size: int64(len(o.data)), Modified: o.modified})
		}
	}
	slices.SortFunc(found, func(a, b backends.Object) int { return strings.Compare(a.Name, b.Name) })
	return found[:min(limit, len(found))]
}

func within(scope backends.Scope) func(string) bool {
	if scope.Prefix != "" {
		return func(name string) bool { return strings.HasPrefix(name, scope.Prefix) }
	}
	names := make(map[string]bool, len(scope.Names))
	for _, n := range scope.Names {
		names[n] = true
	}
	return func(name string) bool { return names[name] }
}

func check(ctx context.Context, name string) error {
	if err := ended(ctx); err != nil {
		return err
	}
	return backends.CheckName(name)
}

func checkScope(ctx context.Context, scope backends.Scope) error {
	if err := ended(ctx); err != nil {
		return err
	}
	return backends.CheckScope(scope)
}

// ended reports a context that is over: nobody gave an answer.
func ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", blobd.ErrUnavailable, err)
	}
	return nil
}
