package faulty

import (
	"context"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// SetPolicy implements ledger.Policies.
func (l *Ledger) SetPolicy(ctx context.Context, p ledger.Policy, e ledger.Entry) error {
	return l.do("setpolicy", func() error { return l.inner.SetPolicy(ctx, p, e) })
}

// Classes implements ledger.Policies.
func (l *Ledger) Classes(ctx context.Context, tenant, after string, limit int) ([]ledger.Class, error) {
	return get(l, "classes", func() ([]ledger.Class, error) { return l.inner.Classes(ctx, tenant, after, limit) })
}

// EndExecution implements ledger.Policies.
func (l *Ledger) EndExecution(ctx context.Context, tenant string, tag blobd.ExecutionTag, at time.Time, e ledger.Entry) (ledger.Execution, error) {
	return get(l, "endexecution", func() (ledger.Execution, error) { return l.inner.EndExecution(ctx, tenant, tag, at, e) })
}

// Due implements ledger.Policies.
func (l *Ledger) Due(ctx context.Context, q ledger.DueQuery) ([]ledger.DueRow, error) {
	return get(l, "due", func() ([]ledger.DueRow, error) { return l.inner.Due(ctx, q) })
}

// CountStored implements ledger.Policies.
func (l *Ledger) CountStored(ctx context.Context, tenant string, atMost int64) (int64, error) {
	return get(l, "countstored", func() (int64, error) { return l.inner.CountStored(ctx, tenant, atMost) })
}

// StartSweep implements ledger.Sweeps.
func (l *Ledger) StartSweep(ctx context.Context, n ledger.NewSweep) (ledger.Sweep, error) {
	return get(l, "startsweep", func() (ledger.Sweep, error) { return l.inner.StartSweep(ctx, n) })
}

// ClaimSweep implements ledger.Sweeps.
func (l *Ledger) ClaimSweep(ctx context.Context, owner string, at, until time.Time) (ledger.SweepJob, error) {
	return get(l, "claimsweep", func() (ledger.SweepJob, error) { return l.inner.ClaimSweep(ctx, owner, at, until) })
}

// MoveSweep implements ledger.Sweeps.
func (l *Ledger) MoveSweep(ctx context.Context, lease ledger.SweepLease, m ledger.SweepMove) error {
	return l.do("movesweep", func() error { return l.inner.MoveSweep(ctx, lease, m) })
}

// Expire implements ledger.Sweeps.
func (l *Ledger) Expire(ctx context.Context, lease ledger.SweepLease, x ledger.Expiry) ([]ledger.DueRow, error) {
	return get(l, "expire", func() ([]ledger.DueRow, error) { return l.inner.Expire(ctx, lease, x) })
}

// Bury implements ledger.Sweeps.
func (l *Ledger) Bury(ctx context.Context, lease ledger.SweepLease, rows []ledger.Position) (int, error) {
	return get(l, "bury", func() (int, error) { return l.inner.Bury(ctx, lease, rows) })
}

// Sweep implements ledger.Sweeps.
func (l *Ledger) Sweep(ctx context.Context, tenant, id string) (ledger.Sweep, error) {
	return get(l, "sweep", func() (ledger.Sweep, error) { return l.inner.Sweep(ctx, tenant, id) })
}

// ListSweeps implements ledger.Sweeps.
func (l *Ledger) ListSweeps(ctx context.Context, q ledger.SweepQuery) ([]ledger.Sweep, error) {
	return get(l, "listsweeps", func() ([]ledger.Sweep, error) { return l.inner.ListSweeps(ctx, q) })
}
