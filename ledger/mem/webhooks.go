package mem

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// hooks is what the ledger holds of webhooks. Its zero value is empty.
type hooks struct {
	rows       map[string]*webhook
	deliveries []*ledger.Delivery // by number
	last       int64              // number of the newest delivery ever
	next       int64              // place in the log
}

type webhook struct {
	ledger.Webhook
	lease ledger.DeliveryLease
	held  bool
}

func (w *webhook) shown() ledger.Webhook {
	out := w.Webhook
	out.Types, out.Secret, out.OldSecret = slices.Clone(out.Types), slices.Clone(out.Secret), slices.Clone(out.OldSecret)
	return out
}

func shownDelivery(d *ledger.Delivery) ledger.Delivery {
	out := *d
	out.Body = slices.Clone(out.Body)
	return out
}

// CreateWebhook implements ledger.Webhooks.
func (l *Ledger) CreateWebhook(ctx context.Context, w ledger.Webhook, e ledger.Entry) error {
	const op = "create a webhook"
	if err := w.CheckOrdinary(); err != nil {
		return refuse(op, err)
	}
	if err := l.begin(ctx, op); err != nil {
		return err
	}
	defer l.mu.Unlock()
	if err := l.living(w.Tenant); err != nil {
		return refuse(op, err)
	}
	if err := l.freeWebhookID(w.ID); err != nil {
		return refuse(op, err)
	}
	have := 0
	for _, other := range l.hooks.rows {
		if other.Tenant == w.Tenant && other.Erasure == "" {
			have++
		}
	}
	if have >= ledger.MaxWebhooks {
		return refuse(op, fmt.Errorf("%d webhooks: %w", have, blobd.ErrTooLarge))
	}
	l.insertWebhook(w)
	l.append(e)
	return nil
}

func (l *Ledger) freeWebhookID(id string) error {
	if _, used := l.hooks.rows[id]; used {
		return fmt.Errorf("the id is in use: %w", blobd.ErrConflict)
	}
	return nil
}

func (l *Ledger) insertWebhook(w ledger.Webhook) {
	w.CreatedAt, w.OldUntil, w.DisabledAt = kept(w.CreatedAt), kept(w.OldUntil), kept(w.DisabledAt)
	if l.hooks.rows == nil {
		l.hooks.rows = make(map[string]*webhook)
	}
	row := &webhook{Webhook: w}
	row.Webhook = row.shown()
	l.hooks.rows[w.ID] = row
}

// hook locks the ledger and returns a tenant's webhook. On an error nothing is
// locked.
func (l *Ledger) hook(ctx context.Context, op, tenant, id string) (*webhook, error) {
	if err := l.begin(ctx, op); err != nil {
		return nil, err
	}
	w := l.hooks.rows[id]
	if w == nil || w.Tenant != tenant {
		l.mu.Unlock()
		return nil, refuse(op, blobd.ErrNotFound)
	}
	return w, nil
}

// Webhook implements ledger.Webhooks.
func (l *Ledger) Webhook(ctx context.Context, tenant, id string) (ledger.Webhook, error) {
	w, err := l.hook(ctx, "webhook", tenant, id)
	if err != nil {
		return ledger.Webhook{}, err
	}
	defer l.mu.Unlock()
	return w.shown(), nil
}

// ListWebhooks implements ledger.Webhooks.
func (l *Ledger) ListWebhooks(ctx context.Context, q ledger.WebhookQuery) ([]ledger.Webhook, error) {
	if err := checkLimit("list webhooks", q.Limit); err != nil {
		return nil, err
	}
	if err := l.begin(ctx, "list webhooks"); err != nil {
		return nil, err
	}
	defer l.mu.Unlock()
	var all []ledger.Webhook
	for id, w := range l.hooks.rows {
		if w.Tenant == q.Tenant && w.Erasure == q.Erasure && id > q.After {
			all = append(all, w.shown())
		}
	}
	slices.SortFunc(all, func(a, b ledger.Webhook) int { return cmp.Compare(a.ID, b.ID) })
	return cut(all, q.Limit), nil
}

// RotateSecret implements ledger.Webhooks.
func (l *Ledger) RotateSecret(ctx context.Context, tenant, id string, secret []byte, oldUntil time.Time, e ledger.Entry) (ledger.Webhook, error) {
	const op = "rotate a secret"
	if len(secret) == 0 {
		return ledger.Webhook{}, refuse(op, fmt.Errorf("no secret: %w", blobd.ErrInvalid))
	}
	w, err := l.hook(ctx, op, tenant, id)
	if err != nil {
		return ledger.Webhook{}, err
	}
	defer l.mu.Unlock()
	w.OldSecret, w.OldUntil, w.Secret = w.Secret, kept(oldUntil), slices.Clone(secret)
	l.append(e)
	return w.shown(), nil
}

// DeleteWebhook implements ledger.Webhooks.
func (l *Ledger) DeleteWebhook(ctx context.Context, tenant, id string, e ledger.Entry) error {
	w, err := l.hook(ctx, "delete a webhook", tenant, id)
	if err != nil {
		return err
	}
	defer l.mu.Unlock()
	l.removeWebhook(w)
	l.append(e)
	return nil
}

func (l *Ledger) removeWebhook(w *webhook) {
	delete(l.hooks.rows, w.ID)
	l.hooks.deliveries = slices.DeleteFunc(l.hooks.deliveries, func(d *ledger.Delivery) bool { return d.WebhookID == w.ID })
}
