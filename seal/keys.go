package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"

	"github.com/blobd/blobd"
)

// Each label belongs to one use of one kind of key and to one version.
const (
	labelKeyID      = "blobd/v1/key-id"
	labelCommitment = "blobd/v1/commitment"
	labelAEAD       = "blobd/v1/aead"
	labelWrap       = "blobd/v1/wrap"
	labelBlobKey    = "blobd/v1/blob-key"
)

const wrappedSize = nonceSize + blobd.KeySize + tagSize

// derived is what a blob key becomes.
type derived struct {
	keyID      [16]byte
	commitment [32]byte
	aead       cipher.AEAD
}

func deriveBlob(key *blobd.Key) (derived, error) {
	e := newExpander(key)
	var d derived
	copy(d.keyID[:], e.expand(labelKeyID))
	copy(d.commitment[:], e.expand(labelCommitment))
	var err error
	d.aead, err = e.aead(labelAEAD)
	return d, err
}

// expander is HKDF-Expand with SHA-256 (RFC 5869 section 2.3) for outputs of
// one block. Every key here is uniform, so the extract step has nothing to do
// (section 3.3). Package crypto/hkdf gives the same bytes, but sets up the key
// for each label anew: at 8 KiB that is a tenth of sealing.
type expander struct {
	mac   hash.Hash
	block [sha256.Size]byte
}

func newExpander(key *blobd.Key) *expander {
	return &expander{mac: hmac.New(sha256.New, key.Bytes())}
}

// expand lends 32 bytes until the next call.
func (e *expander) expand(label string) []byte {
	e.mac.Reset()
	_, _ = io.WriteString(e.mac, label)
	_, _ = e.mac.Write([]byte{1}) // the number of the block
	return e.mac.Sum(e.block[:0])
}

// aead wipes the derived key; the round keys of the cipher and the pads of the
// HMAC are beyond what the standard library can wipe.
func (e *expander) aead(label string) (cipher.AEAD, error) {
	k := e.expand(label)
	defer clear(k)
	block, err := aes.NewCipher(k)
	if err != nil {
		return nil, fmt.Errorf("derive %s: %w", label, err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("derive %s: %w", label, err)
	}
	return aead, nil
}

// WrapKey wraps a blob key under its execution's key and for one ref, into 60
// bytes. It reads a nonce of 12 bytes from random, which must be a
// cryptographic source; one execution key may wrap 2³² keys (NIST SP 800-38D
// section 8.3).
func WrapKey(random io.Reader, executionKey *blobd.Key, ref blobd.Ref, blobKey *blobd.Key) ([]byte, error) {
	wrapped := make([]byte, nonceSize, wrappedSize)
	if _, err := io.ReadFull(random, wrapped); err != nil {
		return nil, fmt.Errorf("wrap key: %w", err)
	}
	aead, err := newExpander(executionKey).aead(labelWrap)
	if err != nil {
		return nil, fmt.Errorf("wrap key: %w", err)
	}
	return aead.Seal(wrapped, wrapped, blobKey.Bytes(), wrapAAD(ref)), nil
}

// UnwrapKey opens what WrapKey made for the same execution key and ref. Every
// other input is a *CorruptError.
func UnwrapKey(executionKey *blobd.Key, ref blobd.Ref, wrapped []byte) (*blobd.Key, error) {
	switch {
	case len(wrapped) < wrappedSize:
		return nil, corrupt("unwrap key", ReasonTruncated)
	case len(wrapped) > wrappedSize:
		return nil, corrupt("unwrap key", ReasonTrailing)
	}
	aead, err := newExpander(executionKey).aead(labelWrap)
	if err != nil {
		return nil, fmt.Errorf("unwrap key: %w", err)
	}
	b, err := aead.Open(nil, wrapped[:nonceSize], wrapped[nonceSize:], wrapAAD(ref))
	if err != nil {
		return nil, corrupt("unwrap key", ReasonTag)
	}
	defer clear(b)
	key, err := blobd.KeyFrom(b)
	if err != nil {
		return nil, fmt.Errorf("unwrap key: %w", err)
	}
	return key, nil
}

func wrapAAD(ref blobd.Ref) []byte { return append([]byte(labelBlobKey), ref[:]...) }
