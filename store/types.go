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

// EraseRequest asks to erase a scope of one form: an execution, refs within one,
// what is tagged with a person, a class up to a date, or the whole tenant, which is
// off-boarded by it.
type EraseRequest struct {
	Tenant      string
	ExecutionID string
	Refs        []blobd.Ref // empty: the whole execution
	// Subjects are a person's identifiers, in clear; what is tagged with any of them.
	Subjects []string
	Class    string
	// CapturedBefore, of a class, is not included; zero: without an end.
	CapturedBefore time.Time
	WholeTenant    bool
	// Grace is how long the scope is only closed, so that the erasure can be
	// cancelled; 0: none.
	Grace time.Duration
	// Strict refuses, as ErrHeld, where something in scope is protected.
	Strict      bool
	Actor       string // token id
	Reason      string
	LegalBasis  string
	Regime      string
	ExternalRef string
	ReceivedAt  time.Time // zero: now
	DueAt       time.Time
	// Callback is told of this erasure; its webhook's Erasure is set here. nil: none.
	Callback *ledger.Callback
}

// OrderRequest asks for a hold, a restriction or a suppression over a scope of one
// form, as in EraseRequest. A suppression is of subjects.
type OrderRequest struct {
	Tenant         string
	ExecutionID    string
	Refs           []blobd.Ref
	Subjects       []string
	Class          string
	CapturedBefore time.Time
	WholeTenant    bool
	Actor          string // token id
	// Free text, of the order's row alone.
	Matter, Reason, Owner string
	// Purposes for which a person may read what a restriction covers.
	Purposes  []string
	ReviewAt  time.Time // zero: none
	ExpiresAt time.Time // of a suppression; zero: never
}
