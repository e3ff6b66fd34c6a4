package retention_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
	ledgerfaulty "github.com/blobd/blobd/ledger/faulty"
	"github.com/blobd/blobd/retention"
)

const horizon = 60 * time.Hour

func (r *rig) epochs(owner string, o retention.EpochOptions) *retention.Epochs {
	o.Horizon = horizon
	return retention.NewEpochs(r.store, r.ledger, owner, o, time.Now, slog.New(slog.DiscardHandler))
}

func (r *rig) listEpochs(t *testing.T) []ledger.Epoch {
	t.Helper()
	es, err := r.ledger.ListEpochs(t.Context(), ledger.EpochQuery{Tenant: tenant, Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	return es
}

func schedule(t *testing.T, spec string) retention.EpochOptions {
	t.Helper()
	s, err := retention.ParseSchedule(spec)
	if err != nil {
		t.Fatal(err)
	}
	return retention.EpochOptions{Schedule: s}
}

// TestEpochsRunByTheSchedule: on two nodes that share a ledger each time of the
// schedule starts one epoch, which runs to its horizon by itself.
func TestEpochsRunByTheSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, time.Now)
		r.put(t, "run")
		o := schedule(t, "30 3 * * *")
		begun := time.Now().UTC() // the bubble's clock: 2000-01-01 00:00 UTC
		stopA, stopB := run(r.epochs("a", o).Run), run(r.epochs("b", o).Run)
		pass(time.Date(2000, 1, 1, 3, 29, 0, 0, time.UTC).Sub(begun))
		if es := r.listEpochs(t); len(es) != 0 {
			t.Errorf("%d epochs before the time", len(es))
		}
		pass(2 * time.Minute)
		if es := r.listEpochs(t); len(es) != 1 || es[0].State != ledger.EpochWaiting || es[0].Rewrapped != 2 {
			t.Errorf("after the time: %+v", es)
		}
		pass(4 * 24 * time.Hour)
		es := r.listEpochs(t)
		if len(es) != 5 {
			t.Errorf("%d epochs in five days", len(es))
		}
		for i, e := range es {
			trimmed := e.State == ledger.EpochTrimmed
			if e.Version != uint32(len(es)-i+1) || trimmed != (i > 2) || trimmed && e.TrimmedAt.Sub(e.CompletedAt) > horizon+time.Minute {
				t.Errorf("epoch %d: %+v", i, e)
			}
		}
		_, _ = stopA(), stopB()
	})
}

// TestAScheduleKeepsToItsZone, in summer too.
func TestAScheduleKeepsToItsZone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, time.Now)
		loop := r.epochs("a", schedule(t, "CRON_TZ=Europe/Vienna 30 3 * * *"))
		look := func(until time.Time, want int) {
			t.Helper()
			pass(time.Until(until))
			if err := loop.Schedule(t.Context()); err != nil {
				t.Fatal(err)
			}
			if es := r.listEpochs(t); len(es) != want {
				t.Errorf("%v: %d epochs, want %d", until, len(es), want)
			}
			if _, err := loop.RunOne(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		look(time.Date(2000, 1, 1, 2, 29, 0, 0, time.UTC), 0)
		look(time.Date(2000, 1, 1, 2, 31, 0, 0, time.UTC), 1)
		look(time.Date(2000, 7, 1, 1, 31, 0, 0, time.UTC), 2) // what was missed, once
		_, _ = loop.RunOne(t.Context())                       // the first one's trim
		look(time.Date(2000, 7, 2, 1, 29, 0, 0, time.UTC), 2)
		look(time.Date(2000, 7, 2, 1, 31, 0, 0, time.UTC), 3)
	})
}

// TestAMissedTimeIsMadeUpForOnce.
func TestAMissedTimeIsMadeUpForOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, time.Now)
		pass(40 * 24 * time.Hour) // nobody runs
		loop := r.epochs("a", schedule(t, "@weekly"))
		for range 3 {
			if err := loop.Schedule(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := loop.RunOne(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if es := r.listEpochs(t); len(es) != 1 {
			t.Errorf("%d epochs", len(es))
		}
	})
}

func TestWithoutAScheduleNothingStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, time.Now)
		stop := run(r.epochs("a", schedule(t, "")).Run)
		pass(24 * time.Hour)
		if es := r.listEpochs(t); len(es) != 0 {
			t.Errorf("%d epochs", len(es))
		}
		if err := stop(); !errors.Is(err, errStop) {
			t.Errorf("the loop ended with %v", err)
		}
	})
}

func TestABadScheduleIsInvalid(t *testing.T) {
	for _, spec := range []string{"now and then", "61 * * * *", "CRON_TZ=Nowhere/Town @daily", "* * *"} {
		if _, err := retention.ParseSchedule(spec); !errors.Is(err, blobd.ErrInvalid) {
			t.Errorf("%q: %v", spec, err)
		}
	}
}

// TestAnEpochIsNeverDiscarded: it is tried until it can, ever later.
func TestAnEpochIsNeverDiscarded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, time.Now)
		r.put(t, "run")
		if _, err := r.store.StartEpoch(t.Context(), tenant, "epoch", ""); err != nil {
			t.Fatal(err)
		}
		var down atomic.Bool
		down.Store(true)
		r.ledger.OnCall(func(op string) {
			if down.Load() && op == "rewrap" {
				r.ledger.Fail("rewrap", 1, ledgerfaulty.Before, blobd.ErrUnavailable)
			}
		})
		stop := run(r.epochs("a", retention.EpochOptions{}).Run)
		pass(24 * time.Hour)
		e := r.listEpochs(t)[0]
		if e.State != ledger.EpochRewrapping || e.LastError != blobd.ErrUnavailable.Error() || e.Attempts < 100 || e.Attempts > 1000 {
			t.Errorf("after a day: %+v", e)
		}
		down.Store(false)
		pass(time.Hour)
		if e := r.listEpochs(t)[0]; e.State != ledger.EpochWaiting || e.LastError != "" || e.Version != 2 {
			t.Errorf("%+v", e)
		}
		_ = stop()
	})
}

// TestRewrappingKeepsItsRateAndItsLease: 200 keys at one a second take longer
// than a lease, and nobody else gets the epoch meanwhile.
func TestRewrappingKeepsItsRateAndItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, time.Now)
		for i := range 200 {
			r.put(t, fmt.Sprint("run ", i))
		}
		if _, err := r.store.StartEpoch(t.Context(), tenant, "epoch", ""); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		stop := run(r.epochs("a", retention.EpochOptions{Rate: 1}).Run)
		other := r.epochs("b", retention.EpochOptions{})
		for range 19 {
			pass(10 * time.Second)
			if worked, err := other.RunOne(t.Context()); worked || err != nil {
				t.Fatalf("another worker got the epoch after %v (%v)", time.Since(begun), err)
			}
		}
		if e := r.listEpochs(t)[0]; e.Rewrapped < 180 || e.Rewrapped > 195 {
			t.Errorf("%d keys in %v", e.Rewrapped, time.Since(begun))
		}
		pass(time.Minute)
		if e := r.listEpochs(t)[0]; e.State != ledger.EpochWaiting || e.Attempts != 1 {
			t.Errorf("%+v", e)
		}
		_ = stop()
	})
}

// TestAnEpochThatWasCutShortGoesOn with the next process, at once.
func TestAnEpochThatWasCutShortGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, time.Now)
		for i := range 150 {
			r.put(t, fmt.Sprint("run ", i))
		}
		if _, err := r.store.StartEpoch(t.Context(), tenant, "epoch", ""); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		r.ledger.OnCall(func(op string) {
			if op == "rewrap" {
				cancel() // of the first batch, which still lands or not
			}
		})
		if _, err := r.epochs("a", retention.EpochOptions{}).RunOne(ctx); err != nil {
			t.Fatal(err)
		}
		r.ledger.OnCall(nil)
		if e := r.listEpochs(t)[0]; e.State != ledger.EpochRewrapping || e.Rewrapped > 100 {
			t.Fatalf("%+v", e)
		}
		if worked, err := r.epochs("b", retention.EpochOptions{}).RunOne(t.Context()); !worked || err != nil {
			t.Fatalf("worked %v, %v", worked, err)
		}
		if e := r.listEpochs(t)[0]; e.State != ledger.EpochWaiting || e.Rewrapped != 151 || e.Version != 2 {
			t.Errorf("%+v", e)
		}
	})
}

// TestOnlyWantedEpochsRun: another's waits as it was, for whoever asks next, and
// asking ends.
func TestOnlyWantedEpochsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, time.Now)
		r.put(t, "run")
		if _, err := r.store.StartEpoch(t.Context(), tenant, "epoch", ""); err != nil {
			t.Fatal(err)
		}
		picky := r.epochs("a", retention.EpochOptions{Wants: func(e ledger.Epoch) bool { return e.Tenant != tenant }})
		if worked, err := picky.RunOne(t.Context()); !worked || err != nil {
			t.Fatalf("worked %v, %v", worked, err)
		}
		if worked, err := picky.RunOne(t.Context()); worked || err != nil {
			t.Fatalf("asked again: worked %v, %v", worked, err)
		}
		if e := r.listEpochs(t)[0]; e.State != ledger.EpochRotating || e.LastError != "" {
			t.Fatalf("%+v", e)
		}
		pass(retention.PollInterval)
		if worked, err := r.epochs("b", retention.EpochOptions{}).RunOne(t.Context()); !worked || err != nil {
			t.Fatalf("worked %v, %v", worked, err)
		}
		if e := r.listEpochs(t)[0]; e.State != ledger.EpochWaiting {
			t.Errorf("%+v", e)
		}
	})
}
