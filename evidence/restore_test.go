package evidence_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/blobd/blobd"
	backendfaulty "github.com/blobd/blobd/backends/faulty"
	backendmem "github.com/blobd/blobd/backends/mem"
	"github.com/blobd/blobd/evidence"
	"github.com/blobd/blobd/keys"
	keysmem "github.com/blobd/blobd/keys/mem"
	"github.com/blobd/blobd/ledger"
	ledgerfaulty "github.com/blobd/blobd/ledger/faulty"
)

// restore puts back what an export has.
func (r *rig) restore(from evidence.Place, dry bool) (evidence.Restored, error) {
	r.Helper()
	r.owners++
	return r.process().Restore(r.t.Context(), from, evidence.RestoreOptions{
		Owner: fmt.Sprint("restore-", r.owners), Now: r.clock.now, DryRun: dry,
	})
}

// exported is what a log told, and a copy of it in a folder.
func (r *rig) exported(p process) (evidence.Folder, evidence.Checkpoint) {
	r.Helper()
	dir := r.t.TempDir()
	return evidence.Folder(dir), export(r.t, p.Log, r.verifier(p), dir)
}

// untouched is what a refused restore must leave as it is.
type untouched struct {
	rig    *rig
	all    []ledger.StoredEntry
	leaves [][]byte
	state  ledger.LogState
}

func (r *rig) look() untouched {
	r.Helper()
	all, err := r.inner.Entries(r.t.Context(), 0, 1_000_000)
	if err != nil {
		r.Fatal(err)
	}
	state, err := r.inner.LogState(r.t.Context(), 0)
	if err != nil {
		r.Fatal(err)
	}
	return untouched{r, all, r.leaves(), state}
}

func (u untouched) check(t *testing.T, what string) {
	t.Helper()
	now := u.rig.look()
	if len(now.all) != len(u.all) || len(now.leaves) != len(u.leaves) || !bytes.Equal(now.state.Checkpoint, u.state.Checkpoint) {
		t.Errorf("%s: from %d entries, %d in the log, to %d, %d", what, len(u.all), len(u.leaves), len(now.all), len(now.leaves))
	}
}

// TestARolledBackLogGoesOnFromThePublishedHead: nothing that was told is
// contradicted, no entry is in the log twice, and what was made since comes after.
func TestARolledBackLogGoesOnFromThePublishedHead(t *testing.T) {
	for name, c := range map[string]struct {
		entries, logged int64 // of 8
		since, waited   int64
	}{
		"all waits":               {8, 5, 0, 3},
		"some wait":               {7, 5, 4, 2},
		"none waits":              {5, 5, 4, 0},
		"from the first step":     {3, 3, 300, 0},
		"nothing since":           {3, 3, 0, 0},
		"all but the first waits": {8, 3, 9, 5},
	} {
		r := grown(t, 2)
		old := r.process()
		from, told := r.exported(old)
		before := r.leaves()
		r.rollBack(c.entries, c.logged)
		r.append(int(c.since))
		r.clock.add(evidence.SequencerLeaseTime)
		want := evidence.Restored{Had: c.logged, Export: 8, Published: 8, PutBack: 8 - c.logged}
		rolled := r.look()
		if got, err := r.restore(from, true); err != nil || got != want {
			t.Errorf("%s: a dry run: %+v, %v, want %+v", name, got, err, want)
		}
		rolled.check(t, name+": a dry run")
		want.Waited = c.waited
		if got, err := r.restore(from, false); err != nil || got != want {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, want)
		}
		p := r.process()
		if c, err := p.Checkpoint(t.Context()); err != nil || !bytes.Equal(c.Note, told.Note) {
			t.Errorf("%s: tells %d, %v, want what was told before", name, c.Size, err)
		}
		again := evidence.Restored{Had: 8, Export: 8, Published: 8}
		if got, err := r.restore(from, false); err != nil || got != again {
			t.Errorf("%s: once more: %+v, %v, want %+v", name, got, err, again)
		}
		r.append(1)
		r.drain(p)
		last := r.audit(p, told)
		if want := 8 + c.since + 1; last.Size != want {
			t.Errorf("%s: the log has %d entries, want %d", name, last.Size, want)
		}
		for i, leaf := range r.leaves()[:8] {
			if !bytes.Equal(leaf, before[i]) {
				t.Errorf("%s: entry %d is another one", name, i)
			}
		}
		dir := string(from)
		export(t, p.Log, r.verifier(p), dir) // the old copy goes on too
	}
}

// TestARestoreKeepsFreeTextsThatWereNotLost: what waited is the entry that it was.
func TestARestoreKeepsFreeTextsThatWereNotLost(t *testing.T) {
	r := grown(t, 1)
	from, _ := r.exported(r.process())
	r.rollBack(6, 5)
	r.clock.add(evidence.SequencerLeaseTime)
	if _, err := r.restore(from, false); err != nil {
		t.Fatal(err)
	}
	texts := 0
	for _, e := range r.look().all {
		if e.FreeText != "" {
			texts++
		}
	}
	if texts != 6 {
		t.Errorf("%d free texts, want the 6 of the backup", texts)
	}
}

// TestEqualEntriesAreLoggedOnceEach: two that are alike, of which one or both are in
// what is put back.
func TestEqualEntriesAreLoggedOnceEach(t *testing.T) {
	for name, c := range map[string]struct{ logged, since int }{
		"both were in the log":         {2, 0},
		"one was, and one is new":      {1, 1},
		"both were, and one is new":    {2, 1},
		"one was, and there is no new": {1, 0},
	} {
		r := grown(t, 1)
		twin := ledger.Entry{Tenant: "acme", Kind: ledger.EntryRead, At: r.clock.now(), Body: []byte(`{"alike":true}`)}
		same := func(n int) {
			for range n {
				if err := r.inner.Append(t.Context(), twin); err != nil {
					t.Fatal(err)
				}
			}
		}
		same(c.logged)
		p := r.process()
		r.clock.add(evidence.SequencerLeaseTime)
		r.drain(p)
		from, told := r.exported(p)
		r.rollBack(int64(8+c.logged), 8)
		same(c.since)
		r.clock.add(evidence.SequencerLeaseTime)
		got, err := r.restore(from, false)
		if err != nil || got.Waited != int64(c.logged) {
			t.Errorf("%s: %+v, %v, want %d that waited", name, got, err, c.logged)
		}
		p = r.process()
		r.drain(p)
		if last := r.audit(p, told); last.Size != int64(8+c.logged+c.since) {
			t.Errorf("%s: the log has %d entries", name, last.Size)
		}
	}
}

// TestABodyThatNobodyHasIsKnownByItsHash: the leaf is the same, and no body passes for
// the one that it is of.
func TestABodyThatNobodyHasIsKnownByItsHash(t *testing.T) {
	r := grown(t, 1)
	long, err := json.Marshal(map[string]string{"long": string(bytes.Repeat([]byte("x"), 60_000))})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.inner.Append(t.Context(), ledger.Entry{Tenant: "acme", Kind: ledger.EntryErasure, At: r.clock.now(), Body: long}); err != nil {
		t.Fatal(err)
	}
	r.append(1)
	r.clock.add(evidence.SequencerLeaseTime)
	p := r.process()
	r.drain(p)
	from, told := r.exported(p)
	leaf := r.leaves()[8]
	r.rollBack(5, 5)
	r.clock.add(evidence.SequencerLeaseTime)
	want := evidence.Restored{Had: 5, Export: 10, Published: 10, PutBack: 5, HashOnly: 1}
	if got, err := r.restore(from, false); err != nil || got != want {
		t.Fatalf("%+v, %v, want %+v", got, err, want)
	}
	r.append(1)
	p = r.process()
	r.drain(p)
	r.audit(p, told)
	if got := r.leaves()[8]; !bytes.Equal(got, leaf) {
		t.Errorf("the leaf is %s, was %s", got, leaf)
	}
	es, err := r.inner.Logged(t.Context(), ledger.LogQuery{Indexes: []int64{8}})
	if err != nil || len(es) != 1 || !json.Valid(es[0].Body) {
		t.Fatalf("%+v, %v", es, err)
	}
	if _, err := evidence.ParseLeaf(leaf, es[0].Body); !errors.Is(err, blobd.ErrInvalid) {
		t.Errorf("what stands for the body passes for it: %v", err)
	}
	if l, err := evidence.ParseLeaf(leaf, long); err != nil || !bytes.Equal(l.Body, long) {
		t.Errorf("the body itself: %v", err)
	}
}

// TestARestoreRefusesWhatDoesNotFit and changes nothing.
func TestARestoreRefusesWhatDoesNotFit(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(r *rig) evidence.Place
		want    error
	}{
		"an export that ends too early": {func(r *rig) evidence.Place {
			from, _ := r.exported(r.process())
			r.append(2)
			r.clock.add(evidence.SequencerLeaseTime)
			r.drain(r.process()) // published, and in no export
			r.rollBack(5, 5)
			return from
		}, blobd.ErrConflict},
		"of which only the second place knows": {func(r *rig) evidence.Place {
			from, _ := r.exported(r.process())
			r.append(2)
			r.clock.add(evidence.SequencerLeaseTime)
			r.drain(r.process())
			r.rollBack(5, 5)
			erase(r, 0)
			return from
		}, blobd.ErrConflict},
		"another log's": {func(r *rig) evidence.Place {
			other := newRig(r.t, r.t, 1)
			other.keys = keys.NewCore(keysmem.New(nil), keys.Options{Now: other.clock.now})
			other.append(9)
			p := other.process()
			other.drain(p)
			from, _ := other.exported(p)
			r.rollBack(5, 5)
			return from
		}, blobd.ErrInvalid},
		"no export": {func(r *rig) evidence.Place {
			r.rollBack(5, 5)
			return evidence.Folder(r.t.TempDir())
		}, blobd.ErrNotFound},
		"a changed leaf": {func(r *rig) evidence.Place {
			from, _ := r.exported(r.process())
			const name = "tile/entries/000.p/8"
			b, err := from.Read(r.t.Context(), name)
			if err != nil {
				r.Fatal(err)
			}
			b[len(b)-2] ^= 1
			write(r.t, string(from), name, b)
			r.rollBack(5, 5)
			return from
		}, blobd.ErrCorrupt},
		"a ledger that went on with other entries": {func(r *rig) evidence.Place {
			from, _ := r.exported(r.process())
			r.rollBack(5, 5)
			erase(r, 0)
			erase(r, 1) // nobody told it what was published
			r.append(1)
			r.clock.add(evidence.SequencerLeaseTime)
			r.drain(r.process())
			return from
		}, evidence.ErrOtherHistory},
		"one that went on past the export": {func(r *rig) evidence.Place {
			from, _ := r.exported(r.process())
			r.rollBack(5, 5)
			erase(r, 0)
			erase(r, 1)
			r.append(30)
			r.clock.add(evidence.SequencerLeaseTime)
			r.drain(r.process())
			return from
		}, evidence.ErrOtherHistory},
		"what was published is another tree": {func(r *rig) evidence.Place {
			from, _ := r.exported(r.process())
			r.rollBack(5, 5)
			erase(r, 0)
			erase(r, 1)
			fork := r.inner
			r.append(2)
			r.clock.add(evidence.SequencerLeaseTime)
			r.drain(r.process()) // publishes seven others
			r.inner = fork
			r.rollBack(5, 5)
			return from
		}, evidence.ErrOtherHistory},
		"a ledger from before the log's key": {func(r *rig) evidence.Place {
			from, _ := r.exported(r.process())
			r.rollBack(2, 0)
			return from
		}, blobd.ErrConflict},
		"a key that cannot be unwrapped": {func(r *rig) evidence.Place {
			from, _ := r.exported(r.process())
			r.rollBack(5, 5)
			r.keys = keys.NewCore(keysmem.New(nil), keys.Options{Now: r.clock.now})
			return from
		}, blobd.ErrKeyMissing},
	} {
		r := grown(t, 2)
		from := c.prepare(r)
		r.append(1)
		r.clock.add(evidence.SequencerLeaseTime)
		before := r.look()
		got, err := r.restore(from, false)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %+v, %v, want %v", name, got, err, c.want)
		}
		before.check(t, name)
	}
}

// TestARestoreThatWasKilledGoesOn: whatever call of the ledger or of a place of the
// journal it fails at, before it acted or after, the next one ends it; and in between
// nothing is signed that what was told does not contain.
func TestARestoreThatWasKilledGoesOn(t *testing.T) {
	whole := newRig(t, t, 2)
	p := whole.process()
	whole.append(40)
	whole.drain(p)
	whole.append(560)
	whole.drain(p)
	from, told := whole.exported(p)
	for _, c := range []struct {
		op    string
		store bool
	}{
		{"logstate", false}, {"unsequenced", false}, {"claimsequencer", false}, {"appendtolog", false}, {"logged", false},
		{"get", true}, {"list", true}, {"put", true}, {"erase", true},
	} {
		came := 0
		for _, after := range []bool{false, true} {
			for nth := 1; nth <= 6; nth++ {
				r := *whole
				r.rollBack(50, 40)
				r.inside, r.places = nil, nil
				for range whole.inside { // as they were when the export was made
					inner := backendmem.New(r.clock.now)
					if err := inner.Put(t.Context(), fmt.Sprintf("journal/log/%016x", told.Size), told.Note); err != nil {
						t.Fatal(err)
					}
					r.inside, r.places = append(r.inside, inner), append(r.places, backendfaulty.New(inner))
				}
				r.append(3)
				r.clock.add(evidence.SequencerLeaseTime)
				if c.store {
					r.places[0].Fail(c.op, nth, storeWhen(after), errFault)
				} else {
					r.ledger.Fail(c.op, nth, ledgerWhen(after), errFault)
				}
				_, err := r.restore(from, false)
				if err != nil && !errors.Is(err, errFault) {
					t.Fatal(err)
				}
				if err == nil {
					continue
				}
				came++
				r.ledger = ledgerfaulty.New(r.inner)
				r.places = []*backendfaulty.Store{backendfaulty.New(r.inside[0]), backendfaulty.New(r.inside[1])}
				r.clock.add(evidence.SequencerLeaseTime)
				if s, err := r.inner.LogState(t.Context(), 0); err == nil && s.Size < told.Size {
					if _, err := r.process().Step(t.Context()); !errors.Is(err, evidence.ErrOtherHistory) {
						t.Errorf("%s %d %v: half restored, and a step: %v", c.op, nth, after, err)
					}
				}
				if got, err := r.restore(from, false); err != nil || got.Had+got.PutBack != told.Size {
					t.Fatalf("%s %d %v: again: %+v, %v", c.op, nth, after, got, err)
				}
				p := r.process()
				r.drain(p)
				if last := r.audit(p, told); last.Size != told.Size+3 {
					t.Errorf("%s %d %v: the log has %d entries", c.op, nth, after, last.Size)
				}
			}
		}
		if came == 0 && c.op != "put" && c.op != "erase" { // nothing has to be published anew
			t.Errorf("%s never failed", c.op)
		}
	}
}

// TestHalfARestoreIsNotGoneOnFrom: also where only the export knows how far the log was.
func TestHalfARestoreIsNotGoneOnFrom(t *testing.T) {
	r := newRig(t, t, 2)
	p := r.process()
	r.append(40)
	r.drain(p)
	r.append(660)
	r.drain(p)
	from, told := r.exported(p)
	r.rollBack(40, 40)
	erase(r, 0)
	erase(r, 1)
	r.append(2)
	r.clock.add(evidence.SequencerLeaseTime)
	r.ledger.Fail("appendtolog", 1, ledgerfaulty.After, errFault) // the first bundle
	if _, err := r.restore(from, false); !errors.Is(err, errFault) {
		t.Fatal(err)
	}
	r.clock.add(evidence.SequencerLeaseTime)
	half, err := r.inner.LogState(t.Context(), 0)
	if err != nil || half.Size == 0 || half.Size >= told.Size {
		t.Fatalf("the log has %d entries, %v", half.Size, err)
	}
	if _, err := r.process().Step(t.Context()); !errors.Is(err, evidence.ErrOtherHistory) {
		t.Errorf("a step from %d entries: %v, want ErrOtherHistory", half.Size, err)
	}
	if _, err := r.restore(from, false); err != nil {
		t.Fatal(err)
	}
	p = r.process()
	r.drain(p)
	r.audit(p, told)
}

// TestARestoreWaitsForTheLease: of a sequencer that is stopped it gets it, for that
// gives it up; of one that keeps it, it does not.
func TestARestoreWaitsForTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := grown(t, 1)
		from, _ := r.exported(r.process())
		r.rollBack(5, 5)
		r.append(1)
		r.clock.add(evidence.SequencerLeaseTime)
		stopped := r.process()
		if _, err := stopped.Step(t.Context()); !errors.Is(err, evidence.ErrOtherHistory) {
			t.Fatal(err)
		}
		if _, err := r.inner.ClaimSequencer(t.Context(), "keeps it", r.clock.now(), r.clock.now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		before := r.look()
		if _, err := r.restore(from, false); !errors.Is(err, blobd.ErrUnavailable) || errors.Is(err, evidence.ErrOtherHistory) {
			t.Errorf("beside one that keeps it: %v, want unavailable", err)
		}
		if waited := time.Since(began); waited != 2*evidence.SequencerLeaseTime {
			t.Errorf("waited %v", waited)
		}
		before.check(t, "beside one that keeps it")
		over, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := r.process().Restore(over, from, evidence.RestoreOptions{Owner: "x", Now: r.clock.now}); err == nil {
			t.Error("a context that is over")
		}
		r.clock.add(2 * time.Hour)
		if _, err := r.restore(from, false); err != nil {
			t.Errorf("after it ended: %v", err)
		}
		r.drain(stopped) // which gets the lease back at once
		r.audit(stopped)
	})
}
