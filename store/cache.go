package store

import (
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// sealedCache keeps sealed bytes already read, newest first, within a bound of
// bytes. What it returns is shared and must not be changed. The ledger decides
// before it is asked, so a warm cache never outlives an erasure.
type sealedCache struct {
	limit int64

	mu   sync.Mutex
	used int64                          // guarded by mu
	lru  *simplelru.LRU[string, []byte] // guarded by mu; by object name
}

// perEntry is about what an entry costs beside its bytes.
const perEntry = 300

func newSealedCache(limit int64) *sealedCache {
	c := &sealedCache{limit: limit}
	size := max(1, int(limit/perEntry))
	// The only error of NewLRU is a size below 1.
	c.lru, _ = simplelru.NewLRU(size, func(_ string, b []byte) { c.used -= cost(b) })
	return c
}

func cost(b []byte) int64 { return int64(len(b)) + perEntry }

func (c *sealedCache) get(name string) ([]byte, bool) {
	if c.limit == 0 {
		return nil, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lru.Get(name)
}

func (c *sealedCache) add(name string, sealed []byte) {
	if cost(sealed) > c.limit/4 {
		return // one large blob must not push out the rest
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lru.Contains(name) {
		return
	}
	c.used += cost(sealed)
	c.lru.Add(name, sealed)
	for c.used > c.limit {
		c.lru.RemoveOldest()
	}
}

func (c *sealedCache) remove(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lru.Remove(name)
}

func (c *sealedCache) bytes() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used
}
