package ledgertest

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

func sweepID(n int) string { return fmt.Sprintf("sweep-%03d", n) }

func newSweep(n int) ledger.NewSweep {
	return ledger.NewSweep{
		ID: sweepID(n), Tenant: tenant, Trigger: ledger.TriggerManual, RequestedBy: "token", Confirm: 7,
		RunAt: start, Entry: entry(ledger.EntrySweep),
	}
}

func (e *env) startSweep(n int) ledger.Sweep {
	e.Helper()
	s, err := e.StartSweep(e.ctx, newSweep(n))
	e.must(err)
	return s
}

func (e *env) claimSweep() ledger.SweepJob {
	e.Helper()
	j, err := e.ClaimSweep(e.ctx, "worker", at(20), at(30))
	e.must(err)
	return j
}

// sweep starts a sweep at the time of the clock and claims it.
func (e *env) sweep(n int) ledger.SweepJob { e.Helper(); e.startSweep(n); return e.claimSweep() }

func (e *env) moveSweep(j ledger.SweepJob, m ledger.SweepMove) {
	e.Helper()
	e.must(e.MoveSweep(e.ctx, j.Lease, m))
}

func (e *env) endSweep(j ledger.SweepJob, s ledger.SweepState) {
	e.Helper()
	e.moveSweep(j, ledger.SweepMove{To: s, At: at(40)})
}

func (e *env) sweepRow(n int) ledger.Sweep {
	e.Helper()
	s, err := e.Sweep(e.ctx, tenant, sweepID(n))
	e.must(err)
	return s
}

// expiryOf expires rows, with an entry that counts them.
func expiryOf(rows ...ledger.Position) ledger.Expiry {
	return ledger.Expiry{Rows: rows, Margin: 5 * second, Entry: func(expired []ledger.DueRow) (ledger.Entry, error) {
		x := entry(ledger.EntrySweep)
		x.Body, _ = json.Marshal(map[string]int{"expired": len(expired)})
		return x, nil
	}}
}

// expire expires rows, of which want do.
func (e *env) expire(j ledger.SweepJob, want int, rows ...ledger.Position) []ledger.DueRow {
	e.Helper()
	expired, err := e.Expire(e.ctx, j.Lease, expiryOf(rows...))
	e.must(err)
	e.equal("expired", len(expired), want)
	return expired
}

func (e *env) bury(j ledger.SweepJob, want int, rows ...ledger.Position) {
	e.Helper()
	n, err := e.Bury(e.ctx, j.Lease, rows)
	e.must(err)
	e.equal("buried", n, want)
}

func sweepSentences() []sentence {
	return []sentence{
		{"a sweep is of the ledger's moment and the newest policy", func(e *env) {
			e.maximum("reasoning", time.Hour)
			e.maximum("other", time.Hour)
			e.clock.set(at(3))
			s := e.startSweep(1)
			newest := e.classes()[0].Policies[0].Version
			e.equal("sweep", s, ledger.Sweep{
				ID: sweepID(1), Tenant: tenant, State: ledger.SweepRunning, Trigger: ledger.TriggerManual, RequestedBy: "token",
				Confirm: 7, At: at(3), Version: newest, StartedAt: at(3), RunAt: start,
			})
			e.equal("read", e.sweepRow(1), s)
		}},
		{"two sweeps of a tenant do not run at once", func(e *env) {
			e.tenant("beta", 0)
			e.startSweep(1)
			_, err := e.StartSweep(e.ctx, newSweep(2))
			e.refused(err, blobd.ErrConflict)
			other := newSweep(3)
			other.Tenant = "beta"
			_, err = e.StartSweep(e.ctx, other)
			e.must(err)
			e.endSweep(e.claimSweep(), ledger.SweepDone)
			e.startSweep(2)
		}},
		{"the same sweep again changes nothing", func(e *env) {
			first := e.startSweep(1)
			before := len(e.entries())
			e.clock.set(at(9))
			e.equal("again", e.startSweep(1), first)
			e.endSweep(e.claimSweep(), ledger.SweepDone)
			e.equal("once it is done", e.startSweep(1).State, ledger.SweepDone)
			e.equal("entries", len(e.entries()), before)
			other := newSweep(1)
			other.Tenant = "beta"
			_, err := e.StartSweep(e.ctx, other)
			e.refused(err, blobd.ErrConflict)
		}},
		{"a sweep of an unknown tenant is not found, and one without an id invalid", func(e *env) {
			n := newSweep(1)
			n.Tenant = "nobody"
			_, err := e.StartSweep(e.ctx, n)
			e.refused(err, blobd.ErrNotFound)
			n.ID = ""
			_, err = e.StartSweep(e.ctx, n)
			e.refused(err, blobd.ErrInvalid)
			_, err = e.Sweep(e.ctx, tenant, sweepID(1))
			e.refused(err, blobd.ErrNotFound)
		}},
		{"nothing is swept under a fenced tenant", func(e *env) {
			e.put(1, 1)
			e.maximum("reasoning", second)
			e.clock.set(at(15))
			j := e.sweep(1)
			e.fence(offboard(1))
			e.equal("classes", len(e.classes()), 0)
			e.equal("due", len(e.due(ledger.DueQuery{})), 0)
			e.expire(j, 0, position(1, 1))
			_, err := e.StartSweep(e.ctx, newSweep(2))
			e.refused(err, blobd.ErrTenantErased)
		}},
		{"a lease keeps others away until it ends", func(e *env) {
			e.startSweep(1)
			j := e.claimSweep()
			e.equal("term", j.Lease.Term, int64(1))
			_, err := e.ClaimSweep(e.ctx, "other", at(29), at(60))
			e.refused(err, blobd.ErrNotFound)
			again, err := e.ClaimSweep(e.ctx, "other", at(30), at(60))
			e.must(err)
			e.equal("term", again.Lease.Term, int64(2))
			e.equal("attempts", again.Sweep.Attempts, int64(2))
			e.staleSweep(j)
			e.moveSweep(again, ledger.SweepMove{To: ledger.SweepRunning, Due: at(50)})
			_, err = e.ClaimSweep(e.ctx, "worker", at(49), at(60))
			e.refused(err, blobd.ErrNotFound)
			_, err = e.ClaimSweep(e.ctx, "worker", at(50), at(60))
			e.must(err)
		}},
		{"an ended sweep is never due", func(e *env) {
			for n, s := range []ledger.SweepState{ledger.SweepDone, ledger.SweepStopped} {
				j := e.sweep(n)
				e.endSweep(j, s)
				e.equal("state", e.sweepRow(n).State, s)
				e.equal("finished", e.sweepRow(n).FinishedAt, at(40))
				e.staleSweep(j)
				_, err := e.ClaimSweep(e.ctx, "worker", at(1000), at(2000))
				e.refused(err, blobd.ErrNotFound)
			}
		}},
		{"a step keeps the plan, what failed and the lease", func(e *env) {
			j := e.sweep(1)
			plan := ledger.Tally{Scanned: 9, Erase: 4, Held: 1, Floor: 2, Review: 1, Waiting: 1, Bytes: 99}
			refused := []ledger.Refused{{Ref: refOf(1), Version: "v", Reason: "Locked", Until: at(99)}, {Reason: "Other"}}
			e.moveSweep(j, ledger.SweepMove{To: ledger.SweepRunning, Plan: &plan, Until: at(60)})
			e.moveSweep(j, ledger.SweepMove{
				To: ledger.SweepRunning, Failed: 2, Refused: refused, LastError: "unavailable", Until: at(60),
				Entries: []ledger.Entry{entry(ledger.EntrySweep)},
			})
			s := e.sweepRow(1)
			e.equal("planned", s.Planned, true)
			e.equal("plan", s.Plan, plan)
			e.equal("failed", s.Failed, int64(2))
			e.equal("refused", s.Refused, refused)
			e.equal("last error", s.LastError, "unavailable")
			es := e.entries()
			e.equal("kind", es[len(es)-1].Kind, ledger.EntrySweep)
			_, err := e.ClaimSweep(e.ctx, "other", at(59), at(90))
			e.refused(err, blobd.ErrNotFound)
		}},
		{"a plan is made once", func(e *env) {
			j := e.sweep(1)
			e.moveSweep(j, ledger.SweepMove{To: ledger.SweepRunning, Plan: new(ledger.Tally), Until: at(60)})
			err := e.MoveSweep(e.ctx, j.Lease, ledger.SweepMove{To: ledger.SweepRunning, Plan: &ledger.Tally{Erase: 1}, Until: at(60)})
			e.refused(err, blobd.ErrConflict)
			e.equal("plan", e.sweepRow(1).Plan, ledger.Tally{})
			err = e.MoveSweep(e.ctx, j.Lease, ledger.SweepMove{To: "odd"})
			e.refused(err, blobd.ErrInvalid)
		}},
		{"sweeps are listed newest first, of one tenant and state", func(e *env) {
			e.tenant("beta", 0)
			for n := range 4 {
				e.clock.set(at(n))
				e.endSweep(e.sweep(n), []ledger.SweepState{ledger.SweepDone, ledger.SweepStopped}[n%2])
			}
			list := func(q ledger.SweepQuery) (ids []string) {
				q.Tenant = tenant
				all, err := e.ListSweeps(e.ctx, q)
				e.must(err)
				for _, s := range all {
					ids = append(ids, s.ID)
				}
				return ids
			}
			e.equal("all", list(ledger.SweepQuery{Limit: 10}), []string{sweepID(3), sweepID(2), sweepID(1), sweepID(0)})
			e.equal("page", list(ledger.SweepQuery{Limit: 2, Before: ledger.SweepCursor{StartedAt: at(3), ID: sweepID(3)}}),
				[]string{sweepID(2), sweepID(1)})
			e.equal("stopped", list(ledger.SweepQuery{Limit: 10, State: ledger.SweepStopped}), []string{sweepID(3), sweepID(1)})
			_, err := e.ListSweeps(e.ctx, ledger.SweepQuery{Tenant: tenant})
			e.refused(err, blobd.ErrInvalid)
			none, err := e.ListSweeps(e.ctx, ledger.SweepQuery{Tenant: "beta", Limit: 10})
			e.must(err)
			e.equal("of another tenant", len(none), 0)
			_, err = e.Sweep(e.ctx, "beta", sweepID(1))
			e.refused(err, blobd.ErrNotFound)
		}},
	}
}

// staleSweep checks that a lease gives no right to anything any more.
func (e *env) staleSweep(j ledger.SweepJob) {
	e.Helper()
	e.refused(e.MoveSweep(e.ctx, j.Lease, ledger.SweepMove{To: ledger.SweepRunning, Until: at(90)}), blobd.ErrConflict)
	_, err := e.Expire(e.ctx, j.Lease, expiryOf(position(1, 1)))
	e.refused(err, blobd.ErrConflict)
	_, err = e.Bury(e.ctx, j.Lease, []ledger.Position{position(1, 1)})
	e.refused(err, blobd.ErrConflict)
}
