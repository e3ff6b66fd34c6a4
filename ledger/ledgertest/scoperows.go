package ledgertest

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// scopeRows pages over a scope.
func (e *env) scopeRows(s ledger.Scope, limit int) (all []ledger.ScopeRow) {
	e.Helper()
	var after ledger.ScopeCursor
	for range 1000 {
		rows, next, err := e.ScopeRows(e.ctx, s, after, limit)
		e.must(err)
		if len(rows) > limit {
			e.Fatalf("a page of %d", len(rows))
		}
		all = append(all, rows...)
		if next == (ledger.ScopeCursor{}) {
			slices.SortFunc(all, func(a, b ledger.ScopeRow) int { return bytes.Compare(a.Ref[:], b.Ref[:]) })
			return all
		}
		after = next
	}
	e.Fatal("a scope does not end")
	return nil
}

func refsOfScope(rows []ledger.ScopeRow) (refs []blobd.Ref) {
	for _, r := range rows {
		refs = append(refs, r.Ref)
	}
	return refs
}

func scopeRowSentences() []sentence {
	return []sentence{
		{"the rows of a scope are told in pages of any size, each once", func(e *env) {
			e.scene()
			for _, c := range sceneScopes() {
				var want []blobd.Ref
				for _, n := range c.covered {
					want = append(want, refOf(n))
				}
				for _, limit := range []int{1, 2, 3, 100} {
					e.equal(fmt.Sprintf("%s in pages of %d", c.form, limit), refsOfScope(e.scopeRows(c.scope, limit)), sortedRefs(want...))
				}
			}
			both := capture(1, at(3), newBlob(30))
			both.Subjects = [][32]byte{subjectOf(1), subjectOf(2)}
			e.commit(both)
			for _, limit := range []int{1, 2, 100} {
				e.equal("tagged twice", refsOfScope(e.scopeRows(subjectScope(1, 2), limit)), sortedRefs(refOf(1), refOf(2), refOf(3), refOf(30)))
			}
		}},
		{"many rows of a time, in many executions, are told each once", func(e *env) {
			var want []blobd.Ref
			for n := range 40 {
				c := sceneCapture(n%7, n, "notes", 1, at(n%3))
				e.commit(c)
				want = append(want, refOf(n))
			}
			for _, s := range []ledger.Scope{subjectScope(1), classScope("notes", time.Time{}), classScope("notes", at(9)), tenantScope()} {
				for _, limit := range []int{1, 7, 39, 40, 41} {
					e.equal(fmt.Sprintf("form %d in pages of %d", s.Form(), limit), refsOfScope(e.scopeRows(s, limit)), sortedRefs(want...))
				}
			}
			e.equal("up to a time", len(e.scopeRows(classScope("notes", at(1)), 5)), 14)
		}},
		{"a row is told with what decides about it", func(e *env) {
			e.scene()
			e.end(1, at(9))
			e.hold(1, refScope(1, 2))
			rows := e.scopeRows(executionScope(1), 10)
			want := map[blobd.Ref]ledger.ScopeRow{}
			for n, class := range map[int]string{1: "reasoning", 2: "notes"} {
				want[refOf(n)] = ledger.ScopeRow{DueRow: ledger.DueRow{
					Position: position(1, n), ExecutionID: idOf(1), Class: class, State: ledger.BlobLive, CreatedAt: start, EndedAt: at(9), Size: size(n), Held: n == 2,
				}}
			}
			for _, r := range rows {
				r.N = 0
				e.equal("row", r, want[r.Ref])
			}
		}},
		{"what is held is told, by a hold of any form", func(e *env) {
			e.scene()
			for i, h := range sceneScopes() {
				e.hold(i, h.scope)
				for _, r := range e.scopeRows(tenantScope(), 2) {
					held := slices.ContainsFunc(h.covered, func(n int) bool { return r.Ref == refOf(n) })
					e.equal(h.form, r.Held, held)
				}
				e.lift(i, ledger.OrderHold)
			}
		}},
		{"a row that is tagged with someone else too is shared, in a scope of subjects only", func(e *env) {
			e.putTagged(1, 1, 1)
			e.putTagged(1, 2, 1, 2)
			e.putTagged(1, 3, 1, 2, 3)
			shared := func(s ledger.Scope) (refs []blobd.Ref) {
				for _, r := range e.scopeRows(s, 2) {
					if r.Shared {
						refs = append(refs, r.Ref)
					}
				}
				return refs
			}
			e.equal("one", shared(subjectScope(1)), sortedRefs(refOf(2), refOf(3)))
			e.equal("two", shared(subjectScope(1, 2)), refsOf(3, 4))
			e.equal("all", len(shared(subjectScope(1, 2, 3))), 0)
			e.equal("an execution", len(shared(executionScope(1))), 0)
			e.equal("a tenant", len(shared(tenantScope())), 0)
		}},
		{"what was erased before is told as erased while its object may be there, and no tombstones and collected rows", func(e *env) {
			for n := 1; n < 5; n++ {
				e.putTagged(n, n, 1)
			}
			e.putTagged(4, 14, 1)
			e.fence(fenceOf(1, 1))
			e.fence(fenceOf(2, 2, refOf(2)))
			e.fence(fenceOf(3, 3))
			for {
				if j := e.claimAt(20); j.Erasure.ID == erasureID(3) {
					e.finish(j)
					break
				}
			}
			e.must(e.Collect(e.ctx, position(4, 20), at(3)))
			for _, s := range []ledger.Scope{subjectScope(1), classScope("reasoning", time.Time{}), tenantScope()} {
				erased := map[blobd.Ref]bool{}
				for _, r := range e.scopeRows(s, 2) {
					erased[r.Ref] = r.Erased
				}
				e.equal(fmt.Sprint("form ", s.Form()), erased, map[blobd.Ref]bool{refOf(1): true, refOf(2): true, refOf(4): false, refOf(14): false})
			}
			e.equal("an erased execution", e.scopeRows(executionScope(1), 9)[0].Erased, true)
			e.equal("refs", refsOfScope(e.scopeRows(refScope(4, 4, 20, 30), 9)), refsOf(4, 5))
			e.fence(offboard(4))
			for _, r := range e.scopeRows(tenantScope(), 9) {
				e.equal("in a fenced tenant", r.Erased, true)
			}
		}},
		{"missing, lost, superseded and expired rows are told", func(e *env) {
			e.maximum("reasoning", 5*second)
			for n := 1; n < 5; n++ {
				e.put(1, n)
			}
			e.commit(capture(1, at(6), again(1, 9)))
			e.must(e.AcceptLoss(e.ctx, tagOf(1), refOf(2), at(6), entry(ledger.EntryRecovery)))
			e.clock.set(at(7))
			j := e.sweep(1)
			e.expire(j, 2, position(1, 3), position(1, 4))
			e.bury(j, 1, position(1, 4))
			_, err := e.EnterMissing(e.ctx, []ledger.Position{position(1, 6)}, at(7))
			e.must(err)
			for _, s := range []ledger.Scope{executionScope(1), refScope(1, 1, 2, 3, 4, 6, 9), tenantScope()} {
				states := map[blobd.Ref]ledger.BlobState{}
				for _, r := range e.scopeRows(s, 2) {
					states[r.Ref] = r.State
				}
				e.equal(fmt.Sprint("form ", s.Form()), states, map[blobd.Ref]ledger.BlobState{
					refOf(1): ledger.BlobSuperseded, refOf(2): ledger.BlobLost, refOf(3): ledger.BlobExpired, refOf(6): ledger.BlobMissing, refOf(9): ledger.BlobLive,
				})
			}
		}},
		{"an empty scope has no rows, and a listing without a limit or a scope of no form is invalid", func(e *env) {
			e.scene()
			for _, s := range []ledger.Scope{executionScope(7), refScope(7, 1), refScope(1, 30), subjectScope(7), classScope("nothing", time.Time{})} {
				e.equal("rows", len(e.scopeRows(s, 3)), 0)
			}
			_, _, err := e.ScopeRows(e.ctx, executionScope(1), ledger.ScopeCursor{}, 0)
			e.refused(err, blobd.ErrInvalid)
			_, _, err = e.ScopeRows(e.ctx, ledger.Scope{Tenant: tenant}, ledger.ScopeCursor{}, 1)
			e.refused(err, blobd.ErrInvalid)
		}},
	}
}

func findSentences() []sentence {
	return []sentence{
		{"coverage counts what is live, and what of it is tagged", func(e *env) {
			e.maximum("reasoning", 5*second)
			for n := 1; n < 4; n++ {
				e.putTagged(n, n, 1)
			}
			e.putTagged(1, 11)
			e.putTagged(1, 12, 1, 2)
			coverage := func(id string) ledger.Coverage {
				c, err := e.Coverage(e.ctx, id)
				e.must(err)
				return c
			}
			e.equal("coverage", coverage(tenant), ledger.Coverage{Blobs: 5, Tagged: 4})
			e.fence(fenceOf(1, 2))
			e.fence(fenceOf(2, 1, refOf(1)))
			e.must(e.AcceptLoss(e.ctx, tagOf(3), refOf(3), at(3), entry(ledger.EntryRecovery)))
			_, err := e.EnterMissing(e.ctx, []ledger.Position{position(1, 20), position(77, 20)}, at(7))
			e.must(err)
			e.equal("after erasures", coverage(tenant), ledger.Coverage{Blobs: 2, Tagged: 1})
			e.equal("of an unknown tenant", coverage("nobody"), ledger.Coverage{})
			e.fence(offboard(3))
			e.equal("of a fenced tenant", coverage(tenant), ledger.Coverage{})
		}},
		{"the executions are found in which a ref has a row", func(e *env) {
			e.tenant("beta", 0)
			for x := 1; x <= 4; x++ {
				e.put(x, 1)
			}
			e.put(5, 5)
			e.beta(9, 1)
			e.fence(fenceOf(1, 4, refOf(1)))
			find := func(id string, n, limit int) []blobd.ExecutionTag {
				tags, err := e.FindRef(e.ctx, id, refOf(n), limit)
				e.must(err)
				slices.SortFunc(tags, func(a, b blobd.ExecutionTag) int { return bytes.Compare(a[:], b[:]) })
				return tags
			}
			want := []blobd.ExecutionTag{tagOf(1), tagOf(2), tagOf(3), tagOf(4)}
			slices.SortFunc(want, func(a, b blobd.ExecutionTag) int { return bytes.Compare(a[:], b[:]) })
			e.equal("found", find(tenant, 1, 10), want)
			e.equal("at most", len(find(tenant, 1, 3)), 3)
			e.equal("another tenant's", find("beta", 1, 10), []blobd.ExecutionTag{tagOf(9)})
			e.equal("nowhere", len(find(tenant, 7, 10)), 0)
			_, err := e.FindRef(e.ctx, tenant, refOf(1), 0)
			e.refused(err, blobd.ErrInvalid)
		}},
	}
}
