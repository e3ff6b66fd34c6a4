package postgres

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// living refuses what would make something new under a tenant. It shares the
// tenant's lock first, so no fence comes in between.
func (t *tx) living(ctx context.Context, tenant string) error {
	known := false
	var fencedAt time.Time
	t.shareTenant(tenant)
	t.scan(&known, []any{moment{&fencedAt}}, "SELECT fenced_at FROM tenants WHERE id = $1", tenant)
	switch err := t.flush(ctx); {
	case err != nil:
		return err
	case !known:
		return fmt.Errorf("tenant: %w", blobd.ErrNotFound)
	case !fencedAt.IsZero():
		return blobd.ErrTenantErased
	}
	return nil
}

// readTenant queues the reading of a scope that is wider than an execution. Under the
// tenant's lock every put that may have seen the tenant living has ended. Counting
// reads each execution, so a fence, which locks, leaves it out.
func (sc *scope) readTenant(t *tx, lock bool) {
	if !lock {
		t.scan(nil, []any{&sc.whole.Executions, &sc.whole.Blobs, &sc.whole.Bytes}, `SELECT count(*),
			coalesce(sum(blobs), 0)::bigint, coalesce(sum(bytes), 0)::bigint FROM executions WHERE tenant = $1 AND state <> 3`, sc.Tenant)
	}
	sc.readTenantRow(t)
}

// readTenantRow is readTenant where no lock is needed and nothing is counted.
func (sc *scope) readTenantRow(t *tx) {
	t.scan(&sc.tenantKnown, []any{&sc.wrap, &sc.fenced},
		"SELECT minimum_wrap, fenced_at IS NOT NULL FROM tenants WHERE id = $1", sc.Tenant)
}

// countTenant makes the plan of a whole tenant.
func (sc *scope) countTenant() error {
	switch sc.known = sc.tenantKnown; {
	case !sc.known:
		return fmt.Errorf("tenant: %w", blobd.ErrNotFound)
	case sc.fenced:
		sc.plan = ledger.Plan{AlreadyErased: 1}
	default:
		sc.plan = sc.whole
	}
	return nil
}

// fenceTenant marks the tenant's row, the first time.
func fenceTenant(x *tx, sc *scope, f ledger.Fence) {
	if sc.fenced {
		return
	}
	x.exec("UPDATE tenants SET fenced_at = $1, fenced_by = $2, index_key = '' WHERE id = $3", f.At.UnixMicro(), f.ID, sc.Tenant)
	x.exec(`UPDATE epochs SET state = 5, lease_owner = NULL, lease_until = NULL
		WHERE tenant = $1 AND state IN (1, 2, 3)`, sc.Tenant)
}

// enterTenant queues the making of the row of a tenant that was lost.
func enterTenant(x *tx, r ledger.Record) {
	x.exec(`INSERT INTO tenants (id, created_at, name_key, index_key, index_wrap, minimum_wrap)
		VALUES ($1, $2, '', '', 0, 0) ON CONFLICT DO NOTHING`, r.Tenant, r.At.UnixMicro())
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
const keyed = ` FROM executions WHERE tenant = $1 AND (created_at, tag) > ($2, $3) AND state <> 3
	ORDER BY created_at, tag LIMIT $4`

// DropKeys implements ledger.Jobs. Each call goes on where the last one ended:
// no execution comes to be that is not erased.
func (l *Ledger) DropKeys(ctx context.Context, lease ledger.Lease, limit int) (p ledger.Plan, more bool, err error) {
	const op = "drop keys"
	if err := checkLimit(op, limit); err != nil {
		return p, false, err
	}
	err = l.write(ctx, op, func(ctx context.Context, x *tx) (err error) {
		p, more, err = dropKeys(ctx, x, lease, limit)
		return err
	})
	if err != nil {
		return ledger.Plan{}, false, err
	}
	return p, more, nil
}

func dropKeys(ctx context.Context, x *tx, lease ledger.Lease, limit int) (p ledger.Plan, more bool, err error) {
	j, err := held(ctx, x, lease)
	if err != nil {
		return p, false, err
	}
	if j.wholeTenant && !j.closing {
		if more, err = dropTenantKeys(ctx, x, j, limit); err != nil {
			return p, false, err
		}
	}
	var e ledger.Erasure
	x.scan(nil, erasureTo(&e), "SELECT "+erasureColumns+" FROM erasures x WHERE x.seq = $1", j.seq)
	err = x.flush(ctx)
	return e.Fenced, more, err
}

func dropTenantKeys(ctx context.Context, x *tx, j job, limit int) (more bool, err error) {
	last := decodePlace(j.tombstoned)
	var tags [][]byte
	var blobs, bytes int64
	x.each(func(r pgx.CollectableRow) error {
		if len(tags) == limit {
			more = true
			return nil
		}
		var p place
		var b, n int64
		if err := r.Scan(&p.createdAt, fixed(p.tag[:]), &b, &n); err != nil {
			return err
		}
		last, tags = p, append(tags, p.tag[:])
		blobs, bytes = blobs+b, bytes+n
		return nil
	}, "SELECT created_at, tag, blobs, bytes"+keyed+" FOR NO KEY UPDATE", j.tenant, last.createdAt, last.tag[:], limit+1)
	// No hold is placed in a fenced tenant and none was there, but for what the
	// journal may have brought back.
	kept := false
	x.scan(&kept, []any{new(int)}, heldInTenant, j.tenant)
	if err := x.flush(ctx); err != nil {
		return false, err
	}
	if kept {
		return false, fmt.Errorf("a hold covers rows of the tenant: %w", blobd.ErrHeld)
	}
	if !more {
		last = place{}
	}
	x.exec("DELETE FROM execution_keys WHERE tag = ANY($1::bytea[])", tags)
	x.exec(`UPDATE executions e SET state = 3, reason = 0, erased_at = t.fenced_at, blobs = 0, bytes = 0, lost_blob = FALSE
		FROM tenants t WHERE t.id = e.tenant AND e.tag = ANY($1::bytea[])`, tags)
	executions := int64(len(tags))
	add := "plan_executions = plan_executions + $1, plan_blobs = plan_blobs + $2, plan_bytes = plan_bytes + $3"
	if j.planned {
		add = "fenced_executions = fenced_executions + $1, fenced_blobs = fenced_blobs + $2, fenced_bytes = fenced_bytes + $3"
	}
	x.exec("UPDATE erasures SET "+add+", tombstoned = $4 WHERE seq = $5", executions, blobs, bytes, last.encode(), j.seq)
	if executions > 0 {
		x.move(counts{blobs: -blobs, bytes: -bytes, executions: -executions})
	}
	return more, nil
}

// leftOfTenant are a tenant's rows after a place that are not tombstones yet.
const leftOfTenant = ` FROM executions e JOIN blobs b ON b.execution_tag = e.tag
	WHERE e.tenant = $1 AND (e.created_at, e.tag) >= ($2, $3) AND (e.created_at, e.tag, b.ref) > ($2, $3, $4)
	AND b.state <> 5 AND (b.state <> 2 OR b.class <> '' OR b.repeat IS NOT NULL)
	ORDER BY e.created_at, e.tag, b.ref LIMIT $5`

func (j job) leftOfTenant(p place, limit int) []any {
	return []any{j.tenant, p.createdAt, p.tag[:], p.ref[:], limit}
}

// tombstoneTenant goes on after the last row that the job passed; at its end it
// starts over.
func tombstoneTenant(ctx context.Context, x *tx, j *job, limit int) error {
	var rows []place
	x.each(func(r pgx.CollectableRow) error {
		var p place
		err := r.Scan(&p.createdAt, fixed(p.tag[:]), fixed(p.ref[:]))
		rows = append(rows, p)
		return err
	}, "SELECT e.created_at, e.tag, b.ref"+leftOfTenant+" FOR UPDATE OF b", j.leftOfTenant(decodePlace(j.tombstoned), limit)...)
	if err := x.flush(ctx); err != nil {
		return err
	}
	tags, refs := make([][]byte, len(rows)), make([][]byte, len(rows))
	for i := range rows {
		tags[i], refs[i] = rows[i].tag[:], rows[i].ref[:]
	}
	x.exec(`UPDATE blobs b SET state = 2, class = '', class_n = NULL, kind = '', content_type = '', size = 0, sealed_size = 0,
		step_id = '', wrapped = NULL, audience = NULL, repeat = NULL
		FROM unnest($1::bytea[], $2::bytea[]) g (tag, ref) WHERE b.execution_tag = g.tag AND b.ref = g.ref`, tags, refs)
	x.exec(`DELETE FROM subjects s USING unnest($1::bytea[], $2::bytea[]) g (tag, ref)
		WHERE s.execution_tag = g.tag AND s.ref = g.ref`, tags, refs)
	last := place{}
	if len(rows) == limit {
		last = rows[limit-1]
	}
	j.tombstoned = last.encode()
	x.exec("UPDATE erasures SET tombstoned = $1 WHERE seq = $2", j.tombstoned, j.seq)
	return nil
}

// countTenant counts what is left of a tenant, up to limit: after the place that
// the job is at, and if that is nothing, from the start.
func (l *Ledger) countTenant(ctx context.Context, op string, j job, limit int) (left int, err error) {
	for _, from := range []place{decodePlace(j.tombstoned), {}} {
		left, _, err = one(ctx, l, op, pgx.RowTo[int], "SELECT count(*) FROM (SELECT 1"+leftOfTenant+") q", j.leftOfTenant(from, limit)...)
		if err != nil || left > 0 {
			return left, err
		}
	}
	return 0, nil
}

// tenantDone refuses to finish while keys or rows are left. It reads all of a
// tenant, so no lock is held meanwhile. It may: what was dropped stays so, and
// nothing but recovery adds rows to a fenced tenant.
func (l *Ledger) tenantDone(ctx context.Context, op string, lease ledger.Lease) error {
	j, found, err := one(ctx, l, op, func(r pgx.CollectableRow) (j job, err error) {
		err = r.Scan(&j.tenant, &j.wholeTenant)
		return j, err
	}, "SELECT tenant, whole_tenant FROM erasures WHERE id = $1", lease.ErasureID)
	if err != nil || !found || !j.wholeTenant {
		return err
	}
	_, left, err := one(ctx, l, op, pgx.RowTo[int], "SELECT 1"+keyed, j.tenant, int64(0), []byte{}, 1)
	if err == nil && !left {
		_, left, err = one(ctx, l, op, pgx.RowTo[int], "SELECT 1"+leftOfTenant, j.leftOfTenant(place{}, 1)...)
	}
	if err == nil && left {
		err = classify(op, fmt.Errorf("rows are left: %w", blobd.ErrConflict))
	}
	return err
}
