package faulty

import (
	"context"
	"time"

	"github.com/blobd/blobd/ledger"
)

// ClaimSequencer implements ledger.Sequence.
func (l *Ledger) ClaimSequencer(ctx context.Context, owner string, at, until time.Time) (ledger.SequencerLease, error) {
	return get(l, "claimsequencer", func() (ledger.SequencerLease, error) { return l.inner.ClaimSequencer(ctx, owner, at, until) })
}

// Unsequenced implements ledger.Sequence.
func (l *Ledger) Unsequenced(ctx context.Context, after int64, limit int) ([]ledger.StoredEntry, error) {
	return get(l, "unsequenced", func() ([]ledger.StoredEntry, error) { return l.inner.Unsequenced(ctx, after, limit) })
}

// AppendToLog implements ledger.Sequence.
func (l *Ledger) AppendToLog(ctx context.Context, lease ledger.SequencerLease, a ledger.LogAppend) error {
	return l.do("appendtolog", func() error { return l.inner.AppendToLog(ctx, lease, a) })
}

// Logged implements ledger.Sequence.
func (l *Ledger) Logged(ctx context.Context, q ledger.LogQuery) ([]ledger.LoggedEntry, error) {
	return get(l, "logged", func() ([]ledger.LoggedEntry, error) { return l.inner.Logged(ctx, q) })
}

// LogState implements ledger.Sequence.
func (l *Ledger) LogState(ctx context.Context, size int64) (ledger.LogState, error) {
	return get(l, "logstate", func() (ledger.LogState, error) { return l.inner.LogState(ctx, size) })
}
