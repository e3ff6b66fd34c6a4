package ledgertest

import (
	"bytes"
	"slices"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// again is the n-th blob's text sealed anew, under the m-th ref.
func again(n, m int) ledger.NewBlob {
	b := newBlob(m)
	b.Repeat, b.Size = repeatOf(n), size(n)
	return b
}

func sortedHashes(hs ...[32]byte) [][32]byte {
	slices.SortFunc(hs, func(a, b [32]byte) int { return bytes.Compare(a[:], b[:]) })
	return hs
}

func repeatSentences() []sentence {
	return []sentence{
		{"a live row with the tag is the answer and nothing is inserted", func(e *env) {
			e.put(1, 1)
			done := e.commit(capture(1, at(5), again(1, 2)))
			e.equal("created", done.Created, []bool{false})
			e.equal("answer", done.Blobs[0], *e.blob(1, 1))
			e.equal("start time", done.Blobs[0].CreatedAt, start)
			e.equal("state of the new ref", e.state(1, 2), ledger.BlobState(0))
			e.equal("blobs", e.summary(1).Blobs, int64(1))
		}},
		{"the repeat's attempt is recorded with the row's ref", func(e *env) {
			e.put(1, 1)
			c := capture(1, at(5), again(1, 2))
			c.Attempt = 2
			e.commit(c)
			rs := e.records(1)
			e.equal("records", len(rs), 2)
			e.equal("ref", rs[1].Ref, refOf(1))
			e.equal("attempt", rs[1].Attempt, int64(2))
		}},
		{"the same tag twice in one capture is one row", func(e *env) {
			done := e.commit(capture(1, start, newBlob(1), again(1, 2)))
			e.equal("created", done.Created, []bool{true, false})
			e.equal("answer", done.Blobs[1], done.Blobs[0])
			if len(done.Blobs[1].WrappedKey) == 0 {
				e.Fatal("the answer has no key")
			}
			e.equal("blobs", e.summary(1).Blobs, int64(1))
		}},
		{"new and repeated blobs mix in one capture", func(e *env) {
			e.put(1, 1)
			done := e.commit(capture(1, at(5), newBlob(3), again(1, 2), newBlob(4)))
			e.equal("created", done.Created, []bool{true, false, true})
			e.equal("ref", done.Blobs[1].Ref, refOf(1))
			e.equal("blobs", e.summary(1).Blobs, int64(3))
		}},
		{"an expired row becomes superseded and the blob is inserted", func(e *env) {
			e.maximum("reasoning", 10*time.Second)
			e.put(1, 1)
			done := e.commit(capture(1, at(10), again(1, 2)))
			e.equal("created", done.Created, []bool{true})
			e.equal("ref", done.Blobs[0].Ref, refOf(2))
			e.equal("states", []ledger.BlobState{e.state(1, 1), e.state(1, 2)},
				[]ledger.BlobState{ledger.BlobSuperseded, ledger.BlobLive})
			e.equal("holder of the tag", e.repeat(1, 1).Ref, refOf(2))
			e.equal("tag of the superseded row", e.blob(1, 1).Repeat, [32]byte{})
			s := e.summary(1)
			e.equal("counts", []int64{s.Blobs, s.Bytes}, []int64{1, size(1)})
			e.equal("start time", e.blob(1, 2).CreatedAt, at(10))
		}},
		{"a row is live until its maximum has passed", func(e *env) {
			e.maximum("reasoning", 10*time.Second)
			e.put(1, 1)
			done := e.commit(capture(1, at(10).Add(-time.Microsecond), again(1, 2)))
			e.equal("created", done.Created, []bool{false})
		}},
		{"a supersession whose new ref is taken changes nothing", func(e *env) {
			e.maximum("reasoning", 10*time.Second)
			e.put(1, 1)
			b := again(1, 2)
			b.Ref = refOf(1)
			e.refusedCommit(capture(1, at(20), b), blobd.ErrConflict)
			e.equal("state", e.state(1, 1), ledger.BlobLive)
		}},
		{"an erased row keeps its tag in a living execution", func(e *env) {
			e.put(1, 1)
			e.put(1, 2)
			e.fence(fenceOf(1, 1, refOf(1)))
			b := e.repeat(1, 1)
			if b == nil || b.State != ledger.BlobErased || b.Ref != refOf(1) {
				e.Fatalf("row %+v", b)
			}
		}},
		{"a lost row releases its tag, so that the text is stored anew", func(e *env) {
			e.put(1, 1)
			e.must(e.AcceptLoss(e.ctx, tagOf(1), refOf(1), at(1), entry(ledger.EntryRecovery)))
			if e.repeat(1, 1) != nil {
				e.Fatal("a lost row answers a repeat")
			}
			done := e.commit(capture(1, at(2), again(1, 2)))
			e.equal("created", done.Created, []bool{true})
		}},
		{"subjects are kept with a new row", func(e *env) {
			c := capture(1, start, newBlob(1))
			c.Subjects = [][32]byte{subjectOf(1), subjectOf(2), subjectOf(1)}
			e.commit(c)
			e.equal("subjects", e.subjects(1, 1), sortedHashes(subjectOf(1), subjectOf(2)))
		}},
		{"subjects of a repeat are united with the row's", func(e *env) {
			c := capture(1, start, newBlob(1))
			c.Subjects = [][32]byte{subjectOf(1), subjectOf(2)}
			e.commit(c)
			c = capture(1, at(1), again(1, 2))
			c.Subjects = [][32]byte{subjectOf(2), subjectOf(3)}
			e.commit(c)
			e.equal("subjects", e.subjects(1, 1), sortedHashes(subjectOf(1), subjectOf(2), subjectOf(3)))
			e.equal("subjects of no row", len(e.subjects(1, 2)), 0)
		}},
		{"subjects of a retained repeat are united with the row's", func(e *env) {
			e.put(1, 1)
			c := retained(1, at(1), refOf(1))
			c.Subjects = [][32]byte{subjectOf(4)}
			e.commit(c)
			e.equal("subjects", e.subjects(1, 1), sortedHashes(subjectOf(4)))
		}},
		{"a refused capture keeps no subjects", func(e *env) {
			e.put(1, 1)
			b := newBlob(2)
			b.Ref = refOf(1)
			c := capture(1, at(1), newBlob(3), b)
			c.Subjects = [][32]byte{subjectOf(1)}
			e.refusedCommit(c, blobd.ErrConflict)
			e.equal("subjects", len(e.subjects(1, 1))+len(e.subjects(1, 3)), 0)
		}},
	}
}
