package sqlite

import (
	"context"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// This file refuses captures that would join what an open order closes or suppresses.

// checkOrders asks about all of a capture that needs no row: its execution and tenant,
// and the classes, refs and subjects that it brings.
func (b *batch) checkOrders(ctx context.Context, c *ledger.Capture) error {
	standing := b.known.standing[c.Tenant]
	if !standing.closes && !standing.subjects {
		return nil
	}
	var closed ledger.CloseReason
	if standing.closes {
		reason, err := closedFor(ctx, b.w, c.Tenant, c.Tag)
		if err != nil {
			return err
		}
		closed = stronger(closed, reason)
	}
	for i := 0; standing.parts && i < len(c.Blobs); i++ {
		_, err := b.w.one(ctx, newClosedQuery, func(r *row) { closed = stronger(closed, ledger.CloseReason(r.int(0))) },
			c.Tenant, c.Tag[:], c.Blobs[i].Ref[:], c.Blobs[i].Class, c.At.UnixMicro())
		if err != nil {
			return err
		}
	}
	suppressed := false
	for i := 0; standing.subjects && i < len(c.Subjects); i++ {
		err := b.w.query(ctx, subjectOrdersQuery, func(r *row) {
			closed = stronger(closed, ledger.OrderKind(r.int(0)).Closes())
			suppresses := r.int(0) == kindSuppression && (r.null(1) || c.SuppressedAsOf().UnixMicro() < r.int(1))
			suppressed = suppressed || suppresses
		}, c.Tenant, c.Subjects[i][:])
		if err != nil {
			return err
		}
	}
	if err := putError(closed); err != nil {
		return refusal{err}
	}
	if suppressed {
		return refusal{blobd.ErrSuppressed}
	}
	return nil
}

// join notes why a live row that the capture would add to is closed by itself, and
// reports whether it is. What closes its execution refused the capture before.
func (s *step) join(ctx context.Context, ref blobd.Ref) (closed bool, err error) {
	if !s.known.standing[s.capture.Tenant].parts {
		return false, nil
	}
	var reason ledger.CloseReason
	_, err = s.w.one(ctx, closedRowQuery, func(r *row) { reason = ledger.CloseReason(r.int(0)) }, s.capture.Tag[:], ref[:])
	s.closed = stronger(s.closed, reason)
	return reason != 0, err
}

// stronger is the reason that comes first, of two of which 0 is none.
func stronger(a, b ledger.CloseReason) ledger.CloseReason {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// putError is what a put is told that would join what is closed; nil: nothing is.
func putError(reason ledger.CloseReason) error {
	switch reason {
	case ledger.ClosedErasure:
		return blobd.ErrClosed
	case ledger.ClosedRestricted:
		return blobd.ErrRestricted
	}
	return nil
}
