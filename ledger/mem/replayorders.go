package mem

import (
	"fmt"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// checkOrderReplay refuses the record of an order that no ledger made.
func (l *Ledger) checkOrderReplay(r ledger.Record) error {
	s := r.Scope()
	switch {
	case r.OrderID == "" || r.Tenant == "" || s.Check() != nil || s.Form() != r.Form,
		r.OrderKind < ledger.OrderHold || r.OrderKind > ledger.OrderSuppression,
		r.OrderKind == ledger.OrderClosing && (r.ErasureID == "" || r.ErasureID != r.OrderID),
		r.OrderKind == ledger.OrderSuppression && r.Form != ledger.ScopeSubjects:
		return fmt.Errorf("the record of an order of kind %d and form %d: %w", r.OrderKind, r.Form, blobd.ErrInvalid)
	}
	return l.ours(&s)
}

// reapplyOrder brings an order back, a closing with its erasure.
func (l *Ledger) reapplyOrder(r ledger.Record) {
	if l.orders[r.OrderID] != nil {
		return
	}
	o := ledger.Order{
		ID: r.OrderID, Kind: r.OrderKind, Scope: r.Scope(), ErasureID: r.ErasureID, Purposes: r.Purposes, PlacedAt: r.At,
	}
	if r.OrderKind != ledger.OrderClosing {
		o.ExpiresAt = r.Until
		l.insertOrder(o).first = r
		return
	}
	e := l.erasure(r.ErasureID)
	if e != nil && e.State != ledger.ErasureAwaiting {
		return
	}
	if e == nil {
		e = newErasure(&ledger.Fence{ID: r.ErasureID, At: r.At, Scope: o.Scope})
		e.Wrap = l.wrapOf(o.Scope)
		l.erasures = append(l.erasures, e)
	}
	l.closeScope(e, step{at: r.At, runAt: r.At, grace: r.Until})
	e.first = r
}

// reapplyLift lifts an order that is there. An erasure whose closing was lifted was
// denied or cancelled; one whose suppression was lifted had ended, so that it runs
// again, and its suppression is over.
func (l *Ledger) reapplyLift(r ledger.Record) {
	o := l.orders[r.OrderID]
	if o == nil || !o.Open() || o.Scope.Tenant != r.Tenant {
		return
	}
	if o.Kind == ledger.OrderClosing && r.OrderKind == ledger.OrderSuppression {
		o.ExpiresAt = r.At
		return
	}
	l.end(o, r.At, "", "")
	if e := l.erasure(o.ErasureID); o.Kind == ledger.OrderClosing && e != nil && e.Closing {
		e.State, e.DecidedAt, e.held = ledger.ErasureCancelled, kept(r.At), false
	}
}
