package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/blobd/blobd"
)

// Orders holds what people order over a scope: holds, restrictions, suppressions,
// and the closings that erasures place over what they have not fenced.
//
// An order is open from the commit that placed it to the commit that lifted it. It
// covers the rows of its scope, those that come later too.
//
//   - A hold: no row that it covers loses its key, in any method. It changes no
//     answer.
//   - A restriction, a closing: what they cover is told as closed, by every method
//     that tells of it (an execution by its State and CloseReason, where a whole
//     execution or tenant is covered; a row by Blob.Closed), and Commit refuses
//     what would join it.
//   - A suppression, of subjects: Commit refuses a capture with one of them.
//
// Placing one waits for the transactions that share the tenant (puts, fences, the
// drops of erasures and sweeps) and keeps others out until it committed, so each of
// them sees it or came before it.
type Orders interface {
	// PlaceOrder inserts an order and its journal record. The same id again changes
	// nothing and returns the order as it stands, with its first record; with
	// another kind, tenant or scope it is ErrConflict. What Order.Check refuses is
	// ErrInvalid; an unknown tenant is ErrNotFound, a fenced one ErrTenantErased, an
	// execution of another tenant ErrConflict.
	PlaceOrder(ctx context.Context, o Order, e Entry) (Order, Record, error)
	// LiftOrder ends an order of a tenant and returns its journal record; one that
	// was lifted stays as it is and returns the zero record. With a hold, the
	// tenant's deferred erasures become due at l.At, unless they are due before. One of another tenant or kind,
	// or an unknown one, is ErrNotFound. A closing is lifted by its erasure alone:
	// ErrInvalid.
	LiftOrder(ctx context.Context, l Lift, e Entry) (Order, Record, error)
	// Order returns one of the tenant's, or ErrNotFound.
	Order(ctx context.Context, tenant, id string) (Order, error)
	// ListOrders returns a tenant's orders of a kind, newest first. Of closings it is
	// ErrInvalid.
	ListOrders(ctx context.Context, q OrderQuery) ([]Order, error)
	// CountHeld counts the rows that an order covers, lifted or not, and that hold
	// content (those that Due could return, but for expired ones), and their readable
	// bytes; it stops at atMost rows (1 or more, else ErrInvalid). An order that is
	// unknown or another tenant's is ErrNotFound.
	CountHeld(ctx context.Context, tenant, id string, atMost int64) (rows, bytes int64, err error)
}

// OrderKind is what an order does.
type OrderKind uint8

// The kinds of orders. Values are stored: never renumber.
const (
	OrderHold        OrderKind = 1
	OrderRestriction OrderKind = 2
	OrderClosing     OrderKind = 3 // of an erasure; one of subjects becomes a suppression when it finished
	OrderSuppression OrderKind = 4
)

// String returns the contract's word.
func (k OrderKind) String() string {
	switch k {
	case OrderHold:
		return "hold"
	case OrderRestriction:
		return "restriction"
	case OrderClosing:
		return "closing"
	case OrderSuppression:
		return "suppression"
	}
	return "unknown"
}

// Order is an order's row.
type Order struct {
	ID        string // made by the caller, unique for ever
	Kind      OrderKind
	Scope     Scope  // whole, refs and subjects too; both in byte order, each once
	ErasureID string // of a closing, and of the suppression that it became
	// Free text, of this row alone.
	Matter, Reason, Owner string
	// Purposes for which a person may read what a restriction covers.
	Purposes []string
	ReviewAt time.Time // zero: none; nothing happens then
	// ExpiresAt is of a suppression; zero: never. No other order expires. One that did
	// is not lifted by it.
	ExpiresAt time.Time
	PlacedAt  time.Time
	PlacedBy  string    // token id
	LiftedAt  time.Time // zero: open
	LiftedBy  string
	// LiftReason is free text, of this row alone.
	LiftReason string
}

// Open reports whether the order was not lifted.
func (o *Order) Open() bool { return o.LiftedAt.IsZero() }

// Check refuses what no engine takes from PlaceOrder, as ErrInvalid.
func (o *Order) Check() error {
	if err := o.Scope.Check(); err != nil {
		return err
	}
	switch {
	case o.ID == "":
		return fmt.Errorf("an order without an id: %w", blobd.ErrInvalid)
	case o.Scope.Tenant == "":
		return fmt.Errorf("an order without a tenant: %w", blobd.ErrInvalid)
	case o.Kind != OrderHold && o.Kind != OrderRestriction && o.Kind != OrderSuppression:
		return fmt.Errorf("an order of kind %d: %w", o.Kind, blobd.ErrInvalid)
	case o.Kind == OrderSuppression && o.Scope.Form() != ScopeSubjects:
		return fmt.Errorf("a suppression is of subjects: %w", blobd.ErrInvalid)
	case o.Kind != OrderSuppression && !o.ExpiresAt.IsZero():
		return fmt.Errorf("a %s does not expire: %w", o.Kind, blobd.ErrInvalid)
	}
	return nil
}

// Reason of closing that an order gives to what it covers; 0: none.
func (k OrderKind) Closes() CloseReason {
	switch k {
	case OrderClosing:
		return ClosedErasure
	case OrderRestriction:
		return ClosedRestricted
	}
	return 0
}

// Lift ends an order.
type Lift struct {
	Tenant string
	Kind   OrderKind
	ID     string
	At     time.Time
	By     string // token id
	Reason string // free text
}

// OrderQuery selects orders of one kind. A closing is told by its erasure and has
// no listing.
type OrderQuery struct {
	Tenant string
	Kind   OrderKind
	// Open selects those that were not lifted.
	Open   bool
	Before OrderCursor
	Limit  int
}

// OrderCursor is a position in the order newest first; zero is the start.
type OrderCursor struct {
	PlacedAt time.Time
	ID       string
}

// Covers reports whether a scope covers a row of its tenant, for engines that hold
// rows in memory. has reports whether the row is tagged with a subject.
func (s *Scope) Covers(r *DueRow, has func(subject [32]byte) bool) bool {
	switch s.Form() {
	case ScopeTenant:
		return true
	case ScopeExecution:
		return s.Tag == r.Tag
	case ScopeRefs:
		if s.Tag != r.Tag {
			return false
		}
		for _, ref := range s.Refs {
			if ref == r.Ref {
				return true
			}
		}
	case ScopeClass:
		return s.Class == r.Class && (s.CapturedBefore.IsZero() || r.CreatedAt.Before(s.CapturedBefore))
	case ScopeSubjects:
		for _, subject := range s.Subjects {
			if has(subject) {
				return true
			}
		}
	}
	return false
}
