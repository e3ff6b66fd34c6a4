package kek

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/keys"
)

// Create is keys.Epochs's.
func (r *Ring) Create(ctx context.Context, tenant string) error {
	return r.change(ctx, "create", tenant, func(old Set) (Set, error) {
		_, err := old.living(tenant)
		if !errors.Is(err, blobd.ErrNotFound) {
			return old, err
		}
		return r.grow(old, Tenant{Name: tenant}, 1)
	})
}

// Rotate is keys.Epochs's.
func (r *Ring) Rotate(ctx context.Context, tenant string) (keys.Version, error) {
	var made keys.Version
	err := r.change(ctx, "rotate", tenant, func(old Set) (Set, error) {
		t, err := old.living(tenant)
		if err != nil {
			return old, err
		}
		made = t.newest().Version + 1
		return r.grow(old, t, made)
	})
	if err != nil {
		return 0, err
	}
	return made, nil
}

// Status is keys.Epochs's.
func (r *Ring) Status(ctx context.Context, tenant string) (keys.Status, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	t, err := r.living(ctx, tenant)
	if err != nil {
		return keys.Status{}, fmt.Errorf("status: %w", err)
	}
	return keys.Status{Newest: t.newest().Version, Oldest: t.oldest().Version}, nil
}

// Trim is keys.Epochs's.
func (r *Ring) Trim(ctx context.Context, tenant string, oldest keys.Version) error {
	return r.change(ctx, "trim", tenant, func(old Set) (Set, error) {
		t, err := old.living(tenant)
		if err != nil {
			return old, err
		}
		if oldest > t.newest().Version {
			return old, fmt.Errorf("version %d is past the newest: %w", oldest, blobd.ErrInvalid)
		}
		if oldest <= t.oldest().Version {
			return old, nil
		}
		t.Versions = slices.Clone(t.Versions[oldest-t.oldest().Version:])
		return old.with(t), nil
	})
}

// Destroy is keys.Epochs's.
func (r *Ring) Destroy(ctx context.Context, tenant string) error {
	return r.change(ctx, "destroy", tenant, func(old Set) (Set, error) {
		if _, err := old.living(tenant); errors.Is(err, blobd.ErrErased) {
			return old, nil
		}
		return old.with(Tenant{Name: tenant, Destroyed: r.now()}), nil
	})
}

// Tenants is keys.Epochs's.
func (r *Ring) Tenants(ctx context.Context) ([]string, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if err := r.answers(ctx); err != nil {
		return nil, fmt.Errorf("tenants: %w", err)
	}
	var names []string
	for _, t := range r.set.Tenants() {
		if t.Destroyed.IsZero() {
			names = append(names, t.Name)
		}
	}
	return names, nil
}

// grow adds a version with a new key.
func (r *Ring) grow(old Set, t Tenant, v keys.Version) (Set, error) {
	key, err := blobd.NewKey(r.random)
	if err != nil {
		return old, err
	}
	t.Versions = append(slices.Clone(t.Versions), Version{Version: v, Created: r.now(), Key: key})
	return old.with(t), nil
}

// change makes next out of the set, saves it, shows it, and wipes what it
// dropped: in this order. A set that was not saved is wiped itself. Where next
// returns what it was given, nothing is saved.
func (r *Ring) change(ctx context.Context, op, tenant string, next func(Set) (Set, error)) error {
	r.changing.Lock()
	defer r.changing.Unlock()
	r.mu.RLock()
	old, err := r.set, r.ready(ctx, tenant)
	r.mu.RUnlock()
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	changed, err := next(old)
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	if changed.same(old, tenant) {
		return nil
	}
	if err := r.save(changed); err != nil {
		changed.wipeExcept(old)
		return fmt.Errorf("%s: %w", op, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.set = changed
	old.wipeExcept(changed)
	return nil
}

// same reports whether a tenant is alike in both sets.
func (s Set) same(other Set, tenant string) bool {
	a, hasA := s.tenants[tenant]
	b, hasB := other.tenants[tenant]
	return hasA == hasB && a.Destroyed.Equal(b.Destroyed) &&
		slices.EqualFunc(a.Versions, b.Versions, func(x, y Version) bool { return x.Key == y.Key })
}
