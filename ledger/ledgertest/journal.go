package ledgertest

import (
	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

func (e *env) mark(n int) ledger.Record {
	e.Helper()
	r, err := e.Mark(e.ctx, at(n))
	e.must(err)
	return r
}

func (e *env) unpublished() []ledger.Record {
	e.Helper()
	rs, err := e.Unpublished(e.ctx, 1000)
	e.must(err)
	return rs
}

func (e *env) has(r ledger.Record) bool {
	e.Helper()
	has, err := e.HasRecord(e.ctx, r)
	e.must(err)
	return has
}

func journalSentences() []sentence {
	return []sentence{
		{"sequence numbers rise without repeats over all kinds", func(e *env) {
			e.put(1, 1)
			e.token(tokenOf(1))
			records := []ledger.Record{e.mark(1), e.restrict(1), e.lapse(1)}
			r, err := e.RevokeToken(e.ctx, tenant, "token-1", at(3), entry(ledger.EntryToken))
			e.must(err)
			records = append(records, r)
			_, r = e.fence(fenceOf(1, 1, refOf(1)))
			records = append(records, r)
			_, r = e.fence(fenceOf(2, 1))
			records = append(records, r)
			for i, r := range records {
				e.equal("number", r.Seq, int64(i+1))
			}
			e.equal("journal", e.unpublished(), records)
			e.equal("head", e.head(), records[len(records)-1])
		}},
		{"a mark says how far the ledger was", func(e *env) {
			e.commit(capture(1, start, newBlob(1), newBlob(2)))
			e.equal("mark", e.mark(1), ledger.Record{Seq: 1, Kind: ledger.RecordMark, At: at(1), Writes: 2})
		}},
		{"there is no mark unless something was written since the last record of any kind", func(e *env) {
			e.put(1, 1)
			e.mark(1)
			e.equal("mark", e.mark(2), ledger.Record{})
			e.put(1, 2)
			e.equal("mark", e.mark(3).Seq, int64(2))
			e.restrict(1)
			e.equal("mark", e.mark(4), ledger.Record{})
			e.must(e.Append(e.ctx, entry(ledger.EntryRead)))
			e.equal("mark", e.mark(5).Seq, int64(4))
			e.equal("mark", e.mark(6), ledger.Record{})
			e.equal("head", e.head().Seq, int64(4))
		}},
		{"writes count blobs ever committed", func(e *env) {
			e.put(1, 1)
			e.put(1, 2)
			e.commit(capture(1, at(1), again(1, 3))) // a repeat is none
			_, r := e.fence(fenceOf(1, 1))
			e.equal("writes", r.Writes, int64(2))
			e.put(2, 4)
			e.equal("writes", e.mark(11).Writes, int64(3))
		}},
		{"publishing takes records off the outbox", func(e *env) {
			for i := range 4 {
				e.fence(fenceOf(i, i))
			}
			e.equal("waiting", e.stats().JournalUnpublished, int64(4))
			first, err := e.Unpublished(e.ctx, 2)
			e.must(err)
			e.equal("oldest first", []int64{first[0].Seq, first[1].Seq}, []int64{1, 2})
			e.must(e.Published(e.ctx, []int64{1, 3}))
			rs := e.unpublished()
			e.equal("rest", []int64{rs[0].Seq, rs[1].Seq, int64(len(rs))}, []int64{2, 4, 2})
			e.must(e.Published(e.ctx, []int64{1, 2, 4}))
			e.equal("waiting", e.stats().JournalUnpublished, int64(0))
			e.equal("head", e.head().Seq, int64(4))
		}},
		{"publishing a record that is not there is not found and changes nothing", func(e *env) {
			e.fence(fenceOf(1, 1))
			e.refused(e.Published(e.ctx, []int64{1, 2}), blobd.ErrNotFound)
			e.equal("waiting", e.stats().JournalUnpublished, int64(1))
		}},
		{"an empty journal has the zero record as its head", func(e *env) {
			e.equal("head", e.head(), ledger.Record{})
		}},
		{"the ledger has exactly the records that it made", func(e *env) {
			e.put(1, 1)
			_, r := e.fence(fenceOf(1, 1, refOf(1)))
			e.equal("has", e.has(r), true)
			for _, change := range []func(*ledger.Record){
				func(r *ledger.Record) { r.Seq++ },
				func(r *ledger.Record) { r.Kind = ledger.RecordFence },
				func(r *ledger.Record) { r.At = at(11) },
				func(r *ledger.Record) { r.Tag = tagOf(2) },
				func(r *ledger.Record) { r.Refs = refsOf(2, 3) },
				func(r *ledger.Record) { r.ErasureID = "x" },
				func(r *ledger.Record) { r.Writes++ },
			} {
				other := r
				change(&other)
				e.equal("has another", e.has(other), false)
			}
			b, err := r.Encode()
			e.must(err)
			read, err := ledger.DecodeRecord(b)
			e.must(err)
			e.equal("has what was encoded", e.has(read), true)
		}},
		{"a listing without a limit is invalid", func(e *env) {
			_, err := e.Unpublished(e.ctx, 0)
			e.refused(err, blobd.ErrInvalid)
		}},
	}
}

// lost are records that a ledger lost: two executions and a token it may still
// have, and what was done to them.
func lost() []ledger.Record {
	return []ledger.Record{
		{Seq: 3, Kind: ledger.RecordMark, At: at(1), Writes: 9},
		{Seq: 4, Kind: ledger.RecordFence, At: at(2), Tenant: tenant, Tag: tagOf(1), ErasureID: erasureID(1), Writes: 9},
		{
			Seq: 5, Kind: ledger.RecordErase, At: at(3), Tenant: tenant, Tag: tagOf(2), Refs: sortedRefs(refOf(2), refOf(8)),
			ErasureID: erasureID(2), Writes: 9,
		},
		{
			Seq: 7, Kind: ledger.RecordOrder, At: at(4), Tenant: tenant, Tag: tagOf(3), OrderID: orderID(1),
			OrderKind: ledger.OrderRestriction, Form: ledger.ScopeExecution, Writes: 10,
		},
		{Seq: 8, Kind: ledger.RecordRevoke, At: at(5), Tenant: tenant, TokenID: "token-1", Writes: 10},
	}
}

func (e *env) replay(rs ...ledger.Record) { e.Helper(); e.must(e.Replay(e.ctx, rs)) }

func replaySentences() []sentence {
	return []sentence{
		{"records are applied to what the ledger still has", func(e *env) {
			e.put(1, 1)
			e.commit(capture(2, start, newBlob(2), newBlob(3)))
			e.put(3, 4)
			e.token(tokenOf(1))
			e.replay(lost()...)
			e.equal("fenced", e.summary(1).State, ledger.ExecutionErased)
			e.equal("erased at", e.summary(1).ErasedAt, at(2))
			if e.summary(1).Key != nil {
				e.Fatal("the key was not dropped")
			}
			e.equal("erased", []ledger.BlobState{e.state(2, 2), e.state(2, 3), e.state(2, 8)},
				[]ledger.BlobState{ledger.BlobErased, ledger.BlobLive, ledger.BlobErased})
			e.equal("key", e.blob(2, 2).WrappedKey, nilBytes)
			e.equal("closed", []any{e.summary(3).State, e.summary(3).CloseReason},
				[]any{ledger.ExecutionClosed, ledger.ClosedRestricted})
			_, err := e.TokenByHash(e.ctx, tokenOf(1).Hash)
			e.refused(err, blobd.ErrNotFound)
			e.equal("counts", []int64{e.stats().Blobs, e.stats().Executions}, []int64{2, 2})
		}},
		{"records are applied to an empty ledger", func(e *env) {
			e.replay(lost()...)
			e.equal("fenced by its tag", e.summary(1).Execution, ledger.Execution{
				Tag: tagOf(1), Tenant: tenant, State: ledger.ExecutionErased, CreatedAt: at(2), ErasedAt: at(2),
			})
			e.refusedCommit(capture(1, at(9), newBlob(1)), blobd.ErrErased)
			e.equal("tombstone", e.blob(2, 2), &ledger.Blob{Ref: refOf(2), State: ledger.BlobErased, CreatedAt: at(3)})
			if e.lookup(2, refOf(2)).Execution != nil || e.lookup(3, refOf(1)).Execution != nil {
				e.Fatal("an execution was made up")
			}
			e.refusedCommit(capture(2, at(9), newBlob(2)), blobd.ErrConflict)
		}},
		{"records of a tenant that was lost too are applied", func(e *env) {
			r := lost()[1]
			r.Tenant = "gone"
			e.replay(r)
			x, err := e.Execution(e.ctx, "gone", tagOf(1))
			e.must(err)
			e.equal("state", x.State, ledger.ExecutionErased)
		}},
		{"records keep their numbers and new ones come after them", func(e *env) {
			e.replay(lost()...)
			for _, r := range lost() {
				e.equal("has", e.has(r), true)
			}
			e.equal("head", e.head(), lost()[4])
			e.equal("waiting", e.stats().JournalUnpublished, int64(0))
			_, r := e.fence(fenceOf(9, 9))
			e.equal("next", r.Seq, int64(9))
			e.equal("writes", r.Writes, int64(10))
		}},
		{"each record is applied once", func(e *env) {
			e.put(1, 1)
			e.put(3, 4)
			e.replay(lost()[:3]...)
			e.replay(lost()[:4]...)
			e.lift(1, ledger.OrderRestriction)
			before := e.picture()
			e.replay(lost()[:4]...)
			e.equal("the ledger", e.picture(), before)
			es, err := e.ListErasures(e.ctx, ledger.ErasureQuery{Tenant: tenant, Limit: 10})
			e.must(err)
			e.equal("erasures", len(es), 2)
		}},
		{"an order and its end are applied in order", func(e *env) {
			e.put(3, 4)
			e.replay(lost()[3],
				ledger.Record{Seq: 8, Kind: ledger.RecordLift, At: at(5), Tenant: tenant, OrderID: orderID(1), Writes: 10})
			e.equal("state", e.summary(3).State, ledger.ExecutionOpen)
			e.equal("reason", e.summary(3).CloseReason, ledger.CloseReason(0))
		}},
		{"the erasure's job is made again, running and due at once", func(e *env) {
			e.put(1, 1)
			e.replay(lost()...)
			first := e.claim()
			e.equal("erasure", first.Erasure, ledger.Erasure{
				ID: erasureID(1), Scope: ledger.Scope{Tenant: tenant, Tag: tagOf(1)}, State: ledger.ErasureRunning,
				Plan: ledger.Plan{Executions: 1, Blobs: 1, Bytes: size(1)}, Fenced: ledger.Plan{Executions: 1, Blobs: 1, Bytes: size(1)}, FencedAt: at(2), Attempts: 1, Wrap: 1,
			})
			second := e.claim()
			e.equal("of refs", []any{second.Erasure.ID, second.Erasure.OfRefs}, []any{erasureID(2), true})
			refs, err := e.ErasedRefs(e.ctx, erasureID(2))
			e.must(err)
			e.equal("refs", refs, sortedRefs(refOf(2), refOf(8)))
			e.finish(first)
			e.finish(second)
		}},
		{"a record of refs that found no row never fences the execution", func(e *env) {
			e.put(1, 1)
			e.replay(ledger.Record{
				Seq: 4, Kind: ledger.RecordErase, At: at(2), Tenant: tenant, Tag: tagOf(1), ErasureID: erasureID(1), Writes: 9,
			})
			e.equal("state", e.summary(1).State, ledger.ExecutionOpen)
			e.equal("blob", e.state(1, 1), ledger.BlobLive)
			e.finish(e.claim())
			e.equal("of refs", e.erasure(erasureID(1)).OfRefs, true)
			e.equal("blob", e.state(1, 1), ledger.BlobLive)
		}},
		{"refs of an erased execution stay as they are", func(e *env) {
			e.put(2, 2)
			e.fence(fenceOf(7, 2))
			r := lost()[2]
			r.Seq = 9
			e.replay(r)
			e.equal("no row was made up", e.state(2, 8), ledger.BlobState(0))
			refs, err := e.ErasedRefs(e.ctx, r.ErasureID)
			e.must(err)
			e.equal("refs", refs, refsOf(2, 3))
		}},
		{"a fence that was replayed answers its id again", func(e *env) {
			e.replay(lost()[:2]...)
			f := fenceOf(1, 1)
			got, r := e.fence(f)
			e.equal("record", r, lost()[1])
			e.equal("fenced at", got.FencedAt, at(2))
		}},
		{"a record that was never published gives way and gets a number behind them", func(e *env) {
			e.put(1, 1)
			e.put(4, 4)
			e.put(3, 5)
			var own []ledger.Record
			for i := range 4 { // numbers 1 to 4; 3 and 4 stand in the way
				_, r := e.fence(fenceOf(20+i, 20+i))
				own = append(own, r)
			}
			e.must(e.Published(e.ctx, []int64{1, 2}))
			e.replay(lost()...)
			for _, r := range lost() {
				e.equal("has a lost record", e.has(r), true)
			}
			e.equal("has its old number", []bool{e.has(own[2]), e.has(own[3])}, []bool{false, false})
			waiting := e.unpublished()
			e.equal("waiting", len(waiting), 2)
			for i, r := range waiting {
				want := own[2+i]
				want.Seq, want.Writes = int64(9+i), 10
				e.equal("renumbered", r, want)
				_, again := e.fence(fenceOf(22+i, 22+i))
				e.equal("the erasure's record", again, r)
			}
			e.equal("head", e.head(), waiting[1])
			_, again := e.fence(fenceOf(1, 1))
			e.equal("a replayed erasure's record", again, lost()[1])
			e.replay(lost()...)
			e.equal("a second replay", e.unpublished(), waiting)
		}},
		{"another record under a published number is a conflict and nothing is applied", func(e *env) {
			e.put(1, 1)
			e.put(3, 4)
			e.replay(lost()[3])
			other := lost()[3]
			other.OrderKind = ledger.OrderHold
			e.refused(e.Replay(e.ctx, []ledger.Record{lost()[1], other}), blobd.ErrConflict)
			e.equal("state", e.summary(1).State, ledger.ExecutionOpen)
			e.equal("has", e.has(lost()[1]), false)
		}},
		{"records out of order or of an unknown kind are invalid and nothing is applied", func(e *env) {
			e.put(1, 1)
			rs := lost()
			e.refused(e.Replay(e.ctx, []ledger.Record{rs[1], rs[0]}), blobd.ErrInvalid)
			e.refused(e.Replay(e.ctx, []ledger.Record{rs[1], {Seq: 9, Kind: "hold", At: at(1)}}), blobd.ErrInvalid)
			e.equal("state", e.summary(1).State, ledger.ExecutionOpen)
			e.equal("head", e.head(), ledger.Record{})
		}},
	}
}
