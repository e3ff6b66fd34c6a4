package api

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/api/wire"
)

// What a request is charged for, in copies of what it moves.
const (
	// putCopies of a body: as it came, sealed, and as the backend writes it (or
	// what it read back, where a repeat looks for the object).
	putCopies = 3
	// jsonCopies of a JSON body: as it came and decoded. A list of the smallest
	// parts takes the most: a test measures it.
	jsonCopies = 8
)

// memory is the one budget of what requests hold in memory: bodies and what was
// decoded of them, sealed bytes, texts and answers. A request takes its whole
// share at once and never waits for more while it holds some, so none waits for
// another for ever. A share is cut to what there is, so every request fits when
// it is alone.
//
// The many that need little have an eighth of the budget for themselves: they do
// not queue behind large ones.
type memory struct {
	budget       int64
	wait         time.Duration // for a share
	few          int64         // shares up to this size are small
	small, large lane
	refused      atomic.Int64
}

// lane is a part of the budget, served in the order of asking.
type lane struct {
	room *semaphore.Weighted
	size int64
	held atomic.Int64 // for metrics: room does not tell
}

// share is what a request holds; the zero share is nothing.
type share struct {
	lane *lane
	n    int64
}

func newMemory(budget int64, wait time.Duration) *memory {
	m := &memory{budget: budget, wait: wait, few: budget / 1024}
	m.small.open(max(budget/8, 1))
	m.large.open(max(budget-budget/8, 1))
	return m
}

func (l *lane) open(size int64) { l.size, l.room = size, semaphore.NewWeighted(size) }

// take waits a moment for n bytes. Not ok: they did not come free.
func (m *memory) take(ctx context.Context, n int64) (s share, ok bool) {
	l := &m.large
	if n <= m.few {
		l = &m.small
	}
	n = min(n, l.size)
	if !l.room.TryAcquire(n) {
		ctx, cancel := context.WithTimeout(ctx, m.wait)
		defer cancel()
		if l.room.Acquire(ctx, n) != nil {
			return share{}, false
		}
	}
	l.held.Add(n)
	return share{l, n}, true
}

func (s share) release() {
	if s.lane != nil {
		s.lane.held.Add(-s.n)
		s.lane.room.Release(s.n)
	}
}

// held is how much of the budget is taken.
func (m *memory) held() int64 { return m.small.held.Load() + m.large.held.Load() }

// hold takes a share of n bytes beside what the request keeps of its body. A
// share that the request has already is given back first: what it was for must
// be gone, but for those bytes.
func (c *call) hold(ctx context.Context, n int64) error {
	n += c.kept
	if n <= c.asked {
		return nil
	}
	c.letGo()
	s, ok := c.rt.api.memory.take(ctx, n)
	switch {
	case ok:
		c.share, c.asked = s, n
		return nil
	case ctx.Err() != nil: // the caller went away, or the time is over
		return fmt.Errorf("wait for memory: %w: %w", blobd.ErrUnavailable, ctx.Err())
	}
	c.rt.api.memory.refused.Add(1)
	return refuse(wire.CodeRateLimited, "too many bytes are in flight; try again")
}

// letGo gives the request's share back.
func (c *call) letGo() {
	c.share.release()
	c.share, c.asked = share{}, 0
}
