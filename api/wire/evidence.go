package wire

import (
	"encoding/json"
	"time"
)

// Media types of the evidence log.
const (
	TypeOctets     = "application/octet-stream"
	TypePDF        = "application/pdf"
	TypeCheckpoint = "text/plain; charset=utf-8"
)

// EvidenceEntry is one entry of the log. Of another tenant's there are only the
// index and the leaf's hash.
type EvidenceEntry struct {
	Index    int64           `json:"index"`
	LeafHash []byte          `json:"leafHash" doc:"RFC 6962 hash of the leaf, base64"`
	Leaf     []byte          `json:"leaf,omitempty" doc:"the leaf's bytes, base64"`
	Tenant   string          `json:"tenant,omitempty"`
	Kind     string          `json:"kind,omitempty"`
	At       *time.Time      `json:"at,omitempty"`
	Body     json.RawMessage `json:"body,omitempty" doc:"the entry's body: no text, no digest of one, no subject"`
}

// EvidenceEntries is one page of entries, by index.
type EvidenceEntries struct {
	Items []EvidenceEntry `json:"items"`
	Next  *string         `json:"next"`
}

// EvidenceProof proves that the checkpoint covers an entry, or that it continues
// an older tree.
type EvidenceProof struct {
	Index      *int64   `json:"index,omitempty"`
	LeafHash   []byte   `json:"leafHash,omitempty" doc:"base64"`
	OldSize    *int64   `json:"oldSize,omitempty"`
	TreeSize   int64    `json:"treeSize"`
	RootHash   []byte   `json:"rootHash" doc:"base64"`
	Proof      [][]byte `json:"proof" doc:"RFC 6962 hashes, base64"`
	Checkpoint string   `json:"checkpoint" doc:"C2SP signed checkpoint"`
}
