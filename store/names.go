package store

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"io"
	"slices"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
	"github.com/blobd/blobd/evidence"
	"github.com/blobd/blobd/ledger"
)

// executionTag names an execution in object names, evidence and the ledger.
func executionTag(t ledger.Tenant, executionID string) blobd.ExecutionTag {
	return evidence.Tag(t.NameKey, "blobd/v1/execution", executionID)
}

// tenantTag names a tenant in object names. It is made once for each tenant: every
// object's name has it.
func (s *Store) tenantTag(t ledger.Tenant) string {
	s.mu.RLock()
	known, ok := s.tags[string(t.NameKey)]
	s.mu.RUnlock()
	if ok {
		return known
	}
	tag := evidence.Tag(t.NameKey, "blobd/v1/tenant", t.ID)
	name := hex.EncodeToString(tag[:])
	s.mu.Lock()
	s.tags[string(t.NameKey)] = name
	s.mu.Unlock()
	return name
}

func (s *Store) blobName(t ledger.Tenant, tag blobd.ExecutionTag, ref blobd.Ref) string {
	return backends.BlobName(s.tenantTag(t), tag, ref)
}

// PrincipalTag is how a blob's audience names a principal.
func PrincipalTag(t ledger.Tenant, p blobd.Principal) [32]byte {
	m := hmac.New(sha256.New, t.NameKey)
	_, _ = io.WriteString(m, "blobd/v1/principal\x00")
	writeField(m, p.Tenant)
	writeField(m, p.Actor)
	if p.OnBehalfOf != nil { // absent differs from empty
		writeField(m, *p.OnBehalfOf)
	}
	return [32]byte(m.Sum(nil))
}

// audienceTags are a blob's audience as the ledger keeps it: sorted, each once.
func audienceTags(t ledger.Tenant, ps []blobd.Principal) [][32]byte {
	tags := make([][32]byte, len(ps))
	for i, p := range ps {
		tags[i] = PrincipalTag(t, p)
	}
	return sortedSet(tags)
}

// audienceBytes is the audience as the repeat tag sees it.
func audienceBytes(tags [][32]byte) []byte {
	var b []byte
	for _, t := range tags {
		b = append(b, t[:]...)
	}
	return b
}

// subjectTags are the keyed hashes of persons' identifiers under the tenant's
// index key; the identifiers themselves are kept nowhere.
func subjectTags(index *blobd.Key, subjects []string) [][32]byte {
	tags := make([][32]byte, len(subjects))
	for i, subject := range subjects {
		m := hmac.New(sha256.New, index.Bytes())
		_, _ = io.WriteString(m, "blobd/v1/subject\x00")
		writeField(m, subject)
		tags[i] = [32]byte(m.Sum(nil))
	}
	return sortedSet(tags)
}

func sortedSet(tags [][32]byte) [][32]byte {
	slices.SortFunc(tags, func(a, b [32]byte) int { return cmp.Compare(string(a[:]), string(b[:])) })
	return slices.Compact(tags)
}

// writeField writes a length and the bytes, so that no two lists of fields
// write alike.
func writeField(w io.Writer, s string) {
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(len(s)))
	_, _ = w.Write(n[:])
	_, _ = io.WriteString(w, s)
}
