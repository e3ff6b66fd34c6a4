package store

import (
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// Attempt says which model call a text comes from.
type Attempt struct {
	Tenant      string
	ExecutionID string
	StepID      string
	Number      int64 // "attempt" of the contract; 0 or more
	Provider    string
	Model       string
	Actor       string // the id of the token that asks, for evidence
}

// Content is one readable text and what is kept with it.
type Content struct {
	Class       string
	Kind        blobd.Kind
	ContentType string
	Text        blobd.Text
}

// PutRequest asks to keep one text.
type PutRequest struct {
	Attempt
	Content
	Subjects []string
	Audience []blobd.Principal // empty: everyone of the tenant
	Expect   *blobd.Digest     // from Repr-Digest; another digest is ErrDigestMismatch
}

// Stored says where a text lies.
type Stored struct {
	Ref       blobd.Ref
	Digest    blobd.Digest
	Size      int64
	StepID    string // of the first capture of these bytes
	Class     string
	CreatedAt time.Time
	ExpiresAt time.Time // zero: no maximum
	Created   bool      // false: a repeat
}

// CapturePart is one part of a model call's reasoning, as the provider returned
// it. A redacted part has no text.
type CapturePart struct {
	Kind blobd.Kind
	Text blobd.Text // may be empty
}

// CaptureRequest asks to keep the reasoning of one model call, all or nothing.
type CaptureRequest struct {
	Attempt
	Class    string
	Keep     bool // false: texts are dropped and their parts omitted
	Parts    []CapturePart
	Subjects []string
	Audience []blobd.Principal
}

// CapturedPart answers for one part, in order.
type CapturedPart struct {
	Status ledger.PartStatus
	Stored Stored // when Status is ledger.PartKept
}

// EraseRequest asks to erase an execution, refs within one, or the whole tenant,
// which is off-boarded by it.
type EraseRequest struct {
	Tenant      string
	ExecutionID string
	Refs        []blobd.Ref // empty: the whole execution
	WholeTenant bool        // without ExecutionID and Refs
	Actor       string      // token id
	Reason      string
	LegalBasis  string
	Regime      string
	ExternalRef string
	ReceivedAt  time.Time // zero: now
	DueAt       time.Time
}
