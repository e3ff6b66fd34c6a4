package ledgertest

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// thePlan is what the sentences about plans have approved: no count of it is a true one.
var thePlan = ledger.Plan{
	Executions: 70, Blobs: 71, Bytes: 72, AlreadyErased: 73, NotFound: 74, Held: 75, Floor: 76, Shared: 77,
}

// planned is the fence of a scope with a plan.
func planned(id int, s ledger.Scope) ledger.Fence {
	f := eraseOf(id, s)
	f.Plan, f.PlanDigest, f.RequestedBy = thePlan, hash("plan", id), "asker"
	return f
}

// figures are what an erasure counts, and whether its plan is its own.
type figures struct {
	Plan    ledger.Plan
	Planned bool
	Dropped int64
	Drops   ledger.Extent
	Fenced  ledger.Plan
}

func (e *env) figures(what string, id int, want figures) {
	e.Helper()
	x := e.erasure(erasureID(id))
	e.equal(what, figures{x.Plan, x.Planned, x.Dropped, x.Drops, x.Fenced}, want)
	if want.Planned {
		e.equal(what+": digest", x.PlanDigest, hash("plan", id))
	}
	es, err := e.ListErasures(e.ctx, ledger.ErasureQuery{Tenant: tenant, Limit: 10})
	e.must(err)
	i := slices.IndexFunc(es, func(l ledger.Erasure) bool { return l.ID == x.ID })
	e.equal(what+": listed", es[i], x)
}

func deltaSentences() []sentence {
	return slices.Concat(planSentences(), dropCountSentences(), deltaReplaySentences(), deltaParallelSentences())
}

func planSentences() []sentence {
	found := map[string]ledger.Plan{
		"execution": {Executions: 1, Blobs: 2, Bytes: size(1) + size(2)},
		"refs":      {Blobs: 1, Bytes: size(1), NotFound: 1},
		"tenant":    {Executions: 3, Blobs: 4, Bytes: size(1) + size(2) + size(3) + size(4)},
	}
	scopes := map[string]ledger.Scope{"execution": executionScope(1), "refs": refScope(1, 1, 30), "tenant": tenantScope()}
	return []sentence{
		{"what fences as it is asked for has what it found for its plan, whatever it came with", func(e *env) {
			for form, s := range scopes {
				fresh := e.fresh()
				fresh.scene()
				fresh.fence(planned(1, s))
				fresh.dropKeys(fresh.claimAt(20).Lease, 3)
				fresh.figures(form, 1, figures{Plan: found[form], Fenced: found[form]})
			}
		}},
		{"what only closes without a digest has no plan of its own: what the fence found is", func(e *env) {
			for form, s := range scopes {
				fresh := e.fresh()
				fresh.scene()
				f := planned(1, s)
				f.PlanDigest, f.GraceUntil = [32]byte{}, at(60)
				fresh.fence(f)
				fresh.figures(form, 1, figures{Plan: thePlan})
				j := fresh.claimAt(60)
				_, _, err := fresh.FenceClosed(fresh.ctx, j.Lease, at(61), nil)
				fresh.must(err)
				fresh.dropKeys(j.Lease, 3)
				fresh.figures(form, 1, figures{Plan: found[form], Fenced: found[form]})
			}
		}},
		{"a plan that was approved stays, and what the fence found is counted beside it", func(e *env) {
			for form, s := range scopes {
				for _, later := range []bool{false, true} {
					fresh := e.fresh()
					fresh.scene()
					f := planned(1, s)
					f.Approvals = 1
					fresh.fence(f)
					fresh.figures(form, 1, figures{Plan: thePlan, Planned: true})
					d := decisionOf(1, ledger.ActApprove, "ann")
					if later {
						d.GraceUntil = at(60)
					}
					fresh.decide(d)
					j := fresh.claimAt(60)
					if later {
						fresh.figures(form+", closed", 1, figures{Plan: thePlan, Planned: true})
						_, _, err := fresh.FenceClosed(fresh.ctx, j.Lease, at(61), nil)
						fresh.must(err)
					}
					p, _ := fresh.dropKeys(j.Lease, 3)
					e.equal(form+": told", p, found[form])
					fresh.figures(fmt.Sprint(form, ", later ", later), 1, figures{Plan: thePlan, Planned: true, Fenced: found[form]})
					fresh.finish(j)
					fresh.figures(form+", erased", 1, figures{Plan: thePlan, Planned: true, Fenced: found[form]})
				}
			}
		}},
		{"what is planned anew has the new plan, which stays", func(e *env) {
			e.scene()
			f := planned(1, executionScope(1))
			f.Approvals, f.Plan = 1, ledger.Plan{Blobs: 1}
			e.fence(f)
			e.must(e.Replan(e.ctx, tenant, f.ID, thePlan, hash("plan", 1), entry(ledger.EntryErasure)))
			e.decide(decisionOf(1, ledger.ActApprove, "ann"))
			e.figures("approved", 1, figures{Plan: thePlan, Planned: true, Fenced: found["execution"]})
		}},
		{"what is fenced, and what nothing is left of, is counted as found erased", func(e *env) {
			for form, s := range scopes {
				fresh := e.fresh()
				fresh.scene()
				f := planned(1, s)
				f.GraceUntil = at(60)
				fresh.fence(f)
				first := eraseOf(2, s)
				if len(s.Refs) > 0 {
					first.Scope = executionScope(1)
				}
				fresh.fence(first)
				earlier := fresh.claimAt(20)
				fresh.dropKeys(earlier.Lease, 9)
				fresh.finish(earlier)
				j := fresh.claimAt(60)
				_, _, err := fresh.FenceClosed(fresh.ctx, j.Lease, at(61), nil)
				fresh.must(err)
				want := ledger.Plan{AlreadyErased: int64(max(1, len(s.Refs)))}
				fresh.figures(form, 1, figures{Plan: thePlan, Planned: true, Fenced: want})
			}
		}},
	}
}

func dropCountSentences() []sentence {
	return []sentence{
		{"what was dropped before the fence is counted once, and beside what the fence found", func(e *env) {
			for form, c := range map[string]struct {
				scope   ledger.Scope
				dropped figures
				rest    ledger.Plan
			}{
				"execution": {executionScope(1),
					figures{Dropped: 1, Drops: ledger.Extent{Blobs: 1, Bytes: size(1)}},
					ledger.Plan{Executions: 1, Blobs: 1, Bytes: size(2)}},
				"refs": {refScope(1, 1, 2, 30),
					figures{Dropped: 1, Drops: ledger.Extent{Blobs: 1, Bytes: size(1)}},
					ledger.Plan{Blobs: 1, Bytes: size(2), NotFound: 1}},
				"tenant": {tenantScope(),
					figures{Dropped: 3, Drops: ledger.Extent{Blobs: 3, Bytes: size(1) + size(3) + size(4)}},
					ledger.Plan{Executions: 3, Blobs: 1, Bytes: size(2)}},
			} {
				fresh := e.fresh()
				fresh.scene()
				fresh.hold(1, refScope(1, 2))
				fresh.fence(planned(1, c.scope))
				j := fresh.claimAt(20)
				for range 3 { // a pass that is made again, of pages of any size, counts nothing twice
					fresh.pass(j, 2)
					fresh.pass(j, 100)
				}
				want := c.dropped
				want.Plan, want.Planned = thePlan, true
				fresh.figures(form+", dropped", 1, want)
				fresh.lift(1, ledger.OrderHold)
				_, _, err := fresh.FenceClosed(fresh.ctx, j.Lease, at(21), nil)
				fresh.must(err)
				fresh.dropKeys(j.Lease, 1)
				want.Fenced = c.rest
				fresh.figures(form+", fenced", 1, want)
				fresh.finish(j)
				fresh.figures(form+", erased", 1, want)
			}
		}},
		{"without a plan of its own, what was dropped before is not in what the fence found", func(e *env) {
			e.scene()
			e.hold(1, refScope(1, 2))
			e.fence(eraseOf(1, refScope(1, 1, 2)))
			j := e.claimAt(20)
			e.pass(j, 10)
			e.lift(1, ledger.OrderHold)
			_, _, err := e.FenceClosed(e.ctx, j.Lease, at(21), nil)
			e.must(err)
			rest := ledger.Plan{Blobs: 1, Bytes: size(2)}
			e.figures("fenced", 1, figures{Plan: rest, Dropped: 1, Drops: ledger.Extent{Blobs: 1, Bytes: size(1)}, Fenced: rest})
		}},
		{"of a whole execution and tenant only what is live is taken, of other forms every row", func(e *env) {
			for form, s := range map[string]ledger.Scope{"execution": executionScope(1), "tenant": tenantScope(), "refs": refScope(1, 1, 2, 9), "class": classScope("reasoning", at(9))} {
				fresh := e.fresh()
				fresh.maximum("reasoning", 5*second)
				fresh.put(1, 1)
				fresh.put(1, 2)
				fresh.commit(capture(1, at(6), again(1, 9))) // supersedes 1
				fresh.must(fresh.AcceptLoss(e.ctx, tagOf(1), refOf(2), at(6), entry(ledger.EntryRecovery)))
				fresh.putClass(2, 8, "free", start)
				fresh.hold(1, executionScope(2))
				if form == "execution" || form == "refs" {
					fresh.putClass(1, 7, "free", start)
					fresh.hold(2, refScope(1, 7))
				}
				if form == "refs" {
					s = refScope(1, 1, 2, 7, 9)
				}
				fresh.fence(planned(1, s))
				fresh.pass(fresh.claimAt(20), 2)
				want := ledger.Extent{Blobs: 1, Bytes: size(1)} // the one that superseded has its text
				switch form {
				case "refs":
					want = ledger.Extent{Blobs: 3, Bytes: 2*size(1) + size(2)}
				case "class":
					want = ledger.Extent{Executions: 1, Blobs: 3, Bytes: 2*size(1) + size(2)}
				}
				fresh.figures(form, 1, figures{Plan: thePlan, Planned: true, Dropped: 3, Drops: want})
			}
		}},
		{"an execution in which something was met counts once, of what nothing fences", func(e *env) {
			for form, s := range map[string]ledger.Scope{"subjects": subjectScope(1), "class": classScope("reasoning", at(9))} {
				fresh := e.fresh()
				for n := range 9 {
					fresh.putTagged(n/3, n, 1)
				}
				fresh.fence(fenceOf(9, 2, refsOf(6, 9)...)) // what was erased before is not met
				first := fresh.claimAt(20)
				fresh.hold(1, executionScope(1))
				fresh.fence(planned(1, s))
				j := fresh.claimAt(20)
				fresh.pass(j, 2)
				want := figures{Plan: thePlan, Planned: true, Dropped: 3, Drops: ledger.Extent{Executions: 2, Blobs: 3, Bytes: size(0) + size(1) + size(2)}}
				fresh.figures(form+", some is held", 1, want)
				fresh.lift(1, ledger.OrderHold)
				fresh.pass(j, 1)
				fresh.pass(j, 100)
				want.Dropped, want.Drops.Blobs = 6, 6
				want.Drops.Bytes += size(3) + size(4) + size(5)
				fresh.figures(form, 1, want)
				fresh.finish(first)
				fresh.finish(j)
				fresh.figures(form+", erased", 1, want)
			}
		}},
		{"a page that could not tell what it dropped counts nothing", func(e *env) {
			e.scene()
			e.fence(planned(1, subjectScope(1)))
			d := dropOf(10)
			d.Entry = func([]ledger.DueRow) (ledger.Entry, error) { return ledger.Entry{}, blobd.ErrCorrupt }
			_, err := e.Drop(e.ctx, e.claimAt(20).Lease, d)
			e.refused(err, blobd.ErrCorrupt)
			e.figures("undone", 1, figures{Plan: thePlan, Planned: true})
		}},
	}
}

func deltaReplaySentences() []sentence {
	lostFence := func(seq int64, s ledger.Scope) ledger.Record {
		r := ledger.Record{Seq: seq, Kind: ledger.RecordFence, At: at(5), Tenant: tenant, Tag: s.Tag, Refs: s.Refs, ErasureID: erasureID(1), Writes: 9}
		switch {
		case s.WholeTenant:
			r.Kind = ledger.RecordTenant
		case len(s.Refs) > 0:
			r.Kind = ledger.RecordErase
		}
		return r
	}
	return []sentence{
		{"a lost fence counts what it finds now, beside the plan of an erasure that is there", func(e *env) {
			for form, c := range map[string]struct {
				scope  ledger.Scope
				fenced ledger.Plan
			}{
				"execution": {executionScope(1), ledger.Plan{Executions: 1, Blobs: 1, Bytes: size(2)}},
				"refs":      {refScope(1, 1, 2), ledger.Plan{Blobs: 1, Bytes: size(2)}},
				"tenant":    {tenantScope(), ledger.Plan{Executions: 3, Blobs: 1, Bytes: size(2)}},
			} {
				fresh := e.fresh()
				fresh.scene()
				fresh.hold(1, refScope(1, 2))
				fresh.fence(planned(1, c.scope))
				fresh.pass(fresh.claimAt(20), 10)
				fresh.lift(1, ledger.OrderHold)
				before := fresh.erasure(erasureID(1))
				r := lostFence(50, c.scope)
				fresh.replay(r)
				fresh.replay(r) // once
				fresh.dropKeys(fresh.claimAt(2000).Lease, 3)
				fresh.figures(form, 1, figures{Plan: thePlan, Planned: true, Dropped: before.Dropped, Drops: before.Drops, Fenced: c.fenced})
			}
		}},
		{"a lost erasure comes back without a plan: what its fence finds now is", func(e *env) {
			e.scene()
			e.replay(lostFence(50, executionScope(1)))
			found := ledger.Plan{Executions: 1, Blobs: 2, Bytes: size(1) + size(2)}
			e.figures("replayed", 1, figures{Plan: found, Fenced: found})
		}},
		{"a lost closing keeps the plan of an erasure that awaited approvals, and one whose row is lost has none", func(e *env) {
			e.scene()
			f := planned(1, executionScope(1))
			f.Approvals = 1
			e.fence(f)
			e.replay(lostClosing(50, 1, executionScope(1)), lostClosing(51, 2, executionScope(2)))
			_, _, err := e.FenceClosed(e.ctx, e.claimAt(20).Lease, at(21), nil)
			e.must(err)
			_, _, err = e.FenceClosed(e.ctx, e.claimAt(20).Lease, at(21), nil)
			e.must(err)
			e.figures("with its row", 1, figures{Plan: thePlan, Planned: true, Fenced: ledger.Plan{Executions: 1, Blobs: 2, Bytes: size(1) + size(2)}})
			rest := e.erasure(erasureID(2))
			e.equal("without", []any{rest.Planned, rest.Plan}, []any{false, rest.Fenced})
		}},
	}
}

func deltaParallelSentences() []sentence {
	return []sentence{
		{"puts against the last approval: what landed is what it fenced, to the blob", func(e *env) {
			for form, s := range map[string]ledger.Scope{"execution": executionScope(1), "tenant": tenantScope()} {
				fresh := e.fresh()
				fresh.put(1, 1000)
				f := planned(1, s)
				f.Approvals, f.Plan = 1, ledger.Plan{Executions: 1, Blobs: 1, Bytes: size(1000)}
				fresh.fence(f)
				var mu sync.Mutex
				want := ledger.Extent{}
				together(workers, func(i int) {
					if i == workers/2 {
						if _, _, err := fresh.Decide(e.ctx, decisionOf(1, ledger.ActApprove, "ann")); err != nil {
							e.Errorf("approve: %v", err)
						}
						return
					}
					_, err := fresh.Commit(e.ctx, capture(1, start, newBlob(i)))
					mu.Lock()
					defer mu.Unlock()
					switch {
					case err == nil:
						want = want.Plus(ledger.Extent{Blobs: 1, Bytes: size(i)})
					case !errors.Is(err, blobd.ErrErased) && !errors.Is(err, blobd.ErrTenantErased):
						e.Errorf("put %d: %v", i, err)
					}
				})
				j := fresh.claimAt(20)
				fresh.dropKeys(j.Lease, 9)
				fresh.finish(j)
				x := fresh.erasure(erasureID(1))
				got, known := x.Delta()
				e.equal(form, []any{known, x.Plan, got}, []any{true, f.Plan, want})
			}
		}},
		{"puts against a closing: what landed is what its pass drops, to the blob", func(e *env) {
			for form, s := range map[string]ledger.Scope{"subjects": subjectScope(1), "class": classScope("reasoning", at(9))} {
				fresh := e.fresh()
				fresh.put(900, 1000)
				var mu sync.Mutex
				want := ledger.Extent{}
				together(workers, func(i int) {
					if i == workers/2 {
						f := planned(1, s)
						f.Plan = ledger.Plan{Executions: 1, Blobs: 1, Bytes: size(1000)}
						if _, _, err := fresh.Fence(e.ctx, f); err != nil {
							e.Errorf("close: %v", err)
						}
						return
					}
					_, err := fresh.Commit(e.ctx, tagged(i, i))
					mu.Lock()
					defer mu.Unlock()
					switch {
					case err == nil:
						want = want.Plus(ledger.Extent{Executions: 1, Blobs: 1, Bytes: size(i)})
					case !errors.Is(err, blobd.ErrClosed):
						e.Errorf("put %d: %v", i, err)
					}
				})
				if form == "subjects" { // the first blob is nobody's
					want = want.Minus(ledger.Extent{Executions: 1, Blobs: 1, Bytes: size(1000)})
				}
				j := fresh.claimAt(20)
				fresh.pass(j, 3)
				fresh.finish(j)
				x := fresh.erasure(erasureID(1))
				got, known := x.Delta()
				e.equal(form, []any{known, got}, []any{true, want})
			}
		}},
	}
}
