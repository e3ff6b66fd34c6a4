package faulty

import (
	"context"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// PlaceOrder implements ledger.Orders.
func (l *Ledger) PlaceOrder(ctx context.Context, o ledger.Order, e ledger.Entry) (placed ledger.Order, rec ledger.Record, err error) {
	err = l.do("placeorder", func() (err error) { placed, rec, err = l.inner.PlaceOrder(ctx, o, e); return err })
	return placed, rec, err
}

// LiftOrder implements ledger.Orders.
func (l *Ledger) LiftOrder(ctx context.Context, x ledger.Lift, e ledger.Entry) (lifted ledger.Order, rec ledger.Record, err error) {
	err = l.do("liftorder", func() (err error) { lifted, rec, err = l.inner.LiftOrder(ctx, x, e); return err })
	return lifted, rec, err
}

// Order implements ledger.Orders.
func (l *Ledger) Order(ctx context.Context, tenant, id string) (ledger.Order, error) {
	return get(l, "order", func() (ledger.Order, error) { return l.inner.Order(ctx, tenant, id) })
}

// ListOrders implements ledger.Orders.
func (l *Ledger) ListOrders(ctx context.Context, q ledger.OrderQuery) ([]ledger.Order, error) {
	return get(l, "listorders", func() ([]ledger.Order, error) { return l.inner.ListOrders(ctx, q) })
}

// CountHeld implements ledger.Orders.
func (l *Ledger) CountHeld(ctx context.Context, tenant, id string, atMost int64) (rows, bytes int64, err error) {
	err = l.do("countheld", func() (err error) { rows, bytes, err = l.inner.CountHeld(ctx, tenant, id, atMost); return err })
	return rows, bytes, err
}

// Decide implements ledger.Closings.
func (l *Ledger) Decide(ctx context.Context, d ledger.Decision) (x ledger.Erasure, rec ledger.Record, err error) {
	err = l.do("decide", func() (err error) { x, rec, err = l.inner.Decide(ctx, d); return err })
	return x, rec, err
}

// Replan implements ledger.Closings.
func (l *Ledger) Replan(ctx context.Context, tenant, id string, p ledger.Plan, digest [32]byte, e ledger.Entry) error {
	return l.do("replan", func() error { return l.inner.Replan(ctx, tenant, id, p, digest, e) })
}

// FenceClosed implements ledger.Closings.
func (l *Ledger) FenceClosed(ctx context.Context, lease ledger.Lease, at time.Time, es []ledger.Entry) (x ledger.Erasure, rec ledger.Record, err error) {
	err = l.do("fenceclosed", func() (err error) { x, rec, err = l.inner.FenceClosed(ctx, lease, at, es); return err })
	return x, rec, err
}

// Drop implements ledger.Closings.
func (l *Ledger) Drop(ctx context.Context, lease ledger.Lease, d ledger.Drop) (ledger.Dropped, error) {
	return get(l, "drop", func() (ledger.Dropped, error) { return l.inner.Drop(ctx, lease, d) })
}

// Defer implements ledger.Closings.
func (l *Ledger) Defer(ctx context.Context, lease ledger.Lease, due time.Time, p ledger.Progress, es []ledger.Entry) error {
	return l.do("defer", func() error { return l.inner.Defer(ctx, lease, due, p, es) })
}

// DroppedRows implements ledger.Closings.
func (l *Ledger) DroppedRows(ctx context.Context, erasureID string, after ledger.Position, limit int) ([]ledger.Position, error) {
	return get(l, "droppedrows", func() ([]ledger.Position, error) { return l.inner.DroppedRows(ctx, erasureID, after, limit) })
}

// ScopeRows implements ledger.Closings.
func (l *Ledger) ScopeRows(ctx context.Context, s ledger.Scope, after ledger.ScopeCursor, limit int) (rows []ledger.ScopeRow, next ledger.ScopeCursor, err error) {
	err = l.do("scoperows", func() (err error) { rows, next, err = l.inner.ScopeRows(ctx, s, after, limit); return err })
	return rows, next, err
}

// Coverage implements ledger.Closings.
func (l *Ledger) Coverage(ctx context.Context, tenant string) (ledger.Coverage, error) {
	return get(l, "coverage", func() (ledger.Coverage, error) { return l.inner.Coverage(ctx, tenant) })
}

// FindRef implements ledger.Closings.
func (l *Ledger) FindRef(ctx context.Context, tenant string, ref blobd.Ref, limit int) ([]blobd.ExecutionTag, error) {
	return get(l, "findref", func() ([]blobd.ExecutionTag, error) { return l.inner.FindRef(ctx, tenant, ref, limit) })
}

// SetApprovals implements ledger.Closings.
func (l *Ledger) SetApprovals(ctx context.Context, tenant string, approvals int, e ledger.Entry) error {
	return l.do("setapprovals", func() error { return l.inner.SetApprovals(ctx, tenant, approvals, e) })
}
