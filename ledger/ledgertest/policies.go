package ledgertest

import (
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// policyOf is a policy for all blobs of a class, old and new.
func policyOf(class string, maximum time.Duration) ledger.Policy {
	return ledger.Policy{
		Tenant: tenant, Class: class, At: start, Existing: true, Rule: ledger.Rule{Maximum: ledger.Period{Time: maximum}},
	}
}

func (e *env) setPolicy(p ledger.Policy) {
	e.Helper()
	e.must(e.SetPolicy(e.ctx, p, entry(ledger.EntryPolicy)))
}

// expires is when the n-th blob of the x-th execution ends, as a lookup tells.
func (e *env) expires(x, n int) time.Time { e.Helper(); return e.blob(x, n).ExpiresAt }

func (e *env) end(x int, when time.Time) ledger.Execution {
	e.Helper()
	ended, err := e.EndExecution(e.ctx, tenant, tagOf(x), when, entry(ledger.EntryEnd))
	e.must(err)
	return ended
}

func (e *env) classes() []ledger.Class {
	e.Helper()
	cs, err := e.Classes(e.ctx, tenant, "", 100)
	e.must(err)
	return cs
}

// putClass puts the n-th blob with a class into the x-th execution.
func (e *env) putClass(x, n int, class string, when time.Time) {
	e.Helper()
	b := newBlob(n)
	b.Class = class
	e.commit(capture(x, when, b))
}

func policySentences() []sentence {
	year := start.AddDate(1, 0, 0)
	return []sentence{
		{"a policy decides expiry when a row is read, and rewrites none", func(e *env) {
			e.put(1, 1)
			e.maximum("reasoning", time.Hour)
			e.equal("expires", e.expires(1, 1), start.Add(time.Hour))
			e.maximum("reasoning", 2*time.Second)
			e.equal("expires", e.expires(1, 1), at(2))
			e.equal("start time", e.blob(1, 1).CreatedAt, start)
		}},
		{"a class without a policy has a maximum of a year", func(e *env) {
			e.put(1, 1)
			e.equal("expires", e.expires(1, 1), year)
			e.equal("next due", e.summary(1).NextDue, year)
		}},
		{"a policy is one tenant's and one class's", func(e *env) {
			e.tenant("beta", 0)
			p := policyOf("reasoning", time.Hour)
			p.Tenant = "beta"
			e.setPolicy(p)
			e.maximum("other", time.Hour)
			e.put(1, 1)
			e.equal("expires", e.expires(1, 1), year)
		}},
		{"a removed policy leaves the default", func(e *env) {
			e.put(1, 1)
			e.maximum("reasoning", time.Hour)
			e.setPolicy(ledger.Policy{Tenant: tenant, Class: "reasoning", At: at(1), Existing: true, Removed: true})
			e.equal("expires", e.expires(1, 1), year)
		}},
		{"without existing, what was captured before keeps the version of its capture", func(e *env) {
			e.maximum("reasoning", time.Hour)
			e.put(1, 1)
			p := policyOf("reasoning", time.Minute)
			p.At, p.Existing = at(10), false
			e.setPolicy(p)
			e.commit(capture(1, at(10).Add(-time.Microsecond), newBlob(2)))
			e.commit(capture(1, at(10), newBlob(3)))
			e.equal("before", e.expires(1, 1), start.Add(time.Hour))
			e.equal("a microsecond before", e.expires(1, 2), at(10).Add(time.Hour-time.Microsecond))
			e.equal("at the change", e.expires(1, 3), at(10).Add(time.Minute))
			e.equal("next due", e.summary(1).NextDue, at(10).Add(time.Minute))
			e.equal("in a record", e.records(1)[0].Blob.ExpiresAt, start.Add(time.Hour))
			e.maximum("reasoning", time.Second)
			e.equal("before, with existing", e.expires(1, 1), at(1))
			e.equal("after, with existing", e.expires(1, 3), at(11))
		}},
		{"without existing, what was captured under no policy keeps the default", func(e *env) {
			e.put(1, 1)
			p := policyOf("reasoning", time.Minute)
			p.At, p.Existing = at(10), false
			e.setPolicy(p)
			e.equal("expires", e.expires(1, 1), year)
		}},
		{"a period that starts with the end of an execution has not begun before it", func(e *env) {
			p := policyOf("reasoning", time.Minute)
			p.Start = ledger.StartEnded
			e.setPolicy(p)
			e.put(1, 1)
			e.equal("expires", e.expires(1, 1), time.Time{})
			e.equal("next due", e.summary(1).NextDue, time.Time{})
			e.equal("ended", e.end(1, at(5)).EndedAt, at(5))
			e.equal("expires", e.expires(1, 1), at(65))
			e.equal("next due", e.summary(1).NextDue, at(65))
			e.commit(capture(1, at(7), newBlob(2)))
			e.equal("captured after the end", e.expires(1, 2), at(67))
		}},
		{"a commit answers with the end, also of an ended execution", func(e *env) {
			p := policyOf("reasoning", time.Minute)
			p.Start = ledger.StartEnded
			e.setPolicy(p)
			e.put(1, 1)
			e.end(1, at(5))
			e.equal("new", e.commit(capture(1, at(7), newBlob(2))).Blobs[0].ExpiresAt, at(67))
			e.equal("repeat", e.commit(capture(1, at(7), again(1, 9))).Blobs[0].ExpiresAt, at(65))
		}},
		{"an execution ends once", func(e *env) {
			e.put(1, 1)
			e.end(1, at(5))
			before := len(e.entries())
			e.equal("ended", e.end(1, at(6)).EndedAt, at(5))
			e.equal("entries", len(e.entries()), before)
			e.equal("read", e.summary(1).EndedAt, at(5))
		}},
		{"the evidence of an end is inserted with it", func(e *env) {
			e.put(1, 1)
			e.end(1, at(5))
			es := e.entries()
			e.equal("kind", es[len(es)-1].Kind, ledger.EntryEnd)
		}},
		{"what was never seen, is another's or is erased does not end", func(e *env) {
			e.tenant("beta", 0)
			e.put(1, 1)
			_, err := e.EndExecution(e.ctx, tenant, tagOf(2), at(5), entry(ledger.EntryEnd))
			e.refused(err, blobd.ErrNotFound)
			_, err = e.EndExecution(e.ctx, "beta", tagOf(1), at(5), entry(ledger.EntryEnd))
			e.refused(err, blobd.ErrNotFound)
			e.fence(fenceOf(1, 1))
			_, err = e.EndExecution(e.ctx, tenant, tagOf(1), at(5), entry(ledger.EntryEnd))
			e.refused(err, blobd.ErrErased)
		}},
		{"a policy of an unknown tenant is not found", func(e *env) {
			p := policyOf("reasoning", time.Hour)
			p.Tenant = "nobody"
			e.refused(e.SetPolicy(e.ctx, p, entry(ledger.EntryPolicy)), blobd.ErrNotFound)
		}},
		{"a policy that no engine takes is invalid", func(e *env) {
			for _, change := range []func(*ledger.Policy){
				func(p *ledger.Policy) { p.Maximum = ledger.Period{} },
				func(p *ledger.Policy) { p.Maximum.Days = -1 },
				func(p *ledger.Policy) { p.Class = "" },
				func(p *ledger.Policy) { p.Floor.Days = 1 },
				func(p *ledger.Policy) { p.LegalBasis = "a law" },
				func(p *ledger.Policy) { p.Start = 2 },
				func(p *ledger.Policy) { p.OnExpiry = 2 },
			} {
				p := policyOf("reasoning", time.Hour)
				change(&p)
				e.refused(e.SetPolicy(e.ctx, p, entry(ledger.EntryPolicy)), blobd.ErrInvalid)
			}
			e.equal("classes", len(e.classes()), 0)
		}},
		{"the evidence of a policy is inserted with it", func(e *env) {
			e.maximum("reasoning", time.Hour)
			es := e.entries()
			e.equal("kind", es[len(es)-1].Kind, ledger.EntryPolicy)
		}},
		{"classes are those with a policy and those that were put", func(e *env) {
			e.tenant("beta", 0)
			e.maximum("unused", time.Hour)
			e.putClass(1, 1, "b", start)
			e.putClass(2, 2, "a", start)
			e.putClass(2, 3, "a", start)
			var names []string
			for _, c := range e.classes() {
				names = append(names, c.Name)
			}
			e.equal("names", names, []string{"a", "b", "unused"})
			page, err := e.Classes(e.ctx, tenant, "a", 1)
			e.must(err)
			e.equal("a page", page, []ledger.Class{{Name: "b"}})
			none, err := e.Classes(e.ctx, "beta", "", 10)
			e.must(err)
			e.equal("of another tenant", len(none), 0)
			_, err = e.Classes(e.ctx, tenant, "", 0)
			e.refused(err, blobd.ErrInvalid)
		}},
		{"a class stays when all of its blobs are gone", func(e *env) {
			e.put(1, 1)
			e.fence(fenceOf(1, 1))
			e.finishAll()
			e.equal("classes", e.classes(), []ledger.Class{{Name: "reasoning"}})
		}},
		{"versions come newest first, as they were set", func(e *env) {
			first := policyOf("reasoning", time.Hour)
			first.By = "someone"
			second := ledger.Policy{
				Tenant: tenant, Class: "reasoning", At: at(3), By: "another",
				Rule: ledger.Rule{
					Start: ledger.StartEnded, Maximum: ledger.Period{Months: 6, Days: 2}, OnExpiry: ledger.ExpiryReview,
					Floor: ledger.Period{Days: 30}, LegalBasis: "a law, § 3", Slack: ledger.Period{Time: time.Hour},
				},
			}
			e.setPolicy(first)
			e.setPolicy(second)
			got := e.classes()[0].Policies
			if len(got) != 2 || got[0].Version <= got[1].Version {
				e.Fatalf("versions: %v", got)
			}
			got[0].Version, got[1].Version = 0, 0
			e.equal("versions", got, []ledger.Policy{second, first})
		}},
	}
}

// due lists what is retention's of a class.
func (e *env) due(q ledger.DueQuery) []ledger.DueRow {
	e.Helper()
	q.Tenant = tenant
	if q.Class == "" {
		q.Class = "reasoning"
	}
	if q.Limit == 0 {
		q.Limit = 100
	}
	rows, err := e.Due(e.ctx, q)
	e.must(err)
	return rows
}

func (e *env) dueRefs(q ledger.DueQuery) (refs []blobd.Ref) {
	e.Helper()
	for _, r := range e.due(q) {
		refs = append(refs, r.Ref)
	}
	return refs
}

func dueSentences() []sentence {
	return []sentence{
		{"rows come by the time of their capture, with what decides about them", func(e *env) {
			e.commit(capture(1, at(3), newBlob(3)))
			e.commit(capture(2, at(1), newBlob(1)))
			e.commit(capture(1, at(2), newBlob(2)))
			e.end(1, at(9))
			e.equal("order", e.dueRefs(ledger.DueQuery{}), []blobd.Ref{refOf(1), refOf(2), refOf(3)})
			r := e.due(ledger.DueQuery{})[2]
			r.N = 0
			e.equal("row", r, ledger.DueRow{
				Position: position(1, 3), ExecutionID: idOf(1), Class: "reasoning", State: ledger.BlobLive, CreatedAt: at(3), EndedAt: at(9), Size: size(3),
			})
		}},
		{"a span has its start and not its end", func(e *env) {
			for n := range 5 {
				e.commit(capture(1, at(n), newBlob(n)))
			}
			e.equal("span", e.dueRefs(ledger.DueQuery{From: at(1), To: at(3)}), refsOf(1, 3))
			e.equal("to", e.dueRefs(ledger.DueQuery{To: at(1)}), refsOf(0, 1))
			e.equal("from", e.dueRefs(ledger.DueQuery{From: at(4)}), refsOf(4, 5))
			e.equal("a microsecond", len(e.dueRefs(ledger.DueQuery{From: at(1).Add(1000), To: at(2)})), 0)
		}},
		{"pages follow one another without a gap", func(e *env) {
			for n := range 7 {
				e.commit(capture(n%2, at(n/3), newBlob(n))) // three captures at each time
			}
			seen := map[blobd.Ref]bool{}
			q := ledger.DueQuery{Limit: 2}
			for {
				page := e.due(q)
				for _, r := range page {
					seen[r.Ref] = true
					q.After = r.Cursor()
				}
				if len(page) < 2 {
					break
				}
			}
			e.equal("seen", len(seen), 7)
		}},
		{"what is expired and not buried is found in every class", func(e *env) {
			e.maximum("reasoning", 5*second)
			e.maximum("other", 5*second)
			for n := range 4 {
				e.putClass(n, n, []string{"reasoning", "other"}[n%2], start)
			}
			e.clock.set(at(6))
			j := e.sweep(1)
			e.expire(j, 3, position(0, 0), position(1, 1), position(3, 3))
			e.bury(j, 1, position(1, 1))
			e.maximum("reasoning", time.Hour)
			found := e.due(ledger.DueQuery{Expired: true, Limit: 1})
			e.equal("first", found[0].Position, position(0, 0))
			found = e.due(ledger.DueQuery{Expired: true, After: found[0].Cursor()})
			e.equal("rest", len(found), 1)
			e.equal("second", found[0].Position, position(3, 3))
		}},
		{"rows are one tenant's and one class's", func(e *env) {
			e.tenant("beta", 0)
			e.put(1, 1)
			e.putClass(1, 2, "other", start)
			e.equal("reasoning", e.dueRefs(ledger.DueQuery{}), refsOf(1, 2))
			e.equal("other", e.dueRefs(ledger.DueQuery{Class: "other"}), refsOf(2, 3))
			e.equal("none", len(e.dueRefs(ledger.DueQuery{Class: "nothing"})), 0)
			rows, err := e.Due(e.ctx, ledger.DueQuery{Tenant: "beta", Class: "reasoning", Limit: 10})
			e.must(err)
			e.equal("of another tenant", len(rows), 0)
		}},
		{"what was superseded or lost is still retention's; what was erased, missing or collected is not", func(e *env) {
			e.maximum("reasoning", 5*second)
			e.put(1, 1)
			e.commit(capture(1, at(5), again(1, 2))) // supersedes
			e.put(1, 3)
			e.must(e.AcceptLoss(e.ctx, tagOf(1), refOf(3), start, entry(ledger.EntryRecovery)))
			e.put(1, 4)
			e.fence(fenceOf(1, 1, refOf(4)))
			_, err := e.EnterMissing(e.ctx, []ledger.Position{position(1, 5)}, start)
			e.must(err)
			e.must(e.Collect(e.ctx, position(1, 6), start))
			states := map[ledger.BlobState]int{}
			for _, r := range e.due(ledger.DueQuery{}) {
				states[r.State]++
			}
			e.equal("states", states, map[ledger.BlobState]int{
				ledger.BlobLive: 1, ledger.BlobSuperseded: 1, ledger.BlobLost: 1,
			})
			e.finishAll()
			e.equal("after the erasure", len(e.due(ledger.DueQuery{})), 3)
		}},
		{"what an erased execution held is not retention's", func(e *env) {
			e.put(1, 1)
			e.put(2, 2)
			e.fence(fenceOf(1, 1))
			e.equal("at once", e.dueRefs(ledger.DueQuery{}), refsOf(2, 3))
			e.finishAll()
			e.equal("once erased", e.dueRefs(ledger.DueQuery{}), refsOf(2, 3))
		}},
		{"what is stored is counted up to a bound", func(e *env) {
			for n := range 4 {
				e.putClass(n, n, []string{"a", "b"}[n%2], start)
			}
			e.fence(fenceOf(1, 3))
			for atMost, want := range map[int64]int64{1: 1, 3: 3, 100: 3} {
				n, err := e.CountStored(e.ctx, tenant, atMost)
				e.must(err)
				e.equal("stored", n, want)
			}
			_, err := e.CountStored(e.ctx, tenant, 0)
			e.refused(err, blobd.ErrInvalid)
		}},
		{"a listing without a limit is invalid", func(e *env) {
			_, err := e.Due(e.ctx, ledger.DueQuery{Tenant: tenant, Class: "reasoning"})
			e.refused(err, blobd.ErrInvalid)
		}},
	}
}

// finishAll runs the second half of every erasure.
func (e *env) finishAll() {
	e.Helper()
	for {
		j, err := e.Claim(e.ctx, "worker", at(100), at(200))
		if err != nil {
			e.refused(err, blobd.ErrNotFound)
			return
		}
		left, err := e.Tombstone(e.ctx, j.Lease, 1000)
		e.must(err)
		e.equal("left", left, 0)
		e.must(e.Finish(e.ctx, j.Lease, ledger.Progress{}, at(100), []ledger.Entry{entry(ledger.EntryErasure)}))
	}
}
