package mem

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// order is an order's row.
type order struct {
	ledger.Order
	first ledger.Record
}

// shown is an order for a reader.
func (o *order) shown() ledger.Order {
	out := o.Order
	out.Scope, out.Purposes = cloneScope(o.Scope), slices.Clone(o.Purposes)
	return out
}

// cloneScope returns a scope as every engine keeps it.
func cloneScope(s ledger.Scope) ledger.Scope {
	s.Refs, s.CapturedBefore = sorted(s.Refs), kept(s.CapturedBefore)
	s.Subjects = slices.Clone(s.Subjects)
	slices.SortFunc(s.Subjects, func(a, b [32]byte) int { return bytes.Compare(a[:], b[:]) })
	s.Subjects = slices.Compact(s.Subjects)
	return s
}

// sameScope compares two scopes as cloneScope returns them, without what only
// explains the tag.
func sameScope(a, b ledger.Scope) bool {
	return a.Form() == b.Form() && a.Tenant == b.Tenant && a.Tag == b.Tag && a.Class == b.Class &&
		a.CapturedBefore.Equal(b.CapturedBefore) && slices.Equal(a.Refs, b.Refs) && slices.Equal(a.Subjects, b.Subjects)
}

// PlaceOrder implements ledger.Orders.
func (l *Ledger) PlaceOrder(ctx context.Context, o ledger.Order, e ledger.Entry) (ledger.Order, ledger.Record, error) {
	if err := o.Check(); err != nil {
		return ledger.Order{}, ledger.Record{}, refuse("place order", err)
	}
	if err := l.begin(ctx, "place order"); err != nil {
		return ledger.Order{}, ledger.Record{}, err
	}
	defer l.mu.Unlock()
	o.Scope = cloneScope(o.Scope)
	if first := l.orders[o.ID]; first != nil {
		if first.Kind != o.Kind || !sameScope(first.Scope, o.Scope) {
			return ledger.Order{}, ledger.Record{}, refuse("place order", fmt.Errorf("the id is another order's: %w", blobd.ErrConflict))
		}
		return first.shown(), first.first, nil
	}
	if err := l.living(o.Scope.Tenant); err != nil {
		return ledger.Order{}, ledger.Record{}, refuse("place order", err)
	}
	if err := l.ours(&o.Scope); err != nil {
		return ledger.Order{}, ledger.Record{}, refuse("place order", err)
	}
	o.ErasureID, o.LiftedAt, o.LiftedBy, o.LiftReason = "", time.Time{}, "", ""
	placed := l.insertOrder(o)
	l.append(e)
	placed.first = l.record(ledger.RecordOf(&placed.Order, time.Time{}))
	return placed.shown(), placed.first, nil
}

// insertOrder adds an open order, as every engine keeps it.
func (l *Ledger) insertOrder(o ledger.Order) *order {
	o.Scope, o.Purposes = cloneScope(o.Scope), slices.Clone(o.Purposes)
	o.ReviewAt, o.ExpiresAt, o.PlacedAt = kept(o.ReviewAt), kept(o.ExpiresAt), kept(o.PlacedAt)
	row := &order{Order: o}
	l.orders[o.ID] = row
	l.open[o.Scope.Tenant] = append(l.open[o.Scope.Tenant], row)
	return row
}

// end lifts an open order.
func (l *Ledger) end(o *order, at time.Time, by, reason string) {
	o.LiftedAt, o.LiftedBy, o.LiftReason = kept(at), by, reason
	l.open[o.Scope.Tenant] = slices.DeleteFunc(l.open[o.Scope.Tenant], func(other *order) bool { return other == o })
	if o.Kind == ledger.OrderHold {
		l.wake(o.Scope.Tenant, at)
	}
}

// LiftOrder implements ledger.Orders.
func (l *Ledger) LiftOrder(ctx context.Context, x ledger.Lift, e ledger.Entry) (ledger.Order, ledger.Record, error) {
	if x.Kind == ledger.OrderClosing {
		return ledger.Order{}, ledger.Record{}, refuse("lift order", fmt.Errorf("a closing is its erasure's: %w", blobd.ErrInvalid))
	}
	if err := l.begin(ctx, "lift order"); err != nil {
		return ledger.Order{}, ledger.Record{}, err
	}
	defer l.mu.Unlock()
	o := l.orders[x.ID]
	switch {
	case o == nil || o.Kind != x.Kind || o.Scope.Tenant != x.Tenant:
		return ledger.Order{}, ledger.Record{}, refuse("lift order", blobd.ErrNotFound)
	case !o.Open():
		return o.shown(), ledger.Record{}, nil
	}
	l.end(o, x.At, x.By, x.Reason)
	l.append(e)
	return o.shown(), l.record(ledger.LiftRecordOf(&o.Order)), nil
}

// Order implements ledger.Orders.
func (l *Ledger) Order(ctx context.Context, tenant, id string) (ledger.Order, error) {
	if err := l.begin(ctx, "order"); err != nil {
		return ledger.Order{}, err
	}
	defer l.mu.Unlock()
	o := l.orders[id]
	if o == nil || o.Scope.Tenant != tenant {
		return ledger.Order{}, refuse("order", blobd.ErrNotFound)
	}
	return o.shown(), nil
}

// ListOrders implements ledger.Orders.
func (l *Ledger) ListOrders(ctx context.Context, q ledger.OrderQuery) ([]ledger.Order, error) {
	if err := checkLimit("list orders", q.Limit); err != nil {
		return nil, err
	}
	if q.Kind == ledger.OrderClosing {
		return nil, refuse("list orders", fmt.Errorf("closings have no listing: %w", blobd.ErrInvalid))
	}
	if err := l.begin(ctx, "list orders"); err != nil {
		return nil, err
	}
	defer l.mu.Unlock()
	newest := func(a, b ledger.OrderCursor) int {
		return cmp.Or(b.PlacedAt.Compare(a.PlacedAt), cmp.Compare(b.ID, a.ID))
	}
	cursor := func(o *ledger.Order) ledger.OrderCursor { return ledger.OrderCursor{PlacedAt: o.PlacedAt, ID: o.ID} }
	before := ledger.OrderCursor{PlacedAt: kept(q.Before.PlacedAt), ID: q.Before.ID}
	var all []ledger.Order
	for _, o := range l.orders {
		switch {
		case o.Scope.Tenant != q.Tenant, o.Kind != q.Kind, q.Open && !o.Open():
		case q.Before != (ledger.OrderCursor{}) && newest(before, cursor(&o.Order)) >= 0:
		default:
			all = append(all, o.shown())
		}
	}
	slices.SortFunc(all, func(a, b ledger.Order) int { return newest(cursor(&a), cursor(&b)) })
	return cut(all, q.Limit), nil
}

// CountHeld implements ledger.Orders.
func (l *Ledger) CountHeld(ctx context.Context, tenant, id string, atMost int64) (rows, size int64, err error) {
	if atMost < 1 {
		return 0, 0, refuse("count held", fmt.Errorf("at most %d: %w", atMost, blobd.ErrInvalid))
	}
	if err := l.begin(ctx, "count held"); err != nil {
		return 0, 0, err
	}
	defer l.mu.Unlock()
	o := l.orders[id]
	if o == nil || o.Scope.Tenant != tenant {
		return 0, 0, refuse("count held", blobd.ErrNotFound)
	}
	for at := range l.blobs {
		r, is := l.due(at)
		if rows < atMost && is && r.State != ledger.BlobExpired && l.executions[at.Tag].Tenant == tenant && l.covers(&o.Scope, &r) {
			rows, size = rows+1, size+r.Size
		}
	}
	return rows, size, nil
}
