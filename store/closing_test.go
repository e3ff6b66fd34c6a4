package store_test

import (
	"testing"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/resolver"
	"github.com/blobd/blobd/store"
)

// TestErasingAPerson takes what is tagged with the person in every execution, leaves
// the rest, and refuses the person from then on.
func TestErasingAPerson(t *testing.T) {
	n := memParts(t).start(t)
	one, two := n.mustPutTagged(t, "run 1", "anna's", anna), n.mustPutTagged(t, "run 2", "anna's too", anna, bert)
	berts, untagged := n.mustPutTagged(t, "run 1", "bert's", bert), n.mustPut(t, "run 1", "nobody's")
	e := n.mustEraseBy(t, func(r *store.EraseRequest) { r.Subjects = []string{anna, "anna by another name"} })
	if e.State != ledger.ErasureRunning || e.Plan.Executions != 2 || e.Plan.Blobs != 2 || e.Plan.Shared != 1 {
		t.Errorf("the erasure is %s, plan %+v", e.State, e.Plan)
	}
	n.wantNull(t, "run 1", one.Ref)
	n.wantNull(t, "run 2", two.Ref)
	n.wantText(t, "run 1", berts.Ref, "bert's")
	_, err := n.putTagged(t.Context(), "run 3", "anna's again", anna)
	wantErr(t, err, blobd.ErrClosed)
	n.work(t)
	e = n.wantState(t, e.ID, ledger.ErasureErased)
	if e.Progress.KeysDestroyed != 2 || e.Dropped != 2 || !e.Progress.Settled {
		t.Errorf("progress %+v, dropped %d", e.Progress, e.Dropped)
	}
	n.wantObjects(t, 2)
	n.wantText(t, "run 1", berts.Ref, "bert's")
	n.wantText(t, "run 1", untagged.Ref, "nobody's")
	n.wantAudit(t, "run 1", one.Ref, "a check", resolver.StatusErased)
	_, err = n.putTagged(t.Context(), "run 3", "anna's again", anna)
	wantErr(t, err, blobd.ErrSuppressed)
	_, err = n.putText(t.Context(), "run 1", "anna's")
	wantErr(t, err, blobd.ErrBlobErased)
	n.verify(t)
}

// TestErasingAClassUpToADate leaves what was captured later and what is of another
// class.
func TestErasingAClassUpToADate(t *testing.T) {
	n := memParts(t).start(t)
	old, note := n.mustPut(t, run, "old"), n.putClass(t, run, other, "a note")
	n.clock.advance(time.Hour)
	cut := n.clock.Now()
	young := n.mustPut(t, run, "young")
	e := n.mustEraseBy(t, func(r *store.EraseRequest) { r.Class, r.CapturedBefore = reason, cut })
	n.wantNull(t, run, old.Ref)
	n.wantText(t, run, young.Ref, "young")
	n.work(t)
	n.wantState(t, e.ID, ledger.ErasureErased)
	n.wantObjects(t, 2)
	n.wantText(t, run, note.Ref, "a note")
	n.wantText(t, run, n.mustPut(t, run, "another").Ref, "another")
	n.verify(t)
}

// TestAHoldDefersAndItsReleaseCompletes, whatever form the scope of either has.
func TestAHoldDefersAndItsReleaseCompletes(t *testing.T) {
	type scene struct {
		*node
		kept, gone store.Stored
	}
	holds := map[string]func(s *scene) func(*store.OrderRequest){
		"execution": func(*scene) func(*store.OrderRequest) { return func(r *store.OrderRequest) { r.ExecutionID = "held" } },
		"refs": func(s *scene) func(*store.OrderRequest) {
			return func(r *store.OrderRequest) { r.ExecutionID, r.Refs = "held", []blobd.Ref{s.kept.Ref} }
		},
		"subjects": func(*scene) func(*store.OrderRequest) {
			return func(r *store.OrderRequest) { r.Subjects = []string{bert} }
		},
		"class":  func(*scene) func(*store.OrderRequest) { return func(r *store.OrderRequest) { r.Class = other } },
		"tenant": func(*scene) func(*store.OrderRequest) { return func(r *store.OrderRequest) { r.WholeTenant = true } },
	}
	erasures := map[string]func(s *scene) func(*store.EraseRequest){
		"execution": func(*scene) func(*store.EraseRequest) { return func(r *store.EraseRequest) { r.ExecutionID = "held" } },
		"refs": func(s *scene) func(*store.EraseRequest) {
			return func(r *store.EraseRequest) { r.ExecutionID, r.Refs = "held", []blobd.Ref{s.kept.Ref, s.gone.Ref} }
		},
		"subjects": func(*scene) func(*store.EraseRequest) {
			return func(r *store.EraseRequest) { r.Subjects = []string{anna, bert} }
		},
		"class":  func(*scene) func(*store.EraseRequest) { return func(r *store.EraseRequest) { r.Class = other } },
		"tenant": func(*scene) func(*store.EraseRequest) { return func(r *store.EraseRequest) { r.WholeTenant = true } },
	}
	for heldBy, hold := range holds {
		for erasedBy, erase := range erasures {
			t.Run(heldBy+" held, "+erasedBy+" erased", func(t *testing.T) {
				s := &scene{node: memParts(t).start(t)}
				put := func(text string, subjects ...string) store.Stored {
					stored, err := s.store.Put(t.Context(), store.PutRequest{Attempt: attempt("held"), Subjects: subjects, Content: store.Content{
						Class: other, Kind: blobd.KindText, ContentType: plain, Text: blobd.TextOf([]byte(text)),
					}})
					if err != nil {
						t.Fatal(err)
					}
					return stored
				}
				s.kept, s.gone = put("kept", anna, bert), put("gone", anna)
				o := s.mustHold(t, hold(s))
				_, err := s.store.Erase(t.Context(), eraseRequest(func(r *store.EraseRequest) { erase(s)(r); r.Strict = true }))
				wantErr(t, err, blobd.ErrHeld)
				s.wantText(t, "held", s.kept.Ref, "kept")
				e := s.mustEraseBy(t, erase(s))
				s.wantNull(t, "held", s.kept.Ref)
				s.wantNull(t, "held", s.gone.Ref)
				s.work(t)
				wide := heldBy == "execution" || heldBy == "class" || heldBy == "tenant"
				want, left := ledger.ErasurePartial, 1
				if wide {
					want, left = ledger.ErasureDeferred, 2
				}
				deferred := s.wantState(t, e.ID, want)
				if deferred.Progress.Held != int64(left) || len(deferred.Progress.Kept) != left || deferred.Progress.Remaining != int64(left) {
					t.Errorf("progress %+v, want %d held", deferred.Progress, left)
				}
				s.wantObjects(t, left)
				s.wantAudit(t, "held", s.kept.Ref, "a check", resolver.StatusRestricted)
				s.verify(t)
				s.release(t, o)
				s.work(t)
				e = s.wantState(t, e.ID, ledger.ErasureErased)
				if e.Progress.KeysDestroyed != 2 || e.Progress.Held != 0 || e.Progress.Kept != nil {
					t.Errorf("progress %+v", e.Progress)
				}
				s.wantObjects(t, 0)
				s.wantNull(t, "held", s.kept.Ref)
				s.verify(t)
			})
		}
	}
}

// TestAHoldCoversWhatComesLater: a blob that joins its scope is held.
func TestAHoldCoversWhatComesLater(t *testing.T) {
	n := memParts(t).start(t)
	o := n.mustHold(t, func(r *store.OrderRequest) { r.Subjects = []string{anna} })
	late := n.mustPutTagged(t, run, "anna's", anna)
	free := n.mustPut(t, run, "nobody's")
	e := n.mustErase(t, run)
	n.work(t)
	n.wantState(t, e.ID, ledger.ErasurePartial)
	n.wantObjects(t, 1)
	n.release(t, o)
	n.work(t)
	n.wantState(t, e.ID, ledger.ErasureErased)
	n.wantNull(t, run, late.Ref)
	n.wantNull(t, run, free.Ref)
	n.wantObjects(t, 0)
}

// TestALegalFloorDefers until it ends, by the clock alone; so does one of which
// nobody knows yet when it ends.
func TestALegalFloorDefers(t *testing.T) {
	n := memParts(t).start(t)
	n.floor(t, other, 2*time.Hour)
	n.putClass(t, run, other, "kept")
	n.mustPut(t, run, "gone")
	e := n.mustErase(t, run)
	n.work(t)
	e = n.wantState(t, e.ID, ledger.ErasurePartial)
	if e.Progress.Floor != 1 || len(e.Progress.Kept) != 1 || !e.Progress.Kept[0].Until.Equal(newClock().Now().Add(2*time.Hour)) {
		t.Errorf("progress %+v", e.Progress)
	}
	n.wantObjects(t, 1)
	n.clock.advance(2 * time.Hour)
	n.work(t)
	n.wantState(t, e.ID, ledger.ErasureErased)
	n.wantObjects(t, 0)
}

// TestGrace: closed at once and open again when it is cancelled; gone once it is
// over, and then nothing can be cancelled.
func TestGrace(t *testing.T) {
	n := memParts(t).start(t)
	stored := n.mustPut(t, run, runText)
	inGrace := func() ledger.Erasure {
		return n.mustEraseBy(t, func(r *store.EraseRequest) { r.ExecutionID, r.Grace = run, time.Hour })
	}
	e := inGrace()
	n.wantState(t, e.ID, ledger.ErasureGrace)
	n.wantNull(t, run, stored.Ref)
	n.wantNull(t, run, blobd.RefOf([]byte("never stored")))
	_, err := n.putText(t.Context(), run, "another")
	wantErr(t, err, blobd.ErrClosed)
	n.work(t)
	n.wantState(t, e.ID, ledger.ErasureGrace)
	if _, err := n.store.Cancel(t.Context(), tenant, e.ID, "dpo", "a mistake"); err != nil {
		t.Fatal(err)
	}
	n.wantState(t, e.ID, ledger.ErasureCancelled)
	n.wantText(t, run, stored.Ref, runText)
	n.wantText(t, run, n.mustPut(t, run, "another").Ref, "another")

	e = inGrace()
	n.clock.advance(time.Hour)
	n.work(t)
	n.wantState(t, e.ID, ledger.ErasureErased)
	n.wantNull(t, run, stored.Ref)
	n.wantObjects(t, 0)
	_, err = n.store.Cancel(t.Context(), tenant, e.ID, "dpo", "too late")
	wantErr(t, err, blobd.ErrConflict)
	n.verify(t)
}

// TestErasuresInAnOffboardedTenant of any form but a person, whose hash nobody can make
// any more, are accepted, find everything erased and end.
func TestErasuresInAnOffboardedTenant(t *testing.T) {
	n := memParts(t).start(t)
	stored := n.mustPutTagged(t, run, runText, anna)
	if err := n.store.SetApprovals(t.Context(), tenant, 1, "admin"); err != nil {
		t.Fatal(err)
	}
	gone := n.mustEraseBy(t, func(r *store.EraseRequest) { r.WholeTenant = true })
	if _, err := n.store.Approve(t.Context(), tenant, gone.ID, "one", gone.PlanDigest); err != nil {
		t.Fatal(err)
	}
	for _, set := range []func(*store.EraseRequest){
		func(r *store.EraseRequest) { r.ExecutionID = run },
		func(r *store.EraseRequest) { r.ExecutionID, r.Refs, r.Grace = run, []blobd.Ref{stored.Ref}, time.Hour },
		func(r *store.EraseRequest) { r.Class = reason },
		func(r *store.EraseRequest) { r.WholeTenant = true },
	} {
		n.mustEraseBy(t, set)
	}
	_, err := n.store.Erase(t.Context(), eraseRequest(func(r *store.EraseRequest) { r.Subjects = []string{anna} }))
	wantErr(t, err, blobd.ErrTenantErased)
	_, err = n.hold(t.Context(), func(r *store.OrderRequest) { r.ExecutionID = run })
	wantErr(t, err, blobd.ErrTenantErased)
	n.work(t)
	n.runJobs(t)
	n.wantNull(t, run, stored.Ref)
	n.wantObjects(t, 0)
	n.verify(t)
}
