package main

import (
	"context"
	"strconv"
	"time"

	"github.com/blobd/blobd/api"
	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/retention"
	"github.com/blobd/blobd/store"
)

// scheduleNone is a schedule that starts nothing.
const scheduleNone = "none"

// decodeSweeps reads how sweeps are run.
func (c *config) decodeSweeps() (errs []error) {
	text := c.values.String
	whole := func(key string, most int64, means string) int64 {
		n, err := strconv.ParseInt(text(key), 10, 64)
		if err != nil || n < 0 || n > most {
			errs = append(errs, c.wrong(key, means))
		}
		return n
	}
	const many = 1 << 40
	o := retention.SweepOptions{
		Rate: int(whole("sweep.rate", 1<<30, "wants a whole number of blobs a second; 0: no bound")),
		Breaker: store.Breaker{
			Percent: whole("sweep.breakerPercent", 100, "wants 0 to 100; 0: no bound"),
			Blobs:   whole("sweep.breakerBlobs", many, "wants a whole number of blobs; 0: no bound"),
			Never:   whole("sweep.breakerNever", many, "wants a whole number of blobs"),
		},
	}
	jump, err := time.ParseDuration(text("sweep.maxGap"))
	if err != nil || jump < 0 {
		errs = append(errs, c.wrong("sweep.maxGap", "wants a duration like 168h; 0: no bound"))
	}
	o.Jump = jump
	if spec := text("sweep.cron"); spec != scheduleNone {
		if o.Schedule, err = retention.ParseSchedule(spec); err != nil || o.Schedule == nil {
			errs = append(errs, c.wrong("sweep.cron", "wants five fields of cron or a word like @daily, after CRON_TZ=Zone if need be, or none"))
		}
	}
	c.Sweeps = o
	return errs
}

// minimumJump is the least bound of a jump: a reading may be old by what a slow answer of
// the ledger takes.
const minimumJump = time.Minute

// decodeClockWatch reads how far the ledger's clock may jump.
func (c *config) decodeClockWatch() []error {
	var err error
	c.MaxJump, err = time.ParseDuration(c.values.String("clock.maxJump"))
	if err != nil || c.MaxJump != 0 && c.MaxJump < minimumJump {
		return []error{c.wrong("clock.maxJump", "wants a duration like 1h, no less than 1m; 0: no bound")}
	}
	return nil
}

// clockWatch watches the ledger's clock by the monotonic readings of now, which no setting
// of a clock moves; nil: no bound is set.
func clockWatch(cfg config, now func() time.Time) *ledger.Watch {
	if cfg.MaxJump == 0 {
		return nil
	}
	began := now()
	return ledger.NewWatch(cfg.MaxJump, cfg.Sweeps.Jump, func() time.Duration { return now().Sub(began) })
}

// StartSweep starts a sweep, and wakes the runner.
func (w waking) StartSweep(ctx context.Context, n store.NewSweep) (ledger.Sweep, error) {
	s, err := w.Store.StartSweep(ctx, n)
	w.sweeps.Wake()
	return s, err
}

// retentionStats is what metrics tell of retention.
func retentionStats(w *retention.Sweeps) func() api.RetentionStats {
	return func() api.RetentionStats {
		s := w.Stats()
		out := api.RetentionStats{
			Debt: make(map[string]int64, len(s.Debt)), CountedAt: s.CountedAt, LastSweep: s.LastDone,
			Erased: s.Erased, Failed: s.Failed, Stopped: s.Stopped,
		}
		for reason, n := range s.Debt {
			out.Debt[string(reason)] = n
		}
		return out
	}
}
