package keys_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/keys"
)

// Keys are made outside the bubbles of this file: with the FIPS module on, the
// random source takes its entropy from the clock, which stands still inside.

func TestOneUnwrapForAHundredMisses(t *testing.T) {
	f := setUp(t, keys.Options{})
	k, w := f.newExecution(acme, tagA)
	synctest.Test(t, func(t *testing.T) {
		release, calls := make(chan struct{}), 0
		f.ring.OnCall(func(string) { calls++; <-release })
		got := make(chan keys.ExecutionKeys, 100)
		for range cap(got) {
			go func() {
				mine, err := f.core.Execution(t.Context(), acme, tagA, k.ID, w)
				if err != nil {
					t.Error(err)
				}
				got <- mine
			}()
		}
		synctest.Wait()
		close(release)
		for range cap(got) {
			mine := <-got
			if !same(mine, k) {
				t.Fatal("another key, or one that somebody wiped")
			}
			mine.Wipe()
		}
		if calls != 1 {
			t.Errorf("%d calls, want 1", calls)
		}
		if want := (keys.Stats{Misses: 100, Size: 1}); f.core.Stats() != want {
			t.Errorf("%+v, want %+v", f.core.Stats(), want)
		}
	})
}

// hookContext runs hook when it is first asked whether it has ended.
type hookContext struct {
	context.Context
	hook func()
}

func (c *hookContext) Err() error {
	if hook := c.hook; hook != nil {
		c.hook = nil
		hook()
	}
	return c.Context.Err()
}

// TestAMissThatSomebodyFilledMeanwhileAsksNobody lets another caller's unwrap
// run from start to end between the look into the cache and the flight.
func TestAMissThatSomebodyFilledMeanwhileAsksNobody(t *testing.T) {
	f := setUp(t, keys.Options{})
	k, w := f.newExecution(acme, tagA)
	ctx := &hookContext{Context: t.Context()}
	ctx.hook = func() {
		_, err := f.core.Execution(t.Context(), acme, tagA, k.ID, w)
		f.must(err)
	}
	got, err := f.core.Execution(ctx, acme, tagA, k.ID, w)
	f.must(err)
	if !same(got, k) {
		t.Fatal("another key")
	}
	if f.ops["unwrap"] != 1 {
		t.Fatalf("%d unwraps, want 1", f.ops["unwrap"])
	}
}

func TestADamagedRowDoesNotSpoilAGoodOne(t *testing.T) {
	f := setUp(t, keys.Options{})
	k, good := f.newExecution(acme, tagA)
	_, bad := f.newExecution(acme, tagB)
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		f.ring.OnCall(func(string) { <-release })
		results := map[string]chan error{"bad": make(chan error, 1), "good": make(chan error, 1)}
		for name, w := range map[string]keys.Wrapped{"bad": bad, "good": good} {
			go func() {
				_, err := f.core.Execution(t.Context(), acme, tagA, k.ID, w)
				results[name] <- err
			}()
		}
		synctest.Wait()
		close(release)
		if err := <-results["good"]; err != nil {
			t.Errorf("good: %v", err)
		}
		<-results["bad"]
	})
}

func TestForgetBeatsAnUnwrapUnderWay(t *testing.T) {
	f := setUp(t, keys.Options{})
	k, w := f.newExecution(acme, tagA)
	f.core.Adopt(acme, tagA, k)
	f.core.Forget(tagA)
	if _, cached := f.core.Cached(tagA, k.ID); cached {
		t.Fatal("cached after Forget")
	}
	f.ring.OnCall(func(string) { f.core.Forget(tagA) })
	got, err := f.core.Execution(t.Context(), acme, tagA, k.ID, w)
	f.must(err)
	if !same(got, k) {
		t.Fatal("the caller's key was wiped")
	}
	f.core.Adopt(acme, tagA, k)
	if _, cached := f.core.Cached(tagA, k.ID); cached {
		t.Fatal("a forgotten execution's key was cached again")
	}
}

// TestNoKeyChangesUnderAUser uses keys while they are forgotten, evicted and
// expired from under it: each must stay what it is. The race detector watches.
func TestNoKeyChangesUnderAUser(t *testing.T) {
	var mu sync.Mutex
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	f := setUp(t, keys.Options{CacheTTL: 50, CacheSize: 2, Now: func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(1)
		return now
	}})
	type one struct {
		tag blobd.ExecutionTag
		k   keys.ExecutionKeys
		w   keys.Wrapped
	}
	var all []one
	for i := range 4 {
		tag := blobd.ExecutionTag{byte(i)}
		k, w := f.newExecution(acme, tag)
		all = append(all, one{tag, k, w})
	}
	var users sync.WaitGroup
	for u := range 8 {
		users.Go(func() {
			for i := range 300 {
				e := all[(u+i)%len(all)]
				got, err := f.core.Execution(t.Context(), acme, e.tag, e.k.ID, e.w)
				if err != nil {
					t.Error(err)
					return
				}
				switch (u + i) % 5 {
				case 0:
					f.core.Forget(e.tag)
				case 1:
					f.core.Adopt(acme, e.tag, got)
				}
				if !same(got, e.k) {
					t.Error("a key changed under its user")
					return
				}
				got.Wipe()
			}
		})
	}
	users.Wait()
}

func TestRunWipesWhatIsPastItsTime(t *testing.T) {
	f := setUp(t, keys.Options{CacheTTL: time.Minute, Now: time.Now})
	k, _ := f.newExecution(acme, tagA)
	synctest.Test(t, func(t *testing.T) {
		f.core.Adopt(acme, tagA, k)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- f.core.Run(ctx) }()
		time.Sleep(time.Minute) // the bubble's clock: no time passes outside
		synctest.Wait()
		if size := f.core.Stats().Size; size != 0 {
			t.Errorf("%d executions held", size)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
