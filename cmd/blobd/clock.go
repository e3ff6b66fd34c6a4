package main

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/client"
)

type clockCmd struct {
	Show        clockShowCmd        `cmd:"" help:"Show when an erasure is due, and what moved that."`
	Acknowledge clockAcknowledgeCmd `cmd:"" help:"Note that receipt of the request was confirmed."`
	Pause       clockPauseCmd       `cmd:"" help:"Stop the clock: until the person is known, or a question is answered."`
	Resume      clockResumeCmd      `cmd:"" help:"Have the clock go on."`
	Extend      clockExtendCmd      `cmd:"" help:"Note that the person was told of a longer period, within the first one."`
	Overdue     clockOverdueCmd     `cmd:"" help:"List erasures that are past their due date; exit code 2 if there are any."`
}

type clockShowCmd struct {
	Erasure string `arg:"" help:"Erasure id."`
}

// Run shows a clock.
func (s clockShowCmd) Run(a *app) error {
	r, err := a.remote()
	if err != nil {
		return err
	}
	e, err := r.Erasure(a.ctx, s.Erasure)
	if err != nil {
		return err
	}
	if e.Clock == nil {
		if a.json {
			return a.printJSON(nil)
		}
		fmt.Fprintln(a.stdout, "no clock: neither a regime nor a due date was named")
		return nil
	}
	return a.printClock(*e.Clock)
}

// clockEvent is what all events have.
type clockEvent struct {
	Erasure string `arg:"" help:"Erasure id."`
	At      string `help:"When it happened, RFC 3339 or a date (default: now)." placeholder:"TIME"`
}

func (e clockEvent) move(a *app, q wire.ClockRequest) (err error) {
	if q.At, err = optionalTime("--at", e.At); err != nil {
		return err
	}
	r, err := a.remote()
	if err != nil {
		return err
	}
	c, err := r.MoveClock(a.ctx, e.Erasure, q)
	if err != nil {
		return err
	}
	return a.printClock(c)
}

type clockAcknowledgeCmd struct {
	clockEvent
	Reason string `help:"A remark, on record." placeholder:"TEXT"`
}

// Run notes the acknowledgement.
func (c clockAcknowledgeCmd) Run(a *app) error {
	return c.move(a, wire.ClockRequest{Event: "acknowledged", Reason: c.Reason})
}

type clockPauseCmd struct {
	clockEvent
	Reason string `help:"Why, on record." required:"" placeholder:"TEXT"`
}

// Run stops the clock.
func (c clockPauseCmd) Run(a *app) error {
	return c.move(a, wire.ClockRequest{Event: "paused", Reason: c.Reason})
}

type clockResumeCmd struct {
	clockEvent
	Reason string `help:"A remark, on record." placeholder:"TEXT"`
}

// Run has the clock go on.
func (c clockResumeCmd) Run(a *app) error {
	return c.move(a, wire.ClockRequest{Event: "resumed", Reason: c.Reason})
}

type clockExtendCmd struct {
	clockEvent
	Reason string `help:"Why, on record." required:"" placeholder:"TEXT"`
	DueAt  string `help:"The new due date, where it is not the regime's: RFC 3339 or a date." placeholder:"TIME"`
}

// Run notes the extension.
func (c clockExtendCmd) Run(a *app) (err error) {
	q := wire.ClockRequest{Event: "extended", Reason: c.Reason}
	if q.DueAt, err = optionalTime("--due-at", c.DueAt); err != nil {
		return err
	}
	return c.move(a, q)
}

type clockOverdueCmd struct {
	Within time.Duration `help:"Also what is due within this time, such as 168h." placeholder:"DURATION"`
}

// Run lists what is overdue. The clock of this machine says what is.
func (o clockOverdueCmd) Run(a *app) error {
	if o.Within < 0 {
		return fmt.Errorf("--within: want no less than 0: %w", blobd.ErrInvalid)
	}
	r, err := a.remote()
	if err != nil {
		return err
	}
	now := time.Now().UTC()
	filter := url.Values{"dueBefore": {now.Add(o.Within).Format(time.RFC3339)}}
	late := 0
	due, err := all(a.ctx, func(ctx context.Context, p client.Page) ([]wire.Erasure, *string, error) {
		p.Filters = filter
		out, err := r.Erasures(ctx, p)
		return out.Items, out.Next, err
	})
	if err != nil {
		return err
	}
	for _, e := range due {
		if e.DueAt != nil && e.DueAt.Before(now) {
			late++
		}
	}
	if a.json {
		if err := a.printJSON(due); err != nil {
			return err
		}
	} else {
		printDue(a.stdout, due)
	}
	if late > 0 {
		return status(exitPartly)
	}
	return nil
}

func printDue(w io.Writer, due []wire.Erasure) {
	for _, e := range due {
		fmt.Fprintf(w, "%s\t%s\t%s\tdue %s\n", e.ID, e.State, orDash(e.Regime), timeOrDash(e.DueAt))
	}
}

func orDash(s *string) string {
	if s == nil {
		return "-"
	}
	return *s
}

func timeOrDash(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.Format(time.RFC3339)
}

func (a *app) printClock(c wire.Clock) error {
	if a.json {
		return a.printJSON(c)
	}
	fmt.Fprintf(a.stdout, "%s: %s, received %s, due %s", orDash(c.Regime), c.State, timeOrDash(c.ReceivedAt), timeOrDash(c.DueAt))
	if c.Remaining != nil {
		fmt.Fprintf(a.stdout, ", left %s", *c.Remaining)
	}
	fmt.Fprintln(a.stdout)
	if c.AcknowledgeBy != nil {
		fmt.Fprintf(a.stdout, "acknowledge by %s, acknowledged %s\n", timeOrDash(c.AcknowledgeBy), timeOrDash(c.AcknowledgedAt))
	}
	if c.StatedDueAt != nil {
		fmt.Fprintf(a.stdout, "stated with the request %s, by the regime %s\n", timeOrDash(c.StatedDueAt), timeOrDash(c.ComputedDueAt))
	}
	if c.ExtendableBy != nil {
		fmt.Fprintf(a.stdout, "an extension must be told by %s\n", timeOrDash(c.ExtendableBy))
	}
	if c.PausedDays > 0 || c.PausedAt != nil {
		fmt.Fprintf(a.stdout, "paused for %d days, stands still since %s\n", c.PausedDays, timeOrDash(c.PausedAt))
	}
	for _, e := range c.Events {
		fmt.Fprintf(a.stdout, "\t%s\t%s\t%s\n", e.At.Format(time.RFC3339), e.Event, orDash(e.Reason))
	}
	return nil
}
