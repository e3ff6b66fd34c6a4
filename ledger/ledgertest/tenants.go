package ledgertest

import (
	"fmt"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

func tenantSentences() []sentence {
	return []sentence{
		{"a tenant reads back as it was made", func(e *env) {
			want := ledger.Tenant{
				ID: "beta", CreatedAt: at(1), NameKey: []byte{1, 2}, IndexKey: []byte{3}, IndexWrap: 4, MinimumWrap: 5,
			}
			e.must(e.CreateTenant(e.ctx, want, entry(ledger.EntryTenant)))
			got, err := e.Tenant(e.ctx, "beta")
			e.must(err)
			e.equal("tenant", got, want)
		}},
		{"an id in use is a conflict and changes nothing", func(e *env) {
			before := len(e.entries())
			err := e.CreateTenant(e.ctx, ledger.Tenant{ID: tenant, CreatedAt: at(9), NameKey: []byte("x")}, entry(ledger.EntryTenant))
			e.refused(err, blobd.ErrConflict)
			got, err := e.Tenant(e.ctx, tenant)
			e.must(err)
			e.equal("name key", string(got.NameKey), "name key")
			e.equal("entries", len(e.entries()), before)
		}},
		{"an unknown tenant is not found", func(e *env) {
			_, err := e.Tenant(e.ctx, "nobody")
			e.refused(err, blobd.ErrNotFound)
		}},
		{"tenants are listed in byte order after an id, up to a limit", func(e *env) {
			for _, id := range []string{"Zeta", "über", "beta", "a", "Ä"} {
				e.tenant(id, 0)
			}
			var all []string
			for after := ""; ; {
				page, err := e.ListTenants(e.ctx, after, 2)
				e.must(err)
				if len(page) > 2 {
					e.Fatalf("a page of %d", len(page))
				}
				if len(page) == 0 {
					break
				}
				for _, t := range page {
					all = append(all, t.ID)
				}
				after = all[len(all)-1]
			}
			e.equal("ids", all, []string{"Zeta", "a", "acme", "beta", "Ä", "über"})
		}},
		{"a listing without a limit is invalid", func(e *env) {
			_, err := e.ListTenants(e.ctx, "", 0)
			e.refused(err, blobd.ErrInvalid)
		}},
		{"the evidence of a new tenant is inserted with it", func(e *env) {
			es := e.entries()
			e.equal("entries", len(es), 1)
			e.equal("kind", es[0].Kind, ledger.EntryTenant)
		}},
	}
}

func tokenOf(n int) ledger.Token {
	return ledger.Token{
		ID: fmt.Sprintf("token-%d", n), Tenant: tenant, Name: "name", Hash: hash("token", n),
		Roles: []string{"dpo", "runtime"}, CreatedAt: start,
	}
}

func (e *env) token(t ledger.Token) {
	e.Helper()
	e.must(e.CreateToken(e.ctx, t, entry(ledger.EntryToken)))
}

func tokenSentences() []sentence {
	return []sentence{
		{"a token is found by its hash as it was made", func(e *env) {
			want := tokenOf(1)
			want.ExpiresAt = at(100)
			e.token(want)
			got, err := e.TokenByHash(e.ctx, want.Hash)
			e.must(err)
			e.equal("token", got, want)
		}},
		{"an id in use is a conflict", func(e *env) {
			e.token(tokenOf(1))
			other := tokenOf(2)
			other.ID = tokenOf(1).ID
			e.refused(e.CreateToken(e.ctx, other, entry(ledger.EntryToken)), blobd.ErrConflict)
		}},
		{"a hash in use is a conflict", func(e *env) {
			e.token(tokenOf(1))
			other := tokenOf(2)
			other.Hash = tokenOf(1).Hash
			e.refused(e.CreateToken(e.ctx, other, entry(ledger.EntryToken)), blobd.ErrConflict)
		}},
		{"a token of an unknown tenant is not found", func(e *env) {
			other := tokenOf(1)
			other.Tenant = "nobody"
			e.refused(e.CreateToken(e.ctx, other, entry(ledger.EntryToken)), blobd.ErrNotFound)
		}},
		{"an unknown hash is not found", func(e *env) {
			_, err := e.TokenByHash(e.ctx, hash("token", 9))
			e.refused(err, blobd.ErrNotFound)
		}},
		{"a token past its end by the ledger's clock is not found", func(e *env) {
			t := tokenOf(1)
			t.ExpiresAt = at(5)
			e.token(t)
			e.clock.set(at(5).Add(-time.Microsecond))
			_, err := e.TokenByHash(e.ctx, t.Hash)
			e.must(err)
			e.clock.set(at(5))
			_, err = e.TokenByHash(e.ctx, t.Hash)
			e.refused(err, blobd.ErrNotFound)
		}},
		{"a revoked token is not found", func(e *env) {
			e.token(tokenOf(1))
			_, err := e.RevokeToken(e.ctx, tenant, "token-1", at(1), entry(ledger.EntryToken))
			e.must(err)
			_, err = e.TokenByHash(e.ctx, tokenOf(1).Hash)
			e.refused(err, blobd.ErrNotFound)
		}},
		{"revoking returns the journal record", func(e *env) {
			e.token(tokenOf(1))
			r, err := e.RevokeToken(e.ctx, tenant, "token-1", at(1), entry(ledger.EntryToken))
			e.must(err)
			e.equal("record", r, ledger.Record{Seq: 1, Kind: ledger.RecordRevoke, At: at(1), Tenant: tenant, TokenID: "token-1"})
		}},
		{"a revoked token stays as it is and returns the zero record", func(e *env) {
			e.token(tokenOf(1))
			_, err := e.RevokeToken(e.ctx, tenant, "token-1", at(1), entry(ledger.EntryToken))
			e.must(err)
			before := len(e.entries())
			r, err := e.RevokeToken(e.ctx, tenant, "token-1", at(2), entry(ledger.EntryToken))
			e.must(err)
			e.equal("record", r, ledger.Record{})
			ts, err := e.ListTokens(e.ctx, tenant, "", 10)
			e.must(err)
			e.equal("revoked at", ts[0].RevokedAt, at(1))
			e.equal("entries", len(e.entries()), before)
		}},
		{"a token of another tenant or an unknown one is not found", func(e *env) {
			e.tenant("beta", 0)
			e.token(tokenOf(1))
			_, err := e.RevokeToken(e.ctx, "beta", "token-1", at(1), entry(ledger.EntryToken))
			e.refused(err, blobd.ErrNotFound)
			_, err = e.RevokeToken(e.ctx, tenant, "token-9", at(1), entry(ledger.EntryToken))
			e.refused(err, blobd.ErrNotFound)
			_, err = e.TokenByHash(e.ctx, tokenOf(1).Hash)
			e.must(err)
		}},
		{"a tenant's tokens are listed after an id, revoked ones too", func(e *env) {
			e.tenant("beta", 0)
			for _, n := range []int{3, 1, 2} {
				e.token(tokenOf(n))
			}
			foreign := tokenOf(4)
			foreign.Tenant = "beta"
			e.token(foreign)
			_, err := e.RevokeToken(e.ctx, tenant, "token-2", at(1), entry(ledger.EntryToken))
			e.must(err)
			first, err := e.ListTokens(e.ctx, tenant, "", 2)
			e.must(err)
			rest, err := e.ListTokens(e.ctx, tenant, "token-2", 2)
			e.must(err)
			e.equal("ids", []string{first[0].ID, first[1].ID, rest[0].ID}, []string{"token-1", "token-2", "token-3"})
			e.equal("pages", []int{len(first), len(rest)}, []int{2, 1})
			e.equal("revoked", first[1].RevokedAt, at(1))
			_, err = e.ListTokens(e.ctx, tenant, "", 0)
			e.refused(err, blobd.ErrInvalid)
		}},
	}
}
