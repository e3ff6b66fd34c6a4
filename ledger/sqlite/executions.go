package sqlite

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// Execution implements ledger.Executions.
func (l *Ledger) Execution(ctx context.Context, tenant string, tag blobd.ExecutionTag) (ledger.Summary, error) {
	s := ledger.Summary{Classes: map[string]int64{}}
	known, err := l.known(ctx)
	if err != nil {
		return ledger.Summary{}, classify("execution", err)
	}
	err = l.snapshot(ctx, "execution", func(c *conn) error {
		found, err := c.one(ctx, "SELECT "+executionColumns+` FROM executions e LEFT JOIN execution_keys k ON k.n = e.n
			WHERE e.tag = ? AND e.tenant = ?`,
			func(r *row) { s.Execution = *known.show(r.execution(0, tag)) }, tag[:], tenant)
		if err := orNotFound(found, err); err != nil {
			return err
		}
		if err := l.tellClosed(ctx, c, known, &s.Execution, nil); err != nil {
			return err
		}
		_, err = c.one(ctx, `SELECT count(*) FROM (SELECT step_id FROM parts WHERE execution_tag = ?
			UNION SELECT step_id FROM blobs WHERE execution_tag = ? AND record IS NOT NULL)`,
			func(r *row) { s.Steps = r.int(0) }, tag[:], tag[:])
		if err != nil || s.State == ledger.ExecutionErased {
			return err // what is erased has no live blobs, whatever is left of their rows
		}
		oldest := map[string]time.Time{}
		err = c.query(ctx, `SELECT class, count(*), min(created_at) FROM blobs
			WHERE execution_tag = ? AND state = 1 GROUP BY class`,
			func(r *row) { s.Classes[r.text(0)], oldest[r.text(0)] = r.int(1), r.time(2) }, tag[:])
		for name, first := range oldest {
			if err != nil {
				return err
			}
			var due time.Time
			due, err = known.nextDue(ctx, c, &s.Execution, name, first)
			s.NextDue = earlier(s.NextDue, due)
		}
		return err
	})
	if err != nil {
		return ledger.Summary{}, err
	}
	return s, nil
}

// earlier returns the earlier of two times of which zero means none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// ListExecutions implements ledger.Executions.
func (l *Ledger) ListExecutions(ctx context.Context, q ledger.ExecutionQuery) (es []ledger.Execution, err error) {
	if err := checkLimit(q.Limit); err != nil {
		return nil, classify("list executions", err)
	}
	known, err := l.known(ctx)
	if err != nil {
		return nil, classify("list executions", err)
	}
	if _, fenced := known.fenced[q.Tenant]; fenced { // all of them read as erased
		if q.State != 0 && q.State != ledger.ExecutionErased || q.Class != "" {
			return nil, nil
		}
		q.State = 0
	}
	closed := "0"
	if known.standing[q.Tenant].closes {
		closed = closedExecution
	}
	query := "SELECT " + executionColumns + ", e.tag, " + closed +
		" FROM executions e LEFT JOIN execution_keys k ON k.n = e.n WHERE e.tenant = ?"
	args := []any{q.Tenant}
	if q.Before != (ledger.ExecutionCursor{}) {
		query += " AND (e.created_at, e.tag) < (?, ?)"
		args = append(args, q.Before.CreatedAt.UnixMicro(), q.Before.Tag[:])
	}
	switch q.State {
	case 0:
	case ledger.ExecutionErased:
		query += " AND e.state = 3"
	case ledger.ExecutionOpen:
		query += " AND e.state <> 3 AND " + closed + " = 0"
	default:
		query += " AND e.state <> 3 AND " + closed + " <> 0"
	}
	if q.Class != "" {
		query += ` AND e.state <> 3
			AND EXISTS (SELECT 1 FROM blobs b WHERE b.execution_tag = e.tag AND b.state = 1 AND b.class = ?)`
		args = append(args, q.Class)
	}
	query += " ORDER BY e.created_at DESC, e.tag DESC LIMIT ?"
	args = append(args, int64(q.Limit))
	err = l.read(ctx, "list executions", func(c *conn) error {
		return c.query(ctx, query, func(r *row) {
			e := r.execution(0, r.tag(12))
			closeExecution(e, ledger.CloseReason(r.int(13)))
			es = append(es, *known.show(e))
		}, args...)
	})
	return es, err
}

// Records implements ledger.Executions.
func (l *Ledger) Records(ctx context.Context, q ledger.RecordQuery) (ps []ledger.RecordedPart, err error) {
	if err := checkLimit(q.Limit); err != nil {
		return nil, classify("records", err)
	}
	known, err := l.known(ctx)
	if err != nil {
		return nil, classify("records", err)
	}
	selected, of := " AND %s > ?", []any{q.Tag[:], q.After}
	if q.StepID != "" {
		selected += " AND step_id = ?"
		of = append(of, q.StepID)
	}
	if q.StepPrefix != "" {
		selected += " AND substr(CAST(step_id AS BLOB), 1, ?) = ?"
		of = append(of, int64(len(q.StepPrefix)), []byte(q.StepPrefix))
	}
	query := "SELECT " + blobColumns + `, p.seq, p.step_id, p.attempt, p.part_index, p.kind, p.status,
		p.provider, p.model, p.at, p.ref, ifnull(e.tenant, ''), e.ended_at, ifnull(e.state, 0)
		FROM (SELECT seq, execution_tag, step_id, attempt, part_index, kind, status, provider, model, at, ref
			FROM parts WHERE execution_tag = ?` + fmt.Sprintf(selected, "seq") + `
			UNION ALL
			SELECT record, execution_tag, step_id, attempt, part_index, kind, 1, provider, model, created_at, ref
			FROM blobs WHERE execution_tag = ?` + fmt.Sprintf(selected, "record") + `
			ORDER BY seq LIMIT ?) p
		LEFT JOIN executions e ON e.tag = p.execution_tag
		LEFT JOIN blobs b ON p.status = 1 AND b.execution_tag = p.execution_tag AND b.ref = p.ref
		ORDER BY p.seq`
	args := append(slices.Concat(of, of), int64(q.Limit))
	err = l.snapshot(ctx, "records", func(c *conn) error {
		e := ledger.Execution{Tag: q.Tag}
		err := c.query(ctx, query, func(r *row) {
			ps = append(ps, r.part(known))
			e.Tenant, e.State = r.text(blobColumnCount+10), ledger.ExecutionState(r.int(blobColumnCount+12))
		}, args...)
		if err != nil {
			return err
		}
		return l.tellParts(ctx, c, known, e, ps)
	})
	return ps, err
}

// tellParts says of the rows of an execution's records what open orders say.
func (l *Ledger) tellParts(ctx context.Context, c *conn, known *facts, e ledger.Execution, ps []ledger.RecordedPart) error {
	if s := known.standing[e.Tenant]; !s.closes && !s.holds || known.erased(&e) {
		return nil
	}
	var rows []*ledger.Blob
	for i := range ps {
		if ps[i].Blob != nil {
			rows = append(rows, ps[i].Blob)
		}
	}
	if err := l.tellClosed(ctx, c, known, &e, rows); err != nil || !known.standing[e.Tenant].holds {
		return err
	}
	return tellHeld(ctx, c, e.Tag, rows, stored(l.now()))
}

func (r *row) part(known *facts) ledger.RecordedPart {
	const i = blobColumnCount
	p := ledger.RecordedPart{
		Seq: r.int(i), StepID: r.text(i + 1), Attempt: r.int(i + 2), Index: int(r.int(i + 3)),
		Kind: blobd.Kind(r.text(i + 4)), Status: ledger.PartStatus(r.int(i + 5)),
		Provider: r.text(i + 6), Model: r.text(i + 7), At: r.time(i + 8),
	}
	if p.Status == ledger.PartKept {
		p.Ref = r.ref(i + 9)
	}
	if !r.null(0) {
		p.Blob = r.blob(0)
		p.Blob.ExpiresAt = known.expires(r.text(i+10), p.Blob, r.time(i+11))
	}
	return p
}
