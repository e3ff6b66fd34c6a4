// Package store is the concrete core that orders keys, ledger and objects: put,
// open, erase, verify and recover.
//
// It promises the write orders of docs/lifecycle.md: an acknowledged put is
// durable in key, object and row; an erasure is acknowledged once it is fenced
// and journalled, and called erased once every object was read back as absent.
// Every absence that it reports was said by the ledger. It never returns bytes
// that did not authenticate, and never decides who may read: that is package
// resolver.
//
// To follow a put read put.go, then commit.go; a read, open.go; an erasure,
// erase.go.
package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
	"github.com/blobd/blobd/evidence"
	"github.com/blobd/blobd/keys"
	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/retention/clock"
)

// DependencyTimeout bounds the wait for any dependency within one call.
const DependencyTimeout = 10 * time.Second

// DefaultPutMargin is how long after a fence a late object write may still
// land.
const DefaultPutMargin = 30 * time.Second

// Config is what a Store is made of. All fields but CacheBytes, Residuals,
// ClockWatch and Calendars are required.
type Config struct {
	Ledger    ledger.Ledger
	Objects   backends.Store
	Keys      *keys.Core
	Journal   *evidence.Journal
	Now       func() time.Time
	Random    io.Reader // a cryptographic source
	PutMargin time.Duration
	// CacheBytes bounds the sealed bytes kept in memory; 0 keeps none. They are
	// immutable, and useless without a key.
	CacheBytes int64
	// Residuals names what the object store is known to keep from an erasure;
	// every erasure and its certificate name it too.
	Residuals []string
	// ClockWatch judges the ledger's clock; nil: it is never suspect.
	ClockWatch *ledger.Watch
	// Calendars has the holidays that move due dates, by regime; nil: none.
	Calendars clock.Calendars
	Log       *slog.Logger
}

// Store is the core. It is safe for concurrent use.
type Store struct {
	Config
	cache *sealedCache

	mu      sync.RWMutex
	tenants map[string]ledger.Tenant // guarded by mu; of what is used of a row only the index key's wrap changes (see indexKey)
	tags    map[string]string        // guarded by mu; the tenants' tags by their name keys

	ready     atomic.Pointer[notReady] // nil once Start succeeded
	identity  atomic.Pointer[string]   // the deployment's id, once it was checked
	oursAt    atomic.Int64             // when the store was last asked and was ours, nanoseconds; 0: ask
	asking    chan struct{}            // holds one: whoever asks
	compared  atomic.Pointer[string]   // the ledger's timeline when the journal was compared
	restoring nameLocks                // by object name
	suspect   atomic.Bool              // what the last look at the ledger's clock found
	stats     counters
}

// notReady says why the store does not serve.
type notReady struct{ err error }

var errStarting = fmt.Errorf("starting: %w", blobd.ErrUnavailable)

// New builds a store. It does nothing until Start.
func New(c Config) *Store {
	s := &Store{Config: c, cache: newSealedCache(c.CacheBytes), tenants: make(map[string]ledger.Tenant), tags: make(map[string]string), asking: make(chan struct{}, 1)}
	s.ready.Store(&notReady{errStarting})
	return s
}

// Tenant returns a tenant's row, or ErrNotFound.
func (s *Store) Tenant(ctx context.Context, id string) (ledger.Tenant, error) {
	s.mu.RLock()
	t, ok := s.tenants[id]
	s.mu.RUnlock()
	if ok {
		return t, nil
	}
	t, err := s.Ledger.Tenant(ctx, id)
	if err != nil {
		return ledger.Tenant{}, fmt.Errorf("tenant: %w", err)
	}
	s.mu.Lock()
	s.tenants[id] = t
	s.mu.Unlock()
	return t, nil
}

// Tag returns the tag of an execution of a tenant.
func (s *Store) Tag(ctx context.Context, tenant, executionID string) (blobd.ExecutionTag, error) {
	t, err := s.Tenant(ctx, tenant)
	if err != nil {
		return blobd.ExecutionTag{}, err
	}
	return executionTag(t, executionID), nil
}

// scribe makes a tenant's evidence entries.
func (s *Store) scribe(t ledger.Tenant) evidence.Scribe {
	return evidence.Scribe{Tenant: t.ID, NameKey: t.NameKey, Random: s.Random}
}

// Dependency is one line of readiness.
type Dependency struct {
	Name string
	Err  error
}

// Ready asks every dependency. The store serves while all errors are nil.
func (s *Store) Ready(ctx context.Context) []Dependency {
	ctx, cancel := context.WithTimeout(ctx, DependencyTimeout)
	defer cancel()
	return []Dependency{
		{"recovery", s.serving()},
		{"ledger", s.Ledger.Check(ctx)},
		{"objects", s.objectsReady(ctx)},
		{"keys", s.Keys.Ring().Check(ctx)},
		{"journal", s.Journal.Check(ctx)},
	}
}

// objectsReady asks whether the store answers and, once a start has seen that it
// is ours, whether it still is.
func (s *Store) objectsReady(ctx context.Context) error {
	if err := s.Objects.Check(ctx); err != nil {
		return err
	}
	return s.ours(ctx)
}

// serving refuses every call until Start succeeded.
func (s *Store) serving() error {
	if n := s.ready.Load(); n != nil {
		return n.err
	}
	return nil
}

// Serving reports why reads and writes are refused: nil once Start succeeded.
// It is an atomic load, fit for every request.
func (s *Store) Serving() error { return s.serving() }

// definite reports whether an error of a change proves that nothing changed.
func definite(err error) bool {
	for _, e := range []error{
		blobd.ErrErased, blobd.ErrClosed, blobd.ErrConflict, blobd.ErrInvalid, blobd.ErrNotFound,
		blobd.ErrHeld, blobd.ErrPolicy, blobd.ErrDenied,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
