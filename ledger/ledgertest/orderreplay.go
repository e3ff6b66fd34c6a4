package ledgertest

import (
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// lostOrder is the record of an order that a ledger lost.
func lostOrder(seq int64, o ledger.Order) ledger.Record {
	r := ledger.Record{
		Seq: seq, Kind: ledger.RecordOrder, At: at(4), Tenant: tenant, Tag: o.Scope.Tag, Refs: o.Scope.Refs, Writes: 9,
		OrderID: o.ID, OrderKind: o.Kind, Form: o.Scope.Form(), Subjects: o.Scope.Subjects, Class: o.Scope.Class,
		Before: o.Scope.CapturedBefore, Purposes: o.Purposes, Until: o.ExpiresAt,
	}
	if o.Kind == ledger.OrderClosing {
		r.ErasureID = o.ID
	}
	return r
}

// lostClosing is the record of an erasure's closing that a ledger lost.
func lostClosing(seq int64, id int, s ledger.Scope) ledger.Record {
	return lostOrder(seq, ledger.Order{ID: erasureID(id), Kind: ledger.OrderClosing, Scope: s})
}

// lostLift is the record of the end of an order that a ledger lost.
func lostLift(seq int64, id string, kind ledger.OrderKind) ledger.Record {
	return ledger.Record{Seq: seq, Kind: ledger.RecordLift, At: at(5), Tenant: tenant, OrderID: id, OrderKind: kind, Writes: 9}
}

func orderReplaySentences() []sentence {
	return []sentence{
		{"a lost order comes back, without free text and the execution's id", func(e *env) {
			e.scene()
			for i, c := range sceneScopes() {
				want := fullOrder(i, ledger.OrderHold, c.scope)
				want.Scope.Refs = sortedRefs(want.Scope.Refs...)
				r := lostOrder(int64(10+i), want)
				e.replay(r)
				want.Matter, want.Reason, want.Owner, want.PlacedBy, want.Scope.ExecutionID = "", "", "", "", ""
				want.ReviewAt, want.PlacedAt = time.Time{}, at(4)
				e.equal(c.form, e.order(want.ID), want)
				e.equal("has", e.has(r), true)
				got, first := e.place(fullOrder(i, ledger.OrderHold, c.scope))
				e.equal("asked again", got, want)
				e.equal("its record", first, r)
			}
		}},
		{"a lost hold protects, a lost restriction closes, a lost suppression refuses, in each form", func(e *env) {
			for _, c := range sceneScopes() {
				fresh := e.fresh()
				fresh.scene()
				fresh.replay(lostOrder(7, orderOf(1, ledger.OrderHold, c.scope)), lostOrder(8, orderOf(2, ledger.OrderRestriction, c.scope)))
				f := eraseOf(1, refScope(sceneBlobs[c.covered[0]], c.covered[0]))
				f.Strict = true
				_, _, err := fresh.Fence(e.ctx, f)
				e.refused(err, blobd.ErrHeld)
				fresh.closedRows(c.form, ledger.ClosedRestricted, c.covered)
				fresh.closedExecutions(c.form, ledger.ClosedRestricted, c.whole)
				if c.scope.Form() == ledger.ScopeSubjects {
					o := orderOf(3, ledger.OrderSuppression, c.scope)
					o.ExpiresAt = at(60)
					fresh.replay(lostOrder(9, o), lostLift(10, orderID(2), ledger.OrderRestriction))
					fresh.refusedCommit(c.joins, blobd.ErrSuppressed)
					c.joins.At = at(60)
					fresh.commit(c.joins)
				}
			}
		}},
		{"what was lifted comes back lifted, and a lift of what has no row is left out", func(e *env) {
			e.scene()
			e.hold(1, executionScope(1))
			e.replay(
				lostOrder(7, orderOf(2, ledger.OrderRestriction, executionScope(1))),
				lostLift(8, orderID(2), ledger.OrderRestriction), lostLift(9, orderID(1), ledger.OrderHold), lostLift(10, orderID(3), ledger.OrderHold),
			)
			e.equal("open", e.summary(1).State, ledger.ExecutionOpen)
			for id := 1; id <= 2; id++ {
				o := e.order(orderID(id))
				e.equal("lifted", []any{o.LiftedAt, o.LiftedBy}, []any{at(5), ""})
			}
			_, err := e.Order(e.ctx, tenant, orderID(3))
			e.refused(err, blobd.ErrNotFound)
			e.equal("has", e.has(lostLift(10, orderID(3), ledger.OrderHold)), true)
			got, _ := e.fence(fenceOf(1, 1))
			e.equal("closing", got.Closing, false)
		}},
		{"a lift of another tenant lifts nothing", func(e *env) {
			e.hold(1, executionScope(1))
			r := lostLift(8, orderID(1), ledger.OrderHold)
			r.Tenant = "beta"
			e.replay(r)
			e.equal("open", e.order(orderID(1)).LiftedAt, time.Time{})
		}},
		{"a lost lift of a hold makes deferred erasures due", func(e *env) {
			e.scene()
			e.hold(1, executionScope(1))
			f := eraseOf(1, executionScope(1))
			f.DeferUntil = at(5000)
			e.fence(f)
			e.replay(lostLift(8, orderID(1), ledger.OrderHold))
			e.equal("claimed", e.claimAt(20).Erasure.ID, erasureID(1))
		}},
		{"each record of an order is applied once", func(e *env) {
			e.scene()
			rs := []ledger.Record{lostOrder(7, orderOf(1, ledger.OrderRestriction, executionScope(1))), lostClosing(8, 1, subjectScope(1))}
			e.replay(rs...)
			e.lift(1, ledger.OrderRestriction)
			before := e.whole()
			e.replay(rs...)
			e.equal("the ledger", e.whole(), before)
			e.equal("erasures", len(e.whole().Erasures), 1)
		}},
		{"a lost closing comes back with its erasure, which runs again at once", func(e *env) {
			e.scene()
			e.replay(lostClosing(7, 1, subjectScope(1)), lostClosing(8, 2, refScope(1, 2)))
			e.closedRows("replayed", ledger.ClosedErasure, []int{1, 2})
			want := ledger.Erasure{
				ID: erasureID(1), Scope: subjectScope(1), Closing: true, State: ledger.ErasureRunning, FencedAt: at(4), Attempts: 1,
			}
			j := e.claimAt(4)
			e.equal("erasure", j.Erasure, want)
			dropped, _ := e.pass(j, 10)
			e.equal("dropped", refsOfRows(dropped), refsOf(1, 2))
			e.finish(j)
			e.equal("suppression", e.order(erasureID(1)).Kind, ledger.OrderSuppression)
			e.refusedCommit(sceneCapture(4, 30, "free", 1, at(30)), blobd.ErrSuppressed)
			j = e.claimAt(20)
			e.equal("of refs", []any{j.Erasure.ID, j.Erasure.OfRefs, len(j.Erasure.Scope.Refs)}, []any{erasureID(2), true, 0})
			got, _, err := e.FenceClosed(e.ctx, j.Lease, at(21), nil)
			e.must(err)
			e.equal("plan", got.Plan.Blobs, int64(1))
			e.finish(j)
			e.equal("states", []ledger.BlobState{e.state(1, 1), e.state(1, 2)}, []ledger.BlobState{ledger.BlobErased, ledger.BlobErased})
		}},
		{"a lost closing comes back in its grace", func(e *env) {
			e.scene()
			r := lostClosing(7, 1, executionScope(1))
			r.Until = at(60)
			e.replay(r)
			got := e.erasure(erasureID(1))
			e.equal("erasure", []any{got.State, got.GraceUntil, got.Closing}, []any{ledger.ErasureGrace, at(60), true})
			e.equal("execution", e.summary(1).State, ledger.ExecutionClosed)
			e.noneDue(59)
			_, record := e.fence(eraseOf(1, executionScope(1)))
			e.equal("its record", record, r)
			e.equal("claimed", e.claimAt(60).Erasure.ID, erasureID(1))
		}},
		{"a lost closing of what awaited approval closes it", func(e *env) {
			e.scene()
			e.asked(1, 1, refScope(1, 1))
			r := lostClosing(7, 1, refScope(1, 1))
			r.Until = at(60)
			e.replay(r)
			got := e.erasure(erasureID(1))
			e.equal("erasure", []any{got.State, got.GraceUntil, got.RequestedBy, got.Plan.Blobs}, []any{ledger.ErasureGrace, at(60), "asker", int64(3)})
			e.equal("row", e.blob(1, 1).Closed, ledger.ClosedErasure)
			e.equal("erasures", len(e.whole().Erasures), 1)
		}},
		{"a closing that was lifted comes back lifted, and its erasure cancelled", func(e *env) {
			e.scene()
			e.grace(2)
			e.replay(lostClosing(7, 1, executionScope(1)), lostLift(8, erasureID(1), ledger.OrderClosing), lostLift(9, erasureID(802), ledger.OrderClosing))
			for x, id := range map[int]int{1: 1, 2: 802} {
				e.equal("execution", e.summary(x).State, ledger.ExecutionOpen)
				e.equal("erasure", e.erasure(erasureID(id)).State, ledger.ErasureCancelled)
			}
			e.noneDue(5000)
			e.intact("open", 1, 2, 3)
		}},
		{"the erasure of a suppression that was lifted runs again, and leaves no suppression", func(e *env) {
			e.scene()
			e.replay(lostClosing(7, 1, subjectScope(1)), lostLift(8, erasureID(1), ledger.OrderSuppression))
			e.refusedCommit(sceneCapture(4, 30, "free", 1, at(9)), blobd.ErrClosed)
			j := e.claimAt(20)
			dropped, _ := e.pass(j, 10)
			e.equal("dropped", refsOfRows(dropped), refsOf(1, 2))
			e.finish(j)
			e.equal("state", e.erasure(erasureID(1)).State, ledger.ErasureErased)
			e.commit(sceneCapture(4, 30, "free", 1, at(30)))
		}},
		{"a suppression that a closing became comes back lifted where the ledger still has it", func(e *env) {
			e.scene()
			j := e.closed(1, subjectScope(1))
			e.pass(j, 10)
			e.finish(j)
			e.replay(lostLift(8, erasureID(1), ledger.OrderSuppression))
			e.equal("lifted", e.order(erasureID(1)).LiftedAt, at(5))
			e.equal("state", e.erasure(erasureID(1)).State, ledger.ErasureErased)
			e.commit(sceneCapture(4, 30, "free", 1, at(30)))
		}},
		{"a lost fence of what only closed its scope fences it", func(e *env) {
			e.scene()
			e.hold(1, refScope(1, 1)) // as it was before it was lifted
			f := eraseOf(1, executionScope(1))
			f.DeferUntil = at(5000)
			e.fence(f)
			e.grace(2)
			e.replay(
				ledger.Record{Seq: 7, Kind: ledger.RecordFence, At: at(12), Tenant: tenant, Tag: tagOf(1), ErasureID: erasureID(1), Wrap: 3, Writes: 9},
				ledger.Record{Seq: 8, Kind: ledger.RecordTenant, At: at(13), Tenant: tenant, Tag: tenantTag, ErasureID: erasureID(5), Writes: 9},
			)
			got := e.erasure(erasureID(1))
			e.equal("erasure", []any{got.State, got.Closing, got.FencedAt, got.Wrap}, []any{ledger.ErasureRunning, false, at(10), uint32(3)})
			e.equal("execution", []any{e.summary(1).State, e.summary(1).ErasedAt}, []any{ledger.ExecutionErased, at(12)})
			e.equal("closing", e.order(erasureID(1)).LiftedAt, at(12))
			e.equal("erasures", len(e.whole().Erasures), 3)
			e.replay(ledger.Record{Seq: 9, Kind: ledger.RecordFence, At: at(14), Tenant: tenant, Tag: tagOf(2), ErasureID: erasureID(802), Writes: 9})
			got = e.erasure(erasureID(802))
			e.equal("its grace was", []any{got.State, got.Closing, got.GraceUntil}, []any{ledger.ErasureRunning, false, at(1000)})
			e.finish(e.claimAt(12))
			e.equal("state", e.erasure(erasureID(1)).State, ledger.ErasureErased)
			e.equal("tenant", e.readTenant(tenant).FencedBy, erasureID(5))
		}},
		{"a lost closing and its fence are applied in order", func(e *env) {
			e.scene()
			r := lostClosing(7, 1, refScope(1, 1, 40))
			e.replay(r, ledger.Record{
				Seq: 8, Kind: ledger.RecordErase, At: at(12), Tenant: tenant, Tag: tagOf(1), Refs: refsOf(1, 2), ErasureID: erasureID(1), Writes: 9,
			})
			got := e.erasure(erasureID(1))
			e.equal("erasure", []any{got.State, got.Closing, got.OfRefs, got.FencedAt}, []any{ledger.ErasureRunning, false, true, at(4)})
			e.equal("states", []ledger.BlobState{e.state(1, 1), e.state(1, 2)}, []ledger.BlobState{ledger.BlobErased, ledger.BlobLive})
			e.equal("other", e.blob(1, 2).Closed, ledger.CloseReason(0))
			_, record := e.fence(eraseOf(1, refScope(1, 1)))
			e.equal("its first record", record, r)
			e.finish(e.claimAt(12))
		}},
		{"orders come back in an empty ledger", func(e *env) {
			r := lostOrder(7, orderOf(1, ledger.OrderHold, classScope("notes", time.Time{})))
			r.Tenant = "gone"
			c := lostClosing(8, 1, executionScope(3))
			c.Tenant = "gone"
			e.replay(r, c)
			o, err := e.Order(e.ctx, "gone", orderID(1))
			e.must(err)
			e.equal("order", o.Open(), true)
			e.equal("claimed", e.claimAt(20).Erasure.ID, erasureID(1))
			e.tenant("gone", 0)
			put := sceneCapture(4, 4, "notes", 0, at(9))
			put.Tenant = "gone"
			e.commit(put)
			f := eraseOf(9, executionScope(4))
			f.Scope.Tenant, f.Strict = "gone", true
			_, _, err = e.Fence(e.ctx, f)
			e.refused(err, blobd.ErrHeld)
		}},
		{"a record of this ledger that gives way is the order's and the erasure's still", func(e *env) {
			e.scene()
			_, placed := e.place(orderOf(1, ledger.OrderHold, executionScope(1))) // number 1
			f := eraseOf(1, classScope("notes", at(9)))
			_, closed := e.fence(f) // number 2
			e.replay(lostOrder(1, orderOf(7, ledger.OrderHold, executionScope(2))), lostOrder(2, orderOf(8, ledger.OrderHold, executionScope(3))))
			placed.Seq, closed.Seq, placed.Writes, closed.Writes = 3, 4, 9, 9
			_, r := e.place(orderOf(1, ledger.OrderHold, executionScope(1)))
			e.equal("order", r, placed)
			_, r = e.fence(f)
			e.equal("erasure", r, closed)
			_, r = e.place(orderOf(7, ledger.OrderHold, executionScope(2)))
			e.equal("replayed", r.Seq, int64(1))
		}},
		{"the record of an order that no ledger made is invalid, and nothing is applied", func(e *env) {
			e.tenant("beta", 0)
			e.beta(9, 9)
			good := lostOrder(7, orderOf(1, ledger.OrderRestriction, executionScope(1)))
			for i, spoil := range []func(*ledger.Record){
				func(r *ledger.Record) { r.OrderID = "" },
				func(r *ledger.Record) { r.Tenant = "" },
				func(r *ledger.Record) { r.OrderKind = 0 },
				func(r *ledger.Record) { r.OrderKind = 5 },
				func(r *ledger.Record) { r.OrderKind = ledger.OrderClosing },
				func(r *ledger.Record) { r.OrderKind = ledger.OrderSuppression },
				func(r *ledger.Record) { r.Form = ledger.ScopeRefs },
				func(r *ledger.Record) { r.Form = 0 },
				func(r *ledger.Record) { r.Tag = blobd.ExecutionTag{} },
				func(r *ledger.Record) { r.Kind, r.OrderID = ledger.RecordLift, "" },
			} {
				r := good
				r.Seq = 8
				spoil(&r)
				if err := e.Replay(e.ctx, []ledger.Record{good, r}); err == nil {
					e.Errorf("record %d was taken", i)
				} else {
					e.refused(err, blobd.ErrInvalid)
				}
			}
			foreign := lostOrder(8, orderOf(1, ledger.OrderRestriction, executionScope(9)))
			e.refused(e.Replay(e.ctx, []ledger.Record{good, foreign}), blobd.ErrConflict)
			e.equal("head", e.head(), ledger.Record{})
			_, err := e.Order(e.ctx, tenant, orderID(1))
			e.refused(err, blobd.ErrNotFound)
		}},
	}
}
