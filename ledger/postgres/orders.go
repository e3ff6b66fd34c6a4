package postgres

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// orderColumns are scanned by orderRow, from orders o.
const orderColumns = `o.id, o.kind, o.tenant, o.form, o.execution_tag, o.execution_id, o.refs, o.subjects, o.class,
	o.captured_before, o.erasure_id, o.matter, o.reason, o.owner, o.purposes, o.review_at, o.expires_at,
	o.placed_at, o.placed_by, o.lifted_at, o.lifted_by, o.lift_reason`

// orderRow scans orderColumns.
type orderRow struct {
	ledger.Order
	form   int16
	refs   [][32]byte
	before int64
}

func (o *orderRow) to() []any {
	return []any{
		&o.ID, &o.Kind, &o.Scope.Tenant, &o.form, fixed(o.Scope.Tag[:]), &o.Scope.ExecutionID, hashes{&o.refs},
		hashes{&o.Scope.Subjects}, &o.Scope.Class, &o.before, &o.ErasureID, bytesText{&o.Matter}, bytesText{&o.Reason},
		bytesText{&o.Owner}, &o.Purposes, moment{&o.ReviewAt}, moment{&o.ExpiresAt}, moment{&o.PlacedAt}, &o.PlacedBy,
		moment{&o.LiftedAt}, &o.LiftedBy, bytesText{&o.LiftReason},
	}
}

func (o *orderRow) order() ledger.Order {
	o.Scope.WholeTenant = ledger.ScopeForm(o.form) == ledger.ScopeTenant
	o.Scope.Refs = refsOf(o.refs)
	if o.before != math.MaxInt64 {
		o.Scope.CapturedBefore = time.UnixMicro(o.before).UTC()
	}
	return o.Order
}

// refsOf returns hashes as refs.
func refsOf(hs [][32]byte) (refs []blobd.Ref) {
	for _, h := range hs {
		refs = append(refs, h)
	}
	return refs
}

func scanOrder(r pgx.CollectableRow) (ledger.Order, error) {
	var o orderRow
	err := r.Scan(o.to()...)
	return o.order(), err
}

// sortedOnce returns hashes in byte order, each once.
func sortedOnce[H ~[32]byte](hs []H) []H {
	hs = slices.Clone(hs)
	slices.SortFunc(hs, func(a, b H) int { return compareHashes(a, b) })
	return slices.Compact(hs)
}

func compareHashes[H ~[32]byte](a, b H) int {
	x, y := [32]byte(a), [32]byte(b)
	return bytes.Compare(x[:], y[:])
}

// storedScope returns a scope as it will be read back.
func storedScope(s ledger.Scope) ledger.Scope {
	s.Refs, s.Subjects, s.CapturedBefore = sortedOnce(s.Refs), sortedOnce(s.Subjects), stored(s.CapturedBefore)
	return s
}

// compareScopes returns 0 for scopes that cover the same.
func compareScopes(a, b *ledger.Scope) int {
	return cmp.Or(cmp.Compare(a.Form(), b.Form()), cmp.Compare(a.Tenant, b.Tenant), bytes.Compare(a.Tag[:], b.Tag[:]),
		slices.CompareFunc(a.Refs, b.Refs, compareHashes), slices.CompareFunc(a.Subjects, b.Subjects, compareHashes),
		cmp.Compare(a.Class, b.Class), a.CapturedBefore.Compare(b.CapturedBefore))
}

// PlaceOrder implements ledger.Orders.
func (l *Ledger) PlaceOrder(ctx context.Context, o ledger.Order, e ledger.Entry) (placed ledger.Order, rec ledger.Record, err error) {
	const op = "place an order"
	if err := o.Check(); err != nil {
		return placed, rec, classify(op, err)
	}
	o.Scope = storedScope(o.Scope)
	err = l.write(ctx, op, func(ctx context.Context, x *tx) error {
		placed, rec = ledger.Order{}, ledger.Record{}
		return placeOrder(ctx, x, o, e, &placed, &rec)
	})
	if err != nil {
		return ledger.Order{}, ledger.Record{}, err
	}
	return placed, rec, nil
}

func placeOrder(ctx context.Context, x *tx, o ledger.Order, e ledger.Entry, placed *ledger.Order, rec *ledger.Record) error {
	var there orderRow
	var first recordRow
	var known, again, fenced bool
	owner := ""
	x.tenantAlone(o.Scope.Tenant)
	x.scan(&again, append(there.to(), first.to()...),
		"SELECT "+orderColumns+", "+recordColumns+" FROM orders o JOIN journal j ON j.seq = o.record WHERE o.id = $1", o.ID)
	x.scan(&known, []any{&fenced}, "SELECT fenced_at IS NOT NULL FROM tenants WHERE id = $1", o.Scope.Tenant)
	x.scan(nil, []any{&owner}, "SELECT tenant FROM executions WHERE tag = $1", o.Scope.Tag[:])
	if err := x.flush(ctx); err != nil {
		return err
	}
	if again {
		*placed, *rec = there.order(), first.get()
		if placed.Kind != o.Kind || compareScopes(&placed.Scope, &o.Scope) != 0 {
			return fmt.Errorf("the order's id has another kind or scope: %w", blobd.ErrConflict)
		}
		return nil
	}
	switch form := o.Scope.Form(); {
	case !known:
		return fmt.Errorf("tenant: %w", blobd.ErrNotFound)
	case fenced:
		return blobd.ErrTenantErased
	case form.Bounded() && owner != "" && owner != o.Scope.Tenant:
		return fmt.Errorf("the execution is another tenant's: %w", blobd.ErrConflict)
	}
	o.LiftedAt, o.LiftedBy, o.LiftReason, o.ErasureID = time.Time{}, "", "", ""
	x.append(e)
	x.move(counts{entries: 1})
	x.record(rec, ledger.RecordOf(&o, time.Time{}))
	insertOrder(x, &o, nil)
	x.readOrder(placed, o.ID)
	return nil
}

// tenantAlone queues the tenant's lock for who alone may hold it: see tenantLock.
func (t *tx) tenantAlone(tenant string) {
	t.exec("SELECT pg_advisory_xact_lock($1)", tenantLock(tenant))
}

// readOrder queues the reading of an order as it stands then.
func (t *tx) readOrder(to *ledger.Order, id string) {
	t.each(func(r pgx.CollectableRow) (err error) {
		*to, err = scanOrder(r)
		return err
	}, "SELECT "+orderColumns+" FROM orders o WHERE o.id = $1", id)
}

// insertOrder queues an open order's row. Its record is the newest one, or the one
// that is replayed.
func insertOrder(x *tx, o *ledger.Order, record any) {
	s := &o.Scope
	x.exec(`INSERT INTO orders (id, kind, tenant, form, execution_tag, execution_id, refs, subjects, class, captured_before,
		erasure_id, matter, reason, owner, purposes, review_at, expires_at, placed_at, placed_by, record)
		SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, coalesce($20::bigint, d.head)
		FROM deployment d`,
		o.ID, int16(o.Kind), s.Tenant, int16(s.Form()), s.Tag[:], s.ExecutionID, notNull(joined(s.Refs)), notNull(joined(s.Subjects)),
		s.Class, ends(s.CapturedBefore), o.ErasureID, []byte(o.Matter), []byte(o.Reason), []byte(o.Owner), notNilTexts(o.Purposes),
		micros(o.ReviewAt), micros(o.ExpiresAt), o.PlacedAt.UnixMicro(), o.PlacedBy, record)
	if s.Form() == ledger.ScopeRefs {
		x.exec("INSERT INTO order_refs (order_seq, ref) SELECT o.seq, r FROM orders o, unnest($2::bytea[]) r WHERE o.id = $1", o.ID, raw(s.Refs))
	}
	if s.Form() == ledger.ScopeSubjects {
		x.exec("INSERT INTO order_subjects (order_seq, subject) SELECT o.seq, s FROM orders o, unnest($2::bytea[]) s WHERE o.id = $1",
			o.ID, raw(s.Subjects))
	}
}

// liftOrder queues the end of an open order.
func liftOrder(x *tx, l ledger.Lift) {
	x.exec("UPDATE orders SET lifted_at = $2, lifted_by = $3, lift_reason = $4 WHERE id = $1 AND lifted_at IS NULL",
		l.ID, l.At.UnixMicro(), l.By, []byte(l.Reason))
	forgetItems(x, l.ID)
}

// forgetItems queues that a lifted order is not found by refs and subjects any more.
func forgetItems(x *tx, id string) {
	const lifted = " WHERE order_seq = (SELECT seq FROM orders WHERE id = $1 AND lifted_at IS NOT NULL)"
	x.exec("DELETE FROM order_refs"+lifted, id)
	x.exec("DELETE FROM order_subjects"+lifted, id)
}

// LiftOrder implements ledger.Orders.
func (l *Ledger) LiftOrder(ctx context.Context, m ledger.Lift, e ledger.Entry) (lifted ledger.Order, rec ledger.Record, err error) {
	const op = "lift an order"
	if m.Kind == ledger.OrderClosing {
		return lifted, rec, classify(op, fmt.Errorf("a closing is lifted by its erasure: %w", blobd.ErrInvalid))
	}
	err = l.write(ctx, op, func(ctx context.Context, x *tx) error {
		lifted, rec = ledger.Order{}, ledger.Record{}
		x.tenantAlone(m.Tenant)
		x.readOrder(&lifted, m.ID)
		switch err := x.flush(ctx); {
		case err != nil:
			return err
		case lifted.ID == "" || lifted.Scope.Tenant != m.Tenant || lifted.Kind != m.Kind:
			return blobd.ErrNotFound
		case !lifted.Open():
			return nil
		}
		liftOrder(x, m)
		if m.Kind == ledger.OrderHold {
			x.wakeDeferred(m.Tenant, m.At)
		}
		lifted.LiftedAt, lifted.LiftedBy, lifted.LiftReason = stored(m.At), m.By, m.Reason
		x.append(e)
		x.move(counts{entries: 1})
		x.record(&rec, ledger.LiftRecordOf(&lifted))
		return nil
	})
	if err != nil {
		return ledger.Order{}, ledger.Record{}, err
	}
	return lifted, rec, nil
}

// Order implements ledger.Orders.
func (l *Ledger) Order(ctx context.Context, tenant, id string) (ledger.Order, error) {
	const op = "order"
	o, found, err := one(ctx, l, op, scanOrder, "SELECT "+orderColumns+" FROM orders o WHERE o.id = $1 AND o.tenant = $2", id, tenant)
	return o, classifyFound(op, found, err)
}

// ListOrders implements ledger.Orders.
func (l *Ledger) ListOrders(ctx context.Context, q ledger.OrderQuery) ([]ledger.Order, error) {
	const op = "list orders"
	if err := checkLimit(op, q.Limit); err != nil {
		return nil, err
	}
	if q.Kind == ledger.OrderClosing {
		return nil, classify(op, fmt.Errorf("closings are told by their erasures: %w", blobd.ErrInvalid))
	}
	f := filter{"SELECT " + orderColumns + " FROM orders o WHERE o.tenant = $1 AND o.kind = $2", []any{q.Tenant, int16(q.Kind)}}
	if q.Before != (ledger.OrderCursor{}) {
		f.and("(o.placed_at, o.id) < (%, %)", q.Before.PlacedAt.UnixMicro(), q.Before.ID)
	}
	if q.Open {
		f.and("o.lifted_at IS NULL")
	}
	f.args = append(f.args, q.Limit)
	return list(ctx, l, op, scanOrder, f.sql+" ORDER BY o.placed_at DESC, o.id DESC LIMIT $"+strconv.Itoa(len(f.args)), f.args...)
}

// CountHeld implements ledger.Orders.
func (l *Ledger) CountHeld(ctx context.Context, tenant, id string, atMost int64) (rows, size int64, err error) {
	const op = "count held"
	if atMost < 1 {
		return 0, 0, classify(op, fmt.Errorf("at most %d: %w", atMost, blobd.ErrInvalid))
	}
	o, err := l.Order(ctx, tenant, id)
	if err != nil {
		return 0, 0, err
	}
	from, args := within(&o.Scope, retained+" AND b.state <> 7")
	args = append(args, atMost)
	type sum struct{ rows, size int64 }
	s, _, err := one(ctx, l, op, func(r pgx.CollectableRow) (s sum, err error) {
		err = r.Scan(&s.rows, &s.size)
		return s, err
	}, "SELECT count(*), coalesce(sum(q.size), 0)::bigint FROM (SELECT b.size"+from+" LIMIT $"+strconv.Itoa(len(args))+") q", args...)
	return s.rows, s.size, err
}
