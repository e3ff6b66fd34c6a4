package postgres

import (
	"context"
	"fmt"
	"math"

	"github.com/jackc/pgx/v5"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// What joins to rows b their executions e and tenants t. fromAny does so too where a
// row's execution has no row: then e stands for one of the tenant $1.
const (
	fromKnown = " JOIN executions e ON e.tag = b.execution_tag JOIN tenants t ON t.id = e.tenant "
	fromAny   = ` LEFT JOIN executions x ON x.tag = b.execution_tag
		CROSS JOIN LATERAL (SELECT coalesce(x.tenant, $1) AS tenant, b.execution_tag AS tag, coalesce(x.id, '') AS id,
			coalesce(x.state, 0) AS state, x.ended_at) e
		LEFT JOIN tenants t ON t.id = e.tenant `
)

// scopeColumns are scanned by scanScopeRow, with shared and a time of the row's place
// behind. told leaves out tombstones and what was collected.
const (
	scopeColumns = dueColumns + ", b.state = 2 OR e.state = 3 OR t.fenced_at IS NOT NULL"
	told         = "b.state <> 5 AND (b.state NOT IN (2, 7) OR b.class <> '')"
)

// The pages of a scope, by indexes that hold its rows together. The last argument is
// the limit. Rows of a class that were dropped have an index of their own.
const (
	pageOfExecution = "SELECT " + scopeColumns + ", FALSE, b.created_at FROM blobs b" + fromAny +
		"WHERE e.tenant = $1 AND b.execution_tag = $2 AND b.ref > $3 AND " + told + " ORDER BY b.ref LIMIT $4"
	pageOfRefs = "SELECT " + scopeColumns + ", FALSE, b.created_at FROM blobs b" + fromAny +
		"WHERE e.tenant = $1 AND b.execution_tag = $2 AND b.ref > $3 AND b.ref = ANY($4::bytea[]) AND " + told + " ORDER BY b.ref LIMIT $5"

	ofClass     = "class_n = (SELECT n FROM classes WHERE tenant = $1 AND name = $2) AND created_at < $3 AND class <> '' "
	afterPlace  = "AND (created_at, n) > ($4, $5) ORDER BY created_at, n LIMIT $6"
	pageOfClass = "SELECT " + scopeColumns + ", FALSE, b.created_at FROM (" +
		"(SELECT * FROM blobs WHERE " + ofClass + "AND state IN (1, 4, 6, 7) " + afterPlace + ") UNION ALL " +
		"(SELECT * FROM blobs WHERE " + ofClass + "AND state = 2 " + afterPlace + ")) b" + fromKnown + "ORDER BY b.created_at, b.n LIMIT $6"

	// A row of several of the subjects is told with the first of them, $2.
	pageOfSubject = "SELECT " + scopeColumns + `, EXISTS (SELECT 1 FROM subjects z WHERE z.execution_tag = s.execution_tag
			AND z.ref = s.ref AND z.subject <> ALL($5::bytea[])), b.created_at
		FROM subjects s JOIN blobs b ON b.execution_tag = s.execution_tag AND b.ref = s.ref` + fromKnown + `
		WHERE s.subject = $2 AND (s.execution_tag, s.ref) > ($3, $4) AND e.tenant = $1 AND ` + told + `
			AND NOT EXISTS (SELECT 1 FROM subjects z WHERE z.execution_tag = s.execution_tag AND z.ref = s.ref
				AND z.subject = ANY($5::bytea[]) AND z.subject < s.subject)
		ORDER BY s.execution_tag, s.ref LIMIT $6`

	pageOfTenant = "SELECT " + scopeColumns + `, FALSE, e.created_at FROM executions e JOIN blobs b ON b.execution_tag = e.tag
		JOIN tenants t ON t.id = e.tenant
		WHERE e.tenant = $1 AND (e.created_at, e.tag) >= ($2, $3) AND (e.created_at, e.tag, b.ref) > ($2, $3, $4) AND ` + told + `
		ORDER BY e.created_at, e.tag, b.ref LIMIT $5`
)

// pageAfter returns the statement of a page, and its arguments, of one part of a
// scope.
func pageAfter(s *ledger.Scope, after ledger.ScopeCursor, limit int) (sql string, args []any) {
	createdAt, n := int64(math.MinInt64), int64(math.MinInt64)
	if !after.CreatedAt.IsZero() {
		createdAt, n = after.CreatedAt.UnixMicro(), after.N
	}
	switch s.Form() {
	case ledger.ScopeTenant:
		return pageOfTenant, []any{s.Tenant, createdAt, after.Tag[:], after.Ref[:], limit}
	case ledger.ScopeClass:
		return pageOfClass, []any{s.Tenant, s.Class, ends(s.CapturedBefore), createdAt, n, limit}
	case ledger.ScopeSubjects:
		return pageOfSubject, []any{s.Tenant, s.Subjects[after.Part][:], after.Tag[:], after.Ref[:], raw(s.Subjects), limit}
	case ledger.ScopeRefs:
		return pageOfRefs, []any{s.Tenant, s.Tag[:], afterRef(after), raw(s.Refs), limit}
	}
	return pageOfExecution, []any{s.Tenant, s.Tag[:], afterRef(after), limit}
}

// afterRef is a ref to start after: the zero one is a ref too.
func afterRef(after ledger.ScopeCursor) []byte {
	if after == (ledger.ScopeCursor{}) {
		return []byte{}
	}
	return after.Ref[:]
}

// placed is a row and its place.
type placed struct {
	ledger.ScopeRow
	at ledger.ScopeCursor
}

func scanPlaced(r pgx.CollectableRow, part int) (p placed, err error) {
	err = r.Scan(append(dueTo(&p.DueRow), &p.Erased, &p.Shared, moment{&p.at.CreatedAt})...)
	p.at.Part, p.at.N, p.at.Position = part, p.N, p.Position
	return p, err
}

// pageOf reads a page of a scope, and the next place: the zero one when nothing is
// left. Where the page ends with a part, the next one is looked at.
func pageOf(ctx context.Context, x *tx, s *ledger.Scope, after ledger.ScopeCursor, limit int) (rows []ledger.ScopeRow, next ledger.ScopeCursor, err error) {
	parts := max(1, len(s.Subjects))
	if after.Part < 0 || after.Part >= parts {
		return nil, next, fmt.Errorf("no such place in the scope: %w", blobd.ErrInvalid)
	}
	for part := after.Part; part < parts; part++ {
		if part > after.Part {
			after = ledger.ScopeCursor{Part: part}
		}
		var found []placed
		sql, args := pageAfter(s, after, limit-len(rows)+1)
		x.each(func(r pgx.CollectableRow) error {
			p, err := scanPlaced(r, part)
			found = append(found, p)
			return err
		}, sql, args...)
		if err := x.flush(ctx); err != nil {
			return nil, ledger.ScopeCursor{}, err
		}
		for i := range found {
			if len(rows) == limit {
				return rows, next, nil
			}
			rows, next = append(rows, found[i].ScopeRow), found[i].at
		}
	}
	return rows, ledger.ScopeCursor{}, nil
}

// ScopeRows implements ledger.Closings.
func (l *Ledger) ScopeRows(ctx context.Context, s ledger.Scope, after ledger.ScopeCursor, limit int) (rows []ledger.ScopeRow, next ledger.ScopeCursor, err error) {
	const op = "scope rows"
	if err := checkLimit(op, limit); err != nil {
		return nil, next, err
	}
	if err := s.Check(); err != nil {
		return nil, next, classify(op, err)
	}
	err = l.readOnly(ctx, "READ COMMITTED", func(ctx context.Context, x *tx) (err error) {
		rows, next, err = pageOf(ctx, x, &s, after, limit)
		return err
	})
	if err != nil {
		return nil, ledger.ScopeCursor{}, classify(op, err)
	}
	return rows, next, nil
}

// within returns the end of a statement that finds rows b of executions e of tenants
// t in a scope, each once, that condition selects; and its arguments. Of a class and
// of subjects, it finds none that were erased.
func within(s *ledger.Scope, condition string) (from string, args []any) {
	args = []any{s.Tenant}
	switch s.Form() {
	case ledger.ScopeTenant:
		from = " FROM executions e JOIN blobs b ON b.execution_tag = e.tag JOIN tenants t ON t.id = e.tenant WHERE e.tenant = $1"
	case ledger.ScopeClass:
		from = " FROM blobs b" + fromKnown + `WHERE b.class_n = (SELECT n FROM classes WHERE tenant = $1 AND name = $2)
			AND b.created_at < $3 AND b.state IN (1, 4, 6, 7) AND b.class <> ''`
		args = append(args, s.Class, ends(s.CapturedBefore))
	case ledger.ScopeSubjects:
		from = ` FROM (SELECT DISTINCT execution_tag, ref FROM subjects WHERE subject = ANY($2::bytea[])) s
			JOIN blobs b ON b.execution_tag = s.execution_tag AND b.ref = s.ref` + fromKnown + "WHERE e.tenant = $1 AND b.state <> 2"
		args = append(args, raw(s.Subjects))
	case ledger.ScopeRefs:
		from = " FROM blobs b" + fromKnown + "WHERE e.tenant = $1 AND b.execution_tag = $2 AND b.ref = ANY($3::bytea[])"
		args = append(args, s.Tag[:], raw(s.Refs))
	default:
		from = " FROM blobs b" + fromKnown + "WHERE e.tenant = $1 AND b.execution_tag = $2"
		args = append(args, s.Tag[:])
	}
	return from + " AND " + condition, args
}

// Coverage implements ledger.Closings.
func (l *Ledger) Coverage(ctx context.Context, tenant string) (ledger.Coverage, error) {
	c, _, err := one(ctx, l, "coverage", func(r pgx.CollectableRow) (c ledger.Coverage, err error) {
		err = r.Scan(&c.Blobs, &c.Tagged)
		return c, err
	}, `SELECT count(*), count(*) FILTER (WHERE EXISTS (SELECT 1 FROM subjects s WHERE s.execution_tag = b.execution_tag AND s.ref = b.ref))
		FROM executions e JOIN blobs b ON b.execution_tag = e.tag JOIN tenants t ON t.id = e.tenant
		WHERE e.tenant = $1 AND b.state = 1 AND `+living, tenant)
	return c, err
}

// FindRef implements ledger.Closings.
func (l *Ledger) FindRef(ctx context.Context, tenant string, ref blobd.Ref, limit int) ([]blobd.ExecutionTag, error) {
	const op = "find a ref"
	if err := checkLimit(op, limit); err != nil {
		return nil, err
	}
	return list(ctx, l, op, func(r pgx.CollectableRow) (tag blobd.ExecutionTag, err error) {
		err = r.Scan(fixed(tag[:]))
		return tag, err
	}, `SELECT b.execution_tag FROM blobs b JOIN executions e ON e.tag = b.execution_tag
		WHERE b.ref = $2 AND e.tenant = $1 ORDER BY b.execution_tag LIMIT $3`, tenant, ref[:], limit)
}
