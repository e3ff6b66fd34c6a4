package webhooks

import (
	"context"
	"fmt"

	"github.com/blobd/blobd/ledger"
)

// CheckURL refuses, as ErrInvalid, what nothing is sent to here: see the function of
// that name.
func (w *Webhooks) CheckURL(url string) error { return CheckURL(url, w.o.AllowPrivate) }

// Callback drafts a webhook that is told of one erasure, and the entry of its making:
// both are for the erasure to come with (store.EraseRequest), and nothing is made
// before that. Its secret is returned here and nowhere else.
func (w *Webhooks) Callback(ctx context.Context, tenant, url, actor string) (secret string, c ledger.Callback, err error) {
	secret, c, err = w.callback(ctx, ledger.Webhook{Tenant: tenant, URL: url, Types: ledger.CallbackTypes(), CreatedBy: actor})
	if err != nil {
		return "", ledger.Callback{}, fmt.Errorf("a callback: %w", err)
	}
	return secret, c, nil
}

func (w *Webhooks) callback(ctx context.Context, row ledger.Webhook) (secret string, c ledger.Callback, err error) {
	if c.Webhook, secret, err = w.draft(ctx, row); err != nil {
		return "", c, err
	}
	c.Entry, err = w.act(ctx, row.Tenant, c.Webhook.CreatedAt, "created", row.CreatedBy, c.Webhook.ID)
	return secret, c, err
}
