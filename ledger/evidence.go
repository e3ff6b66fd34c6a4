package ledger

import (
	"bytes"
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
	EntryClose    EntryKind = "close"    // closed, reopened
	EntryPolicy   EntryKind = "policy"   // a class policy changed
	EntryTenant   EntryKind = "tenant"   // a tenant was made
	EntryToken    EntryKind = "token"    // a token was made or revoked
	EntryKeys     EntryKind = "keys"     // one step of a key epoch
	EntryEnd      EntryKind = "end"      // an execution ended: a start event
	EntrySweep    EntryKind = "sweep"    // one batch, or the end, of a sweep
	EntryRecovery EntryKind = "recovery" // rollback found, replayed, loss accepted
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
	RecordClose  RecordKind = "close"  // an execution was closed
	RecordReopen RecordKind = "reopen" // and opened again
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
	Reason    CloseReason
	ErasureID string
	TokenID   string
	Wrap      uint32 // of a fence (of a tenant too) or erased refs: see Erasure.Wrap
	Writes    int64  // blobs ever committed by this ledger, this record included
}

// recordWire is the one encoding of a record.
type recordWire struct {
	Seq       int64       `json:"seq"`
	Kind      RecordKind  `json:"kind"`
	At        time.Time   `json:"at"`
	Tenant    string      `json:"tenant,omitempty"`
	Tag       string      `json:"tag,omitempty"`
	Refs      []string    `json:"refs,omitempty"`
	Reason    CloseReason `json:"reason,omitempty"`
	ErasureID string      `json:"erasureId,omitempty"`
	TokenID   string      `json:"tokenId,omitempty"`
	Wrap      uint32      `json:"wrap,omitempty"`
	Writes    int64       `json:"writes"`
}

// Encode returns the record's bytes: JSON with fields in a fixed order. The
// same record always encodes alike, so its hash can name it.
func (r Record) Encode() ([]byte, error) {
	w := recordWire{
		Seq: r.Seq, Kind: r.Kind, At: r.At.UTC(), Tenant: r.Tenant, Reason: r.Reason,
		ErasureID: r.ErasureID, TokenID: r.TokenID, Wrap: r.Wrap, Writes: r.Writes,
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
		Seq: w.Seq, Kind: w.Kind, At: w.At, Tenant: w.Tenant, Reason: w.Reason,
		ErasureID: w.ErasureID, TokenID: w.TokenID, Wrap: w.Wrap, Writes: w.Writes,
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
