package postgres

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/blobd/blobd/ledger"
)

// errAlone says that a transaction which shares the tenant's lock would have to place
// an order. Nothing was changed: it is done again with the lock alone.
var errAlone = errors.New("an order is placed under the tenant's lock alone")

// writeAlone is write for what may have to place an order. f is told whether it takes
// the tenant's lock alone; where it shares it, it may answer errAlone.
func (l *Ledger) writeAlone(ctx context.Context, op string, alone bool, f func(context.Context, *tx, bool) error) error {
	err := l.write(ctx, op, func(ctx context.Context, x *tx) error { return f(ctx, x, alone) })
	if !errors.Is(err, errAlone) {
		return err
	}
	return l.write(ctx, op, func(ctx context.Context, x *tx) error { return f(ctx, x, true) })
}

// closes reports whether an erasure closes its scope whatever is in it.
func closes(f *ledger.Fence) bool { return !f.Scope.Form().Fenceable() || !f.GraceUntil.IsZero() }

// protectable is a row that an erasure would take something from.
const protectable = "b.state NOT IN (2, 5) AND (b.state <> 7 OR b.class <> '') AND e.state <> 3"

// heldInTenant finds a row of a tenant that a hold covers, by way of its holds.
const heldInTenant = `SELECT 1 FROM orders o CROSS JOIN LATERAL (
		(SELECT 1 FROM executions e JOIN blobs b ON b.execution_tag = e.tag
			WHERE o.form = 5 AND e.tenant = o.tenant AND ` + protectable + ` ORDER BY e.created_at LIMIT 1)
		UNION ALL (SELECT 1 FROM executions e JOIN blobs b ON b.execution_tag = e.tag
			WHERE o.form = 1 AND e.tag = o.execution_tag AND e.tenant = o.tenant AND ` + protectable + ` LIMIT 1)
		UNION ALL (SELECT 1 FROM order_refs r JOIN executions e ON e.tag = o.execution_tag AND e.tenant = o.tenant
			JOIN blobs b ON b.execution_tag = e.tag AND b.ref = r.ref WHERE o.form = 2 AND r.order_seq = o.seq AND ` + protectable + ` LIMIT 1)
		UNION ALL (SELECT 1 FROM blobs b JOIN executions e ON e.tag = b.execution_tag
			WHERE o.form = 4 AND b.class_n = (SELECT n FROM classes WHERE tenant = o.tenant AND name = o.class)
				AND b.created_at < o.captured_before AND b.state IN (1, 4, 6, 7) AND b.class <> '' AND e.state <> 3 ORDER BY b.created_at LIMIT 1)
		UNION ALL (SELECT 1 FROM order_subjects os JOIN subjects s ON s.subject = os.subject
			JOIN blobs b ON b.execution_tag = s.execution_tag AND b.ref = s.ref JOIN executions e ON e.tag = b.execution_tag AND e.tenant = o.tenant
			WHERE o.form = 3 AND os.order_seq = o.seq AND ` + protectable + ` LIMIT 1)
	) found WHERE o.tenant = $1 AND o.kind = 1 AND o.lifted_at IS NULL LIMIT 1`

// newestOfClass are rows of a class before a place, newest first.
const newestOfClass = "SELECT " + scopeColumns + ", FALSE, b.created_at FROM blobs b" + fromKnown + `
	WHERE b.class_n = (SELECT n FROM classes WHERE tenant = $1 AND name = $2) AND b.state IN (1, 4, 6, 7) AND b.class <> ''
		AND (b.created_at, b.n) < ($3, $4) ORDER BY b.created_at DESC, b.n DESC LIMIT $5`

// protectPage is how many rows are looked at in one round trip.
const protectPage = 256

// mayProtect tells whether a tenant has an open hold, and a policy with a floor.
const mayProtect = `SELECT EXISTS (SELECT 1 FROM orders WHERE tenant = $1 AND kind = 1 AND lifted_at IS NULL),
	EXISTS (SELECT 1 FROM policy_versions WHERE tenant = $1 AND floor <> '')`

// protected reports whether something in a scope that was locked is protected. It looks at rows only where the tenant has a hold or a floor, and at no more
// than it takes.
func (sc *scope) protected(ctx context.Context, x *tx, at time.Time) (bool, error) {
	if sc.erased() || !sc.holds && !sc.floors {
		return false, nil
	}
	versions := make(map[class][]ledger.Policy)
	versionsOf(x, versions, "tenant = $1", sc.Tenant)
	if err := x.flush(ctx); err != nil {
		return false, err
	}
	if sc.WholeTenant {
		return protectedTenant(ctx, x, sc.Tenant, versions, at)
	}
	after := ledger.ScopeCursor{}
	for {
		rows, next, err := pageOf(ctx, x, &sc.Scope, after, protectPage)
		if err != nil || anyProtected(rows, sc.Tenant, versions, at) {
			return err == nil, err
		}
		if next == (ledger.ScopeCursor{}) {
			return false, nil
		}
		after = next
	}
}

func anyProtected(rows []ledger.ScopeRow, tenant string, versions map[class][]ledger.Policy, at time.Time) bool {
	for i := range rows {
		r := &rows[i]
		if v, _ := ledger.Protects(&r.DueRow, versions[class{tenant, r.Class}], at); !r.Erased && v != ledger.VerdictErase {
			return true
		}
	}
	return false
}

// protectedTenant looks at what holds cover, and at the newest rows of the classes
// that have a floor: those are protected longest.
func protectedTenant(ctx context.Context, x *tx, tenant string, versions map[class][]ledger.Policy, at time.Time) (bool, error) {
	held := false
	x.scan(&held, []any{new(int)}, heldInTenant, tenant)
	if err := x.flush(ctx); err != nil || held {
		return held, err
	}
	for c := range versions {
		if !ledger.Floors(versions[c]) {
			continue
		}
		createdAt, n := int64(math.MaxInt64), int64(math.MaxInt64)
		for {
			var rows []ledger.ScopeRow
			x.each(func(r pgx.CollectableRow) error {
				p, err := scanPlaced(r, 0)
				rows = append(rows, p.ScopeRow)
				return err
			}, newestOfClass, tenant, c.name, createdAt, n, protectPage)
			if err := x.flush(ctx); err != nil || anyProtected(rows, tenant, versions, at) {
				return err == nil, err
			}
			if len(rows) < protectPage {
				break
			}
			last := rows[len(rows)-1]
			createdAt, n = last.CreatedAt.UnixMicro(), last.N
		}
	}
	return false, nil
}
