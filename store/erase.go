package store

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/evidence"
	"github.com/blobd/blobd/ledger"
)

// Erase is the first half of an erasure. Where nothing is protected, nobody must
// approve and there is no grace, an execution, refs or a whole tenant are fenced: one
// transaction drops the wrapped keys, inserts the job and is journalled. Everything
// else is only closed by it, or, where people must approve, does nothing yet; see
// closing.go. Once it is fenced or closed every read in scope is null on every node
// and every put is refused; the second half (FinishErasure) is a durable job. An
// execution that was never seen is fenced all the same. The fence of a whole tenant
// drops no execution's key yet; see offboard.go.
//
// Strict: where something in scope is protected it is ErrHeld, and nothing changed.
// After ErrUnavailable the erasure may stand: repeating the request is safe.
func (s *Store) Erase(ctx context.Context, r EraseRequest) (ledger.Erasure, error) {
	e, err := s.erase(ctx, r)
	if err != nil {
		return ledger.Erasure{}, fmt.Errorf("erase: %w", err)
	}
	return e, nil
}

func (s *Store) erase(ctx context.Context, r EraseRequest) (ledger.Erasure, error) {
	within, cancel := context.WithTimeout(ctx, DependencyTimeout)
	defer cancel()
	t, scope, err := s.scope(within, r.target())
	if err != nil {
		return ledger.Erasure{}, err
	}
	f, err := s.newFence(within, t, scope, r)
	if err != nil {
		return ledger.Erasure{}, err
	}
	if scope.Form().Fenceable() && f.Approvals == 0 && f.GraceUntil.IsZero() {
		// Most erasures meet nothing that is protected: the ledger finds out faster
		// than a survey does.
		f.Strict, f.PlanDigest = true, planDigest(scope, 0, 0, nil)
		e, err := s.fence(within, t, f)
		if !errors.Is(err, blobd.ErrHeld) || r.Strict {
			return e, err
		}
		f.Strict = false
	}
	if err := s.surveyed(ctx, &f); err != nil {
		return ledger.Erasure{}, err
	}
	within, cancel = context.WithTimeout(ctx, DependencyTimeout)
	defer cancel()
	return s.fence(within, t, f)
}

// newFence is a fence without a plan and entries.
func (s *Store) newFence(ctx context.Context, t ledger.Tenant, scope ledger.Scope, r EraseRequest) (ledger.Fence, error) {
	id, err := uuid.NewRandomFromReader(s.Random)
	if err != nil {
		return ledger.Fence{}, err
	}
	now := micro(s.Now())
	f := ledger.Fence{
		ID: id.String(), Scope: scope, RequestedBy: r.Actor, Reason: r.Reason, LegalBasis: r.LegalBasis,
		Regime: r.Regime, ExternalRef: r.ExternalRef, ReceivedAt: r.ReceivedAt, DueAt: r.DueAt,
		At: now, RunAt: now, Strict: r.Strict,
	}
	if f.ReceivedAt.IsZero() {
		f.ReceivedAt = now
	}
	f.DueAt = s.firstDue(r.Regime, f.ReceivedAt, r.DueAt)
	if r.Callback != nil {
		callback := *r.Callback
		callback.Webhook.Erasure = f.ID
		f.Callback = &callback
	}
	if t.Fenced() { // everything is erased: there is nothing to approve or to wait for
		return f, nil
	}
	f.Approvals = t.Approvals
	if r.Grace <= 0 {
		return f, nil
	}
	begins := now
	if f.Approvals == 0 { // else it begins with the last one
		begins, err = s.begins(ctx)
	}
	f.GraceUntil = micro(begins).Add(r.Grace)
	return f, err
}

// surveyTime bounds the survey of a scope that is closed at once: what it does not
// see in this time the job finds.
const surveyTime = 3 * time.Second

// surveyed gives a fence the plan of what is in its scope. Of one that awaits
// approvals the plan must be whole; of another it is left out where it takes long.
func (s *Store) surveyed(ctx context.Context, f *ledger.Fence) error {
	within, cancel := ctx, func() {}
	if f.Approvals == 0 {
		within, cancel = context.WithTimeout(ctx, surveyTime)
	}
	defer cancel()
	v, err := s.survey(within, f.Scope, f.At, f.At)
	switch {
	case err == nil:
	case f.Approvals == 0 && within.Err() != nil && ctx.Err() == nil:
		return nil
	default:
		return err
	}
	f.Plan, f.PlanDigest = v.Plan, v.Digest
	if v.allKept() {
		f.DeferUntil = f.At // the job notes what is kept, and until when
	}
	return nil
}

// fence commits a fence with its entries, and journals it.
func (s *Store) fence(ctx context.Context, t ledger.Tenant, f ledger.Fence) (ledger.Erasure, error) {
	if err := s.fenceEntries(t, &f); err != nil {
		return ledger.Erasure{}, err
	}
	if f.Scope.WholeTenant {
		defer s.forgetTenant(t.ID) // the fence may stand, whatever is answered
	}
	e, record, err := s.Ledger.Fence(ctx, f)
	if err != nil {
		return ledger.Erasure{}, err
	}
	s.forgetFenced(e)
	return e, s.publish(ctx, record)
}

// fenceEntries are the entries of each way in which the ledger may take a fence.
func (s *Store) fenceEntries(t ledger.Tenant, f *ledger.Fence) (err error) {
	entry := func(step evidence.ErasureStep) (es []ledger.Entry) {
		if err != nil {
			return nil
		}
		step.Erasure, step.PlanDigest = f.ID, digestText(f.PlanDigest)
		var e ledger.Entry
		e, err = s.scribe(t).Erasure(f.At, f.Scope, step, f.RequestedBy)
		return []ledger.Entry{e}
	}
	f.Entries = entry(evidence.ErasureStep{Step: evidence.StepFenced})
	f.Closed = entry(closedStep(f.Plan, f.GraceUntil))
	f.Asked = entry(evidence.ErasureStep{
		Step: evidence.StepRequested, Approvals: f.Approvals, Held: f.Plan.Held, Floor: f.Plan.Floor,
	})
	return err
}

// closedStep is the step of a scope that is only closed. grace is the end of its
// grace; zero: none.
func closedStep(p ledger.Plan, grace time.Time) evidence.ErasureStep {
	step := evidence.ErasureStep{Step: evidence.StepClosed, Held: p.Held, Floor: p.Floor}
	if !grace.IsZero() {
		step.Until = &grace
	}
	return step
}

// digestText is how people are told a plan's digest; "" where there is none.
func digestText(digest [32]byte) string {
	if digest == ([32]byte{}) {
		return ""
	}
	return hex.EncodeToString(digest[:])
}

// forgetFenced takes the keys that an erasure dropped whole out of memory. One that
// has only closed its scope, or waits for approvals, dropped none.
func (s *Store) forgetFenced(e ledger.Erasure) {
	switch {
	case e.Closing || e.State == ledger.ErasureAwaiting:
	case e.Scope.WholeTenant:
		s.Keys.ForgetTenant(e.Scope.Tenant)
	case !e.OfRefs:
		s.Keys.Forget(e.Scope.Tag)
	}
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
