package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/retention/clock"
	"github.com/blobd/blobd/store"
)

// Clocks is what the API needs of package store for the clocks of erasures.
type Clocks interface {
	ClockEvent(ctx context.Context, r store.ClockRequest) (store.ErasureClock, error)
	Clock(ctx context.Context, e ledger.Erasure) (store.ErasureClock, error)
}

func clockRoutes() []route {
	return []route{{
		method: "POST", path: pathErasure + "/clock", id: "moveClock", roles: dpoRole,
		about:   "tell an event of an erasure's clock; what the regime does not allow is a conflict",
		request: wire.ClockRequest{}, act: (*API).moveClock, answers: []reply{{200, wire.Clock{}, nil}},
	}}
}

// moveClock answers POST /v1/erasures/{id}/clock.
func (a *API) moveClock(c *call) error {
	id, err := c.pathID()
	if err != nil {
		return err
	}
	var q wire.ClockRequest
	return a.withJSON(c, &q, func([]byte) error {
		r, err := clockRequest(&q)
		if err != nil {
			return err
		}
		r.Tenant, r.ErasureID, r.Actor = c.who.tenant, id, c.who.token
		moved, err := a.Store.ClockEvent(c.r.Context(), r)
		if err != nil {
			return clockProblem(err)
		}
		return c.reply(http.StatusOK, showClock(moved))
	})
}

func clockRequest(q *wire.ClockRequest) (store.ClockRequest, error) {
	r := store.ClockRequest{Kind: ledger.ClockEventKind(q.Event), Reason: q.Reason}
	if !slices.Contains(wire.ClockEvents(), q.Event) {
		return r, refuse(wire.CodeInvalid, "event: want one of %v", wire.ClockEvents())
	}
	if err := bounded("reason", q.Reason); err != nil {
		return r, err
	}
	if q.DueAt != nil && r.Kind != ledger.ClockExtended {
		return r, refuse(wire.CodeInvalid, "dueAt: only an extension has one")
	}
	for to, from := range map[*time.Time]*time.Time{&r.At: q.At, &r.DueAt: q.DueAt} {
		if from == nil {
			continue
		}
		if from.Unix() <= 0 {
			return r, refuse(wire.CodeInvalid, "at, dueAt: want a time after 1970")
		}
		*to = from.UTC()
	}
	return r, nil
}

// clockProblem says why an event was refused.
func clockProblem(err error) error {
	var refused *clock.Refusal
	if !errors.As(err, &refused) || errors.Is(err, blobd.ErrUnavailable) {
		return err
	}
	if errors.Is(refused, blobd.ErrConflict) {
		return refuse(wire.CodeConflict, "%s", refused.Why)
	}
	return refuse(wire.CodeInvalid, "%s", refused.Why)
}

// clockOf is the clock of an erasure, nil where it has neither a regime nor a due
// date nor an event.
func (a *API) clockOf(ctx context.Context, e ledger.Erasure) (*wire.Clock, error) {
	c, err := a.Store.Clock(ctx, e)
	if err != nil {
		return nil, err
	}
	if c.Regime == "" && c.DueAt.IsZero() && len(c.Events) == 0 {
		return nil, nil
	}
	return showClock(c), nil
}

func showClock(c store.ErasureClock) *wire.Clock {
	out := &wire.Clock{
		Regime: textOrNull(c.Regime), State: string(c.State), ReceivedAt: timeOrNull(c.ReceivedAt),
		AcknowledgeBy: timeOrNull(c.AcknowledgeBy), AcknowledgedAt: timeOrNull(c.AcknowledgedAt),
		DueAt: timeOrNull(c.DueAt), ComputedDueAt: timeOrNull(c.ComputedAt), StatedDueAt: timeOrNull(c.StatedAt),
		ExtendedAt: timeOrNull(c.ExtendedAt), PausedAt: timeOrNull(c.PausedAt), PausedDays: c.PausedDays,
		Late: c.Late(), EndedAt: timeOrNull(c.EndedAt), Events: make([]wire.ClockEvent, 0, len(c.Events)),
	}
	if c.Extendable() {
		out.ExtendableBy = timeOrNull(c.FirstDueAt)
	}
	if !c.DueAt.IsZero() && c.State != clock.Done {
		left := leftOf(c.Remaining)
		out.Remaining = &left
	}
	for _, e := range c.Events {
		out.Events = append(out.Events, wire.ClockEvent{
			Event: string(e.Kind), At: e.At.UTC(), RecordedAt: e.RecordedAt.UTC(), RecordedBy: e.By,
			Reason: textOrNull(e.Reason), DueAt: timeOrNull(e.DueAt),
		})
	}
	return out
}

// leftOf is a time that is left in whole seconds, as ISO 8601.
func leftOf(d time.Duration) string {
	const day = 24 * time.Hour
	p := ledger.Period{Days: int(d / day), Time: (d % day).Truncate(time.Second)}
	if d < time.Second {
		return "PT0S"
	}
	return p.String()
}

// dueSoon is how far the word "soon" looks ahead; it takes in what is overdue.
const dueSoon = 7 * 24 * time.Hour

// aboutDue is the query key that dueParam reads.
func aboutDue() param {
	return param{"due", "overdue, or soon: within a week or overdue; of what has not ended and is not paused"}
}

// dueParam reads the query key "due" into a query.
func (c *call) dueParam(q *ledger.ErasureQuery, now time.Time) error {
	word := c.param("due")
	switch {
	case word == "":
	case !q.DueBefore.IsZero():
		return refuse(wire.CodeInvalid, "due: does not go with dueBefore")
	case word == "overdue":
		q.DueBefore = now
	case word == "soon":
		q.DueBefore = now.Add(dueSoon)
	default:
		return refuse(wire.CodeInvalid, "due: want overdue or soon")
	}
	return nil
}
