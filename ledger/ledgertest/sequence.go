package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

func (e *env) sequencer(owner string, from, until int) ledger.SequencerLease {
	e.Helper()
	l, err := e.ClaimSequencer(e.ctx, owner, at(from), at(until))
	e.must(err)
	return l
}

// appendN appends n entries of evidence.
func (e *env) appendN(n int) {
	e.Helper()
	for i := range n {
		x := entry(ledger.EntryRead)
		x.Body = fmt.Appendf(nil, `{"read":%d}`, i)
		x.FreeText, x.Salt = "why", []byte{1}
		e.must(e.Append(e.ctx, x))
	}
}

func (e *env) unsequenced(limit int) []ledger.StoredEntry {
	e.Helper()
	es, err := e.Unsequenced(e.ctx, 0, limit)
	e.must(err)
	return es
}

// nodeHashes are made-up hashes: the engine does not know what they mean.
func nodeHashes(n int) [][32]byte {
	hs := [][32]byte{hash("leaf", n)}
	for level := 1; n>>level<<level == n && level < 4; level++ {
		hs = append(hs, hash("node", n*100+level))
	}
	return hs
}

func noteOf(size int64) []byte { return fmt.Appendf(nil, "checkpoint of %d\n", size) }

// logStep is the step that gives these entries the next indexes.
func logStep(size int64, ids ...int64) ledger.LogAppend {
	a := ledger.LogAppend{Size: size}
	for i, id := range ids {
		a.Entries = append(a.Entries, ledger.NewLogEntry{ID: id, Hashes: nodeHashes(int(size) + i)})
	}
	if len(ids) > 0 {
		a.Checkpoint = noteOf(size + int64(len(ids)))
	}
	return a
}

func ids(es []ledger.StoredEntry) []int64 {
	out := make([]int64, len(es))
	for i, e := range es {
		out[i] = e.ID
	}
	return out
}

func (e *env) logged(indexes ...int64) []ledger.LoggedEntry {
	e.Helper()
	es, err := e.Logged(e.ctx, ledger.LogQuery{Indexes: indexes})
	e.must(err)
	return es
}

func (e *env) logState(size int64) ledger.LogState {
	e.Helper()
	s, err := e.LogState(e.ctx, size)
	e.must(err)
	return s
}

func sequenceSentences() []sentence {
	return append(sequencerSentences(), loggedSentences()...)
}

func sequencerSentences() []sentence {
	return []sentence{
		{"the sequencer's lease is one owner's while it lasts", func(e *env) {
			l := e.sequencer("a", 0, 10)
			e.equal("lease", l, ledger.SequencerLease{Owner: "a", Term: l.Term, Until: at(10)})
			_, err := e.ClaimSequencer(e.ctx, "b", at(9), at(20))
			e.refused(err, blobd.ErrConflict)
			e.sequencer("b", 10, 20)
		}},
		{"the term rises with each claim, an owner's own too", func(e *env) {
			first, again, other := e.sequencer("a", 0, 10), e.sequencer("a", 1, 11), e.sequencer("b", 11, 20)
			if again.Term <= first.Term || other.Term <= again.Term {
				e.Fatalf("terms %d, %d, %d", first.Term, again.Term, other.Term)
			}
		}},
		{"a stale lease appends nothing", func(e *env) {
			e.appendN(2)
			stale := e.sequencer("a", 0, 10)
			held := e.sequencer("b", 10, 20)
			want := ids(e.unsequenced(10))
			for _, l := range []ledger.SequencerLease{stale, {Owner: "b", Term: held.Term - 1}, {Owner: "a", Term: held.Term}, {}} {
				e.refused(e.AppendToLog(e.ctx, l, logStep(0, want[0])), blobd.ErrConflict)
				e.refused(e.AppendToLog(e.ctx, l, ledger.LogAppend{Key: &ledger.LogKey{Verifier: "v"}}), blobd.ErrConflict)
			}
			e.equal("unsequenced", ids(e.unsequenced(10)), want)
			e.equal("state", e.logState(0), ledger.LogState{})
			e.must(e.AppendToLog(e.ctx, held, logStep(0, want...)))
		}},
		{"unsequenced entries come in the order of their insertion, up to a limit, without free texts", func(e *env) {
			e.appendN(3)
			all := e.entries()
			for i := range all {
				all[i].FreeText, all[i].Salt = "", nil
			}
			e.equal("unsequenced", e.unsequenced(10), all)
			e.equal("two", e.unsequenced(2), all[:2])
			later, err := e.Unsequenced(e.ctx, all[1].ID, 10)
			e.must(err)
			e.equal("after the second", later, all[2:])
			_, err = e.Unsequenced(e.ctx, 0, 0)
			e.refused(err, blobd.ErrInvalid)
		}},
		{"entries get dense indexes in the order given, once", func(e *env) {
			e.appendN(4)
			l, want := e.sequencer("a", 0, 10), e.unsequenced(10)
			e.must(e.AppendToLog(e.ctx, l, logStep(0, ids(want[:2])...)))
			e.equal("left", e.unsequenced(10), want[2:])
			e.must(e.AppendToLog(e.ctx, l, logStep(2, ids(want[2:])...)))
			e.equal("left", len(e.unsequenced(10)), 0)
			got := e.logged(0, 1, 2, 3, 4)
			e.equal("entries", len(got), 5)
			for i, g := range got {
				e.equal("entry", g, ledger.LoggedEntry{Index: int64(i), Hashes: nodeHashes(i), StoredEntry: want[i]})
			}
			e.appendN(1)
			e.equal("a later one is left", len(e.unsequenced(10)), 1)
		}},
		{"an entry that was passed over stays without an index", func(e *env) {
			e.appendN(5)
			l, want := e.sequencer("a", 0, 10), ids(e.unsequenced(10))
			e.must(e.AppendToLog(e.ctx, l, logStep(0, want[3], want[0])))
			e.equal("left", ids(e.unsequenced(10)), []int64{want[1], want[2], want[4], want[5]})
			e.must(e.AppendToLog(e.ctx, l, logStep(2, want[1])))
			e.equal("left", ids(e.unsequenced(10)), []int64{want[2], want[4], want[5]})
			got := e.logged(0, 1, 2)
			e.equal("order", []int64{got[0].ID, got[1].ID, got[2].ID}, []int64{want[3], want[0], want[1]})
		}},
		{"an append that does not fit changes nothing", func(e *env) {
			e.appendN(3)
			l, es := e.sequencer("a", 0, 10), ids(e.unsequenced(10))
			e.must(e.AppendToLog(e.ctx, l, logStep(0, es[0])))
			before, state := ids(e.unsequenced(10)), e.logState(0)
			for name, a := range map[string]ledger.LogAppend{
				"smaller":      logStep(0, es[1]),
				"larger":       logStep(2, es[1]),
				"indexed":      logStep(1, es[1], es[0]),
				"unknown":      logStep(1, es[1], es[len(es)-1]+1000),
				"twice":        logStep(1, es[1], es[1]),
				"a key's size": {Size: 7, Key: &ledger.LogKey{Verifier: "v"}},
			} {
				if err := e.AppendToLog(e.ctx, l, a); !errors.Is(err, blobd.ErrConflict) {
					e.Fatalf("%s: %v", name, err)
				}
			}
			for name, a := range map[string]ledger.LogAppend{
				"no checkpoint": {Size: 1, Entries: logStep(1, es[1]).Entries},
				"no entries":    {Size: 1, Checkpoint: noteOf(1)},
				"no hashes":     {Size: 1, Entries: []ledger.NewLogEntry{{ID: es[1]}}, Checkpoint: noteOf(2)},
				"many hashes":   {Size: 1, Entries: []ledger.NewLogEntry{{ID: es[1], Hashes: make([][32]byte, 64)}}, Checkpoint: noteOf(2)},
			} {
				if err := e.AppendToLog(e.ctx, l, a); !errors.Is(err, blobd.ErrInvalid) {
					e.Fatalf("%s: %v", name, err)
				}
			}
			e.equal("unsequenced", ids(e.unsequenced(10)), before)
			e.equal("state", e.logState(0), state)
			e.equal("logged", len(e.logged(0, 1, 2)), 1)
		}},
		{"entries that the ledger lost are put back with their indexes", putsBack},
		{"an append that puts back and does not fit changes nothing", putsBackNothing},
		{"the log's key is set once", func(e *env) {
			l := e.sequencer("a", 0, 10)
			e.equal("none", e.logState(0).Key == nil, true)
			key := &ledger.LogKey{Version: 3, Ciphertext: []byte("wrapped"), Verifier: "name+1+key"}
			e.must(e.AppendToLog(e.ctx, l, ledger.LogAppend{Key: key}))
			e.must(e.AppendToLog(e.ctx, l, ledger.LogAppend{Key: key}))
			for _, other := range []ledger.LogKey{
				{Version: 4, Ciphertext: key.Ciphertext, Verifier: key.Verifier},
				{Version: 3, Ciphertext: []byte("another"), Verifier: key.Verifier},
				{Version: 3, Ciphertext: key.Ciphertext, Verifier: "another"},
			} {
				e.refused(e.AppendToLog(e.ctx, l, ledger.LogAppend{Key: &other}), blobd.ErrConflict)
				step := logStep(0, ids(e.unsequenced(1))...)
				step.Key = &other
				e.refused(e.AppendToLog(e.ctx, l, step), blobd.ErrConflict)
			}
			e.equal("state", e.logState(0), ledger.LogState{Key: key})
		}},
		{"sequencers that race never give an index twice", raceOfSequencers},
	}
}

// lostEntry is an entry that is given whole.
func lostEntry(n int) *ledger.Entry {
	x := entry(ledger.EntryErasure)
	x.Body, x.FreeText, x.Salt = fmt.Appendf(nil, `{"lost":%d}`, n), "", nil
	return &x
}

func putsBack(e *env) {
	e.appendN(2)
	l, waiting := e.sequencer("a", 0, 10), e.unsequenced(10)
	e.mark(1)
	step := logStep(0, waiting[0].ID, 0, 0, waiting[1].ID)
	step.Entries[1].Insert, step.Entries[2].Insert, step.Entries[2].Object = lostEntry(1), lostEntry(2), "x"
	e.must(e.AppendToLog(e.ctx, l, step))
	e.equal("left", e.unsequenced(10), waiting[2:])
	got := e.logged(0, 1, 2, 3, 4)
	e.equal("entries", len(got), 4)
	e.equal("first", got[0].StoredEntry, waiting[0])
	e.equal("last", got[3].StoredEntry, waiting[1])
	for i := 1; i < 3; i++ {
		e.equal("put back", got[i], ledger.LoggedEntry{
			Index: int64(i), Object: step.Entries[i].Object, Hashes: nodeHashes(i),
			StoredEntry: ledger.StoredEntry{ID: got[i].ID, Entry: *lostEntry(i)},
		})
	}
	about, err := e.Logged(e.ctx, ledger.LogQuery{Object: "x"})
	e.must(err)
	e.equal("about x", len(about), 1)
	all := e.entries()
	e.equal("all entries", len(all), len(waiting)+2)
	e.equal("they are later than what was there", ids(all[len(waiting):]), []int64{got[1].ID, got[2].ID})
	if e.mark(2).Seq == 0 {
		e.Fatal("what was put back is nothing to be marked")
	}
	e.must(e.AppendToLog(e.ctx, l, logStep(4, ids(waiting[2:])...)))
	e.equal("left", len(e.unsequenced(10)), 0)
	e.appendN(1)
	e.equal("a later one waits", len(e.unsequenced(10)), 1)
}

func putsBackNothing(e *env) {
	e.appendN(2)
	l, waiting := e.sequencer("a", 0, 10), ids(e.unsequenced(10))
	e.must(e.AppendToLog(e.ctx, l, logStep(0, waiting[0])))
	before, state := e.entries(), e.logState(0)
	for name, change := range map[string]func(*ledger.LogAppend){
		"larger":  func(a *ledger.LogAppend) { a.Size = 2 },
		"indexed": func(a *ledger.LogAppend) { a.Entries[1].ID = waiting[0] },
		"unknown": func(a *ledger.LogAppend) { a.Entries[1].ID = waiting[len(waiting)-1] + 1000 },
		"a key":   func(a *ledger.LogAppend) { a.Size, a.Key = 7, &ledger.LogKey{Verifier: "v"} },
	} {
		step := logStep(1, 0, waiting[1])
		step.Entries[0].Insert = lostEntry(1)
		change(&step)
		if err := e.AppendToLog(e.ctx, l, step); !errors.Is(err, blobd.ErrConflict) {
			e.Fatalf("%s: %v", name, err)
		}
	}
	for name, change := range map[string]func(*ledger.NewLogEntry){
		"an id":       func(n *ledger.NewLogEntry) { n.ID = waiting[1] },
		"a free text": func(n *ledger.NewLogEntry) { n.Insert.FreeText = "why" },
		"a salt":      func(n *ledger.NewLogEntry) { n.Insert.Salt = []byte{1} },
	} {
		step := logStep(1, 0)
		step.Entries[0].Insert = lostEntry(1)
		change(&step.Entries[0])
		if err := e.AppendToLog(e.ctx, l, step); !errors.Is(err, blobd.ErrInvalid) {
			e.Fatalf("%s: %v", name, err)
		}
	}
	stale := logStep(1, 0)
	stale.Entries[0].Insert = lostEntry(1)
	e.sequencer("a", 1, 10)
	e.refused(e.AppendToLog(e.ctx, l, stale), blobd.ErrConflict)
	e.equal("entries", e.entries(), before)
	e.equal("state", e.logState(0), state)
}

func raceOfSequencers(e *env) {
	const workers, entries = 4, 40
	var wg sync.WaitGroup
	for w := range workers {
		owner := fmt.Sprint("worker-", w)
		wg.Go(func() {
			for i := range entries {
				x := entry(ledger.EntryRead)
				if err := e.Append(context.Background(), x); err != nil {
					e.Error(err)
				}
				// Each claims as if the lease of the one before were over.
				l, err := e.ClaimSequencer(e.ctx, owner, at(1000*i+w), at(1000*i+w))
				if err != nil {
					continue
				}
				es, err := e.Unsequenced(e.ctx, 0, 3)
				if err != nil || len(es) == 0 {
					continue
				}
				s, err := e.LogState(e.ctx, 0)
				if err != nil {
					continue
				}
				if err := e.AppendToLog(e.ctx, l, logStep(s.Size, ids(es)...)); err != nil && !errors.Is(err, blobd.ErrConflict) {
					e.Error(err)
				}
			}
		})
	}
	wg.Wait()
	l := e.sequencer("last", 1_000_000, 1_000_001)
	for es := e.unsequenced(100); len(es) > 0; es = e.unsequenced(100) {
		e.must(e.AppendToLog(e.ctx, l, logStep(e.logState(0).Size, ids(es)...)))
	}
	seen := make(map[int64]bool)
	total := int64(len(e.entries()))
	for i := range total {
		got := e.logged(i)
		if len(got) != 1 || got[0].Index != i || seen[got[0].ID] {
			e.Fatalf("index %d: %+v", i, got)
		}
		seen[got[0].ID] = true
	}
	e.equal("size", e.logState(0).Size, total)
}

func loggedSentences() []sentence {
	return []sentence{
		{"entries come by index, in order, each once", func(e *env) {
			e.appendN(6)
			l, es := e.sequencer("a", 0, 10), e.unsequenced(10)
			e.must(e.AppendToLog(e.ctx, l, logStep(0, ids(es)...)))
			got := e.logged(5, 1, 3, 1, 400)
			e.equal("entries", len(got), 3)
			for i, want := range []int64{1, 3, 5} {
				e.equal("entry", got[i].StoredEntry, es[want])
			}
			few, err := e.Logged(e.ctx, ledger.LogQuery{Indexes: []int64{5, 1}, HashesOnly: true})
			e.must(err)
			e.equal("hashes only", few, []ledger.LoggedEntry{
				{Index: 1, Hashes: nodeHashes(1), StoredEntry: ledger.StoredEntry{ID: es[1].ID}},
				{Index: 5, Hashes: nodeHashes(5), StoredEntry: ledger.StoredEntry{ID: es[5].ID}},
			})
			for _, q := range []ledger.LogQuery{{}, {Indexes: []int64{1}, Object: "x"}, {Indexes: make([]int64, ledger.MaxLogQuery+1)}} {
				_, err := e.Logged(e.ctx, q)
				e.refused(err, blobd.ErrInvalid)
			}
			e.equal("as many as may be named", len(e.logged(make([]int64, ledger.MaxLogQuery)...)), 1)
		}},
		{"entries are found by what they are about", func(e *env) {
			e.appendN(3)
			l, es := e.sequencer("a", 0, 10), e.unsequenced(10)
			step := logStep(0, ids(es)...)
			step.Entries[0].Object, step.Entries[2].Object, step.Entries[3].Object = "x", "x", "y"
			e.must(e.AppendToLog(e.ctx, l, step))
			got, err := e.Logged(e.ctx, ledger.LogQuery{Object: "x"})
			e.must(err)
			e.equal("x", got, []ledger.LoggedEntry{
				{Index: 0, Object: "x", Hashes: nodeHashes(0), StoredEntry: es[0]},
				{Index: 2, Object: "x", Hashes: nodeHashes(2), StoredEntry: es[2]},
			})
			got, err = e.Logged(e.ctx, ledger.LogQuery{Object: "z"})
			e.must(err)
			e.equal("z", len(got), 0)
		}},
		{"a checkpoint is found by the size that it covers", func(e *env) {
			e.appendN(5)
			l, es := e.sequencer("a", 0, 10), ids(e.unsequenced(10))
			e.equal("none", e.logState(0), ledger.LogState{})
			_, err := e.LogState(e.ctx, 1)
			e.refused(err, blobd.ErrNotFound)
			e.must(e.AppendToLog(e.ctx, l, logStep(0, es[:2]...)))
			e.must(e.AppendToLog(e.ctx, l, logStep(2, es[2:5]...)))
			for size, want := range map[int64]int64{0: 5, 1: 2, 2: 2, 3: 5, 5: 5} {
				e.equal(fmt.Sprint("covering ", size), e.logState(size), ledger.LogState{Size: want, Checkpoint: noteOf(want)})
			}
			_, err = e.LogState(e.ctx, 6)
			e.refused(err, blobd.ErrNotFound)
		}},
		{"the log is no write to be marked", func(e *env) {
			e.appendN(1)
			e.mark(1)
			l, es := e.sequencer("a", 0, 10), ids(e.unsequenced(10))
			e.must(e.AppendToLog(e.ctx, l, logStep(0, es...)))
			e.equal("mark", e.mark(2), ledger.Record{})
		}},
	}
}

// sequenceDurable is what a log must outlive.
func sequenceDurable() sentence {
	return sentence{"the log outlives the process", func(e *env) {
		e.appendN(4)
		l, es := e.sequencer("a", 0, 10), ids(e.unsequenced(10))
		step := logStep(0, es[:3]...)
		step.Key = &ledger.LogKey{Version: 1, Ciphertext: []byte("wrapped"), Verifier: "v"}
		e.must(e.AppendToLog(e.ctx, l, step))
		state, logged, left := e.logState(0), e.logged(0, 1, 2, 3), e.unsequenced(10)
		e.reopen()
		e.equal("state", e.logState(0), state)
		e.equal("logged", e.logged(0, 1, 2, 3), logged)
		e.equal("left", e.unsequenced(10), left)
		// The lease need not outlive it, but no term comes twice.
		again := e.sequencer("b", 10, 20)
		if again.Term <= l.Term {
			e.Fatalf("term %d after %d", again.Term, l.Term)
		}
		e.refused(e.AppendToLog(e.ctx, l, logStep(3, ids(left)...)), blobd.ErrConflict)
	}}
}
