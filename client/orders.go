package client

import (
	"context"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json"

	"github.com/blobd/blobd/api/wire"
)

// PreviewErasure counts what an erasure would erase and what would stay, with a
// sample, and changes nothing.
func (c *Client) PreviewErasure(ctx context.Context, q wire.EraseRequest) (wire.DryRun, error) {
	q.DryRun = true
	return post[wire.DryRun](ctx, c, "preview an erasure", "/v1/erasures", q)
}

// ApproveErasure approves an erasure as the plan with a digest (64 hex digits).
// Repeating it changes nothing.
func (c *Client) ApproveErasure(ctx context.Context, id, planDigest string) (wire.Erasure, error) {
	return post[wire.Erasure](ctx, c, "approve an erasure", "/v1/erasures/"+segment(id)+"/approve", wire.ApproveRequest{PlanDigest: planDigest})
}

// DenyErasure denies an erasure. Repeating it changes nothing.
func (c *Client) DenyErasure(ctx context.Context, id, code, reason string) (wire.Erasure, error) {
	return post[wire.Erasure](ctx, c, "deny an erasure", "/v1/erasures/"+segment(id)+"/deny", wire.DenyRequest{Code: code, Reason: reason})
}

// CancelErasure cancels an erasure. Repeating it changes nothing.
func (c *Client) CancelErasure(ctx context.Context, id, reason string) (wire.Erasure, error) {
	return post[wire.Erasure](ctx, c, "cancel an erasure", "/v1/erasures/"+segment(id)+"/cancel", wire.LiftRequest{Reason: reason})
}

// PlaceHold places a hold. key is the Idempotency-Key; "" makes one for this call.
func (c *Client) PlaceHold(ctx context.Context, q wire.HoldRequest, key string) (wire.Hold, error) {
	return create[wire.Hold](ctx, c, "place a hold", "/v1/holds", q, key)
}

// Hold returns a hold.
func (c *Client) Hold(ctx context.Context, id string) (wire.Hold, error) {
	return get[wire.Hold](ctx, c, "hold", "/v1/holds/"+segment(id))
}

// Holds lists holds, newest first; the open ones, unless the filter state says
// released or all.
func (c *Client) Holds(ctx context.Context, p Page) (wire.Holds, error) {
	return get[wire.Holds](ctx, c, "holds", p.path("/v1/holds"))
}

// ReleaseHold releases a hold. Repeating it changes nothing.
func (c *Client) ReleaseHold(ctx context.Context, id, reason string) (wire.Hold, error) {
	return lift[wire.Hold](ctx, c, "release a hold", "/v1/holds/"+segment(id), reason)
}

// Restrict places a restriction. key is the Idempotency-Key; "" makes one for this
// call.
func (c *Client) Restrict(ctx context.Context, q wire.RestrictionRequest, key string) (wire.Restriction, error) {
	return create[wire.Restriction](ctx, c, "restrict", "/v1/restrictions", q, key)
}

// Restriction returns a restriction.
func (c *Client) Restriction(ctx context.Context, id string) (wire.Restriction, error) {
	return get[wire.Restriction](ctx, c, "restriction", "/v1/restrictions/"+segment(id))
}

// Restrictions lists restrictions, newest first; the open ones, unless the filter
// state says lifted or all.
func (c *Client) Restrictions(ctx context.Context, p Page) (wire.Restrictions, error) {
	return get[wire.Restrictions](ctx, c, "restrictions", p.path("/v1/restrictions"))
}

// LiftRestriction lifts a restriction. Repeating it changes nothing.
func (c *Client) LiftRestriction(ctx context.Context, id, reason string) (wire.Restriction, error) {
	return lift[wire.Restriction](ctx, c, "lift a restriction", "/v1/restrictions/"+segment(id), reason)
}

// Suppress places a suppression. key is the Idempotency-Key; "" makes one for this
// call.
func (c *Client) Suppress(ctx context.Context, q wire.SuppressionRequest, key string) (wire.Suppression, error) {
	return create[wire.Suppression](ctx, c, "suppress", "/v1/suppressions", q, key)
}

// Suppression returns a suppression.
func (c *Client) Suppression(ctx context.Context, id string) (wire.Suppression, error) {
	return get[wire.Suppression](ctx, c, "suppression", "/v1/suppressions/"+segment(id))
}

// Suppressions lists suppressions, newest first; the open ones, unless the filter
// state says expired, lifted or all.
func (c *Client) Suppressions(ctx context.Context, p Page) (wire.Suppressions, error) {
	return get[wire.Suppressions](ctx, c, "suppressions", p.path("/v1/suppressions"))
}

// LiftSuppression lifts a suppression. Repeating it changes nothing.
func (c *Client) LiftSuppression(ctx context.Context, id, reason string) (wire.Suppression, error) {
	return lift[wire.Suppression](ctx, c, "lift a suppression", "/v1/suppressions/"+segment(id), reason)
}

// Explain says what keeps a blob, until when, and what happens next, once for each
// execution that has it; with an executionID, of that one alone.
func (c *Client) Explain(ctx context.Context, ref, executionID string) (wire.Explanations, error) {
	var out wire.Explanations
	r := request{method: http.MethodGet, path: "/v1/blobs/" + segment(ref) + "/explain", safe: true}
	r.addQuery("executionId", executionID)
	if _, err := c.do(ctx, r, &out); err != nil {
		return out, fmt.Errorf("explain: %w", err)
	}
	return out, nil
}

// Report returns a report (erasures, retention, holds or sweeps) of a span as the
// server wrote it: JSON, or CSV. from and to are RFC 3339 times or dates; "": open.
func (c *Client) Report(ctx context.Context, name, from, to string, asCSV bool) ([]byte, error) {
	r := request{method: http.MethodGet, path: "/v1/reports/" + segment(name), safe: true, header: make(http.Header)}
	r.addQuery("from", from)
	r.addQuery("to", to)
	if asCSV {
		r.header.Set("Accept", wire.TypeCSV)
	}
	var out []byte
	if _, err := c.do(ctx, r, &out); err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	return out, nil
}

// SetApprovals sets how many people must approve an erasure of a tenant.
func (c *Client) SetApprovals(ctx context.Context, tenant string, erasures int) (wire.Tenant, error) {
	var out wire.Tenant
	body, err := json.Marshal(wire.Approvals{Erasures: &erasures})
	if err != nil {
		return out, fmt.Errorf("set approvals: %w", err)
	}
	r := request{
		method: http.MethodPut, path: "/v1/tenants/" + segment(tenant) + "/approvals", body: body, safe: true, header: jsonHeader(),
	}
	if _, err := c.do(ctx, r, &out); err != nil {
		return out, fmt.Errorf("set approvals: %w", err)
	}
	return out, nil
}

// lift deletes with a reason.
func lift[A any](ctx context.Context, c *Client, op, path, reason string) (A, error) {
	var out A
	body, err := json.Marshal(wire.LiftRequest{Reason: reason})
	if err != nil {
		return out, fmt.Errorf("%s: the request cannot be written as JSON", op)
	}
	r := request{method: http.MethodDelete, path: path, body: body, safe: true, header: jsonHeader()}
	if _, err := c.do(ctx, r, &out); err != nil {
		return out, fmt.Errorf("%s: %w", op, err)
	}
	return out, nil
}
