package mem

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// erasure is an erasure's row, which is also its job.
type erasure struct {
	ledger.Erasure
	asked []blobd.Ref // the refs of its scope
	refs  []blobd.Ref // those that it erased, or found erased
	// found are the rows that Drop dropped or found erased, until they are tombstones.
	found map[ledger.Position]bool
	met   map[blobd.ExecutionTag]bool // executions in which Drop met what was not erased
	first ledger.Record
	runAt int64 // microseconds
	woken int64 // when what protects changed since it was claimed, microseconds; 0: it did not
	lease ledger.Lease
	held  bool
}

// scope is the whole scope, refs too.
func (e *erasure) scope() ledger.Scope {
	s := e.Scope
	s.Refs = e.asked
	return s
}

// shown is an erasure for a reader.
func (e *erasure) shown() ledger.Erasure {
	out := e.Erasure
	out.Scope.Subjects, out.ApprovedBy = slices.Clone(out.Scope.Subjects), slices.Clone(out.ApprovedBy)
	out.Progress.Kept = cut(slices.Clone(out.Progress.Kept), ledger.MaxKept)
	return out
}

func sorted(refs []blobd.Ref) []blobd.Ref {
	refs = slices.Clone(refs)
	slices.SortFunc(refs, func(a, b blobd.Ref) int { return bytes.Compare(a[:], b[:]) })
	return slices.Compact(refs)
}

// plan counts what a scope holds, and lists the rows of named refs that a fence
// would erase, and the refs whose rows it would erase or find erased.
func (l *Ledger) plan(s ledger.Scope, ofRefs bool) (
	p ledger.Plan, rows []*ledger.Blob, named []blobd.Ref, err error,
) {
	if s.WholeTenant {
		p, err := l.planTenant(s.Tenant)
		return p, nil, nil, err
	}
	e := l.executions[s.Tag]
	if e != nil && e.Tenant != s.Tenant {
		return p, nil, nil, fmt.Errorf("the execution is another tenant's: %w", blobd.ErrConflict)
	}
	erased := l.fenced(s.Tenant) || e != nil && e.State == ledger.ExecutionErased
	switch {
	case ofRefs:
		for _, ref := range sorted(s.Refs) {
			row := l.blobs[ledger.Position{Tag: s.Tag, Ref: ref}]
			isBlob := row != nil && row.State != ledger.BlobCollected
			if isBlob {
				named = append(named, ref)
			}
			switch {
			case erased || isBlob && row.State == ledger.BlobErased:
				p.AlreadyErased++
			case !isBlob:
				p.NotFound++
			default:
				rows = append(rows, row)
				p.Blobs, p.Bytes = p.Blobs+1, p.Bytes+row.Size
			}
		}
	case erased:
		p.AlreadyErased = 1
	case e == nil:
		p.NotFound = 1
	default:
		p = ledger.Plan{Executions: 1, Blobs: e.Blobs, Bytes: e.Bytes}
	}
	return p, rows, named, nil
}

// Plan implements ledger.Erasures.
func (l *Ledger) Plan(ctx context.Context, s ledger.Scope) (ledger.Plan, error) {
	if err := s.Check(); err != nil {
		return ledger.Plan{}, refuse("plan", err)
	}
	if !s.Form().Fenceable() {
		return ledger.Plan{}, refuse("plan", fmt.Errorf("nothing fences this form of scope: %w", blobd.ErrInvalid))
	}
	if err := l.begin(ctx, "plan"); err != nil {
		return ledger.Plan{}, err
	}
	defer l.mu.Unlock()
	p, _, _, err := l.plan(s, len(s.Refs) > 0)
	if err != nil {
		return ledger.Plan{}, refuse("plan", err)
	}
	return p, nil
}

// Fence implements ledger.Erasures.
func (l *Ledger) Fence(ctx context.Context, f ledger.Fence) (ledger.Erasure, ledger.Record, error) {
	if f.ID == "" {
		return ledger.Erasure{}, ledger.Record{}, refuse("fence", fmt.Errorf("no erasure id: %w", blobd.ErrInvalid))
	}
	if err := f.Scope.Check(); err != nil {
		return ledger.Erasure{}, ledger.Record{}, refuse("fence", err)
	}
	if err := f.CheckCallback(); err != nil {
		return ledger.Erasure{}, ledger.Record{}, refuse("fence", err)
	}
	if err := l.begin(ctx, "fence"); err != nil {
		return ledger.Erasure{}, ledger.Record{}, err
	}
	defer l.mu.Unlock()
	e, err := l.ask(&f)
	if err != nil {
		return ledger.Erasure{}, ledger.Record{}, refuse("fence", err)
	}
	return e.shown(), e.first, nil
}

// ask returns the erasure that has the id, or adds it.
func (l *Ledger) ask(f *ledger.Fence) (*erasure, error) {
	if first := l.erasure(f.ID); first != nil {
		if !first.sameScope(f.Scope) {
			return nil, fmt.Errorf("the erasure id has another scope: %w", blobd.ErrConflict)
		}
		return first, nil
	}
	if l.orders[f.ID] != nil {
		return nil, fmt.Errorf("the id is an order's: %w", blobd.ErrConflict)
	}
	if err := l.mayCall(f.Callback); err != nil {
		return nil, err
	}
	e, err := l.started(f)
	if err == nil && f.Callback != nil {
		l.insertWebhook(f.Callback.Webhook)
		l.append(f.Callback.Entry)
	}
	return e, err
}

// mayCall refuses a callback that cannot be made.
func (l *Ledger) mayCall(callback *ledger.Callback) error {
	if callback == nil {
		return nil
	}
	if _, known := l.tenants[callback.Webhook.Tenant]; !known {
		return fmt.Errorf("tenant: %w", blobd.ErrNotFound)
	}
	return l.freeWebhookID(callback.Webhook.ID)
}

// started is a new erasure, as far as it goes by itself.
func (l *Ledger) started(f *ledger.Fence) (*erasure, error) {
	e := newErasure(f)
	scope := e.scope()
	if err := l.ours(&scope); err != nil {
		return nil, err
	}
	if _, known := l.tenants[scope.Tenant]; scope.WholeTenant && !known {
		return nil, fmt.Errorf("tenant: %w", blobd.ErrNotFound)
	}
	if f.Strict && l.guarded(&scope, f.At) {
		return nil, fmt.Errorf("something in scope is protected: %w", blobd.ErrHeld)
	}
	e.Wrap = l.wrapOf(scope)
	if f.Approvals > 0 {
		if _, known := l.tenants[scope.Tenant]; !known {
			return nil, fmt.Errorf("tenant: %w", blobd.ErrNotFound)
		}
		l.erasures = append(l.erasures, e)
		l.append(f.Asked...)
		return e, nil
	}
	return e, l.proceed(e, step{
		at: f.At, runAt: f.RunAt, grace: f.GraceUntil, deferred: f.DeferUntil, fenced: f.Entries, closed: f.Closed,
	})
}

// newErasure is the row of an erasure that was asked for and did nothing yet.
func newErasure(f *ledger.Fence) *erasure {
	e := &erasure{
		Erasure: ledger.Erasure{
			ID: f.ID, Scope: cloneScope(f.Scope), OfRefs: len(f.Scope.Refs) > 0, Closing: true, State: ledger.ErasureAwaiting,
			Plan: f.Plan, PlanDigest: f.PlanDigest, Planned: f.PlanDigest != [32]byte{}, Approvals: f.Approvals,
			RequestedBy: f.RequestedBy, Reason: f.Reason, LegalBasis: f.LegalBasis, Regime: f.Regime,
			ExternalRef: f.ExternalRef, ReceivedAt: kept(f.ReceivedAt), DueAt: kept(f.DueAt), FencedAt: kept(f.At),
		},
		found: map[ledger.Position]bool{}, met: map[blobd.ExecutionTag]bool{},
	}
	if f.Approvals > 0 {
		e.GraceUntil = kept(f.GraceUntil)
	}
	e.asked, e.Scope.Refs = e.Scope.Refs, nil
	return e
}

// sameScope compares what was asked for; refs are compared by whether there are any.
func (e *erasure) sameScope(s ledger.Scope) bool {
	ofRefs := len(s.Refs) > 0
	s = cloneScope(s)
	s.Refs = nil
	return e.OfRefs == ofRefs && sameScope(e.Scope, s)
}

func (l *Ledger) erasure(id string) *erasure {
	i := slices.IndexFunc(l.erasures, func(e *erasure) bool { return e.ID == id })
	if i < 0 {
		return nil
	}
	return l.erasures[i]
}

// wrapOf is ledger.Erasure's Wrap for a scope that is about to be erased.
func (l *Ledger) wrapOf(s ledger.Scope) uint32 {
	e := l.executions[s.Tag]
	switch {
	case e == nil || !s.Form().Bounded():
		return l.tenants[s.Tenant].MinimumWrap
	case e.Key != nil:
		return e.Key.Version
	}
	var wrap uint32
	for _, earlier := range l.erasures {
		if earlier.Scope.Tag == s.Tag {
			wrap = max(wrap, earlier.Wrap)
		}
	}
	return wrap
}

// fence erases the scope of an erasure. A replayed one also enters tombstones for
// refs whose rows were lost.
func (l *Ledger) fence(e *erasure, at time.Time, replayed bool) error {
	scope := e.scope()
	plan, rows, named, err := l.plan(scope, e.OfRefs)
	if err != nil {
		return err
	}
	switch {
	case scope.WholeTenant:
		plan.Executions, plan.Blobs, plan.Bytes = 0, 0, 0 // counted by DropKeys
		l.fenceTenant(e, at)
	case e.OfRefs:
		l.eraseRows(scope.Tag, rows)
		lost := len(rows) > 0
		if replayed {
			entered := l.enterErased(scope, at)
			named = append(named, entered...)
			lost = lost || len(entered) > 0
		}
		if x := l.executions[scope.Tag]; lost && x != nil && x.Key != nil {
			l.lostBlob[scope.Tag] = true
		}
	case !l.fenced(scope.Tenant):
		if err := l.fenceExecution(scope, at); err != nil {
			return err
		}
	}
	if e.OfRefs {
		plan.AlreadyErased = max(0, plan.AlreadyErased-e.Dropped) // what it dropped itself is not others'
	}
	e.Closing, e.State, e.Fenced, e.refs = false, ledger.ErasureRunning, plan, sorted(named)
	if !e.Planned {
		e.Plan = plan
	}
	return nil
}

func (l *Ledger) fenceExecution(s ledger.Scope, at time.Time) error {
	e := l.executions[s.Tag]
	switch {
	case e == nil && l.idInUse(s.Tenant, s.ExecutionID):
		return fmt.Errorf("the execution id has another tag: %w", blobd.ErrConflict)
	case e == nil:
		e = &ledger.Execution{Tag: s.Tag, Tenant: s.Tenant, ID: s.ExecutionID, CreatedAt: kept(at)}
		l.executions[s.Tag] = e
	case e.State == ledger.ExecutionErased:
		return nil
	}
	e.EraseAt(kept(at))
	delete(l.lostBlob, e.Tag)
	return nil
}

func (l *Ledger) eraseRows(tag blobd.ExecutionTag, rows []*ledger.Blob) {
	for _, row := range rows {
		if e := l.executions[tag]; row.State == ledger.BlobLive && e != nil {
			e.Blobs, e.Bytes = e.Blobs-1, e.Bytes-row.Size
		}
		row.State, row.WrappedKey = ledger.BlobErased, nil
	}
}

// enterErased enters tombstones for refs without a row, and returns those refs.
func (l *Ledger) enterErased(s ledger.Scope, when time.Time) (entered []blobd.Ref) {
	if e := l.executions[s.Tag]; l.fenced(s.Tenant) || e != nil && e.State == ledger.ExecutionErased {
		return nil
	}
	for _, ref := range s.Refs {
		at := ledger.Position{Tag: s.Tag, Ref: ref}
		if l.blobs[at] == nil {
			l.blobs[at] = &ledger.Blob{Ref: ref, State: ledger.BlobErased, CreatedAt: kept(when)}
			entered = append(entered, ref)
		}
	}
	return entered
}
