package faulty

import (
	"context"
	"time"

	"github.com/blobd/blobd/ledger"
)

// StartEpoch implements ledger.Epochs.
func (l *Ledger) StartEpoch(ctx context.Context, n ledger.NewEpoch) (ledger.Epoch, error) {
	return get(l, "startepoch", func() (ledger.Epoch, error) { return l.inner.StartEpoch(ctx, n) })
}

// ClaimEpoch implements ledger.Epochs.
func (l *Ledger) ClaimEpoch(ctx context.Context, owner string, at, until time.Time) (ledger.EpochJob, error) {
	return get(l, "claimepoch", func() (ledger.EpochJob, error) { return l.inner.ClaimEpoch(ctx, owner, at, until) })
}

// MoveEpoch implements ledger.Epochs.
func (l *Ledger) MoveEpoch(ctx context.Context, lease ledger.EpochLease, m ledger.EpochMove) error {
	return l.do("moveepoch", func() error { return l.inner.MoveEpoch(ctx, lease, m) })
}

// Wraps implements ledger.Epochs.
func (l *Ledger) Wraps(ctx context.Context, q ledger.WrapQuery) ([]ledger.Wrap, error) {
	return get(l, "wraps", func() ([]ledger.Wrap, error) { return l.inner.Wraps(ctx, q) })
}

// Rewrap implements ledger.Epochs.
func (l *Ledger) Rewrap(ctx context.Context, lease ledger.EpochLease, items []ledger.Rewrap) (int, error) {
	return get(l, "rewrap", func() (int, error) { return l.inner.Rewrap(ctx, lease, items) })
}

// ListEpochs implements ledger.Epochs.
func (l *Ledger) ListEpochs(ctx context.Context, q ledger.EpochQuery) ([]ledger.Epoch, error) {
	return get(l, "listepochs", func() ([]ledger.Epoch, error) { return l.inner.ListEpochs(ctx, q) })
}
