package sqlite

import (
	"database/sql/driver"
	"fmt"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// row reads the columns of one row. A column that is not what the schema says
// sets err, so that damage is never read as a zero value.
type row struct {
	values []driver.Value
	err    error
}

func (r *row) fail(i int, want string) {
	if r.err == nil {
		r.err = fmt.Errorf("column %d is not %s: %w", i, want, blobd.ErrCorrupt)
	}
}

func (r *row) null(i int) bool { return r.values[i] == nil }

func (r *row) int(i int) int64 {
	v, ok := r.values[i].(int64)
	if !ok {
		r.fail(i, "an integer")
	}
	return v
}

func (r *row) bool(i int) bool { return r.int(i) != 0 }

func (r *row) text(i int) string {
	v, ok := r.values[i].(string)
	if !ok {
		r.fail(i, "text")
	}
	return v
}

// bytes returns nil for NULL. The bytes are the caller's.
func (r *row) bytes(i int) []byte {
	if r.values[i] == nil {
		return nil
	}
	v, ok := r.values[i].([]byte)
	if !ok {
		r.fail(i, "bytes")
	}
	return v
}

func (r *row) fixed(i int, to []byte) {
	if v := r.bytes(i); copy(to, v) != len(to) || len(v) != len(to) {
		r.fail(i, fmt.Sprintf("%d bytes", len(to)))
	}
}

func (r *row) ref(i int) (ref blobd.Ref)          { r.fixed(i, ref[:]); return ref }
func (r *row) tag(i int) (tag blobd.ExecutionTag) { r.fixed(i, tag[:]); return tag }
func (r *row) hash(i int) (h [32]byte)            { r.fixed(i, h[:]); return h }

// time returns the zero time for NULL.
func (r *row) time(i int) time.Time {
	if r.values[i] == nil {
		return time.Time{}
	}
	return time.UnixMicro(r.int(i)).UTC()
}

// micros is the stored form of a time; the zero time is NULL.
func micros(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMicro()
}

// stored returns t as it will be read back.
func stored(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return time.UnixMicro(t.UnixMicro()).UTC()
}

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// notNull is the stored form of bytes in a column that holds no NULL.
func notNull(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// orNull is the stored form of bytes where none is NULL.
func orNull(b []byte) any {
	if len(b) == 0 {
		return nil
	}
	return b
}

func joinHashes(hs [][32]byte) []byte {
	b := make([]byte, 0, 32*len(hs))
	for i := range hs {
		b = append(b, hs[i][:]...)
	}
	return b
}

func (r *row) hashes(i int) [][32]byte {
	b := r.bytes(i)
	if len(b) == 0 {
		return nil
	}
	if len(b)%32 != 0 {
		r.fail(i, "hashes")
		return nil
	}
	hs := make([][32]byte, len(b)/32)
	for j := range hs {
		hs[j] = [32]byte(b[32*j:])
	}
	return hs
}

// blobColumns are read by row.blob, from blobs b.
const blobColumns = "b.ref, b.state, b.class, b.kind, b.content_type, b.size, b.sealed_size, " +
	"b.step_id, b.created_at, b.repeat, b.wrapped, b.audience"

const blobColumnCount = 12

// blob reads blobColumns from column i on. Its Maximum is not filled in.
func (r *row) blob(i int) *ledger.Blob {
	b := &ledger.Blob{
		Ref:         r.ref(i),
		State:       ledger.BlobState(r.int(i + 1)),
		Class:       r.text(i + 2),
		Kind:        blobd.Kind(r.text(i + 3)),
		ContentType: r.text(i + 4),
		Size:        r.int(i + 5),
		SealedSize:  r.int(i + 6),
		StepID:      r.text(i + 7),
		CreatedAt:   r.time(i + 8),
		WrappedKey:  r.bytes(i + 10),
		Audience:    r.hashes(i + 11),
	}
	if !r.null(i + 9) {
		b.Repeat = r.hash(i + 9)
	}
	return b
}

// executionColumns are read by row.execution, from executions e and its
// key k. They are as many as blobColumns.
const executionColumns = "e.tenant, e.id, e.state, e.reason, e.key_id, e.key_version, k.wrapped, " +
	"e.created_at, e.ended_at, e.erased_at, e.blobs, e.bytes"

// execution reads executionColumns from column i on.
func (r *row) execution(i int, tag blobd.ExecutionTag) *ledger.Execution {
	e := &ledger.Execution{
		Tag:         tag,
		Tenant:      r.text(i),
		ID:          r.text(i + 1),
		State:       ledger.ExecutionState(r.int(i + 2)),
		CloseReason: ledger.CloseReason(r.int(i + 3)),
		CreatedAt:   r.time(i + 7),
		EndedAt:     r.time(i + 8),
		ErasedAt:    r.time(i + 9),
		Blobs:       r.int(i + 10),
		Bytes:       r.int(i + 11),
	}
	e.Key = r.wrappedKey(i + 4)
	return e
}

// wrappedKey reads a key's id, version and ciphertext, nil once dropped.
func (r *row) wrappedKey(i int) *ledger.WrappedKey {
	if r.null(i) {
		return nil
	}
	k := &ledger.WrappedKey{Version: uint32(r.int(i + 1)), Ciphertext: r.bytes(i + 2)}
	r.fixed(i, k.ID[:])
	if k.Ciphertext == nil {
		r.fail(i+2, "a wrapped key")
	}
	return k
}
