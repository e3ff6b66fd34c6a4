package clock

import (
	"time"

	"github.com/blobd/blobd/ledger"
)

// Request is what a clock starts from.
type Request struct {
	Regime     string // "": none, and only a stated due date counts
	ReceivedAt time.Time
	// StatedAt is the due date that came with the request, from who asked or from the
	// tool before this one; zero: none. It wins over what the regime gives.
	StatedAt time.Time
	// Ended: the request was answered for good, at EndedAt; zero: nobody noted when.
	Ended   bool
	EndedAt time.Time
}

// State is how a request stands.
type State string

// The states, in the order in which they are decided.
const (
	Done        State = "done"        // answered
	Paused      State = "paused"      // time does not count
	Overdue     State = "overdue"     // past its due date
	Approaching State = "approaching" // less than a quarter of its time is left
	OnTrack     State = "on_track"
)

// Clock is how a request stands at a moment. A zero time is none.
type Clock struct {
	Regime         string
	State          State
	ReceivedAt     time.Time
	AcknowledgeBy  time.Time
	AcknowledgedAt time.Time // first time
	// DueAt is the date that counts. Of a paused clock it is what it would be if the
	// clock went on at this moment.
	DueAt time.Time
	// ComputedAt is what the regime gives, with pauses and extension, whether it counts
	// or not.
	ComputedAt time.Time
	// StatedAt is Request.StatedAt where it differs from what the regime gives, as it
	// was stated.
	StatedAt time.Time
	// FirstDueAt is the end of the first period, in which an extension must be told:
	// what DueAt is, or would be without the extension.
	FirstDueAt time.Time
	ExtendedAt time.Time // when notice was given
	PausedAt   time.Time // when the pause began that has not ended
	PausedDays int       // days that pauses took out of the count
	// Remaining is the time left at the moment, or at the end; negative: it took too
	// long. Zero where nothing is due, or nobody noted the end.
	Remaining time.Duration
	EndedAt   time.Time
}

// Late reports whether the due date passed before the end, or before the moment
// of a request that has not ended.
func (c *Clock) Late() bool { return c.Remaining < 0 }

// latest is the last time that RFC 3339 can write.
func latest() time.Time { return time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC) }

// Read returns the clock of a request at a moment. It takes events as they
// stand and refuses none: what may be added is Add's to say.
func Read(r Request, events []ledger.ClockEvent, cal Calendar, now time.Time) Clock {
	h := hand{rules: RulesOf(r.Regime), cal: cal}
	h.start(r)
	for i := range events {
		h.take(&events[i])
	}
	return h.show(r, now)
}

// hand goes over the events of one clock. Every date that may count moves
// with each pause, so that the one that counts is chosen at the end.
type hand struct {
	rules    Rules
	cal      Calendar
	clock    Clock
	first    time.Time // the regime's first period; zero: none
	extended time.Time // the regime's period with the extension; zero: none
	stated   time.Time // stated or told with an extension; zero: none
	before   time.Time // stated, without the extension
}

func (h *hand) start(r Request) {
	received := r.ReceivedAt.UTC()
	h.clock = Clock{Regime: r.Regime, ReceivedAt: received}
	if h.rules.Acknowledges {
		h.clock.AcknowledgeBy = endOf(h.cal.After(received, h.rules.AcknowledgeWithin))
	}
	if p := h.rules.Period; !p.IsZero() {
		h.first = h.last(received, p)
		if x := h.rules.Extension; !x.IsZero() {
			h.extended = h.last(received, ledger.Period{Months: p.Months + x.Months, Days: p.Days + x.Days})
		}
	}
	if stated := r.StatedAt.UTC(); !r.StatedAt.IsZero() && !stated.Equal(h.first) {
		h.clock.StatedAt, h.stated, h.before = stated, stated, stated
	}
}

// last is the last second of a period: the day of the event does not count, and
// a month ends on the day of the same number or on its last.
func (h *hand) last(from time.Time, p ledger.Period) time.Time { return h.roll(endOf(p.After(from))) }

func (h *hand) roll(t time.Time) time.Time {
	if h.rules.Rolls {
		t = h.cal.Roll(t)
	}
	if end := latest(); t.After(end) {
		return end
	}
	return t
}

func (h *hand) take(e *ledger.ClockEvent) {
	at := e.At.UTC()
	switch c := &h.clock; e.Kind {
	case ledger.ClockAcknowledged:
		if c.AcknowledgedAt.IsZero() {
			c.AcknowledgedAt = at
		}
	case ledger.ClockPaused:
		if c.PausedAt.IsZero() {
			c.PausedAt = at
		}
	case ledger.ClockResumed:
		if !c.PausedAt.IsZero() {
			h.push(c.PausedAt, at)
			c.PausedAt = time.Time{}
		}
	case ledger.ClockExtended:
		h.extend(at, e.DueAt)
	}
}

// push moves every date by a pause: those of the regime, which are of whole
// days, by the days that did not count; a stated one, which is a moment, by no less
// than the pause took, so that it never ends with less left than it began with.
func (h *hand) push(from, to time.Time) {
	if !from.Before(to) {
		return
	}
	days := daysBetween(from, to)
	h.clock.PausedDays += days
	whole := time.Duration(days) * day
	h.move(whole, &h.first, &h.extended)
	h.move(max(whole, to.Sub(from)), &h.stated, &h.before)
}

func (h *hand) move(by time.Duration, dates ...*time.Time) {
	for _, t := range dates {
		if !t.IsZero() {
			*t = h.roll(t.Add(by))
		}
	}
}

func (h *hand) extend(at, due time.Time) {
	if !h.clock.ExtendedAt.IsZero() {
		return
	}
	h.clock.ExtendedAt = at
	switch {
	case !due.IsZero():
		h.stated = due.UTC()
	case !h.stated.IsZero() && !h.rules.Extension.IsZero():
		h.stated = h.roll(h.rules.Extension.After(h.stated))
	}
}

// show chooses the date that counts and says how the request stands.
func (h *hand) show(r Request, now time.Time) Clock {
	moment := now.UTC()
	if r.Ended && !r.EndedAt.IsZero() {
		moment = r.EndedAt.UTC()
		h.clock.EndedAt = moment
	}
	if paused := h.clock.PausedAt; !paused.IsZero() {
		h.push(paused, moment)
	}
	c := h.clock
	c.ComputedAt = h.first
	if !c.ExtendedAt.IsZero() && !h.extended.IsZero() {
		c.ComputedAt = h.extended
	}
	c.DueAt, c.FirstDueAt = c.ComputedAt, h.first
	if !h.stated.IsZero() {
		c.DueAt = h.stated
	}
	if !h.before.IsZero() {
		c.FirstDueAt = h.before
	}
	if !c.DueAt.IsZero() && (!r.Ended || !r.EndedAt.IsZero()) {
		c.Remaining = c.DueAt.Sub(moment)
	}
	c.State = c.state(r.Ended)
	return c
}

func (c *Clock) state(ended bool) State {
	switch {
	case ended:
		return Done
	case !c.PausedAt.IsZero():
		return Paused
	case c.DueAt.IsZero():
		return OnTrack
	case c.Remaining < 0:
		return Overdue
	case c.Remaining < c.DueAt.Sub(c.ReceivedAt)/4:
		return Approaching
	}
	return OnTrack
}
