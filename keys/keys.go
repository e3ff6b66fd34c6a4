// Package keys is the contract of a key service (the KEK) and the one concrete
// core over it: execution keys and index keys, bound to what they belong to,
// wrapped by a tenant's KEK, cached for a bounded time.
//
// It promises that a key is only ever used for the execution or tenant that it
// was made for: the binding is inside the wrapped plaintext and checked on
// every unwrap. It never stores a key in clear, never makes a key on a read,
// and never reads an unanswered question as a destroyed key. Package keystest
// holds every sentence of the Keyring contract as a named subtest.
package keys

import (
	"context"

	"github.com/blobd/blobd"
)

// Version is a KEK version of one tenant; the first is 1.
type Version uint32

// Wrapped is a secret wrapped by a tenant's KEK.
type Wrapped struct {
	Version    Version
	Ciphertext []byte // opaque to all but the driver; at most 1 KiB
}

// Unwrapped is the answer for one item of a batch.
type Unwrapped struct {
	// Plaintext is owned by the caller, who wipes it. Nil when Err is set.
	Plaintext []byte
	// Err is ErrErased when the KEK version was trimmed or the tenant's KEK
	// destroyed, ErrCorrupt when the ciphertext does not authenticate,
	// ErrKeyMissing when it names a version that the key service does not have (it
	// was restored from before that was made), ErrDenied when an operator forbids
	// the version.
	Err error
}

// Wrapper wraps and unwraps small secrets under a tenant's KEK. All methods are
// safe for concurrent use.
type Wrapper interface {
	// Wrap wraps each plaintext (1 to 512 bytes) under the newest version. It
	// never creates a KEK: a tenant without one is ErrNotFound.
	Wrap(ctx context.Context, tenant string, plaintexts [][]byte) ([]Wrapped, error)

	// Unwrap answers per item. A tenant that never had a KEK is ErrNotFound for
	// the whole call; when nobody answered the call is ErrUnavailable; a
	// destroyed KEK is ErrErased per item.
	Unwrap(ctx context.Context, tenant string, items []Wrapped) ([]Unwrapped, error)

	// Check reports whether the key service answers and permits its use.
	Check(ctx context.Context) error
}

// Epochs creates, rotates and destroys KEKs.
type Epochs interface {
	// Create makes the tenant's KEK, durably, at version 1. Repeatable: an
	// existing KEK is left as it is. A destroyed one is ErrErased: its tenant
	// never gets a KEK again.
	Create(ctx context.Context, tenant string) error

	// Rotate adds a version, durably, and returns it. Wrap uses it from then on.
	// After ErrUnavailable a version may have been added.
	Rotate(ctx context.Context, tenant string) (Version, error)

	// Status returns the newest version and the oldest that can still unwrap.
	Status(ctx context.Context, tenant string) (Status, error)

	// Trim destroys all versions below oldest; after nil they can never unwrap
	// again. Repeatable. oldest past the newest version is ErrInvalid.
	Trim(ctx context.Context, tenant string, oldest Version) error

	// Destroy destroys the tenant's KEK in every version. Repeatable, also for
	// a tenant that never had one; after nil, Unwrap can never succeed again.
	Destroy(ctx context.Context, tenant string) error

	// Tenants lists the tenants that have a KEK, sorted. It serves the check
	// that an empty ledger does not face a key service in use.
	Tenants(ctx context.Context) ([]string, error)
}

// Keyring is a whole key service.
type Keyring interface {
	Wrapper
	Epochs
}

// Status says which versions of a KEK exist.
type Status struct {
	Newest Version
	Oldest Version // the oldest that still unwraps
}

// ID names one execution key, so that a row says which key wrapped it.
type ID [16]byte

// ExecutionKeys are the two keys of one execution, in clear. Wipe them.
type ExecutionKeys struct {
	ID        ID
	Execution *blobd.Key // wraps blob keys
	Tag       *blobd.Key // makes repeat tags
}

// Wipe overwrites both keys.
func (k ExecutionKeys) Wipe() {
	k.Execution.Wipe()
	k.Tag.Wipe()
}
