// Package evidence makes the entries that prove what blobd did, and keeps the
// journal that survives a rolled-back ledger.
//
// It promises that an entry holds no text, no digest of a text, no subject and
// no free text about a person: executions and actors appear as keyed tags, free
// text only as a salted commitment. It never decides anything: the ledger
// inserts entries and journal records in the transaction of the act that they
// speak of.
package evidence

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// saltSize is the size of a commitment's salt, in bytes.
const saltSize = 32

// Tag returns the keyed tag of a value: the first 16 bytes of
// HMAC-SHA-256(key, label ‖ 0 ‖ value). The label keeps uses apart.
func Tag(key []byte, label, value string) [16]byte {
	m := hmac.New(sha256.New, key)
	_, _ = io.WriteString(m, label)
	_, _ = m.Write([]byte{0})
	_, _ = io.WriteString(m, value)
	var sum [sha256.Size]byte
	return [16]byte(m.Sum(sum[:0]))
}

// Scribe makes the entries of one tenant.
type Scribe struct {
	Tenant  string
	NameKey []byte
	Random  io.Reader // salts
}

// actor names who acted without saying who it is.
func (s Scribe) actor(id string) string {
	if id == "" {
		return "blobd"
	}
	tag := Tag(s.NameKey, "blobd/v1/actor", id)
	return hex.EncodeToString(tag[:])
}

func (s Scribe) entry(kind ledger.EntryKind, at time.Time, body any) (ledger.Entry, error) {
	b, err := json.Marshal(body)
	if err != nil {
		return ledger.Entry{}, fmt.Errorf("evidence: %s: %w", kind, err)
	}
	return ledger.Entry{Tenant: s.Tenant, Kind: kind, At: at.UTC(), Body: b}, nil
}

// Put is the entry of one put or capture; the ledger joins those of a commit
// batch.
func (s Scribe) Put(at time.Time, execution blobd.ExecutionTag, actor string, refs []blobd.Ref) (ledger.Entry, error) {
	return s.entry(ledger.EntryPut, at, struct {
		Execution string   `json:"execution"`
		Actor     string   `json:"actor"`
		Refs      []string `json:"refs"`
	}{execution.String(), s.actor(actor), refStrings(refs)})
}

// Read is the entry of a read by a person. The purpose is free text: the body
// holds a commitment to it, the ledger keeps it in an erasable row.
func (s Scribe) Read(at time.Time, execution blobd.ExecutionTag, actor, purpose string, refs []blobd.Ref) (ledger.Entry, error) {
	salt := make([]byte, saltSize)
	if _, err := io.ReadFull(s.Random, salt); err != nil {
		return ledger.Entry{}, fmt.Errorf("evidence: salt: %w", err)
	}
	e, err := s.entry(ledger.EntryRead, at, struct {
		Execution string   `json:"execution"`
		Actor     string   `json:"actor"`
		Purpose   string   `json:"purposeCommitment"`
		Refs      []string `json:"refs"`
	}{execution.String(), s.actor(actor), Commitment(salt, purpose), refStrings(refs)})
	e.FreeText, e.Salt = purpose, salt
	return e, err
}

// Commitment binds an entry to a free text that may be erased: base64 of
// SHA-256(salt ‖ text). Without the 256-bit salt it tells nothing.
func Commitment(salt []byte, text string) string {
	h := sha256.New()
	_, _ = h.Write(salt)
	_, _ = io.WriteString(h, text)
	return base64.StdEncoding.EncodeToString(h.Sum(nil))
}

// The steps of a key epoch, in order.
const (
	StepEpochStarted   = "started"   // asked for
	StepEpochRaised    = "raised"    // the KEK has a new version, older wraps are refused
	StepEpochCompleted = "completed" // no live wrap is older
	StepEpochTrimmed   = "trimmed"   // older versions are destroyed: the horizon
)

// EpochStep is one step of a key epoch.
type EpochStep struct {
	Step      string     `json:"step"`
	Epoch     string     `json:"epoch"`
	Actor     string     `json:"actor"`
	Version   uint32     `json:"version,omitempty"`   // of the KEK
	Rewrapped int64      `json:"rewrapped,omitempty"` // wraps replaced so far
	Rekeyed   int64      `json:"rekeyed,omitempty"`   // among them, by a new key
	TrimAt    *time.Time `json:"trimAt,omitempty"`
}

// Epoch is the entry of one step of a key epoch.
func (s Scribe) Epoch(at time.Time, step string, e ledger.Epoch, actor string) (ledger.Entry, error) {
	body := EpochStep{
		Step: step, Epoch: e.ID, Actor: s.actor(actor), Version: e.Version, Rewrapped: e.Rewrapped, Rekeyed: e.Rekeyed,
	}
	if !e.TrimAt.IsZero() {
		body.TrimAt = &e.TrimAt
	}
	return s.entry(ledger.EntryKeys, at, body)
}

// Act is an entry about the tenant itself: its making, a token, a policy.
func (s Scribe) Act(at time.Time, kind ledger.EntryKind, act, actor, object string) (ledger.Entry, error) {
	return s.entry(kind, at, struct {
		Act    string `json:"act"`
		Actor  string `json:"actor"`
		Object string `json:"object,omitempty"`
	}{act, s.actor(actor), object})
}

// Loss is the entry of an accepted loss.
func (s Scribe) Loss(at time.Time, execution blobd.ExecutionTag, ref blobd.Ref, actor string) (ledger.Entry, error) {
	return s.entry(ledger.EntryRecovery, at, struct {
		Act       string `json:"act"`
		Execution string `json:"execution"`
		Ref       string `json:"ref"`
		Actor     string `json:"actor"`
	}{"loss accepted", execution.String(), ref.String(), s.actor(actor)})
}

// Recovery is the entry of a step of a recovery; it belongs to no tenant.
func Recovery(at time.Time, act string, records, missing int) (ledger.Entry, error) {
	return Scribe{}.entry(ledger.EntryRecovery, at, struct {
		Act     string `json:"act"`
		Records int    `json:"records"`
		Missing int    `json:"missing"`
	}{act, records, missing})
}

func refStrings(refs []blobd.Ref) []string {
	out := make([]string, len(refs))
	for i, r := range refs {
		out[i] = r.String()
	}
	return out
}

// ClockConfirmed is the entry of an operator's word that the ledger's clock is right:
// that it is now, where trusted was expected.
func (s Scribe) ClockConfirmed(now, trusted time.Time, actor string) (ledger.Entry, error) {
	return s.entry(ledger.EntryClock, now, struct {
		Act     string    `json:"act"`
		Actor   string    `json:"actor"`
		Now     time.Time `json:"now"`
		Trusted time.Time `json:"trusted"`
	}{"confirmed", s.actor(actor), now.UTC(), trusted.UTC()})
}
