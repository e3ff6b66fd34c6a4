package sqlite

import (
	"context"
	"errors"
	"fmt"

	engine "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"

	"github.com/blobd/blobd"
)

// classify wraps err with the operation and, by SQLite's result code, with the
// closed set. A constraint is not classified here: the statement that expects
// one says what it means. What is not known stays unclassified.
func classify(op string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("ledger: %s: %w: %w", op, blobd.ErrUnavailable, err)
	}
	switch code, known := primaryCode(err); {
	case !known:
	case code == codes.SQLITE_BUSY, code == codes.SQLITE_LOCKED, code == codes.SQLITE_FULL,
		code == codes.SQLITE_IOERR, code == codes.SQLITE_READONLY, code == codes.SQLITE_CANTOPEN,
		code == codes.SQLITE_INTERRUPT, code == codes.SQLITE_NOMEM, code == codes.SQLITE_PROTOCOL:
		return fmt.Errorf("ledger: %s: %w: %w", op, blobd.ErrUnavailable, err)
	case code == codes.SQLITE_CORRUPT, code == codes.SQLITE_NOTADB:
		return fmt.Errorf("ledger: %s: %w: %w", op, blobd.ErrCorrupt, err)
	}
	return fmt.Errorf("ledger: %s: %w", op, err)
}

// primaryCode returns SQLite's result code without its extension.
func primaryCode(err error) (int, bool) {
	var e *engine.Error
	if !errors.As(err, &e) {
		return 0, false
	}
	return e.Code() & 0xff, true
}

// isConstraint reports that a UNIQUE, PRIMARY KEY or foreign key refused.
func isConstraint(err error) bool {
	code, known := primaryCode(err)
	return known && code == codes.SQLITE_CONSTRAINT
}
