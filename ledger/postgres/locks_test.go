package postgres

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// Interleavings of two nodes over one database, each in both orders. A node
// that holds its locks is a transaction that was flushed and not committed.
func TestLocks(t *testing.T) {
	b := newBench(t)
	for name, test := range map[string]func(*testing.T, *bench){
		"a put waits for a fence and is erased":                      putAgainstFence,
		"a fence waits for a put and erases what it put":             fenceAgainstPut,
		"a put waits for a fence that is undone and lands":           putAgainstUndoneFence,
		"a first put waits for another's key and learns of it":       firstPuts,
		"puts of other executions do not wait for one that is held":  putsBeside,
		"replay waits for a put and erases what it put":              replayAgainstPut,
		"a put waits for a replay and is erased":                     putAgainstReplay,
		"two replays of the same records apply them once":            replayAgainstReplay,
		"a raise of the minimum waits for puts, and puts for it":     raiseAgainstPut,
		"a node paused past the put margin is refused":               pausedBeforeCommit,
		"a node paused in its transaction keeps others for a bound":  pausedInTransaction,
		"a collected ref refuses a put that was on its way":          putAgainstCollect,
		"evidence that commits late is not passed by":                lateEvidence,
		"a job that a node has in hand is passed by":                 claimBeside,
		"a deadlock is done again":                                   deadlock,
		"a serialization failure is done again and then unavailable": serialization,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, b)
		})
	}
}

func fencing(f ledger.Fence) func(context.Context, *tx) error {
	return func(ctx context.Context, x *tx) error {
		return fence(ctx, x, f, closes(&f), new(ledger.Erasure), new(ledger.Record))
	}
}

// putting runs a put up to its COMMIT.
func putting(l *Ledger, c ledger.Capture) func(context.Context, *tx) error {
	return func(ctx context.Context, x *tx) error {
		return l.applyAll(ctx, x, []*commit{{capture: c}}, "")
	}
}

func committing(t *testing.T, l *Ledger, c ledger.Capture) func() error {
	return later(func() error {
		_, err := l.Commit(t.Context(), c)
		return err
	})
}

func (h half) end(t *testing.T) {
	t.Helper()
	must(t, h.commit(t.Context()))
	h.finish()
}

func erasedWhole(t *testing.T, l *Ledger, x int, refs ...blobd.Ref) {
	t.Helper()
	v, err := l.Lookup(t.Context(), tagOf(x), refs)
	must(t, err)
	if v.Execution.State != ledger.ExecutionErased || v.Execution.Key != nil || v.Execution.Blobs != 0 {
		t.Fatalf("execution %+v", v.Execution)
	}
	s, err := l.Stats(t.Context())
	must(t, err)
	if s.Blobs != 0 || s.Executions != 0 || s.Bytes != 0 {
		t.Fatalf("stats %+v", s)
	}
}

func putAgainstFence(t *testing.T, b *bench) {
	l := b.withTenant(t, Options{})
	put(t, l, 1, 1)
	open := begun(t, l, fencing(fenceOf(1)))
	answer := committing(t, l, capture(1, 2))
	awaitWaiting(t, l.options.URL, 1)
	open.end(t)
	refused(t, answer(), blobd.ErrErased)
	erasedWhole(t, l, 1, refOf(1), refOf(2))
}

func fenceAgainstPut(t *testing.T, b *bench) {
	l := b.withTenant(t, Options{})
	put(t, l, 1, 1)
	open := begun(t, l, putting(l, capture(1, 2)))
	answer := later(func() error {
		e, _, err := l.Fence(t.Context(), fenceOf(1))
		if err == nil && e.Plan.Blobs != 2 {
			t.Errorf("plan %+v", e.Plan)
		}
		return err
	})
	awaitWaiting(t, l.options.URL, 1)
	open.end(t)
	must(t, answer())
	erasedWhole(t, l, 1, refOf(1), refOf(2))
}

func putAgainstUndoneFence(t *testing.T, b *bench) {
	l := b.withTenant(t, Options{})
	put(t, l, 1, 1)
	open := begun(t, l, fencing(fenceOf(1)))
	answer := committing(t, l, capture(1, 2))
	awaitWaiting(t, l.options.URL, 1)
	open.finish()
	must(t, answer())
	v, err := l.Lookup(t.Context(), tagOf(1), []blobd.Ref{refOf(1), refOf(2)})
	must(t, err)
	if v.Execution.Blobs != 2 || v.Blobs[0].State != ledger.BlobLive || v.Blobs[1].State != ledger.BlobLive {
		t.Fatalf("view %+v", v)
	}
}

func firstPuts(t *testing.T, b *bench) {
	l := b.withTenant(t, Options{})
	open := begun(t, l, putting(l, capture(1, 1)))
	loser := capture(1, 2)
	loser.Key.ID[0]++
	answer := committing(t, l, loser)
	awaitWaiting(t, l.options.URL, 1)
	open.end(t)
	var conflict *ledger.KeyConflict
	if err := answer(); !errors.As(err, &conflict) || conflict.Winner.ID != capture(1, 1).Key.ID {
		t.Fatalf("answer %v", err)
	}
}

func putsBeside(t *testing.T, b *bench) {
	l := b.withTenant(t, Options{Pause: time.Minute})
	put(t, l, 1, 1)
	put(t, l, 2, 2)
	// What a node holds while it decides; the counters go with its COMMIT.
	open := begun(t, l, func(_ context.Context, x *tx) error {
		sc := newScope(fenceOf(1).Scope, false)
		sc.lock(x, false)
		sc.read(x, true)
		return nil
	})
	answer := committing(t, l, capture(1, 10))
	awaitWaiting(t, l.options.URL, 1)
	put(t, l, 2, 20) // would hang behind the other
	put(t, l, 3, 30)
	open.finish()
	must(t, answer())
	wholeExecution(t, l, 1)
}

func lostFence() []ledger.Record {
	return []ledger.Record{{Seq: 7, Kind: ledger.RecordFence, At: noon, Tenant: acme, Tag: tagOf(1), ErasureID: "lost", Writes: 9}}
}

func replayAgainstPut(t *testing.T, b *bench) {
	l := b.withTenant(t, Options{})
	open := begun(t, l, putting(l, capture(1, 1)))
	answer := later(func() error { return l.Replay(t.Context(), lostFence()) })
	awaitWaiting(t, l.options.URL, 1)
	open.end(t)
	must(t, answer())
	erasedWhole(t, l, 1, refOf(1))
}

func putAgainstReplay(t *testing.T, b *bench) {
	l := b.withTenant(t, Options{})
	put(t, l, 1, 1)
	open := begun(t, l, func(ctx context.Context, x *tx) error { return replayAll(ctx, x, lostFence()) })
	answer := committing(t, l, capture(1, 2))
	awaitWaiting(t, l.options.URL, 1)
	open.end(t)
	refused(t, answer(), blobd.ErrErased)
	erasedWhole(t, l, 1, refOf(1), refOf(2))
}

func replayAgainstReplay(t *testing.T, b *bench) {
	l := b.withTenant(t, Options{})
	put(t, l, 1, 1)
	open := begun(t, l, func(ctx context.Context, x *tx) error { return replayAll(ctx, x, lostFence()) })
	answer := later(func() error { return l.Replay(t.Context(), lostFence()) })
	awaitWaiting(t, l.options.URL, 1)
	open.end(t)
	must(t, answer())
	erasedWhole(t, l, 1, refOf(1))
	es, err := l.ListErasures(t.Context(), ledger.ErasureQuery{Tenant: acme, Limit: 10})
	must(t, err)
	if len(es) != 1 {
		t.Fatalf("%d erasures", len(es))
	}
}

func raiseAgainstPut(t *testing.T, b *bench) {
	l := b.withTenant(t, Options{})
	_, err := l.StartEpoch(t.Context(), ledger.NewEpoch{ID: "epoch", Tenant: acme, At: noon, Entry: entry(ledger.EntryKeys)})
	must(t, err)
	job, err := l.ClaimEpoch(t.Context(), "worker", noon, noon.Add(time.Hour))
	must(t, err)
	raise := ledger.EpochMove{To: ledger.EpochRewrapping, From: 1, Version: 2, Until: noon.Add(time.Hour)}

	open := begun(t, l, putting(l, capture(1, 1)))
	answer := later(func() error { return l.MoveEpoch(t.Context(), job.Lease, raise) })
	awaitWaiting(t, l.options.URL, 1)
	late := committing(t, l, capture(2, 2)) // queues behind the raise
	awaitWaiting(t, l.options.URL, 2)
	open.end(t)
	must(t, answer())
	refused(t, late(), blobd.ErrConflict)
	ws, err := l.Wraps(t.Context(), ledger.WrapQuery{Tenant: acme, Below: 2, Limit: 10})
	must(t, err)
	if len(ws) != 2 || ws[1].Tag != tagOf(1) {
		t.Fatalf("the put that came first is not seen: %+v", ws)
	}
}

func pausedBeforeCommit(t *testing.T, b *bench) {
	l := b.withTenant(t, Options{})
	put(t, l, 1, 1)
	v, err := l.LookupRepeats(t.Context(), tagOf(1), nil)
	must(t, err)
	if v.Execution.State != ledger.ExecutionOpen {
		t.Fatalf("execution %+v", v.Execution)
	}
	// Here the node stops; the erasure is done from its fence to its end.
	_, _, err = l.Fence(t.Context(), fenceOf(1))
	must(t, err)
	j, err := l.Claim(t.Context(), "worker", noon, noon.Add(time.Hour))
	must(t, err)
	left, err := l.Tombstone(t.Context(), j.Lease, 10)
	must(t, err)
	if left != 0 {
		t.Fatalf("%d rows left", left)
	}
	must(t, l.Finish(t.Context(), j.Lease, ledger.Progress{}, noon, nil))
	_, err = l.Commit(t.Context(), capture(1, 2))
	refused(t, err, blobd.ErrErased)
	erasedWhole(t, l, 1, refOf(1), refOf(2))
}

func pausedInTransaction(t *testing.T, b *bench) {
	l := b.withTenant(t, Options{Pause: 300 * time.Millisecond})
	put(t, l, 1, 1)
	open := begun(t, l, putting(l, capture(1, 2)))
	_, _, err := l.Fence(t.Context(), fenceOf(1)) // waits until the server gave the other up
	must(t, err)
	err = open.commit(t.Context())
	refused(t, classify("commit", err), blobd.ErrUnavailable)
	open.finish()
	erasedWhole(t, l, 1, refOf(1))
	v, err := l.Lookup(t.Context(), tagOf(1), []blobd.Ref{refOf(2)})
	must(t, err)
	if v.Blobs[0] != nil {
		t.Fatalf("half a change: %+v", v.Blobs[0])
	}
}

func putAgainstCollect(t *testing.T, b *bench) {
	l := b.withTenant(t, Options{})
	put(t, l, 1, 1)
	open := begun(t, l, func(_ context.Context, x *tx) error {
		insertBare(x, nil, tagOf(1), []blobd.Ref{refOf(2)}, ledger.BlobCollected, noon)
		return nil
	})
	answer := committing(t, l, capture(1, 2))
	awaitWaiting(t, l.options.URL, 1)
	open.end(t)
	refused(t, answer(), blobd.ErrConflict)
}

func lateEvidence(t *testing.T, b *bench) {
	l := b.withTenant(t, Options{})
	before, err := l.Entries(t.Context(), 0, 100)
	must(t, err)
	open := begun(t, l, func(_ context.Context, x *tx) error { x.append(entry(ledger.EntryRead)); return nil })
	must(t, l.Append(t.Context(), entry(ledger.EntryRead)))
	es, err := l.Entries(t.Context(), 0, 100)
	must(t, err)
	if len(es) != len(before) {
		t.Fatalf("%d entries while an earlier one is on its way, %d before", len(es), len(before))
	}
	// The sequencer gives indexes to what is committed, and the late one follows.
	waiting, err := l.Unsequenced(t.Context(), 0, 100)
	must(t, err)
	lease, err := l.ClaimSequencer(t.Context(), "sequencer", noon, noon.Add(time.Hour))
	must(t, err)
	step := ledger.LogAppend{Checkpoint: []byte("note")}
	for _, e := range waiting {
		step.Entries = append(step.Entries, ledger.NewLogEntry{ID: e.ID, Hashes: [][32]byte{hash("node", int(e.ID))}})
	}
	must(t, l.AppendToLog(t.Context(), lease, step))
	open.end(t)
	late, err := l.Unsequenced(t.Context(), 0, 100)
	must(t, err)
	es, err = l.Entries(t.Context(), 0, 100)
	must(t, err)
	if len(late) != 1 || len(es) != len(before)+2 || late[0].ID != es[len(es)-2].ID {
		t.Fatalf("late %+v of %+v", late, es)
	}
}

func claimBeside(t *testing.T, b *bench) {
	l := b.withTenant(t, Options{})
	for x := range 2 {
		_, _, err := l.Fence(t.Context(), fenceOf(x))
		must(t, err)
	}
	first, err := l.Claim(t.Context(), "one", noon, noon.Add(time.Hour))
	must(t, err)
	open := begun(t, l, func(ctx context.Context, x *tx) error { _, err := held(ctx, x, first.Lease); return err })
	second, err := l.Claim(t.Context(), "two", noon.Add(2*time.Hour), noon.Add(3*time.Hour))
	must(t, err)
	if second.Erasure.ID == first.Erasure.ID {
		t.Fatal("a job in hand was claimed")
	}
	open.finish()
}

// deadlock lets two transactions hold one row each and ask for the other's: the
// server undoes one, which is done again.
func deadlock(t *testing.T, b *bench) {
	l := b.withTenant(t, Options{})
	put(t, l, 1, 1)
	put(t, l, 2, 2)
	lock := func(first, second int, met chan<- bool, start <-chan bool) func() error {
		return later(func() error {
			return l.write(t.Context(), "lock", func(ctx context.Context, x *tx) error {
				a, c := tagOf(first), tagOf(second)
				x.exec("SELECT 1 FROM executions WHERE tag = $1 FOR UPDATE", a[:])
				if err := x.flush(ctx); err != nil {
					return err
				}
				select {
				case met <- true:
					<-start
				default: // the second try
				}
				x.exec("UPDATE executions SET bytes = bytes + 1 WHERE tag = $1", c[:])
				return nil
			})
		})
	}
	met, start := make(chan bool, 2), make(chan bool)
	one, two := lock(1, 2, met, start), lock(2, 1, met, start)
	<-met
	<-met
	met <- true // full, so that nobody waits again
	met <- true
	close(start)
	must(t, one())
	must(t, two())
	if !strings.Contains(b.server.Log(), "deadlock detected") {
		t.Error("the server saw no deadlock")
	}
	for x := range 2 {
		s, err := l.Execution(t.Context(), acme, tagOf(x+1))
		must(t, err)
		if s.Bytes != 101 {
			t.Fatalf("%d bytes", s.Bytes)
		}
	}
}

func serialization(t *testing.T, b *bench) {
	l := b.withTenant(t, Options{})
	failure := "DO $$ BEGIN RAISE EXCEPTION 'could not serialize' USING ERRCODE = '40001'; END $$"
	did := 0
	must(t, l.write(t.Context(), "write", func(_ context.Context, x *tx) error {
		if did++; did < 3 {
			x.exec(failure)
		}
		return nil
	}))
	if did != 3 {
		t.Fatalf("done %d times", did)
	}
	did = 0
	err := l.write(t.Context(), "write", func(_ context.Context, x *tx) error {
		did++
		x.exec(failure)
		return nil
	})
	refused(t, err, blobd.ErrUnavailable)
	if did != tries {
		t.Fatalf("done %d times, %d are allowed", did, tries)
	}
}
