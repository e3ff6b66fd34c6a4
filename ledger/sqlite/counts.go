package sqlite

import (
	"context"
	"fmt"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// Coverage implements ledger.Closings.
func (l *Ledger) Coverage(ctx context.Context, tenant string) (c ledger.Coverage, err error) {
	known, err := l.known(ctx)
	if err != nil {
		return c, classify("coverage", err)
	}
	if _, fenced := known.fenced[tenant]; fenced {
		return c, nil
	}
	err = l.read(ctx, "coverage", func(conn *conn) error {
		_, err := conn.one(ctx, `SELECT count(*), ifnull(sum(EXISTS (SELECT 1 FROM subjects s
				WHERE s.execution_tag = b.execution_tag AND s.ref = b.ref)), 0)
			FROM executions e CROSS JOIN blobs b ON b.execution_tag = e.tag
			WHERE e.tenant = ? AND e.state <> 3 AND b.state = 1`,
			func(r *row) { c = ledger.Coverage{Blobs: r.int(0), Tagged: r.int(1)} }, tenant)
		return err
	})
	return c, err
}

// FindRef implements ledger.Closings.
func (l *Ledger) FindRef(ctx context.Context, tenant string, ref blobd.Ref, limit int) (tags []blobd.ExecutionTag, err error) {
	if err := checkLimit(limit); err != nil {
		return nil, classify("find a ref", err)
	}
	err = l.read(ctx, "find a ref", func(c *conn) error {
		return c.query(ctx, `SELECT e.tag FROM executions e CROSS JOIN blobs b ON b.execution_tag = e.tag AND b.ref = ?
			WHERE e.tenant = ? ORDER BY e.tag LIMIT ?`, func(r *row) { tags = append(tags, r.tag(0)) }, ref[:], tenant, int64(limit))
	})
	return tags, err
}

// CountHeld implements ledger.Orders.
func (l *Ledger) CountHeld(ctx context.Context, tenant, id string, atMost int64) (rows, bytes int64, err error) {
	const op = "count held"
	if atMost < 1 {
		return 0, 0, classify(op, fmt.Errorf("at most %d: %w", atMost, blobd.ErrInvalid))
	}
	known, err := l.known(ctx)
	if err != nil {
		return 0, 0, classify(op, err)
	}
	err = l.snapshot(ctx, op, func(c *conn) error {
		o, found, err := orderByID(ctx, c, id)
		if err := orNotFound(found && o.Scope.Tenant == tenant, err); err != nil {
			return err
		}
		w := newWalk(c, known, o.Scope)
		w.standing = standing{} // who else holds them does not matter
		rows, bytes, err = w.count(ctx, atMost)
		return err
	})
	if err != nil {
		return 0, 0, err
	}
	return rows, bytes, nil
}

// count counts the rows that hold content, up to atMost.
func (w walk) count(ctx context.Context, atMost int64) (rows, bytes int64, err error) {
	var next ledger.ScopeCursor
	for {
		page, after, err := w.page(ctx, next, ledger.MaxExpiry)
		if err != nil {
			return 0, 0, err
		}
		for i := range page {
			r := &page[i]
			if r.Erased || r.State == ledger.BlobExpired || r.Class == "" {
				continue
			}
			if rows, bytes = rows+1, bytes+r.Size; rows == atMost {
				return rows, bytes, nil
			}
		}
		if next = after; next == (ledger.ScopeCursor{}) {
			return rows, bytes, nil
		}
	}
}
