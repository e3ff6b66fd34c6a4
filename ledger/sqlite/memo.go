package sqlite

import (
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// memo keeps, within a bound of rows, what lookups found and commits made, so
// that the hot path asks SQLite only for what it has not seen. It may: only this
// process writes the ledger, and every change passes by here before it is
// answered. A commit of captures adds its rows after it is durable. Any other
// change of executions or blobs closes and empties the memo before its
// transaction commits and opens it when the outcome is known, so no lookup is
// ever answered by a state that another lookup has already seen replaced.
type memo struct {
	limit int // rows

	mu     sync.Mutex
	rows   int                                             // guarded by mu
	closed bool                                            // guarded by mu; a change is under way
	moving map[blobd.ExecutionTag]*executionState          // guarded by mu; what a batch is about to commit
	lru    *simplelru.LRU[blobd.ExecutionTag, *remembered] // guarded by mu
}

// remembered is one execution and rows of it.
type remembered struct {
	known     bool // execution is set; otherwise a lookup is on its way
	n         int64
	execution ledger.Execution
	refs      map[blobd.Ref]*ledger.Blob
	repeats   map[[32]byte]*ledger.Blob
	// whole: all rows with a repeat tag are here, so that a tag that is not here
	// has no row. A ref may still have one: rows that say nothing of a content can
	// come before their execution.
	whole   bool
	commits int // raised by each commit, so that an older answer is not taken
}

// memoRows is about 20 MB of rows.
const memoRows = 32 << 10

func newMemo(limit int) *memo {
	m := &memo{limit: limit}
	// An execution counts as a row, so that there are never more than limit. The
	// only error of NewLRU is a size below 1.
	m.lru, _ = simplelru.NewLRU(limit, func(_ blobd.ExecutionTag, r *remembered) { m.rows -= len(r.refs) })
	return m
}

// by is the hash that a lookup names rows by.
type by int

const (
	byRef by = iota
	byRepeat
)

func (b by) of(row *ledger.Blob) [32]byte {
	if b == byRepeat {
		return row.Repeat
	}
	return row.Ref
}

func (r *remembered) row(b by, key [32]byte) (*ledger.Blob, bool) {
	if b == byRepeat {
		row, ok := r.repeats[key]
		return row, ok || r.whole
	}
	row, ok := r.refs[key]
	return row, ok
}

// view answers a lookup if all that it asks for is known. Otherwise it returns a
// place for the answer, nil if none may be kept now.
func (m *memo) view(tag blobd.ExecutionTag, b by, keys [][32]byte, v *ledger.View) (ok bool, place *vacancy) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return false, nil
	}
	r, found := m.lru.Get(tag)
	if !found {
		r = &remembered{refs: map[blobd.Ref]*ledger.Blob{}, repeats: map[[32]byte]*ledger.Blob{}}
		m.lru.Add(tag, r)
	}
	if !r.known {
		return false, &vacancy{r, r.commits}
	}
	for i, key := range keys {
		row, known := r.row(b, key)
		if !known {
			return false, &vacancy{r, r.commits}
		}
		if row != nil {
			shown := *row // the caller's own, but for bytes that nobody changes
			v.Blobs[i] = &shown
		}
	}
	execution := r.execution
	v.Execution = &execution
	return true, nil
}

// vacancy is where the answer of a lookup may be kept.
type vacancy struct {
	r       *remembered
	commits int
}

// fill keeps an answer, unless the state may have moved since it was asked for.
func (m *memo) fill(place *vacancy, tag blobd.ExecutionTag, n int64, e *ledger.Execution, rows []*ledger.Blob) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, found := m.lru.Peek(tag)
	_, moves := m.moving[tag]
	if m.closed || moves || !found || r != place.r || r.commits != place.commits {
		return
	}
	if e == nil { // an absence is not worth room
		m.lru.Remove(tag)
		return
	}
	r.known, r.n, r.execution = true, n, *e
	for _, row := range rows {
		kept := *row
		m.keep(r, &kept)
	}
	m.bound(tag, r)
}

// keep adds a row to an execution.
func (m *memo) keep(r *remembered, row *ledger.Blob) {
	if _, ok := r.refs[row.Ref]; !ok {
		m.rows++
	}
	r.refs[row.Ref] = row
	if row.Repeat != ([32]byte{}) {
		r.repeats[row.Repeat] = row
	}
}

// bound keeps one execution from pushing out the rest, and the rest in bounds.
func (m *memo) bound(tag blobd.ExecutionTag, r *remembered) {
	if len(r.refs) > m.limit/4 {
		m.lru.Remove(tag)
	}
	for m.rows > m.limit {
		m.lru.RemoveOldest()
	}
}

// execution returns what the writer, which sees no other change on its way,
// needs of an execution.
func (m *memo) execution(tag blobd.ExecutionTag) (n int64, e ledger.Execution, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, found := m.lru.Peek(tag)
	if !found || !r.known {
		return 0, e, false
	}
	return r.n, r.execution, true
}

// committing says what a batch of captures is about to make durable: until the
// batch was taken in, nobody can tell whether an answer has it already, so none
// about these executions is kept.
func (m *memo) committing(changes map[blobd.ExecutionTag]*executionState) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.moving = changes
}

// committed takes in what the batch changed, now that it is durable.
func (m *memo) committed() {
	m.mu.Lock()
	defer m.mu.Unlock()
	changes := m.moving
	m.moving = nil
	for tag, x := range changes {
		r, found := m.lru.Peek(tag)
		switch {
		case found && x.superseded:
			m.lru.Remove(tag)
			continue
		case found && !r.known && x.made == nil:
			r.commits++
			continue
		case x.made != nil && !x.superseded:
			m.lru.Remove(tag)
			r = &remembered{
				known: true, n: x.n, execution: *x.made, whole: true,
				refs: map[blobd.Ref]*ledger.Blob{}, repeats: map[[32]byte]*ledger.Blob{},
			}
			m.lru.Add(tag, r)
		case !found:
			continue
		}
		r.commits++
		r.execution.Blobs += x.blobs
		r.execution.Bytes += x.bytes
		for i := range x.rows {
			m.keep(r, &x.rows[i])
		}
		m.bound(tag, r)
	}
}

// close empties the memo and keeps it empty until open: a change of executions
// or rows is about to commit.
func (m *memo) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed, m.moving = true, nil
	m.lru.Purge()
}

func (m *memo) open() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = false
}
