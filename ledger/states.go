package ledger

import "slices"

// BlobState is where a blob's row stands.
type BlobState uint8

// The states of a blob. Values are stored: never renumber.
const (
	BlobLive       BlobState = 1 // the object and key are durable
	BlobErased     BlobState = 2 // a tombstone: its key was dropped
	BlobMissing    BlobState = 3 // an object of a lost row, or reported absent: an error until accepted
	BlobLost       BlobState = 4 // an operator accepted the loss
	BlobCollected  BlobState = 5 // an orphan object was collected under this ref
	BlobSuperseded BlobState = 6 // expired, and the same bytes were put again under a new ref
	BlobExpired    BlobState = 7 // a sweep dropped its key; a tombstone once its class is empty
)

// ExecutionState is where an execution stands.
type ExecutionState uint8

// The states of an execution. Values are stored: never renumber.
const (
	ExecutionOpen ExecutionState = 1
	// ExecutionClosed is reversible: reads are null. It is never stored: an open
	// execution that an open order covers is told as closed.
	ExecutionClosed ExecutionState = 2
	ExecutionErased ExecutionState = 3 // the fence: for ever
)

// CloseReason says why an execution is closed.
type CloseReason uint8

// The reasons. Values are stored: never renumber.
const (
	ClosedErasure    CloseReason = 1 // grace, or an erasure deferred by a hold
	ClosedRestricted CloseReason = 2
)

// ErasureState is where an erasure stands; its text is the contract's.
type ErasureState string

// The states of an erasure.
const (
	ErasureAwaiting  ErasureState = "awaiting_approval"
	ErasureGrace     ErasureState = "grace"
	ErasureRunning   ErasureState = "running"
	ErasureDeferred  ErasureState = "deferred"
	ErasureErased    ErasureState = "erased"
	ErasurePartial   ErasureState = "partial"
	ErasureDenied    ErasureState = "denied"
	ErasureCancelled ErasureState = "cancelled"
)

// RecoveryState says whether the ledger's absences may be believed.
type RecoveryState uint8

// The recovery states. Values are stored: never renumber.
const (
	// RecoveryNone: the ledger is whole.
	RecoveryNone RecoveryState = 0
	// RecoveryReplay: the ledger was rolled back and is not replayed yet.
	RecoveryReplay RecoveryState = 1
	// RecoveryGap: replayed, but the store was rolled back too, so that puts may
	// be gone without a trace: a ref without a row is missing, not null, until
	// an operator accepts the loss.
	RecoveryGap RecoveryState = 2
	// RecoveryReplayGap: as RecoveryReplay, and RecoveryGap comes after it.
	RecoveryReplayGap RecoveryState = 3
)

// Move is one legal change of state. From 0 is "no row".
type Move[S ~uint8] struct {
	From, To S
	By       string // the method that makes it
}

// BlobMoves lists every legal move of a blob.
func BlobMoves() []Move[BlobState] {
	return []Move[BlobState]{
		{0, BlobLive, "Commit"},
		{BlobLive, BlobSuperseded, "Commit"},
		{BlobLive, BlobErased, "Fence, Drop"},
		{BlobMissing, BlobErased, "Fence, Drop"},
		{BlobLost, BlobErased, "Fence, Drop"},
		{BlobSuperseded, BlobErased, "Fence, Drop"},
		{BlobExpired, BlobErased, "Fence, Drop"},
		{BlobLive, BlobExpired, "Expire"},
		{BlobSuperseded, BlobExpired, "Expire"},
		{BlobLost, BlobExpired, "Expire"},
		{0, BlobErased, "Replay"},
		{0, BlobMissing, "EnterMissing"},
		{BlobMissing, BlobLost, "AcceptLoss"},
		{BlobLive, BlobLost, "AcceptLoss"},
		{0, BlobCollected, "Collect"},
	}
}

// ExecutionMoves lists every legal move of an execution.
func ExecutionMoves() []Move[ExecutionState] {
	return []Move[ExecutionState]{
		{0, ExecutionOpen, "Commit"},
		{0, ExecutionErased, "Fence"},
		{ExecutionOpen, ExecutionClosed, "PlaceOrder"},
		{ExecutionClosed, ExecutionOpen, "LiftOrder"},
		{ExecutionOpen, ExecutionErased, "Fence"},
		{ExecutionClosed, ExecutionErased, "Fence"},
	}
}

// Legal reports whether moves allow from → to.
func Legal[S ~uint8](moves []Move[S], from, to S) bool {
	return slices.ContainsFunc(moves, func(m Move[S]) bool { return m.From == from && m.To == to })
}
