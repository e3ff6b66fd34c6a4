package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// AddClockEvent implements ledger.Clocks.
func (l *Ledger) AddClockEvent(ctx context.Context, m ledger.ClockMove, e ledger.Entry) error {
	const op = "add a clock event"
	if err := m.Check(); err != nil {
		return classify(op, err)
	}
	return l.write(ctx, op, func(ctx context.Context, x *tx) error {
		var seq, events int64
		var state ledger.ErasureState
		found := false
		// Who else adds to this clock waits here, and counts in a later statement.
		x.scan(&found, []any{&seq, &state}, "SELECT seq, state FROM erasures WHERE id = $1 AND tenant = $2 FOR NO KEY UPDATE",
			m.ErasureID, m.Tenant)
		x.scan(nil, []any{&events}, `SELECT count(*) FROM clock_events c JOIN erasures x ON x.seq = c.erasure
			WHERE x.id = $1 AND x.tenant = $2`, m.ErasureID, m.Tenant)
		if err := orNotFound(true, x.flush(ctx)); err != nil {
			return err
		}
		switch {
		case !found:
			return blobd.ErrNotFound
		case state.Ended():
			return fmt.Errorf("the erasure is %s: %w", state, blobd.ErrConflict)
		case events != int64(m.Event.N)-1:
			return fmt.Errorf("the clock has %d events: %w", events, blobd.ErrConflict)
		}
		x.insertClockEvent(seq, &m.Event)
		x.exec("UPDATE erasures SET due_at = $1 WHERE seq = $2", micros(m.DueAt), seq)
		x.append(e)
		x.move(counts{entries: 1})
		return nil
	})
}

func (t *tx) insertClockEvent(erasure int64, e *ledger.ClockEvent) {
	t.exec(`INSERT INTO clock_events (erasure, n, kind, at, recorded_at, told_by, reason, due_at, stated_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		erasure, e.N, string(e.Kind), e.At.UnixMicro(), e.RecordedAt.UnixMicro(), e.By, []byte(e.Reason), micros(e.DueAt), micros(e.StatedAt))
}

// ClockEvents implements ledger.Clocks.
func (l *Ledger) ClockEvents(ctx context.Context, tenant, erasureID string) (events []ledger.ClockEvent, err error) {
	const op = "clock events"
	found := false
	err = l.readOnly(ctx, "REPEATABLE READ", func(_ context.Context, x *tx) error {
		events, found = nil, false
		var seq int64
		x.scan(&found, []any{&seq}, "SELECT seq FROM erasures WHERE id = $1 AND tenant = $2", erasureID, tenant)
		x.each(func(r pgx.CollectableRow) error {
			e, err := scanClockEvent(r)
			events = append(events, e)
			return err
		}, `SELECT c.n, c.kind, c.at, c.recorded_at, c.told_by, c.reason, c.due_at, c.stated_at
			FROM clock_events c JOIN erasures x ON x.seq = c.erasure WHERE x.id = $1 AND x.tenant = $2 ORDER BY c.n`, erasureID, tenant)
		return nil
	})
	if err := classify(op, orNotFound(found, err)); err != nil {
		return nil, err
	}
	return events, nil
}

func scanClockEvent(r pgx.CollectableRow) (e ledger.ClockEvent, err error) {
	err = r.Scan(&e.N, &e.Kind, moment{&e.At}, moment{&e.RecordedAt}, &e.By, bytesText{&e.Reason}, moment{&e.DueAt}, moment{&e.StatedAt})
	return e, err
}

// DueDates implements ledger.Clocks.
func (l *Ledger) DueDates(ctx context.Context, at time.Time) ([]ledger.DueDate, error) {
	return list(ctx, l, "due dates", scanDueDate, `SELECT x.regime, min(x.due_at), count(*) FILTER (WHERE x.due_at < $1) FROM erasures x
		WHERE x.due_at IS NOT NULL AND x.state NOT IN ('erased', 'denied', 'cancelled') GROUP BY x.regime ORDER BY x.regime`, at.UnixMicro())
}

func scanDueDate(r pgx.CollectableRow) (d ledger.DueDate, err error) {
	err = r.Scan(bytesText{&d.Regime}, moment{&d.Next}, &d.Overdue)
	return d, err
}
