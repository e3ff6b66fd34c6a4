package mem

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// CreateTenant implements ledger.Tenants.
func (l *Ledger) CreateTenant(ctx context.Context, t ledger.Tenant, e ledger.Entry) error {
	if err := l.begin(ctx, "create tenant"); err != nil {
		return err
	}
	defer l.mu.Unlock()
	if _, used := l.tenants[t.ID]; used {
		return refuse("create tenant", fmt.Errorf("tenant id in use: %w", blobd.ErrConflict))
	}
	l.tenants[t.ID] = cloneTenant(t)
	l.append(e)
	return nil
}

// Tenant implements ledger.Tenants.
func (l *Ledger) Tenant(ctx context.Context, id string) (ledger.Tenant, error) {
	if err := l.begin(ctx, "tenant"); err != nil {
		return ledger.Tenant{}, err
	}
	defer l.mu.Unlock()
	t, known := l.tenants[id]
	if !known {
		return ledger.Tenant{}, refuse("tenant", blobd.ErrNotFound)
	}
	return cloneTenant(t), nil
}

// ListTenants implements ledger.Tenants.
func (l *Ledger) ListTenants(ctx context.Context, after string, limit int) ([]ledger.Tenant, error) {
	if err := checkLimit("list tenants", limit); err != nil {
		return nil, err
	}
	if err := l.begin(ctx, "list tenants"); err != nil {
		return nil, err
	}
	defer l.mu.Unlock()
	var ts []ledger.Tenant
	for id, t := range l.tenants {
		if id > after {
			ts = append(ts, cloneTenant(t))
		}
	}
	slices.SortFunc(ts, func(a, b ledger.Tenant) int { return cmp.Compare(a.ID, b.ID) })
	return cut(ts, limit), nil
}

// CreateToken implements ledger.Tokens.
func (l *Ledger) CreateToken(ctx context.Context, t ledger.Token, e ledger.Entry) error {
	if err := l.begin(ctx, "create token"); err != nil {
		return err
	}
	defer l.mu.Unlock()
	if err := l.living(t.Tenant); err != nil {
		return refuse("create token", err)
	}
	for _, other := range l.tokens {
		if other.ID == t.ID || other.Hash == t.Hash {
			return refuse("create token", fmt.Errorf("token id or hash in use: %w", blobd.ErrConflict))
		}
	}
	l.tokens[t.ID] = cloneToken(t)
	l.append(e)
	return nil
}

// TokenByHash implements ledger.Tokens.
func (l *Ledger) TokenByHash(ctx context.Context, hash [32]byte) (ledger.Token, error) {
	if err := l.begin(ctx, "token"); err != nil {
		return ledger.Token{}, err
	}
	defer l.mu.Unlock()
	for _, t := range l.tokens {
		ended := !t.ExpiresAt.IsZero() && !kept(l.now()).Before(t.ExpiresAt)
		if t.Hash == hash && t.RevokedAt.IsZero() && !ended {
			return cloneToken(t), nil
		}
	}
	return ledger.Token{}, refuse("token", blobd.ErrNotFound)
}

// ListTokens implements ledger.Tokens.
func (l *Ledger) ListTokens(ctx context.Context, tenant, after string, limit int) ([]ledger.Token, error) {
	if err := checkLimit("list tokens", limit); err != nil {
		return nil, err
	}
	if err := l.begin(ctx, "list tokens"); err != nil {
		return nil, err
	}
	defer l.mu.Unlock()
	var ts []ledger.Token
	for id, t := range l.tokens {
		if t.Tenant == tenant && id > after {
			ts = append(ts, cloneToken(t))
		}
	}
	slices.SortFunc(ts, func(a, b ledger.Token) int { return cmp.Compare(a.ID, b.ID) })
	return cut(ts, limit), nil
}

// RevokeToken implements ledger.Tokens.
func (l *Ledger) RevokeToken(ctx context.Context, tenant, id string, at time.Time, e ledger.Entry) (ledger.Record, error) {
	if err := l.begin(ctx, "revoke token"); err != nil {
		return ledger.Record{}, err
	}
	defer l.mu.Unlock()
	t, known := l.tokens[id]
	switch {
	case !known || t.Tenant != tenant:
		return ledger.Record{}, refuse("revoke token", blobd.ErrNotFound)
	case !t.RevokedAt.IsZero():
		return ledger.Record{}, nil
	}
	t.RevokedAt = kept(at)
	l.tokens[id] = t
	l.append(e)
	return l.record(ledger.Record{Kind: ledger.RecordRevoke, At: at, Tenant: tenant, TokenID: id}), nil
}
