package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
	"github.com/blobd/blobd/evidence"
	"github.com/blobd/blobd/ledger"
)

// Erase is the first half of an erasure: fence, drop the wrapped keys, insert
// the job, journal. When it returns, every read in scope is null on every node
// and every put is refused; the second half (FinishErasure) is a durable job.
// An execution that was never seen is fenced all the same. The fence of a whole
// tenant drops no execution's key yet; see offboard.go.
//
// After ErrUnavailable the fence may stand: repeating the request is safe.
func (s *Store) Erase(ctx context.Context, r EraseRequest) (ledger.Erasure, error) {
	ctx, cancel := context.WithTimeout(ctx, DependencyTimeout)
	defer cancel()
	t, scope, err := s.eraseScope(ctx, r)
	if err != nil {
		return ledger.Erasure{}, fmt.Errorf("erase: %w", err)
	}
	id, err := uuid.NewRandomFromReader(s.Random)
	if err != nil {
		return ledger.Erasure{}, fmt.Errorf("erase: %w", err)
	}
	now := s.Now().UTC()
	received := r.ReceivedAt
	if received.IsZero() {
		received = now
	}
	entry, err := s.fenceEntry(t, scope, now, id.String(), r.Actor)
	if err != nil {
		return ledger.Erasure{}, fmt.Errorf("erase: %w", err)
	}
	if scope.WholeTenant {
		defer s.forgetTenant(t.ID) // the fence may stand, whatever is answered
	}
	e, record, err := s.Ledger.Fence(ctx, ledger.Fence{
		ID: id.String(), Scope: scope, RequestedBy: r.Actor, Reason: r.Reason, LegalBasis: r.LegalBasis,
		Regime: r.Regime, ExternalRef: r.ExternalRef, ReceivedAt: received, DueAt: r.DueAt,
		At: now, RunAt: now, Entries: []ledger.Entry{entry},
	})
	if err != nil {
		return ledger.Erasure{}, fmt.Errorf("erase: %w", err)
	}
	switch {
	case scope.WholeTenant:
		s.Keys.ForgetTenant(t.ID)
	case len(scope.Refs) == 0:
		s.Keys.Forget(scope.Tag)
	}
	if err := s.publish(ctx, record); err != nil {
		return ledger.Erasure{}, fmt.Errorf("erase: %w", err)
	}
	return e, nil
}

// publish makes a committed record durable outside the ledger before the act is
// acknowledged. An act that found everything done has no record of its own: the
// record of the one before it may still be unpublished, so all are.
func (s *Store) publish(ctx context.Context, r ledger.Record) error {
	publish := func() error { return s.Journal.Publish(ctx, r) }
	if r.Seq == 0 {
		publish = func() error { return s.Journal.Flush(ctx) }
	}
	if err := publish(); err != nil {
		return fmt.Errorf("committed, not journalled yet: %w: %w", blobd.ErrUnavailable, err)
	}
	return nil
}

// PlanErasure counts what Erase would erase, and changes nothing.
func (s *Store) PlanErasure(ctx context.Context, r EraseRequest) (ledger.Plan, error) {
	_, scope, err := s.eraseScope(ctx, r)
	if err != nil {
		return ledger.Plan{}, fmt.Errorf("plan an erasure: %w", err)
	}
	return s.Ledger.Plan(ctx, scope)
}

func (s *Store) eraseScope(ctx context.Context, r EraseRequest) (ledger.Tenant, ledger.Scope, error) {
	if err := s.serving(); err != nil {
		return ledger.Tenant{}, ledger.Scope{}, err
	}
	t, err := s.Tenant(ctx, r.Tenant)
	if err != nil {
		return t, ledger.Scope{}, err
	}
	if r.WholeTenant {
		return s.tenantScope(ctx, r)
	}
	return t, ledger.Scope{
		Tenant: t.ID, Tag: executionTag(t, r.ExecutionID), ExecutionID: r.ExecutionID, Refs: r.Refs,
	}, nil
}

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
	refs   []blobd.Ref
	p      ledger.Progress
	renew  func(context.Context) error
}

func (w *eraser) run(ctx context.Context) (err error) {
	e := w.job.Erasure
	if w.tenant, err = w.Tenant(ctx, e.Scope.Tenant); err != nil {
		return err
	}
	if e.OfRefs {
		refs, err := w.Ledger.ErasedRefs(ctx, e.ID)
		if err != nil {
			return err
		}
		w.refs = refs
	}
	firstTime := !w.p.Swept
	if e.Scope.WholeTenant {
		if err := w.destroyTenant(ctx); err != nil {
			return err
		}
	}
	if err := w.settle(ctx); err != nil {
		return err
	}
	if err := w.deleteObjects(ctx); err != nil {
		return err
	}
	w.p.Swept = true
	if late := w.lastPut().Add(w.PutMargin); w.Now().Before(late) {
		return w.postpone(ctx, late, firstTime)
	}
	if err := w.provedAbsent(ctx); err != nil {
		return err
	}
	if err := w.tombstones(ctx); err != nil {
		return err
	}
	return w.finish(ctx)
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
	w.p.KeysDestroyed = w.job.Erasure.Plan.Blobs
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

func (w *eraser) deleteObjects(ctx context.Context) error {
	if err := w.ours(ctx); err != nil {
		return err
	}
	w.p.Failed, w.p.Refused = 0, nil
	for _, scope := range w.scopes() {
		if err := w.renew(ctx); err != nil {
			return err
		}
		erased, err := w.Objects.Erase(ctx, scope)
		w.p.ObjectsDeleted += int64(erased.Objects)
		w.p.VersionsDeleted += int64(erased.Versions)
		w.refused(erased.Refused)
		if err != nil {
			return err
		}
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
func (w *eraser) provedAbsent(ctx context.Context) error {
	for _, scope := range w.scopes() {
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
	entry, err := w.entry(evidence.StepErased)
	if err != nil {
		return err
	}
	return w.Ledger.Finish(ctx, w.job.Lease, w.p, w.Now().UTC(), []ledger.Entry{entry})
}

// postpone waits out the put margin. The first deletion is evidence of its own.
func (w *eraser) postpone(ctx context.Context, due time.Time, firstTime bool) error {
	var entries []ledger.Entry
	if firstTime {
		entry, err := w.entry(evidence.StepDeleted)
		if err != nil {
			return err
		}
		entries = append(entries, entry)
	}
	w.p.LastError = ""
	return w.Ledger.Postpone(ctx, w.job.Lease, due, w.p, entries)
}

func (w *eraser) entry(step string) (ledger.Entry, error) {
	e := w.job.Erasure
	if e.Scope.WholeTenant {
		return w.scribe(w.tenant).Offboarding(w.Now().UTC(), step, e.ID, "", w.p)
	}
	return w.scribe(w.tenant).Erasure(w.Now().UTC(), step, e.ID, e.Scope.Tag, w.refs, "", w.p)
}
