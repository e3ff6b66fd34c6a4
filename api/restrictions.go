package api

import (
	"context"
	"net/http"
	"slices"

	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/ledger"
)

// stateLifted is how a restriction and a suppression end.
const stateLifted = "lifted"

// maxPurposes bounds the purposes of a restriction.
const maxPurposes = 32

// placeRestriction answers POST /v1/restrictions.
func (a *API) placeRestriction(c *call) error {
	var q wire.RestrictionRequest
	return a.withJSON(c, &q, func(body []byte) error {
		if err := noNulls(body); err != nil {
			return err
		}
		r, err := c.orderOf(q.Scope)
		if err != nil {
			return err
		}
		if err := needed("reason", q.Reason); err != nil {
			return err
		}
		r.Reason = q.Reason
		if r.Purposes, err = readPurposes(q.Purposes); err != nil {
			return err
		}
		place := func(ctx context.Context) (ledger.Order, error) { return a.Store.Restrict(ctx, r) }
		return a.placeOrder(c, body, place, func(ctx context.Context, o ledger.Order) (any, error) {
			return a.restrictionOf(ctx, o, countOne)
		})
	})
}

// readPurposes checks purposes and leaves repeats out.
func readPurposes(purposes []string) (out []string, err error) {
	if len(purposes) > maxPurposes {
		return nil, refuse(wire.CodeTooLarge, "purposes: more than %d", maxPurposes)
	}
	for _, p := range purposes {
		if err := needed("purposes", p); err != nil {
			return nil, err
		}
		if !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out, nil
}

// restriction answers GET /v1/restrictions/{id}.
func (a *API) restriction(c *call) error {
	o, err := a.order(c, ledger.OrderRestriction)
	if err != nil {
		return err
	}
	return a.replyRestriction(c, o)
}

func (a *API) replyRestriction(c *call, o ledger.Order) error {
	out, err := a.restrictionOf(c.r.Context(), o, countOne)
	if err != nil {
		return err
	}
	return c.reply(http.StatusOK, out)
}

// liftRestriction answers DELETE /v1/restrictions/{id}.
func (a *API) liftRestriction(c *call) error {
	return a.liftOrder(c, ledger.OrderRestriction, func(o ledger.Order) error { return a.replyRestriction(c, o) })
}

// listRestrictions answers GET /v1/restrictions.
func (a *API) listRestrictions(c *call) error {
	rows, next, err := a.listOrders(c, ledger.OrderRestriction, []string{stateOpen, stateLifted}, restrictionState)
	if err != nil {
		return err
	}
	out := &wire.Restrictions{Items: make([]wire.Restriction, len(rows)), Next: next}
	for i, o := range rows {
		r, err := a.restrictionOf(c.r.Context(), o, countOf(len(rows)))
		if err != nil {
			return err
		}
		out.Items[i] = *r
	}
	return c.reply(http.StatusOK, out)
}

func restrictionState(o *ledger.Order) string {
	if o.Open() {
		return stateOpen
	}
	return stateLifted
}

func (a *API) restrictionOf(ctx context.Context, o ledger.Order, atMost int64) (*wire.Restriction, error) {
	covers, err := a.held(ctx, &o, atMost)
	if err != nil {
		return nil, err
	}
	out := &wire.Restriction{
		ID: o.ID, State: restrictionState(&o), Scope: covered(&o.Scope), Reason: o.Reason, Purposes: o.Purposes,
		PlacedAt: o.PlacedAt.UTC(), PlacedBy: o.PlacedBy, LiftedAt: timeOrNull(o.LiftedAt), LiftedBy: textOrNull(o.LiftedBy),
		LiftReason: textOrNull(o.LiftReason), Covers: covers,
	}
	if out.Purposes == nil {
		out.Purposes = []string{}
	}
	return out, nil
}
