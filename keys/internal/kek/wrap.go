package kek

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"fmt"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/keys"
)

// MaxPlaintext is the most that is wrapped, in bytes.
const MaxPlaintext = 512

const labelWrap = "blobd/v1/kek-wrap"

var errWrapped = fmt.Errorf("wrapped key does not authenticate: %w", blobd.ErrCorrupt)

// seal returns nonce 12 ‖ AES-256-GCM(plaintext) ‖ tag 16. The nonce is random,
// so one version of a KEK serves 2^32 wraps: rotate long before.
func seal(tenant string, v Version, plaintext []byte) ([]byte, error) {
	gcm, err := newGCM(v.Key)
	if err != nil {
		return nil, err
	}
	return gcm.Seal(nil, nil, plaintext, associated(tenant, v.Version)), nil
}

// open undoes seal; all that does not authenticate is ErrCorrupt.
func open(tenant string, v Version, ciphertext []byte) ([]byte, error) {
	gcm, err := newGCM(v.Key)
	if err != nil {
		return nil, err
	}
	plaintext, err := gcm.Open(nil, nil, ciphertext, associated(tenant, v.Version))
	if err != nil {
		return nil, errWrapped
	}
	return plaintext, nil
}

// newGCM lets the library draw the nonces: none can be chosen or used twice by
// a mistake here, and validated modules permit it.
func newGCM(key *blobd.Key) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key.Bytes())
	if err != nil {
		return nil, fmt.Errorf("aes: %w", err)
	}
	gcm, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("gcm: %w", err)
	}
	return gcm, nil
}

// associated is the label and the tenant, each after its length as a big-endian
// u64, then the version as a big-endian u32: no two pairs give the same bytes.
func associated(tenant string, v keys.Version) []byte {
	b := make([]byte, 0, 8+len(labelWrap)+8+len(tenant)+4)
	b = binary.BigEndian.AppendUint64(b, uint64(len(labelWrap)))
	b = append(b, labelWrap...)
	b = binary.BigEndian.AppendUint64(b, uint64(len(tenant)))
	b = append(b, tenant...)
	return binary.BigEndian.AppendUint32(b, uint32(v))
}
