package ledgertest

import (
	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// reopen closes the ledger and opens what it left behind.
func (e *env) reopen() {
	e.Helper()
	e.Ledger = e.h.Reopen(e.T, e.Ledger, e.clock.Now)
}

func durableSentences() []sentence {
	return []sentence{
		sequenceDurable(),
		webhooksDurable(),
		callbacksDurable(),
		clockNoteDurable(),
		{"everything outlives the process", func(e *env) {
			j := e.prepare()
			before := e.whole()
			e.reopen()
			e.equal("the ledger", e.whole(), before)
			// The lease need not: an engine may know that its owner ended.
			again, err := e.Claim(e.ctx, "another", j.Lease.Until, j.Lease.Until.Add(second))
			e.must(err)
			if again.Erasure.ID != j.Erasure.ID || again.Lease.Term <= j.Lease.Term {
				e.Fatalf("claimed %s in term %d after %d", again.Erasure.ID, again.Lease.Term, j.Lease.Term)
			}
		}},
		{"policies, recovery and the identity outlive the process", func(e *env) {
			_, err := e.Identity(e.ctx, deployment)
			e.must(err)
			e.must(e.ConfirmIdentity(e.ctx))
			e.must(e.SetRecovery(e.ctx, ledger.RecoveryReplay, entry(ledger.EntryRecovery)))
			e.maximum("reasoning", second)
			e.put(1, 1)
			e.reopen()
			i, err := e.Identity(e.ctx, other)
			e.must(err)
			e.equal("identity", i, ledger.Identity{ID: deployment, Confirmed: true, Recovery: ledger.RecoveryReplay})
			v := e.lookup(1, refOf(1))
			e.equal("recovery", v.Recovery, ledger.RecoveryReplay)
			e.equal("expires", v.Blobs[0].ExpiresAt, at(1))
		}},
		{"numbers go on where they were", func(e *env) {
			e.put(1, 1)
			e.fence(fenceOf(1, 1, refOf(1)))
			seq, entries := e.records(1)[0].Seq, e.entries()
			e.reopen()
			e.put(1, 2)
			_, r := e.fence(fenceOf(2, 1))
			e.equal("record", r.Seq, int64(2))
			e.equal("writes", r.Writes, int64(2))
			if later := e.records(1)[1].Seq; later <= seq {
				e.Fatalf("attempt records %d, %d", seq, later)
			}
			if last := e.entries(); last[len(last)-1].ID <= entries[len(entries)-1].ID {
				e.Fatal("evidence ids went back")
			}
		}},
		{"the fence of a tenant outlives the process, and how far its job is", func(e *env) {
			e.put(1, 1)
			e.put(2, 2)
			e.fence(offboard(1))
			l := e.claim().Lease
			if _, more, err := e.DropKeys(e.ctx, l, 1); err != nil || !more {
				e.Fatal(more, err)
			}
			e.reopen()
			e.equal("fenced at", e.readTenant(tenant).FencedAt, at(10))
			for x := 1; x <= 2; x++ {
				e.equal("execution", e.lookup(x, refOf(1)).Execution.State, ledger.ExecutionErased)
			}
			e.refusedCommit(capture(3, at(30), newBlob(3)), blobd.ErrTenantErased)
			j, err := e.Claim(e.ctx, "worker", at(40), at(50))
			e.must(err)
			p, _ := e.dropKeys(j.Lease, 9)
			e.equal("plan", p, ledger.Plan{Executions: 2, Blobs: 2, Bytes: size(1) + size(2)})
		}},
		{"a fence outlives the process", func(e *env) {
			e.put(1, 1)
			e.fence(fenceOf(1, 1))
			e.reopen()
			if x := e.summary(1); x.State != ledger.ExecutionErased || x.Key != nil {
				e.Fatalf("execution %+v", x)
			}
			e.finish(e.claim())
			e.reopen()
			e.equal("state", e.erasure(erasureID(1)).State, ledger.ErasureErased)
		}},
	}
}
