package ledgertest

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// hash returns the n-th of a family of hashes.
func hash(family string, n int) [32]byte {
	return sha256.Sum256(binary.BigEndian.AppendUint64([]byte(family), uint64(n)))
}

func refOf(n int) blobd.Ref          { return hash("ref", n) }
func repeatOf(n int) [32]byte        { return hash("repeat", n) }
func subjectOf(n int) [32]byte       { return hash("subject", n) }
func tagOf(n int) blobd.ExecutionTag { h := hash("tag", n); return blobd.ExecutionTag(h[:16]) }
func idOf(n int) string              { return fmt.Sprintf("execution/%d", n) }
func erasureID(n int) string         { return fmt.Sprintf("erasure-%03d", n) }
func position(x, n int) ledger.Position {
	return ledger.Position{Tag: tagOf(x), Ref: refOf(n)}
}

func keyOf(x int) ledger.WrappedKey {
	h := hash("key", x)
	return ledger.WrappedKey{ID: [16]byte(h[:16]), Version: 1, Ciphertext: h[:]}
}

func entry(kind ledger.EntryKind) ledger.Entry {
	return ledger.Entry{Tenant: tenant, Kind: kind, At: start, Body: []byte(`{"n":1}`)}
}

// size is the readable size of the n-th blob.
func size(n int) int64 { return int64(1000 + n) }

func newBlob(n int) ledger.NewBlob {
	h := hash("wrapped", n)
	return ledger.NewBlob{
		Ref: refOf(n), Class: "reasoning", Kind: blobd.KindText, ContentType: "text/plain; charset=utf-8",
		Size: size(n), SealedSize: size(n) + 200, Repeat: repeatOf(n), WrappedKey: h[:],
	}
}

// capture puts blobs into the x-th execution, one part for each.
func capture(x int, when time.Time, blobs ...ledger.NewBlob) ledger.Capture {
	c := ledger.Capture{
		Tenant: tenant, Tag: tagOf(x), ExecutionID: idOf(x), Key: keyOf(x), At: when, Blobs: blobs,
		Provider: "provider", Model: "model", StepID: "step", Attempt: 1, Entry: entry(ledger.EntryPut),
	}
	for i, b := range blobs {
		c.Parts = append(c.Parts, ledger.Part{Index: i, Kind: b.Kind, Status: ledger.PartKept, Blob: i})
	}
	if len(blobs) == 0 {
		c.Parts = []ledger.Part{{Kind: blobd.KindText, Status: ledger.PartEmpty, Blob: -1}}
	}
	return c
}

// retained is a capture of a ref that the put found live.
func retained(x int, when time.Time, ref blobd.Ref) ledger.Capture {
	c := capture(x, when)
	c.Parts = []ledger.Part{{Kind: blobd.KindText, Status: ledger.PartKept, Blob: -1, Ref: ref}}
	return c
}

func (e *env) commit(c ledger.Capture) ledger.Committed {
	e.Helper()
	done, err := e.Commit(e.ctx, c)
	e.must(err)
	return done
}

// put commits the n-th blob into the x-th execution at the start.
func (e *env) put(x, n int) { e.Helper(); e.commit(capture(x, start, newBlob(n))) }

func fenceOf(id, x int, refs ...blobd.Ref) ledger.Fence {
	return ledger.Fence{
		ID: erasureID(id), At: at(10), RunAt: at(10), Entries: []ledger.Entry{entry(ledger.EntryErasure)},
		Scope: ledger.Scope{Tenant: tenant, Tag: tagOf(x), ExecutionID: idOf(x), Refs: refs},
	}
}

func (e *env) fence(f ledger.Fence) (ledger.Erasure, ledger.Record) {
	e.Helper()
	erasure, r, err := e.Fence(e.ctx, f)
	e.must(err)
	return erasure, r
}

func (e *env) claim() ledger.Job {
	e.Helper()
	j, err := e.Claim(e.ctx, "worker", at(20), at(30))
	e.must(err)
	return j
}

func (e *env) lookup(x int, refs ...blobd.Ref) ledger.View {
	e.Helper()
	v, err := e.Lookup(e.ctx, tagOf(x), refs)
	e.must(err)
	return v
}

// blob returns the n-th blob's row in the x-th execution, nil if there is none.
func (e *env) blob(x, n int) *ledger.Blob { e.Helper(); return e.lookup(x, refOf(n)).Blobs[0] }

func (e *env) state(x, n int) ledger.BlobState {
	e.Helper()
	if b := e.blob(x, n); b != nil {
		return b.State
	}
	return 0
}

func (e *env) repeat(x, n int) *ledger.Blob {
	e.Helper()
	v, err := e.LookupRepeats(e.ctx, tagOf(x), [][32]byte{repeatOf(n)})
	e.must(err)
	return v.Blobs[0]
}

func (e *env) summary(x int) ledger.Summary {
	e.Helper()
	s, err := e.Execution(e.ctx, tenant, tagOf(x))
	e.must(err)
	return s
}

func (e *env) maximum(class string, d time.Duration) {
	e.Helper()
	e.setPolicy(policyOf(class, d))
}

func (e *env) records(x int) []ledger.RecordedPart {
	e.Helper()
	rs, err := e.Records(e.ctx, ledger.RecordQuery{Tag: tagOf(x), Limit: 1000})
	e.must(err)
	return rs
}

func (e *env) entries() []ledger.StoredEntry {
	e.Helper()
	es, err := e.Entries(e.ctx, 0, 10_000)
	e.must(err)
	return es
}

func (e *env) stats() ledger.Stats {
	e.Helper()
	s, err := e.Stats(e.ctx)
	e.must(err)
	return s
}

func (e *env) head() ledger.Record {
	e.Helper()
	r, err := e.Head(e.ctx)
	e.must(err)
	return r
}

func (e *env) subjects(x, n int) [][32]byte {
	e.Helper()
	return e.h.Subjects(e.T, e.Ledger, position(x, n))
}
