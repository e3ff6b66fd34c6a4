package faulty

import (
	"context"
	"time"

	"github.com/blobd/blobd/ledger"
)

// AddClockEvent implements ledger.Clocks.
func (l *Ledger) AddClockEvent(ctx context.Context, m ledger.ClockMove, e ledger.Entry) error {
	return l.do("addclockevent", func() error { return l.inner.AddClockEvent(ctx, m, e) })
}

// ClockEvents implements ledger.Clocks.
func (l *Ledger) ClockEvents(ctx context.Context, tenant, erasureID string) ([]ledger.ClockEvent, error) {
	return get(l, "clockevents", func() ([]ledger.ClockEvent, error) { return l.inner.ClockEvents(ctx, tenant, erasureID) })
}

// DueDates implements ledger.Clocks.
func (l *Ledger) DueDates(ctx context.Context, at time.Time) ([]ledger.DueDate, error) {
	return get(l, "duedates", func() ([]ledger.DueDate, error) { return l.inner.DueDates(ctx, at) })
}
