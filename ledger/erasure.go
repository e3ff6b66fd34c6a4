package ledger

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/blobd/blobd"
)

// EraseScope is what an erasure covers: an execution, refs within one, or a whole
// tenant, which is off-boarded by it.
type EraseScope struct {
	Tenant      string
	Tag         blobd.ExecutionTag // of a whole tenant: the tag that names it in object names
	ExecutionID string
	Refs        []blobd.Ref // empty: the whole execution
	WholeTenant bool        // without ExecutionID and Refs
}

// Check refuses what no engine takes, as ErrInvalid.
func (s EraseScope) Check() error {
	if s.WholeTenant && (s.ExecutionID != "" || len(s.Refs) > 0 || s.Tenant == "") {
		return fmt.Errorf("a whole tenant, and something within it: %w", blobd.ErrInvalid)
	}
	return nil
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
// (all, in an erased execution) or NotFound (no row, or collected). In a fenced
// tenant every execution is an erased one, with a row or not.
//
// Of a whole tenant Executions counts those that are not erased, and Blobs and
// Bytes what is live in them; or AlreadyErased is 1. The fence does not count:
// the figures of its erasure grow with what DropKeys drops.
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
}

// MaxRefused bounds Progress.Refused.
const MaxRefused = 100

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
}

type refusedDetail struct {
	Ref     string    `json:"ref,omitempty"`
	Version string    `json:"version,omitempty"`
	Reason  string    `json:"reason"`
	Until   time.Time `json:"until,omitzero"`
}

// Details encodes Residuals, Refused and KEKDestroyedAt for one column; nil where
// there are none.
func (p Progress) Details() ([]byte, error) {
	d := details{Residuals: p.Residuals}
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
	if len(d.Residuals) == 0 && len(d.Refused) == 0 && d.KEK.IsZero() {
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
	p.Residuals, p.KEKDestroyedAt = d.Residuals, d.KEK
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
	// Wrap is the newest KEK version under which a backup of this ledger may hold
	// what was erased: that of the execution's key at the fence; of an execution
	// erased before, that of its erasures; of one without a row and of a whole
	// tenant, the tenant's minimum. A replayed erasure has the larger of its record's and this. The
	// first epoch with a later Version makes such backups useless once trimmed.
	Wrap uint32
}

// Stands is the state as people are told it: an erasure that runs on because the
// store keeps some of its objects is partial.
func (e *Erasure) Stands() ErasureState {
	if e.State == ErasureRunning && e.Progress.Failed > 0 {
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
	State  ErasureState // "": any
	Before ErasureCursor
	Limit  int
}

// ErasureCursor is a position in the order newest first; zero is the start.
type ErasureCursor struct {
	FencedAt time.Time
	ID       string
}
