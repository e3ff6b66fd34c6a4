package retention

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/robfig/cron/v3"
	"golang.org/x/time/rate"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/store"
)

// rewrapBatch is how many keys an epoch re-wraps in one step.
const rewrapBatch = 100

// scheduleInterval is how often the schedule is looked at.
const scheduleInterval = 30 * time.Second

// EpochOptions tune Epochs.
type EpochOptions struct {
	// Horizon is how long backups of the ledger are kept.
	Horizon time.Duration
	// Rate is how many keys are re-wrapped per second; 0: as many as can be.
	Rate int
	// Schedule starts an epoch of every tenant; nil: epochs are started by hand.
	Schedule cron.Schedule
	// Wants picks the epochs to run, if set: others are left to whoever asks for
	// them next, PollInterval later.
	Wants func(e ledger.Epoch) bool
	// Progress is told after each batch of an epoch, if set.
	Progress func(e ledger.Epoch, done, total int64)
}

// Epochs runs key epochs, and starts them by the schedule.
type Epochs struct {
	store   *store.Store
	ledger  ledger.Ledger
	owner   string // this process, among the nodes
	o       EpochOptions
	limiter *rate.Limiter
	now     func() time.Time
	log     *slog.Logger
}

// NewEpochs builds the runner. owner names this process.
func NewEpochs(s *store.Store, l ledger.Ledger, owner string, o EpochOptions, now func() time.Time, log *slog.Logger) *Epochs {
	limit := rate.Inf
	if o.Rate > 0 {
		limit = rate.Limit(o.Rate)
	}
	return &Epochs{store: s, ledger: l, owner: owner, o: o, limiter: rate.NewLimiter(limit, max(1, o.Rate)), now: now, log: log}
}

// Run works until ctx ends, and returns its cause.
func (e *Epochs) Run(ctx context.Context) error {
	poll := time.NewTicker(PollInterval)
	defer poll.Stop()
	var looked time.Time
	for {
		if now := e.now(); now.Sub(looked) >= scheduleInterval || now.Before(looked) {
			looked = now
			if err := e.Schedule(ctx); err != nil && ctx.Err() == nil {
				e.log.Warn("key epochs are not scheduled", "error", err)
			}
		}
		if err := e.drain(ctx); err != nil && ctx.Err() == nil {
			e.log.Warn("key epochs wait", "error", err)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-poll.C:
		}
	}
}

func (e *Epochs) drain(ctx context.Context) error {
	for ctx.Err() == nil {
		worked, err := e.RunOne(ctx)
		if err != nil || !worked {
			return err
		}
	}
	return nil
}

// Schedule starts the epochs that are due. A tenant's is due at the first time of
// the schedule after its last epoch began, or after the tenant was made, so that
// one that fell into a stop is made up for, once. All nodes come to the same id,
// so that only one epoch is started.
func (e *Epochs) Schedule(ctx context.Context) error {
	if e.o.Schedule == nil || e.store.Serving() != nil {
		return nil
	}
	for after := ""; ; {
		const page = 100
		tenants, err := e.ledger.ListTenants(ctx, after, page)
		if err != nil {
			return err
		}
		for _, t := range tenants {
			after = t.ID
			if t.Fenced() {
				continue // off-boarded: its epochs ended
			}
			if err := e.schedule(ctx, t); err != nil {
				return fmt.Errorf("tenant %q: %w", t.ID, err)
			}
		}
		if len(tenants) < page {
			return nil
		}
	}
}

func (e *Epochs) schedule(ctx context.Context, t ledger.Tenant) error {
	last := t.CreatedAt
	newest, err := e.ledger.ListEpochs(ctx, ledger.EpochQuery{Tenant: t.ID, Limit: 1})
	if err != nil {
		return err
	}
	if len(newest) > 0 {
		last = newest[0].StartedAt
	}
	due := e.o.Schedule.Next(last.UTC())
	if due.IsZero() || e.now().Before(due) {
		return nil
	}
	name := sha256.Sum256([]byte(t.ID + "\x00" + due.UTC().Format(time.RFC3339)))
	id := uuid.NewSHA1(uuid.UUID(name[:16]), name[:])
	_, err = e.store.StartEpoch(ctx, t.ID, id.String(), "")
	if errors.Is(err, blobd.ErrConflict) {
		return nil // the one before is not complete yet
	}
	return err
}

// RunOne claims and runs one epoch that is due; false: there was none. An epoch
// that fails is postponed with a back-off and is no error.
func (e *Epochs) RunOne(ctx context.Context) (bool, error) {
	if e.store.Serving() != nil {
		return false, nil // said by readiness
	}
	now := e.now().UTC()
	job, err := e.ledger.ClaimEpoch(ctx, e.owner, now, now.Add(LeaseTime))
	if errors.Is(err, blobd.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("claim an epoch: %w", err)
	}
	if e.o.Wants != nil && !e.o.Wants(job.Epoch) {
		return true, e.leave(ctx, job, now.Add(PollInterval))
	}
	if err := e.run(ctx, job); err != nil {
		return true, e.postpone(ctx, job, err)
	}
	return true, nil
}

// leave gives an epoch back as it was.
func (e *Epochs) leave(ctx context.Context, job ledger.EpochJob, due time.Time) error {
	err := e.ledger.MoveEpoch(ctx, job.Lease, ledger.EpochMove{To: job.Epoch.State, Due: due, LastError: job.Epoch.LastError})
	if errors.Is(err, blobd.ErrConflict) {
		return nil // another worker has it, or it was finished
	}
	return err
}

// run works on one epoch. A panic is a failure of this epoch and of nothing else.
func (e *Epochs) run(ctx context.Context, job ledger.EpochJob) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic in an epoch (%T)", p)
		}
	}()
	o := store.EpochOptions{Horizon: e.o.Horizon, Lease: LeaseTime, Wait: e.limiter.WaitN, Batch: rewrapBatch}
	if e.o.Rate > 0 {
		o.Batch = min(rewrapBatch, e.o.Rate)
	}
	if e.o.Progress != nil {
		o.Progress = func(done, total int64) { e.o.Progress(job.Epoch, done, total) }
	}
	return e.store.RunEpoch(ctx, job, o)
}

// postpone tries a failed epoch again later, for ever. One that was cut short by
// the end of this process is due at once, for the next one.
func (e *Epochs) postpone(ctx context.Context, job ledger.EpochJob, cause error) error {
	due := e.now().UTC()
	switch {
	case ctx.Err() != nil:
	case errors.Is(cause, blobd.ErrConflict): // what is in the way is soon over
		due = due.Add(PollInterval)
	default:
		due = due.Add(delay(job.Epoch.Attempts))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), handBackTime)
	defer cancel()
	e.log.Warn("key epoch postponed", "epoch", job.Epoch.ID, "attempts", job.Epoch.Attempts, "error", cause)
	state, err := e.state(ctx, job.Epoch)
	if err != nil {
		return err
	}
	err = e.ledger.MoveEpoch(ctx, job.Lease, ledger.EpochMove{To: state, Due: due, LastError: word(cause)})
	if errors.Is(err, blobd.ErrConflict) {
		return nil // another worker has it, or it was finished
	}
	return err
}

// state is where the epoch stands now: the run may have moved it before it failed.
func (e *Epochs) state(ctx context.Context, was ledger.Epoch) (ledger.EpochState, error) {
	es, err := e.ledger.ListEpochs(ctx, ledger.EpochQuery{Tenant: was.Tenant, Limit: 100})
	if err != nil {
		return 0, err
	}
	for _, now := range es {
		if now.ID == was.ID {
			return now.State, nil
		}
	}
	return was.State, nil
}
