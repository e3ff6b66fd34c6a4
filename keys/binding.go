package keys

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"fmt"

	"github.com/blobd/blobd"
)

// What is wrapped says inside itself what it belongs to, because associated
// data would not survive a rewrap by every key service:
//
//	execution keys  execution key 32 ‖ tag key 32 ‖ binding 32
//	index key       key 32 ‖ binding 32
//
// A binding is SHA-256 over parts, each preceded by its length as a big-endian
// u64, so that no two lists of parts give the same input:
//
//	execution keys  "blobd/v1/execution-key", tenant, execution tag, key id
//	index key       "blobd/v1/index-key", tenant
const (
	labelExecution = "blobd/v1/execution-key"
	labelIndex     = "blobd/v1/index-key"

	sizeExecution = 2*blobd.KeySize + sha256.Size
	sizeIndex     = blobd.KeySize + sha256.Size
)

var (
	errLength  = fmt.Errorf("unwrapped key has a wrong length: %w", blobd.ErrCorrupt)
	errBinding = fmt.Errorf("unwrapped key belongs to something else: %w", blobd.ErrCorrupt)
)

func executionBinding(tenant string, tag blobd.ExecutionTag, id ID) [sha256.Size]byte {
	return binding([]byte(labelExecution), []byte(tenant), tag[:], id[:])
}

func indexBinding(tenant string) [sha256.Size]byte {
	return binding([]byte(labelIndex), []byte(tenant))
}

func binding(parts ...[]byte) [sha256.Size]byte {
	var b []byte
	for _, p := range parts {
		b = binary.BigEndian.AppendUint64(b, uint64(len(p)))
		b = append(b, p...)
	}
	return sha256.Sum256(b)
}

// checkBound proves that plaintext is size bytes that end in want.
func checkBound(plaintext []byte, size int, want [sha256.Size]byte) error {
	if len(plaintext) != size {
		return errLength
	}
	if subtle.ConstantTimeCompare(plaintext[size-sha256.Size:], want[:]) != 1 {
		return errBinding
	}
	return nil
}
