package sqlite

import (
	"context"
	"math"
	"time"

	"github.com/blobd/blobd/ledger"
)

// protectedPage is how many rows are looked at at once for one that is protected.
const protectedPage = 256

// protected reports whether a hold or a floor keeps anything in a scope. It looks at
// no row where the tenant has neither, and at those of a whole tenant by way of what
// may protect them: it runs on the writer.
func protected(ctx context.Context, c *conn, known *facts, s ledger.Scope, at time.Time) (bool, error) {
	w := newWalk(c, known, s)
	switch {
	case w.fenced || !w.standing.protects():
		return false, nil
	case s.WholeTenant:
		held, err := w.anyHeld(ctx)
		if err != nil || held {
			return held, err
		}
		return w.anyFloor(ctx, known, at)
	}
	return w.any(ctx, func(r *metRow) bool {
		verdict, _ := known.protects(r, s.Tenant, at)
		return verdict != ledger.VerdictErase
	})
}

// any reports whether a row of the scope is as asked for.
func (w walk) any(ctx context.Context, is func(*metRow) bool) (bool, error) {
	var next ledger.ScopeCursor
	for {
		rows, after, err := w.page(ctx, next, protectedPage)
		if err != nil {
			return false, err
		}
		for i := range rows {
			if is(&rows[i]) {
				return true, nil
			}
		}
		if next = after; next == (ledger.ScopeCursor{}) {
			return false, nil
		}
	}
}

// protects asks ledger.Protects about a row of a tenant; what is erased has nothing to
// protect.
func (f *facts) protects(r *metRow, tenant string, at time.Time) (ledger.Verdict, time.Time) {
	if r.Erased {
		return ledger.VerdictErase, time.Time{}
	}
	return ledger.Protects(&r.DueRow, f.versions[class{tenant, r.Class}], at)
}

// anyHeld reports whether an open hold of the tenant covers a row of it that is not
// erased.
func (w walk) anyHeld(ctx context.Context) (bool, error) {
	var holds []ledger.Order
	err := w.query(ctx, "SELECT "+orderColumns+` FROM orders INDEXED BY orders_open
		WHERE lifted_at IS NULL AND tenant = ? AND kind = 1`, func(r *row) { holds = append(holds, r.order()) }, w.scope.Tenant)
	if err != nil {
		return false, err
	}
	for i := range holds {
		its := walk{conn: w.conn, scope: holds[i].Scope}
		held, err := its.any(ctx, func(r *metRow) bool { return !r.Erased && !r.nobodys })
		if err != nil || held {
			return held, err
		}
	}
	return false, nil
}

// newestOfClass are the rows of a span of a class, newest first.
const newestOfClass = ` FROM due d CROSS JOIN blobs b ON b.n = d.blob CROSS JOIN executions e ON e.tag = b.execution_tag
	WHERE d.class = (SELECT n FROM classes WHERE tenant = ? AND name = ?) AND d.created_at >= ? AND d.created_at <= ?
		AND (d.created_at, d.blob) < (?, ?) AND ` + met + " ORDER BY d.created_at DESC, d.blob DESC LIMIT ?"

// anyFloor reports whether a floor keeps a row of the tenant. Within what one version
// governs an older capture ends no later, unless its period starts with the end of its
// execution.
func (w walk) anyFloor(ctx context.Context, known *facts, at time.Time) (bool, error) {
	for c, versions := range known.versions {
		if c.tenant != w.scope.Tenant || !ledger.Floors(versions) {
			continue
		}
		for _, s := range ledger.Segments(versions) {
			if s.Policy.Floor.IsZero() {
				continue
			}
			kept, err := w.floorOf(ctx, known, c.name, s, at)
			if err != nil || kept {
				return kept, err
			}
		}
	}
	return false, nil
}

// floorOf reports whether the floor of a segment of a class keeps a row.
func (w walk) floorOf(ctx context.Context, known *facts, name string, s ledger.Segment, at time.Time) (bool, error) {
	from, to, number := int64(math.MinInt64), beforeMicros(s.To), int64(math.MinInt64)
	if !s.From.IsZero() {
		from = s.From.UnixMicro()
	}
	for {
		rows, err := w.meet(ctx, ledger.ScopeCursor{}, newestOfClass, w.scope.Tenant, name, from, to, to, number, int64(protectedPage))
		if err != nil {
			return false, err
		}
		for i := range rows {
			r := &rows[i]
			if verdict, _ := known.protects(r, w.scope.Tenant, at); verdict != ledger.VerdictErase {
				return true, nil
			}
			if !r.Erased && s.Policy.Start == ledger.StartCaptured {
				return false, nil
			}
		}
		if len(rows) < protectedPage {
			return false, nil
		}
		last := &rows[len(rows)-1]
		to, number = last.CreatedAt.UnixMicro(), last.N
	}
}
