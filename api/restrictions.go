package api

import (
	"context"
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
		return restrictions().place(a, c, body, place)
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

func restrictions() orderKind[wire.Restriction] {
	return orderKind[wire.Restriction]{
		kind: ledger.OrderRestriction, states: []string{stateOpen, stateLifted}, view: restrictionOf,
		state: func(_ *API, o *ledger.Order) string { return restrictionState(o) },
		page:  func(items []wire.Restriction, next *string) any { return wire.Restrictions{Items: items, Next: next} },
	}
}

func restrictionState(o *ledger.Order) string {
	if o.Open() {
		return stateOpen
	}
	return stateLifted
}

func restrictionOf(ctx context.Context, a *API, o *ledger.Order, atMost int64) (wire.Restriction, error) {
	covers, err := a.held(ctx, o, atMost)
	if err != nil {
		return wire.Restriction{}, err
	}
	out := wire.Restriction{
		ID: o.ID, State: restrictionState(o), Scope: covered(&o.Scope), Reason: o.Reason, Purposes: o.Purposes,
		PlacedAt: o.PlacedAt.UTC(), PlacedBy: o.PlacedBy, LiftedAt: timeOrNull(o.LiftedAt), LiftedBy: textOrNull(o.LiftedBy),
		LiftReason: textOrNull(o.LiftReason), Covers: covers,
	}
	if out.Purposes == nil {
		out.Purposes = []string{}
	}
	return out, nil
}
