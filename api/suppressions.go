package api

import (
	"context"

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
		return suppressions().place(a, c, body, place)
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

func suppressions() orderKind[wire.Suppression] {
	return orderKind[wire.Suppression]{
		kind: ledger.OrderSuppression, states: []string{stateOpen, stateExpired, stateLifted}, view: suppressionOf,
		state: (*API).suppressionState,
		page:  func(items []wire.Suppression, next *string) any { return wire.Suppressions{Items: items, Next: next} },
	}
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

// suppressionOf counts nothing: a suppression covers what was never kept.
func suppressionOf(_ context.Context, a *API, o *ledger.Order, _ int64) (wire.Suppression, error) {
	return wire.Suppression{
		ID: o.ID, State: a.suppressionState(o), Scope: covered(&o.Scope), Reason: o.Reason, ErasureID: textOrNull(o.ErasureID),
		ExpiresAt: timeOrNull(o.ExpiresAt), PlacedAt: o.PlacedAt.UTC(), PlacedBy: o.PlacedBy, LiftedAt: timeOrNull(o.LiftedAt),
		LiftedBy: textOrNull(o.LiftedBy), LiftReason: textOrNull(o.LiftReason),
	}, nil
}
