package mem

import (
	"bytes"
	"context"
	"slices"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

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
	return e.shown(), nil
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
	if e.Closing {
		return slices.Clone(e.asked), nil
	}
	return slices.Clone(e.refs), nil
}

// matches reports whether a query selects the erasure by its state and clock.
func (e *erasure) matches(q *ledger.ErasureQuery) bool {
	ended := e.State == ledger.ErasureErased || e.State == ledger.ErasureDenied || e.State == ledger.ErasureCancelled
	switch {
	case !q.DueBefore.IsZero() && (ended || e.DueAt.IsZero() || !e.DueAt.Before(kept(q.DueBefore))):
		return false
	case q.State == ledger.ErasurePartial:
		return e.Stands() == ledger.ErasurePartial
	}
	return q.State == "" || e.State == q.State
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
		case e.Scope.Tenant != q.Tenant, !e.matches(&q):
		case q.Before != (ledger.ErasureCursor{}) && newest(before, cursor(e.Erasure)) >= 0:
		default:
			es = append(es, e.shown())
		}
	}
	slices.SortFunc(es, func(a, b ledger.Erasure) int { return newest(cursor(a), cursor(b)) })
	return cut(es, q.Limit), nil
}
