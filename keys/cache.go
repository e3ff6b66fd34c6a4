package keys

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// cache keeps secrets V for at most ttl after they were learnt. Secrets lie in
// groups G (an execution, a tenant) that are evicted and forgotten whole; M
// names one secret within its group.
//
// The cache alone owns what it holds: it copies in and copies out under its
// lock, and wipes under the same lock. So no wipe can reach memory that a
// caller works with.
type cache[G, M comparable, V any] struct {
	ttl time.Duration
	now func() time.Time

	mu        sync.Mutex
	groups    *simplelru.LRU[G, *group[M, V]]
	forgotten *simplelru.LRU[G, time.Time]
	stats     Stats
}

type group[M comparable, V any] struct{ held []held[M, V] }

type held[M comparable, V any] struct {
	member M
	secret *V
	learnt time.Time
}

func newCache[G, M comparable, V any](size int, ttl time.Duration, now func() time.Time) *cache[G, M, V] {
	c := &cache[G, M, V]{ttl: ttl, now: now}
	wipe := func(_ G, g *group[M, V]) { g.keep(func(held[M, V]) bool { return false }) }
	// NewLRU fails for a size below 1 only, which NewCore has excluded.
	c.groups, _ = simplelru.NewLRU(size, wipe)
	c.forgotten, _ = simplelru.NewLRU[G, time.Time](size, nil)
	return c
}

// get returns a copy of the secret that the caller owns, or nil.
func (c *cache[G, M, V]) get(g G, m M) *V {
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.find(g, m, now)
	if v == nil {
		c.stats.Misses++
		return nil
	}
	c.stats.Hits++
	return v
}

// peek is get without being counted.
func (c *cache[G, M, V]) peek(g G, m M) *V {
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.find(g, m, now)
}

func (c *cache[G, M, V]) find(g G, m M, now time.Time) *V {
	found, ok := c.groups.Get(g)
	if !ok {
		return nil
	}
	for _, h := range found.held {
		if h.member != m {
			continue
		}
		if !c.fresh(h.learnt, now) {
			c.expire(g, found, now)
			return nil
		}
		v := new(V)
		*v = *h.secret
		return v
	}
	return nil
}

// add keeps a copy of the secret, learnt at the given time, unless the group
// was forgotten within the last ttl: a put or a read that was under way when an
// execution was erased must not bring its keys back.
func (c *cache[G, M, V]) add(g G, m M, v *V, learnt time.Time) {
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.fresh(learnt, now) || c.isForgotten(g, now) {
		return
	}
	found, ok := c.groups.Get(g)
	if !ok {
		found = new(group[M, V])
		if c.groups.Add(g, found) {
			c.stats.Evictions++
		}
	}
	found.keep(func(h held[M, V]) bool { return h.member != m && c.fresh(h.learnt, now) })
	secret := new(V)
	*secret = *v
	found.held = append(found.held, held[M, V]{m, secret, learnt})
}

func (c *cache[G, M, V]) forget(g G) {
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.groups.Remove(g)
	c.forgotten.Add(g, now)
}

// drop wipes every secret that unwanted wants gone.
func (c *cache[G, M, V]) drop(unwanted func(*V) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, g := range c.groups.Keys() {
		found, ok := c.groups.Peek(g)
		if !ok {
			continue
		}
		found.keep(func(h held[M, V]) bool { return !unwanted(h.secret) })
		if len(found.held) == 0 {
			c.groups.Remove(g)
		}
	}
}

func (c *cache[G, M, V]) isForgotten(g G, now time.Time) bool {
	at, ok := c.forgotten.Peek(g)
	if !ok {
		return false
	}
	if c.fresh(at, now) {
		return true
	}
	c.forgotten.Remove(g)
	return false
}

// expireAll wipes every secret that is past its time.
func (c *cache[G, M, V]) expireAll() {
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, g := range c.groups.Keys() {
		if found, ok := c.groups.Peek(g); ok {
			c.expire(g, found, now)
		}
	}
}

func (c *cache[G, M, V]) expire(g G, found *group[M, V], now time.Time) {
	found.keep(func(h held[M, V]) bool { return c.fresh(h.learnt, now) })
	if len(found.held) == 0 {
		c.groups.Remove(g)
	}
}

// fresh is false for a time in the future too: a clock that was set back must
// not lengthen a key's life.
func (c *cache[G, M, V]) fresh(learnt, now time.Time) bool {
	age := now.Sub(learnt)
	return age >= 0 && age < c.ttl
}

func (c *cache[G, M, V]) snapshot() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Size = c.groups.Len()
	return s
}

// keep wipes and drops every secret that wanted does not want.
func (g *group[M, V]) keep(wanted func(held[M, V]) bool) {
	kept := g.held[:0]
	for _, h := range g.held {
		if wanted(h) {
			kept = append(kept, h)
			continue
		}
		wipe(h.secret)
	}
	clear(g.held[len(kept):])
	g.held = kept
}

func wipe[V any](v *V) {
	if v != nil {
		var zero V
		*v = zero
	}
}
