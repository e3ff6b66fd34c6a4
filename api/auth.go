package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/store"
)

// caller is who asks, and for which tenant.
type caller struct {
	token   string // id
	tenant  string
	roles   roleSet
	unnamed bool // an admin token that must name its tenant did not
}

// identify answers 401, 403 and what the header Blobd-Tenant can get wrong.
func (a *API) identify(c *call) error {
	secret, ok := bearer(c.r.Header)
	if !ok {
		return refuse(wire.CodeUnauthenticated, "want the header Authorization: Bearer and a token")
	}
	known, err := a.tokens.find(c.r.Context(), store.HashToken(secret))
	if err != nil {
		return err
	}
	if known == nil {
		return refuse(wire.CodeUnauthenticated, "the token is unknown, revoked or past its end")
	}
	c.who = caller{token: known.id, tenant: known.tenant, roles: known.roles}
	named, given := c.r.Header[wire.HeaderTenant]
	switch {
	case given && known.roles&adminRole == 0:
		return refuse(wire.CodeForbidden, "the header %s is for admin tokens", wire.HeaderTenant)
	case known.roles&c.rt.roles == 0:
		return refuse(wire.CodeForbidden, "the token has none of the roles that may do this")
	case given:
		if len(named) != 1 {
			return refuse(wire.CodeInvalid, "%s: want one value", wire.HeaderTenant)
		}
		return a.actFor(c, named[0])
	case a.tokens.many.Load() && known.roles&adminRole != 0 && known.roles&tenantRoles != 0:
		c.who.unnamed = true
		if !c.rt.tenantInBody && !c.rt.deployment {
			return errNameTenant()
		}
	}
	return nil
}

func errNameTenant() error {
	return refuse(wire.CodeInvalid, "there is more than one tenant: name it in the header %s", wire.HeaderTenant)
}

// actFor sets the tenant that an admin token names.
func (a *API) actFor(c *call, named string) error {
	ctx, cancel := context.WithTimeout(c.r.Context(), requestTimeout)
	defer cancel()
	t, err := a.Store.Tenant(ctx, named)
	switch {
	case errors.Is(err, blobd.ErrNotFound):
		return refuse(wire.CodeNotFound, "there is no such tenant")
	case err != nil:
		return err
	}
	c.who.tenant, c.who.unnamed = t.ID, false
	return nil
}

// bearer reads the one Authorization header.
func bearer(h http.Header) (string, bool) {
	values := h["Authorization"]
	if len(values) != 1 {
		return "", false
	}
	scheme, token, ok := strings.Cut(values[0], " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return "", false
	}
	token = strings.Trim(token, " ")
	return token, token != ""
}

// knownToken is what is remembered of a token that the ledger knows, or of a
// hash that it does not.
type knownToken struct {
	id, tenant string
	roles      roleSet
	expires    time.Time // zero: never
	asked      time.Time // before the ledger was asked
	unknown    bool
}

// tokenCache remembers tokens by hash. A token is believed for at most ttl after
// the ledger was asked; a revocation on this node takes effect at once.
type tokenCache struct {
	ledger Ledger
	ttl    time.Duration
	now    func() time.Time
	bits   map[string]roleSet
	known  *lru.Cache[[32]byte, *knownToken]
	many   atomic.Bool // more than one tenant was seen: never untrue again
	// epoch rises with every change of tokens on this node, so that an answer
	// that was under way does not bring an old state back.
	epoch atomic.Int64
}

const (
	// cachedTokens bounds the cache.
	cachedTokens = 8192
	// unknownTTL is how long an unknown hash is believed to be unknown. A token
	// made on another node meanwhile was never shown to anybody before.
	unknownTTL = time.Second
)

func newTokenCache(l Ledger, ttl time.Duration, now func() time.Time) *tokenCache {
	// The only error of lru.New is a size below 1.
	known, _ := lru.New[[32]byte, *knownToken](cachedTokens)
	return &tokenCache{ledger: l, ttl: ttl, now: now, bits: roleBits(), known: known}
}

// find returns the token of a hash, or nil if there is none. An error means that
// nobody knows.
func (t *tokenCache) find(ctx context.Context, hash [32]byte) (*knownToken, error) {
	if k, ok := t.known.Get(hash); ok && t.fresh(k) {
		return k.orNil(), nil
	}
	epoch := t.epoch.Load()
	k, err := t.ask(ctx, hash)
	if err != nil {
		return nil, err
	}
	if t.epoch.Load() == epoch {
		t.known.Add(hash, k)
	}
	return k.orNil(), nil
}

func (k *knownToken) orNil() *knownToken {
	if k.unknown {
		return nil
	}
	return k
}

// fresh is false for a time in the future too: a clock that was set back must
// not lengthen a token's life.
func (t *tokenCache) fresh(k *knownToken) bool {
	now := t.now()
	age, ttl := now.Sub(k.asked), t.ttl
	if k.unknown {
		ttl = min(ttl, unknownTTL)
	}
	return age >= 0 && age < ttl && (k.expires.IsZero() || now.Before(k.expires))
}

func (t *tokenCache) ask(ctx context.Context, hash [32]byte) (*knownToken, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	asked := t.now()
	row, err := t.ledger.TokenByHash(ctx, hash)
	switch {
	case errors.Is(err, blobd.ErrNotFound):
		return &knownToken{unknown: true, asked: asked}, nil
	case err != nil:
		// Whatever it is, it is not the caller's token that is wrong.
		return nil, fmt.Errorf("token: %w: %w", blobd.ErrUnavailable, err)
	}
	k := t.remembered(row, asked)
	if k.roles&adminRole != 0 && !t.many.Load() {
		tenants, err := t.ledger.ListTenants(ctx, "", 2)
		if err != nil {
			return nil, fmt.Errorf("token: %w: %w", blobd.ErrUnavailable, err)
		}
		if len(tenants) > 1 {
			t.many.Store(true)
		}
	}
	return k, nil
}

func (t *tokenCache) remembered(row ledger.Token, asked time.Time) *knownToken {
	k := &knownToken{id: row.ID, tenant: row.Tenant, expires: row.ExpiresAt, asked: asked}
	for _, r := range row.Roles {
		k.roles |= t.bits[r]
	}
	return k
}

// changed forgets everything: a token was made or revoked here, or a tenant
// made.
func (t *tokenCache) changed() {
	t.epoch.Add(1)
	t.known.Purge()
}
