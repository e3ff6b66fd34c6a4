package store

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// PlaceHold places a hold: nothing that it covers, now or later, is deleted by
// anything until it is lifted. Like every order it is journalled before it returns.
//
// After ErrUnavailable the order may stand; a second one does no harm.
func (s *Store) PlaceHold(ctx context.Context, r OrderRequest) (ledger.Order, error) {
	return s.placeOrder(ctx, ledger.OrderHold, r)
}

// Restrict places a restriction: what it covers reads as null, and is shown to a
// person for one of its purposes only; a put that would join it is refused. It keeps
// nothing from being deleted.
func (s *Store) Restrict(ctx context.Context, r OrderRequest) (ledger.Order, error) {
	return s.placeOrder(ctx, ledger.OrderRestriction, r)
}

// Suppress places a suppression of subjects: a put with one of them is refused.
func (s *Store) Suppress(ctx context.Context, r OrderRequest) (ledger.Order, error) {
	return s.placeOrder(ctx, ledger.OrderSuppression, r)
}

func (s *Store) placeOrder(ctx context.Context, kind ledger.OrderKind, r OrderRequest) (ledger.Order, error) {
	ctx, cancel := context.WithTimeout(ctx, DependencyTimeout)
	defer cancel()
	o, err := s.place(ctx, kind, r)
	if err != nil {
		return ledger.Order{}, fmt.Errorf("place a %s: %w", kind, err)
	}
	return o, nil
}

func (s *Store) place(ctx context.Context, kind ledger.OrderKind, r OrderRequest) (ledger.Order, error) {
	t, scope, err := s.scope(ctx, r.target())
	if err != nil {
		return ledger.Order{}, err
	}
	id, err := uuid.NewRandomFromReader(s.Random)
	if err != nil {
		return ledger.Order{}, err
	}
	o := ledger.Order{
		ID: id.String(), Kind: kind, Scope: scope, Matter: r.Matter, Reason: r.Reason, Owner: r.Owner, Purposes: r.Purposes,
		ReviewAt: micro(r.ReviewAt), ExpiresAt: micro(r.ExpiresAt), PlacedAt: micro(s.Now()), PlacedBy: r.Actor,
	}
	if err := o.Check(); err != nil {
		return ledger.Order{}, err
	}
	entry, err := s.scribe(t).Placed(o)
	if err != nil {
		return ledger.Order{}, err
	}
	o, record, err := s.Ledger.PlaceOrder(ctx, o, entry)
	if err != nil {
		return ledger.Order{}, err
	}
	return o, s.publish(ctx, record)
}

// LiftOrder ends a hold, a restriction or a suppression of the tenant, journalled
// before it returns. With a hold the erasures that it deferred are due at once. One
// that was lifted before stays as it is. One of another tenant or kind is
// ErrNotFound.
func (s *Store) LiftOrder(ctx context.Context, tenant string, kind ledger.OrderKind, id, actor, reason string) (ledger.Order, error) {
	ctx, cancel := context.WithTimeout(ctx, DependencyTimeout)
	defer cancel()
	o, err := s.lift(ctx, ledger.Lift{Tenant: tenant, Kind: kind, ID: id, By: actor, Reason: reason})
	if err != nil {
		return ledger.Order{}, fmt.Errorf("lift a %s: %w", kind, err)
	}
	return o, nil
}

func (s *Store) lift(ctx context.Context, l ledger.Lift) (ledger.Order, error) {
	if err := s.serving(); err != nil {
		return ledger.Order{}, err
	}
	t, err := s.Tenant(ctx, l.Tenant)
	if err != nil {
		return ledger.Order{}, err
	}
	o, err := s.Ledger.Order(ctx, l.Tenant, l.ID)
	if err == nil && o.Kind != l.Kind {
		err = blobd.ErrNotFound
	}
	if err != nil {
		return ledger.Order{}, err
	}
	l.At = micro(s.Now())
	entry, err := s.scribe(t).Lifted(l, o.Scope)
	if err != nil {
		return ledger.Order{}, err
	}
	o, record, err := s.Ledger.LiftOrder(ctx, l, entry)
	if err != nil {
		return ledger.Order{}, err
	}
	return o, s.publish(ctx, record)
}

// eachOpenOrder lists a tenant's open orders of a kind, newest first.
func (s *Store) eachOpenOrder(ctx context.Context, tenant string, kind ledger.OrderKind, use func(*ledger.Order) error) error {
	q := ledger.OrderQuery{Tenant: tenant, Kind: kind, Open: true, Limit: listPage}
	for {
		page, err := s.Ledger.ListOrders(ctx, q)
		if err != nil {
			return err
		}
		for i := range page {
			if err := use(&page[i]); err != nil {
				return err
			}
			q.Before = ledger.OrderCursor{PlacedAt: page[i].PlacedAt, ID: page[i].ID}
		}
		if len(page) < listPage {
			return nil
		}
	}
}
