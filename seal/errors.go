package seal

import "github.com/blobd/blobd"

// Reason is which check failed, in the order of docs/format.md.
type Reason string

// The reasons.
const (
	ReasonMagic      Reason = "magic"
	ReasonTruncated  Reason = "truncated"
	ReasonVersion    Reason = "version"
	ReasonSuite      Reason = "suite"
	ReasonReserved   Reason = "reserved"
	ReasonLengths    Reason = "lengths"
	ReasonTrailing   Reason = "trailing"
	ReasonKeyID      Reason = "key id"
	ReasonCommitment Reason = "commitment"
	ReasonTag        Reason = "tag"
	ReasonMetadata   Reason = "metadata"
	ReasonTenant     Reason = "tenant"
	ReasonExecution  Reason = "execution"
	ReasonSize       Reason = "size"
	ReasonDigest     Reason = "digest"
)

// CorruptError is an ErrCorrupt with its reason. It holds no byte of a key, a
// metadata or a content.
type CorruptError struct {
	Op     string // "parse", "open" or "unwrap key"
	Reason Reason
}

func corrupt(op string, r Reason) error { return &CorruptError{op, r} }

// Error names the operation and the reason.
func (e *CorruptError) Error() string {
	return e.Op + ": " + string(e.Reason) + ": " + blobd.ErrCorrupt.Error()
}

// Unwrap returns ErrCorrupt.
func (e *CorruptError) Unwrap() error { return blobd.ErrCorrupt }
