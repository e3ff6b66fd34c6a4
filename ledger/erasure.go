package ledger

import (
	"time"

	"github.com/blobd/blobd"
)

// EraseScope is what an erasure covers: an execution, or refs within one.
type EraseScope struct {
	Tenant      string
	Tag         blobd.ExecutionTag
	ExecutionID string
	Refs        []blobd.Ref // empty: the whole execution
}

// Fence asks for the first half of an erasure.
type Fence struct {
	ID          string // made by the caller, unique for ever
	Scope       EraseScope
	RequestedBy string // token id
	Reason      string // free text: lives in the erasable row only
	LegalBasis  string
	Regime      string
	ExternalRef string
	ReceivedAt  time.Time
	DueAt       time.Time // the regime's clock; zero: none
	At          time.Time
	RunAt       time.Time // when the second half is first due
	Entries     []Entry
}

// Plan counts what a scope holds. Of a whole execution Executions is 1 and Blobs
// and Bytes are of what is live, or AlreadyErased or NotFound is 1. Of refs each
// counts once: in Blobs (a row that is erased by it, live or not), AlreadyErased
// (all, in an erased execution) or NotFound (no row, or collected).
type Plan struct {
	Executions    int64
	Blobs         int64
	Bytes         int64 // readable
	AlreadyErased int64
	NotFound      int64
}

// Progress counts what the second half did: it is zero until the job says so.
type Progress struct {
	KeysDestroyed   int64 // blob keys, once Settled
	ObjectsDeleted  int64
	VersionsDeleted int64
	Failed          int64
	Remaining       int64
	// Settled is set once dropped keys are unreadable in the ledger's files.
	Settled bool
	// Swept is set once a first deletion of the objects was seen to be complete.
	Swept bool
	// LastError is the closed-set word of the last failure, never free text.
	LastError string
}

// Erasure is an erasure's row.
type Erasure struct {
	ID          string
	Scope       EraseScope // Refs is not filled in: see ErasedRefs
	OfRefs      bool
	State       ErasureState
	Plan        Plan
	Progress    Progress
	RequestedBy string
	Reason      string
	LegalBasis  string
	Regime      string
	ExternalRef string
	ReceivedAt  time.Time
	DueAt       time.Time
	FencedAt    time.Time
	ErasedAt    time.Time
	Attempts    int64
}

// Lease is the right to work on one erasure for a while.
type Lease struct {
	ErasureID string
	Owner     string
	Term      int64
	Until     time.Time
}

// Job is a claimed erasure.
type Job struct {
	Erasure Erasure
	Lease   Lease
}

// ErasureQuery selects erasures.
type ErasureQuery struct {
	Tenant string
	State  ErasureState // "": any
	Before ErasureCursor
	Limit  int
}

// ErasureCursor is a position in the order newest first; zero is the start.
type ErasureCursor struct {
	FencedAt time.Time
	ID       string
}
