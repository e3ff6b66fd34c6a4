package sqlite

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// webhookColumns are read by row.webhook, from webhooks.
const webhookColumns = `id, tenant, url, types, description, secret, old_secret, old_until, created_at, created_by,
	disabled_at, disabled_for, erasure`

const webhookColumnCount = 13

func (r *row) webhook() ledger.Webhook {
	w := ledger.Webhook{
		ID: r.text(0), Tenant: r.text(1), URL: r.text(2), Description: r.text(4), Secret: r.bytes(5), OldSecret: r.bytes(6),
		OldUntil: r.time(7), CreatedAt: r.time(8), CreatedBy: r.text(9), DisabledAt: r.time(10), DisabledFor: r.text(11),
		Erasure: r.text(12),
	}
	w.Types = strings.Fields(r.text(3))
	return w
}

// CreateWebhook implements ledger.Webhooks.
func (l *Ledger) CreateWebhook(ctx context.Context, h ledger.Webhook, e ledger.Entry) error {
	const op = "create a webhook"
	if err := h.CheckOrdinary(); err != nil {
		return classify(op, err)
	}
	return l.write(ctx, op, func(w *conn) error {
		if err := living(ctx, w, h.Tenant); err != nil {
			return err
		}
		if err := roomForWebhook(ctx, w, h.Tenant); err != nil {
			return err
		}
		if err := insertWebhook(ctx, w, &h); err != nil {
			return err
		}
		return appendEntries(ctx, w, e)
	})
}

func insertWebhook(ctx context.Context, w *conn, h *ledger.Webhook) error {
	n, err := w.exec(ctx, `INSERT INTO webhooks (id, tenant, url, types, description, secret, old_secret, old_until,
		created_at, created_by, disabled_at, disabled_for, erasure) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		h.ID, h.Tenant, h.URL, strings.Join(h.Types, " "), h.Description, h.Secret, orNull(h.OldSecret), micros(h.OldUntil),
		h.CreatedAt.UnixMicro(), h.CreatedBy, micros(h.DisabledAt), h.DisabledFor, h.Erasure)
	if err == nil && n == 0 {
		err = fmt.Errorf("the id is in use: %w", blobd.ErrConflict)
	}
	return err
}

func roomForWebhook(ctx context.Context, c *conn, tenant string) error {
	var have int64
	_, err := c.one(ctx, "SELECT count(*) FROM webhooks WHERE tenant = ? AND erasure = ''", func(r *row) { have = r.int(0) }, tenant)
	if err == nil && have >= ledger.MaxWebhooks {
		err = fmt.Errorf("%d webhooks: %w", have, blobd.ErrTooLarge)
	}
	return err
}

func webhookByID(ctx context.Context, c *conn, tenant, id string) (h ledger.Webhook, err error) {
	found, err := c.one(ctx, "SELECT "+webhookColumns+" FROM webhooks WHERE id = ? AND tenant = ?",
		func(r *row) { h = r.webhook() }, id, tenant)
	return h, orNotFound(found, err)
}

// Webhook implements ledger.Webhooks.
func (l *Ledger) Webhook(ctx context.Context, tenant, id string) (h ledger.Webhook, err error) {
	err = l.read(ctx, "webhook", func(c *conn) (err error) {
		h, err = webhookByID(ctx, c, tenant, id)
		return err
	})
	return h, err
}

// ListWebhooks implements ledger.Webhooks.
func (l *Ledger) ListWebhooks(ctx context.Context, q ledger.WebhookQuery) (all []ledger.Webhook, err error) {
	if err := checkLimit(q.Limit); err != nil {
		return nil, classify("list webhooks", err)
	}
	err = l.read(ctx, "list webhooks", func(c *conn) error {
		return c.query(ctx, "SELECT "+webhookColumns+" FROM webhooks WHERE tenant = ? AND erasure = ? AND id > ? ORDER BY id LIMIT ?",
			func(r *row) { all = append(all, r.webhook()) }, q.Tenant, q.Erasure, q.After, int64(q.Limit))
	})
	return all, err
}

// RotateSecret implements ledger.Webhooks.
func (l *Ledger) RotateSecret(ctx context.Context, tenant, id string, secret []byte, oldUntil time.Time, e ledger.Entry) (h ledger.Webhook, err error) {
	const op = "rotate a secret"
	if len(secret) == 0 {
		return h, classify(op, fmt.Errorf("no secret: %w", blobd.ErrInvalid))
	}
	err = l.write(ctx, op, func(w *conn) error {
		found, err := w.one(ctx, `UPDATE webhooks SET old_secret = secret, old_until = ?, secret = ? WHERE id = ? AND tenant = ?
			RETURNING `+webhookColumns, func(r *row) { h = r.webhook() }, micros(oldUntil), secret, id, tenant)
		if err := orNotFound(found, err); err != nil {
			return err
		}
		return appendEntries(ctx, w, e)
	})
	if err != nil {
		return ledger.Webhook{}, err
	}
	return h, nil
}

// DeleteWebhook implements ledger.Webhooks.
func (l *Ledger) DeleteWebhook(ctx context.Context, tenant, id string, e ledger.Entry) error {
	return l.write(ctx, "delete a webhook", func(w *conn) error {
		n, err := w.exec(ctx, "DELETE FROM webhooks WHERE id = ? AND tenant = ?", id, tenant)
		if err := orNotFound(n > 0, err); err != nil {
			return err
		}
		return appendEntries(ctx, w, e)
	})
}
