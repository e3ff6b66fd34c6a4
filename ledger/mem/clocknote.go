package mem

import (
	"context"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// ClockNote implements ledger.ClockNotes.
func (l *Ledger) ClockNote(ctx context.Context) (ledger.ClockNote, error) {
	if err := l.begin(ctx, "clock note"); err != nil {
		return ledger.ClockNote{}, err
	}
	defer l.mu.Unlock()
	n := l.clockNote
	n.Now = kept(l.now())
	return n, nil
}

// NoteClock implements ledger.ClockNotes.
func (l *Ledger) NoteClock(ctx context.Context, n ledger.ClockNote, entries []ledger.Entry) error {
	const op = "note the clock"
	if err := l.begin(ctx, op); err != nil {
		return err
	}
	defer l.mu.Unlock()
	if n.Version != l.clockNote.Version {
		return refuse(op, blobd.ErrConflict)
	}
	l.clockNote = ledger.ClockNote{Seen: kept(n.Seen), Since: kept(n.Since), Version: n.Version + 1}
	l.append(entries...)
	return nil
}
