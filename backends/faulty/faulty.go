// Package faulty breaks an object store on purpose, for tests of what stands on
// it: a call fails before it acted or after it acted, or is watched and held.
package faulty

import (
	"context"
	"sync"

	"github.com/blobd/blobd/backends"
)

// When says whether a failing call acted.
type When int

// The two kinds of failure that every seam must survive.
const (
	Before When = iota // failed, and did nothing
	After              // did it, and failed
)

// Store is a store that fails when told to. Operations are named "put", "get",
// "list", "erase", "residue" and "check".
type Store struct {
	inner backends.Store

	mu     sync.Mutex
	calls  map[string]int   // guarded by mu
	faults map[string]fault // guarded by mu
	watch  func(op, name string)
}

type fault struct {
	nth  int
	when When
	err  error
}

// New wraps a store; until told otherwise nothing fails.
func New(inner backends.Store) *Store {
	return &Store{inner: inner, calls: make(map[string]int), faults: make(map[string]fault)}
}

// Fail makes the nth call of op from now on (1 is the next; 0 is every call)
// fail with err.
func (s *Store) Fail(op string, nth int, when When, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[op] = 0
	s.faults[op] = fault{nth, when, err}
}

// Heal forgets all faults.
func (s *Store) Heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.faults)
}

// OnCall sets a function that is called before each operation acts, with the
// object's name, the scope's prefix or its first name. It may block: that is how
// a call is held until a test releases it.
func (s *Store) OnCall(f func(op, name string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watch = f
}

func (s *Store) call(op, name string, act func() error) error {
	s.mu.Lock()
	s.calls[op]++
	f, armed := s.faults[op]
	hit := armed && (f.nth == 0 || f.nth == s.calls[op])
	watch := s.watch
	s.mu.Unlock()
	if watch != nil {
		watch(op, name)
	}
	if hit && f.when == Before {
		return f.err
	}
	err := act()
	if hit {
		return f.err
	}
	return err
}

// Put implements backends.Store.
func (s *Store) Put(ctx context.Context, name string, data []byte) error {
	return s.call("put", name, func() error { return s.inner.Put(ctx, name, data) })
}

// Get implements backends.Store.
func (s *Store) Get(ctx context.Context, name string) (data []byte, err error) {
	err = s.call("get", name, func() (err error) { data, err = s.inner.Get(ctx, name); return err })
	if err != nil {
		return nil, err
	}
	return data, nil
}

// List implements backends.Store.
func (s *Store) List(ctx context.Context, prefix, after string, limit int) (found []backends.Object, err error) {
	err = s.call("list", prefix, func() (err error) { found, err = s.inner.List(ctx, prefix, after, limit); return err })
	if err != nil {
		return nil, err
	}
	return found, nil
}

// Erase implements backends.Store.
func (s *Store) Erase(ctx context.Context, scope backends.Scope) (erased backends.Erased, err error) {
	err = s.call("erase", nameOf(scope), func() (err error) { erased, err = s.inner.Erase(ctx, scope); return err })
	return erased, err
}

// Residue implements backends.Store.
func (s *Store) Residue(ctx context.Context, scope backends.Scope, limit int) (found []backends.Object, err error) {
	err = s.call("residue", nameOf(scope), func() (err error) { found, err = s.inner.Residue(ctx, scope, limit); return err })
	if err != nil {
		return nil, err
	}
	return found, nil
}

// Check implements backends.Store.
func (s *Store) Check(ctx context.Context) error {
	return s.call("check", "", func() error { return s.inner.Check(ctx) })
}

func nameOf(scope backends.Scope) string {
	if scope.Prefix == "" && len(scope.Names) > 0 {
		return scope.Names[0]
	}
	return scope.Prefix
}
