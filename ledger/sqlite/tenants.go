package sqlite

import (
	"context"
	"fmt"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// CreateTenant implements ledger.Tenants.
func (l *Ledger) CreateTenant(ctx context.Context, t ledger.Tenant, e ledger.Entry) error {
	return l.writeFacts(ctx, "create tenant", func(w *conn) error {
		n, err := w.exec(ctx, `INSERT INTO tenants (id, created_at, name_key, index_key, index_wrap, minimum_wrap, approvals)
			VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`,
			t.ID, t.CreatedAt.UnixMicro(), notNull(t.NameKey), notNull(t.IndexKey), int64(t.IndexWrap), int64(t.MinimumWrap),
			int64(t.Approvals))
		if err != nil {
			return err
		}
		if n == 0 {
			return fmt.Errorf("tenant id in use: %w", blobd.ErrConflict)
		}
		return appendEntries(ctx, w, e)
	})
}

const tenantColumns = "id, created_at, name_key, index_key, index_wrap, minimum_wrap, fenced_at, ifnull(fenced_by, ''), approvals"

func (r *row) tenant() ledger.Tenant {
	return ledger.Tenant{
		ID: r.text(0), CreatedAt: r.time(1), NameKey: r.bytes(2), IndexKey: r.bytes(3),
		IndexWrap: uint32(r.int(4)), MinimumWrap: uint32(r.int(5)), FencedAt: r.time(6), FencedBy: r.text(7),
		Approvals: int(r.int(8)),
	}
}

// Tenant implements ledger.Tenants.
func (l *Ledger) Tenant(ctx context.Context, id string) (t ledger.Tenant, err error) {
	err = l.read(ctx, "tenant", func(c *conn) (err error) {
		var found bool
		t, found, err = tenantByID(ctx, c, id)
		return orNotFound(found, err)
	})
	return t, err
}

// ListTenants implements ledger.Tenants.
func (l *Ledger) ListTenants(ctx context.Context, after string, limit int) (ts []ledger.Tenant, err error) {
	if err := checkLimit(limit); err != nil {
		return nil, classify("list tenants", err)
	}
	err = l.read(ctx, "list tenants", func(c *conn) error {
		return c.query(ctx, "SELECT "+tenantColumns+" FROM tenants WHERE id > ? ORDER BY id LIMIT ?",
			func(r *row) { ts = append(ts, r.tenant()) }, after, int64(limit))
	})
	return ts, err
}

// orNotFound is the answer of a query for one row.
func orNotFound(found bool, err error) error {
	if err == nil && !found {
		return blobd.ErrNotFound
	}
	return err
}
