package retention_test

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
	backendfaulty "github.com/blobd/blobd/backends/faulty"
	backendmem "github.com/blobd/blobd/backends/mem"
	"github.com/blobd/blobd/evidence"
	"github.com/blobd/blobd/keys"
	keysmem "github.com/blobd/blobd/keys/mem"
	"github.com/blobd/blobd/ledger"
	ledgerfaulty "github.com/blobd/blobd/ledger/faulty"
	ledgermem "github.com/blobd/blobd/ledger/mem"
	"github.com/blobd/blobd/retention"
	"github.com/blobd/blobd/store"
)

const (
	tenant = "acme"
	margin = 30 * time.Second
)

// rig is a store over memory parts, with the bubble's clock.
type rig struct {
	ledger  *ledgerfaulty.Ledger
	objects *backendfaulty.Store
	journal *evidence.Journal
	store   *store.Store
}

func newRig(t *testing.T, now func() time.Time) *rig {
	t.Helper()
	r := &rig{ledger: ledgerfaulty.New(ledgermem.New(now)), objects: backendfaulty.New(backendmem.New(now))}
	r.journal = evidence.NewJournal(r.ledger, r.objects)
	r.store = store.New(store.Config{
		Ledger: r.ledger, Objects: r.objects, Journal: r.journal, Now: now, Random: rand.Reader,
		Keys: keys.NewCore(keysmem.New(nil), keys.Options{Now: now}), PutMargin: margin, Log: slog.New(slog.DiscardHandler),
	})
	if err := r.store.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := r.store.CreateTenant(t.Context(), tenant, ""); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) erasures(owner string, now func() time.Time) *retention.Erasures {
	return retention.NewErasures(r.store, r.ledger, owner, now, slog.New(slog.DiscardHandler))
}

func (r *rig) put(t *testing.T, execution string) {
	t.Helper()
	_, err := r.store.Put(t.Context(), store.PutRequest{
		Attempt: store.Attempt{Tenant: tenant, ExecutionID: execution},
		Content: store.Content{Class: blobd.DefaultClass, Kind: blobd.KindText, ContentType: "text/plain", Text: blobd.TextOf([]byte("a text"))},
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (r *rig) erase(t *testing.T, execution string) string {
	t.Helper()
	e, err := r.store.Erase(t.Context(), store.EraseRequest{Tenant: tenant, ExecutionID: execution})
	if err != nil {
		t.Fatal(err)
	}
	return e.ID
}

func (r *rig) erasure(t *testing.T, id string) ledger.Erasure {
	t.Helper()
	e, err := r.ledger.Erasure(t.Context(), tenant, id)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// run starts a loop and returns what ends it and waits for it.
func run(loop func(context.Context) error) (stop func() error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	done := make(chan error, 1)
	go func() { done <- loop(ctx) }()
	return func() error {
		cancel(errStop)
		return <-done
	}
}

var errStop = errors.New("stopped by the test")

// pass lets the bubble's time pass; no real time does.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestErasuresRunByThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, time.Now)
		r.put(t, "run")
		loop := r.erasures("node", time.Now)
		stop := run(loop.Run)
		synctest.Wait()
		id := r.erase(t, "run")
		loop.Wake()
		synctest.Wait() // no time has passed: the wake did it
		if p := r.erasure(t, id).Progress; !p.Swept || p.ObjectsDeleted != 1 {
			t.Errorf("after the wake: %+v", p)
		}
		if s := r.erasure(t, id).State; s != ledger.ErasureRunning {
			t.Errorf("%s before the put margin is over", s)
		}
		pass(margin + 2*retention.PollInterval)
		e := r.erasure(t, id)
		if e.State != ledger.ErasureErased || e.Progress.KeysDestroyed != 1 || e.ErasedAt.Before(e.FencedAt.Add(margin)) {
			t.Errorf("%s at %v, fenced at %v: %+v", e.State, e.ErasedAt, e.FencedAt, e.Progress)
		}
		if err := stop(); !errors.Is(err, errStop) {
			t.Errorf("the loop ended with %v", err)
		}
	})
}

// TestAJobIsNeverDiscarded: however often it fails, it is tried again, ever
// later, and ends once it can.
func TestAJobIsNeverDiscarded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, time.Now)
		r.put(t, "run")
		id := r.erase(t, "run")
		r.objects.Fail("erase", 0, backendfaulty.Before, blobd.ErrDenied)
		stop := run(r.erasures("node", time.Now).Run)
		pass(24 * time.Hour)
		e := r.erasure(t, id)
		if e.State != ledger.ErasureRunning || e.Progress.LastError != blobd.ErrDenied.Error() {
			t.Errorf("%s, last error %q", e.State, e.Progress.LastError)
		}
		if e.Attempts < 100 || e.Attempts > 1000 {
			t.Errorf("%d attempts in a day: the back-off is off", e.Attempts)
		}
		r.objects.Heal()
		pass(time.Hour)
		if e := r.erasure(t, id); e.State != ledger.ErasureErased || e.Progress.LastError != "" {
			t.Errorf("%s, last error %q", e.State, e.Progress.LastError)
		}
		_ = stop()
	})
}

// TestOneBadJobDoesNotStopTheOthers, not even one that panics.
func TestOneBadJobDoesNotStopTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, time.Now)
		var ids []string
		for _, execution := range []string{"a", "b", "c"} {
			r.put(t, execution)
			ids = append(ids, r.erase(t, execution))
		}
		var once sync.Once
		r.objects.OnCall(func(op, _ string) {
			if op == "erase" {
				once.Do(func() { panic("a fault of this job") })
			}
		})
		stop := run(r.erasures("node", time.Now).Run)
		pass(time.Hour)
		for _, id := range ids {
			if e := r.erasure(t, id); e.State != ledger.ErasureErased {
				t.Errorf("%s: %s", id, e.State)
			}
		}
		_ = stop()
	})
}

// TestALedgerThatIsDownIsWaitedFor.
func TestALedgerThatIsDownIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, time.Now)
		r.put(t, "run")
		id := r.erase(t, "run")
		for nth := range 10 {
			r.ledger.Fail("claim", nth+1, ledgerfaulty.Before, blobd.ErrUnavailable)
		}
		stop := run(r.erasures("node", time.Now).Run)
		pass(time.Hour)
		if e := r.erasure(t, id); e.State != ledger.ErasureErased {
			t.Errorf("%s", e.State)
		}
		_ = stop()
	})
}

// TestALateWorkerChangesNothing: a worker whose lease ran out while it was held
// up loses the job to another, and its own writes are refused.
func TestALateWorkerChangesNothing(t *testing.T) {
	var mu sync.Mutex
	clock := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	now := func() time.Time { mu.Lock(); defer mu.Unlock(); return clock }
	advance := func(d time.Duration) { mu.Lock(); defer mu.Unlock(); clock = clock.Add(d) }

	r := newRig(t, now)
	r.put(t, "run")
	id := r.erase(t, "run")
	late, other := r.erasures("late", now), r.erasures("other", now)
	var held atomic.Bool
	r.objects.OnCall(func(op, _ string) {
		if op != "erase" || held.Swap(true) {
			return
		}
		advance(2 * retention.LeaseTime)
		if worked, err := other.RunOne(t.Context()); !worked || err != nil {
			t.Errorf("the other worker: worked %v, %v", worked, err)
		}
	})
	if worked, err := late.RunOne(t.Context()); !worked || err != nil {
		t.Errorf("the late worker: worked %v, %v", worked, err)
	}
	e := r.erasure(t, id)
	if e.State != ledger.ErasureErased || e.Attempts != 2 {
		t.Errorf("%s after %d attempts", e.State, e.Attempts)
	}
	entries, err := r.ledger.Entries(t.Context(), 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	steps := 0
	for _, entry := range entries {
		if entry.Kind == ledger.EntryErasure {
			steps++
		}
	}
	if steps != 2 { // fenced, erased: the other worker did both passes in one
		t.Errorf("%d evidence entries of the erasure, want 2", steps)
	}
}

// TestAJobIsGivenBackAtTheEnd: a job that the end of the process cuts short is
// due at once for the next one, which need not wait for the lease to run out.
func TestAJobIsGivenBackAtTheEnd(t *testing.T) {
	r := newRig(t, time.Now)
	r.put(t, "run")
	id := r.erase(t, "run")
	ctx, cancel := context.WithCancel(t.Context())
	r.objects.OnCall(func(op, _ string) {
		if op == "erase" {
			cancel()
		}
	})
	if worked, err := r.erasures("ending", time.Now).RunOne(ctx); !worked || err != nil {
		t.Errorf("the ending process: worked %v, %v", worked, err)
	}
	if worked, err := r.erasures("next", time.Now).RunOne(t.Context()); !worked || err != nil {
		t.Errorf("the next process: worked %v, %v", worked, err)
	}
	if p := r.erasure(t, id).Progress; !p.Swept {
		t.Errorf("progress %+v", p)
	}
}

// TestMarksFollowTheWrites: a mark every few seconds of writes, a last one at
// the end, and none when nothing was written.
func TestMarksFollowTheWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, time.Now)
		loop := retention.NewMarks(r.store, r.journal, time.Now, slog.New(slog.DiscardHandler))
		stop := run(loop.Run)
		head := func() ledger.Record {
			h, err := r.ledger.Head(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return h
		}
		r.put(t, "run")
		pass(retention.MarkInterval)
		first := head()
		if first.Kind != ledger.RecordMark || first.Writes != 1 {
			t.Errorf("after a write: %+v", first)
		}
		pass(10 * retention.MarkInterval)
		if h := head(); h.Seq != first.Seq {
			t.Errorf("a mark %+v without a write", h)
		}
		r.put(t, "another run")
		_ = stop()
		if h := head(); h.Seq == first.Seq || h.Writes != 2 {
			t.Errorf("at the end: %+v", h)
		}
		objects, err := r.objects.List(t.Context(), backends.JournalPrefix, "", 10)
		if err != nil || len(objects) != 1 {
			t.Errorf("%d marks in the store, %v", len(objects), err)
		}
	})
}

// TestMarksPublishWhatAnOutageLeft.
func TestMarksPublishWhatAnOutageLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, time.Now)
		r.put(t, "run")
		r.objects.Fail("put", 1, backendfaulty.Before, blobd.ErrUnavailable)
		if _, err := r.store.Erase(t.Context(), store.EraseRequest{Tenant: tenant, ExecutionID: "run"}); !errors.Is(err, blobd.ErrUnavailable) {
			t.Fatalf("erase: %v, want unavailable", err)
		}
		stop := run(retention.NewMarks(r.store, r.journal, time.Now, slog.New(slog.DiscardHandler)).Run)
		pass(2 * retention.MarkInterval)
		if left, err := r.ledger.Unpublished(t.Context(), 10); err != nil || len(left) != 0 {
			t.Errorf("%d records are unpublished, %v", len(left), err)
		}
		_ = stop()
	})
}

// TestLoopsStartAndStop: each loop survives being started and stopped, also at
// once, and leaves nothing running.
func TestLoopsStartAndStop(t *testing.T) {
	defer goleak.VerifyNone(t)
	r := newRig(t, time.Now)
	erasures := r.erasures("node", time.Now)
	marks := retention.NewMarks(r.store, r.journal, time.Now, slog.New(slog.DiscardHandler))
	for range 50 {
		stops := []func() error{run(erasures.Run), run(marks.Run), run(erasures.Run)}
		erasures.Wake()
		for _, stop := range stops {
			if err := stop(); !errors.Is(err, errStop) {
				t.Fatalf("a loop ended with %v", err)
			}
		}
	}
}
