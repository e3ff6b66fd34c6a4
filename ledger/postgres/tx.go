package postgres

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/blobd/blobd"
)

// tx is one transaction. Statements are queued and go to the server together
// with the next flush, so a transaction takes as many round trips as it has
// questions, and COMMIT goes with the last. What is queued for COMMIT must be
// right whatever it finds: only the server can still refuse.
type tx struct {
	conn     *pgx.Conn
	batch    *pgx.Batch
	timeline string // of this transaction, once something was flushed
}

// exec queues a statement whose answer does not matter.
func (t *tx) exec(sql string, args ...any) { t.batch.Queue(sql, args...) }

// count queues a statement that tells how many rows it met.
func (t *tx) count(n *int64, sql string, args ...any) {
	t.batch.Queue(sql, args...).Exec(func(tag pgconn.CommandTag) error {
		*n = tag.RowsAffected()
		return nil
	})
}

// each queues a query.
func (t *tx) each(f func(pgx.CollectableRow) error, sql string, args ...any) {
	t.batch.Queue(sql, args...).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			if err := f(rows); err != nil {
				rows.Close()
				return err
			}
		}
		return rows.Err()
	})
}

// scan queues a query for at most one row, into to. found may be nil.
func (t *tx) scan(found *bool, to []any, sql string, args ...any) {
	t.each(func(r pgx.CollectableRow) error {
		if found != nil {
			*found = true
		}
		return r.Scan(to...)
	}, sql, args...)
}

// flush sends what is queued and takes in the answers.
func (t *tx) flush(ctx context.Context) error {
	batch := t.batch
	t.batch = new(pgx.Batch)
	if batch.Len() == 0 {
		return nil
	}
	return t.conn.SendBatch(ctx, batch).Close()
}

// commit sends what is queued, and COMMIT, to which a transaction that failed
// before answers ROLLBACK.
func (t *tx) commit(ctx context.Context) error {
	t.batch.Queue("COMMIT").Exec(func(tag pgconn.CommandTag) error {
		if tag.String() != "COMMIT" {
			return errRolledBack
		}
		return nil
	})
	return t.flush(ctx)
}

var errRolledBack = fmt.Errorf("COMMIT was answered by ROLLBACK: %w", blobd.ErrUnavailable)

// abort rolls back. A connection that does not take it is given up, and the
// server rolls back when it notices.
func (t *tx) abort(ctx context.Context) {
	if t.conn.IsClosed() || t.conn.PgConn().TxStatus() == 'I' {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if _, err := t.conn.Exec(ctx, "ROLLBACK"); err != nil {
		_ = t.conn.Close(ctx)
	}
}

// settings bounds a transaction's statements and how long the server waits for
// the next one, and has COMMIT wait for the disk, whatever the server's default.
const settings = `SELECT set_config('statement_timeout', $1, TRUE), set_config('idle_in_transaction_session_timeout', $2, TRUE),
	set_config('synchronous_commit', CASE current_setting('synchronous_commit')
		WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, TRUE)`

// begin queues the start of a transaction on conn. The settings end with it.
func (l *Ledger) begin(ctx context.Context, conn *pgx.Conn) *tx {
	t := &tx{conn: conn, batch: new(pgx.Batch)}
	t.exec("BEGIN ISOLATION LEVEL READ COMMITTED")
	t.exec(settings, millis(left(ctx)), millis(l.options.Pause))
	t.scan(nil, []any{&t.timeline}, "SELECT "+timeline)
	return t
}

// left is how long a call may still take.
func left(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return time.Minute
	}
	return time.Until(deadline)
}

// millis writes a setting's value; zero would be none.
func millis(d time.Duration) string { return strconv.FormatInt(max(d.Milliseconds(), 1), 10) }

// write runs f in one transaction, again if others were in between. f must not
// keep what an earlier try found. On a timeline that is not trusted nothing is
// changed.
func (l *Ledger) write(ctx context.Context, op string, f func(context.Context, *tx) error) error {
	return l.writeAnywhere(ctx, op, func(ctx context.Context, x *tx) error {
		if err := f(ctx, x); err != nil {
			return err
		}
		if x.timeline == "" { // f flushed nothing
			if err := x.flush(ctx); err != nil {
				return err
			}
		}
		return l.checkTimeline(x.timeline)
	})
}

// writeAnywhere is write on any timeline: for what recovery needs before it
// knows what a new one holds.
func (l *Ledger) writeAnywhere(ctx context.Context, op string, f func(context.Context, *tx) error) error {
	return classify(op, l.retry(ctx, func(ctx context.Context) error { return l.transact(ctx, f) }))
}

func (l *Ledger) transact(ctx context.Context, f func(context.Context, *tx) error) error {
	conn, err := l.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	t := l.begin(ctx, conn.Conn())
	defer t.abort(ctx) // does nothing after COMMIT
	if err := f(ctx, t); err != nil {
		return err
	}
	err = t.commit(ctx)
	if err != nil && !undone(err) {
		// Whether it committed nobody can say, so it is not done again.
		return backoff.Permanent(err)
	}
	return err
}

// list runs one query, again if nobody answered.
func list[T any](ctx context.Context, l *Ledger, op string, scan pgx.RowToFunc[T], sql string, args ...any) (all []T, err error) {
	err = l.retry(ctx, func(ctx context.Context) error {
		rows, err := l.pool.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		all, err = pgx.CollectRows(rows, scan)
		return err
	})
	if err != nil {
		return nil, classify(op, err)
	}
	return all, nil
}

// one is list for at most one row.
func one[T any](ctx context.Context, l *Ledger, op string, scan pgx.RowToFunc[T], sql string, args ...any) (row T, found bool, err error) {
	all, err := list(ctx, l, op, scan, sql, args...)
	if err != nil || len(all) == 0 {
		return row, false, err
	}
	return all[0], true, nil
}

// readOnly runs the statements that f queues in one round trip and one
// transaction: at REPEATABLE READ they see one state, at READ COMMITTED each
// sees what was committed when it began.
func (l *Ledger) readOnly(ctx context.Context, isolation string, f func(context.Context, *tx) error) error {
	return l.retry(ctx, func(ctx context.Context) error {
		conn, err := l.pool.Acquire(ctx)
		if err != nil {
			return err
		}
		defer conn.Release()
		t := &tx{conn: conn.Conn(), batch: new(pgx.Batch)}
		defer t.abort(ctx)
		t.exec("BEGIN READ ONLY ISOLATION LEVEL " + isolation)
		if err := f(ctx, t); err != nil {
			return err
		}
		return t.commit(ctx)
	})
}
