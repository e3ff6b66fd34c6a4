package sqlite

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// met selects what an erasure meets: not what was collected, nor tombstones, which
// have lost their class.
const met = "(b.state IN (1, 3, 4, 6) OR b.state IN (2, 7) AND b.class <> '')"

// The rows of each form of a scope after a place, by the tables and indexes made for
// it. They follow the columns of selectScope.
const (
	rowsOfExecution = boundedExecution + " AND b.ref > ? AND " + met + " ORDER BY b.ref LIMIT ?"
	rowOfRef        = boundedExecution + " AND b.ref = ? AND " + met
	rowsOfSubject   = ` FROM subjects s CROSS JOIN blobs b ON b.execution_tag = s.execution_tag AND b.ref = s.ref
		CROSS JOIN executions e ON e.tag = s.execution_tag
		WHERE s.subject = ? AND (s.execution_tag, s.ref) > (?, ?) AND e.tenant = ? AND ` + met + `
		ORDER BY s.execution_tag, s.ref LIMIT ?`
	rowsOfClass = ` FROM due d CROSS JOIN blobs b ON b.n = d.blob CROSS JOIN executions e ON e.tag = b.execution_tag
		WHERE d.class = (SELECT n FROM classes WHERE tenant = ? AND name = ?) AND d.created_at >= ? AND d.created_at < ?
			AND (d.created_at, d.blob) > (?, ?) AND ` + met + " ORDER BY d.created_at, d.blob LIMIT ?"
	executionsOfTenant = `SELECT created_at, tag FROM executions
		WHERE tenant = ? AND (created_at, tag) >= (?, ?) ORDER BY created_at, tag LIMIT ?`
)

// boundedExecution are the rows of one execution of a tenant. Its own row may be lost:
// then its rows are the tenant's too whose tag it is.
const boundedExecution = ` FROM blobs b CROSS JOIN
	(SELECT tag, tenant, id, state, created_at, ended_at FROM executions WHERE tag = ?
	UNION ALL SELECT ?, ?, '', 0, 0, NULL WHERE NOT EXISTS (SELECT 1 FROM executions WHERE tag = ?)) e
	WHERE b.execution_tag = ? AND e.tenant = ?`

func (w walk) bounded(tag blobd.ExecutionTag, more ...any) []any {
	return append([]any{tag[:], tag[:], w.scope.Tenant, tag[:], tag[:], w.scope.Tenant}, more...)
}

// selectScope is a query for rows of a scope, whose end from is.
func (s standing) selectScope(from string) string {
	return "SELECT " + dueColumns + s.heldBy() + ", e.state, e.created_at" + from
}

// walk goes over the rows of a scope. Whether they are held is read with them.
type walk struct {
	*conn
	scope    ledger.Scope
	standing standing
	fenced   bool
}

func newWalk(c *conn, known *facts, s ledger.Scope) walk {
	_, fenced := known.fenced[s.Tenant]
	return walk{c, storedScope(s), known.standing[s.Tenant], fenced}
}

// metRow is a row of a scope and the place behind it.
type metRow struct {
	ledger.ScopeRow
	nobodys bool // its execution has no row
	after   ledger.ScopeCursor
}

// page returns up to limit rows after a place and where the next page begins.
func (w walk) page(ctx context.Context, after ledger.ScopeCursor, limit int) (rows []metRow, next ledger.ScopeCursor, err error) {
	n := limit + 1 // one more, to know whether there is one
	switch w.scope.Form() {
	case ledger.ScopeExecution:
		rows, err = w.meet(ctx, ledger.ScopeCursor{}, rowsOfExecution, w.bounded(w.scope.Tag, afterRef(after), int64(n))...)
	case ledger.ScopeRefs:
		rows, err = w.refs(ctx, after, n)
	case ledger.ScopeSubjects:
		rows, err = w.subjects(ctx, after, n)
	case ledger.ScopeClass:
		rows, err = w.class(ctx, after, n)
	case ledger.ScopeTenant:
		rows, err = w.tenant(ctx, after, n)
	}
	if err == nil && len(rows) > limit {
		rows = rows[:limit]
		next = rows[limit-1].after
	}
	return rows, next, err
}

// afterRef is the ref of a place; nothing comes before the empty one.
func afterRef(c ledger.ScopeCursor) []byte {
	if c.Position == (ledger.Position{}) {
		return []byte{}
	}
	return c.Ref[:]
}

func (w walk) meet(ctx context.Context, at ledger.ScopeCursor, from string, args ...any) (rows []metRow, err error) {
	err = w.query(ctx, w.standing.selectScope(from), func(r *row) {
		m := metRow{after: at}
		m.DueRow = r.due()
		state := ledger.ExecutionState(r.int(dueColumnCount))
		m.Erased = w.fenced || state == ledger.ExecutionErased || m.State == ledger.BlobErased
		m.nobodys = state == 0
		m.after.Position = m.Position
		switch w.scope.Form() {
		case ledger.ScopeTenant:
			m.after.CreatedAt = r.time(dueColumnCount + 1)
		case ledger.ScopeClass:
			m.after.CreatedAt, m.after.N = m.CreatedAt, m.N
		}
		rows = append(rows, m)
	}, args...)
	return rows, err
}

// tenantPage is how many executions of a tenant are read at once.
const tenantPage = 64

// tenant goes over one execution after the other, oldest first.
func (w walk) tenant(ctx context.Context, after ledger.ScopeCursor, n int) (rows []metRow, err error) {
	type execution struct {
		createdAt int64
		tag       blobd.ExecutionTag
	}
	createdAt, tag := int64(math.MinInt64), []byte{}
	if after.Position != (ledger.Position{}) {
		createdAt, tag = after.CreatedAt.UnixMicro(), after.Tag[:]
	}
	for skip := false; ; skip = true {
		var page []execution
		err := w.query(ctx, executionsOfTenant, func(r *row) {
			page = append(page, execution{r.int(0), r.tag(1)})
		}, w.scope.Tenant, createdAt, tag, int64(tenantPage))
		if err != nil {
			return nil, err
		}
		for i, e := range page {
			if skip && i == 0 { // the last of the page before
				continue
			}
			ref := []byte{}
			if e.tag == after.Tag {
				ref = afterRef(after)
			}
			found, err := w.meet(ctx, ledger.ScopeCursor{}, rowsOfExecution, w.bounded(e.tag, ref, int64(n-len(rows)))...)
			if err != nil {
				return nil, err
			}
			if rows = append(rows, found...); len(rows) == n {
				return rows, nil
			}
		}
		if len(page) < tenantPage {
			return rows, nil
		}
		last := page[len(page)-1]
		createdAt, tag = last.createdAt, last.tag[:]
	}
}

func (w walk) refs(ctx context.Context, after ledger.ScopeCursor, n int) (rows []metRow, err error) {
	for _, ref := range w.scope.Refs {
		if after.Position != (ledger.Position{}) && slices.Compare(ref[:], after.Ref[:]) <= 0 {
			continue
		}
		found, err := w.meet(ctx, ledger.ScopeCursor{}, rowOfRef, w.bounded(w.scope.Tag, ref[:])...)
		if err != nil {
			return nil, err
		}
		if rows = append(rows, found...); len(rows) == n {
			break
		}
	}
	return rows, nil
}

func (w walk) class(ctx context.Context, after ledger.ScopeCursor, n int) ([]metRow, error) {
	from, to := int64(math.MinInt64), beforeMicros(w.scope.CapturedBefore)
	number := from
	if after != (ledger.ScopeCursor{}) {
		from, number = after.CreatedAt.UnixMicro(), after.N
	}
	return w.meet(ctx, ledger.ScopeCursor{}, rowsOfClass, w.scope.Tenant, w.scope.Class, from, to, from, number, int64(n))
}

// beforeMicros is the stored form of the end of a class's scope.
func beforeMicros(t time.Time) int64 {
	if t.IsZero() {
		return math.MaxInt64
	}
	return t.UnixMicro()
}

// subjects goes over the rows of one subject after the other. A row that is tagged
// with several is met once, with the first.
func (w walk) subjects(ctx context.Context, after ledger.ScopeCursor, n int) (rows []metRow, err error) {
	for part := after.Part; part < len(w.scope.Subjects) && len(rows) < n; part++ {
		at := ledger.ScopeCursor{Part: part}
		if part == after.Part {
			at.Position = after.Position
		}
		for {
			tag := at.Tag[:]
			if at.Position == (ledger.Position{}) {
				tag = []byte{}
			}
			want := n - len(rows)
			found, err := w.meet(ctx, at, rowsOfSubject, w.scope.Subjects[part][:], tag, afterRef(at), w.scope.Tenant, int64(want))
			if err != nil {
				return nil, err
			}
			for i := range found {
				earlier, err := w.shared(ctx, part, &found[i])
				if err != nil {
					return nil, err
				}
				if !earlier {
					rows = append(rows, found[i])
				}
			}
			if len(found) < want || len(rows) == n {
				break
			}
			at = found[len(found)-1].after
		}
	}
	return rows, nil
}

// shared looks at all subjects of a row that is met with one of the scope's: whether
// an earlier one of them has it too, and whether one has that the scope does not name.
func (w walk) shared(ctx context.Context, part int, m *metRow) (earlier bool, err error) {
	err = w.query(ctx, "SELECT subject FROM subjects WHERE execution_tag = ? AND ref = ?", func(r *row) {
		subject := r.hash(0)
		i := slices.Index(w.scope.Subjects, subject)
		m.Shared = m.Shared || i < 0
		earlier = earlier || i >= 0 && i < part
	}, m.Tag[:], m.Ref[:])
	return earlier, err
}

// ScopeRows implements ledger.Closings.
func (l *Ledger) ScopeRows(ctx context.Context, s ledger.Scope, after ledger.ScopeCursor, limit int) (
	rows []ledger.ScopeRow, next ledger.ScopeCursor, err error,
) {
	const op = "scope rows"
	if err := s.Check(); err != nil {
		return nil, next, classify(op, err)
	}
	if err := checkLimit(limit); err != nil {
		return nil, next, classify(op, err)
	}
	known, err := l.known(ctx)
	if err != nil {
		return nil, next, classify(op, err)
	}
	err = l.snapshot(ctx, op, func(c *conn) error {
		var page []metRow
		page, next, err = newWalk(c, known, s).page(ctx, after, limit)
		for i := range page {
			rows = append(rows, page[i].ScopeRow)
		}
		return err
	})
	if err != nil {
		return nil, ledger.ScopeCursor{}, err
	}
	return rows, next, nil
}
