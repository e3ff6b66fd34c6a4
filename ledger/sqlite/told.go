package sqlite

import (
	"context"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// This file tells of rows and executions what open orders say of them. What asks for
// it asks only where a tenant has such an order.

// tellClosed makes an execution, and rows of it, read as closed where they are. All of
// it must come from the snapshot that c is in.
func (l *Ledger) tellClosed(ctx context.Context, c *conn, known *facts, e *ledger.Execution, rows []*ledger.Blob) error {
	standing := known.standing[e.Tenant]
	if !standing.closes || known.erased(e) {
		return nil
	}
	reason, err := closedFor(ctx, c, e.Tenant, e.Tag)
	if err != nil {
		return err
	}
	closeExecution(e, reason)
	for _, b := range rows {
		if b != nil {
			b.Closed = reason
		}
	}
	if reason == ledger.ClosedErasure || !standing.parts || len(rows) == 0 {
		return nil
	}
	return l.tellClosedRows(ctx, c, e.Tag, rows)
}

// closedFor returns the reason that orders close an execution for, seen or not; 0:
// none.
func closedFor(ctx context.Context, c *conn, tenant string, tag blobd.ExecutionTag) (reason ledger.CloseReason, err error) {
	_, err = c.one(ctx, executionClosedQuery, func(r *row) { reason = ledger.CloseReason(r.int(0)) }, tenant, tag[:])
	return reason, err
}

// tellClosedRows says of each row whether an order closes it by itself, for a reason
// that comes before the one that it has.
func (l *Ledger) tellClosedRows(ctx context.Context, c *conn, tag blobd.ExecutionTag, rows []*ledger.Blob) error {
	for len(rows) > 0 {
		some := rows[:min(len(rows), maxRefs)]
		rows = rows[len(some):]
		n := padded(len(some))
		args := append(make([]any, 0, n+1), tag[:])
		byRef := make(map[blobd.Ref][]*ledger.Blob, len(some)) // a row may be told of twice
		for i := range n {
			b := some[min(i, len(some)-1)]
			args = append(args, b.Ref[:])
			if i < len(some) {
				byRef[b.Ref] = append(byRef[b.Ref], b)
			}
		}
		err := c.query(ctx, l.closedQueries[n], func(r *row) {
			reason := ledger.CloseReason(r.int(1))
			for _, b := range byRef[r.ref(0)] {
				b.Closed = stronger(b.Closed, reason)
			}
		}, args...)
		if err != nil {
			return err
		}
	}
	return nil
}

// tellHeld says of each row that is past its maximum whether a hold covers it.
func tellHeld(ctx context.Context, c *conn, tag blobd.ExecutionTag, rows []*ledger.Blob, now time.Time) error {
	for _, b := range rows {
		if b == nil || !b.Expired(now) {
			continue
		}
		_, err := c.one(ctx, heldRowQuery, func(r *row) { b.Held = r.bool(0) }, tag[:], b.Ref[:])
		if err != nil {
			return err
		}
	}
	return nil
}

// closeExecution makes an open execution read as closed for a reason, if there is one.
func closeExecution(e *ledger.Execution, reason ledger.CloseReason) {
	if reason != 0 && e.State == ledger.ExecutionOpen {
		e.State, e.CloseReason = ledger.ExecutionClosed, reason
	}
}

// erased reports whether an execution is, or its tenant: nothing is told of its rows.
func (f *facts) erased(e *ledger.Execution) bool {
	_, fenced := f.fenced[e.Tenant]
	return fenced || e.State == ledger.ExecutionErased
}
