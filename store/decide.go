package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/evidence"
	"github.com/blobd/blobd/ledger"
)

// Approve approves the plan of an erasure that awaits it. With the last approval that
// it needs the erasure goes on as if it were asked for now without approvals; it is
// journalled before Approve returns.
//
// planDigest is the plan that was approved: another one is ErrPlanDrift. So is a plan
// that no longer is what stands, because something more or less is protected: then the
// erasure has the new plan, and its approvals are void. What joined the scope
// meanwhile is no drift: it is erased too, and told as the erasure's delta. By who asked for the erasure it is ErrDenied; a second
// approval by the same token changes nothing.
func (s *Store) Approve(ctx context.Context, tenant, id, actor string, planDigest [32]byte) (ledger.Erasure, error) {
	e, err := s.approve(ctx, tenant, id, actor, planDigest)
	if err != nil {
		return ledger.Erasure{}, fmt.Errorf("approve an erasure: %w", err)
	}
	return e, nil
}

func (s *Store) approve(ctx context.Context, tenant, id, actor string, planDigest [32]byte) (ledger.Erasure, error) {
	t, e, err := s.asked(ctx, tenant, id)
	if err != nil {
		return ledger.Erasure{}, err
	}
	now := micro(s.Now())
	d := ledger.Decision{Act: ledger.ActApprove, By: actor, At: now, PlanDigest: planDigest, RunAt: now}
	if e.State != ledger.ErasureAwaiting || e.PlanDigest != planDigest || e.RequestedBy == actor {
		return s.decide(ctx, t, e, d, evidence.ErasureStep{Step: evidence.StepApproved}) // the ledger says why not
	}
	v, err := s.survey(ctx, e.Scope, now, e.FencedAt)
	if err != nil {
		return ledger.Erasure{}, err
	}
	if v.Digest != e.PlanDigest {
		return ledger.Erasure{}, s.replan(ctx, t, e, v, now)
	}
	if grace := e.GraceUntil.Sub(e.FencedAt); !e.GraceUntil.IsZero() {
		begins, err := s.begins(ctx) // when the scope is closed
		if err != nil {
			return ledger.Erasure{}, err
		}
		d.GraceUntil = micro(begins).Add(grace)
	}
	if v.allKept() {
		d.DeferUntil = now
	}
	if d.Fenced, err = s.stepOf(t, e, now, "", evidence.ErasureStep{Step: evidence.StepFenced}); err != nil {
		return ledger.Erasure{}, err
	}
	if d.Closed, err = s.stepOf(t, e, now, "", closedStep(v.Plan, d.GraceUntil)); err != nil {
		return ledger.Erasure{}, err
	}
	return s.decide(ctx, t, e, d, evidence.ErasureStep{Step: evidence.StepApproved, Held: v.Plan.Held, Floor: v.Plan.Floor})
}

// replan gives an erasure the plan that stands, and says that it drifted.
func (s *Store) replan(ctx context.Context, t ledger.Tenant, e ledger.Erasure, v *survey, now time.Time) error {
	e.PlanDigest = v.Digest
	entries, err := s.stepOf(t, e, now, "", evidence.ErasureStep{
		Step: evidence.StepRequested, Approvals: e.Approvals, Held: v.Plan.Held, Floor: v.Plan.Floor,
	})
	if err != nil {
		return err
	}
	if err := s.Ledger.Replan(ctx, t.ID, e.ID, v.Plan, v.Digest, entries[0]); err != nil {
		return err
	}
	return blobd.ErrPlanDrift
}

// Deny ends an erasure that awaits approval, is in its grace or was deferred: what it
// closed is open again, what it erased stays erased. code is one of
// evidence.DenialCodes or none, else ErrInvalid; reason is free text of the erasure's row. In
// any other state it is ErrConflict; one that was denied before stays as it is.
func (s *Store) Deny(ctx context.Context, tenant, id, actor, code, reason string) (ledger.Erasure, error) {
	e, err := s.end(ctx, tenant, id, ledger.Decision{Act: ledger.ActDeny, By: actor, Code: code, Reason: reason})
	if err != nil {
		return ledger.Erasure{}, fmt.Errorf("deny an erasure: %w", err)
	}
	return e, nil
}

// Cancel is Deny by who no longer wants the erasure.
func (s *Store) Cancel(ctx context.Context, tenant, id, actor, reason string) (ledger.Erasure, error) {
	e, err := s.end(ctx, tenant, id, ledger.Decision{Act: ledger.ActCancel, By: actor, Reason: reason})
	if err != nil {
		return ledger.Erasure{}, fmt.Errorf("cancel an erasure: %w", err)
	}
	return e, nil
}

func (s *Store) end(ctx context.Context, tenant, id string, d ledger.Decision) (ledger.Erasure, error) {
	step := evidence.ErasureStep{Step: evidence.StepCancelled}
	if d.Act == ledger.ActDeny {
		if d.Code != "" && !evidence.KnownDenial(d.Code) {
			return ledger.Erasure{}, fmt.Errorf("code: not one of a denial: %w", blobd.ErrInvalid)
		}
		step = evidence.ErasureStep{Step: evidence.StepDenied, Code: d.Code}
	}
	try := func() (ledger.Erasure, error) {
		t, e, err := s.asked(ctx, tenant, id)
		if err != nil {
			return ledger.Erasure{}, backoff.Permanent(err)
		}
		d.At = micro(s.Now())
		step.Delta = evidence.DeltaOf(e)
		ended, err := s.decide(ctx, t, e, d, step.Progressed(e.Progress))
		// It may have been claimed since it was read: then the next try sees it.
		if err != nil && !(errors.Is(err, blobd.ErrConflict) && (e.State == ledger.ErasureDeferred || Waiting(&e))) {
			err = backoff.Permanent(err)
		}
		return ended, err
	}
	return backoff.Retry(ctx, try, backoff.WithBackOff(backoff.NewConstantBackOff(passStep)), backoff.WithMaxElapsedTime(passTime))
}

// What is deferred can be ended. While its worker looks whether it still must wait,
// which takes no time but in wide scopes, who ends it waits too: so long, asking so
// often.
const (
	passTime = 2 * time.Second
	passStep = 10 * time.Millisecond
)

// asked returns a tenant and one of its erasures with its whole scope.
func (s *Store) asked(ctx context.Context, tenant, id string) (ledger.Tenant, ledger.Erasure, error) {
	if err := s.serving(); err != nil {
		return ledger.Tenant{}, ledger.Erasure{}, err
	}
	t, err := s.Tenant(ctx, tenant)
	if err != nil {
		return t, ledger.Erasure{}, err
	}
	e, err := s.Ledger.Erasure(ctx, tenant, id)
	if err != nil || !e.OfRefs {
		return t, e, err
	}
	e.Scope.Refs, err = s.Ledger.ErasedRefs(ctx, id)
	return t, e, err
}

// decide commits a decision with its entry, and journals what it closed or opened.
func (s *Store) decide(ctx context.Context, t ledger.Tenant, e ledger.Erasure, d ledger.Decision, step evidence.ErasureStep) (ledger.Erasure, error) {
	ctx, cancel := context.WithTimeout(ctx, DependencyTimeout)
	defer cancel()
	d.Tenant, d.ID = t.ID, e.ID
	var err error
	if d.Entries, err = s.stepOf(t, e, d.At, d.By, step); err != nil {
		return ledger.Erasure{}, err
	}
	if e.Scope.WholeTenant {
		defer s.forgetTenant(t.ID) // the fence may stand, whatever is answered
	}
	e, record, err := s.Ledger.Decide(ctx, d)
	if err != nil {
		return ledger.Erasure{}, err
	}
	if d.Act == ledger.ActApprove {
		s.forgetFenced(e)
	}
	return e, s.publish(ctx, record)
}

// stepOf is the entry of a step of an erasure.
func (s *Store) stepOf(t ledger.Tenant, e ledger.Erasure, at time.Time, actor string, step evidence.ErasureStep) ([]ledger.Entry, error) {
	step.Erasure, step.PlanDigest = e.ID, digestText(e.PlanDigest)
	if e.OfRefs {
		step.Form = evidence.FormName(ledger.ScopeRefs)
	}
	entry, err := s.scribe(t).Erasure(at, e.Scope, step, actor)
	return []ledger.Entry{entry}, err
}

// SetApprovals sets how many people must approve an erasure of the tenant, 0 or more;
// those that were asked for before stay as they are.
func (s *Store) SetApprovals(ctx context.Context, tenant string, approvals int, actor string) error {
	if err := s.setApprovals(ctx, tenant, approvals, actor); err != nil {
		return fmt.Errorf("set approvals: %w", err)
	}
	return nil
}

func (s *Store) setApprovals(ctx context.Context, tenant string, approvals int, actor string) error {
	if approvals < 0 {
		return fmt.Errorf("%d approvals: %w", approvals, blobd.ErrInvalid)
	}
	if err := s.serving(); err != nil {
		return err
	}
	t, err := s.Tenant(ctx, tenant)
	if err != nil {
		return err
	}
	entry, err := s.scribe(t).Act(micro(s.Now()), ledger.EntryTenant, "approvals set", actor, strconv.Itoa(approvals))
	if err != nil {
		return err
	}
	defer s.forgetTenant(tenant)
	return s.Ledger.SetApprovals(ctx, tenant, approvals, entry)
}
