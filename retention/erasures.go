// Package retention runs what runs by itself: today the second half of
// erasures; sweeps, holds and clocks build on the same leased rows.
//
// It promises that a job is never discarded: it is tried until it is finished,
// by whichever node holds its lease, and survives a kill at any step. It never
// decides what may be deleted; the transaction that fenced did.
package retention

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/store"
)

// Lease times. A worker renews before half of its lease is gone; a node that
// died gives its jobs up after a whole one.
const (
	LeaseTime    = time.Minute
	PollInterval = time.Second
	maxBackoff   = 5 * time.Minute
)

// Erasures runs the second half of erasures.
type Erasures struct {
	store  *store.Store
	ledger ledger.Ledger
	owner  string // this process, among the nodes
	now    func() time.Time
	log    *slog.Logger
	wake   chan struct{}
}

// NewErasures builds the runner. owner names this process.
func NewErasures(s *store.Store, l ledger.Ledger, owner string, now func() time.Time, log *slog.Logger) *Erasures {
	return &Erasures{store: s, ledger: l, owner: owner, now: now, log: log, wake: make(chan struct{}, 1)}
}

// Wake tells the runner that a job was inserted, so that it need not wait for
// its next poll. It never blocks.
func (e *Erasures) Wake() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// Run works until ctx ends, and returns its cause.
func (e *Erasures) Run(ctx context.Context) error {
	tick := time.NewTicker(PollInterval)
	defer tick.Stop()
	for {
		if err := e.drain(ctx); err != nil && ctx.Err() == nil {
			e.log.Warn("erasures wait", "error", err)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		case <-e.wake:
		}
	}
}

// drain runs every job that is due.
func (e *Erasures) drain(ctx context.Context) error {
	if err := e.store.Serving(); err != nil {
		return nil // said by readiness
	}
	for ctx.Err() == nil {
		worked, err := e.RunOne(ctx)
		if err != nil || !worked {
			return err
		}
	}
	return nil
}

// RunOne claims and runs one job that is due; false: there was none. A job that
// fails is postponed with a back-off and is no error.
func (e *Erasures) RunOne(ctx context.Context) (bool, error) {
	now := e.now().UTC()
	job, err := e.ledger.Claim(ctx, e.owner, now, now.Add(LeaseTime))
	if errors.Is(err, blobd.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("claim an erasure: %w", err)
	}
	if p, err := e.run(ctx, job); err != nil {
		return true, e.postpone(ctx, job, p, err)
	}
	return true, nil
}

// run works on one job. A panic is a failure of this job and of nothing else.
func (e *Erasures) run(ctx context.Context, job ledger.Job) (progress ledger.Progress, err error) {
	defer func() {
		if p := recover(); p != nil {
			progress, err = job.Erasure.Progress, fmt.Errorf("panic in an erasure (%T)", p)
		}
	}()
	var mu sync.Mutex // guards until
	until := job.Lease.Until
	renew := func(ctx context.Context) error {
		mu.Lock()
		defer mu.Unlock()
		now := e.now().UTC()
		if until.Sub(now) > LeaseTime/2 {
			return ctx.Err()
		}
		next := now.Add(LeaseTime)
		if err := e.ledger.Renew(ctx, job.Lease, next); err != nil {
			return err
		}
		until = next
		return nil
	}
	ctx, stop := keepLease(ctx, renew)
	defer stop()
	return e.store.FinishErasure(ctx, job, renew)
}

// keepLease renews aside, for steps that take longer than a lease: the deletion of
// all that a tenant had is one. A lease that went to another worker ends ctx.
func keepLease(ctx context.Context, renew func(context.Context) error) (kept context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	var aside sync.WaitGroup
	aside.Go(func() {
		tick := time.NewTicker(LeaseTime / 4)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if err := renew(ctx); errors.Is(err, blobd.ErrConflict) {
				cancel(err)
			}
		}
	})
	return ctx, func() {
		cancel(nil)
		aside.Wait()
	}
}

// handBackTime bounds the wait for the ledger when a job is given back.
const handBackTime = 5 * time.Second

// postpone tries a failed job again later, for ever. A job that was cut short by
// the end of this process is due at once, for the next one.
func (e *Erasures) postpone(ctx context.Context, job ledger.Job, p ledger.Progress, cause error) error {
	due := e.now().UTC()
	switch {
	case ctx.Err() != nil:
	case errors.Is(cause, blobd.ErrConflict): // what is in the way is soon over
		due = due.Add(PollInterval)
	default:
		due = due.Add(delay(job.Erasure.Attempts))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), handBackTime)
	defer cancel()
	e.log.Warn("erasure postponed", "erasure", job.Erasure.ID, "attempts", job.Erasure.Attempts, "error", cause)
	p.LastError = word(cause)
	err := e.ledger.Postpone(ctx, job.Lease, due, p, nil)
	if errors.Is(err, blobd.ErrConflict) {
		return nil // another worker has it, or it was finished
	}
	return err
}

// delay is the back-off after so many attempts, jittered.
func delay(attempts int64) time.Duration {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval = time.Second
	b.MaxInterval = maxBackoff
	d := b.NextBackOff()
	for range min(attempts, 16) {
		d = b.NextBackOff()
	}
	return d
}

// word says an error in a word of the closed set.
func word(err error) string {
	for _, e := range []error{
		blobd.ErrCorrupt, blobd.ErrDenied, blobd.ErrHeld, blobd.ErrMissing, blobd.ErrConflict, blobd.ErrUnavailable,
	} {
		if errors.Is(err, e) {
			return e.Error()
		}
	}
	return "unclassified"
}
