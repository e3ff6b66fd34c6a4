package faulty

import (
	"context"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// CreateTenant implements ledger.Tenants.
func (l *Ledger) CreateTenant(ctx context.Context, t ledger.Tenant, e ledger.Entry) error {
	return l.do("createtenant", func() error { return l.inner.CreateTenant(ctx, t, e) })
}

// Tenant implements ledger.Tenants.
func (l *Ledger) Tenant(ctx context.Context, id string) (ledger.Tenant, error) {
	return get(l, "tenant", func() (ledger.Tenant, error) { return l.inner.Tenant(ctx, id) })
}

// ListTenants implements ledger.Tenants.
func (l *Ledger) ListTenants(ctx context.Context, after string, limit int) ([]ledger.Tenant, error) {
	return get(l, "listtenants", func() ([]ledger.Tenant, error) { return l.inner.ListTenants(ctx, after, limit) })
}

// CreateToken implements ledger.Tokens.
func (l *Ledger) CreateToken(ctx context.Context, t ledger.Token, e ledger.Entry) error {
	return l.do("createtoken", func() error { return l.inner.CreateToken(ctx, t, e) })
}

// TokenByHash implements ledger.Tokens.
func (l *Ledger) TokenByHash(ctx context.Context, hash [32]byte) (ledger.Token, error) {
	return get(l, "tokenbyhash", func() (ledger.Token, error) { return l.inner.TokenByHash(ctx, hash) })
}

// ListTokens implements ledger.Tokens.
func (l *Ledger) ListTokens(ctx context.Context, tenant, after string, limit int) ([]ledger.Token, error) {
	return get(l, "listtokens", func() ([]ledger.Token, error) { return l.inner.ListTokens(ctx, tenant, after, limit) })
}

// RevokeToken implements ledger.Tokens.
func (l *Ledger) RevokeToken(ctx context.Context, tenant, id string, at time.Time, e ledger.Entry) (ledger.Record, error) {
	return get(l, "revoketoken", func() (ledger.Record, error) { return l.inner.RevokeToken(ctx, tenant, id, at, e) })
}

// Lookup implements ledger.Blobs.
func (l *Ledger) Lookup(ctx context.Context, tag blobd.ExecutionTag, refs []blobd.Ref) (ledger.View, error) {
	return get(l, "lookup", func() (ledger.View, error) { return l.inner.Lookup(ctx, tag, refs) })
}

// LookupRepeats implements ledger.Blobs.
func (l *Ledger) LookupRepeats(ctx context.Context, tag blobd.ExecutionTag, repeats [][32]byte) (ledger.View, error) {
	return get(l, "lookuprepeats", func() (ledger.View, error) { return l.inner.LookupRepeats(ctx, tag, repeats) })
}

// Commit implements ledger.Blobs.
func (l *Ledger) Commit(ctx context.Context, c ledger.Capture) (ledger.Committed, error) {
	return get(l, "commit", func() (ledger.Committed, error) { return l.inner.Commit(ctx, c) })
}

// Execution implements ledger.Executions.
func (l *Ledger) Execution(ctx context.Context, tenant string, tag blobd.ExecutionTag) (ledger.Summary, error) {
	return get(l, "execution", func() (ledger.Summary, error) { return l.inner.Execution(ctx, tenant, tag) })
}

// ListExecutions implements ledger.Executions.
func (l *Ledger) ListExecutions(ctx context.Context, q ledger.ExecutionQuery) ([]ledger.Execution, error) {
	return get(l, "listexecutions", func() ([]ledger.Execution, error) { return l.inner.ListExecutions(ctx, q) })
}

// Records implements ledger.Executions.
func (l *Ledger) Records(ctx context.Context, q ledger.RecordQuery) ([]ledger.RecordedPart, error) {
	return get(l, "records", func() ([]ledger.RecordedPart, error) { return l.inner.Records(ctx, q) })
}

// Fence implements ledger.Erasures.
func (l *Ledger) Fence(ctx context.Context, f ledger.Fence) (ledger.Erasure, ledger.Record, error) {
	return get2(l, "fence", func() (ledger.Erasure, ledger.Record, error) { return l.inner.Fence(ctx, f) })
}

// Plan implements ledger.Erasures.
func (l *Ledger) Plan(ctx context.Context, s ledger.Scope) (ledger.Plan, error) {
	return get(l, "plan", func() (ledger.Plan, error) { return l.inner.Plan(ctx, s) })
}

// Erasure implements ledger.Erasures.
func (l *Ledger) Erasure(ctx context.Context, tenant, id string) (ledger.Erasure, error) {
	return get(l, "erasure", func() (ledger.Erasure, error) { return l.inner.Erasure(ctx, tenant, id) })
}

// ListErasures implements ledger.Erasures.
func (l *Ledger) ListErasures(ctx context.Context, q ledger.ErasureQuery) ([]ledger.Erasure, error) {
	return get(l, "listerasures", func() ([]ledger.Erasure, error) { return l.inner.ListErasures(ctx, q) })
}

// ErasedRefs implements ledger.Erasures.
func (l *Ledger) ErasedRefs(ctx context.Context, erasureID string) ([]blobd.Ref, error) {
	return get(l, "erasedrefs", func() ([]blobd.Ref, error) { return l.inner.ErasedRefs(ctx, erasureID) })
}
