package kek

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/keys"
)

// Ring is a keys.Keyring over a Set in memory.
type Ring struct {
	random io.Reader
	now    func() time.Time
	save   func(Set) error

	changing sync.Mutex // held through a change, so that changes are saved in order

	mu     sync.RWMutex // guards the fields below, and keys in use from a wipe
	set    Set
	closed bool
}

// NewRing serves set, which it owns from now on. save makes a set durable; when
// it fails, nobody sees the set, so that nothing is wrapped by a key that a
// crash may take back.
func NewRing(set Set, random io.Reader, now func() time.Time, save func(Set) error) *Ring {
	return &Ring{set: set, random: random, now: now, save: save}
}

// Close wipes all keys; from then on every method is ErrUnavailable.
func (r *Ring) Close() {
	r.changing.Lock()
	defer r.changing.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.set.wipeExcept(Set{})
	r.set, r.closed = Set{}, true
}

// Wrap is keys.Wrapper's.
func (r *Ring) Wrap(ctx context.Context, tenant string, plaintexts [][]byte) ([]keys.Wrapped, error) {
	const op = "wrap"
	for i, p := range plaintexts {
		if len(p) < 1 || len(p) > MaxPlaintext {
			return nil, fmt.Errorf("%s: plaintext %d: want 1 to %d bytes: %w", op, i, MaxPlaintext, blobd.ErrInvalid)
		}
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	t, err := r.living(ctx, tenant)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	newest := t.newest()
	wrapped := make([]keys.Wrapped, len(plaintexts))
	for i, p := range plaintexts {
		ciphertext, err := seal(tenant, newest, p)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", op, err)
		}
		wrapped[i] = keys.Wrapped{Version: newest.Version, Ciphertext: ciphertext}
	}
	return wrapped, nil
}

// Unwrap is keys.Wrapper's.
func (r *Ring) Unwrap(ctx context.Context, tenant string, items []keys.Wrapped) ([]keys.Unwrapped, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if err := r.ready(ctx, tenant); err != nil {
		return nil, fmt.Errorf("unwrap: %w", err)
	}
	t, ok := r.set.tenants[tenant]
	if !ok {
		return nil, fmt.Errorf("unwrap: tenant has no KEK: %w", blobd.ErrNotFound)
	}
	answers := make([]keys.Unwrapped, len(items))
	for i, item := range items {
		plaintext, err := t.unwrap(item)
		if err != nil {
			err = fmt.Errorf("unwrap: %w", err)
		}
		answers[i] = keys.Unwrapped{Plaintext: plaintext, Err: err}
	}
	return answers, nil
}

func (t Tenant) unwrap(item keys.Wrapped) ([]byte, error) {
	if !t.Destroyed.IsZero() {
		return nil, fmt.Errorf("tenant's KEK was destroyed: %w", blobd.ErrErased)
	}
	oldest, newest := t.oldest().Version, t.newest().Version
	switch {
	case item.Version == 0 || item.Version > newest:
		return nil, fmt.Errorf("KEK version %d was never made: %w", item.Version, blobd.ErrCorrupt)
	case item.Version < oldest:
		return nil, fmt.Errorf("KEK version %d was trimmed: %w", item.Version, blobd.ErrErased)
	}
	return open(t.Name, t.Versions[item.Version-oldest], item.Ciphertext)
}

// Check is keys.Wrapper's.
func (r *Ring) Check(ctx context.Context) error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if err := r.answers(ctx); err != nil {
		return fmt.Errorf("check: %w", err)
	}
	return nil
}

// living, ready and answers want r.mu held.
func (r *Ring) living(ctx context.Context, tenant string) (Tenant, error) {
	if err := r.ready(ctx, tenant); err != nil {
		return Tenant{}, err
	}
	return r.set.living(tenant)
}

func (r *Ring) ready(ctx context.Context, tenant string) error {
	if err := CheckTenant(tenant); err != nil {
		return err
	}
	return r.answers(ctx)
}

func (r *Ring) answers(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", blobd.ErrUnavailable, err)
	}
	if r.closed {
		return fmt.Errorf("keyring is closed: %w", blobd.ErrUnavailable)
	}
	return nil
}
