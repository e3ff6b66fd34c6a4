package ledgertest

import (
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

func expireSentences() []sentence {
	return []sentence{
		{"what is past its maximum loses its key and its repeat tag", func(e *env) {
			e.maximum("reasoning", 5*second)
			e.put(1, 1)
			e.put(1, 2)
			e.clock.set(at(5))
			j := e.sweep(1)
			before := e.stats()
			expired := e.expire(j, 1, position(1, 1))
			e.equal("row", expired[0].Position, position(1, 1))
			b := e.blob(1, 1)
			e.equal("state", b.State, ledger.BlobExpired)
			e.equal("key", len(b.WrappedKey), 0)
			e.equal("repeat", e.repeat(1, 1) == nil, true)
			e.equal("neighbour", e.state(1, 2), ledger.BlobLive)
			after := e.stats()
			e.equal("blobs", after.Blobs, before.Blobs-1)
			e.equal("bytes", after.Bytes, before.Bytes-size(1))
			e.equal("of the execution", e.summary(1).Blobs, int64(1))
			es := e.entries()
			e.equal("entry", string(es[len(es)-1].Body), `{"expired":1}`)
			e.equal("still due", e.due(ledger.DueQuery{})[0].State, ledger.BlobExpired)
		}},
		{"a maximum ends at its microsecond", func(e *env) {
			e.maximum("reasoning", 5*second)
			e.put(1, 1)
			e.clock.set(at(5).Add(-time.Microsecond))
			j := e.sweep(1)
			e.equal("read", e.lookup(1, refOf(1)).Blobs[0].Expired(e.clock.Now()), false)
			e.expire(j, 0, position(1, 1))
			e.endSweep(j, ledger.SweepDone)
			e.clock.set(at(5))
			e.equal("read", e.lookup(1, refOf(1)).Blobs[0].Expired(e.clock.Now()), true)
			e.expire(e.sweep(2), 1, position(1, 1))
		}},
		{"the moment of a sweep decides, not that of the call", func(e *env) {
			e.maximum("reasoning", 5*second)
			e.put(1, 1)
			e.clock.set(at(4))
			j := e.sweep(1)
			e.clock.set(at(10))
			e.expire(j, 0, position(1, 1))
		}},
		{"a policy that was set since protects, and adds nothing to the plan", func(e *env) {
			e.maximum("reasoning", 5*second)
			e.put(1, 1)
			e.putClass(1, 2, "other", start)
			e.clock.set(at(6))
			j := e.sweep(1)
			e.maximum("reasoning", time.Hour)
			e.maximum("other", second)
			e.expire(j, 0, position(1, 1), position(1, 2))
			e.endSweep(j, ledger.SweepDone)
			e.expire(e.sweep(2), 1, position(1, 1), position(1, 2))
		}},
		{"a floor and a review keep what is past its maximum", func(e *env) {
			p := policyOf("reasoning", 5*second)
			p.Floor, p.LegalBasis = ledger.Period{Time: 20 * second}, "a law"
			e.setPolicy(p)
			p = policyOf("review", 5*second)
			p.OnExpiry = ledger.ExpiryReview
			e.setPolicy(p)
			e.put(1, 1)
			e.putClass(1, 2, "review", start)
			e.clock.set(at(19))
			j := e.sweep(1)
			e.expire(j, 0, position(1, 1), position(1, 2))
			e.endSweep(j, ledger.SweepDone)
			e.clock.set(at(20))
			e.expire(e.sweep(2), 1, position(1, 1), position(1, 2))
		}},
		{"an execution that has not ended has started nothing", func(e *env) {
			p := policyOf("reasoning", 5*second)
			p.Start = ledger.StartEnded
			e.setPolicy(p)
			e.put(1, 1)
			e.clock.set(at(50))
			j := e.sweep(1)
			e.expire(j, 0, position(1, 1))
			e.endSweep(j, ledger.SweepDone)
			e.end(1, at(45))
			e.expire(e.sweep(2), 1, position(1, 1))
		}},
		{"a closed execution is swept like an open one", func(e *env) {
			e.maximum("reasoning", 5*second)
			e.put(1, 1)
			e.restrict(1)
			e.clock.set(at(6))
			e.expire(e.sweep(1), 1, position(1, 1))
			e.equal("state", e.summary(1).State, ledger.ExecutionClosed)
		}},
		{"an erased execution, an erased blob and a row of another tenant stay", func(e *env) {
			e.tenant("beta", 0)
			e.maximum("reasoning", 5*second)
			e.put(1, 1)
			e.put(2, 2)
			c := capture(3, start, newBlob(3))
			c.Tenant = "beta"
			e.commit(c)
			e.fence(fenceOf(1, 1))
			e.fence(fenceOf(2, 2, refOf(2)))
			e.clock.set(at(20))
			e.expire(e.sweep(1), 0, position(1, 1), position(2, 2), position(3, 3), position(4, 4))
			e.equal("erased", e.state(2, 2), ledger.BlobErased)
		}},
		{"a batch is told once, in the order asked for", func(e *env) {
			e.maximum("reasoning", 5*second)
			for n := range 3 {
				e.put(n, n)
			}
			e.clock.set(at(6))
			j := e.sweep(1)
			got := e.expire(j, 3, position(2, 2), position(0, 0), position(2, 2), position(1, 1))
			e.equal("first", got[0].Position, position(2, 2))
			e.equal("last", got[2].Position, position(1, 1))
			before := len(e.entries())
			e.expire(j, 0, position(2, 2))
			e.equal("entries", len(e.entries()), before)
		}},
		{"a batch has bounds", func(e *env) {
			j := e.sweep(1)
			_, err := e.Expire(e.ctx, j.Lease, expiryOf())
			e.refused(err, blobd.ErrInvalid)
			_, err = e.Expire(e.ctx, j.Lease, expiryOf(make([]ledger.Position, ledger.MaxExpiry+1)...))
			e.refused(err, blobd.ErrInvalid)
			_, err = e.Bury(e.ctx, j.Lease, nil)
			e.refused(err, blobd.ErrInvalid)
		}},
		{"an entry that cannot be made undoes the batch", func(e *env) {
			e.maximum("reasoning", 5*second)
			e.put(1, 1)
			e.clock.set(at(6))
			j := e.sweep(1)
			x := expiryOf(position(1, 1))
			x.Entry = func([]ledger.DueRow) (ledger.Entry, error) { return ledger.Entry{}, blobd.ErrCorrupt }
			_, err := e.Expire(e.ctx, j.Lease, x)
			e.refused(err, blobd.ErrCorrupt)
			e.equal("state", e.state(1, 1), ledger.BlobLive)
			e.equal("late", e.sweepRow(1).LateUntil, time.Time{})
		}},
		{"a sweep knows until when an object may still be written", func(e *env) {
			e.maximum("reasoning", 5*second)
			e.put(1, 1)
			e.commit(capture(1, at(2), newBlob(2)))
			e.clock.set(at(7))
			j := e.sweep(1)
			e.expire(j, 1, position(1, 2))
			e.equal("late", e.sweepRow(1).LateUntil, at(12))
			e.expire(j, 1, position(1, 1))
			e.equal("never earlier", e.sweepRow(1).LateUntil, at(12))
		}},
		{"the same text is new again once it was swept", func(e *env) {
			e.maximum("reasoning", 5*second)
			e.put(1, 1)
			e.clock.set(at(6))
			j := e.sweep(1)
			e.expire(j, 1, position(1, 1))
			e.equal("created", e.commit(capture(1, at(6), again(1, 2))).Created, []bool{true})
			e.bury(j, 1, position(1, 1))
			e.equal("created", e.commit(capture(1, at(6), again(1, 3))).Created, []bool{false})
		}},
		{"a buried row says nothing of its content", func(e *env) {
			e.maximum("reasoning", 5*second)
			c := capture(1, start, newBlob(1))
			c.Subjects = [][32]byte{subjectOf(1)}
			e.commit(c)
			e.clock.set(at(6))
			j := e.sweep(1)
			e.bury(j, 0, position(1, 1)) // live
			e.expire(j, 1, position(1, 1))
			e.equal("subjects", len(e.subjects(1, 1)), 1)
			e.bury(j, 1, position(1, 1))
			e.equal("row", *e.blob(1, 1), ledger.Blob{Ref: refOf(1), State: ledger.BlobExpired, CreatedAt: start})
			e.equal("subjects", len(e.subjects(1, 1)), 0)
			e.equal("due", len(e.due(ledger.DueQuery{})), 0)
			e.equal("erased", e.sweepRow(1).Erased, int64(1))
			e.equal("its record", e.records(1)[0].Ref, refOf(1))
			e.bury(j, 0, position(1, 1), position(1, 2))
			e.equal("erased", e.sweepRow(1).Erased, int64(1))
		}},
		{"a swept row is erased with its execution", func(e *env) {
			e.maximum("reasoning", 5*second)
			e.put(1, 1)
			e.put(1, 2)
			e.clock.set(at(6))
			j := e.sweep(1)
			e.expire(j, 2, position(1, 1), position(1, 2))
			e.bury(j, 1, position(1, 1))
			e.fence(fenceOf(1, 1))
			e.bury(j, 0, position(1, 2))
			e.finishAll()
			e.equal("states", []ledger.BlobState{e.state(1, 1), e.state(1, 2)}, []ledger.BlobState{ledger.BlobErased, ledger.BlobErased})
			e.equal("due", len(e.due(ledger.DueQuery{})), 0)
		}},
		{"an execution that was swept gets a new key in its next epoch", func(e *env) {
			e.maximum("reasoning", 5*second)
			e.put(1, 1)
			e.put(2, 2)
			e.clock.set(at(6))
			e.expire(e.sweep(1), 1, position(1, 1))
			wraps, err := e.Wraps(e.ctx, ledger.WrapQuery{Tenant: tenant, Below: 99, Limit: 10})
			e.must(err)
			lost := map[blobd.ExecutionTag]bool{}
			for _, w := range wraps {
				lost[w.Tag] = w.LostBlob
			}
			e.equal("swept", lost[tagOf(1)], true)
			e.equal("not swept", lost[tagOf(2)], false)
		}},
	}
}
