package mem

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// step is how an erasure goes on once nothing is missing to it.
type step struct {
	at, runAt, grace, deferred time.Time
	fenced, closed             []ledger.Entry
}

// proceed fences the scope of an erasure, or closes it, and adds the erasure if it is
// new. On an error nothing is changed.
func (l *Ledger) proceed(e *erasure, s step) error {
	scope := e.scope()
	atOnce := s.grace.IsZero() && scope.Form().Fenceable() && !l.guarded(&scope, s.at)
	if _, known := l.tenants[scope.Tenant]; !atOnce && !known {
		return fmt.Errorf("tenant: %w", blobd.ErrNotFound)
	}
	wrap := l.wrapOf(scope)
	if atOnce {
		e.Planned = e.Planned && l.erasure(e.ID) != nil
		if err := l.fence(e, s.at, false); err != nil {
			return err
		}
		e.runAt, e.Wrap, e.GraceUntil = s.runAt.UnixMicro(), max(e.Wrap, wrap), time.Time{}
		l.append(s.fenced...)
	} else {
		l.closeScope(e, s)
		l.append(s.closed...)
	}
	if l.erasure(e.ID) == nil {
		l.erasures = append(l.erasures, e)
	}
	if e.Closing {
		e.first = l.record(ledger.RecordOf(&l.orders[e.ID].Order, kept(s.grace)))
	} else {
		e.first = l.record(e.fenceRecord(s.at))
	}
	return nil
}

// closeScope places the closing of an erasure.
func (l *Ledger) closeScope(e *erasure, s step) {
	l.insertOrder(ledger.Order{
		ID: e.ID, Kind: ledger.OrderClosing, Scope: e.scope(), ErasureID: e.ID, PlacedAt: s.at, PlacedBy: e.RequestedBy,
	})
	e.State, e.GraceUntil, e.runAt = ledger.ErasureRunning, kept(s.grace), s.runAt.UnixMicro()
	switch {
	case !s.grace.IsZero():
		e.State, e.runAt = ledger.ErasureGrace, s.grace.UnixMicro()
	case !s.deferred.IsZero():
		e.State, e.runAt = ledger.ErasureDeferred, s.deferred.UnixMicro()
	}
}

// fenceRecord is the journal record of an erasure that fenced.
func (e *erasure) fenceRecord(at time.Time) ledger.Record {
	kind := ledger.RecordFence
	switch {
	case e.Scope.WholeTenant:
		kind = ledger.RecordTenant
	case e.OfRefs:
		kind = ledger.RecordErase
	}
	return ledger.Record{
		Kind: kind, At: at, Tenant: e.Scope.Tenant, Tag: e.Scope.Tag, Refs: e.refs, ErasureID: e.ID, Wrap: e.Wrap,
	}
}

// closingOf is the open order of an erasure's closing; nil: it has none.
func (l *Ledger) closingOf(e *erasure) *order {
	if o := l.orders[e.ID]; o != nil && o.Kind == ledger.OrderClosing && o.Open() {
		return o
	}
	return nil
}

// wake makes the deferred erasures of a tenant due, and tells those that run that
// what protects has changed.
func (l *Ledger) wake(tenant string, at time.Time) {
	for _, e := range l.erasures {
		switch {
		case e.Scope.Tenant != tenant || !e.Closing:
		case e.State == ledger.ErasureDeferred:
			e.runAt = min(e.runAt, at.UnixMicro())
		case e.State == ledger.ErasureRunning:
			e.woken = at.UnixMicro()
		}
	}
}

// Decide implements ledger.Closings.
func (l *Ledger) Decide(ctx context.Context, d ledger.Decision) (ledger.Erasure, ledger.Record, error) {
	if err := d.Check(); err != nil {
		return ledger.Erasure{}, ledger.Record{}, refuse("decide", err)
	}
	if err := l.begin(ctx, "decide"); err != nil {
		return ledger.Erasure{}, ledger.Record{}, err
	}
	defer l.mu.Unlock()
	e := l.erasure(d.ID)
	if e == nil || e.Scope.Tenant != d.Tenant {
		return ledger.Erasure{}, ledger.Record{}, refuse("decide", blobd.ErrNotFound)
	}
	if e.decided(&d) {
		return e.shown(), ledger.Record{}, nil
	}
	act := l.undo
	if d.Act == ledger.ActApprove {
		act = l.approve
	}
	r, err := act(e, &d)
	if err != nil {
		return ledger.Erasure{}, ledger.Record{}, refuse("decide", err)
	}
	return e.shown(), r, nil
}

// decided reports whether a decision was made before.
func (e *erasure) decided(d *ledger.Decision) bool {
	switch d.Act {
	case ledger.ActDeny:
		return e.State == ledger.ErasureDenied
	case ledger.ActCancel:
		return e.State == ledger.ErasureCancelled
	}
	return slices.Contains(e.ApprovedBy, d.By)
}

func (l *Ledger) approve(e *erasure, d *ledger.Decision) (ledger.Record, error) {
	switch {
	case e.State != ledger.ErasureAwaiting:
		return ledger.Record{}, fmt.Errorf("the erasure is %s: %w", e.State, blobd.ErrConflict)
	case d.PlanDigest != e.PlanDigest:
		return ledger.Record{}, blobd.ErrPlanDrift
	case d.By == e.RequestedBy:
		return ledger.Record{}, fmt.Errorf("its own request: %w", blobd.ErrDenied)
	}
	if len(e.ApprovedBy)+1 < e.Approvals {
		e.ApprovedBy = append(e.ApprovedBy, d.By)
		l.append(d.Entries...)
		return ledger.Record{}, nil
	}
	err := l.proceed(e, step{
		at: d.At, runAt: d.RunAt, grace: d.GraceUntil, deferred: d.DeferUntil,
		fenced: slices.Concat(d.Entries, d.Fenced), closed: slices.Concat(d.Entries, d.Closed),
	})
	if err != nil {
		return ledger.Record{}, err
	}
	e.ApprovedBy = append(e.ApprovedBy, d.By)
	return e.first, nil
}

// undo denies or cancels an erasure.
func (l *Ledger) undo(e *erasure, d *ledger.Decision) (r ledger.Record, err error) {
	if e.State != ledger.ErasureAwaiting && e.State != ledger.ErasureGrace && e.State != ledger.ErasureDeferred {
		return r, fmt.Errorf("the erasure is %s: %w", e.State, blobd.ErrConflict)
	}
	e.State, e.DecidedBy, e.DecisionReason, e.DecidedAt = ledger.ErasureCancelled, d.By, d.Reason, kept(d.At)
	if d.Act == ledger.ActDeny {
		e.State, e.Code = ledger.ErasureDenied, d.Code
	}
	l.append(d.Entries...)
	if o := l.closingOf(e); o != nil {
		l.end(o, d.At, d.By, "")
		r = l.record(ledger.LiftRecordOf(&o.Order))
	}
	return r, nil
}

// Replan implements ledger.Closings.
func (l *Ledger) Replan(ctx context.Context, tenant, id string, p ledger.Plan, digest [32]byte, entry ledger.Entry) error {
	if err := l.begin(ctx, "replan"); err != nil {
		return err
	}
	defer l.mu.Unlock()
	e := l.erasure(id)
	switch {
	case e == nil || e.Scope.Tenant != tenant:
		return refuse("replan", blobd.ErrNotFound)
	case e.State != ledger.ErasureAwaiting:
		return refuse("replan", fmt.Errorf("the erasure is %s: %w", e.State, blobd.ErrConflict))
	}
	e.Plan, e.PlanDigest, e.ApprovedBy = p, digest, nil
	l.append(entry)
	return nil
}

// closer is holder for an erasure that only closed its scope.
func (l *Ledger) closer(ctx context.Context, op string, lease ledger.Lease) (*erasure, error) {
	e, err := l.holder(ctx, op, lease)
	if err != nil {
		return nil, err
	}
	if !e.Closing {
		l.mu.Unlock()
		return nil, refuse(op, fmt.Errorf("the erasure has fenced: %w", blobd.ErrConflict))
	}
	return e, nil
}

// FenceClosed implements ledger.Closings.
func (l *Ledger) FenceClosed(
	ctx context.Context, lease ledger.Lease, at time.Time, es []ledger.Entry,
) (ledger.Erasure, ledger.Record, error) {
	e, err := l.closer(ctx, "fence closed", lease)
	if err != nil {
		return ledger.Erasure{}, ledger.Record{}, err
	}
	defer l.mu.Unlock()
	scope := e.scope()
	if !scope.Form().Fenceable() || l.guarded(&scope, at) {
		return ledger.Erasure{}, ledger.Record{}, refuse("fence closed", fmt.Errorf("the scope cannot be fenced: %w", blobd.ErrHeld))
	}
	wrap := l.wrapOf(scope)
	if err := l.fence(e, at, false); err != nil {
		return ledger.Erasure{}, ledger.Record{}, refuse("fence closed", err)
	}
	e.Wrap = max(e.Wrap, wrap)
	if o := l.closingOf(e); o != nil {
		l.end(o, at, "", "")
	}
	l.append(es...)
	return e.shown(), l.record(e.fenceRecord(at)), nil
}

// Defer implements ledger.Closings.
func (l *Ledger) Defer(ctx context.Context, lease ledger.Lease, due time.Time, p ledger.Progress, es []ledger.Entry) error {
	e, err := l.closer(ctx, "defer", lease)
	if err != nil {
		return err
	}
	defer l.mu.Unlock()
	e.State, e.Progress, e.runAt, e.held = ledger.ErasureDeferred, p, due.UnixMicro(), false
	if e.woken != 0 {
		e.runAt = min(e.runAt, e.woken)
	}
	l.append(es...)
	return nil
}

// SetApprovals implements ledger.Closings.
func (l *Ledger) SetApprovals(ctx context.Context, tenant string, approvals int, e ledger.Entry) error {
	if approvals < 0 {
		return refuse("set approvals", fmt.Errorf("%d approvals: %w", approvals, blobd.ErrInvalid))
	}
	if err := l.begin(ctx, "set approvals"); err != nil {
		return err
	}
	defer l.mu.Unlock()
	if err := l.living(tenant); err != nil {
		return refuse("set approvals", err)
	}
	t := l.tenants[tenant]
	t.Approvals = approvals
	l.tenants[tenant] = t
	l.append(e)
	return nil
}
