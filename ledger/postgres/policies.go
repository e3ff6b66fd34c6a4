package postgres

import (
	"context"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

func expiry(captured time.Time, maximum time.Duration) time.Time {
	if maximum == 0 {
		return ledger.EndOf(nil, captured, time.Time{})
	}
	return captured.Add(maximum)
}

// SetPolicy implements ledger.Policies.
func (l *Ledger) SetPolicy(ctx context.Context, p ledger.Policy, e ledger.Entry) error {
	return l.write(ctx, "set policy", func(ctx context.Context, x *tx) error {
		return blobd.ErrUnavailable
	})
}
func (l *Ledger) Classes(ctx context.Context, tenant, after string, limit int) ([]ledger.Class, error) {
	return nil, blobd.ErrUnavailable
}
func (l *Ledger) EndExecution(ctx context.Context, tenant string, tag blobd.ExecutionTag, at time.Time, e ledger.Entry) (ledger.Execution, error) {
	return ledger.Execution{}, blobd.ErrUnavailable
}
func (l *Ledger) Due(ctx context.Context, q ledger.DueQuery) ([]ledger.DueRow, error) {
	return nil, blobd.ErrUnavailable
}
func (l *Ledger) CountStored(ctx context.Context, tenant string, atMost int64) (int64, error) {
	return 0, blobd.ErrUnavailable
}
func (l *Ledger) StartSweep(ctx context.Context, n ledger.NewSweep) (ledger.Sweep, error) {
	return ledger.Sweep{}, blobd.ErrUnavailable
}
func (l *Ledger) ClaimSweep(ctx context.Context, owner string, at, until time.Time) (ledger.SweepJob, error) {
	return ledger.SweepJob{}, blobd.ErrUnavailable
}
func (l *Ledger) MoveSweep(ctx context.Context, lease ledger.SweepLease, m ledger.SweepMove) error {
	return blobd.ErrUnavailable
}
func (l *Ledger) Expire(ctx context.Context, lease ledger.SweepLease, x ledger.Expiry) ([]ledger.DueRow, error) {
	return nil, blobd.ErrUnavailable
}
func (l *Ledger) Bury(ctx context.Context, lease ledger.SweepLease, rows []ledger.Position) (int, error) {
	return 0, blobd.ErrUnavailable
}
func (l *Ledger) Sweep(ctx context.Context, tenant, id string) (ledger.Sweep, error) {
	return ledger.Sweep{}, blobd.ErrUnavailable
}
func (l *Ledger) ListSweeps(ctx context.Context, q ledger.SweepQuery) ([]ledger.Sweep, error) {
	return nil, blobd.ErrUnavailable
}
