package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// CreateToken implements ledger.Tokens.
func (l *Ledger) CreateToken(ctx context.Context, t ledger.Token, e ledger.Entry) error {
	return l.write(ctx, "create token", func(ctx context.Context, x *tx) error {
		var n int64
		if err := x.living(ctx, t.Tenant); err != nil {
			return err
		}
		x.count(&n, `INSERT INTO tokens (id, tenant, name, hash, roles, created_at, expires_at, revoked_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING`,
			t.ID, t.Tenant, t.Name, t.Hash[:], notNilTexts(t.Roles), t.CreatedAt.UnixMicro(), micros(t.ExpiresAt), micros(t.RevokedAt))
		if err := x.flush(ctx); err != nil {
			return err
		}
		if n == 0 {
			return fmt.Errorf("token id or hash in use: %w", blobd.ErrConflict)
		}
		x.append(e)
		x.move(counts{entries: 1})
		return nil
	})
}

func notNilTexts(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

const tokenColumns = "k.id, k.tenant, k.name, k.hash, k.roles, k.created_at, k.expires_at, k.revoked_at"

// tokenRow scans tokenColumns, of an outer join too.
type tokenRow struct {
	id, tenant, name *string
	token            ledger.Token
}

func (t *tokenRow) to() []any {
	k := &t.token
	return []any{
		&t.id, &t.tenant, &t.name, fixed(k.Hash[:]), &k.Roles,
		moment{&k.CreatedAt}, moment{&k.ExpiresAt}, moment{&k.RevokedAt},
	}
}

func (t *tokenRow) get() ledger.Token {
	t.token.ID, t.token.Tenant, t.token.Name = deref(t.id), deref(t.tenant), deref(t.name)
	return t.token
}

func scanToken(r pgx.CollectableRow) (ledger.Token, error) {
	var t tokenRow
	err := r.Scan(t.to()...)
	return t.get(), err
}

// tokenOnTimeline is a token, if there is one, and where it was read.
type tokenOnTimeline struct {
	timeline string
	tokenRow
}

// TokenByHash implements ledger.Tokens.
func (l *Ledger) TokenByHash(ctx context.Context, hash [32]byte) (ledger.Token, error) {
	const op = "token"
	t, _, err := one(ctx, l, op, func(r pgx.CollectableRow) (t tokenOnTimeline, err error) {
		err = r.Scan(append([]any{&t.timeline}, t.to()...)...)
		return t, err
	}, "SELECT h.timeline, "+tokenColumns+" FROM (SELECT "+timeline+` AS timeline) h
		LEFT JOIN tokens k ON k.hash = $1 AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR
			k.expires_at > coalesce($2::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint))`, hash[:], l.now())
	if err == nil {
		err = classify(op, l.checkTimeline(t.timeline))
	}
	if err != nil {
		return ledger.Token{}, err
	}
	return t.get(), classifyFound(op, t.id != nil, nil)
}

// ListTokens implements ledger.Tokens.
func (l *Ledger) ListTokens(ctx context.Context, tenant, after string, limit int) ([]ledger.Token, error) {
	if err := checkLimit("list tokens", limit); err != nil {
		return nil, err
	}
	return list(ctx, l, "list tokens", scanToken,
		"SELECT "+tokenColumns+" FROM tokens k WHERE k.tenant = $1 AND k.id > $2 ORDER BY k.id LIMIT $3", tenant, after, limit)
}

// RevokeToken implements ledger.Tokens.
func (l *Ledger) RevokeToken(ctx context.Context, tenant, id string, at time.Time, e ledger.Entry) (ledger.Record, error) {
	r := ledger.Record{Kind: ledger.RecordRevoke, At: at, Tenant: tenant, TokenID: id}
	var made ledger.Record
	err := l.write(ctx, "revoke token", func(ctx context.Context, x *tx) error {
		made = ledger.Record{}
		var revoked *int64
		known := false
		x.scan(&known, []any{&revoked}, "SELECT revoked_at FROM tokens WHERE id = $1 AND tenant = $2 FOR UPDATE", id, tenant)
		err := x.flush(ctx)
		if err := orNotFound(known, err); err != nil || revoked != nil {
			return err
		}
		x.exec("UPDATE tokens SET revoked_at = $1 WHERE id = $2", at.UnixMicro(), id)
		x.append(e)
		x.move(counts{entries: 1})
		x.record(&made, r)
		return nil
	})
	return given(made, err)
}

// given returns no record of a change that did not come to be.
func given(r ledger.Record, err error) (ledger.Record, error) {
	if err != nil {
		return ledger.Record{}, err
	}
	return r, nil
}
