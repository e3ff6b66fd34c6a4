package clock

import (
	"slices"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// Refusal says why an event may not be added. Why is a sentence of this package
// and repeats nothing of the request.
type Refusal struct {
	Why string
	Err error // ErrConflict or ErrInvalid
}

// Error implements error.
func (r *Refusal) Error() string { return r.Why + ": " + r.Err.Error() }

// Unwrap returns which of the closed set it is.
func (r *Refusal) Unwrap() error { return r.Err }

// Add returns the clock of a request with one event more, or a Refusal: ErrConflict
// for what the law, or the order of things, does not allow; ErrInvalid for what
// could never be an event: one in the future, before the receipt, a pause or an
// extension without a reason, a date that only another clock may have.
func Add(r Request, events []ledger.ClockEvent, e ledger.ClockEvent, cal Calendar, now time.Time) (Clock, error) {
	if err := inOrder(r, events, e, now); err != nil {
		return Clock{}, err
	}
	if err := allowed(Read(r, events, cal, e.At), &e); err != nil {
		return Clock{}, err
	}
	return Read(r, append(slices.Clip(events), e), cal, now), nil
}

// Stored is the due date to keep beside a request: none while the clock stands
// still, since then nothing can become overdue.
func (c *Clock) Stored() time.Time {
	if c.State == Paused {
		return time.Time{}
	}
	return c.DueAt
}

func inOrder(r Request, events []ledger.ClockEvent, e ledger.ClockEvent, now time.Time) error {
	switch {
	case e.At.After(now):
		return &Refusal{"an event in the future", blobd.ErrInvalid}
	case e.At.Before(r.ReceivedAt) && !r.ReceivedAt.After(now): // else who asked has a clock that is ahead
		return &Refusal{"an event before the receipt", blobd.ErrInvalid}
	case r.Ended:
		return &Refusal{"the request was answered", blobd.ErrConflict}
	case len(events) > 0 && e.At.Before(events[len(events)-1].At):
		return &Refusal{"an event before the last one", blobd.ErrConflict}
	}
	return nil
}

// allowed asks a clock, as it stood at the event, whether the event may come.
func allowed(c Clock, e *ledger.ClockEvent) error {
	switch e.Kind {
	case ledger.ClockAcknowledged:
		if !c.AcknowledgedAt.IsZero() {
			return &Refusal{"receipt was acknowledged before", blobd.ErrConflict}
		}
		return nil
	case ledger.ClockPaused:
		return mayPause(c, e)
	case ledger.ClockResumed:
		if c.PausedAt.IsZero() {
			return &Refusal{"the clock is not paused", blobd.ErrConflict}
		}
		return nil
	case ledger.ClockExtended:
		return mayExtend(c, e)
	}
	return &Refusal{"no such event of a clock", blobd.ErrInvalid}
}

func mayPause(c Clock, e *ledger.ClockEvent) error {
	switch {
	case e.Reason == "":
		return &Refusal{"a pause needs a reason", blobd.ErrInvalid}
	case !RulesOf(c.Regime).Pauses:
		return &Refusal{"a clock of this regime is never paused", blobd.ErrConflict}
	case c.State == Paused:
		return &Refusal{"the clock is paused already", blobd.ErrConflict}
	case c.State == Overdue:
		return &Refusal{"the due date has passed", blobd.ErrConflict}
	}
	return nil
}

func mayExtend(c Clock, e *ledger.ClockEvent) error {
	own := c.StatedAt.IsZero() && !c.ComputedAt.IsZero() // the regime's date counts
	none := RulesOf(c.Regime).Extension.IsZero()
	switch {
	case e.Reason == "":
		return &Refusal{"an extension needs a reason", blobd.ErrInvalid}
	case !e.DueAt.IsZero() && own:
		return &Refusal{"the date of an extension is the regime's", blobd.ErrInvalid}
	case !e.DueAt.IsZero() && (!e.DueAt.After(c.DueAt) || !e.DueAt.After(e.At) || e.DueAt.After(latest())):
		return &Refusal{"an extension to a date that is not later", blobd.ErrInvalid}
	case e.DueAt.IsZero() && none && !own:
		return &Refusal{"the regime has no extension of its own: a date is needed", blobd.ErrInvalid}
	case own && none:
		return &Refusal{"a clock of this regime is never extended", blobd.ErrConflict}
	case !c.ExtendedAt.IsZero():
		return &Refusal{"the clock was extended before", blobd.ErrConflict}
	case !c.FirstDueAt.IsZero() && e.At.After(c.FirstDueAt):
		return &Refusal{"the first period is over", blobd.ErrConflict}
	}
	return nil
}

// Extendable reports whether an extension may still come, as far as the moment of
// the clock tells.
func (c *Clock) Extendable() bool {
	none := RulesOf(c.Regime).Extension.IsZero() && c.StatedAt.IsZero() && !c.ComputedAt.IsZero()
	return c.State != Done && c.ExtendedAt.IsZero() && !none && c.Remaining >= 0
}
