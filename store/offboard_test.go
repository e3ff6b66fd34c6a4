package store_test

import (
	"testing"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/store"
)

func TestATenantIsOffboarded(t *testing.T) {
	p, refs := leaverParts(t)
	n := p.start(t)
	kept := n.mustPut(t, run, runText)
	for execution, ref := range refs { // what is in memory must not outlive the fence
		if text, null, err := n.resolveFor(t.Context(), leaver, execution, ref); err != nil || null || text != "second" {
			t.Fatalf("before: %q, %v, %v", text, null, err)
		}
	}
	preview, err := n.store.PreviewErasure(t.Context(), store.EraseRequest{Tenant: leaver, WholeTenant: true})
	if want := (ledger.Plan{Executions: 3, Blobs: 6, Bytes: 33}); err != nil || preview.Plan != want {
		t.Errorf("plan %+v, %v, want %+v", preview.Plan, err, want)
	}

	e := n.mustOffboard(t)
	n.wantOffboarded(t, refs)
	n.wantText(t, run, kept.Ref, runText)
	if p.kekDestroyed(t, leaver) || len(n.objectsOf(t, e)) != 6 {
		t.Error("the first half did the second's work")
	}

	if worked, err := n.erasures.RunOne(t.Context()); !worked || err != nil {
		t.Fatalf("the first pass: worked %v, %v", worked, err)
	}
	if !p.kekDestroyed(t, leaver) || p.kekDestroyed(t, tenant) {
		t.Error("of the two KEKs not exactly the leaver's is destroyed")
	}
	if left := n.objectsOf(t, e); len(left) != 0 {
		t.Errorf("%d objects are left after the first pass", len(left))
	}
	n.wantText(t, run, kept.Ref, runText)
	n.mustPut(t, run, "during")
	n.wantOffboarded(t, refs)

	es := n.finishOffboarding(t)
	got := es[0]
	if got.ID != e.ID || got.Plan != preview.Plan || got.Progress.KeysDestroyed != 6 || got.Progress.ObjectsDeleted != 6 || got.Progress.KEKDestroyedAt.IsZero() {
		t.Errorf("the erasure ended as %+v", got)
	}
	h, err := n.store.Horizon(t.Context(), got)
	if want := (store.Horizon{At: got.Progress.KEKDestroyedAt, Reached: true}); err != nil || h != want {
		t.Errorf("horizon %+v, %v, want %+v", h, err, want)
	}
	for name, n := range map[string]*node{"the same process": n, "a new one": p.start(t)} {
		t.Run(name, func(t *testing.T) {
			n.wantOffboarded(t, refs)
			n.wantText(t, run, kept.Ref, runText)
			n.verify(t)
		})
	}
}

// TestASecondOffboardingFollowsTheFirst: it says erased no earlier, and counts
// nothing twice.
func TestASecondOffboardingFollowsTheFirst(t *testing.T) {
	p, _ := leaverParts(t)
	n := p.start(t)
	n.mustOffboard(t)
	n.clock.advance(time.Second)
	second := n.mustOffboard(t)
	inside, err := n.store.Erase(t.Context(), store.EraseRequest{Tenant: leaver, ExecutionID: "leaver's 0", Reason: "asked"})
	if err != nil {
		t.Fatal(err)
	}
	all := (ledger.Plan{Executions: 3, Blobs: 6, Bytes: 33})
	for _, e := range n.finishOffboarding(t) {
		want := all
		if e.ID == second.ID || e.ID == inside.ID {
			want = ledger.Plan{AlreadyErased: 1}
		}
		if e.Plan != want {
			t.Errorf("plan %+v, want %+v", e.Plan, want)
		}
	}
}

// TestAnotherNodeLearnsOfAnOffboarding: a node that has the tenant's row in
// memory answers as the ledger has it.
func TestAnotherNodeLearnsOfAnOffboarding(t *testing.T) {
	p, refs := leaverParts(t)
	a, b := p.start(t), p.start(t)
	for execution, ref := range refs {
		if _, null, err := b.resolveFor(t.Context(), leaver, execution, ref); err != nil || null {
			t.Fatal(null, err)
		}
	}
	a.mustOffboard(t)
	for execution, ref := range refs {
		b.wantNullFor(t, leaver, execution, ref)
		_, err := b.putFor(t.Context(), leaver, execution, "a text")
		wantErr(t, err, blobd.ErrErased)
	}
	_, err := b.putFor(t.Context(), leaver, "new before the KEK goes", "a text")
	wantErr(t, err, blobd.ErrErased)
	a.finishOffboarding(t)
	_, err = b.putFor(t.Context(), leaver, "new after the KEK went", "a text")
	wantErr(t, err, blobd.ErrErased)
	if left := len(b.sealedObjects(t, "")); left != 0 {
		t.Errorf("%d objects are left of refused puts", left)
	}
}

// TestAPutOnANodeThatHasNotHeard: with the row of a living tenant in memory and
// the KEK destroyed, a put is refused as erased, with a subject too, and not told
// as a missing key.
func TestAPutOnANodeThatHasNotHeard(t *testing.T) {
	for name, subjects := range map[string][]string{"without a subject": nil, "with a subject": {"someone"}} {
		t.Run(name, func(t *testing.T) {
			p, _ := leaverParts(t)
			a, b := p.start(t), p.start(t)
			if _, err := b.store.Tenant(t.Context(), leaver); err != nil {
				t.Fatal(err)
			}
			a.mustOffboard(t)
			a.finishOffboarding(t)
			_, err := b.putFor(t.Context(), leaver, "new", "a text", subjects...)
			wantErr(t, err, blobd.ErrErased)
		})
	}
}

// TestTheJournalKnowsBeforeTheKEKGoes: what cannot be taken back waits for what a
// rolled-back ledger is replayed from.
func TestTheJournalKnowsBeforeTheKEKGoes(t *testing.T) {
	p, refs := leaverParts(t)
	n := p.start(t)
	n.fail(call{"second place", "put", 1}, false, errDown) // of the fence's record
	if _, err := n.offboard(t.Context()); err == nil {
		t.Fatal("acknowledged without the journal")
	}
	n.fail(call{"second place", "put", 1}, false, errDown) // of the job's
	if worked, err := n.erasures.RunOne(t.Context()); !worked || err != nil {
		t.Fatal(worked, err)
	}
	if p.kekDestroyed(t, leaver) {
		t.Fatal("the KEK went before the journal knew")
	}
	n.finishOffboarding(t)
	n.wantOffboarded(t, refs)
}

// TestAKeyServiceThatIsDownKeepsNoKeyInTheLedger: the ledger's keys are dropped
// first; nothing counts as destroyed, and no object goes, before the KEK did.
func TestAKeyServiceThatIsDownKeepsNoKeyInTheLedger(t *testing.T) {
	p, refs := leaverParts(t)
	n := p.start(t)
	e := n.mustOffboard(t)
	n.fail(call{"keys", "destroy", 1}, false, errDown)
	if worked, err := n.erasures.RunOne(t.Context()); !worked || err != nil {
		t.Fatal(worked, err)
	}
	got, err := p.ledger.Erasure(t.Context(), leaver, e.ID)
	if err != nil {
		t.Fatal(err)
	}
	if want := (ledger.Plan{Executions: 3, Blobs: 6, Bytes: 33}); got.Plan != want || got.Progress.KeysDestroyed != 0 || got.Progress.LastError != "unavailable" {
		t.Errorf("the erasure is %+v", got)
	}
	if left := n.objectsOf(t, e); len(left) != 6 {
		t.Errorf("%d objects, want all 6", len(left))
	}
	if got := n.finishOffboarding(t)[0]; got.Progress.KeysDestroyed != 6 {
		t.Errorf("the erasure ended as %+v", got)
	}
	n.wantOffboarded(t, refs)
}

// TestALatePutOfAnOffboardedTenant: one that was under way when the KEK went
// still has the margin from then on, and what it left is deleted.
func TestALatePutOfAnOffboardedTenant(t *testing.T) {
	p, _ := leaverParts(t)
	n := p.start(t)
	e := n.mustOffboard(t)
	n.clock.advance(time.Hour) // the key service was down
	if worked, err := n.erasures.RunOne(t.Context()); !worked || err != nil {
		t.Fatal(worked, err)
	}
	late := backends.BlobName(e.Scope.Tag.String(), n.tag(t, run), blobd.RefOf([]byte("late")))
	if err := p.objects.Put(t.Context(), late, []byte("late")); err != nil {
		t.Fatal(err)
	}
	if worked, err := n.erasures.RunOne(t.Context()); worked || err != nil {
		t.Fatalf("due before the margin is over: %v, %v", worked, err)
	}
	n.finishOffboarding(t)
	if left := n.objectsOf(t, e); len(left) != 0 {
		t.Errorf("%d objects are left", len(left))
	}
}

// TestAStartWithoutAKEKNeedsTheLedgersWord: a KEK that is gone is an error of the
// start unless the ledger says that the tenant was off-boarded.
func TestAStartWithoutAKEKNeedsTheLedgersWord(t *testing.T) {
	p, refs := leaverParts(t)
	q, _ := leaverParts(t)
	n := p.start(t)
	n.mustOffboard(t)
	for what, destroyed := range map[string]*parts{"off-boarded": p, "not off-boarded": q} {
		if err := destroyed.keys.Destroy(t.Context(), leaver); err != nil {
			t.Fatal(err)
		}
		err := destroyed.boot().store.Start(t.Context())
		if (err == nil) != (what == "off-boarded") {
			t.Errorf("%s: start: %v", what, err)
		}
	}
	n = p.start(t)
	n.finishOffboarding(t)
	n.wantOffboarded(t, refs)
}

// TestTheLastTenantMayLeave: nothing is left but its fence, and the deployment
// goes on.
func TestTheLastTenantMayLeave(t *testing.T) {
	p := bareParts()
	n := p.start(t)
	refs := n.makeLeaver(t)
	n.mustOffboard(t)
	n.finishOffboarding(t)
	n = p.start(t)
	n.wantOffboarded(t, refs)
	if r := n.verify(t); r.Live != 0 || r.Objects != 0 {
		t.Errorf("left over: %+v", r)
	}
	n.createTenant(t, "next")
	n.mustPutFor(t, "next", run, runText)
}

// TestEpochsOfAnOffboardedTenantEnd, without a call of the key service.
func TestEpochsOfAnOffboardedTenantEnd(t *testing.T) {
	p, _ := leaverParts(t)
	n := p.start(t)
	e, err := n.store.StartEpoch(t.Context(), leaver, "", "")
	if err != nil {
		t.Fatal(err)
	}
	n.mustOffboard(t)
	asked := 0
	n.keys.OnCall(func(string) { asked++ })
	if _, err := p.ledger.ClaimEpoch(t.Context(), "node", n.clock.Now(), n.clock.Now().Add(time.Minute)); err == nil {
		t.Error("the epoch is still due")
	}
	es, err := p.ledger.ListEpochs(t.Context(), ledger.EpochQuery{Tenant: leaver, Limit: 9})
	if err != nil || len(es) != 1 || es[0].ID != e.ID || es[0].State != ledger.EpochEnded {
		t.Errorf("epochs %+v, %v", es, err)
	}
	k, err := n.store.KeyStatus(t.Context(), leaver)
	if err != nil || k.FencedAt.IsZero() || !k.DestroyedAt.IsZero() {
		t.Errorf("key status %+v, %v", k, err)
	}
	if asked != 0 {
		t.Errorf("%d calls of the key service", asked)
	}
	n.finishOffboarding(t)
	if k, err = n.store.KeyStatus(t.Context(), leaver); err != nil || k.DestroyedAt.IsZero() || k.Closed != 1 {
		t.Errorf("key status in the end %+v, %v", k, err)
	}
}
