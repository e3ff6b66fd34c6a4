package sqlite

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// policyColumns are read by row.policy, from policy_versions.
const policyColumns = `version, tenant, class, at, existing, removed, set_by,
	start_event, maximum, floor, legal_basis, slack, on_expiry`

func (r *row) policy() ledger.Policy {
	return ledger.Policy{
		Version: r.int(0), Tenant: r.text(1), Class: r.text(2), At: r.time(3),
		Existing: r.bool(4), Removed: r.bool(5), By: r.text(6),
		Rule: ledger.Rule{
			Start: ledger.StartEvent(r.int(7)), Maximum: r.period(8), Floor: r.period(9),
			LegalBasis: r.text(10), Slack: r.period(11), OnExpiry: ledger.OnExpiry(r.int(12)),
		},
	}
}

// period reads an ISO 8601 duration, "" for none.
func (r *row) period(i int) ledger.Period {
	s := r.text(i)
	if s == "" {
		return ledger.Period{}
	}
	p, err := ledger.ParsePeriod(s)
	if err != nil {
		r.fail(i, "a duration")
	}
	return p
}

// SetPolicy implements ledger.Policies.
func (l *Ledger) SetPolicy(ctx context.Context, p ledger.Policy, e ledger.Entry) error {
	if err := p.Check(); err != nil {
		return classify("set policy", err)
	}
	p = p.Stored()
	return l.writeFacts(ctx, "set policy", func(w *conn) error {
		if err := living(ctx, w, p.Tenant); err != nil {
			return err
		}
		_, err := w.exec(ctx, `INSERT INTO policy_versions (tenant, class, at, existing, removed, set_by,
			start_event, maximum, floor, legal_basis, slack, on_expiry) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			p.Tenant, p.Class, p.At.UnixMicro(), flag(p.Existing), flag(p.Removed), p.By,
			int64(p.Start), p.Maximum.String(), p.Floor.String(), p.LegalBasis, p.Slack.String(), int64(p.OnExpiry))
		if err != nil {
			return err
		}
		if err := freed(ctx, w, p.Tenant, p.At); err != nil {
			return err
		}
		return appendEntries(ctx, w, e)
	})
}

// Classes implements ledger.Policies.
func (l *Ledger) Classes(ctx context.Context, tenant, after string, limit int) (cs []ledger.Class, err error) {
	if err := checkLimit(limit); err != nil {
		return nil, classify("classes", err)
	}
	known, err := l.known(ctx)
	if err != nil {
		return nil, classify("classes", err)
	}
	if _, fenced := known.fenced[tenant]; fenced {
		return nil, nil
	}
	err = l.read(ctx, "classes", func(c *conn) error {
		return c.query(ctx, `SELECT name FROM classes WHERE tenant = ? AND name > ?
			UNION SELECT class FROM policy_versions WHERE tenant = ? AND class > ? ORDER BY 1 LIMIT ?`,
			func(r *row) { cs = append(cs, ledger.Class{Name: r.text(0)}) },
			tenant, after, tenant, after, int64(limit))
	})
	if err != nil {
		return nil, err
	}
	// A policy that was set since has only lengthened the lists.
	if known, err = l.known(ctx); err != nil {
		return nil, classify("classes", err)
	}
	for i := range cs {
		cs[i].Policies = known.versions[class{tenant, cs[i].Name}]
	}
	return cs, nil
}

// EndExecution implements ledger.Policies.
func (l *Ledger) EndExecution(ctx context.Context, tenant string, tag blobd.ExecutionTag, at time.Time, e ledger.Entry,
) (x ledger.Execution, err error) {
	err = l.write(ctx, "end execution", func(w *conn) error {
		known, err := l.factsOn(ctx, w)
		if err != nil {
			return err
		}
		read := func() (bool, error) {
			found, err := w.one(ctx, "SELECT "+executionColumns+` FROM executions e LEFT JOIN execution_keys k ON k.n = e.n
				WHERE e.tag = ? AND e.tenant = ?`, func(r *row) { x = *r.execution(0, tag) }, tag[:], tenant)
			if err != nil || !found {
				return found, err
			}
			return true, l.tellClosed(ctx, w, known, &x, nil)
		}
		found, err := read()
		if err := orNotFound(found, err); err != nil {
			return err
		}
		t, _, err := tenantByID(ctx, w, tenant)
		switch {
		case err != nil:
			return err
		case x.State == ledger.ExecutionErased || t.Fenced():
			return blobd.ErrErased
		case !x.EndedAt.IsZero():
			return nil
		}
		if _, err := w.exec(ctx, "UPDATE executions SET ended_at = ? WHERE tag = ?", at.UnixMicro(), tag[:]); err != nil {
			return err
		}
		if err := appendEntries(ctx, w, e); err != nil {
			return err
		}
		_, err = read()
		return err
	})
	if err != nil {
		return ledger.Execution{}, err
	}
	return x, nil
}

// dueColumns are read by row.due, from blobs b of executions e; heldBy follows.
const dueColumns = "b.execution_tag, b.ref, b.n, b.class, b.state, b.created_at, e.ended_at, b.size, e.id, "

const dueColumnCount = 10

// heldBy is the column that says whether a hold covers a row, for a tenant: where it
// has no open hold, none does.
func (s standing) heldBy() string {
	if s.holds {
		return heldRow
	}
	return "0"
}

// selectDue is a query for due rows of a tenant, whose end from is.
func (s standing) selectDue(from string) string { return "SELECT " + dueColumns + s.heldBy() + from }

// retained selects what is retention's, from blobs b of executions e.
const retained = "b.state IN (1, 4, 6, 7) AND b.class <> '' AND e.state <> 3"

func (r *row) due() ledger.DueRow {
	return ledger.DueRow{
		Position: ledger.Position{Tag: r.tag(0), Ref: r.ref(1)}, N: r.int(2), Class: r.text(3),
		State: ledger.BlobState(r.int(4)), CreatedAt: r.time(5), EndedAt: r.time(6), Size: r.int(7), ExecutionID: r.text(8),
		Held: r.bool(9),
	}
}

// The statements that find what is retention's, by the tables and indexes made for it.
// Those that tell of rows follow the column that says whether they are held.
const (
	dueQuery = ` FROM due d
		CROSS JOIN blobs b ON b.n = d.blob CROSS JOIN executions e ON e.tag = b.execution_tag
		WHERE d.class = (SELECT n FROM classes WHERE tenant = ? AND name = ?)
			AND d.created_at >= ? AND d.created_at < ? AND (d.created_at, d.blob) > (?, ?)
			AND ` + retained + " ORDER BY d.created_at, d.blob LIMIT ?"
	expiredQuery = ` FROM blobs b CROSS JOIN executions e ON e.tag = b.execution_tag
		WHERE b.state = 7 AND b.class <> '' AND b.n > ? AND e.tenant = ? AND e.state <> 3 ORDER BY b.n LIMIT ?`
	storedQuery = `SELECT count(*) FROM (SELECT 1 FROM classes k CROSS JOIN due d ON d.class = k.n
		CROSS JOIN blobs b ON b.n = d.blob CROSS JOIN executions e ON e.tag = b.execution_tag
		WHERE k.tenant = ? AND ` + retained + " LIMIT ?)"
)

// Due implements ledger.Policies.
func (l *Ledger) Due(ctx context.Context, q ledger.DueQuery) (rows []ledger.DueRow, err error) {
	if err := checkLimit(q.Limit); err != nil {
		return nil, classify("due", err)
	}
	known, err := l.known(ctx)
	if err != nil {
		return nil, classify("due", err)
	}
	if _, fenced := known.fenced[q.Tenant]; fenced {
		return nil, nil
	}
	if q.Expired {
		return l.expiredRows(ctx, known, q)
	}
	from, to, after := int64(math.MinInt64), int64(math.MaxInt64), ledger.DueCursor{N: math.MinInt64}
	afterTime := int64(math.MinInt64)
	if !q.From.IsZero() {
		from = q.From.UnixMicro()
	}
	if !q.To.IsZero() {
		to = q.To.UnixMicro()
	}
	if q.After != (ledger.DueCursor{}) {
		after, afterTime = q.After, q.After.CreatedAt.UnixMicro()
	}
	err = l.read(ctx, "due", func(c *conn) error {
		return c.query(ctx, known.standing[q.Tenant].selectDue(dueQuery), func(r *row) { rows = append(rows, r.due()) },
			q.Tenant, q.Class, max(from, afterTime), to, afterTime, after.N, int64(q.Limit))
	})
	return rows, err
}

func (l *Ledger) expiredRows(ctx context.Context, known *facts, q ledger.DueQuery) (rows []ledger.DueRow, err error) {
	err = l.read(ctx, "due", func(c *conn) error {
		return c.query(ctx, known.standing[q.Tenant].selectDue(expiredQuery), func(r *row) { rows = append(rows, r.due()) }, q.After.N, q.Tenant, int64(q.Limit))
	})
	return rows, err
}

// CountStored implements ledger.Policies.
func (l *Ledger) CountStored(ctx context.Context, tenant string, atMost int64) (n int64, err error) {
	if atMost < 1 {
		return 0, classify("count stored", fmt.Errorf("at most %d: %w", atMost, blobd.ErrInvalid))
	}
	known, err := l.known(ctx)
	if err != nil {
		return 0, classify("count stored", err)
	}
	if _, fenced := known.fenced[tenant]; fenced {
		return 0, nil
	}
	err = l.read(ctx, "count stored", func(c *conn) error {
		_, err := c.one(ctx, storedQuery, func(r *row) { n = r.int(0) }, tenant, atMost)
		return err
	})
	return n, err
}

// nextDue returns when the first of an execution's live rows of a class ends. An
// older capture ends no later, within what one version governs.
func (f *facts) nextDue(ctx context.Context, c *conn, e *ledger.Execution, name string, oldest time.Time) (due time.Time, err error) {
	versions := f.versions[class{e.Tenant, name}]
	segments := ledger.Segments(versions)
	if len(segments) == 1 {
		return ledger.EndOf(versions, oldest, e.EndedAt), nil
	}
	for _, s := range segments {
		from, to := int64(math.MinInt64), int64(math.MaxInt64)
		if !s.From.IsZero() {
			from = s.From.UnixMicro()
		}
		if !s.To.IsZero() {
			to = s.To.UnixMicro()
		}
		_, err := c.one(ctx, `SELECT min(created_at) FROM blobs WHERE execution_tag = ? AND state = 1 AND class = ?
			AND created_at >= ? AND created_at < ?`, func(r *row) {
			if first := r.time(0); !first.IsZero() {
				due = earlier(due, s.Policy.End(first, e.EndedAt))
			}
		}, e.Tag[:], name, from, to)
		if err != nil {
			return due, err
		}
	}
	return due, nil
}

// classNumber returns the number of a class, and gives it one at its first put.
func (b *batch) classNumber(ctx context.Context, c class) (n int64, err error) {
	if n, known := b.classes[c]; known {
		return n, nil
	}
	if n, known := b.newClasses[c]; known {
		return n, nil
	}
	read := func(r *row) { n = r.int(0) }
	found, err := b.w.one(ctx, "SELECT n FROM classes WHERE tenant = ? AND name = ?", read, c.tenant, c.name)
	if err == nil && !found {
		_, err = b.w.one(ctx, "INSERT INTO classes (tenant, name) VALUES (?, ?) RETURNING n", read, c.tenant, c.name)
	}
	if err == nil {
		b.newClasses[c] = n
	}
	return n, err
}

// newDue is a row that a sweep will find.
type newDue struct {
	class     class
	createdAt int64
	n         int64
}

// flushDue inserts what sweeps will find of the batch's new rows.
func (b *batch) flushDue(ctx context.Context) error {
	rows := make([][]any, len(b.due))
	for i, d := range b.due {
		n, err := b.classNumber(ctx, d.class)
		if err != nil {
			return err
		}
		rows[i] = []any{n, d.createdAt, d.n}
	}
	return b.w.insertMany(ctx, "INSERT INTO due (class, created_at, blob) VALUES ", "", rows)
}
