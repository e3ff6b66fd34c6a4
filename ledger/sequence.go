package ledger

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/blobd/blobd"
)

// Sequence puts evidence entries into one log: an order without gaps that never
// changes, with what a Merkle tree over it needs. Log order is sequencing order,
// so an entry whose transaction commits late gets a later index.
//
// The engine keeps hashes, checkpoints and the log's key as they are given and
// knows nothing of what they mean.
type Sequence interface {
	// ClaimSequencer leases the log's one sequencer. While the lease of another
	// owner lasts at at it is ErrConflict. The term rises with each claim, an
	// owner's own again too. An engine that knows that a lease's owner ended may
	// end the lease.
	ClaimSequencer(ctx context.Context, owner string, at, until time.Time) (SequencerLease, error)
	// Unsequenced returns committed entries without an index whose ids are above
	// after, in the order of their insertion, without their free texts.
	Unsequenced(ctx context.Context, after int64, limit int) ([]StoredEntry, error)
	// AppendToLog gives entries the next indexes in their order, inserts those
	// that are given whole, keeps what is known of the tree after them, and sets
	// the log's key where there is none, all or nothing. ErrConflict and no change: the lease is stale, the log has
	// another size, an entry is unknown, has an index or comes twice, or the log
	// has another key. ErrInvalid: entries without a checkpoint or without
	// hashes, or a checkpoint without entries, or an entry that is given whole
	// with an id or with free text.
	AppendToLog(ctx context.Context, l SequencerLease, a LogAppend) error
	// Logged returns entries of the log; see LogQuery.
	Logged(ctx context.Context, q LogQuery) ([]LoggedEntry, error)
	// LogState returns the oldest checkpoint of at least size entries, or
	// ErrNotFound; for size 0 the newest, which may be none.
	LogState(ctx context.Context, size int64) (LogState, error)
}

// SequencerLease is the right to append to the log for a while.
type SequencerLease struct {
	Owner string
	Term  int64
	Until time.Time
}

// LogKey is the key that signs the log's checkpoints, wrapped by the key
// service, and its public half in the form that verifiers take.
type LogKey struct {
	Version    uint32 // KEK version
	Ciphertext []byte
	Verifier   string
}

// Same reports whether two keys are one.
func (k LogKey) Same(o LogKey) bool {
	return k.Version == o.Version && k.Verifier == o.Verifier && bytes.Equal(k.Ciphertext, o.Ciphertext)
}

// LogAppend is one step of the log.
type LogAppend struct {
	Size       int64 // entries in the log before it
	Entries    []NewLogEntry
	Checkpoint []byte  // signed, of the tree after Entries
	Key        *LogKey // nil: nothing is said of it
}

// NewLogEntry is an entry that gets an index.
type NewLogEntry struct {
	ID int64 // as Unsequenced told it
	// Insert is an entry that the log has and the ledger lost: it is put back, in
	// place of ID. Nobody has its free text any more. nil: ID names the entry.
	Insert *Entry
	// Object names what the entry is about, so that Logged finds it: the id of
	// an erasure; "": nothing.
	Object string
	// Hashes are those of the subtrees that the entry completes, its own leaf's
	// first: 1 to 63.
	Hashes [][32]byte
}

// maxNodeHashes is how many subtrees one entry can complete.
const maxNodeHashes = 63

// Check refuses what no engine takes, as ErrInvalid.
func (a LogAppend) Check() error {
	if (len(a.Entries) == 0) != (len(a.Checkpoint) == 0) {
		return fmt.Errorf("%d entries with a checkpoint of %d bytes: %w", len(a.Entries), len(a.Checkpoint), blobd.ErrInvalid)
	}
	for _, e := range a.Entries {
		if len(e.Hashes) < 1 || len(e.Hashes) > maxNodeHashes {
			return fmt.Errorf("entry with %d hashes: %w", len(e.Hashes), blobd.ErrInvalid)
		}
		if e.Insert != nil && (e.ID != 0 || e.Insert.FreeText != "" || len(e.Insert.Salt) > 0) {
			return fmt.Errorf("entry to be put back has an id or a free text: %w", blobd.ErrInvalid)
		}
	}
	return nil
}

// MaxLogQuery bounds how many indexes one query names.
const MaxLogQuery = 256

// LogQuery selects entries of the log: those with the named indexes (1 to
// MaxLogQuery), in index order, each once, left out where the log is shorter; or
// those about an object, in index order, at most MaxLogQuery. Naming neither or
// both is ErrInvalid.
type LogQuery struct {
	Indexes []int64
	Object  string
	// HashesOnly leaves out Tenant, Kind, At and Body.
	HashesOnly bool
}

// Check refuses what no engine takes, as ErrInvalid.
func (q LogQuery) Check() error {
	if (len(q.Indexes) == 0) == (q.Object == "") || len(q.Indexes) > MaxLogQuery {
		return fmt.Errorf("%d indexes: %w", len(q.Indexes), blobd.ErrInvalid)
	}
	return nil
}

// LoggedEntry is an entry of the log. Its FreeText and Salt are left out.
type LoggedEntry struct {
	Index  int64
	Object string
	Hashes [][32]byte
	StoredEntry
}

// LogState is the log at one checkpoint.
type LogState struct {
	Size       int64  // entries that the checkpoint covers; 0: there is none
	Checkpoint []byte // signed
	Key        *LogKey
}
