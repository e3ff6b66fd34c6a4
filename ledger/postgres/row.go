package postgres

import (
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// fixed scans bytes of one length. NULL leaves them zero.
type fixed []byte

// ScanBytes implements pgtype.BytesScanner.
func (f fixed) ScanBytes(v []byte) error {
	if v != nil && copy(f, v) != len(v) || v != nil && len(v) != len(f) {
		return fmt.Errorf("%d bytes where %d are kept: %w", len(v), len(f), blobd.ErrCorrupt)
	}
	return nil
}

// hashes scans hashes of 32 bytes that are stored joined.
type hashes struct{ to *[][32]byte }

// ScanBytes implements pgtype.BytesScanner.
func (h hashes) ScanBytes(v []byte) error {
	*h.to = nil
	if len(v)%32 != 0 {
		return fmt.Errorf("%d bytes are no hashes: %w", len(v), blobd.ErrCorrupt)
	}
	for len(v) > 0 {
		*h.to = append(*h.to, [32]byte(v))
		v = v[32:]
	}
	return nil
}

// moment scans a time. NULL is the zero time.
type moment struct{ to *time.Time }

// ScanInt64 implements pgtype.Int64Scanner.
func (m moment) ScanInt64(v pgtype.Int8) error {
	*m.to = time.Time{}
	if v.Valid {
		*m.to = time.UnixMicro(v.Int64).UTC()
	}
	return nil
}

// bytesText scans a text that is stored as bytes.
type bytesText struct{ to *string }

// ScanBytes implements pgtype.BytesScanner.
func (b bytesText) ScanBytes(v []byte) error {
	*b.to = string(v)
	return nil
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

// notNull is the stored form of bytes in a column that holds no NULL.
func notNull(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// orNull is the stored form of bytes where none is NULL.
func orNull(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}

// joined is the stored form of hashes; none is NULL.
func joined[H ~[32]byte](hs []H) []byte {
	var b []byte
	for i := range hs {
		b = append(b, hs[i][:]...)
	}
	return b
}

// raw returns refs or hashes as an array argument.
func raw[H ~[32]byte](hs []H) [][]byte {
	bs := make([][]byte, len(hs))
	for i := range hs {
		bs[i] = hs[i][:]
	}
	return bs
}

// blobColumns are scanned by blobRow, from blobs b.
const blobColumns = "b.ref, b.state, b.class, b.kind, b.content_type, b.size, b.sealed_size, " +
	"b.step_id, b.created_at, b.repeat, b.wrapped, b.audience"

// blobRow scans blobColumns, ruleColumns and coverColumns, of an outer join too.
type blobRow struct {
	ref                      []byte
	state                    *int16
	class, kind, contentType *string
	size, sealedSize         *int64
	stepID                   *string
	createdAt                time.Time
	repeat                   [32]byte
	wrapped                  []byte
	audience                 [][32]byte
	rule                     ruleRow
	cover                    coverRow
}

// to returns where blobColumns, and ruleColumns and coverColumns after them, are
// scanned into.
func (b *blobRow) to() []any {
	return slices.Concat([]any{
		&b.ref, &b.state, &b.class, &b.kind, &b.contentType, &b.size, &b.sealedSize, &b.stepID,
		moment{&b.createdAt}, fixed(b.repeat[:]), &b.wrapped, hashes{&b.audience},
	}, b.rule.to(), b.cover.to())
}

// blob returns the row as of now, nil if the join found none.
func (b *blobRow) blob(now time.Time) (*ledger.Blob, error) {
	if b.ref == nil {
		return nil, nil
	}
	var ref blobd.Ref
	if err := fixed(ref[:]).ScanBytes(b.ref); err != nil {
		return nil, err
	}
	end, err := b.rule.end(deref(b.class), b.createdAt)
	if err != nil {
		return nil, err
	}
	blob := &ledger.Blob{
		Ref: ref, State: ledger.BlobState(deref(b.state)), Class: deref(b.class), Kind: blobd.Kind(deref(b.kind)),
		ContentType: deref(b.contentType), Size: deref(b.size), SealedSize: deref(b.sealedSize), StepID: deref(b.stepID),
		CreatedAt: b.createdAt, Repeat: b.repeat, WrappedKey: b.wrapped, Audience: b.audience,
		ExpiresAt: end,
	}
	b.cover.set(blob, now)
	return blob, nil
}

func deref[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

// executionColumns are scanned by executionRow, from executions e, their tenants
// t and their keys k.
const (
	executionColumns = executionStored + ", " + closedExecution
	executionStored  = "e.tag, e.tenant, e.id, e.state, e.created_at, e.ended_at, e.erased_at, " +
		"e.blobs, e.bytes, t.fenced_at, k.id, k.version, k.wrapped"
)

// executionRow scans executionColumns, of an outer join too.
type executionRow struct {
	tag                 []byte
	tenant, id          *string
	state               *int16
	created, end, erase time.Time
	blobs, bytes        *int64
	fenced              time.Time // the tenant
	key                 keyRow
	closed              int16 // the kind of order that closes it
}

func (e *executionRow) to() []any {
	return slices.Concat([]any{
		&e.tag, &e.tenant, &e.id, &e.state, moment{&e.created}, moment{&e.end}, moment{&e.erase},
		&e.blobs, &e.bytes, moment{&e.fenced},
	}, e.key.to(), []any{&e.closed})
}

// execution returns the row, nil if the join found none. A living execution
// without a key is damage and never read as erased; one of a fenced tenant is
// erased; an open one that an order covers is closed.
func (e *executionRow) execution() (*ledger.Execution, error) {
	if e.tag == nil {
		return nil, nil
	}
	x := &ledger.Execution{
		Tenant: deref(e.tenant), ID: deref(e.id), State: ledger.ExecutionState(deref(e.state)),
		CreatedAt: e.created, EndedAt: e.end, ErasedAt: e.erase,
		Blobs: deref(e.blobs), Bytes: deref(e.bytes), Key: e.key.key(),
	}
	if err := fixed(x.Tag[:]).ScanBytes(e.tag); err != nil {
		return nil, err
	}
	if reason := ledger.OrderKind(e.closed).Closes(); reason != 0 && x.State == ledger.ExecutionOpen {
		x.State, x.CloseReason = ledger.ExecutionClosed, reason
	}
	if !e.fenced.IsZero() {
		x.EraseAt(e.fenced)
	}
	if x.Key == nil && x.State != ledger.ExecutionErased {
		return nil, errNoKey
	}
	return x, nil
}

var errNoKey = fmt.Errorf("a living execution has no key row: %w", blobd.ErrCorrupt)

func scanExecution(r pgx.CollectableRow) (ledger.Execution, error) {
	var e executionRow
	if err := r.Scan(e.to()...); err != nil {
		return ledger.Execution{}, err
	}
	x, err := e.execution()
	if err != nil {
		return ledger.Execution{}, err
	}
	return *x, nil
}

// keyRow scans a wrapped key of an outer join.
type keyRow struct {
	id      [16]byte
	version *int64
	wrapped []byte
}

func (k *keyRow) to() []any { return []any{fixed(k.id[:]), &k.version, &k.wrapped} }

func (k *keyRow) key() *ledger.WrappedKey {
	if k.version == nil {
		return nil
	}
	return &ledger.WrappedKey{ID: k.id, Version: uint32(*k.version), Ciphertext: k.wrapped}
}

// checkLimit refuses a listing without a limit.
func checkLimit(op string, limit int) error {
	if limit < 1 {
		return classify(op, fmt.Errorf("limit %d: %w", limit, blobd.ErrInvalid))
	}
	return nil
}

// orNotFound is the answer of a query for one row.
func orNotFound(found bool, err error) error {
	if err == nil && !found {
		return blobd.ErrNotFound
	}
	return err
}
