package api

import (
	"context"
	"net/http"
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
		return a.placeOrder(c, body, place, func(ctx context.Context, o ledger.Order) (any, error) {
			return a.holdOf(ctx, o, countOne)
		})
	})
}

// hold answers GET /v1/holds/{id}.
func (a *API) hold(c *call) error {
	o, err := a.order(c, ledger.OrderHold)
	if err != nil {
		return err
	}
	return a.replyHold(c, o)
}

func (a *API) replyHold(c *call, o ledger.Order) error {
	out, err := a.holdOf(c.r.Context(), o, countOne)
	if err != nil {
		return err
	}
	return c.reply(http.StatusOK, out)
}

// releaseHold answers DELETE /v1/holds/{id}.
func (a *API) releaseHold(c *call) error {
	return a.liftOrder(c, ledger.OrderHold, func(o ledger.Order) error { return a.replyHold(c, o) })
}

// listHolds answers GET /v1/holds.
func (a *API) listHolds(c *call) error {
	rows, next, err := a.listOrders(c, ledger.OrderHold, []string{stateOpen, stateReleased}, holdState)
	if err != nil {
		return err
	}
	out := &wire.Holds{Items: make([]wire.Hold, len(rows)), Next: next}
	for i, o := range rows {
		h, err := a.holdOf(c.r.Context(), o, countOf(len(rows)))
		if err != nil {
			return err
		}
		out.Items[i] = *h
	}
	return c.reply(http.StatusOK, out)
}

func holdState(o *ledger.Order) string {
	if o.Open() {
		return stateOpen
	}
	return stateReleased
}

// holdOf is a hold in the contract's words, with what it holds.
func (a *API) holdOf(ctx context.Context, o ledger.Order, atMost int64) (*wire.Hold, error) {
	held, err := a.held(ctx, &o, atMost)
	if err != nil {
		return nil, err
	}
	return &wire.Hold{
		ID: o.ID, State: holdState(&o), Scope: covered(&o.Scope), Matter: o.Matter, Reason: o.Reason, Owner: o.Owner,
		ReviewAt: timeOrNull(o.ReviewAt), ReviewOverdue: reviewOverdue(&o, a.Now()), PlacedAt: o.PlacedAt.UTC(), PlacedBy: o.PlacedBy,
		ReleasedAt: timeOrNull(o.LiftedAt), ReleasedBy: textOrNull(o.LiftedBy), ReleaseReason: textOrNull(o.LiftReason),
		Held: held,
	}, nil
}

// reviewOverdue reports whether somebody should have looked at a hold again.
func reviewOverdue(o *ledger.Order, now time.Time) bool {
	return o.Open() && !o.ReviewAt.IsZero() && !now.Before(o.ReviewAt)
}
