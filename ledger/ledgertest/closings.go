package ledgertest

import (
	"slices"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// claimAt claims the job that is due first.
func (e *env) claimAt(n int) ledger.Job {
	e.Helper()
	j, err := e.Claim(e.ctx, "worker", at(n), at(n+1000))
	e.must(err)
	return j
}

func (e *env) noneDue(n int) {
	e.Helper()
	_, err := e.Claim(e.ctx, "worker", at(n), at(n+1))
	e.refused(err, blobd.ErrNotFound)
}

func closingSentences() []sentence {
	return slices.Concat(closeSentences(), claimClosedSentences(), fenceClosedSentences(), deferSentences())
}

func closeSentences() []sentence {
	return []sentence{
		{"an erasure in its grace has closed its scope, and says so", func(e *env) {
			e.scene()
			f := eraseOf(1, refScope(1, 2, 1))
			f.RequestedBy, f.Reason, f.LegalBasis, f.Regime, f.ExternalRef = "token", "reason", "basis", "gdpr", "case 7"
			f.ReceivedAt, f.DueAt, f.GraceUntil, f.DeferUntil = at(8), at(99), at(60), at(70)
			f.Plan = ledger.Plan{Executions: 1, Blobs: 2, Bytes: 3, AlreadyErased: 4, NotFound: 5, Held: 6, Floor: 7, Shared: 8}
			f.PlanDigest = hash("plan", 1)
			got, r := e.fence(f)
			want := ledger.Erasure{
				ID: f.ID, Scope: executionScope(1), OfRefs: true, Closing: true, State: ledger.ErasureGrace, Plan: f.Plan, Planned: true,
				RequestedBy: "token", Reason: "reason", LegalBasis: "basis", Regime: "gdpr", ExternalRef: "case 7",
				ReceivedAt: at(8), DueAt: at(99), FencedAt: at(10), PlanDigest: hash("plan", 1), GraceUntil: at(60), Wrap: 1,
			}
			e.equal("erasure", got, want)
			e.equal("read", e.erasure(f.ID), want)
			e.equal("record", r, ledger.Record{
				Seq: 1, Kind: ledger.RecordOrder, At: at(10), Tenant: tenant, Tag: tagOf(1), Refs: sortedRefs(refOf(1), refOf(2)),
				ErasureID: f.ID, Writes: 5, OrderID: f.ID, OrderKind: ledger.OrderClosing, Form: ledger.ScopeRefs, Until: at(60),
			})
			o := e.order(f.ID)
			e.equal("closing", o, ledger.Order{
				ID: f.ID, Kind: ledger.OrderClosing, Scope: ledger.Scope{Tenant: tenant, Tag: tagOf(1), ExecutionID: idOf(1), Refs: sortedRefs(refOf(1), refOf(2))},
				ErasureID: f.ID, PlacedAt: at(10), PlacedBy: "token",
			})
			e.intact("grace", 1, 2, 3, 4)
			e.equal("stats", e.stats().Blobs, int64(5))
		}},
		{"what cannot be fenced is closed, and runs at once", func(e *env) {
			e.scene()
			for i, c := range []struct {
				scope  ledger.Scope
				record ledger.Record
			}{
				{subjectScope(2, 1), ledger.Record{Form: ledger.ScopeSubjects, Subjects: sortedHashes(subjectOf(1), subjectOf(2))}},
				{classScope("notes", at(9)), ledger.Record{Form: ledger.ScopeClass, Class: "notes", Before: at(9)}},
				{classScope("notes", time.Time{}), ledger.Record{Form: ledger.ScopeClass, Class: "notes"}},
			} {
				f := eraseOf(i, c.scope)
				f.Plan = ledger.Plan{Blobs: 2}
				got, r := e.fence(f)
				e.equal("erasure", got, ledger.Erasure{
					ID: f.ID, Scope: c.scope, Closing: true, State: ledger.ErasureRunning, Plan: f.Plan, FencedAt: at(10),
				})
				c.record.Seq, c.record.Kind, c.record.At, c.record.Tenant, c.record.Writes = int64(i+1), ledger.RecordOrder, at(10), tenant, 5
				c.record.ErasureID, c.record.OrderID, c.record.OrderKind = f.ID, f.ID, ledger.OrderClosing
				e.equal("record", r, c.record)
				j := e.claimAt(10)
				e.equal("claimed", []any{j.Erasure.ID, j.Erasure.Scope}, []any{f.ID, c.scope})
			}
			e.intact("closed", 1, 2, 3, 4)
		}},
		{"what the caller found protected is deferred, unless there is a grace or it fences", func(e *env) {
			e.scene()
			e.hold(1, refScope(1, 1))
			f := eraseOf(1, executionScope(1))
			f.DeferUntil = at(70)
			got, _ := e.fence(f)
			e.equal("held", []any{got.State, got.Closing}, []any{ledger.ErasureDeferred, true})
			f = eraseOf(2, executionScope(1))
			f.DeferUntil, f.GraceUntil = at(70), at(60)
			got, _ = e.fence(f)
			e.equal("grace", got.State, ledger.ErasureGrace)
			f = eraseOf(3, classScope("notes", at(9)))
			f.DeferUntil = at(71)
			got, _ = e.fence(f)
			e.equal("class", got.State, ledger.ErasureDeferred)
			f = eraseOf(4, executionScope(2))
			f.DeferUntil = at(70)
			got, _ = e.fence(f)
			e.equal("not protected", []any{got.State, got.Closing}, []any{ledger.ErasureRunning, false})
		}},
		{"of an erasure that only closes, the entries for that are inserted", func(e *env) {
			e.scene()
			e.hold(1, refScope(1, 1))
			before := len(e.entries())
			grace := eraseOf(3, executionScope(2))
			grace.GraceUntil = at(60)
			for _, f := range []ledger.Fence{eraseOf(1, executionScope(1)), eraseOf(2, classScope("notes", at(9))), grace} {
				e.fence(f)
			}
			e.equal("closed", e.bodies(before), []string{`{"closed":1}`, `{"closed":1}`, `{"closed":1}`})
			e.fence(eraseOf(4, executionScope(3)))
			e.equal("fenced", e.bodies(before+3), []string{`{"fenced":1}`})
		}},
		{"the same id again returns the erasure as it stands, with its first record", func(e *env) {
			e.put(1, 1)
			f := fenceOf(1, 1)
			f.GraceUntil = at(60)
			first, record := e.fence(f)
			entries := len(e.entries())
			got, r := e.fence(fenceOf(1, 1))
			e.equal("erasure", got, first)
			e.equal("record", r, record)
			j := e.claimAt(60)
			_, _, err := e.FenceClosed(e.ctx, j.Lease, at(61), nil)
			e.must(err)
			got, r = e.fence(f)
			e.equal("once fenced", []any{got.Closing, got.State}, []any{false, ledger.ErasureRunning})
			e.equal("first record", r, record)
			e.equal("entries", len(e.entries()), entries)
		}},
		{"an id in use for another scope is a conflict, in every form", func(e *env) {
			e.put(1, 1)
			scopes := []ledger.Scope{
				executionScope(1), refScope(1, 1), subjectScope(1), subjectScope(1, 2), classScope("notes", at(9)), classScope("notes", at(8)),
				classScope("notes", time.Time{}), classScope("other", at(9)), tenantScope(),
			}
			for i, s := range scopes {
				f := eraseOf(i, s)
				f.GraceUntil = at(60)
				e.fence(f)
				for _, other := range scopes {
					_, _, err := e.Fence(e.ctx, eraseOf(i, other))
					if other.Form() == s.Form() && other.Class == s.Class && other.CapturedBefore.Equal(s.CapturedBefore) && len(other.Subjects) == len(s.Subjects) {
						e.must(err)
					} else {
						e.refused(err, blobd.ErrConflict)
					}
				}
			}
		}},
		{"in a tenant without a row nothing is closed or awaited", func(e *env) {
			for i, s := range []ledger.Scope{executionScope(1), subjectScope(1), classScope("notes", at(9)), executionScope(1)} {
				s.Tenant = "nobody"
				f := eraseOf(i, s)
				switch i {
				case 0:
					f.GraceUntil = at(60)
				case 3:
					f.Approvals = 1
				}
				_, _, err := e.Fence(e.ctx, f)
				e.refused(err, blobd.ErrNotFound)
			}
			e.equal("head", e.head(), ledger.Record{})
		}},
		{"a closing over another tenant's execution is a conflict", func(e *env) {
			e.tenant("beta", 0)
			e.beta(1, 1)
			for _, s := range []ledger.Scope{executionScope(1), refScope(1, 1)} {
				f := eraseOf(1, s)
				f.GraceUntil = at(60)
				_, _, err := e.Fence(e.ctx, f)
				e.refused(err, blobd.ErrConflict)
				f.GraceUntil, f.Approvals = time.Time{}, 1
				_, _, err = e.Fence(e.ctx, f)
				e.refused(err, blobd.ErrConflict)
			}
		}},
		{"a form that nothing fences has no plan", func(e *env) {
			for _, s := range []ledger.Scope{subjectScope(1), classScope("notes", at(9))} {
				_, err := e.Plan(e.ctx, s)
				e.refused(err, blobd.ErrInvalid)
			}
		}},
		{"an erasure that fences counts itself, and keeps the digest of the plan", func(e *env) {
			e.put(1, 1)
			f := fenceOf(1, 1)
			f.Plan, f.PlanDigest = ledger.Plan{Blobs: 99, Held: 98}, hash("plan", 1)
			got, _ := e.fence(f)
			e.equal("plan", got.Plan, ledger.Plan{Executions: 1, Blobs: 1, Bytes: size(1)})
			e.equal("digest", got.PlanDigest, hash("plan", 1))
		}},
	}
}

func claimClosedSentences() []sentence {
	return []sentence{
		{"an erasure runs once its grace is over", func(e *env) {
			e.put(1, 1)
			e.put(2, 2)
			f := fenceOf(1, 1)
			f.GraceUntil, f.RunAt = at(60), at(5)
			e.fence(f)
			e.noneDue(59)
			j := e.claimAt(60)
			e.equal("job", []any{j.Erasure.State, j.Erasure.Closing, j.Erasure.Attempts, j.Erasure.GraceUntil},
				[]any{ledger.ErasureRunning, true, int64(1), at(60)})
			e.equal("read", e.erasure(f.ID).State, ledger.ErasureRunning)
			e.equal("it stays closed", e.summary(1).State, ledger.ExecutionClosed)
			e.noneDue(61)
		}},
		{"an erasure that was deferred runs once it is due", func(e *env) {
			e.scene()
			e.hold(1, executionScope(1))
			f := eraseOf(1, executionScope(1))
			f.RunAt, f.DeferUntil = at(5), at(60)
			e.fence(f)
			e.noneDue(59)
			e.equal("state", e.claimAt(60).Erasure.State, ledger.ErasureRunning)
		}},
		{"what awaits approval, was denied or cancelled is never due", func(e *env) {
			e.scene()
			for i, act := range []ledger.Act{0, ledger.ActDeny, ledger.ActCancel} {
				f := eraseOf(i, classScope("notes", at(9)))
				f.Approvals = 1
				if act != 0 {
					f.Approvals, f.GraceUntil = 0, at(12)
				}
				e.fence(f)
				if act != 0 {
					e.decide(decisionOf(i, act, "someone"))
				}
			}
			e.noneDue(5000)
		}},
		{"of what runs, is in grace and was deferred, what is due first is claimed first", func(e *env) {
			e.scene()
			e.hold(1, executionScope(1))
			grace, deferred, runs := eraseOf(1, executionScope(2)), eraseOf(2, executionScope(1)), eraseOf(3, classScope("notes", at(9)))
			grace.GraceUntil, deferred.DeferUntil, runs.RunAt = at(30), at(20), at(25)
			for _, f := range []ledger.Fence{grace, deferred, runs} {
				e.fence(f)
			}
			for _, want := range []int{2, 3, 1} {
				e.equal("claimed", e.claimAt(40).Erasure.ID, erasureID(want))
			}
		}},
	}
}
