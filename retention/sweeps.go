package retention

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/robfig/cron/v3"
	"golang.org/x/time/rate"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/store"
)

// MaxSweepBatch bounds the blobs of one batch, so that its entry of evidence fits
// into a leaf of the log.
const MaxSweepBatch = 256

// SweepOptions tune Sweeps.
type SweepOptions struct {
	// Schedule starts a sweep of every tenant; nil: sweeps are started by hand.
	Schedule cron.Schedule
	// Rate is how many blobs are erased per second; 0: as many as can be.
	Rate    int
	Breaker store.Breaker
	// Jump is how long a tenant's last sweep may be ago, if the schedule's own
	// distance is not half of that: past it the clock may have jumped, and what only
	// time made due cannot be brought back, so the schedule sweeps no more until a
	// sweep was started by hand. 0: no bound.
	Jump time.Duration
}

// Sweeps runs sweeps, and starts them by the schedule.
type Sweeps struct {
	store   *store.Store
	ledger  ledger.Ledger
	owner   string // this process, among the nodes
	o       SweepOptions
	limiter *rate.Limiter
	now     func() time.Time
	log     *slog.Logger
	wake    chan struct{}

	mu    sync.Mutex
	stats SweepStats           // guarded by mu
	told  map[string]time.Time // guarded by mu; by tenant, the time whose jump was told
}

// NewSweeps builds the runner. owner names this process.
func NewSweeps(s *store.Store, l ledger.Ledger, owner string, o SweepOptions, now func() time.Time, log *slog.Logger) *Sweeps {
	limit := rate.Inf
	if o.Rate > 0 {
		limit = rate.Limit(o.Rate)
	}
	return &Sweeps{
		store: s, ledger: l, owner: owner, o: o, limiter: rate.NewLimiter(limit, max(1, o.Rate)), now: now, log: log,
		wake: make(chan struct{}, 1), told: make(map[string]time.Time),
	}
}

// Wake tells the runner that a sweep was started. It never blocks.
func (w *Sweeps) Wake() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Run works until ctx ends, and returns its cause.
func (w *Sweeps) Run(ctx context.Context) error {
	poll := time.NewTicker(PollInterval)
	defer poll.Stop()
	var looked, counted time.Time
	for {
		if now := w.now(); now.Sub(looked) >= scheduleInterval || now.Before(looked) {
			looked = now
			if err := w.Schedule(ctx); err != nil && ctx.Err() == nil {
				w.log.Warn("sweeps are not scheduled", "error", err)
			}
		}
		worked, err := w.drain(ctx)
		if err != nil && ctx.Err() == nil {
			w.log.Warn("sweeps wait", "error", err)
		}
		if now := w.now(); worked || now.Sub(counted) >= debtInterval || now.Before(counted) {
			counted = now
			if err := w.CountDebt(ctx); err != nil && ctx.Err() == nil {
				w.log.Warn("retention debt is not counted", "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-poll.C:
		case <-w.wake:
		}
	}
}

func (w *Sweeps) drain(ctx context.Context) (worked bool, err error) {
	for ctx.Err() == nil {
		again, err := w.RunOne(ctx)
		if err != nil || !again {
			return worked, err
		}
		worked = true
	}
	return worked, nil
}

// Schedule starts the sweeps that are due; see Next. A tenant whose sweep cannot be
// started never keeps the others from theirs. While the clock is suspect it starts none.
func (w *Sweeps) Schedule(ctx context.Context) error {
	if w.o.Schedule == nil || w.store.Serving() != nil {
		return nil
	}
	if c, err := w.store.LookAtClock(ctx); err != nil || c.Suspect() {
		return err // the store tells that it is suspect
	}
	var errs []error
	err := w.eachTenant(ctx, func(t ledger.Tenant) error {
		if err := w.schedule(ctx, t); err != nil {
			errs = append(errs, fmt.Errorf("tenant %q: %w", t.ID, err))
		}
		return ctx.Err()
	})
	return errors.Join(append(errs, err)...)
}

// Next returns when the schedule sweeps a tenant next: at its first time after the
// tenant's last sweep began, or after the tenant was made. So one that fell into a
// stop is made up for, once. Zero: never.
func (w *Sweeps) Next(ctx context.Context, t ledger.Tenant) (time.Time, error) {
	if w.o.Schedule == nil || t.Fenced() {
		return time.Time{}, nil
	}
	last, _, err := w.last(ctx, t)
	if err != nil {
		return time.Time{}, err
	}
	return w.o.Schedule.Next(last.UTC()), nil
}

// last returns when the tenant's newest sweep began, and whether it still runs; or
// when the tenant was made.
func (w *Sweeps) last(ctx context.Context, t ledger.Tenant) (at time.Time, runs bool, err error) {
	newest, err := w.ledger.ListSweeps(ctx, ledger.SweepQuery{Tenant: t.ID, Limit: 1})
	if err != nil || len(newest) == 0 {
		return t.CreatedAt, false, err
	}
	return newest[0].StartedAt, newest[0].State == ledger.SweepRunning, nil
}

func (w *Sweeps) schedule(ctx context.Context, t ledger.Tenant) error {
	last, runs, err := w.last(ctx, t)
	if err != nil || runs {
		return err
	}
	due, now := w.o.Schedule.Next(last.UTC()), w.now().UTC()
	if due.IsZero() || now.Before(due) {
		if now.Before(last.Add(-clockTolerance)) {
			w.log.Warn("the clock is behind the last sweep", "tenant", t.ID, "lastSweep", last)
		}
		return nil
	}
	if w.jumped(last, now) {
		if w.tell(t.ID, due) {
			w.log.Error("no sweep: the clock may have jumped; start one by hand to say that it is right",
				"tenant", t.ID, "lastSweep", last)
		}
		return nil
	}
	name := sha256.Sum256([]byte("sweep\x00" + t.ID + "\x00" + due.UTC().Format(time.RFC3339)))
	id := uuid.NewSHA1(uuid.UUID(name[:16]), name[:]) // all nodes come to the same
	_, err = w.store.StartSweep(ctx, store.NewSweep{Tenant: t.ID, ID: id.String(), Trigger: ledger.TriggerSchedule})
	if errors.Is(err, blobd.ErrConflict) {
		return nil // one was started by hand meanwhile
	}
	return err
}

// tell reports whether a tenant's jump is to be told: once for each time.
func (w *Sweeps) tell(tenant string, due time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.told[tenant].Equal(due) {
		return false
	}
	w.told[tenant] = due
	return true
}

// clockTolerance is how far two clocks may differ without a word.
const clockTolerance = time.Minute

// jumped reports whether now is further from the tenant's last sweep than a stop
// explains. No other sign of the time counts: whatever is written after a jump bears
// the new time.
func (w *Sweeps) jumped(last, now time.Time) bool {
	if w.o.Jump <= 0 {
		return false
	}
	return now.Sub(last) > max(w.o.Jump, 2*w.o.Schedule.Next(last.UTC()).Sub(last))
}

// RunOne claims and runs one sweep that is due; false: there was none. A sweep that
// fails is postponed with a back-off and is no error.
func (w *Sweeps) RunOne(ctx context.Context) (bool, error) {
	if w.store.Serving() != nil {
		return false, nil // said by readiness
	}
	now := w.now().UTC()
	job, err := w.ledger.ClaimSweep(ctx, w.owner, now, now.Add(LeaseTime))
	if errors.Is(err, blobd.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("claim a sweep: %w", err)
	}
	if err := w.run(ctx, job); err != nil {
		return true, w.postpone(ctx, job, err)
	}
	w.report(ctx, job)
	return true, nil
}

// run works on one sweep. A panic is a failure of this sweep and of nothing else.
func (w *Sweeps) run(ctx context.Context, job ledger.SweepJob) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic in a sweep (%T)", p)
		}
	}()
	o := store.SweepOptions{Lease: LeaseTime, Wait: w.waiting(job.Sweep), Batch: MaxSweepBatch, Breaker: w.o.Breaker}
	if w.o.Rate > 0 {
		o.Batch = min(MaxSweepBatch, w.o.Rate)
	}
	return w.store.RunSweep(ctx, job, o)
}

// waiting keeps to the rate. A sweep that the schedule started goes no further while the
// clock is suspect; one that was started by hand is an operator's word.
func (w *Sweeps) waiting(s ledger.Sweep) func(context.Context, int) error {
	return func(ctx context.Context, n int) error {
		if s.Trigger == ledger.TriggerSchedule && w.store.ClockSuspect() {
			return blobd.ErrClockSuspect
		}
		return w.limiter.WaitN(ctx, n)
	}
}

// report says how a sweep ended.
func (w *Sweeps) report(ctx context.Context, job ledger.SweepJob) {
	s, err := w.ledger.Sweep(ctx, job.Sweep.Tenant, job.Sweep.ID)
	if err != nil || s.State == ledger.SweepRunning {
		return
	}
	w.count(s)
	level := slog.LevelInfo
	if s.State == ledger.SweepStopped || s.Failed > 0 {
		level = slog.LevelError
	}
	w.log.Log(ctx, level, "sweep", "sweep", s.ID, "tenant", s.Tenant, "state", s.State, "due", s.Plan.Due(),
		"erased", s.Erased, "held", s.Plan.Held, "floor", s.Plan.Floor, "review", s.Plan.Review, "failed", s.Failed)
}

// postpone tries a failed sweep again later, for ever. One that was cut short by
// the end of this process is due at once, for the next one.
func (w *Sweeps) postpone(ctx context.Context, job ledger.SweepJob, cause error) error {
	due := w.now().UTC()
	switch {
	case ctx.Err() != nil:
	case errors.Is(cause, blobd.ErrConflict): // what is in the way is soon over
		due = due.Add(PollInterval)
	default:
		due = due.Add(delay(job.Sweep.Attempts))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), handBackTime)
	defer cancel()
	w.log.Warn("sweep postponed", "sweep", job.Sweep.ID, "attempts", job.Sweep.Attempts, "error", cause)
	err := w.ledger.MoveSweep(ctx, job.Lease, ledger.SweepMove{To: ledger.SweepRunning, Due: due, LastError: word(cause)})
	if errors.Is(err, blobd.ErrConflict) {
		return nil // another worker has it, or it was finished
	}
	return err
}
