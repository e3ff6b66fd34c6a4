package postgres

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// governing joins to each blob b of an execution e the version that governs it: the
// newest that was set no later than its capture, or that touches what existed.
const governing = ` LEFT JOIN LATERAL (SELECT v.version, v.start_event, v.maximum FROM policy_versions v
	WHERE v.tenant = e.tenant AND v.class = b.class AND (v.existing OR v.at <= b.created_at)
	ORDER BY v.version DESC LIMIT 1) g ON TRUE`

// ruleColumns follow blobColumns, of governing and its execution e.
const ruleColumns = "g.start_event, g.maximum, e.ended_at"

// ruleRow scans ruleColumns.
type ruleRow struct {
	start   *int16
	maximum *string
	ended   time.Time
}

func (r *ruleRow) to() []any { return []any{&r.start, &r.maximum, moment{&r.ended}} }

// end is ledger.Blob's ExpiresAt; a tombstone has no class, and none.
func (r *ruleRow) end(class string, captured time.Time) (time.Time, error) {
	rule := ledger.DefaultRule()
	if r.maximum != nil {
		p, err := periodOf(*r.maximum)
		if err != nil {
			return time.Time{}, err
		}
		rule = ledger.Rule{Start: ledger.StartEvent(deref(r.start)), Maximum: p}
	}
	if class == "" {
		return time.Time{}, nil
	}
	return rule.End(captured, r.ended), nil
}

// periodOf reads an ISO 8601 duration, "" for none.
func periodOf(s string) (ledger.Period, error) {
	if s == "" {
		return ledger.Period{}, nil
	}
	p, err := ledger.ParsePeriod(s)
	if err != nil {
		return p, fmt.Errorf("a duration of a policy: %w", blobd.ErrCorrupt)
	}
	return p, nil
}

const policyColumns = `version, tenant, class, at, existing, removed, set_by,
	start_event, maximum, floor, legal_basis, slack, on_expiry`

func scanPolicy(r pgx.CollectableRow) (p ledger.Policy, err error) {
	var maximum, floor, slack string
	err = r.Scan(&p.Version, &p.Tenant, &p.Class, moment{&p.At}, &p.Existing, &p.Removed, &p.By,
		&p.Start, &maximum, &floor, bytesText{&p.LegalBasis}, &slack, &p.OnExpiry)
	for _, f := range []struct {
		text string
		to   *ledger.Period
	}{{maximum, &p.Maximum}, {floor, &p.Floor}, {slack, &p.Slack}} {
		if err == nil {
			*f.to, err = periodOf(f.text)
		}
	}
	return p, err
}

// versionsOf queues the versions of classes of tenants, newest first.
func versionsOf(x *tx, to map[class][]ledger.Policy, condition string, args ...any) {
	x.each(func(r pgx.CollectableRow) error {
		p, err := scanPolicy(r)
		c := class{p.Tenant, p.Class}
		to[c] = append(to[c], p)
		return err
	}, "SELECT "+policyColumns+" FROM policy_versions WHERE "+condition+" ORDER BY version DESC", args...)
}

// SetPolicy implements ledger.Policies. It takes the tenant's lock alone: sweeps and
// erasures that delete share it, so what they read of policies is what stands.
func (l *Ledger) SetPolicy(ctx context.Context, p ledger.Policy, e ledger.Entry) error {
	const op = "set policy"
	if err := p.Check(); err != nil {
		return classify(op, err)
	}
	p = p.Stored()
	return l.write(ctx, op, func(ctx context.Context, x *tx) error {
		x.exec("SELECT pg_advisory_xact_lock($1)", tenantLock(p.Tenant))
		if err := x.living(ctx, p.Tenant); err != nil {
			return err
		}
		x.exec(`INSERT INTO policy_versions (tenant, class, at, existing, removed, set_by,
			start_event, maximum, floor, legal_basis, slack, on_expiry) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`,
			p.Tenant, p.Class, p.At.UnixMicro(), p.Existing, p.Removed, p.By, int16(p.Start),
			p.Maximum.String(), p.Floor.String(), []byte(p.LegalBasis), p.Slack.String(), int16(p.OnExpiry))
		x.wakeDeferred(p.Tenant, p.At)
		x.append(e)
		x.move(counts{entries: 1})
		return nil
	})
}

// Classes implements ledger.Policies.
func (l *Ledger) Classes(ctx context.Context, tenant, after string, limit int) ([]ledger.Class, error) {
	const op = "classes"
	if err := checkLimit(op, limit); err != nil {
		return nil, err
	}
	var all []ledger.Class
	err := l.readOnly(ctx, "REPEATABLE READ", func(_ context.Context, x *tx) error {
		all = nil
		index := map[string]int{}
		x.each(func(r pgx.CollectableRow) error {
			name, err := pgx.RowTo[string](r)
			index[name] = len(all)
			all = append(all, ledger.Class{Name: name})
			return err
		}, `SELECT c.name FROM (SELECT name FROM classes WHERE tenant = $1 AND name > $2
				UNION SELECT class FROM policy_versions WHERE tenant = $1 AND class > $2) c
			WHERE NOT EXISTS (SELECT 1 FROM tenants WHERE id = $1 AND fenced_at IS NOT NULL) ORDER BY c.name LIMIT $3`,
			tenant, after, limit)
		x.each(func(r pgx.CollectableRow) error {
			p, err := scanPolicy(r)
			if i, listed := index[p.Class]; listed {
				all[i].Policies = append(all[i].Policies, p)
			}
			return err
		}, "SELECT "+policyColumns+" FROM policy_versions WHERE tenant = $1 AND class > $2 ORDER BY version DESC", tenant, after)
		return nil
	})
	if err != nil {
		return nil, classify(op, err)
	}
	return all, nil
}

// EndExecution implements ledger.Policies.
func (l *Ledger) EndExecution(ctx context.Context, tenant string, tag blobd.ExecutionTag, at time.Time, e ledger.Entry,
) (ended ledger.Execution, err error) {
	err = l.write(ctx, "end execution", func(ctx context.Context, x *tx) error {
		ended = ledger.Execution{}
		var one int
		found, fenced := false, false
		x.exec("SELECT 1 FROM executions WHERE tag = $1 FOR NO KEY UPDATE", tag[:])
		x.each(func(r pgx.CollectableRow) (err error) {
			found = true
			ended, err = scanExecution(r)
			return err
		}, "SELECT "+executionColumns+fromExecutions+"WHERE e.tag = $1 AND e.tenant = $2", tag[:], tenant)
		x.scan(&fenced, []any{&one}, inFencedTenant, tag[:])
		err := x.flush(ctx)
		switch {
		case err != nil || !found:
			return orNotFound(found, err)
		case ended.State == ledger.ExecutionErased || fenced:
			return blobd.ErrErased
		case !ended.EndedAt.IsZero():
			return nil
		}
		ended.EndedAt = stored(at)
		x.exec("UPDATE executions SET ended_at = $2 WHERE tag = $1", tag[:], at.UnixMicro())
		x.append(e)
		x.move(counts{entries: 1})
		return nil
	})
	if err != nil {
		return ledger.Execution{}, err
	}
	return ended, nil
}

// dueColumns are scanned into dueTo, from blobs b of executions e.
const dueColumns = "b.execution_tag, b.ref, b.n, b.class, b.state, b.created_at, e.ended_at, b.size, e.id, " + heldRow

func dueTo(d *ledger.DueRow) []any {
	return []any{
		fixed(d.Tag[:]), fixed(d.Ref[:]), &d.N, &d.Class, &d.State, moment{&d.CreatedAt}, moment{&d.EndedAt},
		&d.Size, &d.ExecutionID, &d.Held,
	}
}

// retained selects what is retention's, from blobs b of executions e of tenants t.
// The first two conditions are those of the index that finds it.
const (
	retained     = "b.state IN (1, 4, 6, 7) AND b.class <> '' AND e.state <> 3 AND t.fenced_at IS NULL"
	fromRetained = " JOIN executions e ON e.tag = b.execution_tag JOIN tenants t ON t.id = e.tenant "
)

func scanDue(r pgx.CollectableRow) (d ledger.DueRow, err error) {
	err = r.Scan(dueTo(&d)...)
	return d, err
}

// The statements that find what is retention's, by the indexes made for them.
const (
	// One lower bound alone: beside a second one the server begins at the one that it
	// likes, and reads all that lies before the other.
	dueQuery = "SELECT " + dueColumns + " FROM blobs b" + fromRetained +
		`WHERE b.class_n = (SELECT n FROM classes WHERE tenant = $1 AND name = $2)
			AND (b.created_at, b.n) > ($3, $4) AND b.created_at < $5 AND ` + retained + " ORDER BY b.created_at, b.n LIMIT $6"
	expiredQuery = "SELECT " + dueColumns + " FROM blobs b" + fromRetained +
		"WHERE b.state = 7 AND b.class <> '' AND b.n > $1 AND e.tenant = $2 AND e.state <> 3 AND t.fenced_at IS NULL ORDER BY b.n LIMIT $3"
	storedQuery = `SELECT count(*) FROM (SELECT 1 FROM classes k JOIN blobs b ON b.class_n = k.n` +
		fromRetained + "WHERE k.tenant = $1 AND " + retained + " LIMIT $2) s"
)

// Due implements ledger.Policies.
func (l *Ledger) Due(ctx context.Context, q ledger.DueQuery) ([]ledger.DueRow, error) {
	const op = "due"
	if err := checkLimit(op, q.Limit); err != nil {
		return nil, err
	}
	if q.Expired {
		return list(ctx, l, op, scanDue, expiredQuery, q.After.N, q.Tenant, q.Limit)
	}
	captured, n, to := int64(math.MinInt64), int64(math.MinInt64), int64(math.MaxInt64) // no row has such an n
	if !q.From.IsZero() {
		captured = q.From.UnixMicro()
	}
	if after := q.After; after != (ledger.DueCursor{}) && after.CreatedAt.UnixMicro() >= captured {
		captured, n = after.CreatedAt.UnixMicro(), after.N
	}
	if !q.To.IsZero() {
		to = q.To.UnixMicro()
	}
	return list(ctx, l, op, scanDue, dueQuery, q.Tenant, q.Class, captured, n, to, q.Limit)
}

// CountStored implements ledger.Policies.
func (l *Ledger) CountStored(ctx context.Context, tenant string, atMost int64) (int64, error) {
	const op = "count stored"
	if atMost < 1 {
		return 0, classify(op, fmt.Errorf("at most %d: %w", atMost, blobd.ErrInvalid))
	}
	n, _, err := one(ctx, l, op, pgx.RowTo[int64], storedQuery, tenant, atMost)
	return n, err
}

// queueClasses inserts the classes of the batch's new rows that were never put. Names
// come in one order, so that two batches never wait for each other.
func (b *batch) queueClasses(x *tx) {
	made := make(map[class]bool)
	for _, r := range b.rows {
		if c := (class{b.executions[r.tag].tenant, r.Class}); !b.classes[c] {
			made[c] = true
		}
	}
	if len(made) == 0 {
		return
	}
	sorted := slices.SortedFunc(maps.Keys(made), func(a, c class) int {
		return cmp.Or(cmp.Compare(a.tenant, c.tenant), cmp.Compare(a.name, c.name))
	})
	var tenants, names []string
	for _, c := range sorted {
		tenants, names = append(tenants, c.tenant), append(names, c.name)
	}
	x.exec("INSERT INTO classes (tenant, name) SELECT * FROM unnest($1::text[], $2::text[]) ON CONFLICT DO NOTHING", tenants, names)
}
