// Package wire is the shape of blobd's HTTP contract: what goes over the wire,
// and the words that both sides use. It is a leaf: the server, the Go client and
// the OpenAPI document are all made from it.
//
// It holds no behaviour beyond how a text is written, and nothing in it was
// checked: the server checks what it reads. Times are RFC 3339 in UTC, sizes are
// bytes, digests are lowercase hex.
package wire

// Roles of a token.
const (
	RoleRuntime  = "runtime"
	RoleAuditor  = "auditor"
	RoleDPO      = "dpo"
	RoleHolds    = "holds"
	RoleApprover = "approver"
	RoleOperator = "operator"
	RoleAdmin    = "admin"
)

// Roles lists every role.
func Roles() []string {
	return []string{RoleRuntime, RoleAuditor, RoleDPO, RoleHolds, RoleApprover, RoleOperator, RoleAdmin}
}

// Code is the machine-readable word of a problem.
type Code string

// The codes of the contract.
const (
	CodeInvalid             Code = "invalid"
	CodeUnknownField        Code = "unknown_field"
	CodeInvalidUTF8         Code = "invalid_utf8"
	CodeDigestMismatch      Code = "digest_mismatch"
	CodeUnsupportedEncoding Code = "unsupported_encoding"
	CodeUnauthenticated     Code = "unauthenticated"
	CodeForbidden           Code = "forbidden"
	CodeNull                Code = "null"
	CodeNoSuchRoute         Code = "no_such_route"
	CodeNotFound            Code = "not_found"
	CodeConflict            Code = "conflict"
	CodePlanDrift           Code = "plan_drift"
	CodeHeld                Code = "held"
	CodeErasurePending      Code = "erasure_pending"
	CodeRestricted          Code = "restricted"
	CodeExecutionErased     Code = "execution_erased"
	CodeBlobErased          Code = "blob_erased"
	CodeTooLarge            Code = "too_large"
	CodePolicyForbids       Code = "policy_forbids"
	CodeKeyReused           Code = "key_reused"
	CodeRateLimited         Code = "rate_limited"
	CodeCorrupt             Code = "corrupt"
	CodeBlobMissing         Code = "blob_missing"
	CodeKeyMissing          Code = "key_missing"
	CodeNotImplemented      Code = "not_implemented"
	CodeUnavailable         Code = "unavailable"
	// CodeMethodNotAllowed: the route exists, the method does not (405).
	CodeMethodNotAllowed Code = "method_not_allowed"
	// CodeInternal: the server itself failed (500); what the request did is not
	// known.
	CodeInternal Code = "internal"
)

// Headers of the contract, in canonical form.
const (
	HeaderRequestID      = "Blobd-Request-Id"
	HeaderTenant         = "Blobd-Tenant"
	HeaderExecutionID    = "Blobd-Execution-Id"
	HeaderSubjects       = "Blobd-Subjects"
	HeaderAudience       = "Blobd-Audience"
	HeaderPrincipal      = "Blobd-Principal"
	HeaderExpectDigest   = "Blobd-Expect-Digest"
	HeaderResolution     = "Blobd-Resolution"
	HeaderKind           = "Blobd-Kind"
	HeaderClass          = "Blobd-Class"
	HeaderReprDigest     = "Repr-Digest"
	HeaderIdempotencyKey = "Idempotency-Key"
)

// ResolutionNull marks the one 404 that is a definitive null.
const ResolutionNull = "null"

// ResolutionCorrupt marks the 500 for bytes that do not authenticate.
const ResolutionCorrupt = "corrupt"

// Media types.
const (
	TypeProblem = "application/problem+json"
	TypeJSON    = "application/json"
	TypeCSV     = "text/csv"
)

// Limits of the contract that do not depend on the configuration.
const (
	// MaxParts bounds a capture, a batch and an audit read.
	MaxParts = 256
	// MaxList is the largest page of a listing; DefaultList is the usual one.
	MaxList     = 1000
	DefaultList = 100
	// MaxPeople bounds the subjects and the principals of one request.
	MaxPeople = 256
	// MaxEraseRefs bounds the refs of one erasure.
	MaxEraseRefs = 1000
	// MaxReason bounds a reason, a legal basis and an external reference; it is
	// also the bound of a purpose.
	MaxReason = 1024
	// MaxIdempotencyKey bounds an Idempotency-Key.
	MaxIdempotencyKey = 255
)

// Text is a readable text in JSON: a string whose bytes can be wiped. It never
// prints itself.
type Text struct{ b []byte }

// TextOf takes ownership of b.
func TextOf(b []byte) Text { return Text{b} }

// Bytes lends the text's own memory.
func (t *Text) Bytes() []byte {
	if t == nil {
		return nil
	}
	return t.b
}

// Len returns the number of bytes.
func (t *Text) Len() int { return len(t.Bytes()) }

// Wipe overwrites the text with zeros.
func (t *Text) Wipe() { clear(t.Bytes()) }

// UnmarshalText copies a decoded JSON string.
func (t *Text) UnmarshalText(b []byte) error {
	t.b = append([]byte{}, b...)
	return nil
}

// AppendText gives the text to an encoder.
func (t Text) AppendText(b []byte) ([]byte, error) { return append(b, t.b...), nil }

// MarshalText gives the text to an encoder.
func (t Text) MarshalText() ([]byte, error) { return t.b, nil }

// String hides the text.
func (Text) String() string { return "[text]" }

// GoString hides the text.
func (Text) GoString() string { return "[text]" }
