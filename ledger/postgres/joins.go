package postgres

import (
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// ordersOf finds the open orders that may close or suppress captures: of their
// tenants ($1), executions ($2), classes ($3, as of the oldest, $4), refs ($5) and
// subjects ($6). It is a statement after the tenants' locks.
const ordersOf = `SELECT o.kind, o.form, o.tenant, o.execution_tag, o.class, o.captured_before, o.expires_at, q.item FROM (
		SELECT seq, NULL::bytea AS item FROM orders WHERE tenant = ANY($1::text[]) AND form = 5 AND lifted_at IS NULL
		UNION ALL SELECT seq, NULL FROM orders WHERE execution_tag = ANY($2::bytea[]) AND form = 1 AND lifted_at IS NULL
		UNION ALL SELECT seq, NULL FROM orders WHERE tenant = ANY($1::text[]) AND form = 4 AND class = ANY($3::text[])
			AND captured_before > $4 AND lifted_at IS NULL
		UNION ALL SELECT order_seq, ref FROM order_refs WHERE ref = ANY($5::bytea[])
		UNION ALL SELECT order_seq, subject FROM order_subjects WHERE subject = ANY($6::bytea[])
	) q JOIN orders o ON o.seq = q.seq WHERE o.kind IN (2, 3, 4) AND o.lifted_at IS NULL`

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
		case o.expires.IsZero() || c.At.Before(o.expires):
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
