package sqlite

import (
	"fmt"

	"github.com/blobd/blobd/ledger"
)

// This file is the one place that says which open orders cover a row. The
// expressions are about a row b (execution_tag, ref, class, created_at) of an
// execution e (tenant, tag); each takes one look at an index of open orders, whatever
// their number.

// The kinds of orders, as they are stored.
const (
	kindHold        = int(ledger.OrderHold)
	kindRestriction = int(ledger.OrderRestriction)
	kindClosing     = int(ledger.OrderClosing)
	kindSuppression = int64(ledger.OrderSuppression)
)

func tenantCover(kind int) string {
	return fmt.Sprintf(`EXISTS (SELECT 1 FROM orders o INDEXED BY orders_open
		WHERE o.lifted_at IS NULL AND o.tenant = e.tenant AND o.kind = %d AND o.form = 5)`, kind)
}

func executionCover(kind int) string {
	return fmt.Sprintf(`EXISTS (SELECT 1 FROM orders o INDEXED BY orders_execution
		WHERE o.lifted_at IS NULL AND o.form = 1 AND o.execution_tag = e.tag AND o.kind = %d AND o.tenant = e.tenant)`, kind)
}

func refsCover(kind int) string {
	return fmt.Sprintf(`EXISTS (SELECT 1 FROM order_refs o INDEXED BY order_refs_open
		WHERE o.open = 1 AND o.execution_tag = b.execution_tag AND o.ref = b.ref AND o.kind = %d AND o.tenant = e.tenant)`, kind)
}

func classCover(kind int) string {
	return fmt.Sprintf(`EXISTS (SELECT 1 FROM orders o INDEXED BY orders_class
		WHERE o.lifted_at IS NULL AND o.form = 4 AND o.tenant = e.tenant AND o.class = b.class AND o.kind = %d
			AND o.before > b.created_at)`, kind)
}

func subjectsCover(kind int) string {
	return fmt.Sprintf(`EXISTS (SELECT 1 FROM subjects s CROSS JOIN order_subjects o INDEXED BY order_subjects_open
		WHERE s.execution_tag = b.execution_tag AND s.ref = b.ref
			AND o.open = 1 AND o.tenant = e.tenant AND o.subject = s.subject AND o.kind = %d)`, kind)
}

// wholeCover covers an execution with all that is in it, rowCover a row by itself.
func wholeCover(kind int) string {
	return "(" + executionCover(kind) + " OR " + tenantCover(kind) + ")"
}

func rowCover(kind int) string {
	return "(" + refsCover(kind) + " OR " + classCover(kind) + " OR " + subjectsCover(kind) + ")"
}

// closes is the reason of closing (0: none) that a cover gives: a closing comes
// before a restriction.
func closes(cover func(kind int) string) string {
	return "CASE WHEN " + cover(kindClosing) + " THEN 1 WHEN " + cover(kindRestriction) + " THEN 2 ELSE 0 END"
}

var (
	// heldRow reports whether an open hold covers a row. One whose execution has no row
	// is in no tenant.
	heldRow = "(" + executionCover(kindHold) + " OR " + rowCover(kindHold) + " OR " + tenantCover(kindHold) +
		" AND EXISTS (SELECT 1 FROM executions x WHERE x.tag = e.tag))"
	// closedExecution is the reason that an execution is closed for, closedRow that
	// of a row by itself.
	closedExecution = closes(wholeCover)
	closedRow       = closes(rowCover)
	// closedNew is closedRow of a row that is not there yet, but for its subjects.
	closedNew = closes(func(kind int) string { return "(" + refsCover(kind) + " OR " + classCover(kind) + ")" })
)

// The questions about what need not have a row.
var (
	executionClosedQuery = "SELECT " + closedExecution + " FROM (SELECT ? AS tenant, ? AS tag) e"
	newClosedQuery       = "SELECT " + closedNew + ` FROM (SELECT ? AS tenant) e,
		(SELECT ? AS execution_tag, ? AS ref, ? AS class, ? AS created_at) b`
	// subjectOrdersQuery finds what a capture with a subject may be refused for.
	subjectOrdersQuery = `SELECT kind, (SELECT expires_at FROM orders WHERE seq = placed)
		FROM order_subjects INDEXED BY order_subjects_open WHERE open = 1 AND tenant = ? AND subject = ? AND kind > 1`
	closedRowQuery = "SELECT " + closedRow + ` FROM blobs b CROSS JOIN executions e ON e.tag = b.execution_tag
		WHERE b.execution_tag = ? AND b.ref = ?`
	heldRowQuery = "SELECT " + heldRow + ` FROM blobs b CROSS JOIN executions e ON e.tag = b.execution_tag
		WHERE b.execution_tag = ? AND b.ref = ?`
)

// makeClosedQueries are the statements for the reasons of rows of one execution.
func makeClosedQueries() lookupQueries {
	q := make(lookupQueries)
	for _, n := range paddings {
		q[n] = "SELECT b.ref, " + closedRow + ` FROM blobs b CROSS JOIN executions e ON e.tag = b.execution_tag
			WHERE b.execution_tag = ? AND b.ref IN (` + placeholders(n) + ")"
	}
	return q
}
