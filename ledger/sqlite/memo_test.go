package sqlite

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

func (m *memo) count() (executions, rows int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lru.Len(), m.rows
}

func TestMemoAnswersWithoutSQLite(t *testing.T) {
	l := newKeyLedger(t)
	l.put(1, 0, 3)
	for range cap(l.readers) { // no reader is free: an answer comes from memory
		c, err := l.take(t.Context(), l.readers, true)
		l.must(err)
		defer func() { l.readers <- c }()
	}
	v, err := l.Lookup(t.Context(), keyTag(1), []blobd.Ref{keyRef(1, 2), keyRef(1, 0)})
	l.must(err)
	if v.Blobs[0] == nil || v.Blobs[0].Ref != keyRef(1, 2) || v.Blobs[1].Ref != keyRef(1, 0) {
		t.Fatalf("rows %+v", v.Blobs)
	}
	if v.Execution.Blobs != 3 || v.Execution.Key == nil {
		t.Fatalf("execution %+v", v.Execution)
	}
	repeats, err := l.LookupRepeats(t.Context(), keyTag(1), [][32]byte{{9, 9, 9}})
	l.must(err)
	if repeats.Blobs[0] != nil {
		t.Fatalf("row %+v", repeats.Blobs[0])
	}
}

// What a caller does with its answer is not seen by the next.
func TestMemoAnswersAreTheCallers(t *testing.T) {
	l := newKeyLedger(t)
	l.put(1, 0, 1)
	v, err := l.Lookup(t.Context(), keyTag(1), []blobd.Ref{keyRef(1, 0)})
	l.must(err)
	v.Blobs[0].State, v.Execution.State = ledger.BlobErased, ledger.ExecutionErased
	v, err = l.Lookup(t.Context(), keyTag(1), []blobd.Ref{keyRef(1, 0)})
	l.must(err)
	if v.Blobs[0].State != ledger.BlobLive || v.Execution.State != ledger.ExecutionOpen {
		t.Fatal("a caller changed what is remembered")
	}
}

func TestMemoIsBounded(t *testing.T) {
	l := newKeyLedger(t)
	l.memo = newMemo(40)
	for x := range 20 {
		l.put(x, 0, 5)
	}
	l.put(99, 0, 11) // more than a quarter: not kept
	if executions, rows := l.memo.count(); rows > 40 || executions > 40 || rows < 20 {
		t.Fatalf("%d executions, %d rows", executions, rows)
	}
	for x := range 20 {
		v, err := l.Lookup(t.Context(), keyTag(x), []blobd.Ref{keyRef(x, 4)})
		l.must(err)
		if v.Blobs[0] == nil {
			t.Fatalf("execution %d lost its row", x)
		}
	}
	if _, rows := l.memo.count(); rows > 40 {
		t.Fatalf("%d rows", rows)
	}
}

// Once one lookup has seen an erasure, no later one sees what was before it,
// whether it asks memory or SQLite, and whoever fills the memo meanwhile.
func TestMemoNeverGoesBack(t *testing.T) {
	l := newKeyLedger(t)
	for x := range 50 {
		l.put(x, 0, 2)
		var erased atomic.Bool
		var readers sync.WaitGroup
		stop := make(chan struct{})
		for r := range 4 {
			random := rand.New(rand.NewPCG(uint64(x), uint64(r)))
			readers.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					seen := erased.Load()
					v, err := l.Lookup(t.Context(), keyTag(x), []blobd.Ref{keyRef(x, random.IntN(3))})
					if err != nil {
						t.Error(err)
						return
					}
					now := v.Execution.State == ledger.ExecutionErased
					if seen && !now {
						t.Error("an erased execution was seen as open")
						return
					}
					if now {
						erased.Store(true)
					}
				}
			})
		}
		l.put(x, 2, 3)
		l.fence(fmt.Sprint("erasure-", x), x)
		close(stop)
		readers.Wait()
		v, err := l.Lookup(t.Context(), keyTag(x), []blobd.Ref{keyRef(x, 0)})
		l.must(err)
		if v.Execution.State != ledger.ExecutionErased || v.Execution.Key != nil {
			t.Fatalf("execution %+v", v.Execution)
		}
	}
}

// Every statement that changes what is remembered is found by its text.
func TestMemoKnowsMovingStatements(t *testing.T) {
	for query, moves := range map[string]bool{
		insertBlob: true,
		bareBlob:   true,
		"UPDATE executions SET state = ? WHERE tag = ?":              true,
		"UPDATE execution_keys SET wrapped = NULL WHERE n = ?":       true,
		"DELETE FROM blobs WHERE n = ?":                              true,
		"INSERT INTO parts (seq) SELECT record FROM blobs":           false,
		"SELECT 1 FROM blobs b JOIN executions e":                    false,
		"UPDATE erasures SET state = ? WHERE seq = ?":                false,
		"INSERT OR IGNORE INTO blobs (n) VALUES (?)":                 true,
		"UPDATE deployment SET blobs = ?, executions = executions+1": false,
	} {
		if got := moving.MatchString(query); got != moves {
			t.Errorf("%s: %v", query, got)
		}
	}
}

// A lookup that met a batch between its commit and its being taken in does not
// count it twice.
func TestMemoTakesABatchInOnce(t *testing.T) {
	m := newMemo(100)
	tag := keyTag(1)
	var v ledger.View
	_, place := m.view(tag, byRef, nil, &v)
	m.committing(map[blobd.ExecutionTag]*executionState{tag: {blobs: 1, bytes: 10}})
	_, late := m.view(tag, byRef, nil, &v)
	after := &ledger.Execution{Tag: tag, Tenant: "t", Blobs: 1, Bytes: 10} // the answer has the batch
	m.fill(late, tag, 1, after, nil)
	m.committed()
	m.fill(place, tag, 1, &ledger.Execution{Tag: tag, Tenant: "t"}, nil) // this one has not
	if ok, place := m.view(tag, byRef, nil, &v); ok {
		t.Fatalf("kept %+v", v.Execution)
	} else {
		m.fill(place, tag, 1, after, nil)
	}
	if ok, _ := m.view(tag, byRef, nil, &v); !ok || v.Execution.Blobs != 1 || v.Execution.Bytes != 10 {
		t.Fatalf("%v, %+v", ok, v.Execution)
	}
}
