package store_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
	backendfaulty "github.com/blobd/blobd/backends/faulty"
	"github.com/blobd/blobd/evidence"
	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/store"
)

func (n *node) putClass(t testing.TB, execution, class, text string) store.Stored {
	t.Helper()
	s, err := n.store.Put(t.Context(), store.PutRequest{
		Attempt: attempt(execution),
		Content: store.Content{Class: class, Kind: blobd.KindText, ContentType: plain, Text: blobd.TextOf([]byte(text))},
	})
	if err != nil {
		t.Fatalf("put: %v", err)
	}
	return s
}

func (n *node) setPolicy(t testing.TB, p ledger.Policy) store.PolicyEffect {
	t.Helper()
	p.Tenant = tenant
	effect, err := n.store.SetPolicy(t.Context(), p)
	if err != nil {
		t.Fatalf("set a policy: %v", err)
	}
	return effect
}

func (n *node) setClassMaximum(t testing.TB, class string, d time.Duration) {
	t.Helper()
	n.setPolicy(t, ledger.Policy{Class: class, Existing: true, Rule: ledger.Rule{Maximum: ledger.Period{Time: d}}})
}

func (n *node) setMaximum(t testing.TB, d time.Duration) { t.Helper(); n.setClassMaximum(t, reason, d) }

func (n *node) startSweep(t testing.TB) ledger.Sweep {
	t.Helper()
	s, err := n.store.StartSweep(t.Context(), store.NewSweep{Tenant: tenant, Trigger: ledger.TriggerManual, Actor: "token"})
	if err != nil {
		t.Fatalf("start a sweep: %v", err)
	}
	return s
}

// sweepPass runs one pass of the sweep that is due.
func (n *node) sweepPass(t testing.TB) {
	t.Helper()
	if worked, err := n.sweeps.RunOne(t.Context()); !worked || err != nil {
		t.Fatalf("a pass of a sweep: worked %v, %v", worked, err)
	}
}

func (n *node) listSweeps(t testing.TB) []ledger.Sweep {
	t.Helper()
	all, err := n.parts.ledger.ListSweeps(t.Context(), ledger.SweepQuery{Tenant: tenant, Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func (n *node) lastSweep(t testing.TB) ledger.Sweep {
	t.Helper()
	all := n.listSweeps(t)
	if len(all) == 0 {
		t.Fatal("no sweep")
	}
	return all[0]
}

// runSweeps runs sweeps until none is open, past every margin and back-off. It moves
// the clock by no more than that takes.
func (n *node) runSweeps(t testing.TB) {
	t.Helper()
	for range 20 {
		for {
			worked, err := n.sweeps.RunOne(t.Context())
			if err != nil {
				t.Fatalf("run a sweep: %v", err)
			}
			if !worked {
				break
			}
		}
		if !slices.ContainsFunc(n.listSweeps(t), func(s ledger.Sweep) bool { return s.State == ledger.SweepRunning }) {
			return
		}
		n.clock.advance(2 * time.Minute)
	}
	t.Fatal("sweeps do not end")
}

// sweep starts a sweep, runs it to its end and returns it.
func (n *node) sweep(t testing.TB) ledger.Sweep {
	t.Helper()
	started := n.startSweep(t)
	n.runSweeps(t)
	s, err := n.parts.ledger.Sweep(t.Context(), tenant, started.ID)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// sweptRefs returns the refs that evidence says were expired, in no order.
func (n *node) sweptRefs(t testing.TB) (refs []string, batches int) {
	t.Helper()
	es, err := n.parts.ledger.Entries(t.Context(), 0, 100_000)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range es {
		if e.Kind != ledger.EntrySweep {
			continue
		}
		var step evidence.SweepStep
		if err := json.Unmarshal(e.Body, &step); err != nil {
			t.Fatal(err)
		}
		if step.Step == evidence.StepSweepExpired {
			batches++
		}
		for _, x := range step.Executions {
			refs = append(refs, x.Refs...)
		}
	}
	return refs, batches
}

// wantEvidence: what was swept is in evidence, each once, and nothing else is.
func (n *node) wantEvidence(t testing.TB, swept []store.Stored) {
	t.Helper()
	got, _ := n.sweptRefs(t)
	var want []string
	for _, s := range swept {
		want = append(want, s.Ref.String())
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("evidence has %d refs, want %d", len(got), len(want))
	}
}

func TestASweepErasesWhatIsDueAndNothingElse(t *testing.T) {
	n := memParts(t).start(t)
	n.setMaximum(t, time.Hour)
	old := []store.Stored{n.mustPut(t, run, "old one"), n.mustPut(t, "other", "old two")}
	n.clock.advance(time.Minute)
	young := n.mustPut(t, run, "young")
	elsewhere := n.putClass(t, run, "long", "of another class")
	n.clock.advance(59 * time.Minute)
	s := n.sweep(t)
	want := ledger.Tally{Scanned: 2, Erase: 2, Bytes: 14}
	if s.State != ledger.SweepDone || s.Plan != want || s.Erased != 2 || s.Failed != 0 {
		t.Errorf("sweep: %+v", s)
	}
	n.wantEvidence(t, old)
	if objects := len(n.sealedObjects(t, "")); objects != 2 {
		t.Errorf("%d objects are left, want 2", objects)
	}
	n.verify(t)
	n.wantNull(t, run, old[0].Ref)
	n.wantText(t, run, elsewhere.Ref, "of another class")
	_ = young // past its maximum by now: the next sweep's
	n.clock.advance(time.Minute)
	if again := n.sweep(t); again.Erased != 1 || again.Plan.Erase != 1 {
		t.Errorf("the next sweep: %+v", again)
	}
	n.clock.advance(time.Minute)
	if third := n.sweep(t); third.Plan.Scanned != 0 {
		t.Errorf("a sweep of nothing looked at %d rows", third.Plan.Scanned)
	}
}

// A maximum ends at its microsecond, for a read and for a sweep alike.
func TestAMaximumEndsAtItsMicrosecond(t *testing.T) {
	n := memParts(t).start(t)
	n.setMaximum(t, time.Hour)
	kept := n.mustPut(t, run, runText)
	n.clock.advance(time.Hour - time.Microsecond)
	n.wantText(t, run, kept.Ref, runText)
	if plan, err := n.store.PlanSweep(t.Context(), tenant); err != nil || plan.Due() != 0 {
		t.Errorf("a microsecond before: %+v, %v", plan, err)
	}
	n.clock.advance(time.Microsecond)
	n.wantNull(t, run, kept.Ref)
	if plan, err := n.store.PlanSweep(t.Context(), tenant); err != nil || plan.Due() != 1 {
		t.Errorf("at its end: %+v, %v", plan, err)
	}
}

// What may still be written by a put that began before the end is deleted again
// once it cannot.
func TestALateWriteOfWhatWasSweptIsDeletedToo(t *testing.T) {
	n := memParts(t).start(t)
	n.setMaximum(t, time.Hour)
	n.mustPut(t, run, runText)
	n.clock.advance(time.Hour)
	name := n.sealedObjects(t, run)[0]
	body, err := n.parts.objects.Get(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	n.startSweep(t)
	n.sweepPass(t)
	if s := n.lastSweep(t); s.State != ledger.SweepRunning || s.Erased != 0 || !s.RunAt.Equal(n.clock.Now().Add(margin)) {
		t.Errorf("before the margin: %+v", s)
	}
	if err := n.parts.objects.Put(t.Context(), name, body); err != nil {
		t.Fatal(err)
	}
	n.clock.advance(margin)
	n.sweepPass(t)
	if s := n.lastSweep(t); s.State != ledger.SweepDone || s.Erased != 1 {
		t.Errorf("after the margin: %+v", s)
	}
	if left := n.sealedObjects(t, ""); len(left) != 0 {
		t.Errorf("%d objects are left", len(left))
	}
}

// What ended long before a sweep needs no second pass.
func TestASweepOfWhatEndedBeforeTheMarginIsOnePass(t *testing.T) {
	n := memParts(t).start(t)
	n.setMaximum(t, time.Hour)
	n.mustPut(t, run, runText)
	n.clock.advance(time.Hour + margin)
	n.startSweep(t)
	n.sweepPass(t)
	if s := n.lastSweep(t); s.State != ledger.SweepDone || s.Erased != 1 {
		t.Errorf("sweep: %+v", s)
	}
}

// One object that the store keeps, or fails on, never stops the rest; the next sweep
// finds it again, and until then it is debt.
func TestOneFailingObjectNeverStopsTheRest(t *testing.T) {
	const blobs = 600
	for name, keeps := range map[string]func(backends.Store, string) backends.Store{
		"refused": func(s backends.Store, name string) backends.Store { return &keeping{Store: s, name: name} },
		"failing": func(s backends.Store, name string) backends.Store {
			return &keeping{Store: s, name: name, err: errUnclassified}
		},
		"unanswered": func(s backends.Store, name string) backends.Store {
			return &keeping{Store: s, name: name, err: errDown}
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := memParts(t)
			n := p.start(t)
			n.setMaximum(t, time.Hour)
			for i := range blobs {
				n.mustPut(t, fmt.Sprint("run-", i%7), fmt.Sprint("text ", i))
			}
			n.clock.advance(2 * time.Hour)
			stubborn := n.sealedObjects(t, "run-3")[2]
			sound := p.objects
			p.objects = keeps(sound, stubborn)
			n = p.start(t)
			n.confirm(t, blobs)
			s := n.lastSweep(t)
			if s.State != ledger.SweepDone || s.Erased != blobs-1 || s.Failed != 1 || s.Plan.Erase != blobs {
				t.Fatalf("sweep: state %s, erased %d, failed %d, planned %d", s.State, s.Erased, s.Failed, s.Plan.Erase)
			}
			if len(s.Refused) == 0 || s.Refused[0].Ref.Hex() != stubborn[len(stubborn)-64:] {
				t.Errorf("refused: %+v", s.Refused)
			}
			debt, next, err := n.store.ListDebt(t.Context(), tenant, store.DebtCursor{}, 10)
			if err != nil || next != nil || len(debt) != 1 || debt[0].Reason != store.DebtObject || debt[0].Ref != s.Refused[0].Ref {
				t.Errorf("debt: %+v, %v", debt, err)
			}
			n.setMaximum(t, 1000*time.Hour) // what lost its key goes all the same
			p.objects = sound
			n.clock.advance(time.Minute)
			n = p.start(t)
			if s := n.sweep(t); s.Erased != 1 || s.Failed != 0 || s.Plan.Erase != 1 {
				t.Errorf("the next sweep: erased %d, failed %d", s.Erased, s.Failed)
			}
			if left := n.sealedObjects(t, ""); len(left) != 0 {
				t.Errorf("%d objects are left", len(left))
			}
			n.verify(t)
		})
	}
}

// keeping is a store that does not delete one object: it refuses or fails.
type keeping struct {
	backends.Store
	name string
	err  error
}

func (k *keeping) Erase(ctx context.Context, scope backends.Scope) (backends.Erased, error) {
	i := slices.Index(scope.Names, k.name)
	if i < 0 {
		return k.Store.Erase(ctx, scope)
	}
	if k.err != nil {
		return backends.Erased{}, k.err
	}
	scope.Names = slices.Delete(slices.Clone(scope.Names), i, i+1)
	e, err := k.Store.Erase(ctx, scope)
	e.Refused = append(e.Refused, backends.Refusal{Name: k.name, Reason: "Locked"})
	return e, err
}

// confirm runs a sweep that the breaker lets erase so many.
func (n *node) confirm(t testing.TB, blobs int64) {
	t.Helper()
	_, err := n.store.StartSweep(t.Context(), store.NewSweep{Tenant: tenant, Trigger: ledger.TriggerManual, Confirm: blobs})
	if err != nil {
		t.Fatal(err)
	}
	n.runSweeps(t)
}

// A store that is down postpones the sweep, which then goes on where it was.
func TestAStoreThatIsDownPostponesASweep(t *testing.T) {
	n := memParts(t).start(t)
	n.setMaximum(t, time.Hour)
	for i := range 5 {
		n.mustPut(t, run, fmt.Sprint("text ", i))
	}
	n.clock.advance(2 * time.Hour)
	n.startSweep(t)
	for range 6 {
		n.objects.Fail("erase", 0, backendfaulty.Before, errDown)
	}
	n.sweepPass(t)
	s := n.lastSweep(t)
	if s.State != ledger.SweepRunning || s.LastError != blobd.ErrUnavailable.Error() || s.Erased != 0 || !s.RunAt.After(n.clock.Now()) {
		t.Errorf("while the store was down: %+v", s)
	}
	n = n.parts.start(t)
	n.runSweeps(t)
	if s := n.lastSweep(t); s.State != ledger.SweepDone || s.Erased != 5 || s.Failed != 0 {
		t.Errorf("sweep: %+v", s)
	}
	if refs, _ := n.sweptRefs(t); len(refs) != 5 {
		t.Errorf("evidence has %d refs, want 5", len(refs))
	}
}

// A sweep that is killed between any two batches goes on, by another node, without
// deleting or telling anything twice.
func TestASweepThatIsKilledGoesOn(t *testing.T) {
	n := memParts(t).start(t)
	n.setMaximum(t, time.Hour)
	var all []store.Stored
	for i := range 40 {
		all = append(all, n.mustPut(t, fmt.Sprint("run-", i%3), fmt.Sprint("text ", i)))
	}
	n.clock.advance(2 * time.Hour)
	n.startSweep(t)
	killed := errors.New("killed")
	for batches := 1; ; batches++ {
		job, err := n.ledger.ClaimSweep(t.Context(), "node", n.clock.Now(), n.clock.Now().Add(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		left := batches
		err = n.store.RunSweep(t.Context(), job, store.SweepOptions{Lease: time.Minute, Batch: 4, Wait: func(context.Context, int) error {
			if left--; left < 0 {
				return killed
			}
			return nil
		}})
		if err == nil {
			break
		}
		wantErr(t, err, killed)
		n.wantNoBuriedObject(t)
		n.clock.advance(time.Minute) // its lease ends
		n = n.parts.start(t)
	}
	s := n.lastSweep(t)
	if s.State != ledger.SweepDone || s.Erased != 40 || s.Plan.Erase != 40 || s.Attempts < 3 {
		t.Errorf("sweep: %+v", s)
	}
	n.wantEvidence(t, all)
	n.verify(t)
}

// A worker that lost its lease can do nothing more.
func TestAWorkerThatLostItsLeaseDeletesNothing(t *testing.T) {
	n := memParts(t).start(t)
	n.setMaximum(t, time.Hour)
	n.mustPut(t, run, runText)
	n.clock.advance(2 * time.Hour)
	n.startSweep(t)
	job, err := n.ledger.ClaimSweep(t.Context(), "slow", n.clock.Now(), n.clock.Now().Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	err = n.store.RunSweep(t.Context(), job, store.SweepOptions{Lease: time.Minute, Batch: 4, Wait: func(context.Context, int) error {
		n.clock.advance(2 * time.Minute)
		_, err := n.parts.ledger.ClaimSweep(t.Context(), "quick", n.clock.Now(), n.clock.Now().Add(time.Minute))
		return err
	}})
	wantErr(t, err, blobd.ErrConflict)
	if left := n.sealedObjects(t, run); len(left) != 1 {
		t.Errorf("%d objects are left, want 1", len(left))
	}
}
