// Package blobd holds the words that every other package of this module shares:
// refs, digests, execution tags, kinds, principals, the rules for identifiers,
// the closed set of errors, and the types for keys and texts that refuse to
// print themselves.
//
// It promises that a value of these types was checked where it was made, and it
// never does any input or output, reads no clock and imports only the standard
// library.
package blobd

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Ref names one sealed blob: the SHA-256 of the sealed bytes as stored.
// Its text form is "sha256:" and 64 lowercase hex digits.
type Ref [sha256.Size]byte

// RefOf returns the ref of sealed bytes.
func RefOf(sealed []byte) Ref { return sha256.Sum256(sealed) }

const refPrefix = "sha256:"

// ParseRef reads the text form of a ref. It accepts exactly one spelling:
// anything else is ErrInvalid, so a ref can never climb out of a folder or name
// another algorithm.
func ParseRef(s string) (Ref, error) {
	hexPart, ok := strings.CutPrefix(s, refPrefix)
	if !ok {
		return Ref{}, fmt.Errorf("ref: want %q and 64 lowercase hex digits: %w", refPrefix, ErrInvalid)
	}
	b, err := parseHex32(hexPart)
	if err != nil {
		return Ref{}, fmt.Errorf("ref: %w", err)
	}
	return Ref(b), nil
}

// ParseRefHex reads the 64 hex digits that end an object's name.
func ParseRefHex(s string) (Ref, error) {
	b, err := parseHex32(s)
	return Ref(b), err
}

// String returns the text form.
func (r Ref) String() string { return refPrefix + r.Hex() }

// Hex returns the 64 hex digits without the algorithm.
func (r Ref) Hex() string { return hex.EncodeToString(r[:]) }

// Digest is the SHA-256 of a blob's readable bytes. The caller knows it and the
// envelope holds it encrypted; blobd keeps it nowhere in clear. Printing or
// marshalling a Digest shows none of it; Hex is the one deliberate way to its
// value. (Within a struct's unexported field package fmt cannot be told so.)
type Digest [sha256.Size]byte

// DigestOf returns the digest of readable bytes.
func DigestOf(content []byte) Digest { return sha256.Sum256(content) }

// ParseDigest reads 64 lowercase hex digits.
func ParseDigest(s string) (Digest, error) {
	b, err := parseHex32(s)
	if err != nil {
		return Digest{}, fmt.Errorf("digest: %w", err)
	}
	return Digest(b), nil
}

// Hex returns the digest for an answer to the caller that may know it.
func (d Digest) Hex() string { return hex.EncodeToString(d[:]) }

// Format hides the digest from every verb of package fmt.
func (d Digest) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("[digest]")) }

// LogValue hides the digest from package log/slog.
func (d Digest) LogValue() slog.Value { return slog.StringValue("[digest]") }

// MarshalText refuses, and with it every encoder that would write the digest.
func (d Digest) MarshalText() ([]byte, error) { return nil, errSecret }

// MarshalBinary refuses, and with it package encoding/gob.
func (d Digest) MarshalBinary() ([]byte, error) { return nil, errSecret }

// ExecutionTag names an execution where its id must not appear: in object
// names, evidence and the journal. It is keyed by the tenant (see
// ledger.Tenant.NameKey), so it also tells tenants apart.
type ExecutionTag [16]byte

// String returns 32 lowercase hex digits.
func (t ExecutionTag) String() string { return hex.EncodeToString(t[:]) }

// ParseExecutionTag reads 32 lowercase hex digits.
func ParseExecutionTag(s string) (ExecutionTag, error) {
	var t ExecutionTag
	if len(s) != hex.EncodedLen(len(t)) || !isLowerHex(s) {
		return t, fmt.Errorf("execution tag: want 32 lowercase hex digits: %w", ErrInvalid)
	}
	_, err := hex.Decode(t[:], []byte(s))
	return t, err
}

// Kind says what the provider called a reasoning text. A kind is never
// upgraded: a summary never becomes a text.
type Kind string

// The kinds. A redacted part has no readable text.
const (
	KindText     Kind = "text"
	KindSummary  Kind = "summary"
	KindRedacted Kind = "redacted"
)

// ParseKind accepts the three kinds; the empty string is KindText.
func ParseKind(s string) (Kind, error) {
	switch k := Kind(s); k {
	case "":
		return KindText, nil
	case KindText, KindSummary, KindRedacted:
		return k, nil
	}
	return "", fmt.Errorf("kind: want text, summary or redacted: %w", ErrInvalid)
}

// DefaultClass is the class of a blob that names none.
const DefaultClass = "reasoning"

// Principal is who a text may be shown to, or who asks for it.
type Principal struct {
	Tenant     string  `json:"tenant"`
	Actor      string  `json:"actor"`
	OnBehalfOf *string `json:"onBehalfOf"`
}

// Limits on identifiers, in bytes.
const (
	MaxExecutionID = 256
	MaxStepID      = 512
	MaxClass       = 63
	MaxSubject     = 512
	MaxContentType = 255
)

// CheckExecutionID accepts valid UTF-8 of 1 to 256 bytes without control
// characters that is neither "." nor "..".
func CheckExecutionID(id string) error {
	if id == "" || id == "." || id == ".." {
		return fmt.Errorf("executionId: must not be empty, \".\" or \"..\": %w", ErrInvalid)
	}
	return checkText("executionId", id, MaxExecutionID)
}

// CheckStepID accepts valid UTF-8 of 0 to 512 bytes without control characters.
func CheckStepID(id string) error { return checkText("stepId", id, MaxStepID) }

// CheckSubject accepts a person's identifier: valid UTF-8, 1 to 512 bytes, no
// control characters. The error never repeats it.
func CheckSubject(s string) error {
	if s == "" {
		return fmt.Errorf("subject: must not be empty: %w", ErrInvalid)
	}
	return checkText("subject", s, MaxSubject)
}

// CheckName accepts a short label such as a provider, a model or a token's
// name: valid UTF-8, at most 256 bytes, no control characters.
func CheckName(what, s string) error { return checkText(what, s, 256) }

// CheckClass accepts [a-z][a-z0-9-]{0,62}.
func CheckClass(class string) error {
	ok := len(class) >= 1 && len(class) <= MaxClass && class[0] >= 'a' && class[0] <= 'z'
	for i := 1; ok && i < len(class); i++ {
		c := class[i]
		ok = c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-'
	}
	if !ok {
		return fmt.Errorf("class: want [a-z][a-z0-9-]{0,62}: %w", ErrInvalid)
	}
	return nil
}

// checkText never repeats the value: it may be long, hostile or a person's.
func checkText(what, s string, limit int) error {
	switch {
	case len(s) > limit:
		return fmt.Errorf("%s: more than %d bytes: %w", what, limit, ErrInvalid)
	case !utf8.ValidString(s):
		return fmt.Errorf("%s: not valid UTF-8: %w", what, ErrInvalid)
	case strings.ContainsFunc(s, unicode.IsControl):
		return fmt.Errorf("%s: holds a control character: %w", what, ErrInvalid)
	}
	return nil
}

func parseHex32(s string) (b [32]byte, err error) {
	if len(s) != 64 || !isLowerHex(s) {
		return b, fmt.Errorf("want 64 lowercase hex digits: %w", ErrInvalid)
	}
	_, err = hex.Decode(b[:], []byte(s))
	return b, err
}

func isLowerHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
