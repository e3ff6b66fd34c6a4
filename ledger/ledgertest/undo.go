package ledgertest

import (
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// cancel cancels the erasure of a number.
func (e *env) cancel(id int) { e.Helper(); e.decide(decisionOf(id, ledger.ActCancel, "someone")) }

// states makes erasures in each state that has done more than ask: 1 running and
// fenced, 2 in grace, 3 deferred, 4 running and closing, 5 erased, 6 denied, 7
// cancelled.
func (e *env) states() {
	e.Helper()
	e.put(5, 50)
	e.put(6, 60)
	e.fence(eraseOf(5, executionScope(5)))
	e.finish(e.claimAt(20))
	for id, s := range map[int]ledger.Scope{6: executionScope(6), 7: executionScope(6), 2: executionScope(6)} {
		f := eraseOf(id, s)
		f.GraceUntil = at(5000)
		e.fence(f)
	}
	e.decide(decisionOf(6, ledger.ActDeny, "dan"))
	e.decide(decisionOf(7, ledger.ActCancel, "cid"))
	f := eraseOf(3, executionScope(1))
	f.DeferUntil = at(5000)
	e.fence(f)
	e.fence(eraseOf(1, executionScope(2)))
	e.claimAt(20)
	e.fence(eraseOf(4, classScope("notes", at(9))))
	e.claimAt(20)
	for id, want := range []ledger.ErasureState{
		1: ledger.ErasureRunning, ledger.ErasureGrace, ledger.ErasureDeferred, ledger.ErasureRunning, ledger.ErasureErased,
		ledger.ErasureDenied, ledger.ErasureCancelled,
	} {
		if id > 0 {
			e.equal("state", e.erasure(erasureID(id)).State, want)
		}
	}
}

func undoSentences() []sentence {
	return []sentence{
		{"what awaits, is in grace or deferred is denied or cancelled, and its closing lifted", func(e *env) {
			for act, want := range map[ledger.Act]ledger.Erasure{
				ledger.ActDeny:   {State: ledger.ErasureDenied, DecidedBy: "dan", Code: "exempt", DecisionReason: "a law"},
				ledger.ActCancel: {State: ledger.ErasureCancelled, DecidedBy: "dan", DecisionReason: "a law"},
			} {
				fresh := e.fresh()
				fresh.scene()
				fresh.hold(1, executionScope(1))
				fresh.asked(1, 1, executionScope(1))
				grace, deferred := eraseOf(2, executionScope(2)), eraseOf(3, executionScope(1))
				grace.GraceUntil, deferred.DeferUntil = at(60), at(60)
				fresh.fence(grace)
				fresh.fence(deferred)
				for id := 1; id <= 3; id++ {
					d := decisionOf(id, act, "dan")
					d.Reason, d.Code, d.PlanDigest = "a law", "exempt", hash("plan", 99)
					before, head := len(fresh.entries()), fresh.head().Seq
					got, r := fresh.decide(d)
					e.equal("erasure", []any{got.State, got.Closing, got.DecidedBy, got.DecidedAt, got.Code, got.DecisionReason},
						[]any{want.State, true, "dan", at(15), want.Code, "a law"})
					e.equal("read", fresh.erasure(erasureID(id)), got)
					e.equal("entries", fresh.bodies(before), []string{`{"decided":1}`})
					if id == 1 {
						e.equal("record", r, ledger.Record{})
						continue
					}
					e.equal("record", r, ledger.Record{
						Seq: head + 1, Kind: ledger.RecordLift, At: at(15), Tenant: tenant, Writes: 5, OrderID: erasureID(id), OrderKind: ledger.OrderClosing,
					})
					o := fresh.order(erasureID(id))
					e.equal("closing", []any{o.Kind, o.LiftedAt, o.LiftedBy}, []any{ledger.OrderClosing, at(15), "dan"})
				}
				fresh.intact("open", 1, 2, 3)
				fresh.closedRows("open", 0, nil)
				fresh.closedExecutions("open", 0, nil)
				fresh.commit(capture(2, at(20), newBlob(30)))
				fresh.noneDue(5000)
			}
		}},
		{"what runs or ended is not denied or cancelled, nor approved", func(e *env) {
			e.scene()
			e.hold(1, executionScope(1))
			e.states()
			for _, id := range []int{1, 4, 5} {
				for _, act := range []ledger.Act{ledger.ActApprove, ledger.ActDeny, ledger.ActCancel} {
					e.undecided(decisionOf(id, act, "ann"), blobd.ErrConflict)
				}
			}
			e.undecided(decisionOf(6, ledger.ActCancel, "ann"), blobd.ErrConflict)
			e.undecided(decisionOf(7, ledger.ActDeny, "ann"), blobd.ErrConflict)
			for _, id := range []int{2, 3, 6, 7} {
				e.undecided(decisionOf(id, ledger.ActApprove, "ann"), blobd.ErrConflict)
			}
		}},
		{"a denial or a cancellation that was made before changes nothing", func(e *env) {
			e.scene()
			e.hold(1, executionScope(1))
			e.states()
			before := e.whole()
			for id, act := range map[int]ledger.Act{6: ledger.ActDeny, 7: ledger.ActCancel} {
				want := e.erasure(erasureID(id))
				d := decisionOf(id, act, "another")
				d.Code = "another"
				got, r := e.decide(d)
				e.equal("erasure", got, want)
				e.equal("record", r, ledger.Record{})
			}
			e.equal("the ledger", e.whole(), before)
		}},
		{"what a cancelled erasure dropped stays erased", func(e *env) {
			e.scene()
			e.hold(1, refScope(1, 1))
			e.fence(eraseOf(1, executionScope(1)))
			j := e.claimAt(20)
			e.pass(j, 10)
			e.tombstone(j)
			e.must(e.Defer(e.ctx, j.Lease, at(60), ledger.Progress{Held: 1}, nil))
			e.cancel(1)
			e.equal("states", []ledger.BlobState{e.state(1, 1), e.state(1, 2)}, []ledger.BlobState{ledger.BlobLive, ledger.BlobErased})
			e.equal("execution", e.summary(1).State, ledger.ExecutionOpen)
			e.equal("dropped", e.erasure(erasureID(1)).Dropped, int64(1))
			e.refusedCommit(capture(1, at(70), again(2, 30)), blobd.ErrBlobErased)
		}},
		{"erasures are listed by how they stand and by their clock", func(e *env) {
			e.scene()
			e.hold(1, executionScope(1))
			e.states()
			list := func(q ledger.ErasureQuery) (ids []string) {
				q.Tenant, q.Limit = tenant, 100
				all, err := e.ListErasures(e.ctx, q)
				e.must(err)
				for _, x := range all {
					ids = append(ids, x.ID)
				}
				return ids
			}
			for state, want := range map[ledger.ErasureState][]string{
				ledger.ErasureRunning: {erasureID(4), erasureID(1)}, ledger.ErasureGrace: {erasureID(2)}, ledger.ErasureDeferred: {erasureID(3)},
				ledger.ErasureErased: {erasureID(5)}, ledger.ErasureDenied: {erasureID(6)}, ledger.ErasureCancelled: {erasureID(7)},
				ledger.ErasureAwaiting: nil, ledger.ErasurePartial: nil,
			} {
				e.equal(string(state), list(ledger.ErasureQuery{State: state}), want)
			}
			// 8 dropped one blob and is deferred, 9 failed to delete an object.
			e.put(8, 80)
			e.put(8, 81)
			e.put(7, 90)
			e.hold(2, refScope(8, 80))
			e.fence(eraseOf(8, executionScope(8)))
			j := e.claimAt(20)
			e.pass(j, 10)
			e.tombstone(j)
			e.must(e.Defer(e.ctx, j.Lease, at(5000), ledger.Progress{Held: 1}, nil))
			e.fence(eraseOf(9, executionScope(7)))
			e.must(e.Postpone(e.ctx, e.claimAt(20).Lease, at(5000), ledger.Progress{Failed: 1}, nil))
			e.equal("partial", list(ledger.ErasureQuery{State: ledger.ErasurePartial}), []string{erasureID(9), erasureID(8)})
		}},
		{"erasures whose clock ends before a time are listed while they have not ended", func(e *env) {
			e.scene()
			e.hold(1, executionScope(1))
			for id, s := range []ledger.Scope{1: executionScope(1), 2: executionScope(2), 3: executionScope(3), 4: executionScope(4), 5: classScope("x", at(1))} {
				if id == 0 {
					continue
				}
				f := eraseOf(id, s)
				f.DueAt = at(100 + id)
				switch id {
				case 3:
					f.DueAt = time.Time{}
				case 4:
					f.GraceUntil = at(5000)
				case 5:
					f.Approvals = 1
				}
				e.fence(f)
			}
			list := func(before time.Time, state ledger.ErasureState) (ids []string) {
				all, err := e.ListErasures(e.ctx, ledger.ErasureQuery{Tenant: tenant, DueBefore: before, State: state, Limit: 100})
				e.must(err)
				for _, x := range all {
					ids = append(ids, x.ID)
				}
				return ids
			}
			e.equal("all", list(at(1000), ""), []string{erasureID(5), erasureID(4), erasureID(2), erasureID(1)})
			e.equal("not included", list(at(104), ""), []string{erasureID(2), erasureID(1)})
			e.equal("a state too", list(at(1000), ledger.ErasureGrace), []string{erasureID(4)})
			e.cancel(4)
			e.decide(decisionOf(5, ledger.ActDeny, "ann"))
			e.claimAt(20)
			e.finish(e.claimAt(20)) // of 2
			e.equal("not ended", list(at(1000), ""), []string{erasureID(1)})
		}},
	}
}
