package sqlite

import "context"

// queue is a stand-in until package groupcommit is there.
type queue[T any] struct {
	in  chan *waiting[T]
	run func([]*T)
}

type waiting[T any] struct {
	item *T
	done chan struct{}
}

func newQueue[T any](max int, run func([]*T)) *queue[T] {
	return &queue[T]{in: make(chan *waiting[T], 1), run: run}
}

func (q *queue[T]) do(ctx context.Context, item *T) error {
	w := &waiting[T]{item, make(chan struct{})}
	select {
	case q.in <- w:
	case <-ctx.Done():
		return ctx.Err()
	}
	q.run([]*T{item})
	<-q.in
	return nil
}
