package ledgertest

import (
	"bytes"
	"slices"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

func maintenanceSentences() []sentence {
	return []sentence{
		{"a scan returns all rows in byte order after a position", scanOrder},
		{"a scanned row has what is needed to open it", func(e *env) {
			e.maximum("reasoning", second)
			e.put(1, 1)
			bs, err := e.ScanBlobs(e.ctx, ledger.Position{}, 10)
			e.must(err)
			key := keyOf(1)
			e.equal("scan", bs, []ledger.ScannedBlob{{
				Position: position(1, 1), Blob: *e.blob(1, 1), Tenant: tenant, ExecutionID: idOf(1),
				ExecutionState: ledger.ExecutionOpen, Key: &key,
			}})
		}},
		{"a scanned row of an erased execution or of none has no key", func(e *env) {
			e.put(1, 1)
			e.fence(fenceOf(1, 1))
			_, err := e.EnterMissing(e.ctx, []ledger.Position{position(2, 2)}, at(1))
			e.must(err)
			bs, err := e.ScanBlobs(e.ctx, ledger.Position{}, 10)
			e.must(err)
			e.equal("rows", len(bs), 2)
			for _, b := range bs {
				want := ledger.ExecutionState(0)
				if b.Tag == tagOf(1) {
					want = ledger.ExecutionErased
				}
				if b.Key != nil || b.ExecutionState != want {
					e.Fatalf("row %+v", b)
				}
			}
		}},
		{"objects without a row are entered as missing", func(e *env) {
			e.put(1, 1)
			n, err := e.EnterMissing(e.ctx, []ledger.Position{position(1, 2), position(2, 3), position(1, 2)}, at(5))
			e.must(err)
			e.equal("entered", n, 2)
			e.equal("row", e.blob(1, 2), &ledger.Blob{Ref: refOf(2), State: ledger.BlobMissing, CreatedAt: at(5)})
			e.equal("row without an execution", e.state(2, 3), ledger.BlobMissing)
			if e.lookup(2, refOf(3)).Execution != nil {
				e.Fatal("an execution was made up")
			}
			e.equal("live", e.stats().Blobs, int64(1))
		}},
		{"a ref that has a row in any state is left as it is", func(e *env) {
			e.maximum("reasoning", 5*second)
			e.commit(capture(1, start, newBlob(1), newBlob(2), newBlob(3), newBlob(4)))
			e.commit(capture(1, at(6), again(2, 5)))
			e.must(e.AcceptLoss(e.ctx, tagOf(1), refOf(3), at(7), entry(ledger.EntryRecovery)))
			e.fence(fenceOf(1, 1, refOf(4)))
			e.must(e.Collect(e.ctx, position(1, 6), at(7)))
			var objects []ledger.Position
			for n := 1; n < 7; n++ {
				objects = append(objects, position(1, n))
			}
			before := e.picture()
			n, err := e.EnterMissing(e.ctx, objects, at(8))
			e.must(err)
			e.equal("entered", n, 0)
			e.equal("the ledger", e.picture(), before)
		}},
		{"a loss is accepted of what is missing", func(e *env) {
			_, err := e.EnterMissing(e.ctx, []ledger.Position{position(1, 1)}, at(5))
			e.must(err)
			before := len(e.entries())
			e.must(e.AcceptLoss(e.ctx, tagOf(1), refOf(1), at(6), entry(ledger.EntryRecovery)))
			e.equal("state", e.state(1, 1), ledger.BlobLost)
			e.equal("entries", len(e.entries()), before+1)
		}},
		{"a loss is accepted of what is live, and taken off the counts", func(e *env) {
			e.commit(capture(1, start, newBlob(1), newBlob(2)))
			e.must(e.AcceptLoss(e.ctx, tagOf(1), refOf(1), at(6), entry(ledger.EntryRecovery)))
			e.equal("state", e.state(1, 1), ledger.BlobLost)
			s := e.summary(1)
			e.equal("counts", []int64{s.Blobs, s.Bytes}, []int64{1, size(2)})
			e.equal("stats", []int64{e.stats().Blobs, e.stats().Bytes}, []int64{1, size(2)})
		}},
		{"a loss of what has no row is not found, of an erased execution's a conflict", func(e *env) {
			e.refused(e.AcceptLoss(e.ctx, tagOf(1), refOf(1), at(6), entry(ledger.EntryRecovery)), blobd.ErrNotFound)
			e.put(1, 1)
			e.fence(fenceOf(1, 1))
			e.refused(e.AcceptLoss(e.ctx, tagOf(1), refOf(1), at(6), entry(ledger.EntryRecovery)), blobd.ErrConflict)
		}},
		{"what was collected conflicts with a late commit", func(e *env) {
			e.put(1, 1)
			e.must(e.Collect(e.ctx, position(1, 2), at(5)))
			e.equal("row", e.blob(1, 2), &ledger.Blob{Ref: refOf(2), State: ledger.BlobCollected, CreatedAt: at(5)})
			e.refusedCommit(capture(1, at(6), newBlob(2)), blobd.ErrConflict)
		}},
		{"collecting a row in any state is a conflict", func(e *env) {
			e.commit(capture(1, start, newBlob(1), newBlob(2)))
			e.refused(e.Collect(e.ctx, position(1, 1), at(5)), blobd.ErrConflict)
			e.equal("state", e.state(1, 1), ledger.BlobLive)
			e.fence(fenceOf(1, 1, refOf(1)))
			e.refused(e.Collect(e.ctx, position(1, 1), at(5)), blobd.ErrConflict)
			_, err := e.EnterMissing(e.ctx, []ledger.Position{position(1, 3)}, at(5))
			e.must(err)
			e.refused(e.Collect(e.ctx, position(1, 3), at(5)), blobd.ErrConflict)
			e.must(e.Collect(e.ctx, position(1, 4), at(5)))
			e.refused(e.Collect(e.ctx, position(1, 4), at(5)), blobd.ErrConflict)
		}},
		{"settling names what it cannot reach", func(e *env) {
			e.put(1, 1)
			e.fence(fenceOf(1, 1))
			residuals, err := e.Settle(e.ctx)
			e.must(err)
			if len(residuals) == 0 || slices.Contains(residuals, "") {
				e.Fatalf("residuals %q", residuals)
			}
			e.put(2, 2) // and the ledger goes on
		}},
		{"a listing without a limit is invalid", func(e *env) {
			_, err := e.ScanBlobs(e.ctx, ledger.Position{}, 0)
			e.refused(err, blobd.ErrInvalid)
		}},
		{"a closed ledger is unavailable, and is closed again", func(e *env) {
			e.must(e.Close())
			e.must(e.Close())
			_, err := e.Lookup(e.ctx, tagOf(1), refsOf(1, 2))
			e.refused(err, blobd.ErrUnavailable)
			_, err = e.Commit(e.ctx, capture(1, start, newBlob(1)))
			e.refused(err, blobd.ErrUnavailable)
			_, _, err = e.Fence(e.ctx, fenceOf(1, 1))
			e.refused(err, blobd.ErrUnavailable)
			e.refused(e.Check(e.ctx), blobd.ErrUnavailable)
		}},
	}
}

func scanOrder(e *env) {
	var want []ledger.Position
	for x := range 3 {
		for n := range 5 {
			e.put(x, n)
			want = append(want, position(x, n))
		}
	}
	slices.SortFunc(want, func(a, b ledger.Position) int {
		if c := bytes.Compare(a.Tag[:], b.Tag[:]); c != 0 {
			return c
		}
		return bytes.Compare(a.Ref[:], b.Ref[:])
	})
	for _, limit := range []int{1, 4, 15, 100} {
		var got []ledger.Position
		after := ledger.Position{}
		for {
			page, err := e.ScanBlobs(e.ctx, after, limit)
			e.must(err)
			if len(page) > limit {
				e.Fatalf("a page of %d", len(page))
			}
			for _, b := range page {
				got = append(got, b.Position)
				after = b.Position
			}
			if len(page) < limit {
				break
			}
		}
		e.equal("order", got, want)
	}
}
