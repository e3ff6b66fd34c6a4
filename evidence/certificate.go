package evidence

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/gowebpki/jcs"

	"github.com/blobd/blobd"
)

// What a certificate calls itself.
const (
	CertificateType = "blobd erasure certificate"
	// CertificateVersion is the newest: of an erasure of which it is known what it took
	// beyond its plan. Of one without that, version 2 is given out, which is the same
	// without Delta. Version 1 is of what the first version of blobd erased. Each verifies
	// for ever.
	CertificateVersion = 3
	signatureAlgorithm = "Ed25519"
)

// Certificate says what an erasure did, proves that the log says so, and is
// signed with the log's key.
//
// Its bytes are canonical JSON (RFC 8785), in which white space between tokens
// is free and nothing else: ParseCertificate refuses every other spelling. The
// signature is over "blobd/v1/certificate" and a line feed, followed by the
// canonical JSON of an object with the members log and statement.
type Certificate struct {
	Log       Inclusion `json:"log"`
	Signature Signature `json:"signature"`
	Statement Statement `json:"statement"`
}

// Inclusion is an entry of the log and the proof that a checkpoint covers it.
type Inclusion struct {
	Index      int64    `json:"index"`
	Leaf       []byte   `json:"leaf"`           // base64; see LeafOf
	Body       []byte   `json:"body,omitempty"` // base64; where the leaf holds its hash only
	Proof      [][]byte `json:"proof"`          // base64; RFC 6962 audit path, from the leaf up
	Checkpoint string   `json:"checkpoint"`     // the signed note
}

// Signature is the signature of a certificate.
type Signature struct {
	Algorithm string `json:"algorithm"`
	Key       string `json:"key"`   // the verifier, "name+hash+base64"
	Value     []byte `json:"value"` // base64
}

// What became of an erasure, as a statement says it.
const (
	OutcomeErased   = "erased"   // all of its scope
	OutcomePartial  = "partial"  // some of it; the rest is protected, closed and listed
	OutcomeDeferred = "deferred" // nothing yet: all of it is protected, and closed
	OutcomeDenied   = "denied"   // nothing more than is counted
)

// Statement is what a certificate states. It holds no text, no digest of a text,
// no subject, no execution id and no free text: executions, subjects and whoever acted
// appear as keyed tags.
type Statement struct {
	Type    string `json:"type"`
	Version int    `json:"version"`
	Erasure string `json:"erasure"` // its id, which is the certificate's too
	Log     string `json:"log"`     // origin
	Tenant  string `json:"tenant"`
	Tool    Tool   `json:"tool"`
	// Outcome is one of the Outcome words; absent in version 1, which knows erased only.
	Outcome string `json:"outcome,omitempty"`

	Scope       CertifiedScope `json:"scope"`
	Regime      string         `json:"regime,omitempty"`
	ReceivedAt  *time.Time     `json:"receivedAt,omitempty"`
	DueAt       *time.Time     `json:"dueAt,omitempty"`
	FencedAt    time.Time      `json:"fencedAt"` // from then on every read was null; if denied before that: when it was asked for
	ErasedAt    time.Time      `json:"erasedAt"` // when all of it was read back as absent; of another outcome: when it came
	RequestedBy string         `json:"requestedBy"`
	ApprovedBy  []string       `json:"approvedBy"`
	Plan        CertifiedPlan  `json:"plan"`
	// Delta is what was erased, or is left protected, beyond Plan: what joined the scope
	// after the plan was counted, less what left it; absent before version 3.
	Delta *Delta `json:"delta,omitempty"`

	Method       []string    `json:"method"` // for every blob in scope: each of these
	Keys         ErasedKeys  `json:"keys"`
	Objects      ErasedStore `json:"objects"`
	Verification []string    `json:"verification"`
	Exceptions   []string    `json:"exceptions"` // outcome codes, each once
	Details      []Exception `json:"exceptionDetails,omitempty"`
	Residuals    []Residual  `json:"residuals"`
	Limits       []string    `json:"limits"`
}

// Tool says what made the certificate.
type Tool struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// Exception is what an outcome code stands for in an erasure.
type Exception struct {
	Code  string `json:"code"`
	Count int64  `json:"count"` // blobs; of an execution that was not found or was erased before: 1
	// From and Until are when it began and ended to be so; absent: there is no date, or
	// it is so still.
	From  *time.Time `json:"from,omitempty"`
	Until *time.Time `json:"until,omitempty"`
}

// CertifiedScope is what was erased: an execution, refs within one, what was tagged
// with a person, a class, or the whole tenant.
type CertifiedScope struct {
	ScopeStep
	Refs        []string `json:"refs,omitempty"`
	WholeTenant bool     `json:"wholeTenant,omitempty"`
}

// CertifiedPlan counts what was planned, and approved; of an erasure that fenced as it
// was asked for, what it found.
type CertifiedPlan struct {
	Digest        string `json:"digest"`
	Executions    int64  `json:"executions"`
	Blobs         int64  `json:"blobs"`
	Bytes         int64  `json:"bytes"` // readable
	AlreadyErased int64  `json:"alreadyErased"`
	NotFound      int64  `json:"notFound"`
	// Among Blobs.
	Held   int64 `json:"held,omitempty"`
	Floor  int64 `json:"floor,omitempty"`
	Shared int64 `json:"shared,omitempty"` // tagged with somebody else too
}

// ErasedKeys counts destroyed keys and names the KEK that had wrapped them.
type ErasedKeys struct {
	Destroyed int64  `json:"destroyed"` // blob keys
	KEK       string `json:"kek"`       // of this tenant
	// KEKVersion is the newest version that could open what was dropped; 0: not
	// recorded.
	KEKVersion uint32 `json:"kekVersion"`
	// KEKDestroyedAt is when the KEK was destroyed in every version; absent: it
	// goes on.
	KEKDestroyedAt *time.Time `json:"kekDestroyedAt,omitempty"`
}

// ErasedStore counts what was deleted from the object store.
type ErasedStore struct {
	Deleted  int64 `json:"deleted"`  // names
	Versions int64 `json:"versions"` // versions, markers and uploads, the newest included
}

// Residual is what may be left, and until when.
type Residual struct {
	What string `json:"what"`
	// Until is when it is gone, or can be opened no more; absent: no date is
	// known. Reached: that was done; else it is planned.
	Until   *time.Time `json:"until,omitempty"`
	Reached bool       `json:"reached"`
}

// encode is the canonical JSON.
func (c Certificate) encode() ([]byte, error) { return canonical(c) }

func canonical(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("certificate: %w", err)
	}
	b, err = jcs.Transform(b)
	if err != nil {
		return nil, fmt.Errorf("certificate: %w", err)
	}
	return b, nil
}

// signed is what the signature is over.
func (c Certificate) signed() ([]byte, error) {
	b, err := canonical(struct {
		Log       Inclusion `json:"log"`
		Statement Statement `json:"statement"`
	}{c.Log, c.Statement})
	if err != nil {
		return nil, err
	}
	return append([]byte("blobd/v1/certificate\n"), b...), nil
}

// maxCertificate bounds a certificate, in bytes.
const maxCertificate = 64 << 20

// ParseCertificate reads a certificate without verifying it. White space apart,
// only the canonical spelling is taken: unknown, absent and repeated members,
// other escapes, other base64 and other times are ErrInvalid.
func ParseCertificate(b []byte) (Certificate, error) {
	if len(b) > maxCertificate {
		return Certificate{}, fmt.Errorf("certificate: more than %d bytes: %w", maxCertificate, blobd.ErrTooLarge)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, b); err != nil {
		return Certificate{}, fmt.Errorf("certificate: not JSON: %w", blobd.ErrInvalid)
	}
	var c Certificate
	if err := json.Unmarshal(b, &c); err != nil {
		return Certificate{}, fmt.Errorf("certificate: not the JSON of one: %w", blobd.ErrInvalid)
	}
	again, err := c.encode()
	if err != nil {
		return Certificate{}, fmt.Errorf("%w: %w", err, blobd.ErrInvalid)
	}
	if !bytes.Equal(again, compact.Bytes()) {
		return Certificate{}, fmt.Errorf("certificate: not in its canonical spelling: %w", blobd.ErrInvalid)
	}
	return c, nil
}
