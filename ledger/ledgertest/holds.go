package ledgertest

import (
	"slices"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// touches reports whether two lists have a number in common.
func touches(a, b []int) bool {
	return slices.ContainsFunc(a, func(n int) bool { return slices.Contains(b, n) })
}

// intact checks that rows of the scene, of the first tenant, have their keys and are
// live.
func (e *env) intact(what string, blobs ...int) {
	e.Helper()
	for _, n := range blobs {
		b := e.blob(sceneBlobs[n], n)
		if b.State != ledger.BlobLive || b.WrappedKey == nil {
			e.Fatalf("%s: blob %d is %d, its key %d bytes", what, n, b.State, len(b.WrappedKey))
		}
		if e.summary(sceneBlobs[n]).Key == nil {
			e.Fatalf("%s: the key of execution %d is gone", what, sceneBlobs[n])
		}
	}
}

// fences are the scopes that can be fenced at once, with what they hold of the scene.
func fences() []scopeCase {
	return []scopeCase{
		{form: "execution", scope: executionScope(1), covered: []int{1, 2}},
		{form: "refs", scope: refScope(1, 1, 50), covered: []int{1}},
		{form: "other refs", scope: refScope(1, 2), covered: []int{2}},
		{form: "other execution", scope: executionScope(2), covered: []int{3}},
		{form: "tenant", scope: tenantScope(), covered: []int{1, 2, 3, 4}},
	}
}

func holdSentences() []sentence {
	return []sentence{
		{"a fence that meets a hold of any form only closes its scope, and any other fences", func(e *env) {
			for _, h := range sceneScopes() {
				for _, f := range fences() {
					fresh := e.fresh()
					fresh.scene()
					fresh.hold(1, h.scope)
					got, r := fresh.fence(eraseOf(1, f.scope))
					what := "hold of " + h.form + ", fence of " + f.form
					met := touches(h.covered, f.covered)
					e.equal(what, []any{got.Closing, got.State}, []any{met, ledger.ErasureRunning})
					if met {
						e.equal(what, []any{r.Kind, r.OrderKind}, []any{ledger.RecordOrder, ledger.OrderClosing})
						fresh.intact(what, 1, 2, 3, 4)
						e.equal(what, fresh.blob(sceneBlobs[f.covered[0]], f.covered[0]).Closed, ledger.ClosedErasure)
					}
				}
			}
		}},
		{"a hold that was lifted, and one of another tenant, protect nothing", func(e *env) {
			e.scene()
			foreign := classScope("reasoning", time.Time{})
			foreign.Tenant = "beta"
			e.hold(1, foreign)
			e.hold(2, executionScope(1))
			e.lift(2, ledger.OrderHold)
			got, _ := e.fence(fenceOf(1, 1))
			e.equal("closing", got.Closing, false)
		}},
		{"a hold on one blob of an execution keeps the fence from all of it", func(e *env) {
			e.scene()
			e.hold(1, refScope(1, 2))
			got, _ := e.fence(fenceOf(1, 1))
			e.equal("closing", got.Closing, true)
			e.intact("held", 1, 2)
		}},
		{"a blob that comes later is held too", func(e *env) {
			e.put(1, 1)
			for i, s := range []ledger.Scope{executionScope(1), refScope(1, 20), subjectScope(5), classScope("new", at(4)), tenantScope()} {
				fresh := e.fresh()
				fresh.put(1, 1)
				fresh.hold(i, s)
				fresh.commit(sceneCapture(1, 20, "new", 5, at(3)))
				got, _ := fresh.fence(fenceOf(1, 1, refOf(20)))
				e.equal("closing", got.Closing, true)
			}
		}},
		{"a blob that is tagged later is held from then on", func(e *env) {
			e.put(1, 1)
			e.hold(1, subjectScope(1))
			c := retained(1, at(1), refOf(1))
			c.Subjects = [][32]byte{subjectOf(1)}
			e.commit(c)
			got, _ := e.fence(fenceOf(1, 1))
			e.equal("closing", got.Closing, true)
		}},
		{"rows of every state but erased and collected are held, and tombstones are not", func(e *env) {
			e.maximum("reasoning", 5*second)
			for n := 1; n < 6; n++ {
				e.put(1, n)
			}
			e.commit(capture(1, at(6), again(1, 9))) // supersedes 1
			e.must(e.AcceptLoss(e.ctx, tagOf(1), refOf(2), at(6), entry(ledger.EntryRecovery)))
			e.fence(fenceOf(1, 1, refOf(3)))
			e.clock.set(at(7))
			j := e.sweep(1)
			e.expire(j, 2, position(1, 4), position(1, 5))
			e.bury(j, 1, position(1, 5))
			_, err := e.EnterMissing(e.ctx, []ledger.Position{position(1, 6)}, at(7))
			e.must(err)
			e.must(e.Collect(e.ctx, position(1, 7), at(7)))
			e.hold(1, executionScope(1))
			for n, want := range map[int]bool{1: true, 2: true, 3: false, 4: true, 5: false, 6: true, 7: false, 8: false, 9: true} {
				f := fenceOf(100+n, 1, refOf(n))
				f.Strict = true
				_, _, err := e.Fence(e.ctx, f)
				if want {
					e.refused(err, blobd.ErrHeld)
				} else {
					e.must(err)
				}
			}
		}},
		{"a hold over what was never seen, or is erased, keeps no fence", func(e *env) {
			e.tenant("beta", 0)
			e.hold(1, executionScope(7))
			got, _ := e.fence(fenceOf(1, 7))
			e.equal("never seen", []any{got.Closing, got.Plan}, []any{false, ledger.Plan{NotFound: 1}})
			e.put(1, 1)
			e.fence(fenceOf(2, 1))
			e.hold(2, tenantScope())
			got, _ = e.fence(fenceOf(3, 1))
			e.equal("erased", []any{got.Closing, got.Plan}, []any{false, ledger.Plan{AlreadyErased: 1}})
			got, _ = e.fence(fenceOf(4, 1, refOf(1)))
			e.equal("erased refs", []any{got.Closing, got.Plan}, []any{false, ledger.Plan{AlreadyErased: 1}})
			got, _ = e.fence(offboard(5))
			e.equal("a tenant of which all is erased", got.Closing, false)
		}},
		{"a row of an execution without a row is held by the scopes of that execution alone", func(e *env) {
			_, err := e.EnterMissing(e.ctx, []ledger.Position{position(7, 1), position(8, 1)}, at(3))
			e.must(err)
			e.hold(1, executionScope(7))
			e.equal("rows of the tenant", len(e.scopeRows(tenantScope(), 9)), 0)
			e.equal("rows of the execution", e.scopeRows(executionScope(7), 9)[0].Held, true)
			got, _ := e.fence(fenceOf(1, 7))
			e.equal("held", got.Closing, true)
			e.hold(2, tenantScope())
			e.equal("rows of the other", e.scopeRows(executionScope(8), 9)[0].Held, false)
			got, _ = e.fence(fenceOf(2, 8))
			e.equal("not held", got.Closing, false)
			e.equal("closed rows", []ledger.CloseReason{e.blob(7, 1).Closed, e.blob(8, 1).Closed}, []ledger.CloseReason{0, 0})
			got, _ = e.fence(offboard(3))
			e.equal("the tenant", got.Closing, false)
		}},
		{"strict refuses where something is protected, and changes nothing", func(e *env) {
			e.scene()
			e.hold(1, refScope(1, 1))
			before := e.whole()
			for _, s := range []ledger.Scope{
				executionScope(1), refScope(1, 1, 2), subjectScope(1), classScope("reasoning", time.Time{}), tenantScope(),
			} {
				for _, change := range []func(*ledger.Fence){
					func(*ledger.Fence) {},
					func(f *ledger.Fence) { f.DeferUntil = at(50) },
					func(f *ledger.Fence) { f.GraceUntil = at(50) },
					func(f *ledger.Fence) { f.Approvals = 1 },
				} {
					f := eraseOf(1, s)
					f.Strict = true
					change(&f)
					_, _, err := e.Fence(e.ctx, f)
					e.refused(err, blobd.ErrHeld)
				}
			}
			e.equal("the ledger", e.whole(), before)
			_, err := e.Order(e.ctx, tenant, erasureID(1))
			e.refused(err, blobd.ErrNotFound)
		}},
		{"strict does not refuse where nothing is protected", func(e *env) {
			e.scene()
			e.hold(1, refScope(1, 1))
			for i, want := range []ledger.ErasureState{ledger.ErasureRunning, ledger.ErasureRunning, ledger.ErasureGrace, ledger.ErasureAwaiting} {
				f := eraseOf(i, []ledger.Scope{refScope(1, 2), classScope("notes", at(1)), executionScope(2), executionScope(3)}[i])
				f.Strict = true
				switch want {
				case ledger.ErasureGrace:
					f.GraceUntil = at(50)
				case ledger.ErasureAwaiting:
					f.Approvals = 1
				}
				got, _ := e.fence(f)
				e.equal("state", got.State, want)
				e.equal("closing", got.Closing, i > 0)
			}
		}},
		{"a sweep leaves what is held, by a hold of any form", func(e *env) {
			for _, h := range sceneScopes() {
				fresh := e.fresh()
				fresh.maximum("reasoning", 5*second)
				fresh.maximum("notes", 5*second)
				fresh.scene()
				fresh.hold(1, h.scope)
				fresh.clock.set(at(15))
				for _, class := range []string{"reasoning", "notes"} {
					for _, r := range fresh.due(ledger.DueQuery{Class: class}) {
						held := slices.ContainsFunc(h.covered, func(n int) bool { return r.Ref == refOf(n) })
						e.equal(h.form+": due", r.Held, held)
					}
				}
				j := fresh.sweep(1)
				fresh.expire(j, 4-len(h.covered), position(1, 1), position(1, 2), position(2, 3), position(3, 4))
				fresh.intact(h.form, h.covered...)
				fresh.lift(1, ledger.OrderHold)
				fresh.expire(j, len(h.covered), position(1, 1), position(1, 2), position(2, 3), position(3, 4))
			}
		}},
		{"a hold that is placed while a sweep runs protects what it has not expired yet", func(e *env) {
			e.maximum("reasoning", 5*second)
			e.put(1, 1)
			e.put(1, 2)
			e.clock.set(at(6))
			j := e.sweep(1)
			e.expire(j, 1, position(1, 1))
			e.hold(1, executionScope(1))
			e.expire(j, 0, position(1, 2))
			e.equal("expired before", e.state(1, 1), ledger.BlobExpired)
			e.bury(j, 1, position(1, 1))
		}},
	}
}

func floorSentences() []sentence {
	return []sentence{
		{"a fence that meets a legal floor only closes its scope, until the floor's end", func(e *env) {
			for _, f := range fences() {
				if !touches(f.covered, []int{2, 4}) {
					continue // the others hold no notes
				}
				fresh := e.fresh()
				fresh.scene()
				fresh.floor("notes", 40*second)
				early := eraseOf(1, f.scope)
				early.At = at(40).Add(-time.Microsecond)
				got, _ := fresh.fence(early)
				e.equal(f.form+" before the end", got.Closing, true)
				fresh.intact(f.form, f.covered...)
				late := eraseOf(2, f.scope)
				late.At = at(40)
				got, _ = fresh.fence(late)
				e.equal(f.form+" at the end", got.Closing, false)
			}
		}},
		{"a floor of another class, or that was taken away, protects nothing", func(e *env) {
			e.scene()
			e.floor("notes", 40*second)
			got, _ := e.fence(fenceOf(1, 2))
			e.equal("another class", got.Closing, false)
			e.maximum("notes", time.Hour)
			got, _ = e.fence(fenceOf(2, 1))
			e.equal("taken away", got.Closing, false)
		}},
		{"a floor whose start event has not come protects without an end", func(e *env) {
			p := policyOf("reasoning", time.Hour)
			p.Floor, p.LegalBasis, p.Start = ledger.Period{Time: 5 * second}, "a law", ledger.StartEnded
			e.setPolicy(p)
			e.put(1, 1)
			f := fenceOf(1, 1)
			f.At, f.Strict = at(5000), true
			_, _, err := e.Fence(e.ctx, f)
			e.refused(err, blobd.ErrHeld)
			e.end(1, at(10))
			f.At = at(15)
			got, _ := e.fence(f)
			e.equal("closing", got.Closing, false)
		}},
		{"a floor that protects only what is captured later protects nothing else", func(e *env) {
			p := policyOf("reasoning", time.Hour)
			p.Floor, p.LegalBasis, p.Existing, p.At = ledger.Period{Time: time.Hour}, "a law", false, at(3)
			e.setPolicy(p)
			e.put(1, 1)
			e.commit(capture(2, at(3), newBlob(2)))
			got, _ := e.fence(fenceOf(1, 1))
			e.equal("captured before", got.Closing, false)
			got, _ = e.fence(fenceOf(2, 2))
			e.equal("captured after", got.Closing, true)
		}},
	}
}
