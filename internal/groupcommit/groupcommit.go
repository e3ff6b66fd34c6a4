// Package groupcommit shares one expensive step, such as an fsync or a
// transaction, between all callers that wait for it at the same moment.
//
// It promises that an item is handed to the step at most once, in the order of
// arrival, that one step runs at a time, and that nobody works for others after
// their own item is done. It has no goroutine of its own: the first caller leads
// and runs what is queued; those who arrive meanwhile form the next batch, and one
// of them leads it. A leader may wait a moment for those who were in the batch
// before (see Limits.Gather); a caller who is alone never waits.
package groupcommit

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// ErrPanicked is what the other callers of a batch get when its run panicked;
// the leader gets the panic. Whether their items were done is not known.
var ErrPanicked = errors.New("group commit: the run panicked")

// Limits bound one batch. Zero is no limit. A batch has at least one item, so
// one that is heavier than Weight goes alone.
type Limits struct {
	Items  int
	Weight int // sum over the items, in the unit of the group's weight function
	// Gather is how long a leader waits for as many callers as the last batch had,
	// if that one ended no longer ago than this. Those who were just woken come again
	// at once: without the wait each step takes the few who were quickest, and the rest
	// pay for another.
	Gather time.Duration
}

// Group is a queue of items of type T. Make it with New. Its methods are safe
// for concurrent use.
type Group[T any] struct {
	limits Limits
	weight func(T) int
	run    func(items []T)

	mu      sync.Mutex
	queue   []*call[T]    // guarded by mu; in order of arrival, its head leads next
	leading bool          // guarded by mu; true while the queue is not empty
	free    []T           // guarded by mu; the last batch's slice, for the next
	last    int           // guarded by mu; how many were in the last batch
	ended   time.Time     // guarded by mu; when it was over
	want    int           // guarded by mu; the length that a gathering leader waits for; 0: nobody waits
	full    chan struct{} // room for one: the queue has that length
}

// call is a caller that waits. The group's mu guards it.
type call[T any] struct {
	item  T
	state state
	wake  chan struct{} // room for one: sent when the call is to lead or is over
}

type state int

const (
	queued state = iota
	leads        // still queued, at its head
	taken
	done
	lost // its run panicked
)

// New returns a group that hands batches to run. The slice is run's only until
// it returns; results belong into the items. A nil weight counts every item
// as 0.
func New[T any](limits Limits, weight func(T) int, run func(items []T)) *Group[T] {
	if weight == nil {
		weight = func(T) int { return 0 }
	}
	return &Group[T]{limits: limits, weight: weight, run: run, full: make(chan struct{}, 1)}
}

// Do returns nil after run was called with item. The caller that leads runs its
// batch to the end, whatever its ctx says: others wait for it. Everyone else
// returns ctx's error when ctx ends. An item that was still queued is then never
// run; one already taken may be, so what it refers to must not be reused.
func (g *Group[T]) Do(ctx context.Context, item T) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c := &call[T]{item: item}
	if g.join(c) {
		g.lead()
		return nil
	}
	select {
	case <-c.wake:
	case <-ctx.Done():
		return g.leave(c, ctx.Err())
	}
	switch g.stateOf(c) {
	case leads:
		g.lead()
	case lost:
		return ErrPanicked
	}
	return nil
}

// Queued returns how many callers wait for a batch to take them.
func (g *Group[T]) Queued() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.queue)
}

// join queues c and reports whether it leads at once.
func (g *Group[T]) join(c *call[T]) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.queue = append(g.queue, c)
	if g.want > 0 && len(g.queue) >= g.want {
		g.want = 0
		g.full <- struct{}{}
	}
	if g.leading {
		c.wake = make(chan struct{}, 1)
		return false
	}
	g.leading = true
	c.state = leads
	return true
}

func (g *Group[T]) stateOf(c *call[T]) state {
	g.mu.Lock()
	defer g.mu.Unlock()
	return c.state
}

// leave gives up waiting. An answer that came meanwhile counts, and a
// leadership that came meanwhile is passed on.
func (g *Group[T]) leave(c *call[T], cause error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch c.state {
	case done:
		return nil
	case lost:
		return ErrPanicked
	case taken:
		return cause
	}
	if i := slices.Index(g.queue, c); i >= 0 {
		g.queue = slices.Delete(g.queue, i, i+1)
	}
	if c.state == leads {
		g.handOver()
	}
	return cause
}

// lead runs one batch, which begins with the leader's own item.
func (g *Group[T]) lead() {
	g.gather()
	batch, items := g.take()
	outcome := lost
	defer func() { g.finish(batch, items, outcome) }()
	g.run(items)
	outcome = done
}

// gather waits for the callers of the last batch, within the limit.
func (g *Group[T]) gather() {
	if !g.expectsMore() {
		return
	}
	window := time.NewTimer(g.limits.Gather)
	defer window.Stop()
	select {
	case <-g.full:
		return
	case <-window.C:
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.want == 0 { // the queue was filled in this moment
		<-g.full
	}
	g.want = 0
}

// expectsMore reports whether the queue is shorter than the last batch was, and
// asks to be told when it is not any more.
func (g *Group[T]) expectsMore() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.limits.Gather <= 0 || len(g.queue) >= g.last || time.Since(g.ended) > g.limits.Gather {
		return false
	}
	g.want = g.last
	return true
}

// take removes the next batch from the queue.
func (g *Group[T]) take() (batch []*call[T], items []T) {
	g.mu.Lock()
	defer g.mu.Unlock()
	items, g.free = g.free[:0], nil
	var weight int
	for _, c := range g.queue {
		weight += g.weight(c.item)
		full := g.limits.Items > 0 && len(items) == g.limits.Items
		heavy := g.limits.Weight > 0 && weight > g.limits.Weight
		if len(items) > 0 && (full || heavy) {
			break
		}
		c.state = taken
		items = append(items, c.item)
	}
	batch = slices.Clone(g.queue[:len(items)])
	g.queue = slices.Delete(g.queue, 0, len(items))
	g.last = len(items)
	return batch, items
}

// finish wakes the batch, and whoever leads next.
func (g *Group[T]) finish(batch []*call[T], items []T, outcome state) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range batch {
		c.state = outcome
	}
	clear(items)
	g.free = items
	g.ended = time.Now()
	g.handOver() // first, so that the disk does not wait for the woken
	for _, c := range batch {
		c.signal()
	}
}

// handOver needs mu.
func (g *Group[T]) handOver() {
	if len(g.queue) == 0 {
		g.leading = false
		return
	}
	g.queue[0].state = leads
	g.queue[0].signal()
}

// signal never blocks: a call is woken at most once to lead and once when it is
// over, and in between it has taken the first.
func (c *call[T]) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}
