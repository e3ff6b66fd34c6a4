package evidence_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/blobd/blobd"
	backendfaulty "github.com/blobd/blobd/backends/faulty"
	"github.com/blobd/blobd/evidence"
	ledgerfaulty "github.com/blobd/blobd/ledger/faulty"
)

// TestEveryCheckpointContinuesTheOnesBefore over random interleavings of writes,
// of two processes that sequence, of leases that end, of kills, and of parts that
// fail before or after they acted.
func TestEveryCheckpointContinuesTheOnesBefore(t *testing.T) {
	rapid.Check(t, func(x *rapid.T) {
		r := newRig(t, x, rapid.IntRange(1, 2).Draw(x, "places"))
		processes := []process{r.process(), r.process()}
		var told []evidence.Checkpoint
		tell := func(p process) {
			switch c, err := p.Checkpoint(t.Context()); {
			case err == nil:
				told = append(told, c)
			case !errors.Is(err, blobd.ErrNotFound) && !errors.Is(err, errFault):
				x.Fatal(err)
			}
		}
		x.Repeat(map[string]func(*rapid.T){
			"append": func(x *rapid.T) { r.append(rapid.IntRange(1, 9).Draw(x, "entries")) },
			"many":   func(x *rapid.T) { r.append(rapid.IntRange(200, 600).Draw(x, "entries")) },
			"time":   func(*rapid.T) { r.clock.add(evidence.SequencerLeaseTime) },
			"step": func(x *rapid.T) {
				p := rapid.SampledFrom(processes).Draw(x, "process")
				if _, err := p.Step(t.Context()); err != nil && !errors.Is(err, errFault) && !errors.Is(err, blobd.ErrConflict) {
					x.Fatal(err)
				}
			},
			"tell": func(x *rapid.T) { tell(rapid.SampledFrom(processes).Draw(x, "process")) },
			"kill": func(x *rapid.T) { processes[rapid.IntRange(0, 1).Draw(x, "process")] = r.process() },
			"fail": func(x *rapid.T) {
				nth, after := rapid.IntRange(1, 4).Draw(x, "call"), rapid.Bool().Draw(x, "after")
				if rapid.Bool().Draw(x, "of the ledger") {
					r.ledger.Fail("", nth, ledgerWhen(after), errFault)
					return
				}
				op := rapid.SampledFrom([]string{"put", "get", "list", "erase"}).Draw(x, "op")
				rapid.SampledFrom(r.places).Draw(x, "place").Fail(op, nth, storeWhen(after), errFault)
			},
			"": func(*rapid.T) {},
		})
		r.mend()
		r.append(1)
		r.clock.add(evidence.SequencerLeaseTime)
		last := r.process()
		r.drain(last)
		r.audit(last, told...)
	})
}

var errFault = fmt.Errorf("a fault of this test: %w", blobd.ErrUnavailable)

func ledgerWhen(after bool) ledgerfaulty.When {
	if after {
		return ledgerfaulty.After
	}
	return ledgerfaulty.Before
}

func storeWhen(after bool) backendfaulty.When {
	if after {
		return backendfaulty.After
	}
	return backendfaulty.Before
}

// mend takes the faults away that have not come.
func (r *rig) mend() {
	r.ledger = ledgerfaulty.New(r.inner)
	for i, inner := range r.inside {
		r.places[i] = backendfaulty.New(inner)
	}
}

// TestKillAtEveryStep: whatever call a step fails at, before or after it acted,
// the next process goes on, and no checkpoint that was told is contradicted.
func TestKillAtEveryStep(t *testing.T) {
	type fault struct {
		op    string
		store bool
		nth   int
		after bool
	}
	var faults []fault
	for _, after := range []bool{false, true} {
		for nth := 1; nth <= 6; nth++ {
			for _, op := range []string{"unsequenced", "claimsequencer", "logstate", "appendtolog", "logged"} {
				faults = append(faults, fault{op, false, nth, after})
			}
			for _, op := range []string{"put", "get", "list", "erase"} {
				faults = append(faults, fault{op, true, nth, after})
			}
		}
	}
	came := 0
	for _, first := range []int{0, 5} { // the log's first step, and a later one
		for _, f := range faults {
			r := newRig(t, t, 2)
			var told []evidence.Checkpoint
			if first > 0 {
				r.append(first)
				p := r.process()
				r.drain(p)
				told = append(told, r.audit(p))
				r.clock.add(evidence.SequencerLeaseTime)
			}
			r.append(7)
			if f.store {
				r.places[1].Fail(f.op, f.nth, storeWhen(f.after), errFault)
			} else {
				r.ledger.Fail(f.op, f.nth, ledgerWhen(f.after), errFault)
			}
			victim := r.process()
			failed := false
			for worked := true; worked && !failed; {
				var err error
				worked, err = victim.Step(t.Context())
				failed = err != nil
			}
			if failed {
				came++
			}
			r.mend()
			if c, err := r.process().Checkpoint(t.Context()); err == nil { // another node is asked meanwhile
				told = append(told, c)
			}
			r.append(3)
			r.clock.add(evidence.SequencerLeaseTime)
			next := r.process()
			r.drain(next)
			r.audit(next, told...)
		}
	}
	if came < 40 {
		t.Errorf("only %d of the faults came", came)
	}
}

// TestAStaleSequencerChangesNothing: one that lost its lease between reading and
// writing is refused, and what the other made stands.
func TestAStaleSequencerChangesNothing(t *testing.T) {
	r := newRig(t, t, 1)
	r.append(4)
	stale, other := r.process(), r.process()
	once := false
	r.ledger.OnCall(func(op string) {
		if op != "appendtolog" || once {
			return
		}
		once = true
		r.clock.add(evidence.SequencerLeaseTime)
		r.append(2)
		r.drain(other)
	})
	if _, err := stale.Step(t.Context()); !errors.Is(err, blobd.ErrConflict) {
		t.Fatalf("a stale step: %v", err)
	}
	c := r.audit(other)
	r.append(1)
	if worked, err := stale.Step(t.Context()); worked || err != nil {
		t.Fatalf("the other has the lease: %v, %v", worked, err)
	}
	r.clock.add(evidence.SequencerLeaseTime)
	r.drain(stale)
	r.audit(stale, c)
}

// TestNothingIsToldBeforeItIsPublished: a checkpoint whose copy does not lie in
// every place is no answer, nor is what it covers.
func TestNothingIsToldBeforeItIsPublished(t *testing.T) {
	r := newRig(t, t, 2)
	p := r.process()
	if _, err := p.Checkpoint(t.Context()); !errors.Is(err, blobd.ErrNotFound) {
		t.Fatalf("before the first: %v", err)
	}
	r.append(3)
	r.places[1].Fail("put", 1, backendfaulty.Before, errFault)
	if _, err := p.Step(t.Context()); !errors.Is(err, errFault) {
		t.Fatalf("the step: %v", err)
	}
	if s, err := r.inner.LogState(t.Context(), 0); err != nil || s.Size != 3 {
		t.Fatalf("committed %d, %v", s.Size, err)
	}
	r.places[1].Fail("put", 1, backendfaulty.Before, errFault)
	node := r.process()
	if _, err := node.Tile(t.Context(), "0/000.p/3"); !errors.Is(err, errFault) {
		t.Fatalf("a tile of it: %v", err)
	}
	if _, err := node.Tile(t.Context(), "0/000.p/3"); err != nil { // whoever is asked publishes it
		t.Fatal(err)
	}
	for i, place := range r.places {
		names, err := place.List(t.Context(), "journal/log/", "", 10)
		if err != nil || len(names) != 1 {
			t.Errorf("place %d holds %v, %v", i, names, err)
		}
	}
	r.audit(node)
}

// TestOnlyTheNewestCopyIsKept in each place.
func TestOnlyTheNewestCopyIsKept(t *testing.T) {
	r := newRig(t, t, 2)
	p := r.process()
	for range 3 {
		r.append(2)
		r.drain(p)
	}
	for i, place := range r.places {
		names, err := place.List(t.Context(), "journal/log/", "", 10)
		if err != nil || len(names) != 1 || names[0].Name != "journal/log/0000000000000006" {
			t.Errorf("place %d holds %v, %v", i, names, err)
		}
	}
	if lost, err := evidence.NewJournal(r.ledger, r.places[0]).Compare(t.Context()); err != nil || len(lost.Records) != 0 {
		t.Errorf("the journal takes a copy for a record: %v, %v", lost, err)
	}
}

// TestAReaderDoesNotWaitForAPlaceThatIsSlow: what was published is told while a
// place of the journal says nothing, and what is not is waited for no longer than
// the reader's own time.
func TestAReaderDoesNotWaitForAPlaceThatIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := grown(t, 1)
		r.clock.add(evidence.SequencerLeaseTime)
		p := r.process()
		if _, err := p.Checkpoint(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.append(1)
		held, release := make(chan string), make(chan struct{})
		r.places[0].OnCall(func(op, _ string) {
			if op == "list" || op == "put" {
				held <- op
				<-release
			}
		})
		stepped := make(chan error, 1)
		go func() {
			_, err := p.Step(t.Context())
			stepped <- err
		}()
		read := func() (evidence.Checkpoint, error) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			return p.Checkpoint(ctx)
		}
		if op := <-held; op != "list" {
			t.Fatalf("held at %q", op)
		}
		if c, err := read(); err != nil || c.Size != 8 {
			t.Errorf("while nothing is new: %d, %v", c.Size, err)
		}
		for op := "list"; op != "put"; op = <-held {
			release <- struct{}{}
		}
		if _, err := read(); !errors.Is(err, blobd.ErrUnavailable) {
			t.Errorf("while the newest is on its way: %v, want unavailable", err)
		}
		r.places[0].OnCall(nil)
		close(release)
		if err := <-stepped; err != nil {
			t.Error(err)
		}
		if c, err := read(); err != nil || c.Size != 9 {
			t.Errorf("after it: %d, %v", c.Size, err)
		}
	})
}

// TestTiles: the layout of the tiled log, its hashes and its bundles.
func TestTiles(t *testing.T) {
	r := newRig(t, t, 1)
	r.append(600)
	p := r.process()
	r.drain(p)
	leaves := r.leaves()
	for path, want := range map[string][]byte{
		"0/000":             level0(leaves[:256]),
		"0/001":             level0(leaves[256:512]),
		"0/002.p/88":        level0(leaves[512:]),
		"0/002.p/7":         level0(leaves[512:519]),
		"1/000.p/2":         append(root(leaves[:256]), root(leaves[256:512])...),
		"entries/000":       bundle(leaves[:256]),
		"entries/002.p/88":  bundle(leaves[512:]),
		"entries/001.p/200": bundle(leaves[256:456]),
	} {
		if got, err := p.Tile(t.Context(), path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, %v, want %d", path, len(got), err, len(want))
		}
	}
	for _, path := range []string{
		"", "0", "0/", "0/002", "0/003", "0/002.p/89", "0/000.p/256", "0/000.p/0", "1/000", "1/001.p/1", "2/000.p/1", "7/000.p/1",
		"8/000.p/1", "-1/000", "00/000", "0/0", "0/x000/000", "0/000/000", "0/000.p/1.p/1", "data/000", "entries/002", "entries/",
		"entries/x001/000", "entries/data/000", "../0/000", "63/000.p/1", "0/x999/x999/x999/x999/x999/x999/999",
	} {
		if got, err := p.Tile(t.Context(), path); !errors.Is(err, blobd.ErrNotFound) {
			t.Errorf("%q: %d bytes, %v, want not found", path, len(got), err)
		}
	}
	if !evidence.IsBundle("entries/000") || evidence.IsBundle("0/000") {
		t.Error("which paths are bundles")
	}
}

func level0(leaves [][]byte) (b []byte) {
	for _, l := range leaves {
		b = append(b, root([][]byte{l})...)
	}
	return b
}

func root(leaves [][]byte) []byte { h := treeHash(leaves); return h[:] }

func bundle(leaves [][]byte) (b []byte) {
	for _, l := range leaves {
		b = append(binary.BigEndian.AppendUint16(b, uint16(len(l))), l...)
	}
	return b
}

// TestProofsEndWhereTheLogDoes.
func TestProofsEndWhereTheLogDoes(t *testing.T) {
	r := newRig(t, t, 1)
	r.append(5)
	p := r.process()
	r.drain(p)
	r.append(1) // not in the log yet
	for _, index := range []int64{-1, 5, 6, 1 << 60} {
		if _, err := p.Inclusion(t.Context(), index); !errors.Is(err, blobd.ErrNotFound) {
			t.Errorf("entry %d: %v", index, err)
		}
	}
	for _, size := range []int64{-1, 0, 6, 1 << 60} {
		if _, err := p.Consistency(t.Context(), size); !errors.Is(err, blobd.ErrNotFound) {
			t.Errorf("tree of %d: %v", size, err)
		}
	}
	es, err := p.Entries(t.Context(), 3, 100)
	if err != nil || len(es) != 2 || es[0].Index != 3 || es[0].FreeText != "" || len(es[0].Salt) != 0 {
		t.Errorf("entries %+v, %v", es, err)
	}
	if es, err := p.Entries(t.Context(), 5, 9); err != nil || len(es) != 0 {
		t.Errorf("past the end: %v, %v", es, err)
	}
}
