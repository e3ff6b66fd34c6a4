package blobd

import (
	"errors"
	"fmt"
)

// The closed set of errors. Every error that crosses a package boundary wraps
// at most one of them; an error that wraps none was not classified, and is
// never read as an absence. Match with errors.Is.
var (
	// ErrNotFound: the thing asked for is proved absent by the one that owns it.
	ErrNotFound = errors.New("not found")
	// ErrErased: it was erased, for ever.
	ErrErased = errors.New("erased")
	// ErrExpired: it is past its maximum period.
	ErrExpired = errors.New("expired")
	// ErrClosed: the execution is closed, reversibly.
	ErrClosed = errors.New("closed")
	// ErrDenied: the caller, or blobd's own credential, may not.
	ErrDenied = errors.New("denied")
	// ErrInvalid: the input is wrong.
	ErrInvalid = errors.New("invalid")
	// ErrTooLarge: a limit was passed.
	ErrTooLarge = errors.New("too large")
	// ErrConflict: the state moved, or another won.
	ErrConflict = errors.New("conflict")
	// ErrHeld: a hold forbids it.
	ErrHeld = errors.New("held")
	// ErrPolicy: the tenant's mode or class policy forbids it.
	ErrPolicy = errors.New("policy forbids it")
	// ErrCorrupt: bytes that do not prove themselves.
	ErrCorrupt = errors.New("corrupt")
	// ErrMissing: the ledger says live, the store or the key service says absent.
	ErrMissing = errors.New("missing")
	// ErrUnavailable: nobody gave a definite answer.
	ErrUnavailable = errors.New("unavailable")
)

// Refinements: each is one of the closed set, said more closely where an answer
// of the contract tells them apart.
var (
	ErrBlobErased     = fmt.Errorf("blob %w", ErrErased)
	ErrTenantErased   = fmt.Errorf("tenant %w", ErrErased)
	ErrRestricted     = fmt.Errorf("restricted: %w", ErrClosed)
	ErrKeyMissing     = fmt.Errorf("key %w", ErrMissing)
	ErrDigestMismatch = fmt.Errorf("digest mismatch: %w", ErrInvalid)
	ErrInvalidUTF8    = fmt.Errorf("not valid UTF-8: %w", ErrInvalid)
	ErrUnknownField   = fmt.Errorf("unknown field: %w", ErrInvalid)
	ErrPlanDrift      = fmt.Errorf("the plan or its protection changed: %w", ErrConflict)
	ErrSuppressed     = fmt.Errorf("a subject is suppressed: %w", ErrPolicy)
	ErrClockSuspect   = fmt.Errorf("the clock is suspect: %w", ErrUnavailable)
	ErrKeyReused      = fmt.Errorf("idempotency key used for another request: %w", ErrPolicy)
)

// RefsError says which blobs an error is about.
type RefsError struct {
	Refs []Ref
	Err  error
}

// Error names the refs: a ref is the hash of sealed bytes and tells nothing.
func (e *RefsError) Error() string { return fmt.Sprintf("%v %v", e.Err, e.Refs) }

// Unwrap returns the cause.
func (e *RefsError) Unwrap() error { return e.Err }
