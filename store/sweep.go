package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/evidence"
	"github.com/blobd/blobd/ledger"
)

// NewSweep asks for a sweep of a tenant.
type NewSweep struct {
	Tenant  string
	ID      string // unique for ever; repeating it does nothing. "" makes one
	Trigger string
	Actor   string // token id; "" for blobd itself
	Confirm int64  // how many blobs may be erased whatever the breaker says
}

// StartSweep starts a sweep, which a worker then runs; see RunSweep. While another
// sweep of the tenant runs it is ErrConflict.
func (s *Store) StartSweep(ctx context.Context, n NewSweep) (ledger.Sweep, error) {
	if err := s.serving(); err != nil {
		return ledger.Sweep{}, fmt.Errorf("start a sweep: %w", err)
	}
	t, err := s.Tenant(ctx, n.Tenant)
	if err != nil {
		return ledger.Sweep{}, fmt.Errorf("start a sweep: %w", err)
	}
	if n.ID == "" {
		id, err := uuid.NewRandomFromReader(s.Random)
		if err != nil {
			return ledger.Sweep{}, fmt.Errorf("start a sweep: %w", err)
		}
		n.ID = id.String()
	}
	now := s.Now().UTC()
	entry, err := s.scribe(t).SweepStarted(now, n.ID, n.Trigger, n.Actor)
	if err != nil {
		return ledger.Sweep{}, fmt.Errorf("start a sweep: %w", err)
	}
	w, err := s.Ledger.StartSweep(ctx, ledger.NewSweep{
		ID: n.ID, Tenant: n.Tenant, Trigger: n.Trigger, RequestedBy: n.Actor, Confirm: n.Confirm, RunAt: now, Entry: entry,
	})
	if err != nil {
		return ledger.Sweep{}, fmt.Errorf("start a sweep: %w", err)
	}
	return w, nil
}

// PlanSweep counts what a sweep of a tenant would do now, and changes nothing. Like a
// sweep it goes by the ledger's clock as it is.
func (s *Store) PlanSweep(ctx context.Context, tenant string) (ledger.Tally, error) {
	if err := s.serving(); err != nil {
		return ledger.Tally{}, fmt.Errorf("plan a sweep: %w", err)
	}
	classes, err := s.classes(ctx, tenant)
	if err != nil {
		return ledger.Tally{}, fmt.Errorf("plan a sweep: %w", err)
	}
	note, err := s.Ledger.ClockNote(ctx)
	if err != nil {
		return ledger.Tally{}, fmt.Errorf("plan a sweep: %w", err)
	}
	t, err := s.tally(ctx, tenant, classes, note.Now)
	if err != nil {
		return t, fmt.Errorf("plan a sweep: %w", err)
	}
	return t, nil
}

// Breaker stops a sweep that would delete more than one should: a policy that was
// mistyped, a clock that jumped.
type Breaker struct {
	// Percent is the largest part of what the tenant stores; 0 or 100: no bound.
	Percent int64
	// Blobs is the largest number; 0: no bound.
	Blobs int64
	// Never is the number below which no sweep is stopped.
	Never int64
}

// stops reports whether the breaker stops a plan. Counting what is stored ends
// once there is enough of it, so that its time grows with the plan alone.
func (b Breaker) stops(ctx context.Context, l ledger.Ledger, s ledger.Sweep) (bool, error) {
	n := s.Plan.Erase
	switch {
	case n < b.Never || n == 0 || n <= s.Confirm:
		return false, nil
	case b.Blobs > 0 && n > b.Blobs:
		return true, nil
	case b.Percent <= 0 || b.Percent >= 100:
		return false, nil
	}
	enough := (n*100 + b.Percent - 1) / b.Percent
	stored, err := l.CountStored(ctx, s.Tenant, enough)
	return stored < enough, err
}

// SweepOptions say how a sweep is run. All fields are required.
type SweepOptions struct {
	// Lease is how long each renewal keeps the job.
	Lease time.Duration
	// Wait blocks until n more blobs may be erased.
	Wait func(ctx context.Context, n int) error
	// Batch is how many blobs are erased at once, 1 to ledger.MaxExpiry.
	Batch   int
	Breaker Breaker
}

// RunSweep takes a claimed sweep as far as it gets now, under its lease:
//
//	plan: count the verdicts → breaker → in batches: drop keys, one entry of
//	evidence → make them unreadable → delete objects → read back → bury
//
// The plan is what the rows, the policies of the sweep's start and its moment say;
// nothing else is deleted. Each step is in the ledger before the next begins and
// can be repeated, so a run that was cut short is resumed by the next. Objects that
// the store keeps are counted, found again by the next sweep, and never in the way
// of others. Where a put that began before the end of a maximum may still be
// writing, the deletion is repeated after the put margin.
//
// It returns nil once the sweep has ended or waits for the margin. ErrConflict says
// that the lease went to another worker; any other error that the sweep is to be
// run again.
func (s *Store) RunSweep(ctx context.Context, job ledger.SweepJob, o SweepOptions) error {
	w := &sweeper{Store: s, o: o, s: job.Sweep, lease: job.Lease}
	if err := w.run(ctx); err != nil {
		return fmt.Errorf("run a sweep: %w", err)
	}
	return nil
}

// sweeper is one run of a sweep. One goroutine owns it.
type sweeper struct {
	*Store
	o       SweepOptions
	tenant  ledger.Tenant
	s       ledger.Sweep
	lease   ledger.SweepLease
	classes []ledger.Class // with the policies of the sweep's start

	left    int64 // of the plan
	late    bool  // objects of this pass may still be written
	failed  int64
	refused []ledger.Refused
}

func (w *sweeper) run(ctx context.Context) (err error) {
	if w.tenant, err = w.Tenant(ctx, w.s.Tenant); err != nil {
		return err
	}
	if w.classes, err = w.Store.classes(ctx, w.s.Tenant); err != nil {
		return err
	}
	for i := range w.classes {
		w.classes[i].Policies = ledger.UpTo(w.classes[i].Policies, w.s.Version)
	}
	if !w.s.Planned {
		stopped, err := w.plan(ctx)
		if err != nil || stopped {
			return err
		}
	}
	if err := w.erase(ctx); err != nil {
		return err
	}
	return w.end(ctx)
}

// plan counts, and asks the breaker.
func (w *sweeper) plan(ctx context.Context) (stopped bool, err error) {
	var t ledger.Tally
	err = w.walkDue(ctx, w.s.Tenant, w.classes, w.s.At, func(versions []ledger.Policy, page []ledger.DueRow) error {
		t.AddAll(page, versions, w.s.At)
		return w.alive(ctx)
	})
	if err != nil {
		return false, err
	}
	w.s.Plan, w.s.Planned = t, true
	if stopped, err = w.o.Breaker.stops(ctx, w.Ledger, w.s); err != nil {
		return false, err
	}
	if stopped {
		return true, w.move(ctx, ledger.SweepMove{To: ledger.SweepStopped, Plan: &t}, evidence.StepSweepStopped)
	}
	return false, w.move(ctx, ledger.SweepMove{To: ledger.SweepRunning, Plan: &t}, evidence.StepSweepPlanned)
}

// erase is one pass: it finishes what was expired before, then does the rest of the
// plan.
func (w *sweeper) erase(ctx context.Context) error {
	w.left = w.s.Plan.Erase - w.s.Erased
	var batch []ledger.DueRow
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		err := w.batch(ctx, batch)
		batch = batch[:0]
		return err
	}
	err := w.walkDue(ctx, w.s.Tenant, w.classes, w.s.At, func(versions []ledger.Policy, page []ledger.DueRow) error {
		if err := w.alive(ctx); err != nil {
			return err
		}
		for i := range page {
			r := &page[i]
			if !w.takes(r, versions) {
				continue
			}
			w.left--
			if batch = append(batch, *r); len(batch) < w.o.Batch {
				continue
			}
			if err := flush(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return flush()
}

// takes reports whether a row goes, by the plan. A row that a late commit brought
// is left to the next sweep: no more goes than was planned.
func (w *sweeper) takes(r *ledger.DueRow, versions []ledger.Policy) bool {
	verdict, _ := ledger.Judge(r, versions, w.s.At)
	return verdict == ledger.VerdictErase && (w.left > 0 || r.State == ledger.BlobExpired)
}

// end finishes the sweep, or waits for the margin of what may still be written.
func (w *sweeper) end(ctx context.Context) error {
	if w.late {
		return w.Ledger.MoveSweep(ctx, w.lease, ledger.SweepMove{To: ledger.SweepRunning, Due: w.s.LateUntil, Failed: w.failed, Refused: w.refused})
	}
	w.s.Failed = w.failed
	return w.move(ctx, ledger.SweepMove{To: ledger.SweepDone}, evidence.StepSweepDone)
}

// move makes a step with its entry; one that goes on renews the lease.
func (w *sweeper) move(ctx context.Context, m ledger.SweepMove, step string) error {
	now := w.Now().UTC()
	entry, err := w.scribe(w.tenant).Sweep(now, step, w.s)
	if err != nil {
		return err
	}
	m.At, m.Failed, m.Refused, m.Entries = now, w.failed, w.refused, []ledger.Entry{entry}
	if m.To == ledger.SweepRunning {
		m.Until = now.Add(w.o.Lease)
	}
	return w.Ledger.MoveSweep(ctx, w.lease, m)
}

// alive keeps the lease while rows are only looked at.
func (w *sweeper) alive(ctx context.Context) error {
	if w.lease.Until.Sub(w.Now()) > w.o.Lease/2 {
		return ctx.Err()
	}
	return w.renew(ctx)
}

// renew keeps the lease, and shows how far the pass is.
func (w *sweeper) renew(ctx context.Context) error {
	until := w.Now().UTC().Add(w.o.Lease)
	err := w.Ledger.MoveSweep(ctx, w.lease, ledger.SweepMove{
		To: ledger.SweepRunning, Until: until, Failed: w.failed, Refused: w.refused,
	})
	if err == nil {
		w.lease.Until = until
	}
	return err
}

// indefinite reports whether an error says nothing about one object: nobody gave a
// definite answer, or the lease or the process ended.
func indefinite(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, blobd.ErrUnavailable)
}
