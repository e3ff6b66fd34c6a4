package api

import (
	"context"
	"time"

	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/ledger"
)

// stateReleased is how a hold ends.
const stateReleased = "released"

// placeHold answers POST /v1/holds.
func (a *API) placeHold(c *call) error {
	var q wire.HoldRequest
	return a.withJSON(c, &q, func(body []byte) error {
		if err := noNulls(body); err != nil {
			return err
		}
		r, err := c.orderOf(q.Scope)
		if err != nil {
			return err
		}
		for _, f := range []struct{ name, value string }{{"matter", q.Matter}, {"reason", q.Reason}, {"owner", q.Owner}} {
			if err := needed(f.name, f.value); err != nil {
				return err
			}
		}
		r.Matter, r.Reason, r.Owner = q.Matter, q.Reason, q.Owner
		if r.ReviewAt, err = c.inFuture("reviewAt", q.ReviewAt); err != nil {
			return err
		}
		place := func(ctx context.Context) (ledger.Order, error) { return a.Store.PlaceHold(ctx, r) }
		return holds().place(a, c, body, place)
	})
}

func holds() orderKind[wire.Hold] {
	return orderKind[wire.Hold]{
		kind: ledger.OrderHold, states: []string{stateOpen, stateReleased}, view: holdOf,
		state: func(_ *API, o *ledger.Order) string { return holdState(o) },
		page:  func(items []wire.Hold, next *string) any { return wire.Holds{Items: items, Next: next} },
	}
}

func holdState(o *ledger.Order) string {
	if o.Open() {
		return stateOpen
	}
	return stateReleased
}

// holdOf is a hold in the contract's words, with what it holds.
func holdOf(ctx context.Context, a *API, o *ledger.Order, atMost int64) (wire.Hold, error) {
	held, err := a.held(ctx, o, atMost)
	if err != nil {
		return wire.Hold{}, err
	}
	return wire.Hold{
		ID: o.ID, State: holdState(o), Scope: covered(&o.Scope), Matter: o.Matter, Reason: o.Reason, Owner: o.Owner,
		ReviewAt: timeOrNull(o.ReviewAt), ReviewOverdue: reviewOverdue(o, a.Now()), PlacedAt: o.PlacedAt.UTC(), PlacedBy: o.PlacedBy,
		ReleasedAt: timeOrNull(o.LiftedAt), ReleasedBy: textOrNull(o.LiftedBy), ReleaseReason: textOrNull(o.LiftReason),
		Held: held,
	}, nil
}

// reviewOverdue reports whether somebody should have looked at a hold again.
func reviewOverdue(o *ledger.Order, now time.Time) bool {
	return o.Open() && !o.ReviewAt.IsZero() && !now.Before(o.ReviewAt)
}
