package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/blobd/blobd"
)

// tries bounds how often a call is done in all.
const tries = 6

// errAgain says that another transaction was in between: nothing was changed,
// and the same again will see what that one did.
var errAgain = fmt.Errorf("another transaction was in between: %w", blobd.ErrUnavailable)

// retry does f until it has an answer, a few times at most and within the
// call's time. f marks what must not be done again with backoff.Permanent.
func (l *Ledger) retry(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, l.options.Timeout)
	defer cancel()
	if err := ctx.Err(); err != nil {
		return err
	}
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = 5*time.Millisecond, 250*time.Millisecond
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		if l.isClosed() {
			return struct{}{}, backoff.Permanent(errClosed)
		}
		return struct{}{}, l.settle(ctx, f(ctx))
	}, backoff.WithBackOff(wait), backoff.WithMaxTries(tries), backoff.WithMaxElapsedTime(0))
	var final *backoff.PermanentError
	if errors.As(err, &final) {
		return final.Unwrap()
	}
	return err
}

// settle decides whether a failed try is the call's answer.
func (l *Ledger) settle(ctx context.Context, err error) error {
	var final *backoff.PermanentError
	if err == nil || errors.As(err, &final) {
		return err
	}
	if l.isClosed() { // the pool's word for it is its own
		return backoff.Permanent(fmt.Errorf("%w: %w", errClosed, err))
	}
	if lost(err) || sqlState(err) == readOnly {
		// What the server was, the other connections of the pool were too.
		l.pool.Reset()
	}
	if ctx.Err() == nil && (undone(err) || lost(err)) {
		return err
	}
	return backoff.Permanent(err)
}
