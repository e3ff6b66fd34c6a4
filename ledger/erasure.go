package ledger

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/blobd/blobd"
)

// Fence asks for the first half of an erasure.
type Fence struct {
	ID          string // made by the caller, unique for ever
	Scope       Scope
	RequestedBy string // token id
	Reason      string // free text: lives in the erasable row only
	LegalBasis  string
	Regime      string
	ExternalRef string
	ReceivedAt  time.Time
	DueAt       time.Time // the regime's clock; zero: none
	At          time.Time
	RunAt       time.Time // when its job is first due, but for GraceUntil and DeferUntil
	Entries     []Entry   // inserted where it fences

	// Strict refuses where something in scope is protected.
	Strict bool
	// Approvals is how many people must approve first; with one or more the erasure
	// awaits them: its row is made, and nothing else changes. It has no record.
	Approvals int
	// GraceUntil: until then the scope is only closed, and its job is due; zero: no
	// grace.
	GraceUntil time.Time
	// DeferUntil: the caller found everything in scope protected. Where the scope is
	// only closed and there is no grace, it is deferred and due then; zero: it was not
	// so.
	DeferUntil time.Time
	// Closed are the entries where the scope is only closed, in place of Entries.
	Closed []Entry
	// Asked are the entries of one that awaits approvals, in place of both.
	Asked []Entry
	// Plan is what the caller counted, if there is a PlanDigest. It is the erasure's,
	// unless the erasure fences now: then its counts are the engine's own, and only
	// PlanDigest is the caller's. See Erasure.Planned.
	Plan       Plan
	PlanDigest [32]byte
	// Callback is told of this erasure alone: its row and its entry come with the
	// erasure's, in the same transaction, and MaxWebhooks does not count it. An id in use is ErrConflict,
	// an unknown tenant ErrNotFound; what CheckCallback refuses is ErrInvalid. A repeat
	// of the fence makes none. nil: none.
	Callback *Callback
}

// Plan counts what a scope holds. Of a whole execution Executions is 1 and Blobs
// and Bytes are of what is live, or AlreadyErased or NotFound is 1. Of refs each
// counts once: in Blobs (a row that is erased by it, live or not), AlreadyErased
// (all, in an erased execution) or NotFound (no row, or collected). In a fenced
// tenant every execution is an erased one, with a row or not.
//
// Of a whole tenant Executions counts those that are not erased, and Blobs and
// Bytes what is live in them; or AlreadyErased is 1. The fence does not count:
// the figures of its erasure grow with what DropKeys drops.
//
// The other counts are the caller's, for erasures that do not fence at once, and so is
// all of the plan of a form that nothing fences: Blobs counts rows that are not erased,
// Executions those that they are in. What is held, under a floor or shared with another
// subject is among Blobs too.
type Plan struct {
	Executions    int64
	Blobs         int64
	Bytes         int64 // readable
	AlreadyErased int64
	NotFound      int64

	Held   int64
	Floor  int64
	Shared int64
}

// Progress counts what the second half did: it is zero until the job says so.
type Progress struct {
	KeysDestroyed   int64 // blob keys, once Settled
	ObjectsDeleted  int64
	VersionsDeleted int64
	Failed          int64
	Remaining       int64
	// KEKDestroyedAt is when the KEK of a whole tenant was destroyed in every
	// version; zero: not yet, or not of a whole tenant.
	KEKDestroyedAt time.Time
	// Settled is set once dropped keys are unreadable in the ledger's files.
	Settled bool
	// Swept is set once a first deletion of the objects was seen to be complete.
	Swept bool
	// LastError is the closed-set word of the last failure, never free text.
	LastError string
	// Residuals names what the engine could not make unreadable, once Settled.
	Residuals []string
	// Refused are objects that the store would not delete when it was last asked,
	// at most MaxRefused of them; Failed counts all.
	Refused []Refused
	// Held and Floor count the rows that the last pass left, and Kept is at most
	// MaxKept of them.
	Held, Floor int64
	Kept        []Kept
	// Left is what the last pass left, in the measure of the plan. Of a form that
	// nothing fences it has no executions: Drop counts those.
	Left Extent
}

// MaxRefused bounds Progress.Refused, MaxKept Progress.Kept.
const (
	MaxRefused = 100
	MaxKept    = 100
)

// Refused is an object, or a version of one, that the store keeps.
type Refused struct {
	Ref     blobd.Ref // zero: an object under another name
	Version string
	Reason  string    // the store's code
	Until   time.Time // zero: the store gave no date
}

// details is the stored form of what a progress has beside its numbers.
type details struct {
	Residuals []string        `json:"residuals,omitempty"`
	Refused   []refusedDetail `json:"refused,omitempty"`
	KEK       time.Time       `json:"kekDestroyedAt,omitzero"`
	Held      int64           `json:"held,omitempty"`
	Floor     int64           `json:"floor,omitempty"`
	Kept      []keptDetail    `json:"kept,omitempty"`
	Left      *leftDetail     `json:"left,omitempty"`
}

type leftDetail struct {
	Executions int64 `json:"executions,omitempty"`
	Blobs      int64 `json:"blobs,omitempty"`
	Bytes      int64 `json:"bytes,omitempty"`
}

type keptDetail struct {
	Execution   string    `json:"execution"`
	ExecutionID string    `json:"executionId,omitempty"`
	Ref         string    `json:"ref"`
	Floor       bool      `json:"floor,omitempty"`
	Until       time.Time `json:"until,omitzero"`
}

type refusedDetail struct {
	Ref     string    `json:"ref,omitempty"`
	Version string    `json:"version,omitempty"`
	Reason  string    `json:"reason"`
	Until   time.Time `json:"until,omitzero"`
}

// Details encodes Residuals, Refused, KEKDestroyedAt and what is kept for one column;
// nil where there are none.
func (p Progress) Details() ([]byte, error) {
	d := details{Residuals: p.Residuals, Held: p.Held, Floor: p.Floor}
	if !p.KEKDestroyedAt.IsZero() {
		d.KEK = p.KEKDestroyedAt.UTC()
	}
	for _, r := range p.Refused[:min(len(p.Refused), MaxRefused)] {
		w := refusedDetail{Version: r.Version, Reason: r.Reason, Until: r.Until.UTC()}
		if r.Ref != (blobd.Ref{}) {
			w.Ref = r.Ref.Hex()
		}
		d.Refused = append(d.Refused, w)
	}
	for _, k := range p.Kept[:min(len(p.Kept), MaxKept)] {
		d.Kept = append(d.Kept, keptDetail{k.Tag.String(), k.ExecutionID, k.Ref.Hex(), k.Verdict == VerdictFloor, k.Until.UTC()})
	}
	if p.Left != (Extent{}) {
		d.Left = &leftDetail{p.Left.Executions, p.Left.Blobs, p.Left.Bytes}
	}
	if len(d.Residuals) == 0 && len(d.Refused) == 0 && d.KEK.IsZero() && d.Held == 0 && d.Floor == 0 && d.Left == nil {
		return nil, nil
	}
	return json.Marshal(d)
}

// SetDetails reads what Details made; anything else is ErrCorrupt.
func (p *Progress) SetDetails(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	var d details
	if err := json.Unmarshal(b, &d); err != nil {
		return fmt.Errorf("details of a progress: %w: %w", blobd.ErrCorrupt, err)
	}
	p.Residuals, p.KEKDestroyedAt, p.Held, p.Floor = d.Residuals, d.KEK, d.Held, d.Floor
	if d.Left != nil {
		p.Left = Extent{d.Left.Executions, d.Left.Blobs, d.Left.Bytes}
	}
	for _, w := range d.Kept {
		k, err := w.kept()
		if err != nil {
			return fmt.Errorf("details of a progress: %w: %w", blobd.ErrCorrupt, err)
		}
		p.Kept = append(p.Kept, k)
	}
	for _, w := range d.Refused {
		r := Refused{Version: w.Version, Reason: w.Reason, Until: w.Until}
		if w.Ref != "" {
			ref, err := blobd.ParseRefHex(w.Ref)
			if err != nil {
				return fmt.Errorf("details of a progress: %w: %w", blobd.ErrCorrupt, err)
			}
			r.Ref = ref
		}
		p.Refused = append(p.Refused, r)
	}
	return nil
}

func (w keptDetail) kept() (Kept, error) {
	k := Kept{ExecutionID: w.ExecutionID, Verdict: VerdictHeld, Until: w.Until}
	if w.Floor {
		k.Verdict = VerdictFloor
	}
	var err error
	if k.Tag, err = blobd.ParseExecutionTag(w.Execution); err != nil {
		return k, err
	}
	k.Ref, err = blobd.ParseRefHex(w.Ref)
	return k, err
}

// Erasure is an erasure's row.
type Erasure struct {
	ID     string
	Scope  Scope // Refs is not filled in: see ErasedRefs
	OfRefs bool
	// Closing: it has not fenced; what it covers is closed, unless it awaits
	// approvals or was denied or cancelled. See Closings.
	Closing bool
	State   ErasureState
	// Plan stays as it was asked for, or replanned, whatever comes after, where the
	// erasure is Planned. Else it is what the fence found, as Fenced is.
	Plan Plan
	// Planned: the plan was counted, with a digest, before anything was closed; it is
	// not so of one that fenced as it was asked for, and of one that was replayed
	// without its row, whose plan is lost.
	Planned bool
	Dropped int64 // rows that Drop dropped
	// Drops is what Drop took, in the measure of the plan. Executions counts, of a form
	// that nothing fences, those in which it met a row that was not erased.
	Drops Extent
	// Fenced is what the fence found, and of a whole tenant what DropKeys dropped. Refs
	// that Drop dropped before are not among AlreadyErased: this erasure did it. Zero
	// while Closing.
	Fenced      Plan
	Progress    Progress
	RequestedBy string
	Reason      string
	LegalBasis  string
	Regime      string
	ExternalRef string
	ReceivedAt  time.Time
	DueAt       time.Time
	FencedAt    time.Time // when it was asked for
	ErasedAt    time.Time
	Attempts    int64
	PlanDigest  [32]byte // zero: its plan was not previewed
	// GraceUntil: zero: none. Of one that awaits approvals it is what was asked for,
	// and the last approval sets it anew.
	GraceUntil time.Time
	Approvals  int      // how many it needs
	ApprovedBy []string // token ids, in order
	DecidedBy  string   // token id of who denied or cancelled it
	// DecidedAt is when it was denied or cancelled; zero: it was not, or by a version
	// that did not keep it.
	DecidedAt time.Time
	Code      string // of a denial
	// DecisionReason is free text, of this row alone.
	DecisionReason string
	// Wrap is the newest KEK version under which a backup of this ledger may hold
	// what was erased: that of the execution's key at the fence; of an execution
	// erased before, that of its erasures; of one without a row and of a whole
	// tenant, the tenant's minimum. One that has not fenced has what it had when it was
	// asked for (of a form that nothing fences the tenant's minimum), and Drop raises it
	// to that of each execution of which it drops a row, or finds one erased. A replayed
	// erasure has the larger of its record's and this. The first epoch with a later Version makes such backups
	// useless once trimmed.
	Wrap uint32
}

// EndedAt is when it was erased, denied or cancelled; zero: it has not ended, or that
// was not kept.
func (e *Erasure) EndedAt() time.Time {
	if e.ErasedAt.IsZero() {
		return e.DecidedAt
	}
	return e.ErasedAt
}

// Stands is the state as people are told it: an erasure that runs on because the
// store keeps some of its objects is partial, and so is one that erased some of its
// scope and is deferred with the rest.
func (e *Erasure) Stands() ErasureState {
	switch {
	case e.State == ErasureRunning && e.Progress.Failed > 0, e.State == ErasureDeferred && e.Dropped > 0:
		return ErasurePartial
	}
	return e.State
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
	State  ErasureState // "": any; partial: both that Stands tells so
	// DueBefore selects those that have not ended (erased, denied, cancelled) and
	// whose DueAt is set and before it; zero: any.
	DueBefore time.Time
	Before    ErasureCursor
	Limit     int
}

// ErasureCursor is a position in the order newest first; zero is the start.
type ErasureCursor struct {
	FencedAt time.Time
	ID       string
}
