package postgres

import (
	"context"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

const fromExecutions = " FROM executions e LEFT JOIN execution_keys k ON k.tag = e.tag LEFT JOIN tenants t ON t.id = e.tenant "

// Execution implements ledger.Executions.
func (l *Ledger) Execution(ctx context.Context, tenant string, tag blobd.ExecutionTag) (ledger.Summary, error) {
	const op = "execution"
	var s ledger.Summary
	found := false
	err := l.readOnly(ctx, "REPEATABLE READ", func(_ context.Context, x *tx) error {
		s, found = ledger.Summary{Classes: map[string]int64{}}, false
		x.each(func(r pgx.CollectableRow) (err error) {
			found = true
			s.Execution, err = scanExecution(r)
			return err
		}, "SELECT "+executionColumns+fromExecutions+"WHERE e.tag = $1 AND e.tenant = $2", tag[:], tenant)
		x.scan(nil, []any{&s.Steps}, "SELECT count(DISTINCT step_id) FROM parts WHERE execution_tag = $1", tag[:])
		// What is erased has no live blobs, whatever is left of their rows.
		x.each(func(r pgx.CollectableRow) error { return addClass(&s, r) }, "SELECT b.class, count(*), min(b.created_at), "+ruleColumns+" FROM executions e JOIN blobs b ON b.execution_tag = e.tag"+governing+`
			WHERE e.tag = $1 AND e.state <> 3 AND b.state = 1
				AND NOT EXISTS (SELECT 1 FROM tenants t WHERE t.id = e.tenant AND t.fenced_at IS NOT NULL) GROUP BY b.class, g.version, `+ruleColumns, tag[:])
		return nil
	})
	if err := classifyFound(op, found, classify(op, err)); err != nil {
		return ledger.Summary{}, err
	}
	return s, nil
}

// addClass takes in the live blobs of one class that one version governs.
func addClass(s *ledger.Summary, r pgx.CollectableRow) error {
	var name string
	var n int64
	var first ledger.Blob
	var rule ruleRow
	if err := r.Scan(append([]any{&name, &n, moment{&first.CreatedAt}}, rule.to()...)...); err != nil {
		return err
	}
	s.Classes[name] += n
	end, err := rule.end(name, first.CreatedAt)
	s.NextDue = earlier(s.NextDue, end)
	return err
}

// earlier returns the earlier of two times of which zero means none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// filter builds the condition of a listing.
type filter struct {
	sql  string
	args []any
}

// and adds a condition in which each % stands for the next argument.
func (f *filter) and(condition string, args ...any) {
	f.sql += " AND "
	for _, c := range condition {
		if c != '%' {
			f.sql += string(c)
			continue
		}
		f.args = append(f.args, args[0])
		args = args[1:]
		f.sql += "$" + strconv.Itoa(len(f.args))
	}
}

// isClosed tells whether an order covers an execution e whole; the orders of single
// executions are looked through once for all of a listing.
const isClosed = `(EXISTS (SELECT 1 FROM orders o WHERE o.tenant = $1 AND o.form = 5 AND o.kind IN (2, 3) AND o.lifted_at IS NULL)
	OR e.tag IN (SELECT o.execution_tag FROM orders o WHERE o.tenant = $1 AND o.form = 1 AND o.kind IN (2, 3) AND o.lifted_at IS NULL))`

// ListExecutions implements ledger.Executions.
func (l *Ledger) ListExecutions(ctx context.Context, q ledger.ExecutionQuery) ([]ledger.Execution, error) {
	const op = "list executions"
	if err := checkLimit(op, q.Limit); err != nil {
		return nil, err
	}
	f := filter{"SELECT " + executionColumns + fromExecutions + "WHERE e.tenant = $1", []any{q.Tenant}}
	if q.Before != (ledger.ExecutionCursor{}) {
		f.and("(e.created_at, e.tag) < (%, %)", q.Before.CreatedAt.UnixMicro(), q.Before.Tag[:])
	}
	switch q.State {
	case ledger.ExecutionOpen:
		f.and(living + " AND NOT " + isClosed)
	case ledger.ExecutionClosed:
		f.and(living + " AND " + isClosed)
	case ledger.ExecutionErased:
		f.and("(e.state = 3 OR t.fenced_at IS NOT NULL)")
	}
	if q.Class != "" {
		f.and(`e.state <> 3 AND t.fenced_at IS NULL AND EXISTS (SELECT 1 FROM blobs b
			WHERE b.execution_tag = e.tag AND b.state = 1 AND b.class = %)`, q.Class)
	}
	f.args = append(f.args, q.Limit)
	return list(ctx, l, op, scanExecution,
		f.sql+" ORDER BY e.created_at DESC, e.tag DESC LIMIT $"+strconv.Itoa(len(f.args)), f.args...)
}

// Records implements ledger.Executions.
func (l *Ledger) Records(ctx context.Context, q ledger.RecordQuery) ([]ledger.RecordedPart, error) {
	const op = "records"
	if err := checkLimit(op, q.Limit); err != nil {
		return nil, err
	}
	f := filter{"SELECT " + blobColumns + ", " + ruleColumns + ", " + coverColumns + ", (SELECT coalesce($3::bigint, " + serverClock + `)),
		p.seq, p.step_id, p.attempt, p.part_index, p.kind, p.status, p.provider, p.model, p.at, p.ref
		FROM parts p LEFT JOIN executions e ON e.tag = p.execution_tag
		LEFT JOIN tenants t ON t.id = e.tenant
		LEFT JOIN blobs b ON p.status = 1 AND b.execution_tag = p.execution_tag AND b.ref = p.ref
		` + governing + ` WHERE p.execution_tag = $1 AND p.seq > $2`, []any{q.Tag[:], q.After, l.now()}}
	if q.StepID != "" {
		f.and("p.step_id = %", q.StepID)
	}
	if q.StepPrefix != "" {
		f.and("starts_with(p.step_id, %)", q.StepPrefix)
	}
	f.args = append(f.args, q.Limit)
	return list(ctx, l, op, scanPart, f.sql+" ORDER BY p.seq LIMIT $"+strconv.Itoa(len(f.args)), f.args...)
}

func scanPart(r pgx.CollectableRow) (p ledger.RecordedPart, err error) {
	var b blobRow
	var status int16
	var ref []byte
	var now time.Time
	err = r.Scan(append(b.to(), moment{&now}, &p.Seq, &p.StepID, &p.Attempt, &p.Index, &p.Kind, &status,
		&p.Provider, &p.Model, moment{&p.At}, &ref)...)
	if err != nil {
		return p, err
	}
	if p.Status = ledger.PartStatus(status); p.Status == ledger.PartKept {
		if err := fixed(p.Ref[:]).ScanBytes(ref); err != nil {
			return p, err
		}
	}
	p.Blob, err = b.blob(now)
	return p, err
}

// inFencedTenant finds the execution $1 if its tenant was off-boarded.
const inFencedTenant = `SELECT 1 FROM executions e JOIN tenants t ON t.id = e.tenant
	WHERE e.tag = $1 AND t.fenced_at IS NOT NULL`
