package sqlite

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// show makes an execution read as its tenant's fence has it.
func (f *facts) show(e *ledger.Execution) *ledger.Execution {
	if at, fenced := f.fenced[e.Tenant]; fenced {
		e.EraseAt(at)
	}
	return e
}

// living refuses what would make something new under a tenant.
func living(ctx context.Context, c *conn, tenant string) error {
	t, known, err := tenantByID(ctx, c, tenant)
	switch {
	case err != nil:
		return err
	case !known:
		return fmt.Errorf("tenant: %w", blobd.ErrNotFound)
	case t.Fenced():
		return blobd.ErrTenantErased
	}
	return nil
}

func tenantByID(ctx context.Context, c *conn, id string) (t ledger.Tenant, known bool, err error) {
	known, err = c.one(ctx, "SELECT "+tenantColumns+" FROM tenants WHERE id = ?", func(r *row) { t = r.tenant() }, id)
	return t, known, err
}

// readTenant is readScope for a whole tenant. Counting reads each execution, so
// a fence leaves it out.
func (sc *scope) readTenant(ctx context.Context, c *conn, count bool) error {
	t, known, err := tenantByID(ctx, c, sc.Tenant)
	switch {
	case err != nil:
		return err
	case !known:
		return fmt.Errorf("tenant: %w", blobd.ErrNotFound)
	}
	sc.wrap, sc.fenced, sc.tenantKnown = t.MinimumWrap, t.Fenced(), true
	switch {
	case sc.fenced:
		sc.plan.AlreadyErased = 1
	case count:
		_, err = c.one(ctx, `SELECT count(*), ifnull(sum(blobs), 0), ifnull(sum(bytes), 0)
			FROM executions WHERE tenant = ? AND state <> 3`,
			func(r *row) { sc.plan = ledger.Plan{Executions: r.int(0), Blobs: r.int(1), Bytes: r.int(2)} }, sc.Tenant)
	}
	return err
}

// fenceTenant marks the tenant's row, the first time. The wrapped index key may
// leave traces in the file until its page is used again; the KEK that opens it is
// destroyed.
func fenceTenant(ctx context.Context, w *conn, tenant, id string, at time.Time) error {
	n, err := w.exec(ctx, "UPDATE tenants SET fenced_at = ?, fenced_by = ?, index_key = x'' WHERE id = ? AND fenced_at IS NULL",
		at.UnixMicro(), id, tenant)
	if err != nil || n == 0 {
		return err
	}
	w.moved, w.restated = true, true // what is kept in memory of the tenant reads differently from now on
	_, err = w.exec(ctx, `UPDATE epochs SET state = 5, lease_owner = NULL, lease_until = NULL
		WHERE tenant = ? AND state IN (1, 2, 3)`, tenant)
	return err
}

// enterTenant makes the row of a tenant that was lost.
func enterTenant(ctx context.Context, w *conn, r ledger.Record) error {
	_, err := w.exec(ctx, `INSERT INTO tenants (id, created_at, name_key, index_key, index_wrap, minimum_wrap)
		VALUES (?, ?, x'', x'', 0, 0) ON CONFLICT (id) DO NOTHING`, r.Tenant, r.At.UnixMicro())
	return err
}

// place is how far a whole tenant's job got: executions come oldest first, and in
// each its rows by ref. Its encoding is its order.
type place struct {
	createdAt int64 // microseconds; 0: the start
	tag       blobd.ExecutionTag
	ref       blobd.Ref
}

func (p place) encode() []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(p.createdAt))
	b = append(b, p.tag[:]...)
	return append(b, p.ref[:]...)
}

func decodePlace(b []byte) (p place) {
	if len(b) != len(p.encode()) {
		return place{}
	}
	p.createdAt = int64(binary.BigEndian.Uint64(b))
	copy(p.tag[:], b[8:])
	copy(p.ref[:], b[8+len(p.tag):])
	return p
}

// keyed are the executions of a tenant after a place that are not erased yet.
const keyed = ` FROM executions WHERE tenant = ? AND (created_at, tag) > (?, ?) AND state <> 3
	ORDER BY created_at, tag LIMIT ?`

// DropKeys implements ledger.Jobs. Each call goes on where the last one ended:
// no execution comes to be that is not erased.
func (l *Ledger) DropKeys(ctx context.Context, lease ledger.Lease, limit int) (p ledger.Plan, more bool, err error) {
	if err := checkLimit(limit); err != nil {
		return p, false, classify("drop keys", err)
	}
	err = l.write(ctx, "drop keys", func(w *conn) (err error) {
		p, more, err = dropKeys(ctx, w, lease, limit)
		return err
	})
	if err != nil {
		return ledger.Plan{}, false, err
	}
	return p, more, nil
}

func dropKeys(ctx context.Context, w *conn, lease ledger.Lease, limit int) (p ledger.Plan, more bool, err error) {
	j, err := held(ctx, w, lease)
	if err != nil {
		return p, false, err
	}
	if j.wholeTenant && !j.closing {
		if more, err = dropTenantKeys(ctx, w, j, limit); err != nil {
			return p, false, err
		}
	}
	_, err = w.one(ctx, "SELECT "+erasureColumns+" FROM erasures WHERE seq = ?", func(r *row) { p = r.erasure().Fenced }, j.seq)
	return p, more, err
}

func dropTenantKeys(ctx context.Context, w *conn, j job, limit int) (more bool, err error) {
	t, _, err := tenantByID(ctx, w, j.tenant)
	if err != nil {
		return false, err
	}
	from := decodePlace(j.tombstoned)
	var numbers []int64
	var blobs, bytes int64
	last := from
	err = w.query(ctx, "SELECT n, created_at, tag, blobs, bytes"+keyed, func(r *row) {
		if len(numbers) == limit {
			more = true
			return
		}
		numbers = append(numbers, r.int(0))
		last = place{createdAt: r.int(1), tag: r.tag(2)}
		blobs, bytes = blobs+r.int(3), bytes+r.int(4)
	}, j.tenant, from.createdAt, from.tag[:], int64(limit)+1)
	if err != nil {
		return false, err
	}
	for _, n := range numbers {
		if err := dropExecutionKey(ctx, w, n, t.FencedAt); err != nil {
			return false, err
		}
	}
	if !more {
		last = place{}
	}
	executions := int64(len(numbers))
	add := "plan_executions = plan_executions + ?, plan_blobs = plan_blobs + ?, plan_bytes = plan_bytes + ?"
	if j.planned {
		add = "fenced_executions = fenced_executions + ?, fenced_blobs = fenced_blobs + ?, fenced_bytes = fenced_bytes + ?"
	}
	_, err = w.exec(ctx, "UPDATE erasures SET "+add+", tombstoned = ? WHERE seq = ?", executions, blobs, bytes, last.encode(), j.seq)
	if err != nil {
		return false, err
	}
	return more, count(ctx, w, -blobs, -bytes, -executions)
}

// dropExecutionKey fences an execution that has a row.
func dropExecutionKey(ctx context.Context, w *conn, n int64, at time.Time) error {
	if _, err := w.exec(ctx, "UPDATE execution_keys SET wrapped = NULL WHERE n = ?", n); err != nil {
		return err
	}
	_, err := w.exec(ctx, `UPDATE executions SET state = 3, reason = 0, key_id = NULL, key_version = NULL,
		erased_at = ?, blobs = 0, bytes = 0 WHERE n = ?`, at.UnixMicro(), n)
	return err
}

// leftOfTenant are a tenant's rows after a place that are not tombstones yet.
const leftOfTenant = ` FROM executions e JOIN blobs b ON b.execution_tag = e.tag
	WHERE e.tenant = ? AND (e.created_at, e.tag) >= (?, ?) AND (e.created_at, e.tag, b.ref) > (?, ?, ?)
	AND b.state <> 5 AND (b.state <> 2 OR b.class <> '' OR b.repeat IS NOT NULL)
	ORDER BY e.created_at, e.tag, b.ref LIMIT ?`

func (j job) leftOfTenant(p place, limit int) []any {
	return []any{j.tenant, p.createdAt, p.tag[:], p.createdAt, p.tag[:], p.ref[:], int64(limit)}
}

// tombstoneTenant goes on after the last row that the job passed; at its end it
// starts over.
func tombstoneTenant(ctx context.Context, w *conn, j *job, limit int) error {
	var rows []place
	err := w.query(ctx, "SELECT e.created_at, e.tag, b.ref"+leftOfTenant, func(r *row) {
		rows = append(rows, place{r.int(0), r.tag(1), r.ref(2)})
	}, j.leftOfTenant(decodePlace(j.tombstoned), limit)...)
	if err != nil {
		return err
	}
	for _, p := range rows {
		if err := tombstoneRow(ctx, w, p.tag, p.ref, false); err != nil {
			return err
		}
	}
	last := place{}
	if len(rows) == limit {
		last = rows[limit-1]
	}
	j.tombstoned = last.encode()
	_, err = w.exec(ctx, "UPDATE erasures SET tombstoned = ? WHERE seq = ?", j.tombstoned, j.seq)
	return err
}

// countTenant counts what is left of a tenant, up to limit: after the place that
// the job is at, and if that is nothing, from the start.
func countTenant(ctx context.Context, c *conn, j job, limit int) (left int, err error) {
	for _, from := range []place{decodePlace(j.tombstoned), {}} {
		_, err = c.one(ctx, "SELECT count(*) FROM (SELECT 1"+leftOfTenant+")", func(r *row) { left = int(r.int(0)) },
			j.leftOfTenant(from, limit)...)
		if err != nil || left > 0 {
			return left, err
		}
	}
	return 0, nil
}

// tenantDone refuses to finish while keys or rows are left. It reads all of a
// tenant, so it is kept off the writer. It may: what was dropped stays so, and
// nothing but recovery adds rows to a fenced tenant.
func (l *Ledger) tenantDone(ctx context.Context, lease ledger.Lease) error {
	return l.withReader(ctx, func(c *conn) error {
		j, err := held(ctx, c, lease)
		if err != nil || !j.wholeTenant || j.closing {
			return err
		}
		left, err := c.one(ctx, "SELECT 1"+keyed, func(*row) {}, j.tenant, int64(0), []byte{}, int64(1))
		if err == nil && !left {
			left, err = c.one(ctx, "SELECT 1"+leftOfTenant, func(*row) {}, j.leftOfTenant(place{}, 1)...)
		}
		if err == nil && left {
			err = fmt.Errorf("rows are left: %w", blobd.ErrConflict)
		}
		return err
	})
}
