package sqlite

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/blobd/blobd"
)

// The log is looked at once in walEvery transactions, and emptied by force when
// readers that overlap without end kept the ordinary checkpoint from doing so.
const (
	walEvery = 64
	maxWAL   = 32 << 20
)

var errClosed = fmt.Errorf("the ledger is closed: %w", blobd.ErrUnavailable)

// take waits for a connection of a pool and opens it if need be.
func (l *Ledger) take(ctx context.Context, pool chan *conn, readOnly bool) (*conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case <-l.done:
		return nil, errClosed
	default:
	}
	var c *conn
	select {
	case c = <-pool:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-l.done:
		return nil, errClosed
	}
	if c != nil {
		return c, nil
	}
	c, err := openConn(ctx, l.path, readOnly)
	if err != nil {
		pool <- nil
		return nil, err
	}
	return c, nil
}

// write runs f in one transaction on the writer.
func (l *Ledger) write(ctx context.Context, op string, f func(*conn) error) error {
	return classify(op, l.withWriter(ctx, func(w *conn) (bool, error) {
		return l.transact(ctx, w, f)
	}))
}

// withWriter lends the writer to f, which reports whether it broke it.
func (l *Ledger) withWriter(ctx context.Context, f func(*conn) (broken bool, err error)) error {
	w, err := l.take(ctx, l.writer, false)
	if err != nil {
		return err
	}
	broken := true // if f panics
	defer func() {
		if broken {
			_ = w.close() // what it was doing is undone, and its cause is in err
			w = nil
		}
		l.writer <- w
	}()
	broken, err = f(w)
	return err
}

// transact runs f in one transaction. If it moves what the memo keeps, the memo
// is closed before the transaction commits and opened when that has ended. If it
// changes what facts are made of, they are taken away before that (a reader that
// comes then waits for the writer) and loaded again after. Only the writer's holder
// calls it.
func (l *Ledger) transact(ctx context.Context, w *conn, f func(*conn) error) (broken bool, err error) {
	closed, taken := false, false
	defer func() {
		if closed {
			l.memo.open()
		}
		if taken && !broken {
			_ = l.loadFacts(context.WithoutCancel(ctx), w) // or the next use does
		}
	}()
	w.moved, w.restated = false, false
	return l.transactAside(ctx, w, func(w *conn) error {
		if err := f(w); err != nil {
			return err
		}
		if w.restated { // first: see Ledger.viewBy
			taken = true
			l.facts.Store(nil)
		}
		if w.moved {
			closed = true
			l.memo.close()
		}
		return nil
	})
}

// transactAside is transact for a change that tells the memo itself, and keeps
// the log bounded.
func (l *Ledger) transactAside(ctx context.Context, w *conn, f func(*conn) error) (broken bool, err error) {
	broken, err = w.transact(func() error { return f(w) })
	if l.unchecked++; err == nil && l.unchecked >= walEvery {
		l.unchecked = 0
		l.boundWAL(ctx, w)
	}
	return broken, err
}

// boundWAL empties an overgrown log. A failure costs nothing but room, and the
// next look tries again.
func (l *Ledger) boundWAL(ctx context.Context, w *conn) {
	if walBytes(l.path) < l.maxWAL {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = l.truncateWAL(ctx, w)
}

func walBytes(path string) int64 {
	info, err := os.Stat(path + "-wal")
	if err != nil {
		return 0
	}
	return info.Size()
}

// truncateWAL copies the whole log into the database file and truncates it. It
// holds all readers back meanwhile, so only a foreign process can be in the way.
func (l *Ledger) truncateWAL(ctx context.Context, w *conn) error {
	for range cap(l.readers) {
		select {
		case r := <-l.readers:
			defer func() { l.readers <- r }()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for {
		var busy, left int64
		_, err := w.one(ctx, "PRAGMA wal_checkpoint(TRUNCATE)", func(r *row) { busy, left = r.int(0), r.int(1) })
		switch {
		case err != nil:
			return err
		case busy == 0 && left == 0:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("a reader holds the log: %w", ctx.Err())
		}
	}
}

// read runs one statement, or a few that need no common state, on a reader.
func (l *Ledger) read(ctx context.Context, op string, f func(*conn) error) error {
	return classify(op, l.withReader(ctx, f))
}

func (l *Ledger) withReader(ctx context.Context, f func(*conn) error) error {
	c, err := l.take(ctx, l.readers, true)
	if err != nil {
		return err
	}
	sound := false
	defer func() {
		if !sound {
			_ = c.close()
			c = nil
		}
		l.readers <- c
	}()
	err = f(c)
	sound = true
	return err
}

// snapshot is read for several statements that must see one state.
func (l *Ledger) snapshot(ctx context.Context, op string, f func(*conn) error) error {
	return l.read(ctx, op, func(c *conn) error {
		return c.snapshot(ctx, func() error { return f(c) })
	})
}

// snapshot lets the statements of f see one state.
func (c *conn) snapshot(ctx context.Context, f func() error) error {
	if _, err := c.exec(ctx, "BEGIN"); err != nil {
		return err
	}
	err := f()
	if _, end := c.exec(context.WithoutCancel(ctx), "ROLLBACK"); err == nil {
		err = end
	}
	return err
}

// checkLimit refuses a listing without a limit.
func checkLimit(limit int) error {
	if limit < 1 {
		return fmt.Errorf("limit %d: %w", limit, blobd.ErrInvalid)
	}
	return nil
}
