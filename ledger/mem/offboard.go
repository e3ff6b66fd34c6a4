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

// fenced reports whether a tenant was off-boarded.
func (l *Ledger) fenced(tenant string) bool {
	t := l.tenants[tenant]
	return t.Fenced()
}

// living refuses what would make something new under a tenant.
func (l *Ledger) living(tenant string) error {
	t, known := l.tenants[tenant]
	switch {
	case !known:
		return fmt.Errorf("tenant: %w", blobd.ErrNotFound)
	case t.Fenced():
		return blobd.ErrTenantErased
	}
	return nil
}

// shown is an execution's row as it reads, which its tenant's fence and the open
// orders decide too.
func (l *Ledger) shown(e *ledger.Execution) *ledger.Execution {
	s := cloneExecution(*e)
	if t := l.tenants[e.Tenant]; t.Fenced() {
		s.EraseAt(t.FencedAt)
	}
	if s.State != ledger.ExecutionOpen {
		return s
	}
	if why := l.closesWhole(e.Tenant, e.Tag); why != 0 {
		s.State, s.CloseReason = ledger.ExecutionClosed, why
	}
	return s
}

// planTenant counts what a tenant holds.
func (l *Ledger) planTenant(tenant string) (p ledger.Plan, err error) {
	t, known := l.tenants[tenant]
	switch {
	case !known:
		return p, fmt.Errorf("tenant: %w", blobd.ErrNotFound)
	case t.Fenced():
		return ledger.Plan{AlreadyErased: 1}, nil
	}
	for _, e := range l.executions {
		if e.Tenant == tenant && e.State != ledger.ExecutionErased {
			p.Executions, p.Blobs, p.Bytes = p.Executions+1, p.Blobs+e.Blobs, p.Bytes+e.Bytes
		}
	}
	return p, nil
}

// fenceTenant marks the tenant's row, the first time.
func (l *Ledger) fenceTenant(e *erasure, at time.Time) {
	t := l.tenants[e.Scope.Tenant]
	if t.Fenced() {
		return
	}
	t.FencedAt, t.FencedBy, t.IndexKey = kept(at), e.ID, nil
	l.tenants[t.ID] = t
	for _, e := range l.epochs {
		if e.Tenant == t.ID && !over(e.State) {
			e.State, e.held = ledger.EpochEnded, false
		}
	}
}

// enterTenant makes the row of a tenant that was lost.
func (l *Ledger) enterTenant(r ledger.Record) {
	if _, known := l.tenants[r.Tenant]; !known {
		l.tenants[r.Tenant] = ledger.Tenant{ID: r.Tenant, CreatedAt: kept(r.At)}
	}
}

// keyed lists the executions of a whole tenant's erasure that are not erased yet,
// oldest first. One that has not fenced drops no execution's key.
func (l *Ledger) keyed(e *erasure) (xs []*ledger.Execution) {
	for _, x := range l.executions {
		if e.Scope.WholeTenant && !e.Closing && x.Tenant == e.Scope.Tenant && x.State != ledger.ExecutionErased {
			xs = append(xs, x)
		}
	}
	slices.SortFunc(xs, func(a, b *ledger.Execution) int {
		if c := a.CreatedAt.Compare(b.CreatedAt); c != 0 {
			return c
		}
		return bytes.Compare(a.Tag[:], b.Tag[:])
	})
	return xs
}

// DropKeys implements ledger.Jobs.
func (l *Ledger) DropKeys(ctx context.Context, lease ledger.Lease, limit int) (ledger.Plan, bool, error) {
	if err := checkLimit("drop keys", limit); err != nil {
		return ledger.Plan{}, false, err
	}
	e, err := l.holder(ctx, "drop keys", lease)
	if err != nil {
		return ledger.Plan{}, false, err
	}
	defer l.mu.Unlock()
	all := l.keyed(e)
	for _, x := range cut(all, limit) {
		dropped := ledger.Extent{Executions: 1, Blobs: x.Blobs, Bytes: x.Bytes}
		e.Fenced.Add(dropped)
		if !e.Planned {
			e.Plan.Add(dropped)
		}
		x.EraseAt(l.tenants[x.Tenant].FencedAt)
		delete(l.lostBlob, x.Tag)
	}
	return e.Fenced, len(all) > limit, nil
}

// within reports whether an execution is in an erasure's scope.
func (l *Ledger) within(e *erasure, tag blobd.ExecutionTag) bool {
	if !e.Scope.WholeTenant {
		return tag == e.Scope.Tag
	}
	x := l.executions[tag]
	return x != nil && x.Tenant == e.Scope.Tenant
}

// comparePositions orders a tenant's or an execution's rows.
func comparePositions(a, b ledger.Position) int {
	if c := bytes.Compare(a.Tag[:], b.Tag[:]); c != 0 {
		return c
	}
	return bytes.Compare(a.Ref[:], b.Ref[:])
}
