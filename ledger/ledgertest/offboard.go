package ledgertest

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// tenantTag is the tag that the tests give a whole tenant.
var tenantTag = tagOf(1000)

// offboard is the fence of the whole tenant.
func offboard(id int) ledger.Fence {
	f := fenceOf(id, 0)
	f.Scope = ledger.Scope{Tenant: tenant, Tag: tenantTag, WholeTenant: true}
	return f
}

// readTenant returns the tenant's row.
func (e *env) readTenant(id string) ledger.Tenant {
	e.Helper()
	t, err := e.Tenant(e.ctx, id)
	e.must(err)
	return t
}

// beta puts the n-th blob into the x-th execution of another tenant.
func (e *env) beta(x, n int) {
	e.Helper()
	c := capture(x, start, newBlob(n))
	c.Tenant = "beta"
	e.commit(c)
}

// dropKeys drops keys until none is left.
func (e *env) dropKeys(l ledger.Lease, limit int) (p ledger.Plan, calls int) {
	e.Helper()
	for more := true; more; calls++ {
		var err error
		p, more, err = e.DropKeys(e.ctx, l, limit)
		e.must(err)
	}
	return p, calls
}

func (e *env) listExecutions(q ledger.ExecutionQuery) []ledger.Execution {
	e.Helper()
	q.Limit = 100
	xs, err := e.ListExecutions(e.ctx, q)
	e.must(err)
	return xs
}

// erasedAs is an execution of the tests as it reads once it was erased at at(10).
func erasedAs(x int) ledger.Execution {
	return ledger.Execution{
		Tag: tagOf(x), Tenant: tenant, ID: idOf(x), State: ledger.ExecutionErased, CreatedAt: start, ErasedAt: at(10),
	}
}

func offboardSentences() []sentence {
	return slices.Concat(offboardFenceSentences(), offboardNothingNewSentences(), offboardJobSentences(), offboardReplaySentences())
}

func offboardFenceSentences() []sentence {
	return []sentence{
		{"the fence of a tenant marks its row and drops its index key", func(e *env) {
			e.fence(offboard(1))
			e.equal("tenant", e.readTenant(tenant), ledger.Tenant{
				ID: tenant, CreatedAt: start, NameKey: []byte("name key"), FencedAt: at(10), FencedBy: erasureID(1),
			})
			ts, err := e.ListTenants(e.ctx, "", 10)
			e.must(err)
			e.equal("listed", ts[0].FencedAt, at(10))
		}},
		{"every execution of it reads as erased from the commit on", func(e *env) {
			e.commit(capture(1, start, newBlob(1), newBlob(2)))
			e.put(2, 3)
			e.restrict(2)
			e.lookup(1, refOf(1)) // what an engine remembers must not outlive the fence
			e.repeat(1, 1)
			e.fence(offboard(1))
			for x := 1; x <= 2; x++ {
				want := erasedAs(x)
				e.equal("lookup", e.lookup(x, refOf(1)).Execution, &want)
				v, err := e.LookupRepeats(e.ctx, tagOf(x), nil)
				e.must(err)
				e.equal("repeats", v.Execution, &want)
				e.equal("summary", e.summary(x), ledger.Summary{Execution: want, Steps: 1})
			}
			e.equal("listed", len(e.listExecutions(ledger.ExecutionQuery{Tenant: tenant, State: ledger.ExecutionErased})), 2)
			e.equal("open", len(e.listExecutions(ledger.ExecutionQuery{Tenant: tenant, State: ledger.ExecutionOpen})), 0)
			e.equal("with a class", len(e.listExecutions(ledger.ExecutionQuery{Tenant: tenant, Class: "reasoning"})), 0)
			rows, err := e.ScanBlobs(e.ctx, ledger.Position{}, 10)
			e.must(err)
			for _, row := range rows {
				e.equal("scanned", []any{row.ExecutionState, row.Key == nil}, []any{ledger.ExecutionErased, true})
			}
		}},
		{"what was erased before keeps its time", func(e *env) {
			e.put(1, 1)
			f := fenceOf(1, 1)
			f.At = at(5)
			e.fence(f)
			e.fence(offboard(2))
			e.equal("erased at", e.summary(1).ErasedAt, at(5))
		}},
		{"another tenant is as it was", func(e *env) {
			e.tenant("beta", 1)
			e.put(1, 1)
			e.beta(2, 2)
			before := e.lookup(2, refOf(2))
			e.fence(offboard(1))
			j := e.claim()
			e.dropKeys(j.Lease, 10)
			e.tombstoneAll(j.Lease, 10)
			e.equal("lookup", e.lookup(2, refOf(2)), before)
			e.beta(2, 3)
			e.beta(3, 4)
			if b := e.readTenant("beta"); b.Fenced() || b.IndexKey == nil {
				e.Fatalf("beta is %+v", b)
			}
			e.equal("stats", []int64{e.stats().Blobs, e.stats().Executions}, []int64{3, 2})
		}},
		{"it answers with an erasure whose plan is not counted yet, and a record", func(e *env) {
			e.put(1, 1)
			f := offboard(1)
			f.Reason, f.RequestedBy = "leaves", "token"
			got, r := e.fence(f)
			want := ledger.Erasure{
				ID: f.ID, Scope: f.Scope, State: ledger.ErasureRunning, Reason: "leaves", RequestedBy: "token", FencedAt: at(10),
			}
			e.equal("erasure", got, want)
			read, err := e.Erasure(e.ctx, tenant, f.ID)
			e.must(err)
			e.equal("erasure read back", read, want)
			e.equal("record", r, ledger.Record{
				Seq: 1, Kind: ledger.RecordTenant, At: at(10), Tenant: tenant, Tag: tenantTag, ErasureID: f.ID, Writes: 1,
			})
			e.equal("head", e.head(), r)
		}},
		{"its evidence is inserted", func(e *env) {
			before := len(e.entries())
			e.fence(offboard(1))
			e.equal("entries", len(e.entries()), before+1)
		}},
		{"erasure and record tell the tenant's minimum wrap version", func(e *env) {
			e.tenant("beta", 7)
			f := offboard(1)
			f.Scope.Tenant = "beta"
			got, r := e.fence(f)
			e.equal("wrap", []uint32{got.Wrap, r.Wrap}, []uint32{7, 7})
		}},
		{"the same id again returns the first answer", func(e *env) {
			e.put(1, 1)
			first, record := e.fence(offboard(1))
			f := offboard(1)
			f.At = at(15)
			again, same := e.fence(f)
			e.equal("erasure", again, first)
			e.equal("record", same, record)
			e.equal("fenced at", e.readTenant(tenant).FencedAt, at(10))
			other := fenceOf(1, 1)
			other.Scope.Tag = tenantTag
			_, _, err := e.Fence(e.ctx, other)
			e.refused(err, blobd.ErrConflict)
		}},
		{"a second fence finds it erased and changes nothing", func(e *env) {
			e.fence(offboard(1))
			f := offboard(2)
			f.At = at(15)
			got, r := e.fence(f)
			e.equal("plan", got.Plan, ledger.Plan{AlreadyErased: 1})
			e.equal("record", []any{r.Seq, r.Kind}, []any{int64(2), ledger.RecordTenant})
			t := e.readTenant(tenant)
			e.equal("tenant", []any{t.FencedAt, t.FencedBy}, []any{at(10), erasureID(1)})
		}},
		{"an unknown tenant is not found", func(e *env) {
			f := offboard(1)
			f.Scope.Tenant = "nobody"
			_, _, err := e.Fence(e.ctx, f)
			e.refused(err, blobd.ErrNotFound)
			_, err = e.Plan(e.ctx, f.Scope)
			e.refused(err, blobd.ErrNotFound)
		}},
		{"a whole tenant and something within it is invalid", func(e *env) {
			for _, f := range []ledger.Fence{fenceOf(1, 1), fenceOf(1, 1, refOf(1))} {
				f.Scope.WholeTenant = true
				_, _, err := e.Fence(e.ctx, f)
				e.refused(err, blobd.ErrInvalid)
				_, err = e.Plan(e.ctx, f.Scope)
				e.refused(err, blobd.ErrInvalid)
			}
			e.equal("fenced", e.readTenant(tenant).Fenced(), false)
		}},
		{"a plan counts the whole tenant, and changes nothing", func(e *env) {
			e.tenant("beta", 0)
			e.commit(capture(1, start, newBlob(1), newBlob(2)))
			e.put(2, 3)
			e.put(3, 4)
			e.beta(4, 5)
			e.fence(fenceOf(1, 3))
			got, err := e.Plan(e.ctx, offboard(2).Scope)
			e.must(err)
			e.equal("plan", got, ledger.Plan{Executions: 2, Blobs: 3, Bytes: size(1) + size(2) + size(3)})
			e.equal("fenced", e.readTenant(tenant).Fenced(), false)
			e.fence(offboard(2))
			got, err = e.Plan(e.ctx, offboard(3).Scope)
			e.must(err)
			e.equal("plan of what is erased", got, ledger.Plan{AlreadyErased: 1})
		}},
		{"its open key epochs end, and no lease of them holds", func(e *env) {
			e.tenant("beta", 0)
			e.startEpoch(1)
			j := e.claimEpoch()
			e.fence(offboard(1))
			e.equal("state", e.epoch(1).State, ledger.EpochEnded)
			e.refused(e.MoveEpoch(e.ctx, j.Lease, ledger.EpochMove{To: ledger.EpochRotating, From: 1, Due: at(30)}), blobd.ErrConflict)
			e.refused(e.MoveEpoch(e.ctx, j.Lease, ledger.EpochMove{To: ledger.EpochEnded, Due: at(30)}), blobd.ErrConflict)
			_, err := e.ClaimEpoch(e.ctx, "worker", at(1000), at(1001))
			e.refused(err, blobd.ErrNotFound)
		}},
		{"it has no wraps", func(e *env) {
			e.put(1, 1)
			e.fence(offboard(1))
			e.equal("wraps", len(e.wraps(99)), 0)
		}},
	}
}

func offboardNothingNewSentences() []sentence {
	return []sentence{
		{"every put in it is refused as erased", func(e *env) {
			e.put(1, 1)
			e.fence(offboard(1))
			e.refusedCommit(capture(1, at(11), newBlob(2)), blobd.ErrErased)
			e.refusedCommit(capture(1, at(11), newBlob(1)), blobd.ErrErased)
			e.refusedCommit(retained(1, at(11), refOf(1)), blobd.ErrErased)
			e.refusedCommit(capture(2, at(11), newBlob(3)), blobd.ErrTenantErased)
			if e.lookup(2, refOf(3)).Execution != nil {
				e.Fatal("an execution was made")
			}
		}},
		{"nothing new is made under it", func(e *env) {
			e.token(tokenOf(1))
			e.fence(offboard(1))
			e.refused(e.CreateToken(e.ctx, tokenOf(2), entry(ledger.EntryToken)), blobd.ErrTenantErased)
			e.refused(e.SetPolicy(e.ctx, policyOf("reasoning", second), entry(ledger.EntryPolicy)),
				blobd.ErrTenantErased)
			_, err := e.StartEpoch(e.ctx, newEpoch(1))
			e.refused(err, blobd.ErrTenantErased)
			e.refused(e.CreateTenant(e.ctx, ledger.Tenant{ID: tenant, CreatedAt: at(11)}, entry(ledger.EntryTenant)), blobd.ErrConflict)
		}},
		{"its tokens work on, and can be revoked", func(e *env) {
			e.token(tokenOf(1))
			e.fence(offboard(1))
			k, err := e.TokenByHash(e.ctx, tokenOf(1).Hash)
			e.must(err)
			e.equal("tenant", k.Tenant, tenant)
			_, err = e.RevokeToken(e.ctx, tenant, k.ID, at(12), entry(ledger.EntryToken))
			e.must(err)
			_, err = e.TokenByHash(e.ctx, tokenOf(1).Hash)
			e.refused(err, blobd.ErrNotFound)
		}},
		{"its executions are not restricted, held or accepted as lost", func(e *env) {
			e.put(1, 1)
			e.fence(offboard(1))
			for _, kind := range []ledger.OrderKind{ledger.OrderHold, ledger.OrderRestriction} {
				_, _, err := e.PlaceOrder(e.ctx, orderOf(1, kind, executionScope(1)), entry(ledger.EntryOrder))
				e.refused(err, blobd.ErrTenantErased)
			}
			e.refused(e.AcceptLoss(e.ctx, tagOf(1), refOf(1), at(11), entry(ledger.EntryRecovery)), blobd.ErrConflict)
		}},
		{"an erasure within it finds everything erased, and makes no row", func(e *env) {
			e.put(1, 1)
			e.fence(offboard(1))
			for i, f := range []ledger.Fence{fenceOf(2, 1), fenceOf(3, 7), fenceOf(4, 1, refOf(1), refOf(9))} {
				plan, err := e.Plan(e.ctx, f.Scope)
				e.must(err)
				got, _ := e.fence(f)
				want := ledger.Plan{AlreadyErased: int64(max(1, len(f.Scope.Refs)))}
				e.equal(fmt.Sprint("plan ", i), []ledger.Plan{plan, got.Plan}, []ledger.Plan{want, want})
			}
			_, err := e.Execution(e.ctx, tenant, tagOf(7))
			e.refused(err, blobd.ErrNotFound)
			refs, err := e.ErasedRefs(e.ctx, erasureID(4))
			e.must(err)
			e.equal("refs", refs, refsOf(1, 2))
		}},
	}
}

func (e *env) tombstoneAll(l ledger.Lease, limit int) (calls int) {
	e.Helper()
	for left := 1; left > 0; calls++ {
		var err error
		left, err = e.Tombstone(e.ctx, l, limit)
		e.must(err)
		if calls > 1000 {
			e.Fatal("tombstones do not end")
		}
	}
	return calls
}

func offboardJobSentences() []sentence {
	return []sentence{
		{"keys are dropped in batches, and the plan grows with them", func(e *env) {
			e.tenant("beta", 0)
			for x := range 5 {
				e.put(x, x)
			}
			e.beta(9, 9)
			e.fence(fenceOf(1, 4))
			e.fence(offboard(2))
			e.finish(e.claim())
			j := e.claim()
			p, more, err := e.DropKeys(e.ctx, j.Lease, 3)
			e.must(err)
			e.equal("first", []any{p, more}, []any{ledger.Plan{Executions: 3, Blobs: 3, Bytes: 3003}, true})
			e.equal("stats", []int64{e.stats().Blobs, e.stats().Executions}, []int64{2, 2})
			p, more, err = e.DropKeys(e.ctx, j.Lease, 3)
			e.must(err)
			want := ledger.Plan{Executions: 4, Blobs: 4, Bytes: 4006}
			e.equal("second", []any{p, more}, []any{want, false})
			p, more, err = e.DropKeys(e.ctx, j.Lease, 3)
			e.must(err)
			e.equal("again", []any{p, more}, []any{want, false})
			e.equal("erasure", e.erasure(erasureID(2)).Plan, want)
			e.equal("stats", []int64{e.stats().Blobs, e.stats().Bytes, e.stats().Executions}, []int64{1, size(9), 1})
		}},
		{"an execution reads alike before and after its key was dropped", func(e *env) {
			e.commit(capture(1, start, newBlob(1), newBlob(2)))
			e.fence(offboard(1))
			before, summary := e.lookup(1, refOf(1), refOf(2)), e.summary(1)
			e.dropKeys(e.claim().Lease, 1)
			e.equal("lookup", e.lookup(1, refOf(1), refOf(2)), before)
			e.equal("summary", e.summary(1), summary)
		}},
		{"any other erasure has no keys left to drop", func(e *env) {
			e.put(1, 1)
			e.fence(fenceOf(1, 1))
			p, more, err := e.DropKeys(e.ctx, e.claim().Lease, 9)
			e.must(err)
			e.equal("plan", []any{p, more}, []any{ledger.Plan{Executions: 1, Blobs: 1, Bytes: size(1)}, false})
		}},
		{"keys are dropped under a lease, and with a limit", func(e *env) {
			e.put(1, 1)
			e.fence(offboard(1))
			stale := e.claim().Lease
			_, _, err := e.DropKeys(e.ctx, stale, 0)
			e.refused(err, blobd.ErrInvalid)
			_, err = e.Claim(e.ctx, "other", at(40), at(50))
			e.must(err)
			_, _, err = e.DropKeys(e.ctx, stale, 9)
			e.refused(err, blobd.ErrConflict)
			e.equal("stats", e.stats().Executions, int64(1))
		}},
		{"its rows become tombstones in batches, and no other tenant's", func(e *env) {
			e.tenant("beta", 0)
			for x := range 4 {
				c := capture(x, start, newBlob(2*x), newBlob(2*x+1))
				c.Subjects = [][32]byte{subjectOf(1)}
				e.commit(c)
			}
			e.fence(fenceOf(1, 0, refOf(0)))
			e.must(e.Collect(e.ctx, position(1, 20), start))
			e.beta(9, 9)
			e.fence(offboard(2))
			e.finish(e.claim())
			j := e.claim()
			e.dropKeys(j.Lease, 9)
			left, err := e.Tombstone(e.ctx, j.Lease, 3)
			e.must(err)
			e.equal("left, counted up to the limit", left, 3)
			e.equal("calls", e.tombstoneAll(j.Lease, 3), 2)
			for x := range 4 {
				for n := 2 * x; n < 2*x+2; n++ {
					e.equal("row", e.blob(x, n), &ledger.Blob{Ref: refOf(n), State: ledger.BlobErased, CreatedAt: start})
					e.equal("subjects", len(e.subjects(x, n)), 0)
					if e.repeat(x, n) != nil {
						e.Fatal("a repeat tag is left")
					}
				}
			}
			e.equal("collected", e.state(1, 20), ledger.BlobCollected)
			e.equal("beta's", e.state(9, 9), ledger.BlobLive)
			e.must(e.Finish(e.ctx, j.Lease, ledger.Progress{}, at(25), nil))
		}},
		{"rows that come while it runs are found", func(e *env) {
			e.put(1, 1)
			e.put(2, 2)
			e.fence(offboard(1))
			j := e.claim()
			e.dropKeys(j.Lease, 9)
			if _, err := e.Tombstone(e.ctx, j.Lease, 1); err != nil {
				e.Fatal(err)
			}
			for x := 1; x <= 2; x++ { // before and after the place that it is at
				_, err := e.EnterMissing(e.ctx, []ledger.Position{position(x, 7)}, at(12))
				e.must(err)
			}
			e.refused(e.Finish(e.ctx, j.Lease, ledger.Progress{}, at(25), nil), blobd.ErrConflict)
			e.tombstoneAll(j.Lease, 1)
			for x := 1; x <= 2; x++ {
				e.equal("state", e.state(x, 7), ledger.BlobErased)
			}
			e.must(e.Finish(e.ctx, j.Lease, ledger.Progress{}, at(25), nil))
		}},
		{"it is not finished while keys or rows are left", func(e *env) {
			e.put(1, 1)
			e.commit(capture(2, start)) // a key and no row
			e.fence(offboard(1))
			j := e.claim()
			e.tombstoneAll(j.Lease, 9)
			e.refused(e.Finish(e.ctx, j.Lease, ledger.Progress{}, at(25), nil), blobd.ErrConflict)
			e.dropKeys(j.Lease, 9)
			kek := at(22)
			e.must(e.Finish(e.ctx, j.Lease, ledger.Progress{KeysDestroyed: 1, KEKDestroyedAt: kek}, at(25), nil))
			got := e.erasure(erasureID(1))
			e.equal("erasure", []any{got.State, got.ErasedAt, got.Progress.KEKDestroyedAt}, []any{ledger.ErasureErased, at(25), kek})
		}},
		{"erasures within it, and of it, finish no earlier than it", func(e *env) {
			e.put(1, 1)
			e.fence(offboard(1))
			for i, f := range []ledger.Fence{fenceOf(2, 1), fenceOf(3, 1, refOf(1)), offboard(4), fenceOf(5, 7)} {
				f.At, f.RunAt = at(11+i), at(11+i)
				e.fence(f)
			}
			first := e.claim()
			var later []ledger.Job
			for range 4 {
				j := e.claim()
				later = append(later, j)
				e.dropKeys(j.Lease, 9)
				e.tombstoneAll(j.Lease, 9)
				e.refused(e.Finish(e.ctx, j.Lease, ledger.Progress{}, at(25), nil), blobd.ErrConflict)
			}
			e.dropKeys(first.Lease, 9)
			e.finish(first)
			for _, j := range later {
				e.finish(j)
			}
		}},
		{"it does not wait for erasures within it that began before", func(e *env) {
			e.put(1, 1)
			e.fence(fenceOf(1, 1))
			e.fence(offboard(2))
			e.claim()
			j := e.claim()
			e.dropKeys(j.Lease, 9)
			e.finish(j)
			e.equal("state", e.erasure(erasureID(2)).State, ledger.ErasureErased)
		}},
	}
}

// lostTenant is the record of an off-boarding that a ledger lost.
func lostTenant(seq int64) ledger.Record {
	return ledger.Record{
		Seq: seq, Kind: ledger.RecordTenant, At: at(10), Tenant: tenant, Tag: tenantTag, ErasureID: erasureID(1), Wrap: 3, Writes: 4,
	}
}

func offboardReplaySentences() []sentence {
	return []sentence{
		{"a lost fence of a tenant is replayed, and its job runs again", func(e *env) {
			e.put(1, 1)
			e.startEpoch(1)
			e.lookup(1, refOf(1))
			e.replay(lostTenant(4))
			t := e.readTenant(tenant)
			e.equal("tenant", []any{t.FencedAt, t.FencedBy, len(t.IndexKey)}, []any{at(10), erasureID(1), 0})
			e.equal("execution", e.lookup(1, refOf(1)).Execution.State, ledger.ExecutionErased)
			e.equal("epoch", e.epoch(1).State, ledger.EpochEnded)
			j := e.claim()
			e.equal("erasure", j.Erasure, ledger.Erasure{
				ID: erasureID(1), Scope: offboard(1).Scope, State: ledger.ErasureRunning, FencedAt: at(10), Attempts: 1, Wrap: 3,
			})
			p, _ := e.dropKeys(j.Lease, 9)
			e.equal("plan", p, ledger.Plan{Executions: 1, Blobs: 1, Bytes: size(1)})
			e.finish(j)
			e.equal("has", e.has(lostTenant(4)), true)
		}},
		{"a tenant that was lost too comes back fenced, without its keys", func(e *env) {
			r := lostTenant(4)
			r.Tenant = "gone"
			e.replay(r)
			e.equal("tenant", e.readTenant("gone"), ledger.Tenant{ID: "gone", CreatedAt: at(10), FencedAt: at(10), FencedBy: erasureID(1)})
			e.refused(e.CreateTenant(e.ctx, ledger.Tenant{ID: "gone", CreatedAt: at(11)}, entry(ledger.EntryTenant)), blobd.ErrConflict)
			j := e.claim()
			e.equal("scope", j.Erasure.Scope, ledger.Scope{Tenant: "gone", Tag: tenantTag, WholeTenant: true})
			e.dropKeys(j.Lease, 9)
			e.finish(j)
		}},
		{"a replayed fence of a tenant is applied once", func(e *env) {
			e.put(1, 1)
			e.replay(lostTenant(4))
			e.dropKeys(e.claim().Lease, 9)
			e.replay(lostTenant(4))
			es, err := e.ListErasures(e.ctx, ledger.ErasureQuery{Tenant: tenant, Limit: 10})
			e.must(err)
			e.equal("erasures", len(es), 1)
			_, r := e.fence(offboard(1))
			e.equal("its id answers with the record", r, lostTenant(4))
		}},
		{"fences within it are replayed before and after", func(e *env) {
			e.put(1, 1)
			e.put(2, 2)
			inside := func(seq int64, id, x int) ledger.Record {
				return ledger.Record{
					Seq: seq, Kind: ledger.RecordFence, At: at(9), Tenant: tenant, Tag: tagOf(x), ErasureID: erasureID(id), Writes: 4,
				}
			}
			e.replay(inside(3, 2, 1), lostTenant(4), inside(5, 3, 2))
			e.equal("erased at", []any{e.summary(1).ErasedAt, e.summary(2).ErasedAt}, []any{at(9), at(10)})
		}},
		{"a record of a tenant names a tenant and an erasure, and no refs", func(e *env) {
			for _, spoil := range []func(*ledger.Record){
				func(r *ledger.Record) { r.Tenant = "" },
				func(r *ledger.Record) { r.ErasureID = "" },
				func(r *ledger.Record) { r.Refs = refsOf(1, 2) },
			} {
				r := lostTenant(4)
				spoil(&r)
				e.refused(e.Replay(e.ctx, []ledger.Record{r}), blobd.ErrInvalid)
			}
			e.equal("fenced", e.readTenant(tenant).Fenced(), false)
		}},
		{"a record of a tenant is written and read alike", func(e *env) {
			_, r := e.fence(offboard(1))
			b, err := r.Encode()
			e.must(err)
			if !bytes.Contains(b, []byte(`"kind":"tenant"`)) {
				e.Fatalf("record %s", b)
			}
			back, err := ledger.DecodeRecord(b)
			e.must(err)
			e.equal("record", back, r)
		}},
	}
}
