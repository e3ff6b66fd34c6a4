package ledgertest

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

func webhookID(n int) string { return fmt.Sprintf("webhook-%03d", n) }

func newWebhook(n int, types ...string) ledger.Webhook {
	return ledger.Webhook{
		ID: webhookID(n), Tenant: tenant, URL: "https://example.org/hook", Types: types, Description: "the \x00 archive",
		Secret: []byte{1, 0, byte(n)}, CreatedAt: start, CreatedBy: "token",
	}
}

func (e *env) webhook(n int, types ...string) ledger.Webhook {
	e.Helper()
	w := newWebhook(n, types...)
	e.must(e.CreateWebhook(e.ctx, w, entry(ledger.EntryWebhook)))
	return w
}

func (e *env) webhookRow(n int) ledger.Webhook {
	e.Helper()
	w, err := e.Webhook(e.ctx, tenant, webhookID(n))
	e.must(err)
	return w
}

func (e *env) webhooks(after string, limit int) []ledger.Webhook {
	e.Helper()
	ws, err := e.ListWebhooks(e.ctx, ledger.WebhookQuery{Tenant: tenant, After: after, Limit: limit})
	e.must(err)
	return ws
}

func webhookSentences() []sentence {
	return []sentence{
		{"a webhook reads back as it was made", func(e *env) {
			w := e.webhook(1, ledger.EventErasureErased, ledger.EventSweepFinished)
			e.equal("webhook", e.webhookRow(1), w)
			full := newWebhook(2)
			full.OldSecret, full.OldUntil, full.DisabledAt, full.DisabledFor = []byte("old"), at(9), at(8), "gone"
			e.must(e.CreateWebhook(e.ctx, full, entry(ledger.EntryWebhook)))
			e.equal("another", e.webhookRow(2), full)
			e.equal("entries", len(slices.DeleteFunc(e.entries(), func(x ledger.StoredEntry) bool { return x.Kind != ledger.EntryWebhook })), 2)
		}},
		{"an id in use is a conflict, of another tenant too", func(e *env) {
			e.tenant("beta", 0)
			e.webhook(1)
			w := newWebhook(1)
			w.Tenant = "beta"
			e.refused(e.CreateWebhook(e.ctx, w, entry(ledger.EntryWebhook)), blobd.ErrConflict)
			e.equal("tenant", e.webhookRow(1).Tenant, tenant)
		}},
		{"a webhook of an unknown tenant is not found, of a fenced one erased", func(e *env) {
			w := newWebhook(1)
			w.Tenant = "nobody"
			e.refused(e.CreateWebhook(e.ctx, w, entry(ledger.EntryWebhook)), blobd.ErrNotFound)
			e.fence(offboard(1))
			e.refused(e.CreateWebhook(e.ctx, newWebhook(1), entry(ledger.EntryWebhook)), blobd.ErrTenantErased)
		}},
		{"what a webhook cannot be is invalid", func(e *env) {
			for _, wrong := range []func(*ledger.Webhook){
				func(w *ledger.Webhook) { w.ID = "" },
				func(w *ledger.Webhook) { w.URL = "" },
				func(w *ledger.Webhook) { w.Secret = nil },
				func(w *ledger.Webhook) { w.Types = []string{"erasure.unknown"} },
				func(w *ledger.Webhook) { w.Types = []string{ledger.EventSweepFinished, ledger.EventErasureErased} },
				func(w *ledger.Webhook) { w.Types = []string{ledger.EventSweepFinished, ledger.EventSweepFinished} },
			} {
				w := newWebhook(1)
				wrong(&w)
				e.refused(e.CreateWebhook(e.ctx, w, entry(ledger.EntryWebhook)), blobd.ErrInvalid)
			}
			e.equal("webhooks", len(e.webhooks("", 9)), 0)
		}},
		{"a tenant has so many webhooks and no more", func(e *env) {
			e.tenant("beta", 0)
			for n := range 32 {
				e.webhook(n)
			}
			e.refused(e.CreateWebhook(e.ctx, newWebhook(99), entry(ledger.EntryWebhook)), blobd.ErrTooLarge)
			other := newWebhook(99)
			other.Tenant = "beta"
			e.must(e.CreateWebhook(e.ctx, other, entry(ledger.EntryWebhook)))
			e.must(e.DeleteWebhook(e.ctx, tenant, webhookID(7), entry(ledger.EntryWebhook)))
			e.webhook(40)
		}},
		{"webhooks are listed by id, a tenant's own", func(e *env) {
			e.tenant("beta", 0)
			for _, n := range []int{3, 1, 2} {
				e.webhook(n)
			}
			other := newWebhook(4)
			other.Tenant = "beta"
			e.must(e.CreateWebhook(e.ctx, other, entry(ledger.EntryWebhook)))
			e.equal("first", idsOf(e.webhooks("", 2)), []string{webhookID(1), webhookID(2)})
			e.equal("rest", idsOf(e.webhooks(webhookID(2), 9)), []string{webhookID(3)})
			_, err := e.ListWebhooks(e.ctx, ledger.WebhookQuery{Tenant: tenant})
			e.refused(err, blobd.ErrInvalid)
		}},
		{"the secret before stays beside the new one, and the one before that is gone", func(e *env) {
			e.webhook(1)
			w, err := e.RotateSecret(e.ctx, tenant, webhookID(1), []byte("second"), at(50), entry(ledger.EntryWebhook))
			e.must(err)
			want := newWebhook(1)
			want.OldSecret, want.OldUntil, want.Secret = want.Secret, at(50), []byte("second")
			e.equal("rotated", w, want)
			w, err = e.RotateSecret(e.ctx, tenant, webhookID(1), []byte("third"), at(60), entry(ledger.EntryWebhook))
			e.must(err)
			want.OldSecret, want.OldUntil, want.Secret = []byte("second"), at(60), []byte("third")
			e.equal("again", w, want)
			e.equal("read", e.webhookRow(1), want)
			_, err = e.RotateSecret(e.ctx, tenant, webhookID(1), nil, at(60), entry(ledger.EntryWebhook))
			e.refused(err, blobd.ErrInvalid)
		}},
		{"a deleted webhook is gone with its deliveries", func(e *env) {
			e.webhook(1)
			e.webhook(2)
			e.feed(event(1))
			j := e.claimDelivery()
			e.must(e.DeleteWebhook(e.ctx, tenant, webhookID(1), entry(ledger.EntryWebhook)))
			e.equal("left", idsOf(e.webhooks("", 9)), []string{webhookID(2)})
			e.equal("deliveries", len(e.deliveries(1)), 0)
			e.equal("of the other", len(e.deliveries(2)), 1)
			e.staleDelivery(j)
			e.webhook(1)
			e.staleDelivery(j)
		}},
		{"a webhook of another tenant, or an unknown one, is not found", func(e *env) {
			e.tenant("beta", 0)
			e.webhook(1)
			before := len(e.entries())
			for _, of := range [][2]string{{"beta", webhookID(1)}, {tenant, webhookID(9)}} {
				_, err := e.Webhook(e.ctx, of[0], of[1])
				e.refused(err, blobd.ErrNotFound)
				_, err = e.RotateSecret(e.ctx, of[0], of[1], []byte("s"), at(1), entry(ledger.EntryWebhook))
				e.refused(err, blobd.ErrNotFound)
				e.refused(e.DeleteWebhook(e.ctx, of[0], of[1], entry(ledger.EntryWebhook)), blobd.ErrNotFound)
				_, err = e.Redeliver(e.ctx, ledger.Redelivery{Tenant: of[0], WebhookID: of[1], At: at(1)}, entry(ledger.EntryWebhook))
				e.refused(err, blobd.ErrNotFound)
			}
			e.equal("webhook", e.webhookRow(1), newWebhook(1))
			e.equal("entries", len(e.entries()), before)
		}},
		{"webhooks made at once share one bound", func(e *env) {
			for n := range 28 {
				e.webhook(n)
			}
			var wg sync.WaitGroup
			for n := 50; n < 58; n++ {
				wg.Go(func() { _ = e.CreateWebhook(e.ctx, newWebhook(n), entry(ledger.EntryWebhook)) })
			}
			wg.Wait()
			e.equal("webhooks", len(e.webhooks("", 99)), 32)
		}},
		{"a cancelled context is unavailable and changes no webhook", func(e *env) {
			e.webhook(1)
			e.feed(event(1))
			j := e.claimDelivery()
			cancelled, cancel := context.WithCancel(e.ctx)
			cancel()
			for name, call := range webhookCalls(e, j) {
				if err := call(cancelled); err == nil {
					e.Errorf("%s took a cancelled context", name)
				} else {
					e.refused(err, blobd.ErrUnavailable)
				}
			}
			e.equal("webhooks", e.webhooks("", 9), []ledger.Webhook{newWebhook(1)})
			e.equal("deliveries", e.deliveries(1), []ledger.Delivery{j.Delivery})
			e.equal("place", e.feedState().Next, int64(1))
		}},
	}
}

func webhookCalls(e *env, j ledger.DeliveryJob) map[string]func(context.Context) error {
	x, id := entry(ledger.EntryWebhook), webhookID(1)
	drop := func(_ any, err error) error { return err }
	return map[string]func(context.Context) error{
		"CreateWebhook": func(ctx context.Context) error { return e.CreateWebhook(ctx, newWebhook(2), x) },
		"Webhook":       func(ctx context.Context) error { return drop(e.Webhook(ctx, tenant, id)) },
		"ListWebhooks": func(ctx context.Context) error {
			return drop(e.ListWebhooks(ctx, ledger.WebhookQuery{Tenant: tenant, Limit: 1}))
		},
		"RotateSecret": func(ctx context.Context) error {
			return drop(e.RotateSecret(ctx, tenant, id, []byte("s"), at(1), x))
		},
		"DeleteWebhook": func(ctx context.Context) error { return e.DeleteWebhook(ctx, tenant, id, x) },
		"FeedState":     func(ctx context.Context) error { return drop(e.FeedState(ctx)) },
		"Feed":          func(ctx context.Context) error { return e.Feed(ctx, ledger.Feed{From: 1, To: 2, At: at(1)}) },
		"ClaimDelivery": func(ctx context.Context) error { return drop(e.ClaimDelivery(ctx, "other", at(500), at(600))) },
		"MoveDelivery": func(ctx context.Context) error {
			return e.MoveDelivery(ctx, j.Lease, ledger.DeliveryMove{To: ledger.DeliveryDelivered, At: at(1)})
		},
		"ListDeliveries": func(ctx context.Context) error {
			return drop(e.ListDeliveries(ctx, ledger.DeliveryQuery{Tenant: tenant, WebhookID: id, Limit: 1}))
		},
		"Redeliver": func(ctx context.Context) error {
			return drop(e.Redeliver(ctx, ledger.Redelivery{Tenant: tenant, WebhookID: id, At: at(99)}, x))
		},
		"TrimDeliveries": func(ctx context.Context) error {
			_, _, err := e.TrimDeliveries(ctx, at(1), 1)
			return err
		},
	}
}

func idsOf(ws []ledger.Webhook) (ids []string) {
	for _, w := range ws {
		ids = append(ids, w.ID)
	}
	return ids
}
