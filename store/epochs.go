package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/evidence"
	"github.com/blobd/blobd/keys"
	"github.com/blobd/blobd/ledger"
)

// StartEpoch starts a key epoch of a tenant, which a worker then runs; see
// RunEpoch. id is unique for ever, and repeating it does nothing; "" makes one.
// While another epoch of the tenant is not complete it is ErrConflict.
func (s *Store) StartEpoch(ctx context.Context, tenant, id, actor string) (ledger.Epoch, error) {
	if err := s.serving(); err != nil {
		return ledger.Epoch{}, fmt.Errorf("start an epoch: %w", err)
	}
	t, err := s.Tenant(ctx, tenant)
	if err != nil {
		return ledger.Epoch{}, fmt.Errorf("start an epoch: %w", err)
	}
	if id == "" {
		random, err := uuid.NewRandomFromReader(s.Random)
		if err != nil {
			return ledger.Epoch{}, fmt.Errorf("start an epoch: %w", err)
		}
		id = random.String()
	}
	now := s.Now().UTC()
	entry, err := s.scribe(t).Epoch(now, evidence.StepEpochStarted, ledger.Epoch{ID: id}, actor)
	if err != nil {
		return ledger.Epoch{}, fmt.Errorf("start an epoch: %w", err)
	}
	e, err := s.Ledger.StartEpoch(ctx, ledger.NewEpoch{ID: id, Tenant: tenant, At: now, Entry: entry})
	if err != nil {
		return ledger.Epoch{}, fmt.Errorf("start an epoch: %w", err)
	}
	return e, nil
}

// EpochOptions say how an epoch is run. All fields but Progress are required.
type EpochOptions struct {
	// Horizon is how long backups of the ledger are kept: old KEK versions are
	// destroyed that long after the last live key left them, and no sooner than
	// reads and puts under way have ended.
	Horizon time.Duration
	// Lease is how long each renewal keeps the job.
	Lease time.Duration
	// Wait blocks until n more keys may be re-wrapped.
	Wait func(ctx context.Context, n int) error
	// Batch is how many keys are re-wrapped at once, 1 to 256.
	Batch int
	// Progress is told after each batch, if set.
	Progress func(done, total int64)
}

// RunEpoch takes a claimed epoch as far as it gets now, under its lease:
//
//	rotate the KEK → raise the ledger's minimum wrap version → re-wrap every live
//	key → see that none is left → wait for the horizon → trim the old versions
//
// Each step is in the ledger before the next begins and can be repeated, so a
// run that was cut short is resumed by the next. It returns nil once the epoch
// waits or is trimmed. ErrConflict says that the lease went to another worker, or
// that something kept moving while it was re-wrapped.
func (s *Store) RunEpoch(ctx context.Context, job ledger.EpochJob, o EpochOptions) error {
	w := &epochWorker{Store: s, o: o, e: job.Epoch, lease: job.Lease}
	if err := w.run(ctx); err != nil {
		return fmt.Errorf("run an epoch: %w", err)
	}
	return nil
}

// epochWorker is one run of an epoch. One goroutine owns it.
type epochWorker struct {
	*Store
	o      EpochOptions
	tenant ledger.Tenant
	e      ledger.Epoch
	lease  ledger.EpochLease
}

func (w *epochWorker) run(ctx context.Context) (err error) {
	if w.tenant, err = w.Tenant(ctx, w.e.Tenant); err != nil {
		return err
	}
	if w.e.State == ledger.EpochWaiting {
		return w.trim(ctx)
	}
	if w.e.State == ledger.EpochRotating {
		if err := w.rotate(ctx); err != nil {
			return err
		}
	}
	if err := w.rewrapAll(ctx); err != nil {
		return err
	}
	return w.complete(ctx)
}

// rotate notes the newest version before it asks for another one: a run that is
// repeated knows by it whether the KEK was rotated already.
func (w *epochWorker) rotate(ctx context.Context) error {
	ring := w.Keys.Ring()
	status, err := ring.Status(ctx, w.e.Tenant)
	if err != nil {
		return err
	}
	if w.e.From == 0 {
		from := uint32(status.Newest)
		if err := w.keep(ctx, ledger.EpochMove{To: ledger.EpochRotating, From: from}); err != nil {
			return err
		}
		w.e.From = from
	}
	version := status.Newest
	if uint32(version) <= w.e.From {
		if version, err = ring.Rotate(ctx, w.e.Tenant); err != nil {
			return err
		}
	}
	if uint32(version) <= w.e.From {
		return fmt.Errorf("the KEK is still at version %d: %w", version, blobd.ErrUnavailable)
	}
	raised := w.e
	raised.Version = uint32(version)
	entry, err := w.entry(evidence.StepEpochRaised, raised)
	if err != nil {
		return err
	}
	err = w.keep(ctx, ledger.EpochMove{
		To: ledger.EpochRewrapping, Version: raised.Version, Entries: []ledger.Entry{entry},
	})
	if err != nil {
		return err
	}
	w.e = raised
	w.e.State = ledger.EpochRewrapping
	return nil
}

// complete ends the re-wrapping. The ledger refuses while a wrap is left.
func (w *epochWorker) complete(ctx context.Context) error {
	w.forgetTenant(w.e.Tenant)
	e, err := w.now(ctx)
	if err != nil {
		return err
	}
	now := w.Now().UTC()
	e.TrimAt = w.trimAt(now)
	entry, err := w.entry(evidence.StepEpochCompleted, e)
	if err != nil {
		return err
	}
	return w.Ledger.MoveEpoch(ctx, w.lease, ledger.EpochMove{
		To: ledger.EpochWaiting, At: now, TrimAt: e.TrimAt, Due: e.TrimAt, Entries: []ledger.Entry{entry},
	})
}

func (w *epochWorker) trimAt(completed time.Time) time.Time {
	return completed.Add(max(w.o.Horizon, 2*DependencyTimeout))
}

// TrimDue is when the old versions of a waiting epoch may be destroyed. A horizon
// that was lengthened since the epoch completed counts; one that was shortened does
// not: a date was given.
func TrimDue(e ledger.Epoch, horizon time.Duration) time.Time {
	due := e.TrimAt
	if later := e.CompletedAt.Add(max(horizon, 2*DependencyTimeout)); later.After(due) {
		due = later
	}
	return due
}

// trim destroys the old versions, once the horizon is reached.
func (w *epochWorker) trim(ctx context.Context) error {
	due := TrimDue(w.e, w.o.Horizon)
	if w.Now().Before(due) {
		return w.Ledger.MoveEpoch(ctx, w.lease, ledger.EpochMove{To: ledger.EpochWaiting, TrimAt: due, Due: due})
	}
	left, err := w.Ledger.Wraps(ctx, ledger.WrapQuery{Tenant: w.e.Tenant, Below: w.e.Version, Limit: 1})
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return fmt.Errorf("a live key is wrapped by version %d, which would be destroyed: %w", left[0].Key.Version, blobd.ErrConflict)
	}
	if err := w.destroyOld(ctx); err != nil {
		return err
	}
	entry, err := w.entry(evidence.StepEpochTrimmed, w.e)
	if err != nil {
		return err
	}
	return w.Ledger.MoveEpoch(ctx, w.lease, ledger.EpochMove{
		To: ledger.EpochTrimmed, At: w.Now().UTC(), Entries: []ledger.Entry{entry},
	})
}

// destroyOld trims and reads back.
func (w *epochWorker) destroyOld(ctx context.Context) error {
	ring, oldest := w.Keys.Ring(), keys.Version(w.e.Version)
	if err := ring.Trim(ctx, w.e.Tenant, oldest); err != nil {
		return err
	}
	status, err := ring.Status(ctx, w.e.Tenant)
	if err != nil {
		return err
	}
	if status.Oldest < oldest {
		return fmt.Errorf("version %d still opens after the trim: %w", status.Oldest, blobd.ErrUnavailable)
	}
	return nil
}

// keep makes a move and renews the lease with it.
func (w *epochWorker) keep(ctx context.Context, m ledger.EpochMove) error {
	m.Until = w.Now().UTC().Add(w.o.Lease)
	if err := w.Ledger.MoveEpoch(ctx, w.lease, m); err != nil {
		return err
	}
	w.lease.Until = m.Until
	return nil
}

// renew renews the lease before half of it is gone.
func (w *epochWorker) renew(ctx context.Context) error {
	if w.lease.Until.Sub(w.Now()) > w.o.Lease/2 {
		return ctx.Err()
	}
	return w.keep(ctx, ledger.EpochMove{To: w.e.State})
}

// now is the epoch as the ledger has it.
func (w *epochWorker) now(ctx context.Context) (ledger.Epoch, error) {
	es, err := w.Ledger.ListEpochs(ctx, ledger.EpochQuery{Tenant: w.e.Tenant, Limit: listPage})
	if err != nil {
		return ledger.Epoch{}, err
	}
	for _, e := range es {
		if e.ID == w.e.ID {
			return e, nil
		}
	}
	return ledger.Epoch{}, errors.New("the epoch is not among the tenant's newest")
}

func (w *epochWorker) entry(step string, e ledger.Epoch) (ledger.Entry, error) {
	return w.scribe(w.tenant).Epoch(w.Now().UTC(), step, e, "")
}
