package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/blobd/blobd"
)

// SQLSTATEs that mean something here.
const (
	readOnly             = "25006"
	idleInTransaction    = "25P03"
	transactionTimeout   = "25P04"
	uniqueViolation      = "23505"
	foreignKeyViolation  = "23503"
	notInRepertoire      = "22021"
	untranslatable       = "22P05"
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	objectNotReady       = "55000" // among them: recovery is in progress
	lockNotAvailable     = "55P03"
	dataCorrupted        = "XX001"
	indexCorrupted       = "XX002"
)

// classify wraps err with the operation and, by SQLSTATE, with the closed set.
// A constraint is not classified here: the statement that expects one says what
// it means. What is not known stays unclassified.
func classify(op string, err error) error {
	switch kind := kindOf(err); {
	case err == nil:
		return nil
	case kind == nil:
		return fmt.Errorf("ledger: %s: %w", op, err)
	default:
		return fmt.Errorf("ledger: %s: %w: %w", op, kind, err)
	}
}

// kindOf returns the word of the closed set for what the server, the network
// or the pool said; nil for anything else.
func kindOf(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || lost(err) {
		return blobd.ErrUnavailable
	}
	switch code := sqlState(err); code {
	case "":
	case readOnly, idleInTransaction, transactionTimeout, objectNotReady, lockNotAvailable:
		return blobd.ErrUnavailable
	case notInRepertoire, untranslatable: // a text that no database can hold
		return blobd.ErrInvalid
	case dataCorrupted, indexCorrupted:
		return blobd.ErrCorrupt
	default:
		// 28 invalid authorization, 3D no such database, 40 rolled back,
		// 53 no resources, 57 operator intervened, 58 system error.
		switch code[:2] {
		case "28", "3D", "40", "53", "57", "58":
			return blobd.ErrUnavailable
		}
	}
	return nil
}

// lost reports that the connection failed: nobody answered.
func lost(err error) bool {
	if class := sqlState(err); class != "" {
		return strings.HasPrefix(class, "08") || endsSession(class)
	}
	var network net.Error
	var connect *pgconn.ConnectError
	return errors.As(err, &network) || errors.As(err, &connect) || pgconn.SafeToRetry(err) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}

// endsSession finds the states after which the server closes the connection:
// it shuts down, crashed, is not up yet, or ended an idle session.
func endsSession(state string) bool {
	return strings.HasPrefix(state, "57P")
}

// undone reports that the whole transaction was surely rolled back, for a cause
// that may be over when it is done again: others were in between, or the
// connection was to what is no primary any more.
func undone(err error) bool {
	switch sqlState(err) {
	case serializationFailure, deadlockDetected, uniqueViolation, readOnly:
		return true
	}
	return errors.Is(err, errAgain)
}

func sqlState(err error) string {
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		return ""
	}
	return e.Code
}
