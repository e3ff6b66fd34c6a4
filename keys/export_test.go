package keys

import "github.com/blobd/blobd"

// Cached returns an execution's keys if they are in memory and in time. It asks
// nobody.
func (c *Core) Cached(tag blobd.ExecutionTag, id ID) (ExecutionKeys, bool) {
	found := c.executions.get(tag, id)
	if found == nil {
		return ExecutionKeys{}, false
	}
	return found.keys(id), true
}
