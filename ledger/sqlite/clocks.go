package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// AddClockEvent implements ledger.Clocks.
func (l *Ledger) AddClockEvent(ctx context.Context, m ledger.ClockMove, e ledger.Entry) error {
	const op = "add a clock event"
	if err := m.Check(); err != nil {
		return classify(op, err)
	}
	return l.write(ctx, op, func(w *conn) error {
		var seq, events int64
		var state ledger.ErasureState
		found, err := w.one(ctx, `SELECT seq, state, (SELECT count(*) FROM clock_events WHERE erasure = seq)
			FROM erasures WHERE id = ? AND tenant = ?`,
			func(r *row) { seq, state, events = r.int(0), ledger.ErasureState(r.text(1)), r.int(2) }, m.ErasureID, m.Tenant)
		if err := orNotFound(found, err); err != nil {
			return err
		}
		if state.Ended() {
			return fmt.Errorf("the erasure is %s: %w", state, blobd.ErrConflict)
		}
		if events != int64(m.Event.N)-1 {
			return fmt.Errorf("the clock has %d events: %w", events, blobd.ErrConflict)
		}
		if err := insertClockEvent(ctx, w, seq, &m.Event); err != nil {
			return err
		}
		if _, err := w.exec(ctx, "UPDATE erasures SET due_at = ? WHERE seq = ?", micros(m.DueAt), seq); err != nil {
			return err
		}
		return appendEntries(ctx, w, e)
	})
}

func insertClockEvent(ctx context.Context, w *conn, erasure int64, e *ledger.ClockEvent) error {
	_, err := w.exec(ctx, `INSERT INTO clock_events (erasure, n, kind, at, recorded_at, told_by, reason, due_at, stated_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		erasure, int64(e.N), string(e.Kind), e.At.UnixMicro(), e.RecordedAt.UnixMicro(), e.By, e.Reason, micros(e.DueAt), micros(e.StatedAt))
	return err
}

// ClockEvents implements ledger.Clocks.
func (l *Ledger) ClockEvents(ctx context.Context, tenant, erasureID string) (events []ledger.ClockEvent, err error) {
	err = l.snapshot(ctx, "clock events", func(c *conn) error {
		var seq int64
		found, err := c.one(ctx, "SELECT seq FROM erasures WHERE id = ? AND tenant = ?",
			func(r *row) { seq = r.int(0) }, erasureID, tenant)
		if err := orNotFound(found, err); err != nil {
			return err
		}
		return c.query(ctx, `SELECT n, kind, at, recorded_at, told_by, reason, due_at, stated_at
			FROM clock_events WHERE erasure = ? ORDER BY n`,
			func(r *row) { events = append(events, r.clockEvent()) }, seq)
	})
	if err != nil {
		return nil, err
	}
	return events, nil
}

func (r *row) clockEvent() ledger.ClockEvent {
	return ledger.ClockEvent{
		N: int(r.int(0)), Kind: ledger.ClockEventKind(r.text(1)), At: r.time(2), RecordedAt: r.time(3),
		By: r.text(4), Reason: r.text(5), DueAt: r.time(6), StatedAt: r.time(7),
	}
}

// DueDates implements ledger.Clocks.
func (l *Ledger) DueDates(ctx context.Context, at time.Time) (dates []ledger.DueDate, err error) {
	err = l.read(ctx, "due dates", func(c *conn) error {
		return c.query(ctx, `SELECT regime, min(due_at), sum(due_at < ?) FROM erasures
			WHERE due_at IS NOT NULL AND state NOT IN ('erased', 'denied', 'cancelled') GROUP BY regime ORDER BY regime`,
			func(r *row) {
				dates = append(dates, ledger.DueDate{Regime: r.text(0), Next: r.time(1), Overdue: r.int(2)})
			}, at.UnixMicro())
	})
	return dates, err
}
