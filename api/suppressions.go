package api

import (
	"context"
	"net/http"

	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/ledger"
)

// stateExpired is a suppression that was not lifted and is past its end.
const stateExpired = "expired"

// placeSuppression answers POST /v1/suppressions.
func (a *API) placeSuppression(c *call) error {
	var q wire.SuppressionRequest
	return a.withJSON(c, &q, func(body []byte) error {
		if err := noNulls(body, "scope", "subjects"); err != nil {
			return err
		}
		scope, err := suppressedScope(&q)
		if err != nil {
			return err
		}
		r, err := c.orderOf(scope)
		if err != nil {
			return err
		}
		if len(r.Subjects) == 0 {
			return refuse(wire.CodeInvalid, "scope: a suppression is of subjects")
		}
		if err := needed("reason", q.Reason); err != nil {
			return err
		}
		r.Reason = q.Reason
		if r.ExpiresAt, err = c.inFuture("expiresAt", q.ExpiresAt); err != nil {
			return err
		}
		place := func(ctx context.Context) (ledger.Order, error) { return a.Store.Suppress(ctx, r) }
		return a.placeOrder(c, body, place, func(_ context.Context, o ledger.Order) (any, error) {
			return a.suppressionOf(o), nil
		})
	})
}

// suppressedScope takes the subjects from where they stand.
func suppressedScope(q *wire.SuppressionRequest) (*wire.Scope, error) {
	switch {
	case q.Subjects == nil:
		return q.Scope, nil
	case q.Scope != nil:
		return nil, refuse(wire.CodeInvalid, "subjects: want them in scope or beside it, not both")
	}
	return &wire.Scope{Subjects: q.Subjects}, nil
}

// suppression answers GET /v1/suppressions/{id}.
func (a *API) suppression(c *call) error {
	o, err := a.order(c, ledger.OrderSuppression)
	if err != nil {
		return err
	}
	return c.reply(http.StatusOK, a.suppressionOf(o))
}

// liftSuppression answers DELETE /v1/suppressions/{id}.
func (a *API) liftSuppression(c *call) error {
	return a.liftOrder(c, ledger.OrderSuppression, func(o ledger.Order) error {
		return c.reply(http.StatusOK, a.suppressionOf(o))
	})
}

// listSuppressions answers GET /v1/suppressions.
func (a *API) listSuppressions(c *call) error {
	rows, next, err := a.listOrders(c, ledger.OrderSuppression, []string{stateOpen, stateExpired, stateLifted}, a.suppressionState)
	if err != nil {
		return err
	}
	out := &wire.Suppressions{Items: make([]wire.Suppression, len(rows)), Next: next}
	for i, o := range rows {
		out.Items[i] = *a.suppressionOf(o)
	}
	return c.reply(http.StatusOK, out)
}

func (a *API) suppressionState(o *ledger.Order) string {
	switch {
	case !o.Open():
		return stateLifted
	case !o.ExpiresAt.IsZero() && !a.Now().Before(o.ExpiresAt):
		return stateExpired
	}
	return stateOpen
}

func (a *API) suppressionOf(o ledger.Order) *wire.Suppression {
	return &wire.Suppression{
		ID: o.ID, State: a.suppressionState(&o), Scope: covered(&o.Scope), Reason: o.Reason, ErasureID: textOrNull(o.ErasureID),
		ExpiresAt: timeOrNull(o.ExpiresAt), PlacedAt: o.PlacedAt.UTC(), PlacedBy: o.PlacedBy, LiftedAt: timeOrNull(o.LiftedAt),
		LiftedBy: textOrNull(o.LiftedBy), LiftReason: textOrNull(o.LiftReason),
	}
}
