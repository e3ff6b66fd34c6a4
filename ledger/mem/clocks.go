package mem

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// AddClockEvent implements ledger.Clocks.
func (l *Ledger) AddClockEvent(ctx context.Context, m ledger.ClockMove, e ledger.Entry) error {
	const op = "add a clock event"
	if err := m.Check(); err != nil {
		return refuse(op, err)
	}
	if err := l.begin(ctx, op); err != nil {
		return err
	}
	defer l.mu.Unlock()
	x := l.erasure(m.ErasureID)
	switch {
	case x == nil || x.Scope.Tenant != m.Tenant:
		return refuse(op, blobd.ErrNotFound)
	case x.State.Ended():
		return refuse(op, fmt.Errorf("the erasure is %s: %w", x.State, blobd.ErrConflict))
	case len(l.clocks[x.ID]) != m.Event.N-1:
		return refuse(op, fmt.Errorf("the clock has %d events: %w", len(l.clocks[x.ID]), blobd.ErrConflict))
	}
	event := m.Event
	event.At, event.RecordedAt, event.DueAt, event.StatedAt = kept(event.At), kept(event.RecordedAt), kept(event.DueAt), kept(event.StatedAt)
	if l.clocks == nil {
		l.clocks = make(map[string][]ledger.ClockEvent)
	}
	l.clocks[x.ID] = append(l.clocks[x.ID], event)
	x.DueAt = kept(m.DueAt)
	l.append(e)
	return nil
}

// ClockEvents implements ledger.Clocks.
func (l *Ledger) ClockEvents(ctx context.Context, tenant, erasureID string) ([]ledger.ClockEvent, error) {
	if err := l.begin(ctx, "clock events"); err != nil {
		return nil, err
	}
	defer l.mu.Unlock()
	if x := l.erasure(erasureID); x == nil || x.Scope.Tenant != tenant {
		return nil, refuse("clock events", blobd.ErrNotFound)
	}
	return slices.Clone(l.clocks[erasureID]), nil
}

// DueDates implements ledger.Clocks.
func (l *Ledger) DueDates(ctx context.Context, at time.Time) ([]ledger.DueDate, error) {
	if err := l.begin(ctx, "due dates"); err != nil {
		return nil, err
	}
	defer l.mu.Unlock()
	at = kept(at)
	var dates []ledger.DueDate
	for _, x := range l.erasures {
		if x.State.Ended() || x.DueAt.IsZero() {
			continue
		}
		i := slices.IndexFunc(dates, func(d ledger.DueDate) bool { return d.Regime == x.Regime })
		if i < 0 {
			i = len(dates)
			dates = append(dates, ledger.DueDate{Regime: x.Regime, Next: x.DueAt})
		}
		if x.DueAt.Before(dates[i].Next) {
			dates[i].Next = x.DueAt
		}
		if x.DueAt.Before(at) {
			dates[i].Overdue++
		}
	}
	slices.SortFunc(dates, func(a, b ledger.DueDate) int { return cmp.Compare(a.Regime, b.Regime) })
	return dates, nil
}
