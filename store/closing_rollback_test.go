package store_test

import (
	"testing"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/store"
)

// TestARolledBackLedgerKeepsItsOrders: the ledger comes back as it was before they
// were placed; the journal knows of each, and of those that were lifted.
func TestARolledBackLedgerKeepsItsOrders(t *testing.T) {
	d := newDiskParts(t, true)
	n := d.start(t)
	held, note := n.mustPutTagged(t, run, "held", bert), n.putClass(t, "run 2", other, "a note")
	annas, free := n.mustPutTagged(t, "run 3", "anna's", anna), n.mustPut(t, "run 3", "nobody's")
	graced, cancelled := n.mustPut(t, "run 4", "in grace"), n.mustPut(t, "run 5", "cancelled")
	old := n.mustHold(t, func(r *store.OrderRequest) { r.ExecutionID = "run 3" })
	files := d.copyLedger(t)

	n = d.start(t)
	n.release(t, old)
	hold := n.mustHold(t, func(r *store.OrderRequest) { r.Subjects = []string{bert} })
	n.restrict(t, func(r *store.OrderRequest) { r.Class, r.Purposes = other, []string{"court"} })
	if _, err := n.store.Suppress(t.Context(), store.OrderRequest{Tenant: tenant, Subjects: []string{"carl"}}); err != nil {
		t.Fatal(err)
	}
	person := n.mustEraseBy(t, func(r *store.EraseRequest) { r.Subjects = []string{anna} })
	grace := n.mustEraseBy(t, func(r *store.EraseRequest) { r.ExecutionID, r.Grace = "run 4", 100*time.Hour })
	undone := n.mustEraseBy(t, func(r *store.EraseRequest) { r.ExecutionID, r.Grace = "run 5", 100*time.Hour })
	if _, err := n.store.Cancel(t.Context(), tenant, undone.ID, "dpo", "a mistake"); err != nil {
		t.Fatal(err)
	}
	partial := n.mustErase(t, run)
	n.work(t) // the person is erased, and what bert's hold covers is deferred
	n.wantState(t, person.ID, ledger.ErasureErased)
	d.restoreLedger(t, files)

	n = d.start(t)
	n.wantNull(t, "run 3", annas.Ref)
	n.wantNull(t, run, held.Ref)
	n.wantNull(t, "run 2", note.Ref)
	n.wantNull(t, "run 4", graced.Ref)
	n.wantText(t, "run 3", free.Ref, "nobody's")
	n.wantText(t, "run 5", cancelled.Ref, "cancelled")
	n.wantAudit(t, "run 2", note.Ref, "court", "ok")
	_, err := n.putTagged(t.Context(), "run 6", "anna's", anna)
	if err == nil {
		t.Error("a put with a person who was erased")
	}
	_, err = n.putTagged(t.Context(), "run 6", "carl's", "carl")
	wantErr(t, err, blobd.ErrSuppressed)
	n.work(t)
	n.wantState(t, person.ID, ledger.ErasureErased)
	n.wantState(t, partial.ID, ledger.ErasureDeferred)
	n.wantState(t, grace.ID, ledger.ErasureGrace)
	n.verify(t)
	n.release(t, hold)
	n.work(t)
	n.wantState(t, partial.ID, ledger.ErasureErased)
	n.clock.advance(100 * time.Hour)
	n.work(t)
	n.wantState(t, grace.ID, ledger.ErasureErased)
	n.wantObjects(t, 3) // the note, nobody's, and what was cancelled
	n.verify(t)
	n = d.start(t)
	n.wantText(t, "run 3", free.Ref, "nobody's")
}
