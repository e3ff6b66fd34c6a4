package ledger

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/blobd/blobd"
)

// EntryKind is what an evidence entry is about.
type EntryKind string

// The kinds of entries.
const (
	EntryPut      EntryKind = "put"      // one batch of puts
	EntryRead     EntryKind = "read"     // a read by a person
	EntryErasure  EntryKind = "erasure"  // one step of an erasure
	EntryOrder    EntryKind = "order"    // a hold, restriction or suppression was placed or lifted
	EntryPolicy   EntryKind = "policy"   // a class policy changed
	EntryTenant   EntryKind = "tenant"   // a tenant was made
	EntryToken    EntryKind = "token"    // a token was made or revoked
	EntryKeys     EntryKind = "keys"     // one step of a key epoch
	EntryEnd      EntryKind = "end"      // an execution ended: a start event
	EntrySweep    EntryKind = "sweep"    // one batch, or the end, of a sweep
	EntryRecovery EntryKind = "recovery" // rollback found, replayed, loss accepted
	EntryClock    EntryKind = "clock"    // an operator confirmed the ledger's clock
)

// Entry is one evidence entry, not yet sequenced. Body is a JSON object made by
// package evidence: it holds no text, no digest of a text, no subject and no
// free text; executions and actors appear as keyed tags.
type Entry struct {
	Tenant string
	Kind   EntryKind
	At     time.Time
	Body   []byte
	// FreeText is what a person wrote (a purpose, a reason). The engine keeps it
	// with Salt in a row of its own that can be erased; Body holds only a salted
	// commitment to it. Both empty: there is none.
	FreeText string
	Salt     []byte
}

// StoredEntry is an entry in the table.
type StoredEntry struct {
	ID int64
	Entry
}

// JoinPuts makes the one entry of a commit batch out of the entries of its
// puts: per tenant, Body is {"puts":[…]} in commit order, At is the newest.
// Both engines use it, so that a batch reads alike.
func JoinPuts(puts []Entry) []Entry {
	var joined []Entry
	index := make(map[string]int, 1)
	for _, p := range puts {
		i, seen := index[p.Tenant]
		if !seen {
			i = len(joined)
			index[p.Tenant] = i
			joined = append(joined, Entry{Tenant: p.Tenant, Kind: EntryPut, At: p.At, Body: []byte(`{"puts":[`)})
		} else {
			joined[i].Body = append(joined[i].Body, ',')
		}
		joined[i].Body = append(joined[i].Body, p.Body...)
		if p.At.After(joined[i].At) {
			joined[i].At = p.At
		}
	}
	for i := range joined {
		joined[i].Body = append(joined[i].Body, "]}"...)
	}
	return joined
}

// RecordKind is what a journal record is about.
type RecordKind string

// The kinds of journal records.
const (
	RecordMark   RecordKind = "mark"   // nothing but how far the ledger was
	RecordFence  RecordKind = "fence"  // an execution was erased
	RecordErase  RecordKind = "erase"  // refs of a living execution were erased
	RecordOrder  RecordKind = "order"  // an order was placed; of a closing, its erasure with it
	RecordLift   RecordKind = "lift"   // an order was lifted
	RecordRevoke RecordKind = "revoke" // a token was revoked
	RecordTenant RecordKind = "tenant" // a tenant was off-boarded; Tag names it in object names
)

// Record is one journal record. The zero record has Seq 0 and means none.
// Seq is given by the ledger's transaction and rises without repeats.
type Record struct {
	Seq       int64
	Kind      RecordKind
	At        time.Time
	Tenant    string
	Tag       blobd.ExecutionTag
	Refs      []blobd.Ref
	ErasureID string
	TokenID   string
	Wrap      uint32 // of a fence (of a tenant too) or erased refs: see Erasure.Wrap
	Writes    int64  // blobs ever committed by this ledger, this record included

	// Of an order: what it is and covers, in Tenant, Tag, Refs and these; free text and
	// the execution's id stay in the ledger. Of a lift OrderID and OrderKind, as it was
	// when it was lifted: a closing is lifted by a denial or a cancellation, and a
	// suppression that a closing became is lifted after its erasure ended.
	OrderID   string
	OrderKind OrderKind
	Form      ScopeForm
	Subjects  [][32]byte
	Class     string
	Before    time.Time // CapturedBefore of the scope
	Purposes  []string
	Until     time.Time // of a suppression ExpiresAt, of a closing the end of its grace
}

// Scope returns what an order's record covers.
func (r *Record) Scope() Scope {
	return Scope{
		Tenant: r.Tenant, Tag: r.Tag, Refs: r.Refs, Subjects: r.Subjects, Class: r.Class, CapturedBefore: r.Before,
		WholeTenant: r.Form == ScopeTenant,
	}
}

// RecordOf is the record of an order that was placed. grace is the end of its
// erasure's grace, of a closing; zero: none.
func RecordOf(o *Order, grace time.Time) Record {
	until := o.ExpiresAt
	if o.Kind == OrderClosing {
		until = grace
	}
	return Record{
		Kind: RecordOrder, At: o.PlacedAt, Tenant: o.Scope.Tenant, Tag: o.Scope.Tag, Refs: o.Scope.Refs, ErasureID: o.ErasureID,
		OrderID: o.ID, OrderKind: o.Kind, Form: o.Scope.Form(), Subjects: o.Scope.Subjects, Class: o.Scope.Class,
		Before: o.Scope.CapturedBefore, Purposes: o.Purposes, Until: until,
	}
}

// LiftRecordOf is the record of an order that was lifted.
func LiftRecordOf(o *Order) Record {
	return Record{Kind: RecordLift, At: o.LiftedAt, Tenant: o.Scope.Tenant, OrderID: o.ID, OrderKind: o.Kind}
}

// recordWire is the one encoding of a record.
type recordWire struct {
	Seq       int64      `json:"seq"`
	Kind      RecordKind `json:"kind"`
	At        time.Time  `json:"at"`
	Tenant    string     `json:"tenant,omitempty"`
	Tag       string     `json:"tag,omitempty"`
	Refs      []string   `json:"refs,omitempty"`
	ErasureID string     `json:"erasureId,omitempty"`
	TokenID   string     `json:"tokenId,omitempty"`
	Wrap      uint32     `json:"wrap,omitempty"`
	Writes    int64      `json:"writes"`

	OrderID   string    `json:"orderId,omitempty"`
	OrderKind OrderKind `json:"orderKind,omitempty"`
	Form      ScopeForm `json:"form,omitempty"`
	Subjects  []string  `json:"subjects,omitempty"` // hex of keyed hashes
	Class     string    `json:"class,omitempty"`
	Before    time.Time `json:"before,omitzero"`
	Purposes  []string  `json:"purposes,omitempty"`
	Until     time.Time `json:"until,omitzero"`
}

// Encode returns the record's bytes: JSON with fields in a fixed order. The
// same record always encodes alike, so its hash can name it.
func (r Record) Encode() ([]byte, error) {
	w := recordWire{
		Seq: r.Seq, Kind: r.Kind, At: r.At.UTC(), Tenant: r.Tenant,
		ErasureID: r.ErasureID, TokenID: r.TokenID, Wrap: r.Wrap, Writes: r.Writes,
		OrderID: r.OrderID, OrderKind: r.OrderKind, Form: r.Form, Class: r.Class, Before: r.Before, Purposes: r.Purposes, Until: r.Until,
	}
	if !r.Before.IsZero() {
		w.Before = r.Before.UTC()
	}
	if !r.Until.IsZero() {
		w.Until = r.Until.UTC()
	}
	for _, subject := range r.Subjects {
		w.Subjects = append(w.Subjects, hex.EncodeToString(subject[:]))
	}
	if r.Tag != (blobd.ExecutionTag{}) {
		w.Tag = r.Tag.String()
	}
	for _, ref := range r.Refs {
		w.Refs = append(w.Refs, ref.String())
	}
	return json.Marshal(w)
}

// DecodeRecord reads what Encode wrote and nothing else: bytes that do not
// encode back to themselves are ErrCorrupt.
func DecodeRecord(b []byte) (Record, error) {
	var w recordWire
	if err := json.Unmarshal(b, &w); err != nil {
		return Record{}, errRecord
	}
	r := Record{
		Seq: w.Seq, Kind: w.Kind, At: w.At, Tenant: w.Tenant,
		ErasureID: w.ErasureID, TokenID: w.TokenID, Wrap: w.Wrap, Writes: w.Writes,
		OrderID: w.OrderID, OrderKind: w.OrderKind, Form: w.Form, Class: w.Class, Before: w.Before, Purposes: w.Purposes, Until: w.Until,
	}
	for _, text := range w.Subjects {
		subject, err := hex.DecodeString(text)
		if err != nil || len(subject) != 32 {
			return Record{}, errRecord
		}
		r.Subjects = append(r.Subjects, [32]byte(subject))
	}
	if w.Tag != "" {
		tag, err := blobd.ParseExecutionTag(w.Tag)
		if err != nil {
			return Record{}, errRecord
		}
		r.Tag = tag
	}
	for _, s := range w.Refs {
		ref, err := blobd.ParseRef(s)
		if err != nil {
			return Record{}, errRecord
		}
		r.Refs = append(r.Refs, ref)
	}
	again, err := r.Encode()
	if err != nil || !bytes.Equal(again, b) {
		return Record{}, errRecord
	}
	return r, nil
}
