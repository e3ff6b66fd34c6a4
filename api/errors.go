package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/api/wire"
)

// problem is an error with everything that its answer says. detail is written
// by this package or by the checks of package blobd and never repeats input.
type problem struct {
	code   wire.Code
	detail string
}

// Error implements error.
func (p *problem) Error() string { return string(p.code) + ": " + p.detail }

func refuse(code wire.Code, format string, args ...any) error {
	return &problem{code, fmt.Sprintf(format, args...)}
}

// invalid wraps an error of the checks of package blobd.
func invalid(err error) error {
	if err == nil {
		return nil
	}
	return &problem{wire.CodeInvalid, err.Error()}
}

// kind is what the contract says of a code.
type kind struct {
	status int
	title  string
}

// kinds is the contract's table of codes.
func kinds() map[wire.Code]kind {
	return map[wire.Code]kind{
		wire.CodeInvalid:             {http.StatusBadRequest, "The request is wrong"},
		wire.CodeUnknownField:        {http.StatusBadRequest, "The request has an unknown field"},
		wire.CodeInvalidUTF8:         {http.StatusBadRequest, "The request is not valid UTF-8"},
		wire.CodeDigestMismatch:      {http.StatusBadRequest, "The body has another digest"},
		wire.CodeUnauthenticated:     {http.StatusUnauthorized, "No valid token"},
		wire.CodeForbidden:           {http.StatusForbidden, "The role may not"},
		wire.CodeNull:                {http.StatusNotFound, "Definitively nothing"},
		wire.CodeNoSuchRoute:         {http.StatusNotFound, "No such route"},
		wire.CodeNotFound:            {http.StatusNotFound, "No such thing"},
		wire.CodeMethodNotAllowed:    {http.StatusMethodNotAllowed, "Not by this method"},
		wire.CodeConflict:            {http.StatusConflict, "The state moved"},
		wire.CodePlanDrift:           {http.StatusConflict, "Protection changed since approval"},
		wire.CodeHeld:                {http.StatusConflict, "A hold forbids it"},
		wire.CodeErasurePending:      {http.StatusConflict, "Closed by an erasure"},
		wire.CodeRestricted:          {http.StatusConflict, "Restricted"},
		wire.CodeExecutionErased:     {http.StatusGone, "The execution was erased"},
		wire.CodeBlobErased:          {http.StatusGone, "These bytes were erased"},
		wire.CodeTooLarge:            {http.StatusRequestEntityTooLarge, "A limit was passed"},
		wire.CodeUnsupportedEncoding: {http.StatusUnsupportedMediaType, "The body has a Content-Encoding"},
		wire.CodePolicyForbids:       {http.StatusUnprocessableEntity, "A policy refuses this content"},
		wire.CodeKeyReused:           {http.StatusUnprocessableEntity, "The idempotency key was used for another request"},
		wire.CodeRateLimited:         {http.StatusTooManyRequests, "Too much at once"},
		wire.CodeCorrupt:             {http.StatusInternalServerError, "Stored bytes do not authenticate"},
		wire.CodeBlobMissing:         {http.StatusInternalServerError, "A live blob is missing from the store"},
		wire.CodeKeyMissing:          {http.StatusInternalServerError, "The key of a live blob is missing"},
		wire.CodeInternal:            {http.StatusInternalServerError, "The server failed"},
		wire.CodeNotImplemented:      {http.StatusNotImplemented, "Not in this version"},
		wire.CodeUnavailable:         {http.StatusServiceUnavailable, "No definite answer"},
	}
}

// meaning ties an error of the closed set to a code.
type meaning struct {
	err    error
	code   wire.Code
	detail string
}

// meanings is the one table of errors, read from the top. What is not definite
// beats all: an error that wraps ErrUnavailable says that nobody knows, whatever
// else it wraps. A refinement stands before what it refines.
func meanings() []meaning {
	return []meaning{
		{blobd.ErrClockSuspect, wire.CodeUnavailable, "the clock may have jumped, and only time decides this: it waits until the clock is right or an operator confirms it (GET /v1/clock)"},
		{blobd.ErrUnavailable, wire.CodeUnavailable, "a dependency gave no definite answer"},
		{context.DeadlineExceeded, wire.CodeUnavailable, "a dependency did not answer in time"},
		{context.Canceled, wire.CodeUnavailable, "the request was given up"},

		{blobd.ErrDigestMismatch, wire.CodeDigestMismatch, "the body has another digest than Repr-Digest says; nothing was stored"},
		{blobd.ErrInvalidUTF8, wire.CodeInvalidUTF8, "the body is not valid UTF-8"},
		{blobd.ErrUnknownField, wire.CodeUnknownField, "the body has an unknown field"},
		{blobd.ErrInvalid, wire.CodeInvalid, "the request is wrong"},
		{blobd.ErrTooLarge, wire.CodeTooLarge, "a limit was passed"},
		{blobd.ErrBlobErased, wire.CodeBlobErased, "these bytes were erased in this execution and never come back"},
		{blobd.ErrTenantErased, wire.CodeExecutionErased, "the tenant was off-boarded and never comes back"},
		{blobd.ErrErased, wire.CodeExecutionErased, "the execution was erased and never comes back"},
		{blobd.ErrRestricted, wire.CodeRestricted, "a restriction covers it"},
		{blobd.ErrClosed, wire.CodeErasurePending, "an erasure that is not done covers it"},
		{blobd.ErrHeld, wire.CodeHeld, "a hold forbids it"},
		{blobd.ErrPlanDrift, wire.CodePlanDrift, "the plan is another one, or what protects something in it changed: look at it again"},
		{blobd.ErrConflict, wire.CodeConflict, "the state moved, or the name is taken"},
		{blobd.ErrKeyReused, wire.CodeKeyReused, "the Idempotency-Key was used with another body"},
		{blobd.ErrSuppressed, wire.CodePolicyForbids, "a subject is suppressed; nothing was stored"},
		{blobd.ErrPolicy, wire.CodePolicyForbids, "a policy refuses this content"},
		{blobd.ErrCorrupt, wire.CodeCorrupt, "stored bytes do not authenticate"},
		{blobd.ErrKeyMissing, wire.CodeKeyMissing, "the ledger says live, the key service says absent"},
		{blobd.ErrMissing, wire.CodeBlobMissing, "the ledger says live, the store says absent"},
		{blobd.ErrNotFound, wire.CodeNotFound, "there is no such thing"},
		// ErrDenied is blobd's own credential refused by a dependency, and
		// ErrExpired never leaves the core: neither says anything definite here.
	}
}

// classify turns any error into a problem. An error that nobody classified is
// not definite.
func (e *errorTable) classify(err error) *problem {
	var p *problem
	if errors.As(err, &p) {
		return p
	}
	for _, m := range e.meanings {
		if errors.Is(err, m.err) {
			return &problem{m.code, m.detail}
		}
	}
	return &problem{wire.CodeUnavailable, "no definite answer"}
}

// errorTable is both tables, built once per API.
type errorTable struct {
	meanings []meaning
	kinds    map[wire.Code]kind
}

func newErrorTable() *errorTable { return &errorTable{meanings(), kinds()} }

// refsOf returns the refs that an error is about, as text.
func refsOf(err error) []string {
	var about *blobd.RefsError
	if !errors.As(err, &about) {
		return nil
	}
	return refStrings(about.Refs)
}

func refStrings(refs []blobd.Ref) []string {
	out := make([]string, len(refs))
	for i, r := range refs {
		out[i] = r.String()
	}
	return out
}
