package ledger

import (
	"time"

	"github.com/blobd/blobd"
)

// Tenant is a tenant's row.
type Tenant struct {
	ID        string
	CreatedAt time.Time
	// NameKey (32 random bytes) keys execution tags, principals and the tags in
	// evidence. It lies in clear beside the ids that it hides from others: it
	// keeps them out of the bucket and the log, not out of the ledger.
	NameKey []byte
	// IndexKey keys subject hashes; it is wrapped by the tenant's KEK. A fenced
	// tenant has none.
	IndexKey    []byte
	IndexWrap   uint32 // KEK version that wrapped IndexKey
	MinimumWrap uint32 // oldest KEK version that a new wrap may carry
	// FencedAt is when the tenant was off-boarded, FencedBy the id of the erasure
	// that did it; zero: it was not. NameKey is empty where the row was lost and
	// only the fence came back, by way of the journal.
	FencedAt time.Time
	FencedBy string
	// Approvals is how many people must approve an erasure.
	Approvals int
}

// Token is an API token without its secret.
type Token struct {
	ID        string
	Tenant    string
	Name      string
	Hash      [32]byte // SHA-256 of the whole token, which holds 256 random bits
	Roles     []string // sorted
	CreatedAt time.Time
	ExpiresAt time.Time // zero: none
	RevokedAt time.Time // zero: not revoked
}

// WrappedKey is an execution's pair of keys as the ledger holds it.
type WrappedKey struct {
	ID         [16]byte
	Version    uint32 // KEK version
	Ciphertext []byte
}

// Execution is an execution's row.
type Execution struct {
	Tag         blobd.ExecutionTag
	Tenant      string
	ID          string // "" for a fence known only by its tag
	State       ExecutionState
	CloseReason CloseReason
	Key         *WrappedKey // nil once erased
	CreatedAt   time.Time
	EndedAt     time.Time // zero: not ended
	ErasedAt    time.Time // zero: not erased
	Blobs       int64     // live blobs
	Bytes       int64     // readable bytes of live blobs
}

// Summary is an execution with what only a count can tell.
type Summary struct {
	Execution
	Classes map[string]int64 // live blobs per class
	Steps   int64            // distinct step ids
	NextDue time.Time        // earliest end of a live blob's maximum; zero: none
}

// Blob is a blob's row.
type Blob struct {
	Ref         blobd.Ref
	State       BlobState
	Class       string
	Kind        blobd.Kind
	ContentType string
	Size        int64 // readable bytes
	SealedSize  int64
	StepID      string    // of the first capture
	CreatedAt   time.Time // the start of its retention, and never moved
	Repeat      [32]byte  // zero once released
	WrappedKey  []byte    // by the execution key; nil once dropped
	Audience    [][32]byte
	// ExpiresAt is the end of its maximum by the policies of now: see EndOf. Zero:
	// none yet.
	ExpiresAt time.Time
	// Closed says that an open order closes this row, or its whole execution or
	// tenant, and why; a closing comes before a restriction. All that tells of single
	// rows sets it. In an execution that is erased or has no row it is not told.
	Closed CloseReason
	// Held says that an open hold covers a row that is past its maximum by the ledger's
	// clock; of others it is not told, and neither where Closed is not.
	Held bool
}

// Expired reports whether the blob is past its maximum at now.
func (b *Blob) Expired(now time.Time) bool {
	return !b.ExpiresAt.IsZero() && !now.Before(b.ExpiresAt)
}

// View is one consistent answer of the ledger for one execution.
type View struct {
	Now time.Time // by the ledger's clock, UTC
	// Trusted is set by who judges Now (see Watch), never by an engine: where that clock
	// is suspect, the time that it should be about; zero: it is not suspect.
	Trusted     time.Time
	Recovery    RecoveryState
	Execution   *Execution // nil where there is no row
	Blobs       []*Blob
	MinimumWrap uint32 // the tenant's; 0 where the execution has no row
}

// Doubtful reports whether only a suspect clock says that a row is past its maximum, or
// that it is not yet.
func (v *View) Doubtful(b *Blob) bool {
	return !v.Trusted.IsZero() && (b.Expired(v.Now) || b.Expired(v.Trusted))
}

// Capture is one commit of a put or of a model call's parts.
//
// Commit checks, in this order, and inserts nothing on an error:
// an erased execution is ErrErased; a fenced tenant ErrTenantErased; an execution
// that is closed, or a class, ref or subject of the capture (a class as of At), ErrClosed
// or ErrRestricted; a suppressed subject (as of AsOf) ErrSuppressed; an unknown tenant is ErrNotFound; a new execution whose key is wrapped by a
// version older than the tenant's minimum is ErrConflict; an execution that has
// another key than Key is *KeyConflict; a blob whose repeat tag has an erased row
// is ErrBlobErased (*RefsError with the refs of those rows); a repeat tag whose live
// row, or a part whose live row, is closed is ErrClosed or ErrRestricted; a ref in use is ErrConflict, and so is a part that names a row that is not live any more.
// A blob whose repeat tag has a live row that has not expired at At is not
// inserted: that row is the answer. If that row has expired it becomes
// superseded and the blob is inserted. Subjects are added to every row that the
// capture inserts, answers with or names.
type Capture struct {
	Tenant      string
	Tag         blobd.ExecutionTag
	ExecutionID string
	Key         WrappedKey // of the execution; inserted with it if it is new
	At          time.Time
	// AsOf is when a suppression must not have ended to refuse the capture; zero: At.
	AsOf     time.Time
	Blobs    []NewBlob // 0 to 256
	Parts    []Part    // attempt records, 1 to 256
	Subjects [][32]byte
	Provider string
	Model    string
	StepID   string
	Attempt  int64
	Entry    Entry // of kind EntryPut; entries of one commit batch are joined
}

// SuppressedAsOf is AsOf, or At.
func (c *Capture) SuppressedAsOf() time.Time {
	if c.AsOf.IsZero() {
		return c.At
	}
	return c.AsOf
}

// NewBlob is a blob to insert. A retained repeat (a ref that the put found
// live) is named by Ref alone in its Part and is not among the new blobs.
type NewBlob struct {
	Ref         blobd.Ref
	Class       string // never empty
	Kind        blobd.Kind
	ContentType string
	Size        int64
	SealedSize  int64
	Repeat      [32]byte
	WrappedKey  []byte
	Audience    [][32]byte
}

// PartStatus says what was kept of a captured part.
type PartStatus uint8

// The statuses of a captured part. Values are stored: never renumber.
const (
	PartKept     PartStatus = 1 // Blob or Ref says where
	PartRedacted PartStatus = 2 // the provider withheld it
	PartOmitted  PartStatus = 3 // readable text existed and was not kept
	PartEmpty    PartStatus = 4 // no readable text
)

// Part is the attempt record of one part: recorded once per (step, attempt,
// index, ref).
type Part struct {
	Index  int
	Kind   blobd.Kind
	Status PartStatus
	Blob   int       // index into Capture.Blobs, or -1
	Ref    blobd.Ref // when Blob is -1 and Status is PartKept: a row found live
}

// Committed is what Commit did.
type Committed struct {
	// Blobs has the row for each of Capture.Blobs: the new one, or the live row
	// that already had its repeat tag.
	Blobs []Blob
	// Created says which of them are new.
	Created []bool
}

// KeyConflict says that the execution has another key, made by a put that won.
type KeyConflict struct{ Winner WrappedKey }

// Error implements error.
func (*KeyConflict) Error() string { return "the execution has another key" }

// Unwrap returns ErrConflict.
func (*KeyConflict) Unwrap() error { return blobd.ErrConflict }

// RecordQuery selects attempt records.
type RecordQuery struct {
	Tag        blobd.ExecutionTag
	StepID     string // exact, if set
	StepPrefix string // if set
	After      int64  // Seq
	Limit      int
}

// RecordedPart is an attempt record with the row that it names.
type RecordedPart struct {
	Seq      int64 // log order within the ledger
	StepID   string
	Attempt  int64
	Index    int
	Kind     blobd.Kind
	Status   PartStatus
	Provider string
	Model    string
	At       time.Time
	Ref      blobd.Ref
	Blob     *Blob // nil where Status is not PartKept
}

// ExecutionQuery selects executions.
type ExecutionQuery struct {
	Tenant string
	State  ExecutionState // 0: any
	Class  string         // "": any; else has a live blob of that class
	Before ExecutionCursor
	Limit  int
}

// ExecutionCursor is a position in the order newest first; zero is the start.
type ExecutionCursor struct {
	CreatedAt time.Time
	Tag       blobd.ExecutionTag
}

// Position is a blob's place in (execution tag, ref) order.
type Position struct {
	Tag blobd.ExecutionTag
	Ref blobd.Ref
}

// ScannedBlob is a row with what is needed to open it.
type ScannedBlob struct {
	Position
	Blob           Blob
	Tenant         string
	ExecutionID    string
	ExecutionState ExecutionState
	Key            *WrappedKey
}

// Identity is the deployment's own row.
type Identity struct {
	ID        string // 32 lowercase hex digits
	Confirmed bool   // the store was seen to hold the identity object
	Recovery  RecoveryState
	New       bool // inserted by this call
}

// Request is a remembered answer. Key and Body are keyed hashes: neither the
// caller's key nor its body is kept.
type Request struct {
	Tenant string
	Route  string
	Key    [32]byte
	Body   [32]byte
	At     time.Time
	Status int    // 0: still running
	Answer []byte // sealed under the caller's key
}

// Stats are counts for metrics.
type Stats struct {
	Blobs, Executions, Bytes int64     // live
	ErasuresOpen             int64     // that have not ended
	OldestErasure            time.Time // when the oldest of those that run was asked for; zero: none runs
	JournalUnpublished       int64
	WALBytes                 int64 // SQLite only
}
