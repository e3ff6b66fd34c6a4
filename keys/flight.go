package keys

import (
	"context"
	"fmt"
	"sync"

	"github.com/blobd/blobd"
)

// flights lets concurrent askers of one secret share one call. Unlike a plain
// single flight it counts those who wait: each gets a copy of its own, the last
// one wipes the shared answer, and the call goes on while anybody waits, no
// longer. One asker's cancelled context is never another's failure.
type flights[V any] struct {
	mu      sync.Mutex
	running map[string]*flight[V]
}

// flight's fields are guarded by flights.mu.
type flight[V any] struct {
	done    chan struct{}
	cancel  context.CancelFunc
	waiters int
	secret  *V
	err     error
}

// do runs fn, or joins the run that is under way for key, and returns a copy
// that the caller owns. A context that ends first is ErrUnavailable.
func (f *flights[V]) do(ctx context.Context, key string, fn func(context.Context) (*V, error)) (*V, error) {
	if err := ctx.Err(); err != nil {
		return nil, unanswered(err)
	}
	fl := f.join(ctx, key, fn)
	select {
	case <-fl.done:
		return f.leave(key, fl)
	case <-ctx.Done():
		v, _ := f.leave(key, fl)
		wipe(v)
		return nil, unanswered(ctx.Err())
	}
}

func (f *flights[V]) join(ctx context.Context, key string, fn func(context.Context) (*V, error)) *flight[V] {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fl, ok := f.running[key]; ok {
		fl.waiters++
		return fl
	}
	callCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	fl := &flight[V]{done: make(chan struct{}), cancel: cancel, waiters: 1}
	if f.running == nil {
		f.running = make(map[string]*flight[V])
	}
	f.running[key] = fl
	go func() {
		defer cancel()
		v, err := fn(callCtx)
		f.land(key, fl, v, err)
	}()
	return fl
}

func (f *flights[V]) land(key string, fl *flight[V], v *V, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.drop(key, fl)
	fl.secret, fl.err = v, err
	if fl.waiters == 0 {
		wipe(v)
	}
	close(fl.done)
}

// leave takes the caller's copy of what has landed; nil before that.
func (f *flights[V]) leave(key string, fl *flight[V]) (*V, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var v *V
	if fl.secret != nil {
		v = new(V)
		*v = *fl.secret
	}
	fl.waiters--
	if fl.waiters == 0 {
		wipe(fl.secret)
		f.drop(key, fl)
		fl.cancel()
	}
	return v, fl.err
}

// drop lets the next asker start anew; it never drops a later flight.
func (f *flights[V]) drop(key string, fl *flight[V]) {
	if f.running[key] == fl {
		delete(f.running, key)
	}
}

func unanswered(err error) error { return fmt.Errorf("%w: %w", blobd.ErrUnavailable, err) }
