package store_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/retention"
	"github.com/blobd/blobd/store"
)

// stopped is a deployment that was off for longer than is trusted, and is on again.
func stopped(t *testing.T, off time.Duration) *watching {
	t.Helper()
	p := memParts(t)
	w := p.watch(t)
	w.setMaximum(t, 7*day)
	w.setPolicy(t, ledger.Policy{
		Class: "ended", Existing: true, Rule: ledger.Rule{Maximum: ledger.Period{Time: 7 * day}, Start: ledger.StartEnded},
	})
	w.mustPut(t, "old", "an old text")
	w.putClass(t, "ends", "ended", "of an execution that ends")
	w.beat(t)
	w.jump(off)
	w = p.watch(t)
	if !w.store.ClockSuspect() {
		t.Fatal("the clock is trusted")
	}
	return w
}

func (w *watching) confirm(t *testing.T) {
	t.Helper()
	if _, err := w.store.ConfirmClock(t.Context(), tenant, "operator"); err != nil {
		t.Fatal(err)
	}
}

// What begins while the clock is suspect has its whole time, once the clock was right.
func TestWhatBeginsByASuspectClockEndsNotEarly(t *testing.T) {
	w := stopped(t, 10*day)
	s := w.mustPut(t, run, "a text")
	w.setClassMaximum(t, "later", day) // of what is captured from now on
	later := w.putClass(t, run, "later", "a later text")
	if _, err := w.store.EndExecution(t.Context(), tenant, "ends", "token"); err != nil {
		t.Fatal(err)
	}
	w.mustPut(t, "graced", "a text")
	graced := w.mustEraseBy(t, func(r *store.EraseRequest) { r.ExecutionID, r.Grace = "graced", 5*day })
	w.wantText(t, run, s.Ref, "a text")
	w.confirm(t)
	w.wantText(t, run, s.Ref, "a text")
	w.wantText(t, run, later.Ref, "a later text")
	plan, err := w.store.PlanSweep(t.Context(), tenant)
	if err != nil || plan.Erase != 1 { // the old text
		t.Errorf("a sweep would erase %d: %v", plan.Erase, err)
	}
	work := func() {
		t.Helper()
		for worked := true; worked; {
			if worked, err = w.erasures.RunOne(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	work()
	if got := w.erasure(t, graced.ID); got.State != ledger.ErasureGrace || w.liveRows(t, "graced") != 1 {
		t.Errorf("the grace: %s, %d live", got.State, w.liveRows(t, "graced"))
	}
	w.pass(7 * day)
	w.beat(t)
	work()
	if got := w.erasure(t, graced.ID); got.State == ledger.ErasureGrace {
		t.Errorf("the grace after its end: %s", got.State)
	}
	if plan, err = w.store.PlanSweep(t.Context(), tenant); err != nil || plan.Erase != 4 { // all but what the erasure took
		t.Errorf("a sweep after the maximum would erase %d: %v", plan.Erase, err)
	}
}

// A grace that waits for approvals begins with the last of them, and lasts what was asked
// for.
func TestAGraceThatIsApprovedByASuspectClock(t *testing.T) {
	w := stopped(t, 10*day)
	if err := w.store.SetApprovals(t.Context(), tenant, 1, "admin"); err != nil {
		t.Fatal(err)
	}
	e := w.mustEraseBy(t, func(r *store.EraseRequest) { r.ExecutionID, r.Grace = "old", 5*day })
	approved, err := w.store.Approve(t.Context(), tenant, e.ID, "approver", e.PlanDigest)
	if err != nil {
		t.Fatal(err)
	}
	if got := approved.GraceUntil.Sub(w.clock.Now()); got != 5*day {
		t.Errorf("a grace of %v", got)
	}
}

// A suppression does not end early by it.
func TestASuppressionEndsByTheSteadyClock(t *testing.T) {
	w := memParts(t).watch(t)
	subjects := []string{"ann"}
	_, err := w.store.Suppress(t.Context(), store.OrderRequest{
		Tenant: tenant, Subjects: subjects, Actor: "token", Reason: "objected", ExpiresAt: w.clock.Now().Add(20 * day),
	})
	if err != nil {
		t.Fatal(err)
	}
	w.jump(30 * day)
	w.beat(t)
	put := func() error {
		_, err := w.store.Put(t.Context(), store.PutRequest{
			Attempt: attempt(run), Subjects: subjects,
			Content: store.Content{Class: reason, Kind: blobd.KindText, ContentType: plain, Text: blobd.TextOf([]byte("of ann"))},
		})
		return err
	}
	if err := put(); err == nil {
		t.Error("a put of a suppressed person, by a suspect clock")
	}
	w.confirm(t)
	if err := put(); err != nil {
		t.Errorf("after the suppression: %v", err)
	}
}

// A dry run tells what a sweep by hand does: both go by the ledger's clock as it is.
func TestADryRunByASuspectClockTellsWhatASweepDoes(t *testing.T) {
	for _, jump := range []time.Duration{300 * day, -3 * day} {
		w := memParts(t).watch(t)
		w.setMaximum(t, 7*day)
		for _, text := range []string{"one", "two", "three"} {
			w.mustPut(t, run, text)
			w.pass(4 * day)
		}
		w.beat(t)
		w.jump(jump)
		w.beat(t)
		plan, err := w.store.PlanSweep(t.Context(), tenant)
		if err != nil {
			t.Fatal(err)
		}
		want := map[bool]int64{true: 3, false: 1}[jump > 0]
		s := w.startSweep(t)
		sweeps := retention.NewSweeps(w.store, w.node.ledger, "node", retention.SweepOptions{}, w.store.Now, slog.New(slog.DiscardHandler))
		if _, err := sweeps.RunOne(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s, err = w.node.ledger.Sweep(t.Context(), tenant, s.ID); err != nil || s.Plan.Erase != want || plan.Erase != want {
			t.Errorf("a jump of %v: %d would go, the sweep planned %d, want %d: %v", jump, plan.Erase, s.Plan.Erase, want, err)
		}
	}
}
