package store_test

import (
	"testing"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/store"
)

// TestApprovals: nothing changes before the last of them; the requester is none of
// them; a denial leaves everything as it was.
func TestApprovals(t *testing.T) {
	n := memParts(t).start(t)
	if err := n.store.SetApprovals(t.Context(), tenant, 2, "admin"); err != nil {
		t.Fatal(err)
	}
	stored := n.mustPut(t, run, runText)
	e := n.mustErase(t, run)
	e = n.wantState(t, e.ID, ledger.ErasureAwaiting)
	n.wantText(t, run, stored.Ref, runText)
	n.work(t)
	approve := func(actor string) (ledger.Erasure, error) {
		return n.store.Approve(t.Context(), tenant, e.ID, actor, e.PlanDigest)
	}
	_, err := approve("token") // who asked
	wantErr(t, err, blobd.ErrDenied)
	_, err = n.store.Approve(t.Context(), tenant, e.ID, "one", [32]byte{1})
	wantErr(t, err, blobd.ErrPlanDrift)
	for range 2 { // the second by the same token is nothing
		if got, err := approve("one"); err != nil || got.State != ledger.ErasureAwaiting {
			t.Fatalf("%s, %v", got.State, err)
		}
	}
	n.mustPut(t, run, "joined") // no drift
	n.clock.advance(time.Hour)
	if got, err := approve("two"); err != nil || got.State != ledger.ErasureRunning {
		t.Fatalf("%s, %v", got.State, err)
	}
	n.wantNull(t, run, stored.Ref)
	if worked, err := n.erasures.RunOne(t.Context()); !worked || err != nil {
		t.Fatal(worked, err)
	}
	n.wantState(t, e.ID, ledger.ErasureRunning) // the margin counts from the approval
	n.work(t)
	n.wantState(t, e.ID, ledger.ErasureErased)
	n.wantObjects(t, 0)

	kept := n.mustPut(t, "another run", runText)
	e = n.mustErase(t, "another run")
	_, err = n.store.Deny(t.Context(), tenant, e.ID, "one", "BECAUSE", "no code")
	wantErr(t, err, blobd.ErrInvalid)
	if _, err := n.store.Deny(t.Context(), tenant, e.ID, "one", "ID_UNVERIFIED", "who?"); err != nil {
		t.Fatal(err)
	}
	n.wantState(t, e.ID, ledger.ErasureDenied)
	n.wantText(t, "another run", kept.Ref, runText)
	_, err = approve("two")
	wantErr(t, err, blobd.ErrConflict)
}

// TestApprovalsBeforeGrace: the grace that was asked for begins with the last approval.
func TestApprovalsBeforeGrace(t *testing.T) {
	n := memParts(t).start(t)
	if err := n.store.SetApprovals(t.Context(), tenant, 1, "admin"); err != nil {
		t.Fatal(err)
	}
	stored := n.mustPut(t, run, runText)
	e, err := n.store.Erase(t.Context(), store.EraseRequest{
		Tenant: tenant, ExecutionID: run, Actor: "token", Reason: "asked for", Grace: time.Hour,
	})
	if err != nil || e.State != ledger.ErasureAwaiting {
		t.Fatalf("%s, %v", e.State, err)
	}
	n.clock.advance(30 * time.Minute)
	e, err = n.store.Approve(t.Context(), tenant, e.ID, "one", e.PlanDigest)
	if want := n.clock.Now().Add(time.Hour); err != nil || e.State != ledger.ErasureGrace || !e.GraceUntil.Equal(want) {
		t.Fatalf("%s until %s, %v; want the grace until %s", e.State, e.GraceUntil, err, want)
	}
	n.wantNull(t, run, stored.Ref)
	if _, err := n.store.Cancel(t.Context(), tenant, e.ID, "token", ""); err != nil {
		t.Fatal(err)
	}
	n.wantText(t, run, stored.Ref, runText)
}

// TestPlanDrift: a hold or a floor more or less than was approved gives the erasure a
// new plan; what joins its scope does not.
func TestPlanDrift(t *testing.T) {
	var o ledger.Order
	var ref blobd.Ref
	for name, c := range map[string]struct {
		before, since func(t *testing.T, n *node)
		drifts        bool
	}{
		"nothing":    {since: func(*testing.T, *node) {}},
		"a new blob": {since: func(t *testing.T, n *node) { n.mustPut(t, run, "joined") }},
		"a new blob under a hold that was there": {
			before: func(t *testing.T, n *node) { n.mustHold(t, func(r *store.OrderRequest) { r.ExecutionID = run }) },
			since:  func(t *testing.T, n *node) { n.mustPut(t, run, "joined") },
		},
		"a hold": {drifts: true, since: func(t *testing.T, n *node) {
			n.mustHold(t, func(r *store.OrderRequest) { r.Subjects = []string{anna} })
		}},
		"a hold elsewhere": {since: func(t *testing.T, n *node) {
			n.mustHold(t, func(r *store.OrderRequest) { r.Subjects = []string{bert} })
		}},
		"a second hold of the same": {
			drifts: true,
			before: func(t *testing.T, n *node) { n.mustHold(t, func(r *store.OrderRequest) { r.Class = reason }) },
			since:  func(t *testing.T, n *node) { n.mustHold(t, func(r *store.OrderRequest) { r.ExecutionID = run }) },
		},
		"a release": {
			drifts: true,
			before: func(t *testing.T, n *node) { o = n.mustHold(t, func(r *store.OrderRequest) { r.WholeTenant = true }) },
			since:  func(t *testing.T, n *node) { n.release(t, o) },
		},
		"a floor": {drifts: true, since: func(t *testing.T, n *node) { n.floor(t, reason, time.Hour) }},
	} {
		for form, set := range map[string]func(*store.EraseRequest){
			"execution": func(r *store.EraseRequest) { r.ExecutionID = run },
			"refs":      func(r *store.EraseRequest) { r.ExecutionID, r.Refs = run, []blobd.Ref{ref} },
			"subjects":  func(r *store.EraseRequest) { r.Subjects = []string{anna} },
			"class":     func(r *store.EraseRequest) { r.Class = reason },
		} {
			t.Run(name+", "+form, func(t *testing.T) {
				n := memParts(t).start(t)
				if err := n.store.SetApprovals(t.Context(), tenant, 1, "admin"); err != nil {
					t.Fatal(err)
				}
				ref = n.mustPutTagged(t, run, runText, anna).Ref
				if c.before != nil {
					c.before(t, n)
				}
				n.clock.advance(time.Minute)
				e := n.mustEraseBy(t, set)
				n.clock.advance(time.Minute)
				c.since(t, n)
				_, err := n.store.Approve(t.Context(), tenant, e.ID, "one", e.PlanDigest)
				if !c.drifts {
					wantErr(t, err, nil)
					return
				}
				wantErr(t, err, blobd.ErrPlanDrift)
				again := n.wantState(t, e.ID, ledger.ErasureAwaiting)
				if again.PlanDigest == e.PlanDigest {
					t.Error("the plan is the old one")
				}
				if _, err := n.store.Approve(t.Context(), tenant, e.ID, "one", again.PlanDigest); err != nil {
					t.Errorf("the new plan: %v", err)
				}
			})
		}
	}
}
