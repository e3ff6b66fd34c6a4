package retention_test

import (
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/retention"
)

// jumping is a clock of the bubble that a test can set.
type jumping struct{ ahead atomic.Int64 }

func (j *jumping) now() time.Time       { return time.Now().Add(time.Duration(j.ahead.Load())) }
func (j *jumping) jump(d time.Duration) { j.ahead.Add(int64(d)) }

// watchedRig is a rig that watches its ledger's clock, which is a jumping one.
func watchedRig(t *testing.T) (*rig, *jumping) {
	t.Helper()
	j := new(jumping)
	r := newRig(t, j.now)
	began := time.Now()
	watch := ledger.NewWatch(time.Hour, 7*24*time.Hour, func() time.Duration { return time.Since(began) })
	r.store.ClockWatch, r.store.Now = watch, watch.Steady(j.now)
	if err := r.store.BeatClock(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r, j
}

// steadySweeps are sweeps by the store's clock.
func (r *rig) steadySweeps(o retention.SweepOptions) *retention.Sweeps {
	return retention.NewSweeps(r.store, r.ledger, "a", o, r.store.Now, slog.New(slog.DiscardHandler))
}

// While the clock is suspect the schedule starts nothing, also where no sweep ever was;
// one by hand is for its tenant alone and makes nothing else trusted.
func TestTheScheduleWaitsForTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, j := watchedRig(t)
		r.maximum(t, 30*24*time.Hour)
		r.put(t, "run")
		w := r.steadySweeps(sweepSchedule(t, "@daily")) // no bound of its own
		j.jump(40 * 24 * time.Hour)
		days(t, w, 3)
		if all := r.listSweeps(t); len(all) != 0 {
			t.Fatalf("%d sweeps after the jump", len(all))
		}
		r.startSweep(t)
		days(t, w, 2)
		all := r.listSweeps(t)
		if len(all) != 1 || all[0].Trigger != ledger.TriggerManual || all[0].Plan.Erase != 1 || all[0].LastError != "" {
			t.Fatalf("the sweep by hand: %+v", all)
		}
		if !r.store.ClockSuspect() {
			t.Error("a sweep by hand confirmed the clock")
		}
		if _, err := r.store.ConfirmClock(t.Context(), tenant, "operator"); err != nil {
			t.Fatal(err)
		}
		days(t, w, 1)
		all = r.listSweeps(t)
		if len(all) != 2 || all[0].Trigger != ledger.TriggerSchedule || all[1].State != ledger.SweepDone || all[1].Erased != 1 {
			t.Errorf("after it was confirmed: %+v", all)
		}
	})
}

// A sweep of the schedule that runs stops in its tracks, and goes on once the clock is
// right again.
func TestARunningSweepWaitsForTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, j := watchedRig(t)
		r.maximum(t, time.Hour)
		r.put(t, "run")
		w := r.steadySweeps(sweepSchedule(t, "@daily"))
		pass(25 * time.Hour)
		if err := r.store.BeatClock(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := w.Schedule(t.Context()); err != nil {
			t.Fatal(err)
		}
		j.jump(400 * 24 * time.Hour)
		if err := r.store.BeatClock(t.Context()); err != nil {
			t.Fatal(err)
		}
		worked, err := w.RunOne(t.Context())
		s := r.listSweeps(t)[0]
		if err != nil || !worked || s.State != ledger.SweepRunning || s.Erased != 0 || s.LastError != "unavailable" {
			t.Fatalf("after the jump: %v, %v, %+v", worked, err, s)
		}
		j.jump(-400 * 24 * time.Hour)
		pass(time.Hour) // past every back-off
		if err := r.store.BeatClock(t.Context()); err != nil {
			t.Fatal(err)
		}
		if worked, err = w.RunOne(t.Context()); err != nil || !worked {
			t.Fatal(worked, err)
		}
		if s := r.listSweeps(t)[0]; s.State != ledger.SweepDone || s.Erased != 1 {
			t.Errorf("right again: %+v", s)
		}
	})
}

// The clock of this machine, by which sweeps start, is corrected by the ledger's.
func TestNoSweepStartsByAClockThatIsNotTheLedgers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := new(jumping)
		r := newRig(t, time.Now)
		began := time.Now()
		watch := ledger.NewWatch(time.Hour, 0, func() time.Duration { return time.Since(began) })
		r.store.ClockWatch, r.store.Now = watch, watch.Steady(j.now)
		if err := r.store.BeatClock(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.maximum(t, 30*24*time.Hour)
		r.put(t, "run")
		w := r.steadySweeps(sweepSchedule(t, "@daily"))
		j.jump(40 * 24 * time.Hour)
		days(t, w, 2)
		for _, s := range r.listSweeps(t) {
			if s.At.After(time.Now()) || s.Erased != 0 {
				t.Errorf("a sweep of %v: %+v", s.At, s)
			}
		}
		if n := len(r.listSweeps(t)); n != 2 || r.store.ClockSuspect() {
			t.Errorf("%d sweeps in two days; the ledger's clock suspect: %v", n, r.store.ClockSuspect())
		}
	})
}

// A node looks by itself, and hears of a confirmation within the interval.
func TestBeatsRunByThemselves(t *testing.T) {
	defer goleak.VerifyNone(t)
	synctest.Test(t, func(t *testing.T) {
		r, j := watchedRig(t)
		beats := retention.NewBeats(r.store, slog.New(slog.DiscardHandler))
		stop := run(beats.Run)
		pass(time.Hour)
		n, err := r.ledger.ClockNote(t.Context())
		if err != nil || n.Now.Sub(n.Seen) > retention.BeatInterval || n.Suspect() {
			t.Errorf("noted after an hour: %+v, %v", n, err)
		}
		j.jump(24 * time.Hour)
		pass(retention.BeatInterval)
		if !r.store.ClockSuspect() {
			t.Error("the jump was not found")
		}
		if n, err = r.ledger.ClockNote(t.Context()); err != nil || !n.Suspect() {
			t.Errorf("noted after the jump: %+v, %v", n, err)
		}
		n.Seen, n.Since = n.Now, time.Time{} // another node confirms
		if err := r.ledger.NoteClock(t.Context(), n, nil); err != nil {
			t.Fatal(err)
		}
		pass(retention.BeatInterval)
		if r.store.ClockSuspect() {
			t.Error("the confirmation was not heard")
		}
		if err := stop(); !errors.Is(err, errStop) {
			t.Errorf("ended with %v", err)
		}
	})
}
