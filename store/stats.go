package store

import "sync/atomic"

// counters count since the start of the process.
type counters struct {
	puts, opened, cacheHits, cacheMisses atomic.Int64
}

// committed counts the texts of one commit.
func (c *counters) committed(inserted []*text) {
	for _, t := range inserted {
		if t.fresh {
			c.puts.Add(1)
		}
	}
}

// Stats are counts since the start of the process, for metrics.
type Stats struct {
	Puts        int64 // blobs stored
	Opened      int64 // blobs opened
	CacheHits   int64 // sealed bytes found in memory
	CacheMisses int64
	CacheBytes  int64 // sealed bytes in memory now
}

// Stats returns the counts.
func (s *Store) Stats() Stats {
	return Stats{
		Puts: s.stats.puts.Load(), Opened: s.stats.opened.Load(),
		CacheHits: s.stats.cacheHits.Load(), CacheMisses: s.stats.cacheMisses.Load(), CacheBytes: s.cache.bytes(),
	}
}
