package ledger

import (
	"context"
	"time"

	"github.com/blobd/blobd"
)

// Epochs holds key epochs: jobs that give a tenant's keys a new KEK version, so
// that what older backups of the ledger hold can be made useless. An epoch is a
// leased row like an erasure: never discarded, claimed by one worker at a time.
//
// A wrap is a live wrapped key: the tenant's index key, and the key of each
// execution that is not erased. It is below a version if an older one wrapped it.
// A fenced tenant has none.
type Epochs interface {
	// StartEpoch inserts an epoch that rotates. While another one of the tenant
	// rotates or re-wraps it is ErrConflict; an unknown tenant is ErrNotFound, a
	// fenced one ErrTenantErased.
	// The same id again changes nothing and returns the epoch as it stands; with
	// another tenant it is ErrConflict.
	StartEpoch(ctx context.Context, n NewEpoch) (Epoch, error)
	// ClaimEpoch leases the epoch that is due first, or ErrNotFound when none is
	// due at at. The term rises with each claim. An engine that knows that a
	// lease's owner ended may end the lease.
	ClaimEpoch(ctx context.Context, owner string, at, until time.Time) (EpochJob, error)
	// MoveEpoch makes one legal move (see EpochMoves), or keeps the state, and
	// renews or ends the lease. A stale lease and any other move are ErrConflict
	// and change nothing. To EpochRewrapping it raises the tenant's minimum wrap
	// version, which no move lowers; a version that is not past From is
	// ErrInvalid. To EpochWaiting it is ErrConflict while a wrap of the tenant is
	// below the epoch's version.
	MoveEpoch(ctx context.Context, l EpochLease, m EpochMove) error
	// Wraps returns the tenant's wraps below a version after a position: the
	// index key first, then executions, oldest first.
	Wraps(ctx context.Context, q WrapQuery) ([]Wrap, error)
	// Rewrap replaces wraps by newer ones, one transaction for 1 to 256 items,
	// and returns how many it replaced. An item that the ledger has moved away
	// from since it was read changes nothing and is no error: a key that was
	// dropped, re-wrapped or lost a blob meanwhile stays as it is, and so does an
	// execution that got another blob while its key was being changed. An item
	// that is wrapped below the tenant's minimum is ErrConflict, and so are an
	// epoch that does not re-wrap and a stale lease; then nothing changes.
	Rewrap(ctx context.Context, l EpochLease, items []Rewrap) (int, error)
	// ListEpochs returns a tenant's epochs, newest first.
	ListEpochs(ctx context.Context, q EpochQuery) ([]Epoch, error)
}

// EpochState is where an epoch stands.
type EpochState uint8

// The states of an epoch. Values are stored: never renumber.
const (
	EpochRotating   EpochState = 1 // the KEK is about to get its new version
	EpochRewrapping EpochState = 2 // the minimum is raised, wraps are below it
	EpochWaiting    EpochState = 3 // no wrap is below; old versions go at TrimAt
	EpochTrimmed    EpochState = 4 // old versions are destroyed: the horizon
	EpochEnded      EpochState = 5 // its tenant was off-boarded before it was trimmed
)

// String returns the state's word.
func (s EpochState) String() string {
	switch s {
	case EpochRotating:
		return "rotating"
	case EpochRewrapping:
		return "rewrapping"
	case EpochWaiting:
		return "waiting"
	case EpochTrimmed:
		return "trimmed"
	case EpochEnded:
		return "ended"
	}
	return "unknown"
}

// EpochMoves lists every legal move of an epoch by its worker. The fence of its
// tenant moves it to EpochEnded from any state but EpochTrimmed, and no lease of
// it holds from then on.
func EpochMoves() []Move[EpochState] {
	return []Move[EpochState]{
		{0, EpochRotating, "StartEpoch"},
		{EpochRotating, EpochRewrapping, "MoveEpoch"},
		{EpochRewrapping, EpochWaiting, "MoveEpoch"},
		{EpochWaiting, EpochTrimmed, "MoveEpoch"},
	}
}

// NewEpoch asks for an epoch.
type NewEpoch struct {
	ID     string // made by the caller, unique for ever
	Tenant string
	At     time.Time
	Entry  Entry
}

// Epoch is an epoch's row.
type Epoch struct {
	ID      string
	Tenant  string
	State   EpochState
	From    uint32 // newest KEK version before the rotation; 0: not looked at yet
	Version uint32 // the version that it rotated to; 0 while it rotates
	// Total is how many wraps were below when the minimum was raised; Rewrapped
	// counts those replaced since, Rekeyed those among them that got a new key.
	Total     int64
	Rewrapped int64
	Rekeyed   int64
	// LastError is the closed-set word of the last failure, never free text.
	LastError   string
	Attempts    int64
	StartedAt   time.Time
	CompletedAt time.Time // when it began to wait; zero before
	TrimAt      time.Time // when old versions may be trimmed; zero before
	TrimmedAt   time.Time
	RunAt       time.Time // when it is due
}

// EpochLease is the right to work on one epoch for a while.
type EpochLease struct {
	EpochID string
	Owner   string
	Term    int64
	Until   time.Time
}

// EpochJob is a claimed epoch.
type EpochJob struct {
	Epoch Epoch
	Lease EpochLease
}

// EpochMove is one step of an epoch.
type EpochMove struct {
	To EpochState // the state that it has: it stays
	At time.Time  // becomes CompletedAt or TrimmedAt, by the state moved to
	// From, Version and TrimAt replace the row's where they are not zero.
	From    uint32
	Version uint32
	TrimAt  time.Time
	// Until renews the lease; zero ends it, and the epoch is due at Due. An epoch
	// that was trimmed has no lease and is never due.
	Until     time.Time
	Due       time.Time
	LastError string // replaces the row's
	Entries   []Entry
}

// WrapQuery selects wraps.
type WrapQuery struct {
	Tenant string
	Below  uint32
	After  ExecutionCursor // of the last wrap told; zero: from the index key on
	Limit  int
}

// Wrap is a live wrapped key of a tenant.
type Wrap struct {
	// Tag names the execution; zero: the index key, whose Key has no ID.
	Tag       blobd.ExecutionTag
	CreatedAt time.Time // of the execution; zero for the index key
	Key       WrappedKey
	// LostBlob: refs of the execution were erased since it got its key. Backups
	// hold their keys wrapped by this one, so it must be replaced, not re-wrapped.
	LostBlob bool
}

// Rewrap replaces one wrap.
type Rewrap struct {
	Tag blobd.ExecutionTag // zero: the index key
	Old WrappedKey         // as Wraps told it
	// New has the same ID, or that of a new execution key. With the same ID an
	// execution that lost a blob meanwhile is left alone. With a new one Blobs
	// holds every row of the execution with a wrapped key, and the mark that it
	// lost a blob is taken away.
	New   WrappedKey
	Blobs []RewrapBlob
}

// RewrapBlob replaces one blob's wrapped key, if it still has Old.
type RewrapBlob struct {
	Ref      blobd.Ref
	Old, New []byte
}

// EpochQuery selects epochs.
type EpochQuery struct {
	Tenant string
	Before EpochCursor
	Limit  int
}

// EpochCursor is a position in the order newest first; zero is the start.
type EpochCursor struct {
	StartedAt time.Time
	ID        string
}
