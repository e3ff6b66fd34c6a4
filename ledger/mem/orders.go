package mem

import (
	"context"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// PlaceOrder implements ledger.Orders.
func (l *Ledger) PlaceOrder(ctx context.Context, o ledger.Order, e ledger.Entry) (ledger.Order, ledger.Record, error) {
	return ledger.Order{}, ledger.Record{}, blobd.ErrUnavailable
}

// LiftOrder implements ledger.Orders.
func (l *Ledger) LiftOrder(ctx context.Context, x ledger.Lift, e ledger.Entry) (ledger.Order, ledger.Record, error) {
	return ledger.Order{}, ledger.Record{}, blobd.ErrUnavailable
}

// Order implements ledger.Orders.
func (l *Ledger) Order(ctx context.Context, tenant, id string) (ledger.Order, error) {
	return ledger.Order{}, blobd.ErrUnavailable
}

// ListOrders implements ledger.Orders.
func (l *Ledger) ListOrders(ctx context.Context, q ledger.OrderQuery) ([]ledger.Order, error) {
	return nil, blobd.ErrUnavailable
}

// CountHeld implements ledger.Orders.
func (l *Ledger) CountHeld(ctx context.Context, tenant, id string, atMost int64) (rows, bytes int64, err error) {
	return 0, 0, blobd.ErrUnavailable
}

// Decide implements ledger.Closings.
func (l *Ledger) Decide(ctx context.Context, d ledger.Decision) (ledger.Erasure, ledger.Record, error) {
	return ledger.Erasure{}, ledger.Record{}, blobd.ErrUnavailable
}

// Replan implements ledger.Closings.
func (l *Ledger) Replan(ctx context.Context, tenant, id string, p ledger.Plan, digest [32]byte, e ledger.Entry) error {
	return blobd.ErrUnavailable
}

// FenceClosed implements ledger.Closings.
func (l *Ledger) FenceClosed(ctx context.Context, lease ledger.Lease, at time.Time, es []ledger.Entry) (ledger.Erasure, ledger.Record, error) {
	return ledger.Erasure{}, ledger.Record{}, blobd.ErrUnavailable
}

// Drop implements ledger.Closings.
func (l *Ledger) Drop(ctx context.Context, lease ledger.Lease, d ledger.Drop) (ledger.Dropped, error) {
	return ledger.Dropped{}, blobd.ErrUnavailable
}

// Defer implements ledger.Closings.
func (l *Ledger) Defer(ctx context.Context, lease ledger.Lease, due time.Time, p ledger.Progress, es []ledger.Entry) error {
	return blobd.ErrUnavailable
}

// DroppedRows implements ledger.Closings.
func (l *Ledger) DroppedRows(ctx context.Context, erasureID string, after ledger.Position, limit int) ([]ledger.Position, error) {
	return nil, blobd.ErrUnavailable
}

// ScopeRows implements ledger.Closings.
func (l *Ledger) ScopeRows(ctx context.Context, s ledger.Scope, after ledger.ScopeCursor, limit int) ([]ledger.ScopeRow, ledger.ScopeCursor, error) {
	return nil, ledger.ScopeCursor{}, blobd.ErrUnavailable
}

// Coverage implements ledger.Closings.
func (l *Ledger) Coverage(ctx context.Context, tenant string) (ledger.Coverage, error) {
	return ledger.Coverage{}, blobd.ErrUnavailable
}

// FindRef implements ledger.Closings.
func (l *Ledger) FindRef(ctx context.Context, tenant string, ref blobd.Ref, limit int) ([]blobd.ExecutionTag, error) {
	return nil, blobd.ErrUnavailable
}

// SetApprovals implements ledger.Closings.
func (l *Ledger) SetApprovals(ctx context.Context, tenant string, approvals int, e ledger.Entry) error {
	return blobd.ErrUnavailable
}
