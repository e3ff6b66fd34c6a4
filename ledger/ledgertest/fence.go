package ledgertest

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

func fenceSentences() []sentence {
	return []sentence{
		{"a fence erases the execution for ever", func(e *env) {
			e.commit(capture(1, start, newBlob(1), newBlob(2)))
			e.fence(fenceOf(1, 1))
			x := e.lookup(1, refOf(1)).Execution
			e.equal("execution", x, &ledger.Execution{
				Tag: tagOf(1), Tenant: tenant, ID: idOf(1), State: ledger.ExecutionErased,
				CreatedAt: start, ErasedAt: at(10),
			})
		}},
		{"a fence answers with the erasure", func(e *env) {
			e.commit(capture(1, start, newBlob(1), newBlob(2)))
			f := fenceOf(1, 1)
			f.RequestedBy, f.Reason, f.LegalBasis, f.Regime, f.ExternalRef = "token", "reason", "basis", "gdpr", "case 7"
			f.ReceivedAt, f.DueAt = at(8), at(99)
			got, _ := e.fence(f)
			want := ledger.Erasure{
				ID: f.ID, Scope: f.Scope, State: ledger.ErasureRunning,
				Plan:        ledger.Plan{Executions: 1, Blobs: 2, Bytes: size(1) + size(2)},
				Fenced:      ledger.Plan{Executions: 1, Blobs: 2, Bytes: size(1) + size(2)},
				RequestedBy: "token", Reason: "reason", LegalBasis: "basis", Regime: "gdpr", ExternalRef: "case 7",
				ReceivedAt: at(8), DueAt: at(99), FencedAt: at(10), Wrap: 1,
			}
			e.equal("erasure", got, want)
			read, err := e.Erasure(e.ctx, tenant, f.ID)
			e.must(err)
			e.equal("erasure read back", read, want)
		}},
		{"a fence returns its journal record", func(e *env) {
			e.put(1, 1)
			_, r := e.fence(fenceOf(1, 1))
			want := ledger.Record{
				Seq: 1, Kind: ledger.RecordFence, At: at(10), Tenant: tenant, Tag: tagOf(1), ErasureID: erasureID(1),
				Wrap: 1, Writes: 1,
			}
			e.equal("record", r, want)
			e.equal("head", e.head(), want)
		}},
		{"a fence inserts its evidence", func(e *env) {
			before := len(e.entries())
			f := fenceOf(1, 1)
			f.Entries = append(f.Entries, entry(ledger.EntryOrder))
			e.fence(f)
			es := e.entries()
			e.equal("entries", len(es), before+2)
			e.equal("kinds", []ledger.EntryKind{es[before].Kind, es[before+1].Kind},
				[]ledger.EntryKind{ledger.EntryErasure, ledger.EntryOrder})
		}},
		{"a fence takes what was live off the counts", func(e *env) {
			e.put(1, 1)
			e.put(2, 2)
			e.fence(fenceOf(1, 1))
			s := e.stats()
			e.equal("stats", []int64{s.Blobs, s.Bytes, s.Executions, s.ErasuresOpen}, []int64{1, size(2), 1, 1})
		}},
		{"a closed execution is fenced too", func(e *env) {
			e.put(1, 1)
			e.restrict(1)
			e.fence(fenceOf(1, 1))
			x := e.summary(1)
			e.equal("state", x.State, ledger.ExecutionErased)
			e.equal("reason", x.CloseReason, ledger.CloseReason(0))
		}},
		{"an execution never seen is fenced", func(e *env) {
			got, _ := e.fence(fenceOf(1, 7))
			e.equal("plan", got.Plan, ledger.Plan{NotFound: 1})
			x := e.summary(7)
			e.equal("execution", x.Execution, ledger.Execution{
				Tag: tagOf(7), Tenant: tenant, ID: idOf(7), State: ledger.ExecutionErased, CreatedAt: at(10), ErasedAt: at(10),
			})
			e.refusedCommit(capture(7, at(11), newBlob(1)), blobd.ErrErased)
			e.equal("executions", e.stats().Executions, int64(0))
		}},
		{"executions known only by their tags are fenced", func(e *env) {
			for x := range 3 {
				f := fenceOf(x, x)
				f.Scope.ExecutionID = ""
				e.fence(f)
				e.equal("id", e.summary(x).ID, "")
			}
		}},
		{"an erased execution is fenced again and changes nothing", func(e *env) {
			e.put(1, 1)
			e.fence(fenceOf(1, 1))
			f := fenceOf(2, 1)
			f.At = at(12)
			got, r := e.fence(f)
			e.equal("plan", got.Plan, ledger.Plan{AlreadyErased: 1})
			e.equal("state", got.State, ledger.ErasureRunning)
			e.equal("record", []any{r.Seq, r.Kind}, []any{int64(2), ledger.RecordFence})
			e.equal("erased at", e.summary(1).ErasedAt, at(10))
			e.equal("blobs", e.stats().Blobs, int64(0))
		}},
		{"the same id again returns the first answer", func(e *env) {
			e.put(1, 1)
			first, record := e.fence(fenceOf(1, 1))
			entries := len(e.entries())
			f := fenceOf(1, 1)
			f.At, f.Reason = at(15), "another"
			again, same := e.fence(f)
			e.equal("erasure", again, first)
			e.equal("record", same, record)
			e.equal("entries", len(e.entries()), entries)
			e.equal("head", e.head().Seq, int64(1))
		}},
		{"an id in use for another scope is a conflict", func(e *env) {
			e.put(1, 1)
			e.put(2, 2)
			e.fence(fenceOf(1, 1))
			for _, f := range []ledger.Fence{fenceOf(1, 2), fenceOf(1, 1, refOf(1))} {
				_, _, err := e.Fence(e.ctx, f)
				e.refused(err, blobd.ErrConflict)
			}
			e.equal("state", e.summary(2).State, ledger.ExecutionOpen)
		}},
		{"an execution of another tenant is a conflict", func(e *env) {
			e.tenant("beta", 0)
			e.put(1, 1)
			f := fenceOf(1, 1)
			f.Scope.Tenant = "beta"
			_, _, err := e.Fence(e.ctx, f)
			e.refused(err, blobd.ErrConflict)
			_, err = e.Plan(e.ctx, f.Scope)
			e.refused(err, blobd.ErrConflict)
			e.equal("state", e.summary(1).State, ledger.ExecutionOpen)
		}},
		{"a fence without an id is invalid", func(e *env) {
			f := fenceOf(1, 1)
			f.ID = ""
			_, _, err := e.Fence(e.ctx, f)
			e.refused(err, blobd.ErrInvalid)
		}},
		{"a plan counts what a fence would erase, and changes nothing", func(e *env) {
			e.commit(capture(1, start, newBlob(1), newBlob(2)))
			before := e.picture()
			for _, c := range []struct {
				scope ledger.Scope
				want  ledger.Plan
			}{
				{fenceOf(1, 1).Scope, ledger.Plan{Executions: 1, Blobs: 2, Bytes: size(1) + size(2)}},
				{fenceOf(1, 2).Scope, ledger.Plan{NotFound: 1}},
				{fenceOf(1, 1, refOf(2), refOf(9)).Scope, ledger.Plan{Blobs: 1, Bytes: size(2), NotFound: 1}},
			} {
				got, err := e.Plan(e.ctx, c.scope)
				e.must(err)
				e.equal("plan", got, c.want)
			}
			e.equal("the ledger", e.picture(), before)
			e.equal("head", e.head(), ledger.Record{})
			e.fence(fenceOf(1, 1))
			got, err := e.Plan(e.ctx, fenceOf(2, 1).Scope)
			e.must(err)
			e.equal("plan of what is erased", got, ledger.Plan{AlreadyErased: 1})
		}},
	}
}

// refsOf returns refs n, n+1, … below m.
func refsOf(n, m int) (refs []blobd.Ref) {
	for ; n < m; n++ {
		refs = append(refs, refOf(n))
	}
	return refs
}

func sortedRefs(refs ...blobd.Ref) []blobd.Ref {
	slices.SortFunc(refs, func(a, b blobd.Ref) int { return bytes.Compare(a[:], b[:]) })
	return refs
}

func fenceOfRefsSentences() []sentence {
	return []sentence{
		{"the named refs are erased and the others stay", func(e *env) {
			e.commit(capture(1, start, newBlob(1), newBlob(2), newBlob(3)))
			got, _ := e.fence(fenceOf(1, 1, refOf(1), refOf(3)))
			e.equal("plan", got.Plan, ledger.Plan{Blobs: 2, Bytes: size(1) + size(3)})
			e.equal("of refs", got.OfRefs, true)
			e.equal("refs of the scope", len(got.Scope.Refs), 0)
			b := e.blob(1, 1)
			e.equal("state", b.State, ledger.BlobErased)
			e.equal("key", b.WrappedKey, nilBytes)
			e.equal("others", e.state(1, 2), ledger.BlobLive)
			s := e.summary(1)
			e.equal("execution", []any{s.State, s.Blobs, s.Bytes}, []any{ledger.ExecutionOpen, int64(1), size(2)})
			e.equal("stats", []int64{e.stats().Blobs, e.stats().Bytes}, []int64{1, size(2)})
			e.put(1, 4)
		}},
		{"the record names the refs that have a row", func(e *env) {
			e.commit(capture(1, start, newBlob(1), newBlob(2)))
			_, r := e.fence(fenceOf(1, 1, refOf(2), refOf(9), refOf(1), refOf(2)))
			e.equal("record", r, ledger.Record{
				Seq: 1, Kind: ledger.RecordErase, At: at(10), Tenant: tenant, Tag: tagOf(1),
				Refs: sortedRefs(refOf(1), refOf(2)), ErasureID: erasureID(1), Wrap: 1, Writes: 2,
			})
		}},
		{"live, missing, lost and superseded rows are erased", func(e *env) {
			e.maximum("reasoning", 5*second)
			e.commit(capture(1, start, newBlob(1), newBlob(2)))
			e.commit(capture(1, at(6), again(1, 3)))
			e.must(e.AcceptLoss(e.ctx, tagOf(1), refOf(2), at(7), entry(ledger.EntryRecovery)))
			_, err := e.EnterMissing(e.ctx, []ledger.Position{position(1, 4)}, at(7))
			e.must(err)
			got, _ := e.fence(fenceOf(1, 1, refsOf(1, 5)...))
			e.equal("plan", got.Plan, ledger.Plan{Blobs: 4, Bytes: size(1) + size(2) + size(1)})
			for n := 1; n < 5; n++ {
				e.equal("state", e.state(1, n), ledger.BlobErased)
			}
			e.equal("blobs", e.summary(1).Blobs, int64(0))
		}},
		{"what is erased and what has no row is counted", func(e *env) {
			e.commit(capture(1, start, newBlob(1), newBlob(2)))
			e.must(e.Collect(e.ctx, position(1, 8), start))
			e.fence(fenceOf(1, 1, refOf(1)))
			got, _ := e.fence(fenceOf(2, 1, refOf(1), refOf(2), refOf(8), refOf(9), refOf(9)))
			e.equal("plan", got.Plan, ledger.Plan{Blobs: 1, Bytes: size(2), AlreadyErased: 1, NotFound: 2})
			e.equal("a ref without a row gets none", e.state(1, 9), ledger.BlobState(0))
			e.equal("a collected row stays", e.state(1, 8), ledger.BlobCollected)
		}},
		{"refs of an execution never seen are not found, and it is not fenced", func(e *env) {
			got, r := e.fence(fenceOf(1, 1, refOf(1), refOf(2)))
			e.equal("plan", got.Plan, ledger.Plan{NotFound: 2})
			e.equal("of refs", got.OfRefs, true)
			e.equal("record", []any{r.Kind, len(r.Refs)}, []any{ledger.RecordErase, 0})
			e.put(1, 1)
			e.finish(e.claim())
			e.equal("state", e.state(1, 1), ledger.BlobLive)
		}},
		{"refs of an erased execution are already erased", func(e *env) {
			e.put(1, 1)
			e.fence(fenceOf(1, 1))
			got, _ := e.fence(fenceOf(2, 1, refOf(1), refOf(2)))
			e.equal("plan", got.Plan, ledger.Plan{AlreadyErased: 2})
		}},
		{"refs of a closed execution are erased", func(e *env) {
			e.put(1, 1)
			e.restrict(1)
			e.fence(fenceOf(1, 1, refOf(1)))
			e.equal("state", e.state(1, 1), ledger.BlobErased)
			e.equal("execution", e.summary(1).State, ledger.ExecutionClosed)
		}},
		{"256 refs are erased at once", func(e *env) {
			for i := range 2 {
				var blobs []ledger.NewBlob
				for n := 200 * i; n < 200*(i+1); n++ {
					blobs = append(blobs, newBlob(n))
				}
				e.commit(capture(1, start, blobs...))
			}
			got, _ := e.fence(fenceOf(1, 1, refsOf(0, 256)...))
			e.equal("blobs", got.Plan.Blobs, int64(256))
			e.equal("left", e.summary(1).Blobs, int64(144))
			refs, err := e.ErasedRefs(e.ctx, erasureID(1))
			e.must(err)
			e.equal("refs", refs, sortedRefs(refsOf(0, 256)...))
		}},
	}
}

func erasureSentences() []sentence {
	return []sentence{
		{"an erasure of another tenant or an unknown one is not found", func(e *env) {
			e.fence(fenceOf(1, 1))
			_, err := e.Erasure(e.ctx, "beta", erasureID(1))
			e.refused(err, blobd.ErrNotFound)
			_, err = e.Erasure(e.ctx, tenant, erasureID(2))
			e.refused(err, blobd.ErrNotFound)
			_, err = e.ErasedRefs(e.ctx, erasureID(2))
			e.refused(err, blobd.ErrNotFound)
		}},
		{"the refs that it erased or found erased are told, never one without a row", func(e *env) {
			e.commit(capture(1, start, newBlob(1), newBlob(2)))
			e.must(e.Collect(e.ctx, position(1, 8), start))
			e.fence(fenceOf(1, 1, refOf(1)))
			e.fence(fenceOf(2, 1, refOf(9), refOf(8), refOf(2), refOf(1)))
			refs, err := e.ErasedRefs(e.ctx, erasureID(2))
			e.must(err)
			e.equal("refs", refs, sortedRefs(refOf(1), refOf(2)))
		}},
		{"of an erased execution it tells the refs that have a row", func(e *env) {
			e.put(1, 1)
			e.fence(fenceOf(1, 1))
			e.fence(fenceOf(2, 1, refOf(1), refOf(9)))
			refs, err := e.ErasedRefs(e.ctx, erasureID(2))
			e.must(err)
			e.equal("refs", refs, refsOf(1, 2))
		}},
		{"an erasure of an execution names no refs", func(e *env) {
			e.fence(fenceOf(1, 1))
			refs, err := e.ErasedRefs(e.ctx, erasureID(1))
			e.must(err)
			e.equal("refs", len(refs), 0)
		}},
		{"a tenant's erasures are listed newest first, then by id downwards", func(e *env) {
			var want []string
			for i := range 9 {
				f := fenceOf(i, i)
				f.At = at(10 + i/3)
				e.fence(f)
				want = append(want, f.ID)
			}
			foreign := fenceOf(50, 50)
			foreign.Scope.Tenant = "beta"
			e.fence(foreign)
			slices.Reverse(want)
			for _, limit := range []int{1, 2, 4, 100} {
				var got []string
				q := ledger.ErasureQuery{Tenant: tenant, Limit: limit}
				for {
					page, err := e.ListErasures(e.ctx, q)
					e.must(err)
					for _, x := range page {
						got = append(got, x.ID)
						q.Before = ledger.ErasureCursor{FencedAt: x.FencedAt, ID: x.ID}
					}
					if len(page) < limit {
						break
					}
				}
				e.equal(fmt.Sprintf("order in pages of %d", limit), got, want)
			}
		}},
		{"a listing is filtered by state", func(e *env) {
			e.fence(fenceOf(1, 1))
			e.fence(fenceOf(2, 2))
			e.finish(e.claim())
			for state, id := range map[ledger.ErasureState]string{
				ledger.ErasureErased: erasureID(1), ledger.ErasureRunning: erasureID(2),
			} {
				es, err := e.ListErasures(e.ctx, ledger.ErasureQuery{Tenant: tenant, State: state, Limit: 9})
				e.must(err)
				e.equal("erasures", len(es), 1)
				e.equal("id", es[0].ID, id)
			}
		}},
		{"a listing without a limit is invalid", func(e *env) {
			_, err := e.ListErasures(e.ctx, ledger.ErasureQuery{Tenant: tenant})
			e.refused(err, blobd.ErrInvalid)
		}},
	}
}
