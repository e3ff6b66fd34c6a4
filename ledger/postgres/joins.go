package postgres

import (
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// ordersMet finds the open orders that may close or suppress captures: of their
// tenants, executions, classes as of the oldest, refs and subjects. It is a statement
// after the tenants' locks.
const ordersMet = `SELECT kind, form, tenant, execution_tag, class, captured_before, expires_at, item
	FROM orders_met($1::text[], $2::bytea[], $3::text[], $4, $5::bytea[], $6::bytea[])`

// openOrder is an order as captures meet it.
type openOrder struct {
	kind    ledger.OrderKind
	form    ledger.ScopeForm
	tenant  string
	tag     blobd.ExecutionTag
	class   string
	before  int64
	expires time.Time
	item    [32]byte // the ref or subject that was met
}

func (b *batch) scanOrder(r pgx.CollectableRow) error {
	var o openOrder
	err := r.Scan(&o.kind, &o.form, &o.tenant, fixed(o.tag[:]), &o.class, &o.before, moment{&o.expires}, fixed(o.item[:]))
	b.orders = append(b.orders, o)
	return err
}

// covered returns the kind of order that closes what a capture would join, the
// greatest one, and whether one of its subjects is suppressed.
func (b *batch) covered(c *ledger.Capture) (closes ledger.OrderKind, suppressed bool) {
	for i := range b.orders {
		o := &b.orders[i]
		switch {
		case o.tenant != c.Tenant || !o.covers(c):
		case o.kind != ledger.OrderSuppression:
			closes = max(closes, o.kind)
		case o.expires.IsZero() || c.SuppressedAsOf().Before(o.expires):
			suppressed = true
		}
	}
	return closes, suppressed
}

func (o *openOrder) covers(c *ledger.Capture) bool {
	switch o.form {
	case ledger.ScopeTenant:
		return true
	case ledger.ScopeExecution:
		return o.tag == c.Tag
	case ledger.ScopeSubjects:
		for i := range c.Subjects {
			if c.Subjects[i] == o.item {
				return true
			}
		}
		return false
	}
	for i := range c.Blobs {
		n := &c.Blobs[i]
		if o.form == ledger.ScopeRefs && o.tag == c.Tag && n.Ref == o.item ||
			o.form == ledger.ScopeClass && o.class == n.Class && c.At.UnixMicro() < o.before {
			return true
		}
	}
	return false
}

// closedBy is the answer of a put to what is closed.
func closedBy(r ledger.CloseReason) error {
	if r == ledger.ClosedRestricted {
		return blobd.ErrRestricted
	}
	return blobd.ErrClosed
}
