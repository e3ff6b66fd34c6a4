package store_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/evidence"
	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/store"
)

// wantDelta checks what an erasure took beyond its plan: by its row, and by its last
// entry.
func (n *node) wantDelta(t testing.TB, id string, want ledger.Extent) {
	t.Helper()
	e := n.erasure(t, id)
	if got, known := e.Delta(); !known || got != want {
		t.Errorf("delta %+v (known: %v), want %+v; plan %+v, dropped %+v, fenced %+v, left %+v",
			got, known, want, e.Plan, e.Drops, e.Fenced, e.Progress.Left)
	}
	if told := n.toldDelta(t, id); told == nil || *told != (evidence.Delta{Executions: want.Executions, Blobs: want.Blobs, Bytes: want.Bytes}) {
		t.Errorf("the last entry tells the delta %+v, want %+v", told, want)
	}
}

func (n *node) wantNoDelta(t testing.TB, id string) {
	t.Helper()
	e := n.erasure(t, id)
	if got, known := e.Delta(); known {
		t.Errorf("delta %+v of an erasure that is %s", got, e.State)
	}
	if told := n.toldDelta(t, id); told != nil {
		t.Errorf("the last entry tells the delta %+v", told)
	}
}

// toldDelta is what the newest entry of an erasure tells.
func (n *node) toldDelta(t testing.TB, id string) (d *evidence.Delta) {
	t.Helper()
	all, err := n.parts.ledger.Entries(t.Context(), 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range all {
		var step evidence.ErasureStep
		if entry.Kind == ledger.EntryErasure && json.Unmarshal(entry.Body, &step) == nil && step.Erasure == id {
			d = step.Delta
		}
	}
	return d
}

// deltaScopes are the forms of a scope that covers what anna said in run. joins is what
// two more texts of hers, one in another execution, add to each.
func deltaScopes(ref blobd.Ref) map[string]struct {
	set   func(*store.EraseRequest)
	joins ledger.Extent
} {
	first, both := int64(len("joined first")), int64(len("joined first")+len("and second"))
	return map[string]struct {
		set   func(*store.EraseRequest)
		joins ledger.Extent
	}{
		"execution": {func(r *store.EraseRequest) { r.ExecutionID = run }, ledger.Extent{Blobs: 1, Bytes: first}},
		"refs":      {func(r *store.EraseRequest) { r.ExecutionID, r.Refs = run, []blobd.Ref{ref} }, ledger.Extent{}},
		"subjects":  {func(r *store.EraseRequest) { r.Subjects = []string{anna} }, ledger.Extent{Executions: 1, Blobs: 2, Bytes: both}},
		"class":     {func(r *store.EraseRequest) { r.Class = reason }, ledger.Extent{Executions: 1, Blobs: 2, Bytes: both}},
		"tenant":    {func(r *store.EraseRequest) { r.WholeTenant = true }, ledger.Extent{Executions: 1, Blobs: 2, Bytes: both}},
	}
}

// TestWhatJoinsAnApprovedScopeIsItsDelta: it is taken in, told to the byte, and the plan
// stays the one that was approved.
func TestWhatJoinsAnApprovedScopeIsItsDelta(t *testing.T) {
	for form := range deltaScopes(blobd.Ref{}) {
		for _, grace := range []time.Duration{0, time.Hour} {
			t.Run(form+", grace "+grace.String(), func(t *testing.T) {
				n := memParts(t).start(t)
				if err := n.store.SetApprovals(t.Context(), tenant, 1, "admin"); err != nil {
					t.Fatal(err)
				}
				c := deltaScopes(n.mustPutTagged(t, run, runText, anna).Ref)[form]
				n.clock.advance(time.Minute)
				e := n.mustEraseBy(t, func(r *store.EraseRequest) {
					c.set(r)
					r.Grace = grace
				})
				n.mustPutTagged(t, run, "joined first", anna)
				n.mustPutTagged(t, "run 2", "and second", anna)
				if _, err := n.store.Approve(t.Context(), tenant, e.ID, "one", e.PlanDigest); err != nil {
					t.Fatal(err)
				}
				if grace > 0 {
					n.wantNoDelta(t, e.ID)
				}
				n.clock.advance(grace)
				n.work(t)
				got := n.wantState(t, e.ID, ledger.ErasureErased)
				if got.Plan != e.Plan || got.PlanDigest != e.PlanDigest {
					t.Errorf("the plan is %+v, and %+v was approved", got.Plan, e.Plan)
				}
				if want := e.Plan.Blobs + c.joins.Blobs; got.Progress.KeysDestroyed != want {
					t.Errorf("%d keys destroyed, want %d", got.Progress.KeysDestroyed, want)
				}
				n.wantDelta(t, e.ID, c.joins)
			})
		}
	}
}

// TestAnApprovedPlanStaysAsTheRestIsFenced: an erasure drops what nothing holds, and
// fences the rest after the release. What it took is counted once.
func TestAnApprovedPlanStaysAsTheRestIsFenced(t *testing.T) {
	for form := range deltaScopes(blobd.Ref{}) {
		t.Run(form, func(t *testing.T) {
			n := memParts(t).start(t)
			if err := n.store.SetApprovals(t.Context(), tenant, 1, "admin"); err != nil {
				t.Fatal(err)
			}
			held, free := n.mustPutTagged(t, run, "held", anna), n.mustPutTagged(t, run, "free", anna)
			hold := n.mustHold(t, func(r *store.OrderRequest) { r.ExecutionID, r.Refs = run, []blobd.Ref{held.Ref} })
			c := deltaScopes(held.Ref)[form]
			n.clock.advance(time.Minute)
			e := n.mustEraseBy(t, func(r *store.EraseRequest) {
				if c.set(r); form == "refs" {
					r.Refs = append(r.Refs, free.Ref)
				}
			})
			n.mustPutTagged(t, run, "joined first", anna)
			n.mustPutTagged(t, "run 2", "and second", anna)
			if _, err := n.store.Approve(t.Context(), tenant, e.ID, "one", e.PlanDigest); err != nil {
				t.Fatal(err)
			}
			n.work(t)
			got := n.wantState(t, e.ID, ledger.ErasurePartial)
			if got.Plan != e.Plan || got.Plan.Blobs != 2 || got.Plan.Held != 1 || got.Progress.KeysDestroyed != 1+c.joins.Blobs {
				t.Errorf("partly erased: plan %+v, %d keys destroyed", got.Plan, got.Progress.KeysDestroyed)
			}
			n.wantDelta(t, e.ID, c.joins)
			n.clock.advance(25 * time.Hour) // it is tried again, and counts nothing twice
			n.work(t)
			n.wantDelta(t, e.ID, c.joins)
			n.release(t, hold)
			n.work(t)
			got = n.wantState(t, e.ID, ledger.ErasureErased)
			if got.Plan != e.Plan || got.PlanDigest != e.PlanDigest || got.Progress.KeysDestroyed != 2+c.joins.Blobs {
				t.Errorf("erased: plan %+v (approved: %+v), %d keys destroyed", got.Plan, e.Plan, got.Progress.KeysDestroyed)
			}
			n.wantDelta(t, e.ID, c.joins)
			n.wantObjects(t, map[string]int{"execution": 1, "refs": 2}[form]) // what is not in scope
		})
	}
}

// TestWhatLeavesAScopeIsItsDeltaToo: a sweep or another erasure got it first.
func TestWhatLeavesAScopeIsItsDeltaToo(t *testing.T) {
	n := memParts(t).start(t)
	ref := n.mustPutTagged(t, run, "goes first", anna).Ref
	n.mustPutTagged(t, "run 2", "stays", anna)
	e := n.mustEraseBy(t, func(r *store.EraseRequest) { r.Subjects, r.Grace = []string{anna}, time.Hour })
	if _, err := n.store.Erase(t.Context(), store.EraseRequest{Tenant: tenant, ExecutionID: run, Refs: []blobd.Ref{ref}, Actor: "token", Reason: "sooner"}); err != nil {
		t.Fatal(err)
	}
	n.work(t)
	n.clock.advance(time.Hour)
	n.work(t)
	n.wantState(t, e.ID, ledger.ErasureErased)
	n.wantDelta(t, e.ID, ledger.Extent{Executions: -1, Blobs: -1, Bytes: -int64(len("goes first"))})
}

// TestWhatIsFencedAtOnceHasNoDelta: its plan is what the ledger found as it fenced.
func TestWhatIsFencedAtOnceHasNoDelta(t *testing.T) {
	n := memParts(t).start(t)
	n.mustPut(t, run, runText)
	e := n.mustErase(t, run)
	n.work(t)
	got := n.wantState(t, e.ID, ledger.ErasureErased)
	if want := (ledger.Plan{Executions: 1, Blobs: 1, Bytes: int64(len(runText))}); got.Plan != want || got.Fenced != want {
		t.Errorf("plan %+v, fenced %+v", got.Plan, got.Fenced)
	}
	n.wantNoDelta(t, e.ID)
}

// TestAPlanCountsAsTheFenceDoes: a text that was put again after its maximum is live
// once, and what it superseded is in neither figure.
func TestAPlanCountsAsTheFenceDoes(t *testing.T) {
	for form, set := range map[string]func(*store.EraseRequest){
		"execution": func(r *store.EraseRequest) { r.ExecutionID = run },
		"tenant":    func(r *store.EraseRequest) { r.WholeTenant = true },
	} {
		t.Run(form, func(t *testing.T) {
			n := memParts(t).start(t)
			if err := n.store.SetApprovals(t.Context(), tenant, 1, "admin"); err != nil {
				t.Fatal(err)
			}
			n.setClassMaximum(t, reason, time.Hour)
			first := n.mustPut(t, run, runText).Ref
			n.clock.advance(2 * time.Hour)
			if n.mustPut(t, run, runText).Ref == first {
				t.Fatal("the text was not put again")
			}
			e := n.mustEraseBy(t, set)
			if want := (ledger.Plan{Executions: 1, Blobs: 1, Bytes: int64(len(runText))}); e.Plan != want {
				t.Errorf("plan %+v, want %+v", e.Plan, want)
			}
			if _, err := n.store.Approve(t.Context(), tenant, e.ID, "one", e.PlanDigest); err != nil {
				t.Fatal(err)
			}
			n.work(t)
			n.wantState(t, e.ID, ledger.ErasureErased)
			n.wantDelta(t, e.ID, ledger.Extent{})
		})
	}
}

// TestADenialTellsTheDelta of what was erased before it; of what was not yet looked
// through nothing is known.
func TestADenialTellsTheDelta(t *testing.T) {
	n := memParts(t).start(t)
	held := n.mustPutTagged(t, run, "held", anna)
	n.mustPutTagged(t, run, "free", anna)
	n.mustHold(t, func(r *store.OrderRequest) { r.ExecutionID, r.Refs = run, []blobd.Ref{held.Ref} })
	e := n.mustEraseBy(t, func(r *store.EraseRequest) { r.Subjects = []string{anna} })
	n.work(t)
	graced := n.mustEraseBy(t, func(r *store.EraseRequest) { r.ExecutionID, r.Grace = run, time.Hour })
	for _, id := range []string{e.ID, graced.ID} {
		if _, err := n.store.Deny(t.Context(), tenant, id, "one", "LEGAL_HOLD", "keep it"); err != nil {
			t.Fatal(err)
		}
	}
	n.wantDelta(t, e.ID, ledger.Extent{})
	n.wantNoDelta(t, graced.ID)
}

// TestARolledBackErasureTellsWhatIsKnown: the journal brings the erasure back. Where the ledger still
// has its plan it stays; where it is lost, what was found again is the plan.
func TestARolledBackErasureTellsWhatIsKnown(t *testing.T) {
	d := newDiskParts(t, true)
	n := d.start(t)
	if err := n.store.SetApprovals(t.Context(), tenant, 1, "admin"); err != nil {
		t.Fatal(err)
	}
	n.mustPut(t, run, runText)
	n.mustPut(t, "run 2", runText)
	asked := n.mustErase(t, run)
	n.mustPut(t, run, "joined")
	files := d.copyLedger(t)

	n = d.start(t)
	lost := n.mustErase(t, "run 2")
	for _, e := range []ledger.Erasure{asked, lost} {
		if _, err := n.store.Approve(t.Context(), tenant, e.ID, "one", e.PlanDigest); err != nil {
			t.Fatal(err)
		}
	}
	n.work(t)
	n.wantDelta(t, asked.ID, ledger.Extent{Blobs: 1, Bytes: int64(len("joined"))})
	n.wantDelta(t, lost.ID, ledger.Extent{})
	d.restoreLedger(t, files)

	n = d.start(t)
	n.work(t)
	if got := n.wantState(t, asked.ID, ledger.ErasureErased); got.Plan != asked.Plan {
		t.Errorf("plan %+v, and %+v was approved", got.Plan, asked.Plan)
	}
	n.wantDelta(t, asked.ID, ledger.Extent{Blobs: 1, Bytes: int64(len("joined"))})
	got := n.wantState(t, lost.ID, ledger.ErasureErased)
	if got.Planned || got.Plan != (ledger.Plan{Executions: 1, Blobs: 1, Bytes: int64(len(runText))}) {
		t.Errorf("replayed: %+v", got)
	}
	n.wantNoDelta(t, lost.ID)
}
