package store_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/evidence"
	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/resolver"
	"github.com/blobd/blobd/store"
)

func (n *node) restrict(t testing.TB, set func(*store.OrderRequest)) ledger.Order {
	t.Helper()
	r := store.OrderRequest{Tenant: tenant, Actor: "dpo", Reason: "asked"}
	set(&r)
	o, err := n.store.Restrict(t.Context(), r)
	if err != nil {
		t.Fatalf("restrict: %v", err)
	}
	return o
}

// TestARestrictionShowsWhatItCoversForItsPurposes only, and every one that covers a
// row must have the purpose. It changes nothing for a runtime, and a closing never
// lets a reader through.
func TestARestrictionShowsWhatItCoversForItsPurposes(t *testing.T) {
	n := memParts(t).start(t)
	annas, free := n.mustPutTagged(t, run, "anna's", anna), n.mustPutTagged(t, run, "bert's", bert)
	o := n.restrict(t, func(r *store.OrderRequest) { r.Subjects, r.Purposes = []string{anna}, []string{"court", "audit"} })
	n.wantNull(t, run, annas.Ref)
	n.wantText(t, run, free.Ref, "bert's")
	n.wantAudit(t, run, annas.Ref, "curiosity", resolver.StatusRestricted)
	n.wantAudit(t, run, annas.Ref, "court", resolver.StatusOK)
	n.wantAudit(t, run, free.Ref, "curiosity", resolver.StatusOK)
	elsewhere := n.restrict(t, func(r *store.OrderRequest) { r.Subjects = []string{bert} })
	n.wantAudit(t, run, annas.Ref, "court", resolver.StatusOK)
	n.wantAudit(t, run, free.Ref, "court", resolver.StatusRestricted)
	second := n.restrict(t, func(r *store.OrderRequest) { r.ExecutionID, r.Purposes = run, []string{"court"} })
	n.wantAudit(t, run, annas.Ref, "audit", resolver.StatusRestricted)
	n.wantAudit(t, run, annas.Ref, "court", resolver.StatusOK)
	n.wantAudit(t, run, free.Ref, "court", resolver.StatusRestricted)
	e := n.mustEraseBy(t, func(r *store.EraseRequest) { r.Subjects, r.Grace = []string{anna}, time.Hour })
	n.wantAudit(t, run, annas.Ref, "court", resolver.StatusRestricted)
	if _, err := n.store.Cancel(t.Context(), tenant, e.ID, "dpo", ""); err != nil {
		t.Fatal(err)
	}
	for _, o := range []ledger.Order{second, elsewhere} {
		n.release(t, o)
	}
	n.wantAudit(t, run, free.Ref, "curiosity", resolver.StatusOK)
	n.wantNull(t, run, annas.Ref)
	n.release(t, o)
	n.wantText(t, run, annas.Ref, "anna's")
}

// TestARestrictionKeepsNothing from a sweep or an erasure.
func TestARestrictionKeepsNothing(t *testing.T) {
	n := memParts(t).start(t)
	n.mustPut(t, run, runText)
	n.restrict(t, func(r *store.OrderRequest) { r.ExecutionID = run })
	e := n.mustErase(t, run)
	n.work(t)
	n.wantState(t, e.ID, ledger.ErasureErased)
	n.wantObjects(t, 0)
}

// TestAnOrderIsTheSameOnEveryNode at once, whatever each has in memory.
func TestAnOrderIsTheSameOnEveryNode(t *testing.T) {
	p := memParts(t)
	warm, cold := p.start(t), p.start(t)
	stored := warm.mustPutTagged(t, run, runText, anna)
	warm.wantText(t, run, stored.Ref, runText)
	e := p.start(t).mustEraseBy(t, func(r *store.EraseRequest) { r.Subjects, r.Grace = []string{anna}, time.Hour })
	for _, n := range []*node{warm, cold} {
		n.wantNull(t, run, stored.Ref)
		_, err := n.putTagged(t.Context(), run, "another", anna)
		wantErr(t, err, blobd.ErrClosed)
	}
	if _, err := cold.store.Cancel(t.Context(), tenant, e.ID, "dpo", ""); err != nil {
		t.Fatal(err)
	}
	for _, n := range []*node{warm, cold} {
		n.wantText(t, run, stored.Ref, runText)
	}
}

// TestSuppressionsExpire by the clock, and are lifted.
func TestSuppressionsExpire(t *testing.T) {
	n := memParts(t).start(t)
	suppress := func(until time.Time) ledger.Order {
		o, err := n.store.Suppress(t.Context(), store.OrderRequest{Tenant: tenant, Subjects: []string{anna}, ExpiresAt: until})
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	suppress(n.clock.Now().Add(time.Hour))
	_, err := n.putTagged(t.Context(), run, "a text", anna)
	wantErr(t, err, blobd.ErrSuppressed)
	n.mustPutTagged(t, run, "a text", bert)
	n.clock.advance(time.Hour)
	n.mustPutTagged(t, run, "a text", anna)
	o := suppress(time.Time{})
	_, err = n.putTagged(t.Context(), run, "another", anna)
	wantErr(t, err, blobd.ErrSuppressed)
	n.release(t, o)
	n.mustPutTagged(t, run, "another", anna)
	_, err = n.store.Suppress(t.Context(), store.OrderRequest{Tenant: tenant, ExecutionID: run})
	wantErr(t, err, blobd.ErrInvalid)
}

// TestScopesHaveOneForm.
func TestScopesHaveOneForm(t *testing.T) {
	n := memParts(t).start(t)
	ref := []blobd.Ref{blobd.RefOf([]byte("x"))}
	for name, set := range map[string]func(*store.EraseRequest){
		"none":                    func(*store.EraseRequest) {},
		"refs alone":              func(r *store.EraseRequest) { r.Refs = ref },
		"an execution and people": func(r *store.EraseRequest) { r.ExecutionID, r.Subjects = run, []string{anna} },
		"a class and a tenant":    func(r *store.EraseRequest) { r.Class, r.WholeTenant = reason, true },
		"a date alone":            func(r *store.EraseRequest) { r.CapturedBefore = n.clock.Now() },
		"no class":                func(r *store.EraseRequest) { r.Class = "No Class" },
		"nobody":                  func(r *store.EraseRequest) { r.Subjects = []string{""} },
	} {
		t.Run(name, func(t *testing.T) {
			_, err := n.store.Erase(t.Context(), eraseRequest(set))
			wantErr(t, err, blobd.ErrInvalid)
			_, err = n.store.PreviewErasure(t.Context(), eraseRequest(set))
			wantErr(t, err, blobd.ErrInvalid)
		})
	}
}

// TestOrdersAreEvidence that names no person, no execution and no free text.
func TestOrdersAreEvidence(t *testing.T) {
	n := memParts(t).start(t)
	n.mustPutTagged(t, "an execution", runText, anna)
	o := n.mustHold(t, func(r *store.OrderRequest) { r.Subjects = []string{anna} })
	n.release(t, o)
	n.mustEraseBy(t, func(r *store.EraseRequest) { r.Subjects = []string{anna} })
	n.work(t)
	all, err := n.parts.ledger.Entries(t.Context(), 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	var steps []string
	for _, e := range all {
		for _, never := range []string{anna, "an execution", "a matter", "a reason", "holder", "dpo", hashOf(o)} {
			if bytes.Contains(e.Body, []byte(never)) {
				t.Errorf("an entry holds %q: %s", never, e.Body)
			}
		}
		switch e.Kind {
		case ledger.EntryOrder:
			var step evidence.OrderStep
			if err := json.Unmarshal(e.Body, &step); err != nil {
				t.Fatal(err)
			}
			if step.Kind != "hold" || step.Form != "subjects" || step.Subjects != 1 || step.SubjectsTag == "" || step.Reason == "" {
				t.Errorf("%s", e.Body)
			}
			steps = append(steps, step.Act)
		case ledger.EntryErasure:
			var step evidence.ErasureStep
			if err := json.Unmarshal(e.Body, &step); err != nil {
				t.Fatal(err)
			}
			steps = append(steps, step.Step)
		}
	}
	if want := []string{"placed", "lifted", "closed", "dropped", "deleted", "erased"}; !slices.Equal(steps, want) {
		t.Errorf("steps %v, want %v", steps, want)
	}
}

// TestPreview says what would go, what is kept and by what, and changes nothing.
func TestPreview(t *testing.T) {
	n := memParts(t).start(t)
	first := n.clock.Now()
	n.mustPutTagged(t, "run 1", "twelve bytes", anna, bert)
	n.clock.advance(time.Hour)
	held := n.mustPutTagged(t, "run 2", "held", anna)
	n.mustPut(t, "run 2", "nobody's")
	hold := n.mustHold(t, func(r *store.OrderRequest) { r.ExecutionID, r.Refs = "run 2", []blobd.Ref{held.Ref} })
	n.mustHold(t, func(r *store.OrderRequest) { r.Subjects = []string{"somebody else"} })
	ask := func(set func(*store.EraseRequest)) store.Preview {
		t.Helper()
		p, err := n.store.PreviewErasure(t.Context(), eraseRequest(set))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	p := ask(func(r *store.EraseRequest) { r.Subjects = []string{anna} })
	if want := (ledger.Plan{Executions: 2, Blobs: 2, Bytes: 16, Held: 1, Shared: 1}); p.Plan != want {
		t.Errorf("plan %+v, want %+v", p.Plan, want)
	}
	if p.Classes[reason] != 2 || len(p.Classes) != 1 || !p.Oldest.Equal(first) || !p.Newest.Equal(first.Add(time.Hour)) || len(p.Sample) != 2 {
		t.Errorf("%+v", p)
	}
	if p.Coverage == nil || *p.Coverage != (ledger.Coverage{Blobs: 3, Tagged: 2}) {
		t.Errorf("coverage %+v", p.Coverage)
	}
	if !slices.Equal(p.Holds, []string{hold.ID}) || len(p.Kept) != 1 || p.Kept[0].Ref != held.Ref || p.Kept[0].ExecutionID != "run 2" {
		t.Errorf("holds %v, kept %+v", p.Holds, p.Kept)
	}
	if again := ask(func(r *store.EraseRequest) { r.Subjects = []string{anna, anna} }); again.Digest != p.Digest {
		t.Error("the same scope has two digests")
	}
	if p := ask(func(r *store.EraseRequest) { r.Subjects = []string{"nobody"} }); p.Plan != (ledger.Plan{NotFound: 1}) {
		t.Errorf("of nobody: %+v", p.Plan)
	}
	n.mustPutTagged(t, "run 3", "joined", anna)
	if again := ask(func(r *store.EraseRequest) { r.Subjects = []string{anna} }); again.Digest != p.Digest {
		t.Error("what joins the scope changes the digest")
	}
	n.release(t, hold)
	if again := ask(func(r *store.EraseRequest) { r.Subjects = []string{anna} }); again.Digest == p.Digest || again.Plan.Held != 0 {
		t.Errorf("a release does not change the digest: %+v", again.Plan)
	}
	n.wantText(t, "run 2", held.Ref, "held")
	if open := n.allErasures(t); len(open) != 0 {
		t.Errorf("a preview made %d erasures", len(open))
	}
}

// TestAPreviewWithoutProtection takes a few calls of the ledger, however much is
// stored.
func TestAPreviewWithoutProtection(t *testing.T) {
	n := memParts(t).start(t)
	for i := range 300 {
		n.mustPut(t, run, string(rune('a'+i%26))+string(rune('a'+i/26)))
	}
	calls := 0
	n.ledger.OnCall(func(string) { calls++ })
	p, err := n.store.PreviewErasure(t.Context(), eraseRequest(func(r *store.EraseRequest) { r.ExecutionID = run }))
	if err != nil || p.Plan.Blobs != 300 || len(p.Sample) != store.MaxSample || p.Classes != nil {
		t.Errorf("%+v, %d in the sample, %v", p.Plan, len(p.Sample), err)
	}
	if calls > 6 {
		t.Errorf("%d calls of the ledger", calls)
	}
	e := n.mustErase(t, run)
	if e.PlanDigest != p.Digest {
		t.Error("the erasure has another digest than its preview")
	}
}
