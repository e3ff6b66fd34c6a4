package seal

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/blobd/blobd"
)

// Metadata is what a blob says about itself, authenticated and encrypted with
// its content.
type Metadata struct {
	Tenant      string // 1 to 256 bytes of UTF-8, no control characters
	ExecutionID string // see blobd.CheckExecutionID
	Class       string // see blobd.CheckClass
	Kind        blobd.Kind
	ContentType string       // 0 to 255 bytes of UTF-8, no control characters
	Digest      blobd.Digest // SHA-256 of the content
	Size        int64        // of the content, in bytes
}

const (
	maxTenant     = 256
	maxKind       = len(blobd.KindRedacted)
	lengthPrefix  = 2
	metadataFixed = 5*lengthPrefix + sha256.Size + 8
	minMetadata   = uint32(metadataFixed + 1 + 1 + 1 + len(blobd.KindText))
	maxMetadata   = uint32(metadataFixed + maxTenant + blobd.MaxExecutionID + blobd.MaxClass + maxKind + blobd.MaxContentType)
)

func (m *Metadata) encodedLen() int {
	return metadataFixed + len(m.Tenant) + len(m.ExecutionID) + len(m.Class) + len(m.Kind) + len(m.ContentType)
}

// check is what both directions hold metadata to: nothing is sealed that would
// not open.
func (m *Metadata) check() error {
	if m.Tenant == "" {
		return fmt.Errorf("tenant: must not be empty: %w", blobd.ErrInvalid)
	}
	if err := blobd.CheckName("tenant", m.Tenant); err != nil {
		return err
	}
	if err := blobd.CheckExecutionID(m.ExecutionID); err != nil {
		return err
	}
	if err := blobd.CheckClass(m.Class); err != nil {
		return err
	}
	// ParseKind reads the empty string as a kind; the format does not.
	if k, err := blobd.ParseKind(string(m.Kind)); err != nil || k != m.Kind {
		return fmt.Errorf("kind: want text, summary or redacted: %w", blobd.ErrInvalid)
	}
	if len(m.ContentType) > blobd.MaxContentType {
		return fmt.Errorf("content type: more than %d bytes: %w", blobd.MaxContentType, blobd.ErrInvalid)
	}
	return blobd.CheckName("content type", m.ContentType)
}

// append needs checked metadata: then no length passes 16 bits.
func (m *Metadata) append(b []byte) []byte {
	b = appendString(b, m.Tenant)
	b = appendString(b, m.ExecutionID)
	b = appendString(b, m.Class)
	b = appendString(b, string(m.Kind))
	b = appendString(b, m.ContentType)
	b = append(b, m.Digest[:]...)
	return binary.BigEndian.AppendUint64(b, uint64(m.Size))
}

func appendString(b []byte, s string) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(len(s)))
	return append(b, s...)
}

// parseMetadata accepts exactly what append makes of checked metadata.
func parseMetadata(b []byte) (Metadata, bool) {
	r := reader{rest: b}
	m := Metadata{
		Tenant:      r.string(),
		ExecutionID: r.string(),
		Class:       r.string(),
		Kind:        blobd.Kind(r.string()),
		ContentType: r.string(),
	}
	copy(m.Digest[:], r.take(sha256.Size))
	size := r.take(8)
	if r.failed || len(r.rest) != 0 {
		return Metadata{}, false
	}
	n := binary.BigEndian.Uint64(size)
	if n > MaxContent {
		return Metadata{}, false
	}
	m.Size = int64(n)
	if m.check() != nil {
		return Metadata{}, false
	}
	return m, true
}

// reader takes fields off the front; once it ran short it only gives nothing.
type reader struct {
	rest   []byte
	failed bool
}

func (r *reader) take(n int) []byte {
	if r.failed || n > len(r.rest) {
		r.failed = true
		return nil
	}
	taken := r.rest[:n]
	r.rest = r.rest[n:]
	return taken
}

func (r *reader) string() string {
	prefix := r.take(lengthPrefix)
	if r.failed {
		return ""
	}
	return string(r.take(int(binary.BigEndian.Uint16(prefix))))
}
