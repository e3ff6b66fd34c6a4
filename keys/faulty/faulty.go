// Package faulty wraps a key service with faults that a test programs.
//
// It promises that a fault strikes exactly the call that it was set for, either
// before the service acted or after it did, and that every other call reaches
// the service unchanged.
package faulty

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/blobd/blobd/keys"
)

// When says whether the service acted before the call failed: a lost answer
// looks to the caller like a request that never arrived.
type When int

// The moments of a fault.
const (
	Before When = iota // the service never heard of the call
	After              // the service did it and the answer was lost
)

var ops = []string{"wrap", "unwrap", "create", "rotate", "status", "trim", "destroy", "check", "tenants"}

// Keyring is a keys.Keyring with faults.
type Keyring struct {
	inner keys.Keyring

	mu     sync.Mutex
	faults []*fault
	onCall func(op string)
}

type fault struct {
	op   string
	left int // calls until it strikes; it strikes at 1
	when When
	err  error
}

// New wraps inner; there are no faults yet.
func New(inner keys.Keyring) *Keyring { return &Keyring{inner: inner} }

// Fail makes the nth call of op from now fail with err, once; the next call is
// the first. The operations are wrap, unwrap, create, rotate, status, trim,
// destroy, check and tenants: another one, an nth below 1 or no error panics,
// since such a fault would never strike.
func (k *Keyring) Fail(op string, nth int, when When, err error) {
	if !slices.Contains(ops, op) || nth < 1 || err == nil {
		panic(fmt.Sprintf("faulty: no fault can strike call %d of %q with error %v", nth, op, err))
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.faults = append(k.faults, &fault{op, nth, when, err})
}

// OnCall sets what is called before every operation, faults included, in the
// goroutine of the caller; it may wait. Nil: nothing.
func (k *Keyring) OnCall(f func(op string)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.onCall = f
}

// begin counts a call and returns the fault that strikes it, or nil. Where two
// strike the same call, the first that was set wins and both are spent.
func (k *Keyring) begin(op string) *fault {
	k.mu.Lock()
	var strikes *fault
	k.faults = slices.DeleteFunc(k.faults, func(f *fault) bool {
		if f.op != op {
			return false
		}
		f.left--
		if f.left > 0 {
			return false
		}
		if strikes == nil {
			strikes = f
		}
		return true
	})
	onCall := k.onCall
	k.mu.Unlock()
	if onCall != nil {
		onCall(op)
	}
	return strikes
}

func call[T any](k *Keyring, op string, act func() (T, error)) (T, error) {
	var none T
	f := k.begin(op)
	if f == nil {
		return act()
	}
	if f.when == After {
		// What the service answers, an error included, is lost.
		_, _ = act()
	}
	return none, fmt.Errorf("%s: %w", op, f.err)
}

func do(k *Keyring, op string, act func() error) error {
	_, err := call(k, op, func() (struct{}, error) { return struct{}{}, act() })
	return err
}

// Wrap is keys.Wrapper's.
func (k *Keyring) Wrap(ctx context.Context, tenant string, plaintexts [][]byte) ([]keys.Wrapped, error) {
	return call(k, "wrap", func() ([]keys.Wrapped, error) { return k.inner.Wrap(ctx, tenant, plaintexts) })
}

// Unwrap is keys.Wrapper's.
func (k *Keyring) Unwrap(ctx context.Context, tenant string, items []keys.Wrapped) ([]keys.Unwrapped, error) {
	return call(k, "unwrap", func() ([]keys.Unwrapped, error) { return k.inner.Unwrap(ctx, tenant, items) })
}

// Check is keys.Wrapper's.
func (k *Keyring) Check(ctx context.Context) error {
	return do(k, "check", func() error { return k.inner.Check(ctx) })
}

// Create is keys.Epochs's.
func (k *Keyring) Create(ctx context.Context, tenant string) error {
	return do(k, "create", func() error { return k.inner.Create(ctx, tenant) })
}

// Rotate is keys.Epochs's.
func (k *Keyring) Rotate(ctx context.Context, tenant string) (keys.Version, error) {
	return call(k, "rotate", func() (keys.Version, error) { return k.inner.Rotate(ctx, tenant) })
}

// Status is keys.Epochs's.
func (k *Keyring) Status(ctx context.Context, tenant string) (keys.Status, error) {
	return call(k, "status", func() (keys.Status, error) { return k.inner.Status(ctx, tenant) })
}

// Trim is keys.Epochs's.
func (k *Keyring) Trim(ctx context.Context, tenant string, oldest keys.Version) error {
	return do(k, "trim", func() error { return k.inner.Trim(ctx, tenant, oldest) })
}

// Destroy is keys.Epochs's.
func (k *Keyring) Destroy(ctx context.Context, tenant string) error {
	return do(k, "destroy", func() error { return k.inner.Destroy(ctx, tenant) })
}

// Tenants is keys.Epochs's.
func (k *Keyring) Tenants(ctx context.Context) ([]string, error) {
	return call(k, "tenants", func() ([]string, error) { return k.inner.Tenants(ctx) })
}
