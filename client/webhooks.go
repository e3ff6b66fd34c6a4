package client

import (
	"context"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json"

	"github.com/blobd/blobd/api/wire"
)

// CreateWebhook has a URL told of events; its secret is in this answer only. key is
// the Idempotency-Key; "" makes one for this call.
func (c *Client) CreateWebhook(ctx context.Context, q wire.NewWebhook, key string) (wire.CreatedWebhook, error) {
	return create[wire.CreatedWebhook](ctx, c, "create a webhook", "/v1/webhooks", q, key)
}

// Webhooks lists the tenant's webhooks, by id.
func (c *Client) Webhooks(ctx context.Context, p Page) (wire.Webhooks, error) {
	return get[wire.Webhooks](ctx, c, "webhooks", p.path("/v1/webhooks"))
}

// Webhook returns a webhook with a page of its deliveries, newest first: all of
// them, unless the filter state says pending, delivered or dead.
func (c *Client) Webhook(ctx context.Context, id string, p Page) (wire.WebhookDeliveries, error) {
	return get[wire.WebhookDeliveries](ctx, c, "webhook", p.path("/v1/webhooks/"+segment(id)))
}

// DeleteWebhook removes a webhook, its secret and its deliveries.
func (c *Client) DeleteWebhook(ctx context.Context, id string) error {
	if _, err := c.do(ctx, request{method: http.MethodDelete, path: "/v1/webhooks/" + segment(id)}, nil); err != nil {
		return fmt.Errorf("delete a webhook: %w", err)
	}
	return nil
}

// ReplayWebhook has what is dead or waits sent at once, and enables the webhook. It
// may be repeated.
func (c *Client) ReplayWebhook(ctx context.Context, id string, q wire.ReplayRequest) (wire.Replayed, error) {
	return post[wire.Replayed](ctx, c, "replay a webhook", "/v1/webhooks/"+segment(id)+"/replay", q)
}

// RotateWebhook gives a webhook a new secret, which is in this answer only. It is
// sent once: a repeat would be another secret, and end the one before this one.
func (c *Client) RotateWebhook(ctx context.Context, id string, q wire.RotateRequest) (wire.CreatedWebhook, error) {
	var out wire.CreatedWebhook
	body, err := json.Marshal(q)
	if err != nil {
		return out, fmt.Errorf("rotate a webhook: %w", err)
	}
	r := request{method: http.MethodPost, path: "/v1/webhooks/" + segment(id) + "/rotate", body: body, header: jsonHeader()}
	if _, err := c.do(ctx, r, &out); err != nil {
		return out, fmt.Errorf("rotate a webhook: %w", err)
	}
	return out, nil
}
