package api

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/store"
)

// createTenant answers POST /v1/tenants.
func (a *API) createTenant(c *call) error {
	var q wire.NewTenant
	return a.withJSON(c, &q, func([]byte) error {
		if blobd.CheckClass(q.ID) != nil {
			return refuse(wire.CodeInvalid, "id: want [a-z][a-z0-9-]{0,62}")
		}
		if err := a.Store.Serving(); err != nil {
			return err
		}
		t, err := a.Store.CreateTenant(c.r.Context(), q.ID, c.who.token)
		if err != nil {
			return err
		}
		a.tokens.changed()
		c.w.Header()[headerLocation] = []string{pathTenants + "/" + t.ID}
		return c.reply(http.StatusCreated, tenantOf(t))
	})
}

func tenantOf(t ledger.Tenant) *wire.Tenant {
	return &wire.Tenant{
		ID: t.ID, CreatedAt: t.CreatedAt.UTC(), Approvals: wire.Approvals{Erasures: &t.Approvals},
		OffboardedAt: timeOrNull(t.FencedAt), ErasureID: t.FencedBy,
	}
}

// setApprovals answers PUT /v1/tenants/{id}/approvals.
func (a *API) setApprovals(c *call) error {
	id := c.r.PathValue("id")
	if blobd.CheckClass(id) != nil {
		return refuse(wire.CodeInvalid, "id: want [a-z][a-z0-9-]{0,62}")
	}
	var q wire.Approvals
	return a.withJSON(c, &q, func([]byte) error {
		if q.Erasures == nil || *q.Erasures < 0 || *q.Erasures > wire.MaxApprovals {
			return refuse(wire.CodeInvalid, "erasures: want 0 to %d", wire.MaxApprovals)
		}
		if err := a.Store.SetApprovals(c.r.Context(), id, *q.Erasures, c.who.token); err != nil {
			return err
		}
		t, err := a.Store.RefreshTenant(c.r.Context(), id)
		if err != nil {
			return err
		}
		return c.reply(http.StatusOK, tenantOf(t))
	})
}

// tenant answers GET /v1/tenants/{id}.
func (a *API) tenant(c *call) error {
	id := c.r.PathValue("id")
	if blobd.CheckClass(id) != nil {
		return refuse(wire.CodeInvalid, "id: want [a-z][a-z0-9-]{0,62}")
	}
	t, err := a.Store.RefreshTenant(c.r.Context(), id)
	if err != nil {
		return err
	}
	out := tenantOf(t)
	if t.Fenced() {
		e, err := a.Ledger.Erasure(c.r.Context(), t.ID, t.FencedBy)
		if err != nil {
			return err
		}
		out.ErasureState = string(e.Stands())
	}
	return c.reply(http.StatusOK, out)
}

// listTenants answers GET /v1/tenants.
func (a *API) listTenants(c *call) error {
	p, err := c.paging()
	if err != nil {
		return err
	}
	rows, err := a.Ledger.ListTenants(c.r.Context(), p.after, p.limit+1)
	if err != nil {
		return err
	}
	rows, next := cut(rows, p.limit, func(t ledger.Tenant) string { return t.ID })
	out := &wire.Tenants{Items: make([]wire.Tenant, len(rows)), Next: next}
	for i, t := range rows {
		out.Items[i] = *tenantOf(t)
	}
	return c.reply(http.StatusOK, out)
}

// createToken answers POST /v1/tokens. The token is shown here and nowhere else.
func (a *API) createToken(c *call) error {
	var q wire.NewToken
	return a.withJSON(c, &q, func(body []byte) error {
		if err := a.tokenTenant(c, q.Tenant); err != nil {
			return err
		}
		n, err := c.newToken(q)
		if err != nil {
			return err
		}
		if err := a.Store.Serving(); err != nil {
			return err
		}
		return a.once(c, body, func(ctx context.Context) (outcome, error) {
			secret, row, err := a.Store.CreateToken(ctx, n)
			if err != nil {
				return outcome{}, err
			}
			a.tokens.changed()
			created := wire.CreatedToken{Token: tokenOf(row), Secret: secret}
			return outcomeOf(http.StatusCreated, pathTokens+"/"+row.ID, &created)
		})
	})
}

// tokenTenant settles whose token it will be: that of the header, of the body,
// or of the caller, and never two different ones.
func (a *API) tokenTenant(c *call, named string) error {
	_, byHeader := c.r.Header[wire.HeaderTenant]
	switch {
	case named == "" && c.who.unnamed:
		return errNameTenant()
	case named == "" || named == c.who.tenant && !c.who.unnamed:
		return nil
	case byHeader:
		return refuse(wire.CodeInvalid, "tenant: is not the one of %s", wire.HeaderTenant)
	}
	return a.actFor(c, named)
}

func (c *call) newToken(q wire.NewToken) (store.NewToken, error) {
	n := store.NewToken{Tenant: c.who.tenant, Name: q.Name, Roles: q.Roles, Actor: c.who.token}
	if err := blobd.CheckName("name", q.Name); err != nil {
		return n, invalid(err)
	}
	if len(q.Roles) == 0 {
		return n, refuse(wire.CodeInvalid, "roles: must not be empty")
	}
	for _, r := range q.Roles {
		if !slices.Contains(wire.Roles(), r) {
			return n, refuse(wire.CodeInvalid, "roles: want some of %v", wire.Roles())
		}
	}
	if q.ExpiresAt != nil {
		if !q.ExpiresAt.After(c.rt.api.Now()) {
			return n, refuse(wire.CodeInvalid, "expiresAt: is in the past")
		}
		n.ExpiresAt = q.ExpiresAt.UTC()
	}
	return n, nil
}

func tokenOf(t ledger.Token) wire.Token {
	roles := t.Roles
	if roles == nil {
		roles = []string{}
	}
	return wire.Token{
		ID: t.ID, Tenant: t.Tenant, Name: t.Name, Roles: roles, CreatedAt: t.CreatedAt.UTC(),
		ExpiresAt: timeOrNull(t.ExpiresAt), RevokedAt: timeOrNull(t.RevokedAt),
	}
}

// listTokens answers GET /v1/tokens.
func (a *API) listTokens(c *call) error {
	p, err := c.paging()
	if err != nil {
		return err
	}
	rows, err := a.Ledger.ListTokens(c.r.Context(), c.who.tenant, p.after, p.limit+1)
	if err != nil {
		return err
	}
	rows, next := cut(rows, p.limit, func(t ledger.Token) string { return t.ID })
	out := &wire.Tokens{Items: make([]wire.Token, len(rows)), Next: next}
	for i, t := range rows {
		out.Items[i] = tokenOf(t)
	}
	return c.reply(http.StatusOK, out)
}

// token answers GET /v1/tokens/{id}.
func (a *API) token(c *call) error {
	id, err := c.tokenID()
	if err != nil {
		return err
	}
	// The listing starts after a position: the id without its last character is
	// before every id that begins so, and ids are of one length.
	rows, err := a.Ledger.ListTokens(c.r.Context(), c.who.tenant, id[:len(id)-1], wire.MaxList)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(rows, func(t ledger.Token) bool { return t.ID == id })
	if i < 0 {
		return blobd.ErrNotFound
	}
	row := tokenOf(rows[i])
	return c.reply(http.StatusOK, &row)
}

func (c *call) tokenID() (string, error) {
	id := c.r.PathValue("id")
	if id == "" {
		return "", refuse(wire.CodeInvalid, "id: must not be empty")
	}
	return id, invalid(blobd.CheckName("id", id))
}

// revokeToken answers DELETE /v1/tokens/{id}. It takes effect on this node at
// once, on others within the bound of their caches.
func (a *API) revokeToken(c *call) error {
	id, err := c.tokenID()
	if err != nil {
		return err
	}
	if err := a.Store.Serving(); err != nil {
		return err
	}
	err = a.Store.RevokeToken(c.r.Context(), c.who.tenant, id, c.who.token)
	if !errors.Is(err, blobd.ErrNotFound) {
		a.tokens.changed() // revoked, or nobody knows
	}
	if err != nil {
		return err
	}
	c.status = http.StatusNoContent
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}
