package groupcommit_test

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/blobd/blobd/internal/groupcommit"
)

const window = time.Millisecond

// rounds runs callers that come again and again, each after its own pause, and
// returns the sizes of the batches.
func rounds(t *testing.T, n int, pauses ...time.Duration) (sizes []int) {
	t.Helper()
	g := groupcommit.New(groupcommit.Limits{Gather: window}, nil, func(items []int) {
		time.Sleep(10 * time.Millisecond) // in the bubble's time
		sizes = append(sizes, len(items))
	})
	var wg sync.WaitGroup
	for i, pause := range pauses {
		wg.Go(func() {
			for range n {
				time.Sleep(pause)
				if err := g.Do(t.Context(), i); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	return sizes
}

func TestALeaderWaitsForTheCallersOfTheLastBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// The second and third come while the first is served. From then on each batch
		// begins with one who waited alone and is joined within the window; without
		// the wait every other one would go alone.
		sizes := rounds(t, 4, 100*time.Microsecond, 200*time.Microsecond, 300*time.Microsecond)
		if want := []int{1, 2, 2, 2, 2, 2, 1}; !slices.Equal(sizes, want) {
			t.Errorf("batches of %v, want %v", sizes, want)
		}
	})
}

func TestALeaderWaitsNoLongerThanTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var starts []time.Duration
		begin := time.Now()
		g := groupcommit.New(groupcommit.Limits{Gather: window}, nil, func(items []int) {
			starts = append(starts, time.Since(begin))
			if len(starts) == 1 {
				time.Sleep(10 * time.Millisecond)
			}
		})
		var wg sync.WaitGroup
		wg.Go(func() { _ = g.Do(t.Context(), 0) })
		synctest.Wait()
		for i := range 3 { // they queue behind the first, and share the second run
			wg.Go(func() { _ = g.Do(t.Context(), i) })
		}
		wg.Wait()
		for range 2 { // a lone caller after a batch of three waits once, and then never
			_ = g.Do(t.Context(), 9)
		}
		want := []time.Duration{0, 10 * time.Millisecond, 10*time.Millisecond + window, 10*time.Millisecond + window}
		if !slices.Equal(starts, want) {
			t.Errorf("runs began at %v, want %v", starts, want)
		}
	})
}

func TestALeaderWaitsForNobodyWhoLeftLongAgo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sizes []int
		g := groupcommit.New(groupcommit.Limits{Gather: window}, nil, func(items []int) {
			sizes = append(sizes, len(items))
			time.Sleep(10 * time.Millisecond)
		})
		var wg sync.WaitGroup
		for i := range 3 { // one goes alone, two share the next run
			wg.Go(func() { _ = g.Do(t.Context(), i) })
			synctest.Wait()
		}
		wg.Wait()
		time.Sleep(window + 1)
		begin := time.Now()
		_ = g.Do(t.Context(), 3)
		if took := time.Since(begin); took != 10*time.Millisecond {
			t.Errorf("a caller long after a batch of two took %v, want the run alone: %v", took, 10*time.Millisecond)
		}
		if want := []int{1, 2, 1}; !slices.Equal(sizes, want) {
			t.Errorf("batches of %v, want %v", sizes, want)
		}
	})
}
