package keys

import (
	"context"
	"encoding/hex"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/blobd/blobd"
)

// The expected hashes come from another implementation of the definition.
func TestBindingKnownAnswers(t *testing.T) {
	var tag blobd.ExecutionTag
	var id ID
	for i := range tag {
		tag[i], id[i] = byte(i), byte(16+i)
	}
	execution := executionBinding("acme", tag, id)
	if got := hex.EncodeToString(execution[:]); got != "bc63c06ea728f00ffffe9688a03729f96b138a1586b702ae7898109e9c08aa35" {
		t.Errorf("execution: %s", got)
	}
	index := indexBinding("acme")
	if got := hex.EncodeToString(index[:]); got != "e8df1312fb9cf520e41fa1998b3aa4538eefaf3432d617258365398b2c77d097" {
		t.Errorf("index: %s", got)
	}
}

func TestBindingOfOtherPartsDiffers(t *testing.T) {
	seen := make(map[[32]byte]int)
	for i, parts := range [][]string{{"ab", "c"}, {"a", "bc"}, {"abc"}, {"", "abc"}, {"abc", ""}, {}, {""}, {"", ""}} {
		var in [][]byte
		for _, p := range parts {
			in = append(in, []byte(p))
		}
		b := binding(in...)
		if before, twice := seen[b]; twice {
			t.Errorf("lists %d and %d are bound alike", before, i)
		}
		seen[b] = i
	}
}

const ttl = time.Minute

type testClock struct{ at time.Time }

func (c *testClock) now() time.Time { return c.at }

func newTestCache(size int) (*cache[string, int, [4]byte], *testClock) {
	clock := &testClock{time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	return newCache[string, int, [4]byte](size, ttl, clock.now), clock
}

// inside returns the cache's own memory of a secret.
func inside(t *testing.T, c *cache[string, int, [4]byte], g string, m int) *[4]byte {
	t.Helper()
	found, ok := c.groups.Peek(g)
	if !ok {
		t.Fatalf("no group %q", g)
	}
	for _, h := range found.held {
		if h.member == m {
			return h.secret
		}
	}
	t.Fatalf("no member %d of %q", m, g)
	return nil
}

var secret, zero = [4]byte{1, 2, 3, 4}, [4]byte{}

// TestWhatLeavesTheCacheIsWiped checks each way out: the cache's memory is
// zero, and the copy that a caller took before is whole.
func TestWhatLeavesTheCacheIsWiped(t *testing.T) {
	ways := map[string]func(c *cache[string, int, [4]byte], clock *testClock){
		"forget": func(c *cache[string, int, [4]byte], _ *testClock) { c.forget("a") },
		"eviction": func(c *cache[string, int, [4]byte], k *testClock) {
			c.add("b", 1, &secret, k.at)
			c.add("c", 1, &secret, k.at)
		},
		"replacement": func(c *cache[string, int, [4]byte], k *testClock) { c.add("a", 1, &secret, k.at) },
		"late get":    func(c *cache[string, int, [4]byte], k *testClock) { k.at = k.at.Add(ttl); c.get("a", 1) },
		"late peek":   func(c *cache[string, int, [4]byte], k *testClock) { k.at = k.at.Add(ttl); c.peek("a", 1) },
		"expiry":      func(c *cache[string, int, [4]byte], k *testClock) { k.at = k.at.Add(ttl); c.expireAll() },
		"late sibling": func(c *cache[string, int, [4]byte], k *testClock) {
			k.at = k.at.Add(ttl)
			c.add("a", 2, &secret, k.at)
		},
	}
	for name, leave := range ways {
		t.Run(name, func(t *testing.T) {
			c, clock := newTestCache(2)
			c.add("a", 1, &secret, clock.at)
			held, taken := inside(t, c, "a", 1), c.get("a", 1)
			if *held != secret || *taken != secret || held == taken {
				t.Fatal("the cache does not hold a copy of its own")
			}
			leave(c, clock)
			if *held != zero {
				t.Error("it was not wiped")
			}
			if *taken != secret {
				t.Error("the caller's copy was wiped")
			}
		})
	}
}

func TestACallerCannotReachTheCache(t *testing.T) {
	c, clock := newTestCache(2)
	given := secret
	c.add("a", 1, &given, clock.at)
	given = zero
	*c.get("a", 1) = zero
	if got := c.get("a", 1); *got != secret {
		t.Fatal("a caller changed what the cache holds")
	}
}

func TestASecretLivesForItsTTLFromWhenItWasLearnt(t *testing.T) {
	c, clock := newTestCache(2)
	learnt := clock.at
	clock.at = learnt.Add(ttl / 2)
	c.add("a", 1, &secret, learnt)
	for _, step := range []struct {
		at   time.Duration
		want bool
	}{{ttl / 2, true}, {ttl - 1, true}, {ttl, false}, {0, false}} {
		clock.at = learnt.Add(step.at)
		if got := c.get("a", 1) != nil; got != step.want {
			t.Fatalf("after %v: cached %v", step.at, got)
		}
	}
	c.add("a", 1, &secret, learnt.Add(-ttl))
	if c.get("a", 1) != nil {
		t.Fatal("a secret was cached that was too old already")
	}
}

func TestAClockSetBackDoesNotLengthenALife(t *testing.T) {
	c, clock := newTestCache(2)
	c.add("a", 1, &secret, clock.at)
	clock.at = clock.at.Add(-time.Nanosecond)
	if c.get("a", 1) != nil {
		t.Fatal("used before it was learnt")
	}
}

func TestAForgottenGroupIsNotCachedForOneTTL(t *testing.T) {
	c, clock := newTestCache(2)
	start := clock.at
	c.forget("a")
	for _, after := range []time.Duration{0, ttl - 1} {
		clock.at = start.Add(after)
		c.add("a", 1, &secret, clock.at)
		if c.get("a", 1) != nil {
			t.Fatalf("cached again after %v", after)
		}
	}
	c.add("b", 1, &secret, clock.at)
	if c.get("b", 1) == nil {
		t.Fatal("another group was forgotten too")
	}
	clock.at = start.Add(ttl)
	c.add("a", 1, &secret, clock.at)
	if c.get("a", 1) == nil {
		t.Fatal("not cached after the TTL")
	}
}

func TestTheLeastRecentlyUsedGroupIsEvicted(t *testing.T) {
	c, clock := newTestCache(2)
	c.add("a", 1, &secret, clock.at)
	c.add("b", 1, &secret, clock.at)
	c.get("a", 1)
	c.add("c", 1, &secret, clock.at)
	if c.peek("a", 1) == nil || c.peek("b", 1) != nil || c.peek("c", 1) == nil {
		t.Fatal("another than b was evicted")
	}
	want := Stats{Hits: 1, Evictions: 1, Size: 2}
	if got := c.snapshot(); got != want {
		t.Fatalf("%+v, want %+v", got, want)
	}
}

func TestAGroupHoldsSeveralMembers(t *testing.T) {
	c, clock := newTestCache(1)
	other := [4]byte{9}
	c.add("a", 1, &secret, clock.at)
	c.add("a", 2, &other, clock.at)
	if got := c.get("a", 1); got == nil || *got != secret {
		t.Fatal("member 1 is gone or another")
	}
	if got := c.get("a", 2); got == nil || *got != other {
		t.Fatal("member 2 is gone or another")
	}
	held := []*[4]byte{inside(t, c, "a", 1), inside(t, c, "a", 2)}
	c.forget("a")
	if *held[0] != zero || *held[1] != zero {
		t.Fatal("forgetting left a member")
	}
}

func TestAFlightSharesOneAnswerAndWipesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f flights[[4]byte]
		landed := secret
		release := make(chan struct{})
		calls := 0
		fn := func(context.Context) (*[4]byte, error) { calls++; <-release; return &landed, nil }
		got := make(chan *[4]byte, 3)
		for range cap(got) {
			go func() {
				v, err := f.do(t.Context(), "k", fn)
				if err != nil {
					t.Error(err)
				}
				got <- v
			}()
		}
		synctest.Wait()
		close(release)
		a, b, c := <-got, <-got, <-got
		if calls != 1 {
			t.Errorf("%d calls", calls)
		}
		if a == b || b == c || a == c || *a != secret || *b != secret || *c != secret {
			t.Error("the askers did not get copies of their own")
		}
		if landed != zero {
			t.Error("the shared answer was not wiped")
		}
	})
}

func TestAnAskerThatLeavesDisturbsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f flights[[4]byte]
		landed := secret
		release := make(chan struct{})
		fn := func(ctx context.Context) (*[4]byte, error) {
			select {
			case <-release:
				return &landed, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		first, leave := context.WithCancel(t.Context())
		left, stayed := make(chan error), make(chan error)
		go func() { _, err := f.do(first, "k", fn); left <- err }()
		synctest.Wait()
		go func() { _, err := f.do(t.Context(), "k", fn); stayed <- err }()
		synctest.Wait()
		leave()
		if err := <-left; !errors.Is(err, blobd.ErrUnavailable) || !errors.Is(err, context.Canceled) {
			t.Errorf("who left: %v", err)
		}
		close(release)
		if err := <-stayed; err != nil {
			t.Errorf("who stayed: %v", err)
		}
		if landed != zero {
			t.Error("the shared answer was not wiped")
		}
	})
}

func TestACallEndsWhenNobodyWaitsAndTheNextAskerStartsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f flights[[4]byte]
		ended, late, release := false, secret, make(chan struct{})
		ctx, leave := context.WithCancel(t.Context())
		left := make(chan error)
		go func() {
			_, err := f.do(ctx, "k", func(ctx context.Context) (*[4]byte, error) {
				<-ctx.Done()
				ended = true
				<-release
				return &late, nil // a service that answers too late
			})
			left <- err
		}()
		synctest.Wait()
		leave()
		if err := <-left; !errors.Is(err, blobd.ErrUnavailable) {
			t.Errorf("got %v", err)
		}
		synctest.Wait()
		if !ended {
			t.Error("the call goes on for nobody")
		}
		other := [4]byte{7}
		got, err := f.do(t.Context(), "k", func(context.Context) (*[4]byte, error) { v := other; return &v, nil })
		if err != nil || *got != other {
			t.Errorf("the next asker: %v", err)
		}
		close(release)
		synctest.Wait()
		if late != zero {
			t.Error("an answer for nobody was not wiped")
		}
		if len(f.running) != 0 {
			t.Error("a flight was left behind")
		}
	})
}

func TestACancelledAskerStartsNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var f flights[[4]byte]
	_, err := f.do(ctx, "k", func(context.Context) (*[4]byte, error) { t.Error("started"); return nil, nil })
	if !errors.Is(err, blobd.ErrUnavailable) {
		t.Fatalf("got %v", err)
	}
}
