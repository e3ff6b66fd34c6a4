// Package seal is the format of a sealed blob: bytes and a key in, bytes out.
// docs/format.md is its specification and testdata holds its vectors.
//
// It promises that sealing is a pure function of blob key, metadata and
// content, and that opening gives no byte of a content before everything about
// it is proved. It knows no network, clock or file.
package seal

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"

	"github.com/blobd/blobd"
)

// Owner is who a blob must be sealed to.
type Owner struct{ Tenant, ExecutionID string }

// Overhead returns how many bytes longer than its content a blob with this
// metadata is once sealed.
func Overhead(m Metadata) int { return headerSize + m.encodedLen() + tagSize }

// Seal seals content under key. The caller has hashed the content already and
// sets m.Digest, which Seal does not compute again; a wrong one fails in Open.
//
// A key seals one input for ever: the nonce is fixed, so a second, different
// input under the same key would break both. The same input again gives the
// same bytes.
//
// Metadata outside the format's limits, or whose Size is not len(content), is
// ErrInvalid; content of more than MaxContent bytes is ErrTooLarge.
func Seal(key *blobd.Key, m Metadata, content []byte) ([]byte, error) {
	if len(content) > MaxContent {
		return nil, fmt.Errorf("seal: content of more than %d bytes: %w", MaxContent, blobd.ErrTooLarge)
	}
	if m.Size != int64(len(content)) {
		return nil, fmt.Errorf("seal: metadata's size is not the content's: %w", blobd.ErrInvalid)
	}
	if err := m.check(); err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	d, err := deriveBlob(key)
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	h := Header{
		Version: version1, Suite: suite1, KeyID: d.keyID,
		MetadataLength: uint32(m.encodedLen()), ContentLength: uint64(len(content)),
		Commitment: d.commitment,
	}
	sealed := make([]byte, 0, h.sealedLen())
	sealed = h.append(sealed)
	sealed = m.append(sealed)
	sealed = append(sealed, content...)
	header, plaintext := sealed[:headerSize], sealed[headerSize:]
	var nonce [nonceSize]byte // zero: see the package's specification
	return d.aead.Seal(header, nonce[:], plaintext, header), nil
}

// Open opens sealed bytes with their blob key. It returns metadata and text
// only after key, header, metadata and content authenticated, the metadata
// named owner, and its size and digest were the content's. Every failure of
// these is a *CorruptError; the plaintext is then overwritten with zeros.
func Open(key *blobd.Key, sealed []byte, owner Owner) (Metadata, blobd.Text, error) {
	h, err := parse("open", sealed)
	if err != nil {
		return Metadata{}, blobd.Text{}, err
	}
	buffer := make([]byte, 0, len(sealed)-headerSize-tagSize)
	m, content, err := open(buffer, key, h, sealed, owner)
	if err != nil {
		return Metadata{}, blobd.Text{}, err
	}
	return m, blobd.TextOf(content), nil
}

// open decrypts into buffer, whose capacity must hold metadata and content.
// It leaves nothing but zeros there on failure, and no metadata on success.
func open(buffer []byte, key *blobd.Key, h Header, sealed []byte, owner Owner) (m Metadata, content []byte, err error) {
	d, err := deriveBlob(key)
	if err != nil {
		return m, nil, fmt.Errorf("open: %w", err)
	}
	if d.keyID != h.KeyID {
		return m, nil, corrupt("open", ReasonKeyID)
	}
	if subtle.ConstantTimeCompare(d.commitment[:], h.Commitment[:]) != 1 {
		return m, nil, corrupt("open", ReasonCommitment)
	}
	var nonce [nonceSize]byte
	plaintext, err := d.aead.Open(buffer, nonce[:], sealed[headerSize:], sealed[:headerSize])
	if err != nil {
		return m, nil, corrupt("open", ReasonTag)
	}
	encoded, content := plaintext[:h.MetadataLength], plaintext[h.MetadataLength:]
	m, reason := accept(encoded, content, owner)
	if reason != "" {
		clear(plaintext)
		return Metadata{}, nil, corrupt("open", reason)
	}
	clear(encoded)
	return m, content, nil
}

// accept checks what only the readable bytes can tell. An empty reason accepts.
func accept(encoded, content []byte, owner Owner) (Metadata, Reason) {
	m, ok := parseMetadata(encoded)
	switch {
	case !ok:
		return m, ReasonMetadata
	case m.Tenant != owner.Tenant:
		return m, ReasonTenant
	case m.ExecutionID != owner.ExecutionID:
		return m, ReasonExecution
	case m.Size != int64(len(content)):
		return m, ReasonSize
	case m.Digest != sha256.Sum256(content):
		return m, ReasonDigest
	}
	return m, ""
}
