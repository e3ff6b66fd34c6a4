package ledger

import (
	"context"
	"math"
	"sync/atomic"
	"time"
)

// ClockNotes keeps what was last found of the ledger's own clock, for the next start
// and for the other nodes. A note is no write that Journal.Mark counts, unless an entry
// comes with it.
type ClockNotes interface {
	// ClockNote returns the ledger's time, and what was noted.
	ClockNote(ctx context.Context) (ClockNote, error)
	// NoteClock notes n.Seen and n.Since, with entries of evidence, and raises the
	// version. It is ErrConflict, and changes nothing, where n.Version is not the
	// newest: another node noted meanwhile.
	NoteClock(ctx context.Context, n ClockNote, entries []Entry) error
}

// ClockNote is what is known of the ledger's clock.
type ClockNote struct {
	Now     time.Time // by the ledger's clock, when this was read
	Seen    time.Time // the newest time that was trusted; zero: none yet
	Since   time.Time // since when the clock is suspect, by the time trusted then; zero: it is not
	Version int64     // how often it was noted
}

// Suspect reports whether the clock was noted as suspect.
func (n *ClockNote) Suspect() bool { return !n.Since.IsZero() }

// Watch judges readings of the ledger's clock by one that nobody can set: how long
// this process has run. A reading that is further than a bound from the last trusted
// one plus what passed since is suspect, in either direction, for as long as it is: a
// clock that is put right again is trusted again. Nil watches nothing.
//
// It does not see steps below the bound, and not how long the process's own clock
// stood still: to it, a machine that slept has a ledger that jumped forward.
type Watch struct {
	bound   time.Duration
	gap     time.Duration
	elapsed func() time.Duration
	mark    atomic.Pointer[mark]
}

// mark is the last trusted reading.
type mark struct {
	at      time.Time
	elapsed time.Duration // when it was read
	late    time.Duration // how much later than expected a reading may be
}

// NewWatch builds a watch. bound is how far a reading may be from what is expected. gap
// is how long a deployment may have been stopped: how much later than the last note the
// first reading of a process may be; 0: no bound. elapsed tells how long the process
// has run: it never goes back, and no setting of a clock moves it.
func NewWatch(bound, gap time.Duration, elapsed func() time.Duration) *Watch {
	if gap <= 0 {
		gap = math.MaxInt64
	}
	return &Watch{bound: bound, gap: max(bound, gap), elapsed: elapsed}
}

// Judge returns zero for a reading that can be trusted, else the time that it should be
// about. Before the first Beat everything is trusted. It is a load and two comparisons,
// for every lookup.
func (w *Watch) Judge(now time.Time) (trusted time.Time) {
	if w == nil {
		return time.Time{}
	}
	m := w.mark.Load()
	if m == nil {
		return time.Time{}
	}
	if trusted = m.expected(w.elapsed()); w.fits(m, now, trusted) {
		return time.Time{}
	}
	return trusted
}

// Steady is now, but the trusted time where now is suspect. What is done by it, and cannot
// be taken back, is not done early, and what is put off is not put off into a time that
// was wrong: the end of a grace, of a floor and of a horizon, leases and back-offs.
func (w *Watch) Steady(now func() time.Time) func() time.Time {
	return func() time.Time {
		t := now()
		if trusted := w.Judge(t); !trusted.IsZero() {
			return trusted
		}
		return t
	}
}

// Beat takes a fresh note, moves the mark if its reading can be trusted, and returns
// what to note now. A reading is trusted if it fits this process's own mark, or if it
// fits what a node that trusts the clock noted a moment ago: then it was this process
// that stood still, or an operator confirmed the clock.
func (w *Watch) Beat(n ClockNote) ClockNote {
	elapsed := w.elapsed()
	old := w.mark.Load()
	m := old
	if m == nil {
		m = w.first(n, elapsed)
	}
	trusted := m.expected(elapsed)
	if w.fits(m, n.Now, trusted) || !n.Suspect() && w.near(n.Now, n.Seen) {
		// Where it was moved meanwhile, by a confirmation, that counts.
		w.mark.CompareAndSwap(old, &mark{n.Now, elapsed, w.bound})
		n.Seen, n.Since = n.Now, time.Time{}
		return n
	}
	w.mark.CompareAndSwap(nil, m)
	n.Seen = trusted
	if !n.Suspect() {
		n.Since = trusted
	}
	return n
}

// first is the mark of a process that has none: what was noted last. A deployment that
// was stopped while its clock was trusted may have been so for as long as gap.
func (w *Watch) first(n ClockNote, elapsed time.Duration) *mark {
	switch {
	case n.Seen.IsZero():
		return &mark{n.Now, elapsed, w.bound}
	case n.Suspect():
		return &mark{n.Seen, elapsed, w.bound}
	}
	return &mark{n.Seen, elapsed, w.gap}
}

// Trust moves the mark to a reading that an operator confirmed.
func (w *Watch) Trust(now time.Time) { w.mark.Store(&mark{now, w.elapsed(), w.bound}) }

// expected is the time that a reading should be about.
func (m *mark) expected(elapsed time.Duration) time.Time { return m.at.Add(elapsed - m.elapsed) }

func (w *Watch) fits(m *mark, now, expected time.Time) bool {
	d := apart(now, expected)
	return d >= -w.bound && d <= m.late
}

func (w *Watch) near(now, seen time.Time) bool {
	d := apart(now, seen)
	return !seen.IsZero() && d >= -w.bound && d <= w.bound
}

// apart is by the clock's face: a monotonic reading in both would hide a jump.
func apart(a, b time.Time) time.Duration { return a.Round(0).Sub(b) }
