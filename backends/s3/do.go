package s3

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/blobd/blobd"
)

// do runs try until it succeeds, fails for good, or time is over: the caller's,
// or retryFor. It waits longer each time, with jitter. The error is the last
// try's own, so that an outage is told by its cause.
func (s *Store) do(ctx context.Context, try func(context.Context) error) error {
	if err := ended(ctx); err != nil {
		return err
	}
	var last error
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = 50*time.Millisecond, 2*time.Second
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		one, cancel := context.WithTimeout(ctx, s.tryFor)
		defer cancel()
		last = try(one)
		if last != nil && !retryable(last) {
			return struct{}{}, backoff.Permanent(last)
		}
		return struct{}{}, last
	}, backoff.WithBackOff(wait), backoff.WithMaxElapsedTime(s.retryFor))
	if err == nil {
		return nil
	}
	if over := ended(ctx); over != nil && last != nil && !settled(last) {
		return fmt.Errorf("%w, after: %w", over, last)
	}
	if last != nil {
		return last
	}
	return err
}

// settled reports an answer that stands however late it came.
func settled(err error) bool {
	return errors.Is(err, blobd.ErrNotFound) || errors.Is(err, blobd.ErrCorrupt) ||
		errors.Is(err, blobd.ErrInvalid) || errors.Is(err, blobd.ErrTooLarge)
}

// ended reports a context that is over: nobody gave an answer.
func ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", blobd.ErrUnavailable, err)
	}
	return nil
}
