package evidence_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
	"github.com/blobd/blobd/evidence"
	"github.com/blobd/blobd/keys"
	keysmem "github.com/blobd/blobd/keys/mem"
	"github.com/blobd/blobd/ledger"
	ledgerfaulty "github.com/blobd/blobd/ledger/faulty"
	ledgermem "github.com/blobd/blobd/ledger/mem"
)

// rollBack puts the ledger in place that a backup taken after so many entries
// had, the log's first steps of them included.
func (r *rig) rollBack(entries, logged int64) {
	r.Helper()
	ctx := r.t.Context()
	old := ledgermem.New(r.clock.now)
	all, err := r.inner.Entries(ctx, 0, 1000)
	if err != nil {
		r.Fatal(err)
	}
	for _, e := range all[:entries] {
		if err := old.Append(ctx, e.Entry); err != nil {
			r.Fatal(err)
		}
	}
	lease, err := old.ClaimSequencer(ctx, "restore", r.clock.now(), r.clock.now())
	if err != nil {
		r.Fatal(err)
	}
	for size := int64(0); size < logged; {
		state, err := r.inner.LogState(ctx, size+1)
		if err != nil {
			r.Fatal(err)
		}
		a := ledger.LogAppend{Size: size, Checkpoint: state.Checkpoint, Key: state.Key}
		for ; size < state.Size; size++ {
			es, err := r.inner.Logged(ctx, ledger.LogQuery{Indexes: []int64{size}})
			if err != nil || len(es) != 1 {
				r.Fatal(err)
			}
			a.Entries = append(a.Entries, ledger.NewLogEntry{ID: es[0].ID, Object: es[0].Object, Hashes: es[0].Hashes})
		}
		if err := old.AppendToLog(ctx, lease, a); err != nil {
			r.Fatal(err)
		}
	}
	r.inner, r.ledger = old, ledgerfaulty.New(old)
	r.clock.add(time.Second) // what is written from now on differs
}

// grown is a rig whose log was signed at 3, 5 and 8 entries.
func grown(t *testing.T, places int) *rig {
	r := newRig(t, t, places)
	p := r.process()
	for _, n := range []int{3, 2, 3} {
		r.append(n)
		r.drain(p)
	}
	r.audit(p)
	return r
}

// TestARolledBackLedgerSignsNoSecondHistory: not while it is shorter than what
// was published, nor once it grew past it with other entries, not if only the
// second place tells of it, nor after it lost its key.
func TestARolledBackLedgerSignsNoSecondHistory(t *testing.T) {
	for name, c := range map[string]struct {
		entries, logged int64
		more            int
		change          func(*rig)
	}{
		"shorter, nothing new":     {5, 5, 0, nil},
		"shorter":                  {5, 5, 1, nil},
		"as long, other entries":   {5, 5, 3, nil},
		"longer, other entries":    {5, 5, 30, nil},
		"before its first step":    {2, 0, 9, nil},
		"empty":                    {0, 0, 1, nil},
		"the same entries at last": {8, 5, 0, nil}, // they get other checkpoints between, and the same tree
		"first place emptied": {5, 5, 3, func(r *rig) {
			erase(r, 0)
		}},
		"second place emptied": {5, 5, 3, func(r *rig) {
			erase(r, 1)
		}},
		"another key service": {0, 0, 20, func(r *rig) {
			r.keys = keys.NewCore(keysmem.New(nil), keys.Options{Now: r.clock.now})
		}},
	} {
		r := grown(t, 2)
		r.rollBack(c.entries, c.logged)
		r.append(c.more)
		if c.change != nil {
			c.change(r)
		}
		before, err := r.inner.LogState(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		p := r.process()
		for range 3 {
			if _, err := p.Step(t.Context()); !errors.Is(err, evidence.ErrOtherHistory) {
				t.Errorf("%s: a step: %v, want ErrOtherHistory", name, err)
			}
			r.clock.add(evidence.SequencerLeaseTime)
		}
		after, err := r.inner.LogState(t.Context(), 0)
		if err != nil || after.Size != before.Size || string(after.Checkpoint) != string(before.Checkpoint) {
			t.Errorf("%s: from %d to %d, %v", name, before.Size, after.Size, err)
		}
		for _, p := range []process{p, r.process()} {
			if got, err := p.Checkpoint(t.Context()); err == nil || before.Size > 0 && !errors.Is(err, blobd.ErrUnavailable) {
				t.Errorf("%s: tells %d, %v", name, got.Size, err)
			}
		}
	}
}

func erase(r *rig, place int) {
	names, err := r.inside[place].List(r.t.Context(), "journal/log/", "", 10)
	if err != nil {
		r.Fatal(err)
	}
	for _, o := range names {
		if _, err := r.inside[place].Erase(r.t.Context(), backends.Scope{Names: []string{o.Name}}); err != nil {
			r.Fatal(err)
		}
	}
}

// TestALedgerThatLostNothingGoesOn: a copy that is older than the ledger, or
// absent from a place, is made anew.
func TestALedgerThatLostNothingGoesOn(t *testing.T) {
	r := grown(t, 2)
	old := r.audit(r.process())
	erase(r, 1)
	r.append(4)
	r.clock.add(evidence.SequencerLeaseTime)
	p := r.process()
	r.drain(p)
	r.audit(p, old)
	for i := range r.inside {
		names, err := r.inside[i].List(t.Context(), "journal/log/", "", 10)
		if err != nil || len(names) != 1 {
			t.Errorf("place %d: %v, %v", i, names, err)
		}
	}
}

// TestADamagedTreeIsNotBuiltUpon: hashes that do not lead to what was signed.
func TestADamagedTreeIsNotBuiltUpon(t *testing.T) {
	r := grown(t, 1)
	good := r.inner
	r.ledger = ledgerfaulty.New(otherHashes{good})
	r.append(1)
	r.clock.add(evidence.SequencerLeaseTime)
	if _, err := r.process().Step(t.Context()); !errors.Is(err, blobd.ErrCorrupt) {
		t.Errorf("a step: %v, want corrupt", err)
	}
	if s, err := good.LogState(t.Context(), 0); err != nil || s.Size != 8 {
		t.Errorf("the log has %d, %v", s.Size, err)
	}
}

// TestRunTellsThatItStopped and that it goes on; it waits while the service does
// not serve, and ends with its context.
func TestRunTellsThatItStopped(t *testing.T) {
	defer goleak.VerifyNone(t)
	synctest.Test(t, func(t *testing.T) {
		r := grown(t, 1)
		whole := r.inner
		r.rollBack(5, 5)
		r.append(1)
		r.clock.add(evidence.SequencerLeaseTime)
		p := r.process()
		var serving atomic.Bool
		done := make(chan error)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			done <- p.Run(ctx, func() error {
				if serving.Load() {
					return nil
				}
				return errFault
			})
		}()
		wait := func(stopped bool, published int64) {
			t.Helper()
			time.Sleep(2 * evidence.SequencerPoll)
			synctest.Wait()
			if got := p.Stats(); got != (evidence.LogStats{Published: published, Stopped: stopped}) {
				t.Errorf("stats %+v, want stopped %v at %d", got, stopped, published)
			}
		}
		wait(false, 0)
		serving.Store(true)
		wait(true, 0)
		// The right ledger comes back.
		later := evidence.NewLog(whole, evidence.NewJournal(whole, r.inside[0]), r.keys, deployment)
		if c, err := later.Checkpoint(t.Context()); err != nil || c.Size != 8 {
			t.Errorf("the whole ledger tells %d, %v", c.Size, err)
		}
		cancel()
		if err := <-done; err == nil {
			t.Error("Run ended without a cause")
		}
	})
}

// otherHashes is a ledger in which somebody changed the hashes.
type otherHashes struct{ ledger.Ledger }

func (o otherHashes) Logged(ctx context.Context, q ledger.LogQuery) ([]ledger.LoggedEntry, error) {
	es, err := o.Ledger.Logged(ctx, q)
	for i := range es {
		for j := range es[i].Hashes {
			es[i].Hashes[j][0] ^= 1
		}
	}
	return es, err
}
