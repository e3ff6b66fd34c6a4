package faulty

import (
	"context"

	"github.com/blobd/blobd/ledger"
)

// ClockNote implements ledger.ClockNotes.
func (l *Ledger) ClockNote(ctx context.Context) (ledger.ClockNote, error) {
	return get(l, "clocknote", func() (ledger.ClockNote, error) { return l.inner.ClockNote(ctx) })
}

// NoteClock implements ledger.ClockNotes.
func (l *Ledger) NoteClock(ctx context.Context, n ledger.ClockNote, entries []ledger.Entry) error {
	return l.do("noteclock", func() error { return l.inner.NoteClock(ctx, n, entries) })
}
