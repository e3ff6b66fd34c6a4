package fs

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/blobd/blobd"
)

// index finds records by name, in order. Entries are collected in memory and
// moved to the table on disk in batches, so a put costs a map entry and an open
// scans what the table lacks. A name may have several records: an older copy of
// a segment can bring one back.
type index struct {
	table *table

	// moving is held while the table is changed.
	moving sync.Mutex

	mu       sync.RWMutex
	fresh    map[string][]location  // guarded by mu; not in the table
	leaving  map[string][]location  // guarded by mu; on the way to the table, never changed
	segments map[segmentID]*extent  // guarded by mu
	moves    uint64                 // guarded by mu; how often leaving was emptied
	damage   map[segmentID][]damage // guarded by mu
}

// extent is what the index knows of a segment.
type extent struct {
	end      int64  // all records before this offset are in the index
	erasures uint64 // as in the segment's header
	live     int64  // records not erased; a hint, proved before it is acted on
}

// damage is a range of a segment that may have held records and holds none that
// can be read. While there is one, no absence is proved.
type damage struct{ from, to int64 }

func newIndex(t *table) *index {
	return &index{
		table: t, fresh: make(map[string][]location), segments: make(map[segmentID]*extent),
		damage: make(map[segmentID][]damage),
	}
}

// newest returns the last record written under a name.
func (x *index) newest(name string) (location, bool, error) {
	if l, ok := x.inMemory(name); ok {
		return l, true, nil
	}
	// Read after memory: an entry leaves memory only after it is in the table.
	found, err := x.table.lookup(name, 1)
	if err != nil || len(found) == 0 {
		return location{}, false, err
	}
	return found[0], true, nil
}

func (x *index) inMemory(name string) (location, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for _, m := range []map[string][]location{x.fresh, x.leaving} {
		if l := m[name]; len(l) > 0 {
			return l[len(l)-1], true
		}
	}
	return location{}, false
}

// all returns every record of a name, the newest first.
func (x *index) all(name string) ([]named, error) {
	x.mu.RLock()
	found := slices.Concat(x.fresh[name], x.leaving[name])
	x.mu.RUnlock()
	stored, err := x.table.lookup(name, 0)
	if err != nil {
		return nil, err
	}
	var records []named
	for _, l := range append(found, stored...) {
		records = append(records, named{name, l})
	}
	return sorted(records), nil
}

// page returns the records of up to limit names with a prefix after a name, in
// order; of one name, the newest first.
func (x *index) page(prefix, after string, limit int) ([]named, error) {
	records := x.memoryPage(prefix, after)
	stored, err := x.table.page(prefix, after, limit)
	if err != nil {
		return nil, err
	}
	return cut(sorted(append(records, stored...)), limit), nil
}

func (x *index) memoryPage(prefix, after string) (records []named) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for _, m := range []map[string][]location{x.fresh, x.leaving} {
		for name, locations := range m {
			if name <= after || !strings.HasPrefix(name, prefix) {
				continue
			}
			for _, l := range locations {
				records = append(records, named{name, l})
			}
		}
	}
	return records
}

// sorted orders records by name, the newest first, each once.
func sorted(records []named) []named {
	slices.SortFunc(records, func(a, b named) int {
		return cmp.Or(strings.Compare(a.name, b.name), cmp.Compare(b.segment, a.segment), cmp.Compare(b.offset, a.offset))
	})
	return slices.Compact(records)
}

// cut keeps the records of the first limit names.
func cut(records []named, limit int) []named {
	names := 0
	for i := range records {
		if i == 0 || records[i].name != records[i-1].name {
			if names++; names > limit {
				return records[:i]
			}
		}
	}
	return records
}

// add enters records of one segment, which is now known up to end.
func (x *index) add(segment segmentID, end int64, records ...named) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, r := range records {
		x.fresh[r.name] = append(x.fresh[r.name], r.location)
	}
	e := x.extentOf(segment)
	e.end = max(e.end, end)
	e.live += int64(len(records))
}

// extentOf needs mu.
func (x *index) extentOf(segment segmentID) *extent {
	e, ok := x.segments[segment]
	if !ok {
		e = new(extent)
		x.segments[segment] = e
	}
	return e
}

// waiting returns how many names are not in the table, and how often entries
// were moved there so far.
func (x *index) waiting() (names int, moves uint64) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.fresh), x.moves
}

// move brings what is in memory to the table, durably. The caller holds moving.
func (x *index) move() error {
	leaving, extents := x.beginMove()
	err := x.table.add(leaving, extents)
	x.endMove(err)
	return err
}

func (x *index) beginMove() (map[string][]location, map[segmentID]extent) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.leaving, x.fresh = x.fresh, make(map[string][]location)
	extents := make(map[segmentID]extent, len(x.segments))
	for id, e := range x.segments {
		if len(x.damage[id]) > 0 {
			continue // unknown to the table, so that every open finds the damage again
		}
		extents[id] = *e
	}
	return x.leaving, extents
}

func (x *index) endMove(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err != nil {
		for name, newer := range x.fresh {
			x.leaving[name] = append(x.leaving[name], newer...)
		}
		x.fresh = x.leaving
	}
	x.leaving = nil
	x.moves++
}

// remove forgets records that were erased. died says how many of them were live
// until now, by segment.
func (x *index) remove(records []named, died map[segmentID]int64) error {
	x.moving.Lock()
	defer x.moving.Unlock()
	stored := x.removeFresh(records, died)
	return x.table.remove(stored, died, x.extents(died))
}

// removeFresh forgets records in memory and returns the others.
func (x *index) removeFresh(records []named, died map[segmentID]int64) (others []named) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for id, n := range died {
		x.extentOf(id).live -= n
	}
	for _, r := range records {
		old := x.fresh[r.name]
		i := slices.Index(old, r.location)
		if i < 0 {
			others = append(others, r)
			continue
		}
		if len(old) == 1 {
			delete(x.fresh, r.name)
			continue
		}
		x.fresh[r.name] = slices.Delete(slices.Clone(old), i, i+1)
	}
	return others
}

func (x *index) extents(of map[segmentID]int64) map[segmentID]extent {
	x.mu.RLock()
	defer x.mu.RUnlock()
	found := make(map[segmentID]extent, len(of))
	for id := range of {
		if e, ok := x.segments[id]; ok && len(x.damage[id]) == 0 {
			found[id] = *e
		}
	}
	return found
}

// erased counts an erasure that touches a segment and returns the new count.
func (x *index) erased(segment segmentID) uint64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	e := x.extentOf(segment)
	e.erasures++
	return e.erasures
}

func (x *index) seemsEmpty(segment segmentID) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	e, ok := x.segments[segment]
	return ok && e.live <= 0 && len(x.damage[segment]) == 0
}

// dropSegment forgets a segment whose file is about to be removed.
func (x *index) dropSegment(segment segmentID) error {
	x.moving.Lock()
	defer x.moving.Unlock()
	x.mu.Lock()
	delete(x.segments, segment)
	x.mu.Unlock()
	return x.table.dropSegment(segment)
}

// damaged reports whether some range of the store cannot be read.
func (x *index) damaged() error {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for id, ranges := range x.damage {
		for _, d := range ranges {
			return fmt.Errorf("%s is damaged between %d and %d: %w", id.path(), d.from, d.to, blobd.ErrCorrupt)
		}
	}
	return nil
}

// know takes over what the table says of a segment.
func (x *index) know(segment segmentID, e extent) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.segments[segment] = &e
}

// settle ends the scan of a segment.
func (x *index) settle(segment segmentID, end int64, erasures uint64, ranges []damage) {
	x.mu.Lock()
	defer x.mu.Unlock()
	e := x.extentOf(segment)
	e.end, e.erasures = end, erasures
	if len(ranges) > 0 {
		x.damage[segment] = ranges
	}
}

// forgetDead takes out of the table what an erasure blanked and did not come to forget:
// all records of a scanned segment but those that are there. Else, once the segment's
// last record is erased and its file removed, they would pass for lost. Where a range
// is damaged nobody knows what was there, and all stay. It reads the whole table.
func (x *index) forgetDead(segment segmentID, there map[int64]bool) error {
	x.mu.RLock()
	damaged := len(x.damage[segment]) > 0
	x.mu.RUnlock()
	var dead []named
	for after := ""; !damaged; {
		page, err := x.table.page("", after, erasePage)
		if err != nil {
			return err
		}
		for _, n := range page {
			if n.segment == segment && !there[n.offset] {
				dead = append(dead, n)
			}
		}
		if len(page) == 0 {
			break
		}
		after = page[len(page)-1].name
	}
	x.moving.Lock()
	defer x.moving.Unlock()
	return x.table.remove(dead, nil, nil)
}

func (x *index) forgetSegment(segment segmentID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.segments, segment)
}
