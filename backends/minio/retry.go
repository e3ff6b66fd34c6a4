package minio

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/blobd/blobd"
)

// The pauses between tries. minio-go adds up to 200 ms of its own after a
// failure, so the first is short.
const (
	firstPause = 20 * time.Millisecond
	longPause  = 2 * time.Second
)

// try calls f until it succeeds, fails for good, or time is over: the caller's,
// or retryFor. Each call has a timeout of its own. The error is classified, and
// is that of the last call, so that an outage is told by its cause.
func try[T any](ctx context.Context, s *Store, op string, f func(context.Context) (T, error)) (T, error) {
	var zero T
	if err := ctx.Err(); err != nil {
		return zero, fmt.Errorf("minio: %s: %w: %w", op, blobd.ErrUnavailable, err)
	}
	var last error
	once := func() (T, error) {
		one, cancel := context.WithTimeout(ctx, s.tryFor)
		defer cancel()
		v, err := f(one)
		if last = err; err != nil && !passing(err) {
			return zero, backoff.Permanent(err)
		}
		return v, err
	}
	v, err := backoff.Retry(ctx, once, backoff.WithBackOff(pauses()), backoff.WithMaxElapsedTime(s.patience(ctx)))
	if err == nil {
		return v, nil
	}
	if over := ctx.Err(); over != nil && !settled(last) {
		return zero, fmt.Errorf("minio: %s: %w: %w, after: %w", op, blobd.ErrUnavailable, over, last)
	}
	return zero, classify(op, last)
}

// settled reports an answer that stands however late it came.
func settled(err error) bool {
	return absent(err) || errors.Is(err, blobd.ErrCorrupt) || errors.Is(err, blobd.ErrTooLarge)
}

func pauses() backoff.BackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval, b.Multiplier = firstPause, longPause, 2
	return b
}

// patience is how long a request may be repeated: no pause is begun that would
// outlast the caller.
func (s *Store) patience(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return s.retryFor
	}
	return max(min(s.retryFor, time.Until(deadline)), 1)
}
