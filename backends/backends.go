// Package backends is the contract of an object store as blobd needs it.
//
// A store keeps whole, immutable objects under names that blobd makes: sealed
// blobs as "<tenant tag>/<execution tag>/<ref hex>", and blobd's own objects
// (the identity object and those under "journal/"). It promises durability and
// honest absence; it knows nothing of tenants, keys, ledgers or texts, and it
// never turns a failure into an absence. Package backendtest holds every
// sentence of this contract as a named subtest; each driver passes it.
package backends

import (
	"context"
	"strings"
	"time"

	"github.com/blobd/blobd"
)

// IdentityName is the object that proves that a store is ours.
const IdentityName = "identity"

// SecondPlaceName is an object that says that the journal has a second place,
// which must be there from then on.
const SecondPlaceName = "second-journal"

// JournalPrefix is where the journal's records lie.
const JournalPrefix = "journal/"

// Store is an object store. All methods are safe for concurrent use and return
// when ctx ends, or after the one disk operation that they share with others; a
// cancelled call may still have acted, and a later call sees what it did.
type Store interface {
	// Put stores data under name. On nil the object is durable and whole.
	// Nothing partial is ever visible. The same bytes again succeed; other bytes
	// under a used name are ErrCorrupt. A full store is ErrUnavailable and
	// leaves nothing visible. The caller may reuse data after Put returns.
	Put(ctx context.Context, name string, data []byte) error

	// Get returns the whole object, or an error and nothing. ErrNotFound is said
	// only when the store itself answered that the object is absent; an erased
	// object is absent. Bytes are as stored: the caller checks their hash.
	Get(ctx context.Context, name string) ([]byte, error)

	// List returns objects whose names start with prefix and sort after after,
	// in byte order, at most limit (1 to 1,000). Fewer than limit means that
	// there are no more. A failed page is an error, never a short list.
	List(ctx context.Context, prefix, after string, limit int) ([]Object, error)

	// Erase deletes every version, marker and unfinished upload in scope, so
	// that no bytes of them can be read from the store again. Absent names are
	// fine. Refusals (locks, retention) are in the result and not an error; an
	// error means that some of the scope may be left. Repeatable.
	Erase(ctx context.Context, scope Scope) (Erased, error)

	// Residue reports what is left in scope, in any version, as marker or as
	// unfinished upload, at most limit entries (1 or more, else ErrInvalid). Empty
	// means proved absent now, by writes that began before too.
	Residue(ctx context.Context, scope Scope, limit int) ([]Object, error)

	// Check reports whether the store answers and permits reads and writes.
	Check(ctx context.Context) error
}

// Object is one entry of a listing.
type Object struct {
	Name     string
	Size     int64     // bytes
	Modified time.Time // by the store's clock, UTC
	Version  string    // the store's id of a version, marker or upload; "" where there is only one
}

// Scope is what an erasure deletes: either everything under a prefix that ends
// in "/", or exact names. Exactly one of the two is set.
type Scope struct {
	Prefix string
	Names  []string
}

// Erased counts what Erase deleted.
type Erased struct {
	Objects  int // names
	Versions int // versions, markers and uploads, the newest included
	Refused  []Refusal
}

// Refusal is an object that the store would not delete.
type Refusal struct {
	Name    string
	Version string
	Reason  string    // the store's code, never free text
	Until   time.Time // zero where the store gave no date
}

// BlobName returns the name of a sealed blob's object.
func BlobName(tenantTag string, execution blobd.ExecutionTag, ref blobd.Ref) string {
	return ExecutionPrefix(tenantTag, execution) + ref.Hex()
}

// TenantPrefix returns the prefix of all objects of one tenant, orphans included.
func TenantPrefix(tenantTag string) string { return tenantTag + "/" }

// ExecutionPrefix returns the prefix of all objects of one execution, orphans
// included.
func ExecutionPrefix(tenantTag string, execution blobd.ExecutionTag) string {
	return tenantTag + "/" + execution.String() + "/"
}

// BlobNameParts is what a sealed blob's name says.
type BlobNameParts struct {
	TenantTag string
	Execution blobd.ExecutionTag
	Ref       blobd.Ref
}

// ParseBlobName reads a name made by BlobName. ok is false for any other name.
func ParseBlobName(name string) (parts BlobNameParts, ok bool) {
	f := strings.Split(name, "/")
	if len(f) != 3 || f[0] == "" {
		return parts, false
	}
	tag, err := blobd.ParseExecutionTag(f[1])
	if err != nil {
		return parts, false
	}
	ref, err := blobd.ParseRefHex(f[2])
	if err != nil {
		return parts, false
	}
	return BlobNameParts{f[0], tag, ref}, true
}

// CheckName accepts the names of this contract: 1 to 4 segments of lowercase
// letters, digits, "-" and "_", joined by "/", at most 255 bytes. No such name
// is a path that leaves a folder. Everything else is ErrInvalid.
func CheckName(name string) error {
	if len(name) > 255 {
		return errName
	}
	segments := strings.Split(name, "/")
	if len(segments) > 4 {
		return errName
	}
	for _, s := range segments {
		if s == "" {
			return errName
		}
		for i := range len(s) {
			c := s[i]
			if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
				return errName
			}
		}
	}
	return nil
}
