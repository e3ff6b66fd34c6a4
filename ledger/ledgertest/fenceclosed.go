package ledgertest

import (
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

func fenceClosedSentences() []sentence {
	return []sentence{
		{"a scope that was closed is fenced, and its closing lifted", func(e *env) {
			e.commit(capture(1, start, newBlob(1), newBlob(2)))
			f := fenceOf(1, 1)
			f.GraceUntil, f.RequestedBy, f.Plan = at(60), "token", ledger.Plan{Blobs: 77}
			e.fence(f)
			j := e.claimAt(60)
			before := len(e.entries())
			got, r, err := e.FenceClosed(e.ctx, j.Lease, at(61), []ledger.Entry{bodied(`{"late":1}`), bodied(`{"late":2}`)})
			e.must(err)
			want := j.Erasure
			want.Closing, want.Plan = false, ledger.Plan{Executions: 1, Blobs: 2, Bytes: size(1) + size(2)}
			want.Fenced = want.Plan
			e.equal("erasure", got, want)
			e.equal("read", e.erasure(f.ID), want)
			e.equal("record", r, ledger.Record{
				Seq: 2, Kind: ledger.RecordFence, At: at(61), Tenant: tenant, Tag: tagOf(1), ErasureID: f.ID, Wrap: 1, Writes: 2,
			})
			e.equal("entries", e.bodies(before), []string{`{"late":1}`, `{"late":2}`})
			x := e.summary(1)
			e.equal("execution", x.Execution, ledger.Execution{
				Tag: tagOf(1), Tenant: tenant, ID: idOf(1), State: ledger.ExecutionErased, CreatedAt: start, ErasedAt: at(61),
			})
			e.equal("closing", e.order(f.ID).LiftedAt, at(61))
			e.equal("stats", []int64{e.stats().Blobs, e.stats().Executions}, []int64{0, 0})
			e.refusedCommit(capture(1, at(62), newBlob(3)), blobd.ErrErased)
			e.finish(j)
			e.equal("state", e.erasure(f.ID).State, ledger.ErasureErased)
		}},
		{"refs that were closed are erased, those without a row not", func(e *env) {
			e.commit(capture(1, start, newBlob(1), newBlob(2), newBlob(3)))
			f := fenceOf(1, 1, refOf(1), refOf(2), refOf(9))
			f.GraceUntil = at(60)
			e.fence(f)
			j := e.claimAt(60)
			got, r, err := e.FenceClosed(e.ctx, j.Lease, at(61), nil)
			e.must(err)
			e.equal("plan", got.Plan, ledger.Plan{Blobs: 2, Bytes: size(1) + size(2), NotFound: 1})
			e.equal("record", []any{r.Kind, r.Refs}, []any{ledger.RecordErase, sortedRefs(refOf(1), refOf(2))})
			e.equal("states", []ledger.BlobState{e.state(1, 1), e.state(1, 2), e.state(1, 3)},
				[]ledger.BlobState{ledger.BlobErased, ledger.BlobErased, ledger.BlobLive})
			refs, err := e.ErasedRefs(e.ctx, f.ID)
			e.must(err)
			e.equal("refs", refs, sortedRefs(refOf(1), refOf(2)))
			e.equal("others", e.blob(1, 3).Closed, ledger.CloseReason(0))
			e.finish(j)
			e.equal("tombstone", e.repeat(1, 1).State, ledger.BlobErased)
		}},
		{"a tenant that was closed is fenced", func(e *env) {
			e.put(1, 1)
			e.put(2, 2)
			f := offboard(1)
			f.GraceUntil = at(60)
			e.fence(f)
			e.equal("closed", e.summary(2).State, ledger.ExecutionClosed)
			j := e.claimAt(60)
			_, more, err := e.DropKeys(e.ctx, j.Lease, 9)
			e.must(err)
			e.equal("no key is dropped before it", []any{more, e.summary(1).Key != nil, e.stats().Blobs}, []any{false, true, int64(2)})
			_, r, err := e.FenceClosed(e.ctx, j.Lease, at(61), nil)
			e.must(err)
			e.equal("record", []any{r.Kind, r.Tag}, []any{ledger.RecordTenant, tenantTag})
			e.equal("tenant", []any{e.readTenant(tenant).FencedAt, e.readTenant(tenant).FencedBy}, []any{at(61), f.ID})
			p, _ := e.dropKeys(j.Lease, 1)
			e.equal("plan", p, ledger.Plan{Executions: 2, Blobs: 2, Bytes: size(1) + size(2)})
			e.finish(j)
		}},
		{"erasure and record tell the newest version of the keys of what was dropped before, too", func(e *env) {
			e.tenant("gamma", 1)
			for x := 1; x <= 2; x++ {
				c := sceneCapture(x, x, "notes", 0, start)
				c.Tenant, c.Key.Version = "gamma", uint32(3*x)
				e.commit(c)
			}
			s := refScope(1, 1)
			s.Tenant = "gamma"
			e.hold(1, s)
			f := offboard(1)
			f.Scope.Tenant = "gamma"
			e.fence(f)
			j := e.claimAt(20)
			e.pass(j, 10)
			lift := liftOf(1, ledger.OrderHold)
			lift.Tenant = "gamma"
			_, _, err := e.LiftOrder(e.ctx, lift, entry(ledger.EntryOrder))
			e.must(err)
			got, r, err := e.FenceClosed(e.ctx, j.Lease, at(21), nil)
			e.must(err)
			e.equal("wrap", []uint32{got.Wrap, r.Wrap}, []uint32{6, 6})
		}},
		{"where something is protected it is held and changes nothing", func(e *env) {
			for _, f := range fences() {
				fresh := e.fresh()
				fresh.scene()
				fresh.hold(1, refScope(sceneBlobs[f.covered[0]], f.covered[0]))
				fresh.fence(eraseOf(1, f.scope))
				j := fresh.claimAt(20)
				before := fresh.whole()
				_, _, err := fresh.FenceClosed(fresh.ctx, j.Lease, at(21), []ledger.Entry{bodied(`{"late":1}`)})
				e.refused(err, blobd.ErrHeld)
				e.equal("the ledger", fresh.whole(), before)
				fresh.lift(1, ledger.OrderHold)
				got, _, err := fresh.FenceClosed(fresh.ctx, j.Lease, at(22), nil)
				e.must(err)
				e.equal(f.form, got.Closing, false)
			}
		}},
		{"under a legal floor it is held until the floor's end", func(e *env) {
			e.scene()
			e.floor("notes", 40*second)
			e.fence(eraseOf(1, executionScope(1)))
			j := e.claimAt(20)
			_, _, err := e.FenceClosed(e.ctx, j.Lease, at(40).Add(-time.Microsecond), nil)
			e.refused(err, blobd.ErrHeld)
			_, _, err = e.FenceClosed(e.ctx, j.Lease, at(40), nil)
			e.must(err)
		}},
		{"a form that nothing fences is held", func(e *env) {
			for i, s := range []ledger.Scope{subjectScope(1), classScope("notes", at(9))} {
				e.fence(eraseOf(i, s))
				_, _, err := e.FenceClosed(e.ctx, e.claimAt(20).Lease, at(21), nil)
				e.refused(err, blobd.ErrHeld)
			}
		}},
		{"what has fenced, and a stale lease, are conflicts", func(e *env) {
			e.put(1, 1)
			e.fence(fenceOf(1, 1))
			j := e.claimAt(20)
			e.fencedAlready(j.Lease)
			f := fenceOf(2, 2)
			f.GraceUntil = at(30)
			e.fence(f)
			l := e.claimAt(30).Lease
			l.Term++
			e.fencedAlready(l)
		}},
	}
}

// fencedAlready checks that no method of closings takes a lease.
func (e *env) fencedAlready(l ledger.Lease) {
	e.Helper()
	before := e.whole()
	_, _, err := e.FenceClosed(e.ctx, l, at(40), []ledger.Entry{bodied(`{}`)})
	e.refused(err, blobd.ErrConflict)
	_, err = e.Drop(e.ctx, l, dropOf(10))
	e.refused(err, blobd.ErrConflict)
	e.refused(e.Defer(e.ctx, l, at(50), ledger.Progress{Held: 1}, []ledger.Entry{bodied(`{}`)}), blobd.ErrConflict)
	e.equal("the ledger", e.whole(), before)
}
