package ledger_test

import (
	"testing"
	"time"

	"github.com/blobd/blobd/ledger"
)

// watched is a deployment of one ledger, whose clock a test moves, and a process that
// watches it.
type watched struct {
	now     time.Time     // by the ledger's clock
	elapsed time.Duration // by the process's own
	note    ledger.ClockNote
	watch   *ledger.Watch
	bound   time.Duration
	gap     time.Duration
}

const (
	hour = time.Hour
	day  = 24 * time.Hour
)

func newWatched() *watched {
	w := &watched{now: noon, bound: hour, gap: 7 * day}
	w.restart()
	w.beat()
	return w
}

func (w *watched) restart() {
	w.elapsed = 0
	w.watch = ledger.NewWatch(w.bound, w.gap, func() time.Duration { return w.elapsed })
}

// beat is what the store does with a note.
func (w *watched) beat() {
	w.note.Now = w.now
	w.note = w.watch.Beat(w.note)
	w.note.Version++
}

// pass lets time pass.
func (w *watched) pass(d time.Duration) { w.now, w.elapsed = w.now.Add(d), w.elapsed+d }

// jump moves the ledger's clock alone.
func (w *watched) jump(d time.Duration) { w.now = w.now.Add(d) }

func (w *watched) suspect() bool { return !w.watch.Judge(w.now).IsZero() }

func TestWatch(t *testing.T) {
	for name, c := range map[string]struct {
		steps   func(w *watched)
		suspect bool
	}{
		"nothing happens":       {func(w *watched) { w.pass(30 * day) }, false},
		"a step at the bound":   {func(w *watched) { w.jump(hour) }, false},
		"one past it":           {func(w *watched) { w.jump(hour + 1) }, true},
		"a step back at it":     {func(w *watched) { w.jump(-hour) }, false},
		"one back past it":      {func(w *watched) { w.jump(-hour - 1) }, true},
		"a jump, long after":    {func(w *watched) { w.pass(30 * day); w.jump(2 * hour) }, true},
		"a jump, and a beat":    {func(w *watched) { w.jump(2 * hour); w.beat() }, true},
		"a jump stays one":      {func(w *watched) { w.jump(2 * hour); w.beat(); w.pass(30 * day); w.beat() }, true},
		"a jump back stays one": {func(w *watched) { w.jump(-2 * hour); w.beat(); w.pass(30 * day); w.beat() }, true},
		"small steps, each seen": {func(w *watched) {
			for range 100 {
				w.jump(time.Minute)
				w.pass(10 * time.Second)
				w.beat()
			}
		}, false},
		"the opposite jump":      {func(w *watched) { w.jump(2 * day); w.beat(); w.pass(hour); w.jump(-2 * day) }, false},
		"the opposite jump back": {func(w *watched) { w.jump(-2 * day); w.beat(); w.pass(hour); w.jump(2 * day) }, false},
		"half of the opposite":   {func(w *watched) { w.jump(2 * day); w.beat(); w.jump(-day); w.beat() }, true},
		"the machine slept":      {func(w *watched) { w.now = w.now.Add(2 * hour) }, true},
		"a confirmation":         {func(w *watched) { w.jump(2 * day); w.beat(); w.watch.Trust(w.now); w.pass(hour) }, false},
		"a confirmation, and another jump": {func(w *watched) {
			w.jump(2 * day)
			w.beat()
			w.watch.Trust(w.now)
			w.jump(2 * day)
		}, true},

		"a stop of days":        {func(w *watched) { w.now = w.now.Add(6 * day); w.restart(); w.beat() }, false},
		"a stop past the gap":   {func(w *watched) { w.now = w.now.Add(7*day + 1); w.restart(); w.beat() }, true},
		"a start in the past":   {func(w *watched) { w.now = w.now.Add(-hour - 1); w.restart(); w.beat() }, true},
		"a start a little back": {func(w *watched) { w.now = w.now.Add(-hour); w.restart(); w.beat() }, false},
		"a start, then a jump":  {func(w *watched) { w.restart(); w.beat(); w.jump(2 * hour) }, true},
		"a start does not forget a jump that was noted": {func(w *watched) {
			w.jump(2 * day)
			w.beat()
			w.pass(time.Minute)
			w.restart()
			w.beat()
			w.beat()
		}, true},
		"a suspect note vouches for nothing": {func(w *watched) { w.jump(-3 * hour); w.beat(); w.pass(3 * hour) }, true},
		"nor one back":                       {func(w *watched) { w.jump(-2 * day); w.beat(); w.restart(); w.beat() }, true},
		"a jump that was corrected before a start": {func(w *watched) {
			w.jump(2 * day)
			w.beat()
			w.pass(30 * day)
			w.beat()
			w.jump(-2 * day)
			w.restart()
			w.beat()
		}, false},
		"a start past the gap, corrected": {func(w *watched) { w.jump(30 * day); w.restart(); w.beat(); w.jump(-25 * day) }, false},
		"a confirmation before a start": {func(w *watched) {
			w.jump(30 * day)
			w.beat()
			w.note.Seen, w.note.Since = w.now, time.Time{}
			w.restart()
			w.beat()
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWatched()
			c.steps(w)
			if got := w.suspect(); got != c.suspect {
				t.Errorf("suspect %v, want %v", got, c.suspect)
			}
			if w.beat(); w.note.Suspect() != c.suspect {
				t.Errorf("noted as suspect since %v, want suspect %v", w.note.Since, c.suspect)
			}
		})
	}
}

// What a process notes while the clock is suspect is the time that it trusts, and since
// when: later restarts and nodes go by it.
func TestASuspectClockIsNotedWithTheTrustedTime(t *testing.T) {
	for _, by := range []time.Duration{2 * day, -2 * day} {
		w := newWatched()
		w.pass(hour)
		w.jump(by)
		w.beat()
		if !w.note.Seen.Equal(noon.Add(hour)) || !w.note.Since.Equal(noon.Add(hour)) {
			t.Errorf("jump %v: noted %v since %v, want an hour after noon in both", by, w.note.Seen, w.note.Since)
		}
		w.pass(hour)
		w.beat()
		if !w.note.Seen.Equal(noon.Add(2*hour)) || !w.note.Since.Equal(noon.Add(hour)) {
			t.Errorf("jump %v: noted %v since %v, want two hours after noon, since one", by, w.note.Seen, w.note.Since)
		}
		if trusted := w.watch.Judge(w.now); !trusted.Equal(noon.Add(2 * hour)) {
			t.Errorf("jump %v: trusted %v, want two hours after noon", by, trusted)
		}
	}
}

// nodes are two processes over one ledger.
func nodes() (a, b *watched) {
	a = newWatched()
	b = &watched{now: noon, bound: hour, gap: 7 * day, note: a.note}
	b.restart()
	b.beat()
	return a, b
}

func TestNodesAgree(t *testing.T) {
	t.Run("a node that slept takes the word of one that did not", func(t *testing.T) {
		a, b := nodes()
		a.pass(3 * hour)
		a.beat()
		b.now, b.note = a.now, a.note
		if !b.suspect() {
			t.Fatal("the node that slept did not notice")
		}
		if b.beat(); b.suspect() || b.note.Suspect() {
			t.Error("it did not take the word of the other")
		}
	})
	t.Run("nor does its own finding make the other suspect", func(t *testing.T) {
		a, b := nodes()
		b.jump(3 * hour) // it slept, and noted first
		b.beat()
		a.pass(3 * hour)
		a.note = b.note
		if a.beat(); a.suspect() || a.note.Suspect() {
			t.Error("a node that did not sleep is suspect")
		}
	})
	t.Run("a jump of the ledger's clock is one for all", func(t *testing.T) {
		a, b := nodes()
		a.jump(3 * hour)
		a.beat()
		b.now, b.note = a.now, a.note
		if b.beat(); !a.suspect() || !b.suspect() {
			t.Error("a node took the word of a suspect one")
		}
		b.note.Now, b.note.Seen, b.note.Since = b.now, b.now, time.Time{} // a confirms
		a.watch.Trust(a.now)
		b.pass(10 * time.Second)
		if b.beat(); b.suspect() {
			t.Error("a node did not hear of a confirmation")
		}
	})
	t.Run("a confirmation of another time confirms nothing", func(t *testing.T) {
		_, b := nodes()
		b.jump(3 * hour)
		b.note.Seen = b.now
		b.jump(3 * hour) // since it was confirmed
		if b.beat(); !b.suspect() {
			t.Error("a clock that jumped since is trusted")
		}
	})
}

// Without a mark, without a bound of the stop, and without a watch.
func TestWhatIsNotWatched(t *testing.T) {
	w := &watched{now: noon, bound: hour}
	w.restart()
	if w.suspect() {
		t.Error("suspect before the first beat")
	}
	w.note.Seen = noon.Add(-1000 * day)
	if w.beat(); w.suspect() {
		t.Error("suspect after a stop without a bound")
	}
	if trusted := (*ledger.Watch)(nil).Judge(noon); !trusted.IsZero() {
		t.Errorf("no watch trusts %v", trusted)
	}
}

// The steady clock is now, unless that is suspect.
func TestTheSteadyClock(t *testing.T) {
	w := newWatched()
	steady := w.watch.Steady(func() time.Time { return w.now })
	w.pass(hour)
	w.jump(time.Minute)
	if got := steady(); !got.Equal(noon.Add(hour + time.Minute)) {
		t.Errorf("a small step: %v", got)
	}
	for _, by := range []time.Duration{10 * day, -20 * day} {
		w.jump(by)
		w.pass(hour)
		w.beat()
		w.pass(hour)
		if got, want := steady(), noon.Add(w.elapsed); !got.Equal(want) {
			t.Errorf("after a jump of %v: %v, want %v", by, got, want)
		}
	}
	if got := (*ledger.Watch)(nil).Steady(func() time.Time { return noon })(); !got.Equal(noon) {
		t.Errorf("without a watch: %v", got)
	}
}

// Judging is for every lookup.
func TestJudgingAllocatesNothing(t *testing.T) {
	w := newWatched()
	w.jump(day)
	if n := testing.AllocsPerRun(100, func() { w.watch.Judge(w.now) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkJudge(b *testing.B) {
	began := time.Now()
	w := ledger.NewWatch(hour, day, func() time.Duration { return time.Since(began) })
	w.Beat(ledger.ClockNote{Now: began})
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			w.Judge(began)
		}
	})
}
