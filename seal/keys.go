package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"fmt"
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
	var d derived
	if err := derive(d.keyID[:], key, labelKeyID); err != nil {
		return derived{}, err
	}
	if err := derive(d.commitment[:], key, labelCommitment); err != nil {
		return derived{}, err
	}
	var err error
	d.aead, err = deriveAEAD(key, labelAEAD)
	return d, err
}

// derive fills out by HKDF-Expand (RFC 5869 section 2.3). Every key here is
// uniform, so the extract step has nothing to do (section 3.3).
func derive(out []byte, key *blobd.Key, label string) error {
	b, err := hkdf.Expand(sha256.New, key.Bytes(), label, len(out))
	if err != nil {
		return fmt.Errorf("derive %s: %w", label, err)
	}
	copy(out, b)
	clear(b)
	return nil
}

// deriveAEAD wipes the derived key; the cipher's own round keys are beyond
// what the standard library can wipe.
func deriveAEAD(key *blobd.Key, label string) (cipher.AEAD, error) {
	var k [blobd.KeySize]byte
	defer clear(k[:])
	if err := derive(k[:], key, label); err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(k[:])
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
	aead, err := deriveAEAD(executionKey, labelWrap)
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
	aead, err := deriveAEAD(executionKey, labelWrap)
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
