package ledgertest

import (
	"time"

	"github.com/blobd/blobd/ledger"
)

func deferSentences() []sentence {
	progress := func() ledger.Progress {
		return ledger.Progress{
			KeysDestroyed: 1, Settled: true, Held: 2, Floor: 1, Left: ledger.Extent{Executions: 1, Blobs: 3, Bytes: 1 << 40}, Kept: []ledger.Kept{
				{Position: position(1, 1), ExecutionID: idOf(1), Verdict: ledger.VerdictHeld},
				{Position: position(1, 2), ExecutionID: idOf(1), Verdict: ledger.VerdictFloor, Until: at(99)},
			},
		}
	}
	return []sentence{
		{"deferring keeps progress and evidence, and ends the lease until it is due", func(e *env) {
			e.scene()
			e.hold(1, executionScope(1))
			e.fence(eraseOf(1, executionScope(1)))
			j := e.claimAt(20)
			before := len(e.entries())
			e.must(e.Defer(e.ctx, j.Lease, at(60), progress(), []ledger.Entry{bodied(`{"deferred":1}`)}))
			got := e.erasure(erasureID(1))
			e.equal("erasure", []any{got.State, got.Stands(), got.Progress}, []any{ledger.ErasureDeferred, ledger.ErasureDeferred, progress()})
			e.equal("entries", e.bodies(before), []string{`{"deferred":1}`})
			e.equal("it stays closed", e.summary(1).State, ledger.ExecutionClosed)
			e.stale(j.Lease)
			e.fencedAlready(j.Lease)
			e.noneDue(59)
			again := e.claimAt(60)
			e.equal("claimed", []any{again.Erasure.State, again.Erasure.Attempts, again.Lease.Term}, []any{ledger.ErasureRunning, int64(2), int64(2)})
		}},
		{"lifting a hold makes the tenant's deferred erasures due, at its time", func(e *env) {
			e.scene()
			e.hold(1, executionScope(1))
			e.hold(2, executionScope(2))
			for x := 1; x <= 2; x++ {
				f := eraseOf(x, executionScope(x))
				f.DeferUntil = at(5000)
				e.fence(f)
			}
			lift := liftOf(2, ledger.OrderHold)
			lift.At = at(50)
			_, _, err := e.LiftOrder(e.ctx, lift, entry(ledger.EntryOrder))
			e.must(err)
			e.noneDue(49)
			e.equal("claimed", []string{e.claimAt(50).Erasure.ID, e.claimAt(50).Erasure.ID}, []string{erasureID(1), erasureID(2)})
		}},
		{"what is due before is due no later for it", func(e *env) {
			e.scene()
			e.hold(1, executionScope(1))
			f := eraseOf(1, executionScope(1))
			f.DeferUntil = at(40)
			e.fence(f)
			lift := liftOf(1, ledger.OrderHold)
			lift.At = at(50)
			_, _, err := e.LiftOrder(e.ctx, lift, entry(ledger.EntryOrder))
			e.must(err)
			e.equal("claimed", e.claimAt(40).Erasure.ID, erasureID(1))
		}},
		{"lifting anything else, or in another tenant, makes nothing due", func(e *env) {
			e.scene()
			foreign := classScope("notes", at(9))
			foreign.Tenant = "beta"
			e.hold(1, executionScope(1))
			e.hold(2, foreign)
			e.place(orderOf(3, ledger.OrderRestriction, executionScope(1)))
			f := eraseOf(1, executionScope(1))
			f.DeferUntil = at(5000)
			e.fence(f)
			lift := liftOf(2, ledger.OrderHold)
			lift.Tenant = "beta"
			_, _, err := e.LiftOrder(e.ctx, lift, entry(ledger.EntryOrder))
			e.must(err)
			e.lift(3, ledger.OrderRestriction)
			e.noneDue(4999)
		}},
		{"setting a policy makes the tenant's deferred erasures due, at its time", func(e *env) {
			e.scene()
			e.floor("notes", 4000*second)
			f := eraseOf(1, executionScope(1))
			f.DeferUntil = at(4000)
			e.fence(f)
			p := policyOf("notes", time.Hour)
			p.Tenant, p.At = "beta", at(40)
			e.must(e.SetPolicy(e.ctx, p, entry(ledger.EntryPolicy)))
			e.noneDue(3999)
			p.Tenant = tenant
			e.setPolicy(p)
			e.noneDue(39)
			j := e.claimAt(40)
			_, _, err := e.FenceClosed(e.ctx, j.Lease, at(41), nil)
			e.must(err)
		}},
		{"what changed while the erasure ran is not forgotten when it is deferred", func(e *env) {
			for _, change := range []func(*env){
				func(e *env) {
					lift := liftOf(1, ledger.OrderHold)
					lift.At = at(45)
					_, _, err := e.LiftOrder(e.ctx, lift, entry(ledger.EntryOrder))
					e.must(err)
				},
				func(e *env) {
					p := policyOf("reasoning", time.Hour)
					p.At = at(45)
					e.setPolicy(p)
				},
			} {
				fresh := e.fresh()
				fresh.scene()
				fresh.hold(1, executionScope(1))
				fresh.fence(eraseOf(1, executionScope(1)))
				j := fresh.claimAt(20)
				_, kept := fresh.pass(j, 10)
				e.equal("kept", len(kept), 2)
				change(fresh)
				fresh.must(fresh.Defer(fresh.ctx, j.Lease, at(5000), ledger.Progress{Held: 2}, nil))
				fresh.noneDue(44)
				j = fresh.claimAt(45)
				// What was seen to change is forgotten by the next claim.
				fresh.must(fresh.Defer(fresh.ctx, j.Lease, at(5000), ledger.Progress{Held: 2}, nil))
				fresh.noneDue(4999)
			}
		}},
		{"an erasure that erased some of its scope and is deferred is partial", func(e *env) {
			e.scene()
			e.hold(1, refScope(1, 1))
			e.fence(eraseOf(1, executionScope(1)))
			j := e.claimAt(20)
			e.pass(j, 10)
			e.tombstone(j)
			e.must(e.Defer(e.ctx, j.Lease, at(60), ledger.Progress{Held: 1}, nil))
			got := e.erasure(erasureID(1))
			e.equal("stands", []any{got.State, got.Stands(), got.Dropped}, []any{ledger.ErasureDeferred, ledger.ErasurePartial, int64(1)})
		}},
	}
}
