package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
	"github.com/blobd/blobd/evidence"
	"github.com/blobd/blobd/ledger"
)

// eraseBatch is how many names one deletion, and rows one tombstone step, take.
const eraseBatch = 1000

// FinishErasure is the second half of an erasure, under a lease: make the
// dropped keys unreadable, delete every version of every object, and once the
// put margin is over delete again, read back, write tombstones, finish. Each
// step can be repeated; a step that cannot be completed now is postponed, and
// the job is due again. now is read for every decision; renew is called before
// the lease can end.
//
// It returns nil when the job was finished or postponed. An error comes with the
// progress so far, for the caller to keep; ErrConflict says that the lease went
// to another worker, that an earlier erasure of the scope still runs, or that
// objects came back.
func (s *Store) FinishErasure(ctx context.Context, job ledger.Job, renew func(context.Context) error) (ledger.Progress, error) {
	w := &eraser{Store: s, job: job, p: job.Erasure.Progress, renew: renew}
	err := w.run(ctx)
	if err != nil {
		err = fmt.Errorf("finish an erasure: %w", err)
	}
	return w.p, err
}

// eraser is one run of the second half. One goroutine owns it.
type eraser struct {
	*Store
	tenant ledger.Tenant
	job    ledger.Job
	refs   []blobd.Ref // of an erasure of refs: what it erased
	p      ledger.Progress
	renew  func(context.Context) error
}

func (w *eraser) run(ctx context.Context) (err error) {
	if w.tenant, err = w.Tenant(ctx, w.job.Erasure.Scope.Tenant); err != nil {
		return err
	}
	if !w.p.Swept {
		// What follows cannot be taken back: a ledger that is rolled back must come
		// back with this erasure.
		if err := w.Journal.Flush(ctx); err != nil {
			return fmt.Errorf("journal: %w", err)
		}
	}
	if w.job.Erasure.Closing {
		return w.closed(ctx)
	}
	return w.fenced(ctx)
}

// fenced goes on from a fence.
func (w *eraser) fenced(ctx context.Context) error {
	e := w.job.Erasure
	if e.OfRefs {
		refs, err := w.Ledger.ErasedRefs(ctx, e.ID)
		if err != nil {
			return err
		}
		w.refs = refs
	}
	if e.Scope.WholeTenant {
		if err := w.destroyTenant(ctx); err != nil {
			return err
		}
	}
	if err := w.settle(ctx); err != nil {
		return err
	}
	if err := w.deleteObjects(ctx, w.eachScope); err != nil {
		return err
	}
	if late := w.late(); w.Now().Before(late) {
		return w.postpone(ctx, late)
	}
	if err := w.provedAbsent(ctx, w.eachScope); err != nil {
		return err
	}
	if err := w.tombstones(ctx); err != nil {
		return err
	}
	return w.finish(ctx)
}

// late is until when a put that began before the scope was fenced or closed may
// still write an object; zero: none can. When the last approval came is not in the
// erasure's row: such a one waits out a margin of its own, once.
func (w *eraser) late() time.Time {
	late := w.lastPut().Add(w.PutMargin)
	if w.job.Erasure.Approvals == 0 || w.p.Swept {
		return late
	}
	return w.Now().UTC().Add(w.PutMargin)
}

// settle makes the keys that the fence dropped unreadable in the ledger's own
// files. Only then do they count as destroyed.
func (w *eraser) settle(ctx context.Context) error {
	if w.p.Settled {
		return nil
	}
	residuals, err := w.Ledger.Settle(ctx)
	if err != nil {
		return err
	}
	w.p.Residuals = slices.Concat(residuals, w.Residuals)
	w.p.Settled = true
	w.p.KeysDestroyed = w.job.Erasure.Fenced.Blobs + w.job.Erasure.Dropped
	return nil
}

// scopes are the deletions of the job: the execution's whole prefix, orphans
// included, or exact names in batches.
func (w *eraser) scopes() []backends.Scope {
	tag := w.job.Erasure.Scope.Tag
	if w.job.Erasure.Scope.WholeTenant {
		return []backends.Scope{{Prefix: backends.TenantPrefix(tag.String())}}
	}
	if !w.job.Erasure.OfRefs {
		return []backends.Scope{{Prefix: backends.ExecutionPrefix(w.tenantTag(w.tenant), tag)}}
	}
	var scopes []backends.Scope
	for start := 0; start < len(w.refs); start += eraseBatch {
		var names []string
		for _, ref := range w.refs[start:min(start+eraseBatch, len(w.refs))] {
			names = append(names, w.blobName(w.tenant, tag, ref))
		}
		scopes = append(scopes, backends.Scope{Names: names})
	}
	return scopes
}

// eachScope visits them.
func (w *eraser) eachScope(_ context.Context, use func(backends.Scope) error) error {
	for _, scope := range w.scopes() {
		if err := use(scope); err != nil {
			return err
		}
	}
	return nil
}

// walk visits deletions, each of which can be repeated.
type walk func(ctx context.Context, use func(backends.Scope) error) error

func (w *eraser) deleteObjects(ctx context.Context, each walk) error {
	if err := w.ours(ctx); err != nil {
		return err
	}
	w.p.Failed, w.p.Refused = 0, nil
	err := each(ctx, func(scope backends.Scope) error {
		if err := w.renew(ctx); err != nil {
			return err
		}
		erased, err := w.Objects.Erase(ctx, scope)
		w.p.ObjectsDeleted += int64(erased.Objects)
		w.p.VersionsDeleted += int64(erased.Versions)
		w.refused(erased.Refused)
		return err
	})
	if err != nil {
		return err
	}
	if w.p.Failed > 0 {
		return fmt.Errorf("the store keeps %d objects: %w", w.p.Failed, blobd.ErrDenied)
	}
	return nil
}

// refused notes what the store would not delete: the keys are gone all the same,
// and the erasure says so until the last object went.
func (w *eraser) refused(all []backends.Refusal) {
	w.p.Failed += int64(len(all))
	for _, r := range all[:min(len(all), ledger.MaxRefused-len(w.p.Refused))] {
		kept := ledger.Refused{Version: r.Version, Reason: r.Reason, Until: r.Until}
		if name, ok := backends.ParseBlobName(r.Name); ok {
			kept.Ref = name.Ref
		}
		w.p.Refused = append(w.p.Refused, kept)
	}
}

// provedAbsent reads back: nothing in scope may be left in any version, of a store
// that was ours before the listings and still is after them.
func (w *eraser) provedAbsent(ctx context.Context, each walk) error {
	err := each(ctx, func(scope backends.Scope) error {
		if err := w.renew(ctx); err != nil {
			return err
		}
		left, err := w.Objects.Residue(ctx, scope, eraseBatch)
		if err != nil {
			return err
		}
		if len(left) > 0 {
			return fmt.Errorf("%d objects are still there: %w", len(left), blobd.ErrConflict)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return w.ours(ctx)
}

func (w *eraser) tombstones(ctx context.Context) error {
	for left := 1; left > 0; {
		if err := w.renew(ctx); err != nil {
			return err
		}
		var err error
		if left, err = w.Ledger.Tombstone(ctx, w.job.Lease, eraseBatch); err != nil {
			return err
		}
	}
	w.p.Remaining = 0
	return nil
}

func (w *eraser) finish(ctx context.Context) error {
	w.p.LastError = ""
	w.keepsNothing()
	w.p.Remaining = 0
	entry, err := w.entry(evidence.ErasureStep{Step: evidence.StepErased, Delta: w.delta(ledger.ErasureErased, w.p)})
	if err != nil {
		return err
	}
	return w.Ledger.Finish(ctx, w.job.Lease, w.p, w.Now().UTC(), []ledger.Entry{entry})
}

// delta is what the erasure took beyond its plan, as it goes to a state.
func (w *eraser) delta(to ledger.ErasureState, p ledger.Progress) *evidence.Delta {
	e := w.job.Erasure
	e.State, e.Progress = to, p
	return evidence.DeltaOf(e)
}

// postpone waits out the put margin. The first deletion is evidence of its own. That
// the objects were deleted once is known only once this is committed: whoever reads it
// has waited.
func (w *eraser) postpone(ctx context.Context, due time.Time) error {
	var entries []ledger.Entry
	if !w.p.Swept {
		entry, err := w.entry(evidence.ErasureStep{Step: evidence.StepDeleted})
		if err != nil {
			return err
		}
		entries = append(entries, entry)
	}
	p := w.p
	p.Swept, p.LastError = true, ""
	return w.Ledger.Postpone(ctx, w.job.Lease, due, p, entries)
}

// entry is a step of this erasure with its progress.
func (w *eraser) entry(step evidence.ErasureStep) (ledger.Entry, error) { return w.entryOf(step, w.p) }

func (w *eraser) entryOf(step evidence.ErasureStep, p ledger.Progress) (ledger.Entry, error) {
	scope := w.job.Erasure.Scope
	scope.Refs = w.refs
	step.Erasure = w.job.Erasure.ID
	if w.job.Erasure.OfRefs { // also where there is none
		step.Form = evidence.FormName(ledger.ScopeRefs)
	}
	return w.scribe(w.tenant).Erasure(w.Now().UTC(), scope, step.Progressed(p), "")
}
