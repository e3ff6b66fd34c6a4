package ledgertest

import (
	"bytes"
	"slices"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// sortedPositions returns positions in their order.
func sortedPositions(ps ...ledger.Position) []ledger.Position {
	slices.SortFunc(ps, func(a, b ledger.Position) int {
		return bytes.Compare(append(a.Tag[:], a.Ref[:]...), append(b.Tag[:], b.Ref[:]...))
	})
	return ps
}

func droppedRowsSentences() []sentence {
	return []sentence{
		{"rows that were dropped are listed until they are tombstones, in the order of positions", func(e *env) {
			for n := range 5 {
				e.putTagged(n%3, n, 1)
			}
			j := e.closed(1, subjectScope(1))
			e.equal("before", len(e.droppedRows(erasureID(1))), 0)
			e.pass(j, 2)
			want := sortedPositions(position(0, 0), position(1, 1), position(2, 2), position(0, 3), position(1, 4))
			e.equal("listed", e.droppedRows(erasureID(1)), want)
			left, err := e.Tombstone(e.ctx, j.Lease, 2)
			e.must(err)
			e.equal("left, counted up to the limit", left, 2)
			e.equal("listed", len(e.droppedRows(erasureID(1))), 3)
			left, err = e.Tombstone(e.ctx, j.Lease, 100)
			e.must(err)
			e.equal("left", left, 0)
			e.equal("listed", len(e.droppedRows(erasureID(1))), 0)
		}},
		{"tombstones of what was dropped hold no content facts, keep the repeat tag and spare the other rows", func(e *env) {
			e.scene()
			kept := e.blob(1, 2)
			j := e.closed(1, subjectScope(1))
			e.pass(j, 10)
			e.equal("subjects until then", len(e.subjects(1, 1)), 1)
			e.tombstone(j)
			e.equal("row", e.blob(1, 1), &ledger.Blob{Ref: refOf(1), State: ledger.BlobErased, CreatedAt: start, Repeat: repeatOf(1)})
			e.equal("repeat", e.repeat(1, 1).State, ledger.BlobErased)
			e.equal("subjects", len(e.subjects(1, 1)), 0)
			e.equal("other row", e.blob(1, 2), kept)
			e.refusedCommit(capture(1, at(30), again(1, 30)), blobd.ErrBlobErased)
		}},
		{"the fence of the whole execution releases the tags that were kept", func(e *env) {
			e.scene()
			e.hold(1, refScope(1, 1))
			j := e.closed(1, executionScope(1))
			e.pass(j, 10)
			e.tombstone(j)
			e.equal("kept", e.repeat(1, 2).State, ledger.BlobErased)
			e.lift(1, ledger.OrderHold)
			_, _, err := e.FenceClosed(e.ctx, j.Lease, at(31), nil)
			e.must(err)
			e.finish(j)
			if e.repeat(1, 2) != nil {
				e.Fatal("the repeat tag was not released")
			}
		}},
		{"rows that were erased before are listed too, but tombstones are not", func(e *env) {
			for n := range 5 {
				e.putTagged(n, n, 1)
			}
			e.putTagged(1, 11, 1)
			e.fence(fenceOf(1, 0)) // its rows are no tombstones yet
			e.fence(fenceOf(2, 1, refOf(1)))
			e.fence(fenceOf(3, 2))
			tombstones := e.claimAt(20)
			for tombstones.Erasure.ID != erasureID(3) {
				tombstones = e.claimAt(20)
			}
			e.finish(tombstones)
			j := e.closed(4, subjectScope(1))
			dropped, _ := e.pass(j, 2)
			e.equal("dropped", refsOfRows(dropped), sortedRefs(refOf(3), refOf(4), refOf(11)))
			e.equal("counted", e.erasure(erasureID(4)).Dropped, int64(3))
			e.equal("listed", e.droppedRows(erasureID(4)),
				sortedPositions(position(0, 0), position(1, 1), position(3, 3), position(4, 4), position(1, 11)))
			e.tombstone(j)
			for n, x := range map[int]int{0: 0, 1: 1, 3: 3, 4: 4, 11: 1} {
				b := e.blob(x, n)
				e.equal("tombstone", []any{b.State, b.Class, b.Repeat, len(e.subjects(x, n))}, []any{ledger.BlobErased, "", repeatOf(n), 0})
			}
			e.finish(j)
		}},
		{"of an unknown erasure they are not found, and a listing has a limit", func(e *env) {
			_, err := e.DroppedRows(e.ctx, erasureID(1), ledger.Position{}, 10)
			e.refused(err, blobd.ErrNotFound)
			e.put(1, 1)
			e.fence(fenceOf(1, 1))
			_, err = e.DroppedRows(e.ctx, erasureID(1), ledger.Position{}, 0)
			e.refused(err, blobd.ErrInvalid)
			e.equal("of one that fenced", len(e.droppedRows(erasureID(1))), 0)
		}},
	}
}
