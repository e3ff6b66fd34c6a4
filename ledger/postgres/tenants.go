package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// tenantLock is the advisory lock of a tenant. Puts and deletes share it; orders,
// policies and what fences more than one execution take it alone, and both check
// in a later statement. Such locks are negative numbers; the marks of evidence are not.
func tenantLock(tenant string) int64 {
	h := sha256.Sum256([]byte("blobd tenant lock\x00" + tenant))
	return -int64(binary.BigEndian.Uint64(h[:]) >> 1)
}

// shareTenant queues the shared lock of a tenant.
func (t *tx) shareTenant(tenant string) {
	t.exec("SELECT pg_advisory_xact_lock_shared($1)", tenantLock(tenant))
}

// CreateTenant implements ledger.Tenants.
func (l *Ledger) CreateTenant(ctx context.Context, t ledger.Tenant, e ledger.Entry) error {
	return l.write(ctx, "create tenant", func(ctx context.Context, x *tx) error {
		var n int64
		x.count(&n, `INSERT INTO tenants (id, created_at, name_key, index_key, index_wrap, minimum_wrap, approvals)
			VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING`,
			t.ID, t.CreatedAt.UnixMicro(), notNull(t.NameKey), notNull(t.IndexKey), int64(t.IndexWrap), int64(t.MinimumWrap), t.Approvals)
		if err := x.flush(ctx); err != nil {
			return err
		}
		if n == 0 {
			return fmt.Errorf("tenant id in use: %w", blobd.ErrConflict)
		}
		x.append(e)
		x.move(counts{entries: 1})
		return nil
	})
}

const tenantColumns = "id, created_at, name_key, index_key, index_wrap, minimum_wrap, fenced_at, coalesce(fenced_by, ''), approvals"

func scanTenant(r pgx.CollectableRow) (t ledger.Tenant, err error) {
	err = r.Scan(&t.ID, moment{&t.CreatedAt}, &t.NameKey, &t.IndexKey, &t.IndexWrap, &t.MinimumWrap, moment{&t.FencedAt}, &t.FencedBy, &t.Approvals)
	return t, err
}

// Tenant implements ledger.Tenants.
func (l *Ledger) Tenant(ctx context.Context, id string) (ledger.Tenant, error) {
	t, found, err := one(ctx, l, "tenant", scanTenant, "SELECT "+tenantColumns+" FROM tenants WHERE id = $1", id)
	return t, classifyFound("tenant", found, err)
}

// classifyFound is the error of a method that answers with one row.
func classifyFound(op string, found bool, err error) error {
	if err == nil && !found {
		return classify(op, blobd.ErrNotFound)
	}
	return err
}

// ListTenants implements ledger.Tenants.
func (l *Ledger) ListTenants(ctx context.Context, after string, limit int) ([]ledger.Tenant, error) {
	if err := checkLimit("list tenants", limit); err != nil {
		return nil, err
	}
	return list(ctx, l, "list tenants", scanTenant,
		"SELECT "+tenantColumns+" FROM tenants WHERE id > $1 ORDER BY id LIMIT $2", after, limit)
}
