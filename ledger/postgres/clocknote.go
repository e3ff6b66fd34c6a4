package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// ClockNote implements ledger.ClockNotes.
func (l *Ledger) ClockNote(ctx context.Context) (ledger.ClockNote, error) {
	n, found, err := one(ctx, l, "clock note", scanClockNote,
		"SELECT coalesce($1::bigint, "+serverClock+"), seen, since, version FROM clock_watch", l.now())
	return n, classifyFound("clock note", found, err)
}

func scanClockNote(r pgx.CollectableRow) (n ledger.ClockNote, err error) {
	err = r.Scan(moment{&n.Now}, moment{&n.Seen}, moment{&n.Since}, &n.Version)
	return n, err
}

// NoteClock implements ledger.ClockNotes.
func (l *Ledger) NoteClock(ctx context.Context, n ledger.ClockNote, entries []ledger.Entry) error {
	return l.write(ctx, "note the clock", func(ctx context.Context, x *tx) error {
		var moved int64
		x.count(&moved, "UPDATE clock_watch SET seen = $1, since = $2, version = version + 1 WHERE version = $3",
			micros(n.Seen), micros(n.Since), n.Version)
		if err := x.flush(ctx); err != nil {
			return err
		}
		if moved == 0 {
			return blobd.ErrConflict
		}
		if len(entries) > 0 {
			x.append(entries...)
			x.move(counts{entries: int64(len(entries))})
		}
		return nil
	})
}
