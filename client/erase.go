package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/blobd/blobd/api/wire"
)

// Erase asks for an erasure. When it returns, every read in scope is null and
// every put is refused; WaitErased waits for the rest. key is the
// Idempotency-Key; "" makes one for this call, so that it may be repeated.
func (c *Client) Erase(ctx context.Context, q wire.EraseRequest, key string) (wire.Erasure, error) {
	q.DryRun = false
	return create[wire.Erasure](ctx, c, "erase", "/v1/erasures", q, key)
}

// PlanErasure counts what an erasure would erase, and changes nothing.
func (c *Client) PlanErasure(ctx context.Context, q wire.EraseRequest) (wire.Plan, error) {
	q.DryRun = true
	out, err := post[wire.DryRun](ctx, c, "plan an erasure", "/v1/erasures", q)
	return out.Plan, err
}

// Erasure returns an erasure.
func (c *Client) Erasure(ctx context.Context, id string) (wire.Erasure, error) {
	return get[wire.Erasure](ctx, c, "erasure", "/v1/erasures/"+segment(id))
}

// waitPoll is how often WaitErased asks.
const waitPoll = 500 * time.Millisecond

// WaitErased asks until the erasure has ended, in whatever way: its State says
// how. progress, if not nil, is told every answer.
func (c *Client) WaitErased(ctx context.Context, id string, progress func(wire.Erasure)) (wire.Erasure, error) {
	for {
		e, err := c.Erasure(ctx, id)
		if err != nil {
			return e, err
		}
		if progress != nil {
			progress(e)
		}
		switch e.State {
		case "erased", "partial", "denied", "cancelled", "deferred", "awaiting_approval":
			return e, nil
		}
		wait := time.NewTimer(waitPoll)
		select {
		case <-ctx.Done():
			wait.Stop()
			return e, ctx.Err()
		case <-wait.C:
		}
	}
}

// Page asks for a page of a listing; the zero value is the first.
type Page struct {
	Limit  int // 0: the server's default
	Cursor string
	// Filters are further query keys, such as state or class.
	Filters url.Values
}

func (p Page) path(base string) string {
	v := make(url.Values)
	for key, values := range p.Filters {
		v[key] = values
	}
	if p.Limit > 0 {
		v.Set("limit", strconv.Itoa(p.Limit))
	}
	if p.Cursor != "" {
		v.Set("cursor", p.Cursor)
	}
	if len(v) == 0 {
		return base
	}
	return base + "?" + v.Encode()
}

// Erasures lists erasures, newest first.
func (c *Client) Erasures(ctx context.Context, p Page) (wire.Erasures, error) {
	return get[wire.Erasures](ctx, c, "erasures", p.path("/v1/erasures"))
}

// Executions lists executions, newest first.
func (c *Client) Executions(ctx context.Context, p Page) (wire.Executions, error) {
	return get[wire.Executions](ctx, c, "executions", p.path("/v1/executions"))
}

// CreateTenant makes a tenant. It is sent once: a repeat could not tell its own
// success from another's.
func (c *Client) CreateTenant(ctx context.Context, id string) (wire.Tenant, error) {
	var out wire.Tenant
	body, err := json.Marshal(wire.NewTenant{ID: id})
	if err != nil {
		return out, fmt.Errorf("create a tenant: %w", err)
	}
	_, err = c.do(ctx, request{method: http.MethodPost, path: "/v1/tenants", body: body, header: jsonHeader()}, &out)
	if err != nil {
		return out, fmt.Errorf("create a tenant: %w", err)
	}
	return out, nil
}

// OffboardTenant erases all of a tenant, for ever. When it returns, every read in
// the tenant is null and every put is refused; WaitOffboarded waits for the rest.
// A repeat is another erasure that follows the first.
func (c *Client) OffboardTenant(ctx context.Context, id string) (wire.Erasure, error) {
	var out wire.Erasure
	r := request{method: http.MethodDelete, path: "/v1/tenants/" + segment(id), safe: true}
	if _, err := c.do(ctx, r, &out); err != nil {
		return out, fmt.Errorf("off-board a tenant: %w", err)
	}
	return out, nil
}

// PlanOffboarding counts what OffboardTenant would erase, and changes nothing.
func (c *Client) PlanOffboarding(ctx context.Context, id string) (wire.Plan, error) {
	var out wire.DryRun
	r := request{method: http.MethodDelete, path: "/v1/tenants/" + segment(id) + "?dryRun=true", safe: true}
	if _, err := c.do(ctx, r, &out); err != nil {
		return out.Plan, fmt.Errorf("plan an off-boarding: %w", err)
	}
	return out.Plan, nil
}

// Tenant returns one tenant.
func (c *Client) Tenant(ctx context.Context, id string) (wire.Tenant, error) {
	return get[wire.Tenant](ctx, c, "tenant", "/v1/tenants/"+segment(id))
}

// WaitOffboarded asks until the erasure of an off-boarded tenant has ended, or the
// store keeps some of its objects: its ErasureState says which. It needs no role
// in the tenant.
func (c *Client) WaitOffboarded(ctx context.Context, id string) (wire.Tenant, error) {
	for {
		t, err := c.Tenant(ctx, id)
		if err != nil || t.ErasureState != "running" {
			return t, err
		}
		wait := time.NewTimer(waitPoll)
		select {
		case <-ctx.Done():
			wait.Stop()
			return t, ctx.Err()
		case <-wait.C:
		}
	}
}

// Tenants lists tenants, by id.
func (c *Client) Tenants(ctx context.Context, p Page) (wire.Tenants, error) {
	return get[wire.Tenants](ctx, c, "tenants", p.path("/v1/tenants"))
}

// CreateToken makes a token; its Secret is shown here and nowhere else. key is
// the Idempotency-Key; "" makes one for this call.
func (c *Client) CreateToken(ctx context.Context, q wire.NewToken, key string) (wire.CreatedToken, error) {
	return create[wire.CreatedToken](ctx, c, "create a token", "/v1/tokens", q, key)
}

// Tokens lists the tenant's tokens, by id.
func (c *Client) Tokens(ctx context.Context, p Page) (wire.Tokens, error) {
	return get[wire.Tokens](ctx, c, "tokens", p.path("/v1/tokens"))
}

// RevokeToken revokes a token.
func (c *Client) RevokeToken(ctx context.Context, id string) error {
	r := request{method: http.MethodDelete, path: "/v1/tokens/" + segment(id), safe: true}
	if _, err := c.do(ctx, r, nil); err != nil {
		return fmt.Errorf("revoke a token: %w", err)
	}
	return nil
}

// create posts under an Idempotency-Key.
func create[A any](ctx context.Context, c *Client, op, path string, q any, key string) (A, error) {
	var out A
	if key == "" {
		key = newKey()
	}
	body, err := json.Marshal(q)
	if err != nil {
		return out, fmt.Errorf("%s: the request cannot be written as JSON", op)
	}
	r := request{method: http.MethodPost, path: path, body: body, safe: true, header: jsonHeader()}
	r.header.Set(wire.HeaderIdempotencyKey, key)
	if _, err := c.do(ctx, r, &out); err != nil {
		return out, fmt.Errorf("%s: %w", op, err)
	}
	return out, nil
}
