package ledgertest

import (
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// decisionOf is a decision by someone about the erasure of a number.
func decisionOf(id int, act ledger.Act, by string) ledger.Decision {
	return ledger.Decision{
		Tenant: tenant, ID: erasureID(id), Act: act, By: by, At: at(15), RunAt: at(16), PlanDigest: hash("plan", id),
		Entries: []ledger.Entry{bodied(`{"decided":1}`)},
		Fenced:  []ledger.Entry{bodied(`{"fenced":1}`)}, Closed: []ledger.Entry{bodied(`{"closed":1}`)},
	}
}

func (e *env) decide(d ledger.Decision) (ledger.Erasure, ledger.Record) {
	e.Helper()
	got, r, err := e.Decide(e.ctx, d)
	e.must(err)
	return got, r
}

// asked asks for an erasure that needs approvals.
func (e *env) asked(id, approvals int, s ledger.Scope) ledger.Erasure {
	e.Helper()
	f := eraseOf(id, s)
	f.Approvals, f.PlanDigest, f.RequestedBy = approvals, hash("plan", id), "asker"
	f.Plan = ledger.Plan{Blobs: 3, Held: 1}
	got, _ := e.fence(f)
	return got
}

// undecided checks a refusal, and that it changed nothing.
func (e *env) undecided(d ledger.Decision, want error) {
	e.Helper()
	before := e.whole()
	_, _, err := e.Decide(e.ctx, d)
	e.refused(err, want)
	e.equal("the ledger", e.whole(), before)
}

func approvalSentences() []sentence {
	return []sentence{
		{"an erasure that awaits approvals has a row, and changes nothing else", func(e *env) {
			e.scene()
			before, journal := e.picture(), e.head()
			for i, s := range []ledger.Scope{executionScope(1), refScope(1, 1), subjectScope(1), classScope("notes", at(9)), tenantScope()} {
				f := eraseOf(i, s)
				f.Approvals, f.Plan, f.PlanDigest, f.RequestedBy = 2, ledger.Plan{Blobs: 3, Held: 1}, hash("plan", i), "asker"
				f.GraceUntil = at(90)
				got, r := e.fence(f)
				want := ledger.Erasure{
					ID: f.ID, Scope: s, OfRefs: i == 1, Closing: true, State: ledger.ErasureAwaiting, Plan: ledger.Plan{Blobs: 3, Held: 1}, Planned: true,
					RequestedBy: "asker", FencedAt: at(10), PlanDigest: hash("plan", i), Approvals: 2, Wrap: got.Wrap,
					GraceUntil: at(90),
				}
				want.Scope.Refs = nil
				e.equal("erasure", got, want)
				e.equal("read", e.erasure(f.ID), want)
				e.equal("record", r, ledger.Record{})
				_, r = e.fence(f)
				e.equal("record, asked again", r, ledger.Record{})
				_, err := e.Order(e.ctx, tenant, f.ID)
				e.refused(err, blobd.ErrNotFound)
			}
			entries := len(before.Entries)
			e.equal("entries", e.bodies(entries), []string{`{"asked":1}`, `{"asked":1}`, `{"asked":1}`, `{"asked":1}`, `{"asked":1}`})
			after := e.picture()
			after.Entries = before.Entries
			before.Stats.ErasuresOpen = 5
			e.equal("the ledger", after, before)
			e.equal("head", e.head(), journal)
			e.commit(sceneCapture(1, 20, "notes", 1, at(12)))
		}},
		{"an approval is counted, and the last one fences", func(e *env) {
			e.scene()
			e.asked(1, 3, executionScope(1))
			before := len(e.entries())
			for i, by := range []string{"ann", "bob"} {
				got, r := e.decide(decisionOf(1, ledger.ActApprove, by))
				e.equal("state", []any{got.State, got.ApprovedBy}, []any{ledger.ErasureAwaiting, []string{"ann", "bob"}[:i+1]})
				e.equal("record", r, ledger.Record{})
			}
			e.intact("awaiting", 1, 2)
			got, r := e.decide(decisionOf(1, ledger.ActApprove, "cid"))
			want := ledger.Erasure{
				ID: erasureID(1), Scope: executionScope(1), State: ledger.ErasureRunning,
				Plan: ledger.Plan{Blobs: 3, Held: 1}, Planned: true, Fenced: ledger.Plan{Executions: 1, Blobs: 2, Bytes: size(1) + size(2)},
				RequestedBy: "asker", FencedAt: at(10),
				PlanDigest: hash("plan", 1), Approvals: 3, ApprovedBy: []string{"ann", "bob", "cid"}, Wrap: 1,
			}
			e.equal("erasure", got, want)
			e.equal("read", e.erasure(erasureID(1)), want)
			e.equal("record", r, ledger.Record{
				Seq: 1, Kind: ledger.RecordFence, At: at(15), Tenant: tenant, Tag: tagOf(1), ErasureID: erasureID(1), Wrap: 1, Writes: 5,
			})
			e.equal("entries", e.bodies(before), []string{`{"decided":1}`, `{"decided":1}`, `{"decided":1}`, `{"fenced":1}`})
			e.equal("erased at", e.summary(1).ErasedAt, at(15))
			e.noneDue(15)
			e.finish(e.claimAt(16))
			_, again := e.fence(eraseOf(1, executionScope(1)))
			e.equal("its first record", again, r)
		}},
		{"the refs of an erasure that has not fenced are those that its scope names, with a row or without", func(e *env) {
			e.scene()
			e.hold(1, executionScope(1))
			e.asked(1, 1, refScope(1, 2, 1, 9))
			graced := eraseOf(2, refScope(1, 2))
			graced.GraceUntil = at(90)
			e.fence(graced)
			held, _ := e.fence(eraseOf(3, refScope(1, 1)))
			e.equal("closing", held.Closing, true)
			for id, want := range map[int][]blobd.Ref{1: sortedRefs(refOf(1), refOf(2), refOf(9)), 2: {refOf(2)}, 3: {refOf(1)}} {
				refs, err := e.ErasedRefs(e.ctx, erasureID(id))
				e.must(err)
				e.equal(erasureID(id), refs, want)
			}
			e.asked(4, 1, executionScope(2))
			refs, err := e.ErasedRefs(e.ctx, erasureID(4))
			e.must(err)
			e.equal("of an execution", len(refs), 0)
		}},
		{"the last approval closes what cannot be fenced", func(e *env) {
			e.scene()
			e.hold(1, executionScope(1))
			for i, c := range []struct {
				scope  ledger.Scope
				change func(*ledger.Decision)
				state  ledger.ErasureState
				grace  time.Time
				due    int
			}{
				{classScope("notes", at(9)), func(*ledger.Decision) {}, ledger.ErasureRunning, time.Time{}, 16},
				{executionScope(2), func(d *ledger.Decision) { d.GraceUntil, d.DeferUntil = at(60), at(70) }, ledger.ErasureGrace, at(60), 60},
				{executionScope(1), func(d *ledger.Decision) { d.DeferUntil = at(70) }, ledger.ErasureDeferred, time.Time{}, 70},
				{refScope(1, 1, 2), func(*ledger.Decision) {}, ledger.ErasureRunning, time.Time{}, 16},
			} {
				e.asked(i, 1, c.scope)
				before := len(e.entries())
				d := decisionOf(i, ledger.ActApprove, "ann")
				c.change(&d)
				got, r := e.decide(d)
				e.equal("erasure", []any{got.State, got.Closing, got.GraceUntil, got.Plan}, []any{c.state, true, c.grace, ledger.Plan{Blobs: 3, Held: 1}})
				e.equal("record", []any{r.Kind, r.OrderID, r.OrderKind, r.At, r.Until},
					[]any{ledger.RecordOrder, erasureID(i), ledger.OrderClosing, at(15), c.grace})
				e.equal("entries", e.bodies(before), []string{`{"decided":1}`, `{"closed":1}`})
				o := e.order(erasureID(i))
				e.equal("closing", []any{o.PlacedAt, o.Scope.Form(), o.Scope.Refs}, []any{at(15), c.scope.Form(), sortedRefs(c.scope.Refs...)})
				e.noneDue(c.due - 1)
				e.equal("claimed", e.claimAt(c.due).Erasure.ID, erasureID(i))
			}
		}},
		{"what is closed by an approval has the key's version of when it was asked for, until it fences", func(e *env) {
			e.asked(1, 1, executionScope(1))
			c := capture(1, at(12), newBlob(1))
			c.Key.Version = 4
			e.commit(c)
			d := decisionOf(1, ledger.ActApprove, "ann")
			d.GraceUntil = at(60)
			got, _ := e.decide(d)
			e.equal("closed", []any{got.State, got.Wrap}, []any{ledger.ErasureGrace, uint32(0)})
			got, r, err := e.FenceClosed(e.ctx, e.claimAt(60).Lease, at(61), nil)
			e.must(err)
			e.equal("fenced", []uint32{got.Wrap, r.Wrap}, []uint32{4, 4})
		}},
		{"another plan than the erasure's has drifted", func(e *env) {
			e.scene()
			e.asked(1, 1, executionScope(1))
			d := decisionOf(1, ledger.ActApprove, "ann")
			d.PlanDigest = hash("plan", 2)
			e.undecided(d, blobd.ErrPlanDrift)
			d.By = "asker"
			e.undecided(d, blobd.ErrPlanDrift)
		}},
		{"who asked for it cannot approve it", func(e *env) {
			e.scene()
			e.asked(1, 2, executionScope(1))
			e.undecided(decisionOf(1, ledger.ActApprove, "asker"), blobd.ErrDenied)
		}},
		{"a second approval by the same token changes nothing, whatever became of the erasure", func(e *env) {
			e.scene()
			e.asked(1, 2, executionScope(1))
			first, _ := e.decide(decisionOf(1, ledger.ActApprove, "ann"))
			before := e.whole()
			d := decisionOf(1, ledger.ActApprove, "ann")
			d.At = at(17)
			got, r := e.decide(d)
			e.equal("erasure", got, first)
			e.equal("record", r, ledger.Record{})
			e.equal("the ledger", e.whole(), before)
			last, _ := e.decide(decisionOf(1, ledger.ActApprove, "bob"))
			got, r = e.decide(d)
			e.equal("once fenced", got, last)
			e.equal("record", r, ledger.Record{})
			e.undecided(decisionOf(1, ledger.ActApprove, "cid"), blobd.ErrConflict)
		}},
		{"an unknown erasure or another tenant's is not found", func(e *env) {
			e.tenant("beta", 0)
			e.asked(1, 1, executionScope(1))
			for _, act := range []ledger.Act{ledger.ActApprove, ledger.ActDeny, ledger.ActCancel} {
				e.undecided(decisionOf(2, act, "ann"), blobd.ErrNotFound)
				d := decisionOf(1, act, "ann")
				d.Tenant = "beta"
				e.undecided(d, blobd.ErrNotFound)
			}
			e.refused(e.Replan(e.ctx, tenant, erasureID(2), ledger.Plan{}, hash("plan", 1), entry(ledger.EntryErasure)), blobd.ErrNotFound)
			e.refused(e.Replan(e.ctx, "beta", erasureID(1), ledger.Plan{}, hash("plan", 1), entry(ledger.EntryErasure)), blobd.ErrNotFound)
		}},
		{"a decision that no engine takes is invalid", func(e *env) {
			e.asked(1, 1, executionScope(1))
			for _, act := range []ledger.Act{0, 4} {
				e.undecided(decisionOf(1, act, "ann"), blobd.ErrInvalid)
			}
			e.undecided(decisionOf(1, ledger.ActApprove, ""), blobd.ErrInvalid)
		}},
		{"an execution that turned out to be another tenant's refuses the last approval whole", func(e *env) {
			e.tenant("beta", 0)
			e.asked(1, 1, executionScope(1))
			e.beta(1, 1)
			e.undecided(decisionOf(1, ledger.ActApprove, "ann"), blobd.ErrConflict)
			e.equal("approved by", len(e.erasure(erasureID(1)).ApprovedBy), 0)
		}},
		{"a new plan forgets the approvals of the old one", func(e *env) {
			e.scene()
			e.asked(1, 2, executionScope(1))
			e.decide(decisionOf(1, ledger.ActApprove, "ann"))
			before := len(e.entries())
			e.must(e.Replan(e.ctx, tenant, erasureID(1), ledger.Plan{Blobs: 9}, hash("plan", 7), bodied(`{"replanned":1}`)))
			got := e.erasure(erasureID(1))
			e.equal("erasure", []any{got.State, got.Plan, got.PlanDigest, len(got.ApprovedBy)},
				[]any{ledger.ErasureAwaiting, ledger.Plan{Blobs: 9}, hash("plan", 7), 0})
			e.equal("entries", e.bodies(before), []string{`{"replanned":1}`})
			e.undecided(decisionOf(1, ledger.ActApprove, "ann"), blobd.ErrPlanDrift)
			for _, by := range []string{"ann", "bob"} {
				d := decisionOf(1, ledger.ActApprove, by)
				d.PlanDigest = hash("plan", 7)
				got, _ = e.decide(d)
			}
			e.equal("approved", []any{got.State, got.ApprovedBy}, []any{ledger.ErasureRunning, []string{"ann", "bob"}})
		}},
		{"only what awaits approval gets a new plan", func(e *env) {
			e.scene()
			e.hold(1, executionScope(1))
			e.states()
			for id := 1; id <= 7; id++ {
				before := e.whole()
				e.refused(e.Replan(e.ctx, tenant, erasureID(id), ledger.Plan{}, hash("plan", 1), entry(ledger.EntryErasure)), blobd.ErrConflict)
				e.equal("the ledger", e.whole(), before)
			}
		}},
		{"how many must approve is the tenant's, and touches nothing that was asked for", func(e *env) {
			e.scene()
			e.asked(1, 2, executionScope(1))
			before := len(e.entries())
			e.must(e.SetApprovals(e.ctx, tenant, 3, bodied(`{"approvals":3}`)))
			e.equal("tenant", e.readTenant(tenant).Approvals, 3)
			e.equal("another", e.readTenant("beta").Approvals, 0)
			ts, err := e.ListTenants(e.ctx, "", 1)
			e.must(err)
			e.equal("listed", ts[0].Approvals, 3)
			e.equal("asked before", e.erasure(erasureID(1)).Approvals, 2)
			e.equal("entries", e.bodies(before), []string{`{"approvals":3}`})
			e.must(e.SetApprovals(e.ctx, tenant, 0, entry(ledger.EntryTenant)))
			e.equal("tenant", e.readTenant(tenant).Approvals, 0)
			e.refused(e.SetApprovals(e.ctx, "nobody", 1, entry(ledger.EntryTenant)), blobd.ErrNotFound)
			e.fence(offboard(2))
			e.refused(e.SetApprovals(e.ctx, tenant, 1, entry(ledger.EntryTenant)), blobd.ErrTenantErased)
		}},
		{"a tenant can be made with a number of approvals", func(e *env) {
			e.must(e.CreateTenant(e.ctx, ledger.Tenant{ID: "beta", CreatedAt: start, Approvals: 2}, entry(ledger.EntryTenant)))
			e.equal("approvals", e.readTenant("beta").Approvals, 2)
		}},
	}
}
