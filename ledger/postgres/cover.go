package postgres

import (
	"math"
	"time"

	"github.com/blobd/blobd/ledger"
)

// Which open orders cover what. It is said once, here, for holds, restrictions and
// closings alike: o are the orders, e the execution, b its row. Each part has an index
// of its own, so that the time does not grow with orders that cover something else.
const (
	coversExecution = `SELECT o.kind FROM orders o WHERE o.tenant = e.tenant AND o.form = 5 AND o.lifted_at IS NULL
		UNION ALL SELECT o.kind FROM orders o WHERE o.execution_tag = e.tag AND o.form = 1 AND o.tenant = e.tenant AND o.lifted_at IS NULL`
	coversRow = coversExecution + `
		UNION ALL SELECT o.kind FROM order_refs r JOIN orders o ON o.seq = r.order_seq
			WHERE r.ref = b.ref AND o.execution_tag = e.tag AND o.tenant = e.tenant AND o.lifted_at IS NULL
		UNION ALL SELECT o.kind FROM orders o WHERE o.tenant = e.tenant AND o.form = 4 AND o.class = b.class
			AND o.captured_before > b.created_at AND o.lifted_at IS NULL
		UNION ALL SELECT o.kind FROM subjects s JOIN order_subjects os ON os.subject = s.subject JOIN orders o ON o.seq = os.order_seq
			WHERE s.execution_tag = b.execution_tag AND s.ref = b.ref AND o.tenant = e.tenant AND o.lifted_at IS NULL`

	// Whether a tenant has such orders at all: what most have not.
	ofTenant = "EXISTS (SELECT 1 FROM orders g WHERE g.tenant = e.tenant AND g.lifted_at IS NULL AND g.kind "
	holding  = ofTenant + "= 1)"
	closing  = ofTenant + "IN (2, 3))"

	// heldRow tells whether a hold covers a row. What closes a row or an execution is
	// told by its greatest kind, 0 for none: a closing comes before a restriction.
	heldRow         = "CASE WHEN " + holding + " THEN EXISTS (SELECT 1 FROM (" + coversRow + ") o WHERE o.kind = 1) ELSE FALSE END"
	closedRow       = "CASE WHEN " + closing + " THEN (SELECT coalesce(max(o.kind), 0) FROM (" + coversRow + ") o WHERE o.kind IN (2, 3)) ELSE 0 END"
	closedExecution = "CASE WHEN " + closing + " THEN (SELECT coalesce(max(o.kind), 0) FROM (" + coversExecution + ") o WHERE o.kind IN (2, 3)) ELSE 0 END"
)

// coverColumns follow ruleColumns, of executions e and tenants t. Of an execution that is erased, or has no row,
// they tell nothing, and uncovered never does.
const (
	coverColumns = "CASE WHEN " + living + " THEN " + closedRow + " ELSE 0 END, CASE WHEN " + living + " THEN " + heldRow + " ELSE FALSE END"
	living       = "e.state <> 3 AND t.fenced_at IS NULL"
	uncovered    = "0, FALSE"
)

// coverRow scans coverColumns.
type coverRow struct {
	closed int16
	held   bool
}

func (c *coverRow) to() []any { return []any{&c.closed, &c.held} }

// set tells of a living execution's row what covers it. Holds are told of what is
// past its maximum at now.
func (c *coverRow) set(b *ledger.Blob, now time.Time) {
	b.Closed = ledger.OrderKind(c.closed).Closes()
	b.Held = c.held && b.Expired(now)
}

// ends is the stored form of the end of a class's scope.
func ends(before time.Time) int64 {
	if before.IsZero() {
		return math.MaxInt64
	}
	return before.UnixMicro()
}

// serverClock is the server's time, in microseconds.
const serverClock = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
