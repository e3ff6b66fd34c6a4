package groupcommit_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/blobd/blobd/internal/groupcommit"
)

func TestALoneCallerRunsAtOnce(t *testing.T) {
	var got [][]int
	g := groupcommit.New(groupcommit.Limits{}, nil, func(items []int) { got = append(got, slices.Clone(items)) })
	for i := range 3 {
		if err := g.Do(t.Context(), i); err != nil {
			t.Fatal(err)
		}
	}
	if len(got) != 3 || got[2][0] != 2 {
		t.Fatalf("runs: %v", got)
	}
}

// gate holds the first run until it is opened, so that others queue behind it.
type gate struct {
	entered, open chan struct{}
	once          sync.Once
	mu            sync.Mutex
	runs          [][]int
}

func newGate() *gate { return &gate{entered: make(chan struct{}), open: make(chan struct{})} }

func (g *gate) run(items []int) {
	g.once.Do(func() {
		close(g.entered)
		<-g.open
	})
	g.mu.Lock()
	defer g.mu.Unlock()
	g.runs = append(g.runs, slices.Clone(items))
}

// queue starts a Do for each item, each queued before the next is started.
func queue(t *testing.T, g *groupcommit.Group[int], ctx context.Context, items ...int) *sync.WaitGroup {
	t.Helper()
	var wg sync.WaitGroup
	for _, i := range items {
		before := g.Queued()
		wg.Go(func() { _ = g.Do(ctx, i) })
		for g.Queued() == before {
			// Queued changes under the group's own lock; no time is assumed.
		}
	}
	return &wg
}

func TestThoseWhoQueuedShareOneRunInOrder(t *testing.T) {
	gt := newGate()
	g := groupcommit.New(groupcommit.Limits{}, nil, gt.run)
	first := make(chan error)
	go func() { first <- g.Do(t.Context(), 0) }()
	<-gt.entered
	wg := queue(t, g, t.Context(), 1, 2, 3)
	close(gt.open)
	wg.Wait()
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	if want := [][]int{{0}, {1, 2, 3}}; !slices.EqualFunc(gt.runs, want, slices.Equal) {
		t.Fatalf("runs %v, want %v", gt.runs, want)
	}
}

func TestLimitsBoundARun(t *testing.T) {
	for name, tc := range map[string]struct {
		limits groupcommit.Limits
		want   [][]int
	}{
		"items":                                {groupcommit.Limits{Items: 2}, [][]int{{0}, {5, 1}, {1, 9}}},
		"weight, and one too heavy goes alone": {groupcommit.Limits{Weight: 6}, [][]int{{0}, {5, 1}, {1}, {9}}},
	} {
		t.Run(name, func(t *testing.T) {
			gt := newGate()
			g := groupcommit.New(tc.limits, func(i int) int { return i }, gt.run)
			first := make(chan error)
			go func() { first <- g.Do(t.Context(), 0) }()
			<-gt.entered
			wg := queue(t, g, t.Context(), 5, 1, 1, 9)
			close(gt.open)
			wg.Wait()
			<-first
			if !slices.EqualFunc(gt.runs, tc.want, slices.Equal) {
				t.Fatalf("runs %v, want %v", gt.runs, tc.want)
			}
		})
	}
}

func TestACallerThatLeavesTheQueueIsNotRun(t *testing.T) {
	gt := newGate()
	g := groupcommit.New(groupcommit.Limits{}, nil, gt.run)
	first := make(chan error)
	go func() { first <- g.Do(t.Context(), 0) }()
	<-gt.entered
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error)
	go func() { left <- g.Do(ctx, 1) }()
	for g.Queued() == 0 {
	}
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	close(gt.open)
	<-first
	if err := g.Do(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	if want := [][]int{{0}, {2}}; !slices.EqualFunc(gt.runs, want, slices.Equal) {
		t.Fatalf("runs %v, want %v", gt.runs, want)
	}
	if err := g.Do(ctx, 3); !errors.Is(err, context.Canceled) {
		t.Fatalf("an ended context: %v", err)
	}
}

func TestAPanicStrandsNobody(t *testing.T) {
	gt := newGate()
	g := groupcommit.New(groupcommit.Limits{}, nil, func(items []int) {
		gt.run(items)
		if items[0] == 1 {
			panic("boom")
		}
	})
	first := make(chan error)
	go func() { first <- g.Do(t.Context(), 0) }()
	<-gt.entered
	results := make(chan error, 2)
	leads := make(chan any)
	go func() {
		defer func() { leads <- recover() }()
		_ = g.Do(t.Context(), 1)
	}()
	for g.Queued() != 1 {
	}
	go func() { results <- g.Do(t.Context(), 2) }()
	for g.Queued() != 2 {
	}
	close(gt.open)
	<-first
	if p := <-leads; p != "boom" {
		t.Fatalf("the leader got %v", p)
	}
	if err := <-results; !errors.Is(err, groupcommit.ErrPanicked) {
		t.Fatalf("the follower got %v", err)
	}
	if err := g.Do(t.Context(), 3); err != nil {
		t.Fatalf("after a panic: %v", err)
	}
}

func TestEveryItemIsRunOnceUnderLoad(t *testing.T) {
	const callers, each = 32, 200
	var mu sync.Mutex
	seen := make(map[int]int)
	running := 0
	g := groupcommit.New(groupcommit.Limits{Items: 7}, nil, func(items []int) {
		mu.Lock()
		running++
		if running != 1 {
			t.Error("two runs at a time")
		}
		mu.Unlock()
		mu.Lock()
		defer mu.Unlock()
		running--
		for _, i := range items {
			seen[i]++
		}
	})
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for i := range each {
				ctx, cancel := context.WithCancel(t.Context())
				if i%5 == 0 {
					go cancel()
				}
				item := c*each + i
				err := g.Do(ctx, item)
				mu.Lock()
				if err == nil && seen[item] != 1 {
					t.Errorf("item %d was run %d times", item, seen[item])
				}
				mu.Unlock()
				cancel()
			}
		})
	}
	wg.Wait()
	for item, n := range seen {
		if n != 1 {
			t.Errorf("item %d was run %d times", item, n)
		}
	}
}

func BenchmarkAlone(b *testing.B) {
	g := groupcommit.New(groupcommit.Limits{}, nil, func([]int) {})
	b.ReportAllocs()
	for b.Loop() {
		_ = g.Do(b.Context(), 1)
	}
}
