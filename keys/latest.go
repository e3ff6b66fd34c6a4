package keys

import "github.com/blobd/blobd"

// Latest returns the keys of an execution that were learnt last, if they are in
// memory and in time. The caller must see that the ledger still names their ID:
// an epoch on another node may have given the execution another key.
func (c *Core) Latest(tag blobd.ExecutionTag) (ExecutionKeys, bool) {
	id, found := c.executions.latest(tag)
	if found == nil {
		return ExecutionKeys{}, false
	}
	return found.keys(id), true
}

// latest returns a copy of the secret of a group that was learnt last, or nil.
func (c *cache[G, M, V]) latest(g G) (m M, v *V) {
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	found, ok := c.groups.Get(g)
	if !ok {
		c.stats.Misses++
		return m, nil
	}
	var newest *held[M, V]
	for i := range found.held {
		h := &found.held[i]
		if c.fresh(h.learnt, now) && (newest == nil || !h.learnt.Before(newest.learnt)) {
			newest = h
		}
	}
	if newest == nil {
		c.stats.Misses++
		c.expire(g, found, now)
		return m, nil
	}
	c.stats.Hits++
	v = new(V)
	*v = *newest.secret
	return newest.member, v
}
