package retention_test

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/retention"
	"github.com/blobd/blobd/store"
)

func (r *rig) sweeps(owner string, o retention.SweepOptions) *retention.Sweeps {
	return retention.NewSweeps(r.store, r.ledger, owner, o, time.Now, slog.New(slog.DiscardHandler))
}

func (r *rig) listSweeps(t *testing.T) []ledger.Sweep {
	t.Helper()
	all, err := r.ledger.ListSweeps(t.Context(), ledger.SweepQuery{Tenant: tenant, Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// maximum sets how long the blobs of the rig may be kept.
func (r *rig) maximum(t *testing.T, d time.Duration) {
	t.Helper()
	_, err := r.store.SetPolicy(t.Context(), ledger.Policy{
		Tenant: tenant, Class: "reasoning", Existing: true, Rule: ledger.Rule{Maximum: ledger.Period{Time: d}},
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (r *rig) startSweep(t *testing.T) ledger.Sweep {
	t.Helper()
	s, err := r.store.StartSweep(t.Context(), store.NewSweep{Tenant: tenant, Trigger: ledger.TriggerManual})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func sweepSchedule(t *testing.T, spec string) retention.SweepOptions {
	t.Helper()
	s, err := retention.ParseSchedule(spec)
	if err != nil {
		t.Fatal(err)
	}
	return retention.SweepOptions{Schedule: s}
}

// On two nodes that share a ledger, each time of the schedule is swept once, also
// over the days on which the clock changes.
func TestSweepsRunByTheScheduleOnceADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, time.Now)
		o := sweepSchedule(t, "CRON_TZ=Europe/Berlin 30 2 * * *")
		// The bubble's clock starts on 2000-01-01; Berlin's changes on 03-26.
		pass(time.Until(time.Date(2000, 3, 24, 0, 0, 0, 0, time.UTC)))
		r.startSweep(t)
		stopA, stopB := run(r.sweeps("a", o).Run), run(r.sweeps("b", o).Run)
		pass(5 * 24 * time.Hour)
		want := []string{ // newest first; 02:30 does not exist on the 26th
			"2000-03-28T00:30", "2000-03-27T00:30", "2000-03-26T01:00", "2000-03-25T01:30", "2000-03-24T01:30",
		}
		var got []string
		for _, s := range r.listSweeps(t) {
			if s.State != ledger.SweepDone {
				t.Errorf("sweep of %v: %s", s.StartedAt, s.State)
			}
			if s.Trigger == ledger.TriggerSchedule {
				got = append(got, s.StartedAt.Format("2006-01-02T15:04"))
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("swept at %v, want %v", got, want)
		}
		_, _ = stopA(), stopB()
	})
}

// days lets a runner look at its schedule, and work, twice a day.
func days(t *testing.T, w *retention.Sweeps, n int) {
	t.Helper()
	for range 2 * n {
		pass(12 * time.Hour)
		if err := w.Schedule(t.Context()); err != nil {
			t.Fatal(err)
		}
		for worked := true; worked; {
			var err error
			if worked, err = w.RunOne(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// What is due goes by itself, and is debt no more.
func TestWhatIsDueGoesByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, time.Now)
		r.maximum(t, time.Hour)
		for i := range 3 {
			r.put(t, fmt.Sprint("run ", i))
		}
		w := r.sweeps("a", sweepSchedule(t, "0 */6 * * *"))
		stop := run(w.Run)
		pass(5 * time.Hour)
		if s := w.Stats(); s.Debt[store.DebtSweep] != 3 || s.Erased != 0 || s.CountedAt.IsZero() || !s.LastDone.IsZero() {
			t.Errorf("before the sweep: %+v", s)
		}
		pass(2 * time.Hour)
		if s := w.Stats(); s.Debt[store.DebtSweep] != 0 || s.Erased != 3 || s.LastDone.IsZero() {
			t.Errorf("after the sweep: %+v", s)
		}
		_ = stop()
	})
}

// A time that fell into a stop is made up for, once.
func TestAMissedSweepIsMadeUpForOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, time.Now)
		pass(40 * 24 * time.Hour) // nobody runs
		for range 3 {             // three starts of a process
			w := r.sweeps("a", sweepSchedule(t, "@daily"))
			if err := w.Schedule(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := w.RunOne(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if all := r.listSweeps(t); len(all) != 1 {
			t.Errorf("%d sweeps", len(all))
		}
		next, err := r.sweeps("a", sweepSchedule(t, "@daily")).Next(t.Context(), ledger.Tenant{ID: tenant})
		if want := time.Date(2000, 2, 11, 0, 0, 0, 0, time.UTC); err != nil || !next.Equal(want) {
			t.Errorf("next: %v, %v; want %v", next, err, want)
		}
	})
}

// A clock that jumped deletes nothing: the schedule waits for a sweep by hand.
func TestAfterAJumpOfTheClockTheScheduleWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, time.Now)
		r.maximum(t, 30*24*time.Hour)
		r.put(t, "run")
		o := sweepSchedule(t, "@daily")
		o.Jump = 7 * 24 * time.Hour
		w := r.sweeps("a", o)
		days(t, w, 1)
		if all := r.listSweeps(t); len(all) != 1 {
			t.Fatalf("%d sweeps on the first day", len(all))
		}
		pass(400 * 24 * time.Hour) // the clock jumps
		days(t, w, 3)
		if all := r.listSweeps(t); len(all) != 1 {
			t.Errorf("%d sweeps after the jump", len(all))
		}
		r.startSweep(t) // an operator says that the time is right
		days(t, w, 2)
		all := r.listSweeps(t)
		if len(all) != 4 || all[2].Trigger != ledger.TriggerManual || all[2].Erased != 1 {
			t.Errorf("sweeps after it was confirmed: %+v", all)
		}
	})
}

// The next time of a schedule that is far apart is no jump.
func TestAMonthlyScheduleIsNoJump(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, time.Now)
		o := sweepSchedule(t, "@monthly")
		o.Jump = 7 * 24 * time.Hour
		days(t, r.sweeps("a", o), 95)
		if all := r.listSweeps(t); len(all) != 3 {
			t.Errorf("%d sweeps in three months", len(all))
		}
	})
}

// A panic is a failure of one sweep, which is tried again, and of nothing else.
func TestAPanicDoesNotStopSweeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, time.Now)
		r.maximum(t, time.Hour)
		r.put(t, "run")
		pass(2 * time.Hour)
		var once sync.Once
		r.objects.OnCall(func(op, _ string) {
			if op == "erase" {
				once.Do(func() { panic("a fault of this sweep") })
			}
		})
		r.startSweep(t)
		stop := run(r.sweeps("a", retention.SweepOptions{}).Run)
		pass(time.Minute)
		if s := r.listSweeps(t)[0]; s.State != ledger.SweepDone || s.Erased != 1 || s.Attempts != 2 {
			t.Errorf("sweep: %+v", s)
		}
		_ = stop()
	})
}

// 200 blobs at one a second take longer than a lease, and nobody else gets the sweep
// meanwhile.
func TestASweepKeepsItsRateAndItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, time.Now)
		r.maximum(t, time.Hour)
		for i := range 200 {
			r.put(t, fmt.Sprint("run ", i))
		}
		pass(2 * time.Hour)
		r.startSweep(t)
		stop := run(r.sweeps("a", retention.SweepOptions{Rate: 1}).Run)
		other := r.sweeps("b", retention.SweepOptions{})
		for range 19 {
			pass(10 * time.Second)
			if worked, err := other.RunOne(t.Context()); worked || err != nil {
				t.Fatalf("another worker got the sweep (%v)", err)
			}
		}
		if s := r.listSweeps(t)[0]; s.Erased < 180 || s.Erased > 195 {
			t.Errorf("%d blobs in 190 s", s.Erased)
		}
		pass(time.Minute)
		if s := r.listSweeps(t)[0]; s.State != ledger.SweepDone || s.Erased != 200 || s.Attempts != 1 {
			t.Errorf("sweep: %+v", s)
		}
		_ = stop()
	})
}

// A sweep that its process gave up goes on with the next one, at once.
func TestASweepIsGivenBackAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, time.Now)
		r.maximum(t, time.Hour)
		for i := range 50 {
			r.put(t, fmt.Sprint("run ", i))
		}
		pass(2 * time.Hour)
		r.startSweep(t)
		stop := run(r.sweeps("a", retention.SweepOptions{Rate: 1}).Run)
		pass(20 * time.Second)
		if err := stop(); !errors.Is(err, errStop) {
			t.Errorf("the loop ended with %v", err)
		}
		if worked, err := r.sweeps("b", retention.SweepOptions{}).RunOne(t.Context()); !worked || err != nil {
			t.Fatalf("worked %v, %v", worked, err)
		}
		if s := r.listSweeps(t)[0]; s.State != ledger.SweepDone || s.Erased != 50 {
			t.Errorf("sweep: %+v", s)
		}
	})
}

func TestSweepLoopsStartAndStop(t *testing.T) {
	defer goleak.VerifyNone(t)
	r := newRig(t, time.Now)
	w := r.sweeps("node", sweepSchedule(t, "@hourly"))
	for range 50 {
		stops := []func() error{run(w.Run), run(w.Run)}
		w.Wake()
		for _, stop := range stops {
			if err := stop(); !errors.Is(err, errStop) {
				t.Fatalf("a loop ended with %v", err)
			}
		}
	}
}
