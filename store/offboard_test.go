package store_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/resolver"
	"github.com/blobd/blobd/store"
)

// leaver is the tenant that is off-boarded; the others of the tests stay.
const leaver = "leaver"

func (n *node) putFor(ctx context.Context, tenant, execution, text string, subjects ...string) (store.Stored, error) {
	a := attempt(execution)
	a.Tenant = tenant
	return n.store.Put(ctx, store.PutRequest{Attempt: a, Subjects: subjects, Content: store.Content{
		Class: reason, Kind: blobd.KindText, ContentType: plain, Text: blobd.TextOf([]byte(text)),
	}})
}

func (n *node) mustPutFor(t testing.TB, tenant, execution, text string) store.Stored {
	t.Helper()
	s, err := n.putFor(t.Context(), tenant, execution, text)
	if err != nil {
		t.Fatalf("put for %s: %v", tenant, err)
	}
	return s
}

// resolveFor returns a text, or that it is null.
func (n *node) resolveFor(ctx context.Context, tenant, execution string, ref blobd.Ref) (text string, null bool, err error) {
	a, err := n.resolver.Resolve(ctx, resolver.Request{Tenant: tenant, ExecutionID: execution, Wants: []resolver.Want{{Ref: ref}}})
	if err != nil {
		return "", false, err
	}
	return string(a.Parts[0].Text.Bytes()), a.Parts[0].Null, nil
}

func (n *node) wantNullFor(t testing.TB, tenant, execution string, ref blobd.Ref) {
	t.Helper()
	if text, null, err := n.resolveFor(t.Context(), tenant, execution, ref); err != nil || !null {
		t.Errorf("resolve for %s: %q, %v, want null", tenant, text, err)
	}
}

func (n *node) offboard(ctx context.Context) (ledger.Erasure, error) {
	return n.store.Erase(ctx, store.EraseRequest{Tenant: leaver, WholeTenant: true, Reason: "leaves", Actor: "token"})
}

func (n *node) mustOffboard(t testing.TB) ledger.Erasure {
	t.Helper()
	e, err := n.offboard(t.Context())
	if err != nil {
		t.Fatalf("off-board: %v", err)
	}
	return e
}

// finishOffboarding runs jobs until every erasure of the leaver is erased, and
// returns them.
func (n *node) finishOffboarding(t testing.TB) []ledger.Erasure {
	t.Helper()
	for range 50 {
		for {
			worked, err := n.erasures.RunOne(t.Context())
			if err != nil {
				t.Fatalf("run a job: %v", err)
			}
			if !worked {
				break
			}
		}
		es, err := n.parts.ledger.ListErasures(t.Context(), ledger.ErasureQuery{Tenant: leaver, Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(es, func(e ledger.Erasure) bool { return e.State != ledger.ErasureErased }) {
			return es
		}
		n.clock.advance(10 * time.Minute)
	}
	t.Fatal("erasures of the leaver do not finish")
	return nil
}

// kekDestroyed asks the key service itself.
func (p *parts) kekDestroyed(t testing.TB, tenant string) bool {
	t.Helper()
	have, err := p.keys.Tenants(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return !slices.Contains(have, tenant)
}

// objectsOf returns the names of a tenant's objects.
func (n *node) objectsOf(t testing.TB, e ledger.Erasure) []backends.Object {
	t.Helper()
	all, err := n.parts.objects.List(t.Context(), backends.TenantPrefix(e.Scope.Tag.String()), "", 1000)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// wantOffboarded: null, refused, nothing new, and in both places of the journal.
func (n *node) wantOffboarded(t *testing.T, refs map[string]blobd.Ref) {
	t.Helper()
	for execution, ref := range refs {
		n.wantNullFor(t, leaver, execution, ref)
		_, err := n.putFor(t.Context(), leaver, execution, "another text")
		wantErr(t, err, blobd.ErrErased)
	}
	n.wantNullFor(t, leaver, "never seen", blobd.RefOf([]byte("never stored")))
	for name, act := range map[string]func() error{
		"a put": func() error { _, err := n.putFor(t.Context(), leaver, "never seen", "a text"); return err },
		"a put with a subject": func() error {
			_, err := n.putFor(t.Context(), leaver, "never seen", "a text", "someone")
			return err
		},
		"a token": func() error {
			_, _, err := n.store.CreateToken(t.Context(), store.NewToken{Tenant: leaver, Roles: []string{"runtime"}})
			return err
		},
		"an epoch": func() error { _, err := n.store.StartEpoch(t.Context(), leaver, "", ""); return err },
	} {
		if err := act(); err == nil || !refusal(err) {
			t.Errorf("%s in the off-boarded tenant: %v", name, err)
		} else {
			wantErr(t, err, blobd.ErrErased)
		}
	}
	_, err := n.store.CreateTenant(t.Context(), leaver, "")
	wantErr(t, err, blobd.ErrConflict)
	n.wantTenantJournalled(t)
}

func (n *node) wantTenantJournalled(t *testing.T) {
	t.Helper()
	for place, s := range map[string]backends.Store{"the store": n.parts.objects, "the second place": n.parts.second} {
		if !slices.ContainsFunc(journalRecords(t, s), func(r ledger.Record) bool {
			return r.Kind == ledger.RecordTenant && r.Tenant == leaver
		}) {
			t.Errorf("the journal in %s does not know of the off-boarding", place)
		}
	}
}

// leaverParts are parts with a tenant that has something to lose.
func leaverParts(t *testing.T) (p *parts, refs map[string]blobd.Ref) {
	t.Helper()
	p = memParts(t)
	n := p.start(t)
	return p, n.makeLeaver(t)
}

func (n *node) makeLeaver(t *testing.T) map[string]blobd.Ref {
	t.Helper()
	n.createTenant(t, leaver)
	refs := make(map[string]blobd.Ref)
	for i := range 3 {
		execution := fmt.Sprint("leaver's ", i)
		n.mustPutFor(t, leaver, execution, "first")
		refs[execution] = n.mustPutFor(t, leaver, execution, "second").Ref
	}
	return refs
}

func TestATenantIsOffboarded(t *testing.T) {
	p, refs := leaverParts(t)
	n := p.start(t)
	kept := n.mustPut(t, run, runText)
	for execution, ref := range refs { // what is in memory must not outlive the fence
		if text, null, err := n.resolveFor(t.Context(), leaver, execution, ref); err != nil || null || text != "second" {
			t.Fatalf("before: %q, %v, %v", text, null, err)
		}
	}
	plan, err := n.store.PlanErasure(t.Context(), store.EraseRequest{Tenant: leaver, WholeTenant: true})
	if want := (ledger.Plan{Executions: 3, Blobs: 6, Bytes: 33}); err != nil || plan != want {
		t.Errorf("plan %+v, %v, want %+v", plan, err, want)
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
	if got.ID != e.ID || got.Plan != plan || got.Progress.KeysDestroyed != 6 || got.Progress.ObjectsDeleted != 6 || got.Progress.KEKDestroyedAt.IsZero() {
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

// TestOffboardingUnderLoad: while a tenant with puts and resolves under way is
// off-boarded, nothing of another tenant is refused or null, and nothing of the
// leaver is read that was asked for after the answer.
func TestOffboardingUnderLoad(t *testing.T) {
	d := newDiskParts(t, false)
	n := d.start(t)
	refs := n.makeLeaver(t)
	kept := n.mustPut(t, run, runText)
	var stop sync.WaitGroup
	done := make(chan struct{})
	fenced := make(chan struct{})
	for i := range 4 {
		stop.Add(2)
		go func() {
			defer stop.Done()
			for k := 0; ; k++ {
				select {
				case <-done:
					return
				default:
				}
				n.wantText(t, run, kept.Ref, runText)
				if _, err := n.putText(t.Context(), fmt.Sprint(run, i), fmt.Sprint("text ", k)); err != nil {
					t.Errorf("another tenant's put: %v", err)
				}
			}
		}()
		go func() {
			defer stop.Done()
			execution := fmt.Sprint("leaver's ", i%3)
			for k := 0; ; k++ {
				over := false
				select {
				case <-done:
					return
				case <-fenced:
					over = true
				default:
				}
				text, null, err := n.resolveFor(t.Context(), leaver, execution, refs[execution])
				if err != nil || over && !null || !null && text != "second" {
					t.Errorf("resolve, off-boarded %v: %q, %v, %v", over, text, null, err)
				}
				_, err = n.putFor(t.Context(), leaver, fmt.Sprint("new ", i, k), "a text")
				if over || err != nil {
					wantErr(t, err, blobd.ErrErased)
				}
			}
		}()
	}
	e := n.mustOffboard(t)
	close(fenced)
	n.finishOffboarding(t)
	close(done)
	stop.Wait()
	if left := n.objectsOf(t, e); len(left) != 0 {
		t.Errorf("%d objects are left", len(left))
	}
	n.verify(t)
}

// crashOfOffboarding: after an acknowledged fence there is no text of the tenant,
// and both places of the journal know; after an unanswered one a repeat gets
// there. Other tenants notice nothing.
func crashOfOffboarding() crash {
	var refs map[string]blobd.Ref
	return crash{
		setup: func(t *testing.T, n *node) { refs = n.makeLeaver(t) },
		act:   func(t *testing.T, n *node) error { _, err := n.offboard(t.Context()); return err },
		judge: func(t *testing.T, n *node, told error) {
			if told == nil {
				n.wantOffboarded(t, refs)
			}
			e := n.mustOffboard(t)
			n.wantOffboarded(t, refs)
			n.finishOffboarding(t)
			if left := n.objectsOf(t, e); len(left) != 0 || !n.kekDestroyed(t, leaver) {
				t.Errorf("%d objects are left, KEK destroyed: %v", len(left), n.kekDestroyed(t, leaver))
			}
		},
	}
}

// crashOfOffboardingJob: whatever fails, the KEK is not destroyed before the
// journal knows, no object goes before the KEK, keys do not count before it, and
// "erased" is said when nothing is left; and the job gets there by itself.
func crashOfOffboardingJob(last bool) crash {
	var refs map[string]blobd.Ref
	var e ledger.Erasure
	return crash{
		cold: true,
		setup: func(t *testing.T, n *node) {
			refs = n.makeLeaver(t)
			e = n.mustOffboard(t)
			if last {
				if worked, err := n.erasures.RunOne(t.Context()); !worked || err != nil {
					t.Fatalf("the first pass: worked %v, %v", worked, err)
				}
				n.clock.advance(margin)
			}
		},
		act: func(t *testing.T, n *node) error {
			_, err := n.erasures.RunOne(t.Context())
			return err
		},
		judge: func(t *testing.T, n *node, _ error) {
			got, err := n.parts.ledger.Erasure(t.Context(), leaver, e.ID)
			if err != nil {
				t.Fatal(err)
			}
			destroyed := n.kekDestroyed(t, leaver)
			if left := len(n.objectsOf(t, e)); left < 6 && !destroyed || left > 0 && got.State == ledger.ErasureErased {
				t.Errorf("%d objects, KEK destroyed: %v, %s", left, destroyed, got.State)
			}
			if got.Progress.KeysDestroyed > 0 && (!destroyed || got.Plan.Executions != 3) {
				t.Errorf("keys count as destroyed: %+v", got)
			}
			if destroyed {
				n.wantTenantJournalled(t)
			}
			n.wantOffboarded(t, refs)
			got = n.finishOffboarding(t)[0]
			if want := (ledger.Plan{Executions: 3, Blobs: 6, Bytes: 33}); got.Plan != want || got.Progress.KeysDestroyed != 6 {
				t.Errorf("the erasure ended as %+v", got)
			}
			if left := n.objectsOf(t, e); len(left) != 0 || !n.kekDestroyed(t, leaver) {
				t.Errorf("%d objects are left, KEK destroyed: %v", len(left), n.kekDestroyed(t, leaver))
			}
		},
	}
}

// TestARolledBackLedgerKeepsATenantOffboarded: the ledger comes back as it was
// before the off-boarding; the journal knows.
func TestARolledBackLedgerKeepsATenantOffboarded(t *testing.T) {
	for name, finished := range map[string]bool{"during the job": false, "after the job": true} {
		t.Run(name, func(t *testing.T) {
			d := newDiskParts(t, true)
			n := d.start(t)
			refs := n.makeLeaver(t)
			kept := n.mustPut(t, run, runText)
			files := d.copyLedger(t)
			n = d.start(t)
			since := n.mustPutFor(t, leaver, "made after the copy", "a text")
			refs["made after the copy"] = since.Ref
			e := n.mustOffboard(t)
			if finished {
				n.finishOffboarding(t)
			}
			d.restoreLedger(t, files)

			n = d.start(t)
			n.wantOffboarded(t, refs)
			n.wantText(t, run, kept.Ref, runText)
			es := n.finishOffboarding(t)
			if len(es) != 1 || es[0].ID != e.ID {
				t.Errorf("erasures %+v", es)
			}
			if left := n.objectsOf(t, e); len(left) != 0 || !n.kekDestroyed(t, leaver) {
				t.Errorf("%d objects are left, KEK destroyed: %v", len(left), n.kekDestroyed(t, leaver))
			}
			if r := n.verify(t); r.Missing != 0 {
				t.Errorf("%d rows are entered as missing in an off-boarded tenant", r.Missing)
			}
			n = d.start(t)
			n.wantOffboarded(t, refs)
			n.wantText(t, run, kept.Ref, runText)
		})
	}
}

// TestATenantThatWasForgottenWhole: made and off-boarded after the copy, it comes
// back by its fence alone, and its objects go by the tag in the record.
func TestATenantThatWasForgottenWhole(t *testing.T) {
	for name, finished := range map[string]bool{"during the job": false, "after the job": true} {
		t.Run(name, func(t *testing.T) {
			d := newDiskParts(t, true)
			files := d.copyLedger(t)
			n := d.start(t)
			refs := n.makeLeaver(t)
			e := n.mustOffboard(t)
			if finished {
				n.finishOffboarding(t)
			}
			d.restoreLedger(t, files)

			n = d.start(t)
			n.wantOffboarded(t, refs)
			if id, err := d.ledger.Identity(t.Context(), "00000000000000000000000000000000"); err != nil || id.Recovery != ledger.RecoveryNone {
				t.Errorf("recovery %d, %v: the tenant counts as forgotten", id.Recovery, err)
			}
			n.mustOffboard(t) // asked for again, by an officer who is not sure
			n.finishOffboarding(t)
			if left := n.objectsOf(t, e); len(left) != 0 || !n.kekDestroyed(t, leaver) {
				t.Errorf("%d objects are left, KEK destroyed: %v", len(left), n.kekDestroyed(t, leaver))
			}
			n = d.start(t)
			n.wantOffboarded(t, refs)
			n.verify(t)
		})
	}
}

// TestOffboardingInAGap: where the ledger may have forgotten puts, a ref without a
// row is an error; in an off-boarded tenant it is null, on a node that has not
// heard of it too.
func TestOffboardingInAGap(t *testing.T) {
	p, _ := leaverParts(t)
	if err := p.ledger.SetRecovery(t.Context(), ledger.RecoveryGap, ledger.Entry{Kind: ledger.EntryRecovery}); err != nil {
		t.Fatal(err)
	}
	a, b := p.start(t), p.start(t)
	never := blobd.RefOf([]byte("never stored"))
	_, _, err := b.resolveFor(t.Context(), leaver, "never seen", never)
	wantErr(t, err, blobd.ErrMissing)
	a.mustOffboard(t)
	b.wantNullFor(t, leaver, "never seen", never)
	a.wantNullFor(t, leaver, "never seen", never)
	_, _, err = b.resolveFor(t.Context(), tenant, "never seen", never)
	wantErr(t, err, blobd.ErrMissing)
}
