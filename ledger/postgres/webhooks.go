package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// webhookColumns are scanned by webhookTo, from webhooks h.
const webhookColumns = `h.id, h.tenant, h.url, h.types, h.description, h.secret, h.old_secret, h.old_until,
	h.created_at, h.created_by, h.disabled_at, h.disabled_for, h.erasure`

func webhookTo(h *ledger.Webhook) []any {
	return []any{
		&h.ID, &h.Tenant, &h.URL, &h.Types, bytesText{&h.Description}, &h.Secret, &h.OldSecret, moment{&h.OldUntil},
		moment{&h.CreatedAt}, &h.CreatedBy, moment{&h.DisabledAt}, &h.DisabledFor, &h.Erasure,
	}
}

func scanWebhook(r pgx.CollectableRow) (h ledger.Webhook, err error) {
	err = r.Scan(webhookTo(&h)...)
	return h, err
}

// CreateWebhook implements ledger.Webhooks.
func (l *Ledger) CreateWebhook(ctx context.Context, h ledger.Webhook, e ledger.Entry) error {
	const op = "create a webhook"
	if err := h.CheckOrdinary(); err != nil {
		return classify(op, err)
	}
	return l.write(ctx, op, func(ctx context.Context, x *tx) error {
		if err := x.living(ctx, h.Tenant); err != nil {
			return err
		}
		var have int64
		// Who else makes one for the tenant waits, so that both count.
		x.exec("SELECT 1 FROM tenants WHERE id = $1 FOR NO KEY UPDATE", h.Tenant)
		x.scan(nil, []any{&have}, "SELECT count(*) FROM webhooks WHERE tenant = $1 AND erasure = ''", h.Tenant)
		if err := x.flush(ctx); err != nil {
			return err
		}
		if have >= ledger.MaxWebhooks {
			return fmt.Errorf("%d webhooks: %w", have, blobd.ErrTooLarge)
		}
		if err := insertWebhook(ctx, x, &h); err != nil {
			return err
		}
		x.append(e)
		x.move(counts{entries: 1})
		return nil
	})
}

// insertWebhook flushes.
func insertWebhook(ctx context.Context, x *tx, h *ledger.Webhook) error {
	var n int64
	x.count(&n, `INSERT INTO webhooks (id, tenant, url, types, description, secret, old_secret, old_until,
		created_at, created_by, disabled_at, disabled_for, erasure) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
		ON CONFLICT DO NOTHING`,
		h.ID, h.Tenant, h.URL, notNilTexts(h.Types), []byte(h.Description), h.Secret, orNull(h.OldSecret), micros(h.OldUntil),
		h.CreatedAt.UnixMicro(), h.CreatedBy, micros(h.DisabledAt), h.DisabledFor, h.Erasure)
	err := x.flush(ctx)
	if err == nil && n == 0 {
		err = fmt.Errorf("the id is in use: %w", blobd.ErrConflict)
	}
	return err
}

// Webhook implements ledger.Webhooks.
func (l *Ledger) Webhook(ctx context.Context, tenant, id string) (ledger.Webhook, error) {
	const op = "webhook"
	h, found, err := one(ctx, l, op, scanWebhook, "SELECT "+webhookColumns+" FROM webhooks h WHERE h.id = $1 AND h.tenant = $2", id, tenant)
	return h, classifyFound(op, found, err)
}

// ListWebhooks implements ledger.Webhooks.
func (l *Ledger) ListWebhooks(ctx context.Context, q ledger.WebhookQuery) ([]ledger.Webhook, error) {
	const op = "list webhooks"
	if err := checkLimit(op, q.Limit); err != nil {
		return nil, err
	}
	return list(ctx, l, op, scanWebhook,
		"SELECT "+webhookColumns+" FROM webhooks h WHERE h.tenant = $1 AND h.erasure = $2 AND h.id > $3 ORDER BY h.id LIMIT $4",
		q.Tenant, q.Erasure, q.After, q.Limit)
}

// RotateSecret implements ledger.Webhooks.
func (l *Ledger) RotateSecret(ctx context.Context, tenant, id string, secret []byte, oldUntil time.Time, e ledger.Entry) (h ledger.Webhook, err error) {
	const op = "rotate a secret"
	if len(secret) == 0 {
		return h, classify(op, fmt.Errorf("no secret: %w", blobd.ErrInvalid))
	}
	err = l.write(ctx, op, func(ctx context.Context, x *tx) error {
		found := false
		h = ledger.Webhook{}
		x.scan(&found, webhookTo(&h), `UPDATE webhooks h SET old_secret = secret, old_until = $3, secret = $4
			WHERE id = $1 AND tenant = $2 RETURNING `+webhookColumns, id, tenant, micros(oldUntil), secret)
		err := x.flush(ctx)
		if err := orNotFound(found, err); err != nil {
			return err
		}
		x.append(e)
		x.move(counts{entries: 1})
		return nil
	})
	if err != nil {
		return ledger.Webhook{}, err
	}
	return h, nil
}

// DeleteWebhook implements ledger.Webhooks.
func (l *Ledger) DeleteWebhook(ctx context.Context, tenant, id string, e ledger.Entry) error {
	return l.write(ctx, "delete a webhook", func(ctx context.Context, x *tx) error {
		var n int64
		x.count(&n, "DELETE FROM webhooks WHERE id = $1 AND tenant = $2", id, tenant)
		err := x.flush(ctx)
		if err := orNotFound(n > 0, err); err != nil {
			return err
		}
		x.append(e)
		x.move(counts{entries: 1})
		return nil
	})
}
