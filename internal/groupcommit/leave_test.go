package groupcommit_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/blobd/blobd/internal/groupcommit"
)

func TestACallerThatLeavesARunningBatchReturnsAtOnce(t *testing.T) {
	second, open := make(chan struct{}), make(chan struct{})
	gt := newGate()
	g := groupcommit.New(groupcommit.Limits{}, nil, func(items []int) {
		gt.run(items)
		if len(items) == 2 {
			close(second)
			<-open
		}
	})
	first := make(chan error)
	go func() { first <- g.Do(t.Context(), 0) }()
	<-gt.entered
	leads := queue(t, g, t.Context(), 1)
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error)
	go func() { left <- g.Do(ctx, 2) }()
	for g.Queued() != 2 {
	}
	close(gt.open)
	<-second
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) { // the run is still held
		t.Fatalf("got %v", err)
	}
	close(open)
	leads.Wait()
	<-first
	if err := g.Do(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
}

func TestALeaderRunsItsBatchWhateverItsContextSays(t *testing.T) {
	gt := newGate()
	g := groupcommit.New(groupcommit.Limits{}, nil, gt.run)
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error)
	go func() { first <- g.Do(ctx, 0) }()
	<-gt.entered
	cancel()
	close(gt.open)
	if err := <-first; err != nil {
		t.Fatalf("its item was run, and it got %v", err)
	}
}

func TestALeaderReturnsThoughOthersAreStillRun(t *testing.T) {
	gt := newGate()
	later := make(chan struct{})
	g := groupcommit.New(groupcommit.Limits{Items: 1}, nil, func(items []int) {
		gt.run(items)
		if items[0] != 0 {
			<-later
		}
	})
	first := make(chan error)
	go func() { first <- g.Do(t.Context(), 0) }()
	<-gt.entered
	wg := queue(t, g, t.Context(), 1, 2, 3)
	close(gt.open)
	if err := <-first; err != nil { // before the others' runs may end
		t.Fatal(err)
	}
	close(later)
	wg.Wait()
	if len(gt.runs) != 4 {
		t.Fatalf("runs %v", gt.runs)
	}
}

// TestALeadershipIsNeverLost has callers leave at the very moment at which they
// are told to lead: if one took the leadership along, the others would wait for
// ever.
func TestALeadershipIsNeverLost(t *testing.T) {
	g := groupcommit.New(groupcommit.Limits{Items: 1}, nil, func([]int) {})
	var wg sync.WaitGroup
	for c := range 16 {
		wg.Go(func() {
			for i := range 500 {
				ctx, cancel := context.WithCancel(t.Context())
				if (c+i)%2 == 0 {
					go cancel()
				}
				_ = g.Do(ctx, i)
				cancel()
			}
		})
	}
	wg.Wait()
	if g.Queued() != 0 {
		t.Fatalf("%d still queued", g.Queued())
	}
	if err := g.Do(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
}
