package ledgertest

import (
	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

func finishClosingSentences() []sentence {
	return []sentence{
		{"the closing of subjects becomes a suppression", func(e *env) {
			e.scene()
			f := eraseOf(1, subjectScope(1))
			f.RequestedBy = "token"
			e.fence(f)
			j := e.claimAt(20)
			e.pass(j, 10)
			e.tombstone(j)
			head, before := e.head(), len(e.entries())
			e.must(e.Finish(e.ctx, j.Lease, ledger.Progress{KeysDestroyed: 1}, at(25), []ledger.Entry{bodied(`{"finished":1}`)}))
			got := e.erasure(erasureID(1))
			e.equal("erasure", []any{got.State, got.Closing, got.ErasedAt, got.Dropped}, []any{ledger.ErasureErased, true, at(25), int64(1)})
			e.equal("entries", e.bodies(before), []string{`{"finished":1}`})
			e.equal("head", e.head(), head)
			want := ledger.Order{
				ID: erasureID(1), Kind: ledger.OrderSuppression, Scope: subjectScope(1), ErasureID: erasureID(1), PlacedAt: at(10), PlacedBy: "token",
			}
			e.equal("order", e.order(erasureID(1)), want)
			e.equal("listed", e.listOrders(ledger.OrderQuery{Kind: ledger.OrderSuppression, Open: true, Limit: 9}), []string{erasureID(1)})
			e.refusedCommit(sceneCapture(1, 30, "free", 1, at(30)), blobd.ErrSuppressed)
			e.stale(j.Lease)
			_, r, err := e.LiftOrder(e.ctx, ledger.Lift{Tenant: tenant, Kind: ledger.OrderSuppression, ID: erasureID(1), At: at(40), By: "x"}, entry(ledger.EntryOrder))
			e.must(err)
			e.equal("record", []any{r.OrderID, r.OrderKind}, []any{erasureID(1), ledger.OrderSuppression})
			e.commit(sceneCapture(1, 30, "free", 1, at(41)))
		}},
		{"the closing of a class is lifted", func(e *env) {
			e.scene()
			j := e.closed(1, classScope("notes", at(9)))
			e.pass(j, 10)
			e.tombstone(j)
			e.refusedCommit(sceneCapture(1, 30, "notes", 0, at(8)), blobd.ErrClosed)
			head := e.head()
			e.must(e.Finish(e.ctx, j.Lease, ledger.Progress{}, at(25), nil))
			o := e.order(erasureID(1))
			e.equal("order", []any{o.Kind, o.LiftedAt}, []any{ledger.OrderClosing, at(25)})
			e.equal("head", e.head(), head)
			e.commit(sceneCapture(1, 30, "notes", 0, at(8)))
			e.equal("state", e.erasure(erasureID(1)).State, ledger.ErasureErased)
		}},
		{"while a row in scope is neither erased nor expired it is a conflict", func(e *env) {
			for i, s := range []ledger.Scope{subjectScope(1), classScope("reasoning", at(9))} {
				fresh := e.fresh()
				fresh.scene()
				j := fresh.closed(i, s)
				e.refused(fresh.Finish(e.ctx, j.Lease, ledger.Progress{}, at(25), nil), blobd.ErrConflict)
				fresh.hold(1, refScope(1, 1))
				fresh.pass(j, 10)
				fresh.tombstone(j)
				e.refused(fresh.Finish(e.ctx, j.Lease, ledger.Progress{}, at(25), nil), blobd.ErrConflict)
				fresh.lift(1, ledger.OrderHold)
				fresh.pass(j, 10)
				e.refused(fresh.Finish(e.ctx, j.Lease, ledger.Progress{}, at(25), nil), blobd.ErrConflict) // no tombstones yet
				fresh.finish(j)
				e.equal("state", fresh.erasure(erasureID(i)).State, ledger.ErasureErased)
			}
		}},
		{"lost and superseded rows in scope are in its way, expired ones are not", func(e *env) {
			e.maximum("reasoning", 5*second)
			e.putTagged(1, 1, 1)
			j := e.closed(1, subjectScope(1))
			e.must(e.AcceptLoss(e.ctx, tagOf(1), refOf(1), at(6), entry(ledger.EntryRecovery)))
			e.refused(e.Finish(e.ctx, j.Lease, ledger.Progress{}, at(25), nil), blobd.ErrConflict)
			e.clock.set(at(7))
			e.expire(e.sweep(1), 1, position(1, 1))
			e.finish(j)
		}},
		{"of a form that can be fenced it is a conflict always", func(e *env) {
			for i, s := range []ledger.Scope{executionScope(1), refScope(1, 1), tenantScope()} {
				fresh := e.fresh()
				fresh.scene()
				fresh.hold(1, refScope(1, 1))
				j := fresh.closed(i, s)
				fresh.lift(1, ledger.OrderHold)
				fresh.pass(j, 10)
				fresh.tombstone(j)
				e.refused(fresh.Finish(e.ctx, j.Lease, ledger.Progress{}, at(25), nil), blobd.ErrConflict)
				e.equal("state", fresh.erasure(erasureID(i)).State, ledger.ErasureRunning)
			}
		}},
		{"nothing in scope ends at once, and suppresses all the same", func(e *env) {
			j := e.closed(1, subjectScope(7))
			e.pass(j, 10)
			e.finish(j)
			e.refusedCommit(sceneCapture(1, 30, "free", 7, at(30)), blobd.ErrSuppressed)
		}},
		{"it does not wait for an earlier erasure that has only closed its scope", func(e *env) {
			e.scene()
			e.hold(1, refScope(1, 1))
			e.fence(eraseOf(1, executionScope(1)))
			e.fence(eraseOf(2, tenantScope()))
			later := eraseOf(3, refScope(1, 2))
			later.RunAt = at(9)
			e.fence(later)
			j := e.claimAt(20)
			e.equal("claimed", j.Erasure.ID, later.ID)
			e.finish(j)
			class := eraseOf(4, classScope("notes", at(9)))
			class.RunAt = at(9)
			e.fence(class)
			j = e.claimAt(20)
			e.equal("claimed", j.Erasure.ID, class.ID)
			e.pass(j, 10)
			e.finish(j)
		}},
		{"it waits for an earlier fence of its whole tenant", func(e *env) {
			e.scene()
			e.fence(eraseOf(1, subjectScope(1)))
			e.fence(offboard(2))
			e.fence(eraseOf(3, subjectScope(2)))
			first, fence, later := e.claimAt(20), e.claimAt(20), e.claimAt(20)
			for _, j := range []ledger.Job{first, later} {
				e.pass(j, 10)
				e.tombstone(j)
			}
			e.refused(e.Finish(e.ctx, later.Lease, ledger.Progress{}, at(25), nil), blobd.ErrConflict)
			e.must(e.Finish(e.ctx, first.Lease, ledger.Progress{}, at(25), nil))
			e.dropKeys(fence.Lease, 10)
			e.finish(fence)
			e.must(e.Finish(e.ctx, later.Lease, ledger.Progress{}, at(25), nil))
		}},
	}
}
