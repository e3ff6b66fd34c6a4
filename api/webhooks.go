package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/ledger"
)

// Webhooks is what the API needs of package webhooks.
type Webhooks interface {
	Create(ctx context.Context, w ledger.Webhook) (secret string, made ledger.Webhook, err error)
	Rotate(ctx context.Context, tenant, id, actor string, overlap time.Duration) (secret string, w ledger.Webhook, err error)
	Delete(ctx context.Context, tenant, id, actor string) error
	Replay(ctx context.Context, tenant, id, actor string, since time.Time) (int64, error)
	Webhook(ctx context.Context, tenant, id string) (ledger.Webhook, error)
	ListWebhooks(ctx context.Context, q ledger.WebhookQuery) ([]ledger.Webhook, error)
	ListDeliveries(ctx context.Context, q ledger.DeliveryQuery) ([]ledger.Delivery, error)
	CheckURL(url string) error
	Callback(ctx context.Context, tenant, url, actor string) (secret string, c ledger.Callback, err error)
}

// Paths of webhooks.
const (
	pathWebhooks = "/v1/webhooks"
	pathWebhook  = pathWebhooks + "/{id}"
)

// defaultOverlap is how long a rotated secret stays valid unless told, in seconds.
const (
	defaultOverlap = 24 * 60 * 60
	maxOverlap     = 7 * defaultOverlap
)

func webhookRoutes() []route {
	table := []route{
		{
			method: "POST", path: pathWebhooks, id: "createWebhook", roles: dpoRole,
			about:   "have a URL told of events; its secret is shown once",
			headers: []param{{wire.HeaderIdempotencyKey, "1 to 255 visible ASCII characters"}},
			request: wire.NewWebhook{}, act: (*API).createWebhook,
			answers: []reply{{201, wire.CreatedWebhook{}, []string{headerLocation}}},
		},
		{
			method: "GET", path: pathWebhooks, id: "listWebhooks", roles: dpoRole,
			about: "the tenant's webhooks, by id; callbacks only of the erasure that is named", act: (*API).listWebhooks,
			query:   append(listQuery(), param{"erasure", "id of an erasure: the callback of it, while something of it is to be told"}),
			answers: []reply{{200, wire.Webhooks{}, nil}},
		},
		{
			method: "GET", path: pathWebhook, id: "getWebhook", roles: dpoRole,
			about: "a webhook and its deliveries, newest first", act: (*API).webhook,
			query:   append(listQuery(), param{"state", "pending, delivered or dead"}),
			answers: []reply{{200, wire.WebhookDeliveries{}, nil}},
		},
		{
			method: "DELETE", path: pathWebhook, id: "deleteWebhook", roles: dpoRole,
			about: "remove a webhook, its secret and its deliveries",
			act:   (*API).deleteWebhook, answers: []reply{{204, nil, nil}},
		},
		{
			method: "POST", path: pathWebhook + "/replay", id: "replayWebhook", roles: dpoRole,
			about:   "have what is dead or waits sent at once; enables the webhook",
			request: wire.ReplayRequest{}, optionalBody: true, act: (*API).replayWebhook,
			answers: []reply{{202, wire.Replayed{}, nil}},
		},
		{
			method: "POST", path: pathWebhook + "/rotate", id: "rotateWebhook", roles: dpoRole,
			about:   "a new secret, shown once; for a time deliveries are signed with both",
			request: wire.RotateRequest{}, optionalBody: true, act: (*API).rotateWebhook,
			answers: []reply{{200, wire.CreatedWebhook{}, nil}},
		},
	}
	for i := range table {
		table[i].needs = (*API).tellsWebhooks
	}
	return table
}

func (a *API) tellsWebhooks() error {
	if a.Config.Webhooks == nil {
		return refuse(wire.CodeNotImplemented, "this server tells no webhooks")
	}
	return nil
}

// webhooks returns what tells webhooks, if this server does.
func (a *API) webhooks() (Webhooks, error) {
	if err := a.tellsWebhooks(); err != nil {
		return nil, err
	}
	return a.Config.Webhooks, a.Store.Serving()
}

// createWebhook answers POST /v1/webhooks.
func (a *API) createWebhook(c *call) error {
	hooks, err := a.webhooks()
	if err != nil {
		return err
	}
	var q wire.NewWebhook
	return a.withJSON(c, &q, func(body []byte) error {
		if err := checkNewWebhook(&q); err != nil {
			return err
		}
		row := ledger.Webhook{
			Tenant: c.who.tenant, URL: q.URL, Types: q.Events, Description: q.Description, CreatedBy: c.who.token,
		}
		return a.once(c, body, func(ctx context.Context) (outcome, error) {
			secret, made, err := hooks.Create(ctx, row)
			if errors.Is(err, blobd.ErrInvalid) { // the URL, which the error does not repeat
				err = invalid(err)
			}
			if err != nil {
				return outcome{}, err
			}
			created := wire.CreatedWebhook{Webhook: webhookOf(made), Secret: secret}
			return outcomeOf(http.StatusCreated, pathWebhooks+"/"+made.ID, &created)
		})
	})
}

func checkNewWebhook(q *wire.NewWebhook) error {
	if q.URL == "" {
		return refuse(wire.CodeInvalid, "url: must not be empty")
	}
	known := ledger.EventTypes()
	for _, e := range q.Events {
		if !slices.Contains(known, e) {
			return refuse(wire.CodeInvalid, "events: want some of %v", known)
		}
	}
	return invalid(blobd.CheckName("description", q.Description))
}

func webhookOf(w ledger.Webhook) wire.Webhook {
	events := w.Types
	if events == nil {
		events = []string{}
	}
	return wire.Webhook{
		ID: w.ID, Erasure: w.Erasure, URL: w.URL, Events: events, Description: w.Description, CreatedAt: w.CreatedAt.UTC(), CreatedBy: w.CreatedBy,
		DisabledAt: timeOrNull(w.DisabledAt), DisabledFor: w.DisabledFor, OldSecretUntil: timeOrNull(w.OldUntil),
	}
}

// listWebhooks answers GET /v1/webhooks.
func (a *API) listWebhooks(c *call) error {
	hooks, err := a.webhooks()
	if err != nil {
		return err
	}
	p, err := c.paging()
	if err != nil {
		return err
	}
	q := ledger.WebhookQuery{Tenant: c.who.tenant, Erasure: c.param("erasure"), After: p.after, Limit: p.limit + 1}
	if q.Erasure != "" {
		if err := blobd.CheckName("erasure", q.Erasure); err != nil {
			return invalid(err)
		}
	}
	rows, err := hooks.ListWebhooks(c.r.Context(), q)
	if err != nil {
		return err
	}
	rows, next := cut(rows, p.limit, func(w ledger.Webhook) string { return w.ID })
	out := &wire.Webhooks{Items: make([]wire.Webhook, len(rows)), Next: next}
	for i, w := range rows {
		out.Items[i] = webhookOf(w)
	}
	return c.reply(http.StatusOK, out)
}

// webhook answers GET /v1/webhooks/{id}.
func (a *API) webhook(c *call) error {
	hooks, err := a.webhooks()
	if err != nil {
		return err
	}
	id, err := c.pathID()
	if err != nil {
		return err
	}
	p, err := c.paging()
	if err != nil {
		return err
	}
	q := ledger.DeliveryQuery{Tenant: c.who.tenant, WebhookID: id, State: ledger.DeliveryState(c.param("state")), Limit: p.limit + 1}
	switch q.State {
	case "", ledger.DeliveryPending, ledger.DeliveryDelivered, ledger.DeliveryDead:
	default:
		return refuse(wire.CodeInvalid, "state: want pending, delivered or dead")
	}
	if p.after != "" {
		if q.Before, err = strconv.ParseInt(p.after, 10, 64); err != nil || q.Before < 1 {
			return errCursor()
		}
	}
	w, err := hooks.Webhook(c.r.Context(), c.who.tenant, id)
	if err != nil {
		return err
	}
	rows, err := hooks.ListDeliveries(c.r.Context(), q)
	if err != nil {
		return err
	}
	rows, next := cut(rows, p.limit, func(d ledger.Delivery) string { return strconv.FormatInt(d.N, 10) })
	out := &wire.WebhookDeliveries{Webhook: webhookOf(w), Deliveries: make([]wire.Delivery, len(rows)), Next: next}
	for i, d := range rows {
		out.Deliveries[i] = deliveryOf(d)
	}
	return c.reply(http.StatusOK, out)
}

func deliveryOf(d ledger.Delivery) wire.Delivery {
	out := wire.Delivery{
		EventID: d.EventID, Type: d.Type, Subject: d.Subject, State: string(d.State), Attempts: d.Attempts, LastError: d.LastError,
		CreatedAt: d.CreatedAt.UTC(), DueAt: timeOrNull(d.DueAt), EndedAt: timeOrNull(d.EndedAt),
	}
	if d.Status != 0 {
		out.Status = &d.Status
	}
	return out
}

// deleteWebhook answers DELETE /v1/webhooks/{id}.
func (a *API) deleteWebhook(c *call) error {
	hooks, err := a.webhooks()
	if err != nil {
		return err
	}
	id, err := c.pathID()
	if err != nil {
		return err
	}
	if err := hooks.Delete(c.r.Context(), c.who.tenant, id, c.who.token); err != nil {
		return err
	}
	c.status = http.StatusNoContent
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// replayWebhook answers POST /v1/webhooks/{id}/replay.
func (a *API) replayWebhook(c *call) error {
	hooks, err := a.webhooks()
	if err != nil {
		return err
	}
	id, err := c.pathID()
	if err != nil {
		return err
	}
	var q wire.ReplayRequest
	return a.withJSON(c, &q, func([]byte) error {
		var since time.Time
		if q.Since != nil {
			since = q.Since.UTC()
		}
		n, err := hooks.Replay(c.r.Context(), c.who.tenant, id, c.who.token, since)
		if err != nil {
			return err
		}
		return c.reply(http.StatusAccepted, &wire.Replayed{Deliveries: n})
	})
}

// rotateWebhook answers POST /v1/webhooks/{id}/rotate. The secret is shown here and
// nowhere else.
func (a *API) rotateWebhook(c *call) error {
	hooks, err := a.webhooks()
	if err != nil {
		return err
	}
	id, err := c.pathID()
	if err != nil {
		return err
	}
	var q wire.RotateRequest
	return a.withJSON(c, &q, func([]byte) error {
		overlap := int64(defaultOverlap)
		if q.OverlapSeconds != nil {
			overlap = *q.OverlapSeconds
		}
		if overlap < 0 || overlap > maxOverlap {
			return refuse(wire.CodeInvalid, "overlapSeconds: want 0 to %d", maxOverlap)
		}
		secret, w, err := hooks.Rotate(c.r.Context(), c.who.tenant, id, c.who.token, time.Duration(overlap)*time.Second)
		if err != nil {
			return err
		}
		return c.reply(http.StatusOK, &wire.CreatedWebhook{Webhook: webhookOf(w), Secret: secret})
	})
}
