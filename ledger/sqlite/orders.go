package sqlite

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// orderColumns are read by row.order, from orders.
const orderColumns = `id, kind, tenant, execution_tag, execution_id, refs, subjects, class, before, form,
	erasure, matter, reason, owner, purposes, review_at, expires_at, placed_at, placed_by, lifted_at, lifted_by, lift_reason`

const orderColumnCount = 22

func (r *row) order() ledger.Order {
	o := ledger.Order{
		ID: r.text(0), Kind: ledger.OrderKind(r.int(1)),
		Scope: ledger.Scope{
			Tenant: r.text(2), Tag: r.tag(3), ExecutionID: r.text(4), Refs: r.refs(5), Subjects: r.hashes(6), Class: r.text(7),
			WholeTenant: ledger.ScopeForm(r.int(9)) == ledger.ScopeTenant,
		},
		ErasureID: r.text(10), Matter: r.text(11), Reason: r.text(12), Owner: r.text(13), Purposes: r.list(14),
		ReviewAt: r.time(15), ExpiresAt: r.time(16), PlacedAt: r.time(17), PlacedBy: r.text(18),
		LiftedAt: r.time(19), LiftedBy: r.text(20), LiftReason: r.text(21),
	}
	if r.int(8) != math.MaxInt64 {
		o.Scope.CapturedBefore = r.time(8)
	}
	return o
}

// list reads a JSON list of strings, "" for none.
func (r *row) list(i int) (list []string) {
	s := r.text(i)
	if s == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(s), &list); err != nil {
		r.fail(i, "a list")
	}
	return list
}

// listText is the stored form of a list.
func listText(list []string) (string, error) {
	if len(list) == 0 {
		return "", nil
	}
	b, err := json.Marshal(list)
	return string(b), err
}

// refs reads joined refs.
func (r *row) refs(i int) (refs []blobd.Ref) {
	for _, h := range r.hashes(i) {
		refs = append(refs, h)
	}
	return refs
}

func joinRefs(refs []blobd.Ref) []byte {
	b := make([]byte, 0, len(blobd.Ref{})*len(refs))
	for i := range refs {
		b = append(b, refs[i][:]...)
	}
	return b
}

// sortedRefs are refs in byte order, each once.
func sortedRefs(refs []blobd.Ref) []blobd.Ref {
	refs = slices.Clone(refs)
	slices.SortFunc(refs, func(a, b blobd.Ref) int { return bytes.Compare(a[:], b[:]) })
	return slices.Compact(refs)
}

func orderByID(ctx context.Context, c *conn, id string) (o ledger.Order, found bool, err error) {
	found, err = c.one(ctx, "SELECT "+orderColumns+" FROM orders WHERE id = ?", func(r *row) { o = r.order() }, id)
	return o, found, err
}

// storedScope is a scope as it is read back.
func storedScope(s ledger.Scope) ledger.Scope {
	s.CapturedBefore = stored(s.CapturedBefore)
	s.Refs = sortedRefs(s.Refs)
	s.Subjects = slices.Clone(s.Subjects)
	slices.SortFunc(s.Subjects, func(a, b [32]byte) int { return bytes.Compare(a[:], b[:]) })
	s.Subjects = slices.Compact(s.Subjects)
	return s
}

// sameScope reports whether two stored scopes cover the same. What only names an
// execution for people does not count.
func sameScope(a, b ledger.Scope) bool {
	return a.Tenant == b.Tenant && a.Tag == b.Tag && a.Class == b.Class && a.WholeTenant == b.WholeTenant &&
		a.CapturedBefore.Equal(b.CapturedBefore) && slices.Equal(a.Subjects, b.Subjects) &&
		slices.Equal(a.Refs, b.Refs)
}

// PlaceOrder implements ledger.Orders.
func (l *Ledger) PlaceOrder(ctx context.Context, o ledger.Order, e ledger.Entry) (placed ledger.Order, rec ledger.Record, err error) {
	const op = "place an order"
	if err := o.Check(); err != nil {
		return placed, rec, classify(op, err)
	}
	o.Scope = storedScope(o.Scope)
	o.ReviewAt, o.ExpiresAt, o.PlacedAt = stored(o.ReviewAt), stored(o.ExpiresAt), stored(o.PlacedAt)
	o.ErasureID, o.LiftedAt, o.LiftedBy, o.LiftReason = "", time.Time{}, "", ""
	err = l.write(ctx, op, func(w *conn) (err error) {
		placed, rec, err = placeOrder(ctx, w, o, e)
		return err
	})
	if err != nil {
		return ledger.Order{}, ledger.Record{}, err
	}
	return placed, rec, nil
}

func placeOrder(ctx context.Context, w *conn, o ledger.Order, e ledger.Entry) (ledger.Order, ledger.Record, error) {
	var first ledger.Order
	var rec ledger.Record
	again, err := w.one(ctx, "SELECT "+orderColumns+", j.body FROM orders LEFT JOIN journal j ON j.seq = record WHERE id = ?",
		func(r *row) {
			if first = r.order(); !r.null(orderColumnCount) {
				rec = r.record(orderColumnCount)
			}
		}, o.ID)
	switch {
	case err != nil:
		return o, rec, err
	case again && (first.Kind != o.Kind || !sameScope(first.Scope, o.Scope)):
		return o, rec, fmt.Errorf("the order id has another kind or scope: %w", blobd.ErrConflict)
	case again:
		return first, rec, nil
	}
	if err := living(ctx, w, o.Scope.Tenant); err != nil {
		return o, rec, err
	}
	if err := ownExecution(ctx, w, o.Scope); err != nil {
		return o, rec, err
	}
	if err := appendEntries(ctx, w, e); err != nil {
		return o, rec, err
	}
	if rec, err = record(ctx, w, ledger.RecordOf(&o, time.Time{})); err != nil {
		return o, rec, err
	}
	return o, rec, insertOrder(ctx, w, o, rec.Seq)
}

// ownExecution refuses a scope in an execution of another tenant.
func ownExecution(ctx context.Context, c *conn, s ledger.Scope) error {
	if !s.Form().Bounded() {
		return nil
	}
	others, err := c.one(ctx, "SELECT 1 FROM executions WHERE tag = ? AND tenant <> ?", func(*row) {}, s.Tag[:], s.Tenant)
	if err == nil && others {
		err = fmt.Errorf("the execution is another tenant's: %w", blobd.ErrConflict)
	}
	return err
}

// insertOrder makes the row of an order, and what its scope is found by.
func insertOrder(ctx context.Context, w *conn, o ledger.Order, recordSeq int64) error {
	purposes, err := listText(o.Purposes)
	if err != nil {
		return err
	}
	s, open := o.Scope, flag(o.Open())
	var seq int64
	inserted, err := w.one(ctx, `INSERT INTO orders (id, kind, tenant, execution_tag, execution_id, refs, subjects, class, before, form,
		erasure, matter, reason, owner, purposes, review_at, expires_at, placed_at, placed_by, lifted_at, lifted_by, lift_reason, record)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING seq`,
		func(r *row) { seq = r.int(0) },
		o.ID, int64(o.Kind), s.Tenant, s.Tag[:], s.ExecutionID, orNull(joinRefs(s.Refs)), orNull(joinHashes(s.Subjects)), s.Class,
		beforeMicros(s.CapturedBefore), int64(s.Form()), o.ErasureID, o.Matter, o.Reason, o.Owner, purposes,
		micros(o.ReviewAt), micros(o.ExpiresAt), o.PlacedAt.UnixMicro(), o.PlacedBy, micros(o.LiftedAt), o.LiftedBy, o.LiftReason, recordSeq)
	if err != nil {
		return err
	}
	if !inserted {
		return fmt.Errorf("the order id is in use: %w", blobd.ErrConflict)
	}
	var rows [][]any
	for _, ref := range s.Refs {
		rows = append(rows, []any{seq, ref[:], s.Tag[:], s.Tenant, int64(o.Kind), open})
	}
	err = w.insertMany(ctx, "INSERT INTO order_refs (placed, ref, execution_tag, tenant, kind, open) VALUES ", "", rows)
	if err != nil {
		return err
	}
	rows = rows[:0]
	for i := range s.Subjects {
		rows = append(rows, []any{seq, s.Subjects[i][:], s.Tenant, int64(o.Kind), open})
	}
	return w.insertMany(ctx, "INSERT INTO order_subjects (placed, subject, tenant, kind, open) VALUES ", "", rows)
}

// LiftOrder implements ledger.Orders.
func (l *Ledger) LiftOrder(ctx context.Context, x ledger.Lift, e ledger.Entry) (o ledger.Order, rec ledger.Record, err error) {
	const op = "lift an order"
	if x.Kind == ledger.OrderClosing {
		return o, rec, classify(op, fmt.Errorf("a closing is lifted by its erasure: %w", blobd.ErrInvalid))
	}
	err = l.write(ctx, op, func(w *conn) (err error) {
		o, rec, err = liftOrder(ctx, w, x, e)
		return err
	})
	if err != nil {
		return ledger.Order{}, ledger.Record{}, err
	}
	return o, rec, nil
}

func liftOrder(ctx context.Context, w *conn, x ledger.Lift, e ledger.Entry) (o ledger.Order, rec ledger.Record, err error) {
	o, found, err := orderByID(ctx, w, x.ID)
	if err := orNotFound(found && o.Scope.Tenant == x.Tenant && o.Kind == x.Kind, err); err != nil {
		return o, rec, err
	}
	if !o.Open() {
		return o, rec, nil
	}
	o.LiftedAt, o.LiftedBy, o.LiftReason = stored(x.At), x.By, x.Reason
	if err := endOrder(ctx, w, o); err != nil {
		return o, rec, err
	}
	if err := appendEntries(ctx, w, e); err != nil {
		return o, rec, err
	}
	rec, err = record(ctx, w, ledger.LiftRecordOf(&o))
	return o, rec, err
}

// endOrder ends an order that was open, as its fields now say.
func endOrder(ctx context.Context, w *conn, o ledger.Order) error {
	_, err := w.exec(ctx, "UPDATE orders SET lifted_at = ?, lifted_by = ?, lift_reason = ? WHERE id = ?",
		o.LiftedAt.UnixMicro(), o.LiftedBy, o.LiftReason, o.ID)
	for _, statement := range []string{
		"UPDATE order_refs SET open = 0 WHERE placed = (SELECT seq FROM orders WHERE id = ?)",
		"UPDATE order_subjects SET open = 0 WHERE placed = (SELECT seq FROM orders WHERE id = ?)",
	} {
		if err == nil {
			_, err = w.exec(ctx, statement, o.ID)
		}
	}
	if err == nil && o.Kind == ledger.OrderHold {
		err = freed(ctx, w, o.Scope.Tenant, o.LiftedAt)
	}
	return err
}

// freed makes a tenant's deferred erasures due: what kept their rows may keep them no
// more. Those that run now may have passed the rows, and hear of it when they defer.
func freed(ctx context.Context, w *conn, tenant string, at time.Time) error {
	_, err := w.exec(ctx, `UPDATE erasures SET run_at = CASE state WHEN 'deferred' THEN min(run_at, ?) ELSE run_at END,
		woken = CASE state WHEN 'running' THEN ? END
		WHERE tenant = ? AND closing = 1 AND state IN ('running', 'deferred')`, at.UnixMicro(), at.UnixMicro(), tenant)
	return err
}

// Order implements ledger.Orders.
func (l *Ledger) Order(ctx context.Context, tenant, id string) (o ledger.Order, err error) {
	err = l.read(ctx, "order", func(c *conn) (err error) {
		var found bool
		o, found, err = orderByID(ctx, c, id)
		return orNotFound(found && o.Scope.Tenant == tenant, err)
	})
	if err != nil {
		return ledger.Order{}, err
	}
	return o, nil
}

// ListOrders implements ledger.Orders.
func (l *Ledger) ListOrders(ctx context.Context, q ledger.OrderQuery) (all []ledger.Order, err error) {
	if err := checkLimit(q.Limit); err != nil {
		return nil, classify("list orders", err)
	}
	if q.Kind == ledger.OrderClosing {
		return nil, classify("list orders", fmt.Errorf("closings have no listing: %w", blobd.ErrInvalid))
	}
	query, args := "SELECT "+orderColumns+" FROM orders WHERE tenant = ? AND kind = ?", []any{q.Tenant, int64(q.Kind)}
	if q.Before != (ledger.OrderCursor{}) {
		query += " AND (placed_at, id) < (?, ?)"
		args = append(args, q.Before.PlacedAt.UnixMicro(), q.Before.ID)
	}
	if q.Open {
		query += " AND lifted_at IS NULL"
	}
	query += " ORDER BY placed_at DESC, id DESC LIMIT ?"
	args = append(args, int64(q.Limit))
	err = l.read(ctx, "list orders", func(c *conn) error {
		return c.query(ctx, query, func(r *row) { all = append(all, r.order()) }, args...)
	})
	return all, err
}
