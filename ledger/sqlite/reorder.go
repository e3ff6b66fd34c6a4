package sqlite

import (
	"context"
	"errors"
	"fmt"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// This file replays the records of orders.

// checkReorder refuses the record of an order that no ledger made.
func checkReorder(r ledger.Record) error {
	s := r.Scope()
	switch {
	case r.OrderID == "", r.Tenant == "", s.Check() != nil, s.Form() != r.Form,
		r.OrderKind < ledger.OrderHold, r.OrderKind > ledger.OrderSuppression,
		r.OrderKind == ledger.OrderClosing && r.ErasureID != r.OrderID,
		r.OrderKind == ledger.OrderSuppression && r.Form != ledger.ScopeSubjects:
		return fmt.Errorf("the record of an order of kind %d and form %d: %w", r.OrderKind, r.Form, blobd.ErrInvalid)
	}
	return nil
}

// reorder brings an order back, a closing with its erasure.
func reorder(ctx context.Context, w *conn, r ledger.Record) error {
	if err := checkReorder(r); err != nil {
		return err
	}
	o := ledger.Order{
		ID: r.OrderID, Kind: r.OrderKind, Scope: storedScope(r.Scope()), ErasureID: r.ErasureID, Purposes: r.Purposes,
		PlacedAt: stored(r.At),
	}
	if err := ownExecution(ctx, w, o.Scope); err != nil {
		return err
	}
	_, known, err := orderByID(ctx, w, o.ID)
	if err != nil || known {
		return err
	}
	if o.Kind == ledger.OrderClosing {
		return reclose(ctx, w, o, r)
	}
	o.ExpiresAt = stored(r.Until)
	return insertOrder(ctx, w, o, r.Seq)
}

// reclose brings a closing back. Its erasure runs again when its grace is over; one
// that went on from there already needs no closing.
func reclose(ctx context.Context, w *conn, o ledger.Order, r ledger.Record) error {
	e, known, err := erasureByID(ctx, w, o.ErasureID)
	switch {
	case err != nil:
		return err
	case known && e.State != ledger.ErasureAwaiting:
		return nil
	case !known:
		sc, err := readScope(ctx, w, o.Scope, len(o.Scope.Refs) > 0, false)
		if errors.Is(err, blobd.ErrNotFound) { // the tenant's row is lost
			sc, err = &scope{Scope: o.Scope}, nil
		}
		if err == nil {
			_, err = insertErasure(ctx, w, sc, ledger.Fence{ID: o.ErasureID, Scope: o.Scope, At: r.At, RunAt: r.At}, false)
		}
		if err != nil {
			return err
		}
	}
	state, due := ledger.ErasureRunning, r.At
	if !r.Until.IsZero() {
		state, due = ledger.ErasureGrace, r.Until
	}
	_, err = w.exec(ctx, "UPDATE erasures SET state = ?, run_at = ?, grace_until = ?, record = ? WHERE id = ?",
		string(state), due.UnixMicro(), micros(r.Until), r.Seq, o.ErasureID)
	if err != nil {
		return err
	}
	return insertOrder(ctx, w, o, r.Seq)
}

// relift ends an order that is there. An erasure whose closing was lifted was denied
// or cancelled. One whose suppression was lifted had ended: it runs again, and its
// suppression will be over when it begins.
func relift(ctx context.Context, w *conn, r ledger.Record) error {
	if r.OrderID == "" {
		return fmt.Errorf("a lift of no order: %w", blobd.ErrInvalid)
	}
	o, known, err := orderByID(ctx, w, r.OrderID)
	if err != nil || !known || !o.Open() || o.Scope.Tenant != r.Tenant {
		return err
	}
	if o.Kind == ledger.OrderClosing && r.OrderKind == ledger.OrderSuppression {
		_, err := w.exec(ctx, "UPDATE orders SET expires_at = ? WHERE id = ?", r.At.UnixMicro(), o.ID)
		return err
	}
	o.LiftedAt = stored(r.At)
	if err := endOrder(ctx, w, o); err != nil || o.Kind != ledger.OrderClosing {
		return err
	}
	_, err = w.exec(ctx, `UPDATE erasures SET state = 'cancelled', decided_at = ?, lease_owner = NULL, lease_until = NULL
		WHERE id = ? AND closing = 1`, r.At.UnixMicro(), o.ErasureID)
	return err
}
