package faulty

import (
	"context"
	"time"

	"github.com/blobd/blobd/ledger"
)

// CreateWebhook implements ledger.Webhooks.
func (l *Ledger) CreateWebhook(ctx context.Context, w ledger.Webhook, e ledger.Entry) error {
	return l.do("createwebhook", func() error { return l.inner.CreateWebhook(ctx, w, e) })
}

// Webhook implements ledger.Webhooks.
func (l *Ledger) Webhook(ctx context.Context, tenant, id string) (ledger.Webhook, error) {
	return get(l, "webhook", func() (ledger.Webhook, error) { return l.inner.Webhook(ctx, tenant, id) })
}

// ListWebhooks implements ledger.Webhooks.
func (l *Ledger) ListWebhooks(ctx context.Context, q ledger.WebhookQuery) ([]ledger.Webhook, error) {
	return get(l, "listwebhooks", func() ([]ledger.Webhook, error) { return l.inner.ListWebhooks(ctx, q) })
}

// RotateSecret implements ledger.Webhooks.
func (l *Ledger) RotateSecret(ctx context.Context, tenant, id string, secret []byte, oldUntil time.Time, e ledger.Entry) (ledger.Webhook, error) {
	return get(l, "rotatesecret", func() (ledger.Webhook, error) { return l.inner.RotateSecret(ctx, tenant, id, secret, oldUntil, e) })
}

// DeleteWebhook implements ledger.Webhooks.
func (l *Ledger) DeleteWebhook(ctx context.Context, tenant, id string, e ledger.Entry) error {
	return l.do("deletewebhook", func() error { return l.inner.DeleteWebhook(ctx, tenant, id, e) })
}

// FeedState implements ledger.Deliveries.
func (l *Ledger) FeedState(ctx context.Context) (ledger.FeedState, error) {
	return get(l, "feedstate", func() (ledger.FeedState, error) { return l.inner.FeedState(ctx) })
}

// Feed implements ledger.Deliveries.
func (l *Ledger) Feed(ctx context.Context, f ledger.Feed) error {
	return l.do("feed", func() error { return l.inner.Feed(ctx, f) })
}

// ClaimDelivery implements ledger.Deliveries.
func (l *Ledger) ClaimDelivery(ctx context.Context, owner string, at, until time.Time) (ledger.DeliveryJob, error) {
	return get(l, "claimdelivery", func() (ledger.DeliveryJob, error) { return l.inner.ClaimDelivery(ctx, owner, at, until) })
}

// MoveDelivery implements ledger.Deliveries.
func (l *Ledger) MoveDelivery(ctx context.Context, lease ledger.DeliveryLease, m ledger.DeliveryMove) error {
	return l.do("movedelivery", func() error { return l.inner.MoveDelivery(ctx, lease, m) })
}

// ListDeliveries implements ledger.Deliveries.
func (l *Ledger) ListDeliveries(ctx context.Context, q ledger.DeliveryQuery) ([]ledger.Delivery, error) {
	return get(l, "listdeliveries", func() ([]ledger.Delivery, error) { return l.inner.ListDeliveries(ctx, q) })
}

// Redeliver implements ledger.Deliveries.
func (l *Ledger) Redeliver(ctx context.Context, r ledger.Redelivery, e ledger.Entry) (int64, error) {
	return get(l, "redeliver", func() (int64, error) { return l.inner.Redeliver(ctx, r, e) })
}

// TrimDeliveries implements ledger.Deliveries.
func (l *Ledger) TrimDeliveries(ctx context.Context, before time.Time, limit int) (removed int, dead int64, err error) {
	err = l.do("trimdeliveries", func() (err error) { removed, dead, err = l.inner.TrimDeliveries(ctx, before, limit); return err })
	return removed, dead, err
}
