package evidence

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// maxLeafBody is how many bytes of an entry's body its leaf holds. A bundle of
// the tiled log takes leaves below 64 KiB; a leaf of a longer body holds the
// body's SHA-256 in its place.
const maxLeafBody = 60_000

// Leaf is what the log says of one entry, decoded.
type Leaf struct {
	Tenant     string           `json:"tenant"` // "": the deployment's own
	Kind       ledger.EntryKind `json:"kind"`
	At         time.Time        `json:"at"`
	Body       json.RawMessage  `json:"body,omitempty"`
	BodySHA256 string           `json:"bodySha256,omitempty"` // lowercase hex, where the body is too long
}

// LeafOf returns the bytes whose hash the log holds for an entry: one JSON
// object with the members tenant, kind, at, and body or bodySha256, in this
// order and without white space. At is RFC 3339 in UTC; body is the stored body,
// byte for byte.
func LeafOf(e ledger.Entry) []byte {
	tenant, _ := json.Marshal(e.Tenant) // a string always marshals
	kind, _ := json.Marshal(string(e.Kind))
	b := fmt.Appendf(nil, `{"tenant":%s,"kind":%s,"at":"%s",`, tenant, kind, e.At.UTC().Format(time.RFC3339Nano))
	if hash, lost := lostBody(e.Body); lost {
		return fmt.Appendf(b, `"bodySha256":"%s"}`, hash)
	}
	if len(e.Body) <= maxLeafBody && json.Valid(e.Body) {
		return fmt.Appendf(b, `"body":%s}`, e.Body)
	}
	sum := sha256.Sum256(e.Body)
	return fmt.Appendf(b, `"bodySha256":"%s"}`, hex.EncodeToString(sum[:]))
}

// What stands for a body that only its leaf's hash is known of: the ledger lost it, and
// an export never had it. No act makes such a body.
const lostPrefix, lostSuffix = `{"lostBodySha256":"`, `"}`

// lostBody returns the hash, lowercase hex, of a body that was lost.
func lostBody(body []byte) (hash string, lost bool) {
	rest, ours := bytes.CutPrefix(body, []byte(lostPrefix))
	if !ours || len(rest) != 2*sha256.Size+len(lostSuffix) {
		return "", false
	}
	rest, ours = bytes.CutSuffix(rest, []byte(lostSuffix))
	sum, err := hex.DecodeString(string(rest))
	if !ours || err != nil || hex.EncodeToString(sum) != string(rest) {
		return "", false
	}
	return string(rest), true
}

// entryOf makes an entry out of its leaf, without the free text, and without the body
// where the leaf has its hash only. An entry that would have another leaf is ErrInvalid.
func entryOf(leaf []byte) (ledger.Entry, error) {
	var l Leaf
	if err := json.Unmarshal(leaf, &l); err != nil {
		return ledger.Entry{}, errLeaf
	}
	e := ledger.Entry{Tenant: l.Tenant, Kind: l.Kind, At: l.At.UTC().Truncate(time.Microsecond), Body: l.Body}
	if l.Body == nil {
		e.Body = []byte(lostPrefix + l.BodySHA256 + lostSuffix)
	}
	if !bytes.Equal(LeafOf(e), leaf) {
		return ledger.Entry{}, errLeaf
	}
	return e, nil
}

// ParseLeaf reads what LeafOf wrote; anything else is ErrInvalid. body is the
// entry's body where the leaf holds its hash only, else nil; the Body of what is
// returned is the entry's in both cases.
func ParseLeaf(b, body []byte) (Leaf, error) {
	var l Leaf
	if err := json.Unmarshal(b, &l); err != nil {
		return Leaf{}, errLeaf
	}
	if _, lost := lostBody(body); lost { // else a hash would stand for a body
		return Leaf{}, errLeaf
	}
	if l.Body == nil {
		l.Body = body
	} else if body != nil {
		return Leaf{}, errLeaf
	}
	again := LeafOf(ledger.Entry{Tenant: l.Tenant, Kind: l.Kind, At: l.At, Body: l.Body})
	if string(again) != string(b) {
		return Leaf{}, errLeaf
	}
	return l, nil
}

var errLeaf = fmt.Errorf("not the leaf of an entry: %w", blobd.ErrInvalid)

// leafHash is the log's hash of an entry, after RFC 6962.
func leafHash(e ledger.Entry) tlog.Hash { return tlog.RecordHash(LeafOf(e)) }

// objectOf names what an entry is about, so that it can be found: the id of an
// erasure or of an order, or nothing.
func objectOf(e ledger.Entry) string {
	var about struct {
		Erasure string `json:"erasure"`
		Order   string `json:"order"`
	}
	if e.Kind != ledger.EntryErasure && e.Kind != ledger.EntryOrder || json.Unmarshal(e.Body, &about) != nil {
		return ""
	}
	if e.Kind == ledger.EntryOrder {
		return about.Order
	}
	return about.Erasure
}
