package api_test

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/api"
	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/evidence"
	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/store"
	"github.com/blobd/blobd/webhooks"
)

// hooked is a server that tells webhooks. Its worker works when it is asked to.
type hooked struct {
	*env
	hooks     *webhooks.Webhooks
	sequencer *evidence.Sequencer
}

func newHooked(t *testing.T, tune ...func(*webhooks.Options)) *hooked {
	t.Helper()
	h := new(hooked)
	h.env = newEnv(t, func(c *api.Config) {
		s := c.Store.(*store.Store)
		o := webhooks.Options{
			Ledger: s.Ledger, Keys: s.Keys, Deployment: "deployment", Owner: "test", Serving: s.Serving, Now: c.Now, Random: rand.Reader, Log: c.Log,
			AllowPrivate: true,
		}
		for _, f := range tune {
			f(&o)
		}
		h.hooks = webhooks.New(o)
		log := evidence.NewLog(s.Ledger, s.Journal, s.Keys, "deployment")
		h.sequencer = evidence.NewSequencer(log, "test", c.Now, slog.New(slog.DiscardHandler))
		c.Webhooks = h.hooks
		c.WebhookStats = func() api.WebhookStats { st := h.hooks.Stats(); return api.WebhookStats(st) }
	})
	return h
}

// work has everything told that is due.
func (h *hooked) work() {
	h.t.Helper()
	for again := true; again; {
		var err error
		again, err = h.sequencer.Step(h.t.Context())
		must(h.t, err)
	}
	_, err := h.hooks.Feed(h.t.Context())
	must(h.t, err)
	for again := true; again; {
		again, err = h.hooks.RunOne(h.t.Context())
		must(h.t, err)
	}
	must(h.t, h.hooks.Trim(h.t.Context()))
}

func (h *hooked) create(body string) wire.CreatedWebhook {
	h.t.Helper()
	a := h.ask("dpo", "POST", "/v1/webhooks", body)
	a.want(h.t, http.StatusCreated, "")
	var w wire.CreatedWebhook
	a.into(h.t, &w)
	if a.header.Get("Location") != "/v1/webhooks/"+w.ID {
		h.t.Fatalf("Location %q", a.header.Get("Location"))
	}
	return w
}

func (h *hooked) get(id, query string) wire.WebhookDeliveries {
	h.t.Helper()
	a := h.ask("dpo", "GET", "/v1/webhooks/"+id+query, "")
	a.want(h.t, http.StatusOK, "")
	var w wire.WebhookDeliveries
	a.into(h.t, &w)
	return w
}

// answering answers every delivery with the status that it is set to.
func answering(t *testing.T, status *int) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(*status) }))
	t.Cleanup(s.Close)
	return s.URL
}

func TestAWebhookFromBeginningToEnd(t *testing.T) {
	h := newHooked(t)
	status := http.StatusServiceUnavailable
	url := answering(t, &status)
	made := h.create(`{"url":"` + url + `/hook","events":["sweep.finished","erasure.requested"],"description":"archive"}`)
	if !strings.HasPrefix(made.Secret, "whsec_") || strings.Join(made.Events, " ") != "erasure.requested sweep.finished" || made.Description != "archive" {
		t.Fatalf("made %+v", made.Webhook)
	}
	a := h.ask("dpo", "GET", "/v1/webhooks", "")
	a.want(t, http.StatusOK, "")
	if strings.Contains(string(a.body), "whsec_") || strings.Contains(string(a.body), "secret\"") {
		t.Fatalf("the listing shows a secret: %s", a.body)
	}
	var page wire.Webhooks
	a.into(t, &page)
	if len(page.Items) != 1 || page.Items[0].ID != made.ID || page.Next != nil {
		t.Fatalf("page %+v", page)
	}

	for _, x := range []string{"x-1", "x-2", "x-3"} {
		h.ask("dpo", "POST", "/v1/erasures", `{"scope":{"executionId":"`+x+`"},"reason":"r"}`).want(t, http.StatusAccepted, "")
	}
	for range webhooks.MaxAttempts {
		h.work()
		h.clock.add(30 * time.Hour)
	}
	w := h.get(made.ID, "")
	if len(w.Deliveries) != 3 {
		t.Fatalf("deliveries %+v", w.Deliveries)
	}
	d := w.Deliveries[0]
	if d.State != "dead" || d.Attempts != 10 || d.Status == nil || *d.Status != 503 || d.LastError != "status" || d.Type != "erasure.requested" || d.EndedAt == nil || d.DueAt != nil {
		t.Errorf("delivery %+v", d)
	}
	first := h.get(made.ID, "?state=dead&limit=2")
	if len(first.Deliveries) != 2 || first.Next == nil {
		t.Fatalf("first page %+v", first)
	}
	rest := h.get(made.ID, "?state=dead&limit=2&cursor="+*first.Next)
	if len(rest.Deliveries) != 1 || rest.Next != nil || rest.Deliveries[0].EventID != w.Deliveries[2].EventID {
		t.Fatalf("second page %+v", rest)
	}
	for _, want := range []string{`blobd_webhook_dead_letters 3`, `blobd_webhook_deliveries_total{result="dead"} 3`, `blobd_webhook_deliveries_total{result="retried"} 27`} {
		if m := h.ask("", "GET", "/metrics", ""); !strings.Contains(string(m.body), want) {
			t.Errorf("metrics lack %s", want)
		}
	}

	status = http.StatusOK
	var replayed wire.Replayed
	a = h.ask("dpo", "POST", "/v1/webhooks/"+made.ID+"/replay", "")
	a.want(t, http.StatusAccepted, "")
	a.into(t, &replayed)
	h.work()
	if n := len(h.get(made.ID, "?state=delivered").Deliveries); replayed.Deliveries != 3 || n != 3 {
		t.Errorf("%d replayed, %d delivered", replayed.Deliveries, n)
	}
	a = h.ask("dpo", "POST", "/v1/webhooks/"+made.ID+"/replay", `{"since":"2020-01-01T00:00:00Z"}`)
	a.into(t, &replayed)
	if replayed.Deliveries != 3 {
		t.Errorf("%d replayed since", replayed.Deliveries)
	}

	a = h.ask("dpo", "POST", "/v1/webhooks/"+made.ID+"/rotate", `{"overlapSeconds":60}`)
	a.want(t, http.StatusOK, "")
	var rotated wire.CreatedWebhook
	a.into(t, &rotated)
	if rotated.Secret == made.Secret || !strings.HasPrefix(rotated.Secret, "whsec_") || rotated.OldSecretUntil == nil || !rotated.OldSecretUntil.Equal(h.clock.now().Add(time.Minute).Truncate(time.Microsecond)) {
		t.Errorf("rotated %+v", rotated.Webhook)
	}
	h.ask("dpo", "DELETE", "/v1/webhooks/"+made.ID, `{"dryRun":true}`).want(t, http.StatusBadRequest, wire.CodeUnknownField) // and it stays
	h.ask("dpo", "DELETE", "/v1/webhooks/"+made.ID, "").want(t, http.StatusNoContent, "")
	h.ask("dpo", "GET", "/v1/webhooks/"+made.ID, "").want(t, http.StatusNotFound, wire.CodeNotFound)
	h.ask("dpo", "DELETE", "/v1/webhooks/"+made.ID, "").want(t, http.StatusNotFound, wire.CodeNotFound)
	for _, secret := range []string{made.Secret, rotated.Secret} {
		if strings.Contains(h.logs.String(), strings.TrimPrefix(secret, "whsec_")) {
			t.Error("a log line has a secret")
		}
	}
}

func TestAWebhookIsMadeOnceUnderAKey(t *testing.T) {
	h := newHooked(t)
	body := `{"url":"https://example.org/"}`
	first := h.ask("dpo", "POST", "/v1/webhooks", body, wire.HeaderIdempotencyKey, "k")
	again := h.ask("dpo", "POST", "/v1/webhooks", body, wire.HeaderIdempotencyKey, "k")
	first.want(t, http.StatusCreated, "")
	if string(first.body) != string(again.body) || again.status != http.StatusCreated {
		t.Errorf("first %s, again %s", first.body, again.body)
	}
	h.ask("dpo", "POST", "/v1/webhooks", `{"url":"https://example.org/other"}`, wire.HeaderIdempotencyKey, "k").want(t, http.StatusUnprocessableEntity, wire.CodeKeyReused)
}

func TestWebhooksOfAnotherTenant(t *testing.T) {
	h := newHooked(t)
	must(t, second(h.env))
	theirs := h.newToken("second", "dpo")
	made := h.create(`{"url":"https://example.org/"}`)
	for _, q := range [][2]string{{"GET", ""}, {"DELETE", ""}, {"POST", "/replay"}, {"POST", "/rotate"}} {
		h.ask(theirs, q[0], "/v1/webhooks/"+made.ID+q[1], "").want(t, http.StatusNotFound, wire.CodeNotFound)
	}
	var page wire.Webhooks
	h.ask(theirs, "GET", "/v1/webhooks", "").into(t, &page)
	if len(page.Items) != 0 {
		t.Errorf("page %+v", page)
	}
}

func TestWhatAWebhookCannotBe(t *testing.T) {
	h := newHooked(t, func(o *webhooks.Options) { o.AllowPrivate = false })
	made := h.create(`{"url":"https://example.org/"}`)
	for _, c := range []struct {
		method, path, body string
		code               wire.Code
	}{
		{"POST", "/v1/webhooks", `{}`, wire.CodeInvalid},
		{"POST", "/v1/webhooks", `{"url":""}`, wire.CodeInvalid},
		{"POST", "/v1/webhooks", `{"url":"http://example.org/"}`, wire.CodeInvalid},
		{"POST", "/v1/webhooks", `{"url":"https://169.254.169.254/"}`, wire.CodeInvalid},
		{"POST", "/v1/webhooks", `{"url":"https://example.org/","events":["erasure.unknown"]}`, wire.CodeInvalid},
		{"POST", "/v1/webhooks", `{"url":"https://example.org/","description":"` + strings.Repeat("d", 257) + `"}`, wire.CodeInvalid},
		{"POST", "/v1/webhooks", `{"url":"https://example.org/","secret":"mine"}`, wire.CodeUnknownField},
		{"DELETE", "/v1/webhooks/none", `{"dryRun":true}`, wire.CodeUnknownField},
		{"POST", "/v1/webhooks/" + made.ID + "/rotate", `{"overlapSeconds":-1}`, wire.CodeInvalid},
		{"POST", "/v1/webhooks/" + made.ID + "/rotate", `{"overlapSeconds":604801}`, wire.CodeInvalid},
		{"POST", "/v1/webhooks/" + made.ID + "/replay", `{"since":"yesterday"}`, wire.CodeInvalid},
		{"GET", "/v1/webhooks/" + made.ID + "?state=sent", "", wire.CodeInvalid},
		{"GET", "/v1/webhooks/" + made.ID + "?cursor=AAAA", "", wire.CodeInvalid},
		{"GET", "/v1/webhooks/" + made.ID + "?limit=0", "", wire.CodeInvalid},
	} {
		a := h.ask("dpo", c.method, c.path, c.body)
		a.want(t, http.StatusBadRequest, c.code)
		if strings.Contains(string(a.body), "169.254") {
			t.Errorf("the answer repeats the URL: %s", a.body)
		}
	}
	for range 31 {
		h.create(`{"url":"https://example.org/"}`)
	}
	h.ask("dpo", "POST", "/v1/webhooks", `{"url":"https://example.org/"}`).want(t, http.StatusRequestEntityTooLarge, wire.CodeTooLarge)
}

// unreachable is a Webhooks of which nothing is known.
type unreachable struct{ api.Webhooks }

func (unreachable) Webhook(context.Context, string, string) (ledger.Webhook, error) {
	return ledger.Webhook{}, errors.Join(errors.New("no answer"), blobd.ErrUnavailable)
}

func TestWebhooksThatCannotBeRead(t *testing.T) {
	e := newEnv(t, func(c *api.Config) { c.Webhooks = unreachable{} })
	e.ask("dpo", "GET", "/v1/webhooks/x", "").want(t, http.StatusServiceUnavailable, wire.CodeUnavailable)
}
