package main

import (
	"context"
	"errors"

	"github.com/blobd/blobd"
)

// The exit codes that scripts may rely on.
const (
	exitOK      = 0
	exitError   = 1
	exitPartly  = 2 // partly done
	exitRefused = 3 // policy, hold, approval, or erased for ever
	exitUnsure  = 4 // not ready, or no definite answer
	exitNull    = 5 // the definitive null
)

// exitStatus is an end that is no plain error. A nil err prints nothing: the
// command has said what there is to say.
type exitStatus struct {
	code int
	err  error
}

// Error returns the cause.
func (e *exitStatus) Error() string {
	if e.err == nil {
		return "ended"
	}
	return e.err.Error()
}

// Unwrap returns the cause.
func (e *exitStatus) Unwrap() error { return e.err }

// status ends a command quietly with a code.
func status(code int) error {
	if code == exitOK {
		return nil
	}
	return &exitStatus{code: code}
}

// exitCode is the one place that turns an error into an exit code.
func exitCode(err error) int {
	var s *exitStatus
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &s):
		return s.code
	}
	if code, ok := answerCode(err); ok {
		return code
	}
	switch {
	case errors.Is(err, blobd.ErrUnavailable), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return exitUnsure
	case errors.Is(err, blobd.ErrHeld), errors.Is(err, blobd.ErrPolicy), errors.Is(err, blobd.ErrErased):
		return exitRefused
	}
	return exitError
}
