package mem

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// erasure is an erasure's row, which is also its job.
type erasure struct {
	ledger.Erasure
	refs  []blobd.Ref
	first ledger.Record
	runAt int64 // microseconds
	lease ledger.Lease
	held  bool
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
	if err := l.begin(ctx, "fence"); err != nil {
		return ledger.Erasure{}, ledger.Record{}, err
	}
	defer l.mu.Unlock()
	if first := l.erasure(f.ID); first != nil {
		if first.Scope.Tenant != f.Scope.Tenant || first.Scope.Tag != f.Scope.Tag ||
			first.OfRefs != (len(f.Scope.Refs) > 0) || first.Scope.WholeTenant != f.Scope.WholeTenant {
			return ledger.Erasure{}, ledger.Record{}, refuse("fence",
				fmt.Errorf("the erasure id has another scope: %w", blobd.ErrConflict))
		}
		return first.Erasure, first.first, nil
	}
	e, err := l.fence(f, len(f.Scope.Refs) > 0, false, l.wrapOf(f.Scope))
	if err != nil {
		return ledger.Erasure{}, ledger.Record{}, refuse("fence", err)
	}
	l.append(f.Entries...)
	kind := ledger.RecordFence
	switch {
	case e.Scope.WholeTenant:
		kind = ledger.RecordTenant
	case e.OfRefs:
		kind = ledger.RecordErase
	}
	e.first = l.record(ledger.Record{
		Kind: kind, At: f.At, Tenant: f.Scope.Tenant, Tag: f.Scope.Tag, Refs: e.refs, ErasureID: f.ID, Wrap: e.Wrap,
	})
	return e.Erasure, e.first, nil
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
	case e == nil || s.WholeTenant:
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

// fence erases a scope and adds the erasure. A replayed one also enters
// tombstones for refs whose rows were lost.
func (l *Ledger) fence(f ledger.Fence, ofRefs, replayed bool, wrap uint32) (*erasure, error) {
	plan, rows, named, err := l.plan(f.Scope, ofRefs)
	if err != nil {
		return nil, err
	}
	switch {
	case f.Scope.WholeTenant:
		plan.Executions, plan.Blobs, plan.Bytes = 0, 0, 0 // counted by DropKeys
		l.fenceTenant(f)
	case ofRefs:
		lost := len(rows) > 0
		l.eraseRows(f.Scope.Tag, rows)
		if replayed {
			entered := l.enterErased(f)
			named = append(named, entered...)
			lost = lost || len(entered) > 0
		}
		if x := l.executions[f.Scope.Tag]; lost && x != nil && x.Key != nil {
			l.lostBlob[f.Scope.Tag] = true
		}
	case !l.fenced(f.Scope.Tenant):
		if err := l.fenceExecution(f); err != nil {
			return nil, err
		}
	}
	e := &erasure{
		Erasure: ledger.Erasure{
			ID: f.ID, Scope: f.Scope, OfRefs: ofRefs, State: ledger.ErasureRunning, Plan: plan,
			RequestedBy: f.RequestedBy, Reason: f.Reason, LegalBasis: f.LegalBasis, Regime: f.Regime,
			ExternalRef: f.ExternalRef, ReceivedAt: kept(f.ReceivedAt), DueAt: kept(f.DueAt), FencedAt: kept(f.At), Wrap: wrap,
		},
		refs: sorted(named), runAt: f.RunAt.UnixMicro(),
	}
	e.Scope.Refs = nil
	l.erasures = append(l.erasures, e)
	return e, nil
}

func (l *Ledger) fenceExecution(f ledger.Fence) error {
	e := l.executions[f.Scope.Tag]
	switch {
	case e == nil && l.idInUse(f.Scope.Tenant, f.Scope.ExecutionID):
		return fmt.Errorf("the execution id has another tag: %w", blobd.ErrConflict)
	case e == nil:
		e = &ledger.Execution{
			Tag: f.Scope.Tag, Tenant: f.Scope.Tenant, ID: f.Scope.ExecutionID,
			CreatedAt: kept(f.At), ErasedAt: kept(f.At),
		}
		l.executions[f.Scope.Tag] = e
	case e.State == ledger.ExecutionErased:
		return nil
	}
	e.State, e.CloseReason, e.Key = ledger.ExecutionErased, 0, nil
	e.ErasedAt, e.Blobs, e.Bytes = kept(f.At), 0, 0
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
func (l *Ledger) enterErased(f ledger.Fence) (entered []blobd.Ref) {
	if e := l.executions[f.Scope.Tag]; l.fenced(f.Scope.Tenant) || e != nil && e.State == ledger.ExecutionErased {
		return nil
	}
	for _, ref := range sorted(f.Scope.Refs) {
		at := ledger.Position{Tag: f.Scope.Tag, Ref: ref}
		if l.blobs[at] == nil {
			l.blobs[at] = &ledger.Blob{Ref: ref, State: ledger.BlobErased, CreatedAt: kept(f.At)}
			entered = append(entered, ref)
		}
	}
	return entered
}

// Erasure implements ledger.Erasures.
func (l *Ledger) Erasure(ctx context.Context, tenant, id string) (ledger.Erasure, error) {
	if err := l.begin(ctx, "erasure"); err != nil {
		return ledger.Erasure{}, err
	}
	defer l.mu.Unlock()
	e := l.erasure(id)
	if e == nil || e.Scope.Tenant != tenant {
		return ledger.Erasure{}, refuse("erasure", blobd.ErrNotFound)
	}
	return e.Erasure, nil
}

// ErasedRefs implements ledger.Erasures.
func (l *Ledger) ErasedRefs(ctx context.Context, erasureID string) ([]blobd.Ref, error) {
	if err := l.begin(ctx, "erased refs"); err != nil {
		return nil, err
	}
	defer l.mu.Unlock()
	e := l.erasure(erasureID)
	if e == nil {
		return nil, refuse("erased refs", blobd.ErrNotFound)
	}
	return slices.Clone(e.refs), nil
}

// ListErasures implements ledger.Erasures.
func (l *Ledger) ListErasures(ctx context.Context, q ledger.ErasureQuery) ([]ledger.Erasure, error) {
	if err := checkLimit("list erasures", q.Limit); err != nil {
		return nil, err
	}
	if err := l.begin(ctx, "list erasures"); err != nil {
		return nil, err
	}
	defer l.mu.Unlock()
	newest := func(a, b ledger.ErasureCursor) int {
		if c := b.FencedAt.Compare(a.FencedAt); c != 0 {
			return c
		}
		return bytes.Compare([]byte(b.ID), []byte(a.ID))
	}
	cursor := func(e ledger.Erasure) ledger.ErasureCursor {
		return ledger.ErasureCursor{FencedAt: e.FencedAt, ID: e.ID}
	}
	var es []ledger.Erasure
	for _, e := range l.erasures {
		before := ledger.ErasureCursor{FencedAt: kept(q.Before.FencedAt), ID: q.Before.ID}
		switch {
		case e.Scope.Tenant != q.Tenant, q.State != "" && e.State != q.State:
		case q.Before != (ledger.ErasureCursor{}) && newest(before, cursor(e.Erasure)) >= 0:
		default:
			es = append(es, e.Erasure)
		}
	}
	slices.SortFunc(es, func(a, b ledger.Erasure) int { return newest(cursor(a), cursor(b)) })
	return cut(es, q.Limit), nil
}
