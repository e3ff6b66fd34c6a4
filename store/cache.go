package store

import (
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/blobd/blobd"
)

// sealedCache keeps sealed bytes already read, newest first, within a bound of
// bytes. A ref is their hash, so it names them whatever execution asks: they are
// useless without its key. What it returns is shared and must not be changed.
// The ledger decides before it is asked, so a warm cache never outlives an
// erasure.
type sealedCache struct {
	limit int64 // 0: keeps nothing

	mu   sync.Mutex
	used int64                             // guarded by mu
	lru  *simplelru.LRU[blobd.Ref, []byte] // guarded by mu
}

// perEntry is about what an entry costs beside its bytes.
const perEntry = 300

func newSealedCache(limit int64) *sealedCache {
	c := &sealedCache{limit: limit}
	size := max(1, int(limit/perEntry))
	// The only error of NewLRU is a size below 1.
	c.lru, _ = simplelru.NewLRU(size, func(_ blobd.Ref, b []byte) { c.used -= cost(b) })
	return c
}

func cost(b []byte) int64 { return int64(len(b)) + perEntry }

func (c *sealedCache) get(ref blobd.Ref) ([]byte, bool) {
	if c.limit == 0 {
		return nil, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lru.Get(ref)
}

// add keeps the bytes of an object, whose hash is the ref that ends its name.
func (c *sealedCache) add(name string, sealed []byte) {
	ref, ok := refOfName(name)
	if !ok || cost(sealed) > c.limit/4 {
		return // one large blob must not push out the rest
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lru.Contains(ref) {
		return
	}
	c.used += cost(sealed)
	c.lru.Add(ref, sealed)
	for c.used > c.limit {
		c.lru.RemoveOldest()
	}
}

func (c *sealedCache) remove(name string) {
	ref, ok := refOfName(name)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lru.Remove(ref)
}

func (c *sealedCache) bytes() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used
}

// refOfName reads the ref that ends the name of a sealed blob.
func refOfName(name string) (blobd.Ref, bool) {
	const hexDigits = 2 * len(blobd.Ref{})
	ref, err := blobd.ParseRefHex(name[max(0, len(name)-hexDigits):])
	return ref, err == nil
}
