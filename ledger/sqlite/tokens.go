package sqlite

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// CreateToken implements ledger.Tokens.
func (l *Ledger) CreateToken(ctx context.Context, t ledger.Token, e ledger.Entry) error {
	return l.write(ctx, "create token", func(w *conn) error {
		if err := living(ctx, w, t.Tenant); err != nil {
			return err
		}
		n, err := w.exec(ctx, `INSERT INTO tokens (id, tenant, name, hash, roles, created_at, expires_at, revoked_at)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
			t.ID, t.Tenant, t.Name, t.Hash[:], strings.Join(t.Roles, " "), t.CreatedAt.UnixMicro(),
			micros(t.ExpiresAt), micros(t.RevokedAt))
		if err != nil {
			return err
		}
		if n == 0 {
			return fmt.Errorf("token id or hash in use: %w", blobd.ErrConflict)
		}
		return appendEntries(ctx, w, e)
	})
}

const tokenColumns = "id, tenant, name, hash, roles, created_at, expires_at, revoked_at"

func (r *row) token() ledger.Token {
	t := ledger.Token{
		ID: r.text(0), Tenant: r.text(1), Name: r.text(2), Hash: r.hash(3),
		CreatedAt: r.time(5), ExpiresAt: r.time(6), RevokedAt: r.time(7),
	}
	if roles := r.text(4); roles != "" {
		t.Roles = strings.Split(roles, " ")
	}
	return t
}

// TokenByHash implements ledger.Tokens.
func (l *Ledger) TokenByHash(ctx context.Context, hash [32]byte) (t ledger.Token, err error) {
	err = l.read(ctx, "token", func(c *conn) error {
		found, err := c.one(ctx, "SELECT "+tokenColumns+` FROM tokens
			WHERE hash = ? AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?)`,
			func(r *row) { t = r.token() }, hash[:], l.now().UnixMicro())
		return orNotFound(found, err)
	})
	return t, err
}

// ListTokens implements ledger.Tokens.
func (l *Ledger) ListTokens(ctx context.Context, tenant, after string, limit int) (ts []ledger.Token, err error) {
	if err := checkLimit(limit); err != nil {
		return nil, classify("list tokens", err)
	}
	err = l.read(ctx, "list tokens", func(c *conn) error {
		return c.query(ctx, "SELECT "+tokenColumns+" FROM tokens WHERE tenant = ? AND id > ? ORDER BY id LIMIT ?",
			func(r *row) { ts = append(ts, r.token()) }, tenant, after, int64(limit))
	})
	return ts, err
}

// RevokeToken implements ledger.Tokens.
func (l *Ledger) RevokeToken(ctx context.Context, tenant, id string, at time.Time, e ledger.Entry) (rec ledger.Record, err error) {
	err = l.write(ctx, "revoke token", func(w *conn) error {
		n, err := w.exec(ctx, "UPDATE tokens SET revoked_at = ? WHERE id = ? AND tenant = ? AND revoked_at IS NULL",
			at.UnixMicro(), id, tenant)
		if err != nil {
			return err
		}
		if n == 0 {
			found, err := w.one(ctx, "SELECT 1 FROM tokens WHERE id = ? AND tenant = ?", func(*row) {}, id, tenant)
			return orNotFound(found, err)
		}
		if err := appendEntries(ctx, w, e); err != nil {
			return err
		}
		rec, err = record(ctx, w, ledger.Record{Kind: ledger.RecordRevoke, At: at, Tenant: tenant, TokenID: id})
		return err
	})
	return given(rec, err)
}

// given returns no record of a change that did not come to be.
func given(r ledger.Record, err error) (ledger.Record, error) {
	if err != nil {
		return ledger.Record{}, err
	}
	return r, nil
}
