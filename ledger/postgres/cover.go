package postgres

import (
	"math"
	"time"

	"github.com/blobd/blobd/ledger"
)

// Which open orders cover what is said once, by functions of the schema: see the
// migration that makes them. They are asked only where the tenant has such an order at
// all, which most have not, and what an index on kinds tells at once. e is the
// execution, b its row.
const (
	ofTenant  = "(g.kind) FROM orders g WHERE g.tenant = e.tenant AND g.lifted_at IS NULL"
	overRow   = "order_over_row(e.tenant, e.tag, b.ref, b.class, b.created_at, "
	hasHold   = "(SELECT min" + ofTenant + ") = 1"
	hasCloser = "(SELECT max" + ofTenant + " AND g.kind <= 3) >= 2"

	// heldRow tells whether a hold covers a row. What closes a row or an execution is
	// told by its greatest kind, 0 for none: a closing comes before a restriction.
	heldRow         = "CASE WHEN " + hasHold + " THEN " + overRow + "'{1}') = 1 ELSE FALSE END"
	closedRow       = "CASE WHEN " + hasCloser + " THEN " + overRow + "'{2,3}') ELSE 0 END"
	closedExecution = "CASE WHEN " + hasCloser + " THEN order_over_execution(e.tenant, e.tag) ELSE 0 END"
)

// coverColumns follow ruleColumns, of executions e and tenants t. Of an execution that
// is erased, or has no row, they tell nothing, and uncovered never does. joinColumns
// are for what only asks whether a row is closed.
const (
	coverColumns = "CASE WHEN " + living + " THEN " + closedRow + " ELSE 0 END, CASE WHEN " + living + " THEN " + heldRow + " ELSE FALSE END"
	joinColumns  = "CASE WHEN " + living + " THEN " + closedRow + " ELSE 0 END, FALSE"
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
