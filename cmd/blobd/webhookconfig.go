package main

import (
	"crypto/rand"
	"log/slog"
	"strconv"
	"time"

	"github.com/blobd/blobd/api"
	"github.com/blobd/blobd/webhooks"
)

// decodeWebhooks reads where webhooks may be sent.
func (c *config) decodeWebhooks() []error {
	allow, err := strconv.ParseBool(c.values.String("webhooks.allowPrivate"))
	if err != nil {
		return []error{c.wrong("webhooks.allowPrivate", "wants true or false")}
	}
	c.WebhooksAllowPrivate = allow
	return nil
}

// tellWebhooks builds what tells webhooks and gives it to the workers.
func (s *service) tellWebhooks(owner string, now func() time.Time, log *slog.Logger) *webhooks.Webhooks {
	w := webhooks.New(webhooks.Options{
		Ledger: s.ledger, Keys: s.keys, Deployment: s.identity.ID, Owner: owner, Serving: s.store.Serving,
		Now: now, Random: rand.Reader, Log: log, AllowPrivate: s.config.WebhooksAllowPrivate,
	})
	s.workers = append(s.workers, w.Run)
	return w
}

// webhookStats is what metrics tell of webhooks.
func webhookStats(w *webhooks.Webhooks) func() api.WebhookStats {
	return func() api.WebhookStats { return api.WebhookStats(w.Stats()) }
}
