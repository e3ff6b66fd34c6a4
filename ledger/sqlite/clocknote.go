package sqlite

import (
	"context"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// ClockNote implements ledger.ClockNotes.
func (l *Ledger) ClockNote(ctx context.Context) (n ledger.ClockNote, err error) {
	err = l.read(ctx, "clock note", func(c *conn) error {
		_, err := c.one(ctx, "SELECT seen, since, version FROM clock_watch", func(r *row) {
			n.Seen, n.Since, n.Version = r.time(0), r.time(1), r.int(2)
		})
		return err
	})
	if err != nil {
		return ledger.ClockNote{}, err
	}
	n.Now = stored(l.now())
	return n, nil
}

// NoteClock implements ledger.ClockNotes.
func (l *Ledger) NoteClock(ctx context.Context, n ledger.ClockNote, entries []ledger.Entry) error {
	return l.write(ctx, "note the clock", func(w *conn) error {
		moved, err := w.exec(ctx, "UPDATE clock_watch SET seen = ?, since = ?, version = version + 1 WHERE version = ?",
			micros(n.Seen), micros(n.Since), n.Version)
		if err != nil {
			return err
		}
		if moved == 0 {
			return blobd.ErrConflict
		}
		return appendEntries(ctx, w, entries...)
	})
}
