package api_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/webhooks"
)

// listener is a receiver of a callback, which answers with the status that it is set
// to and keeps what it took.
type listener struct {
	*httptest.Server
	mu     sync.Mutex
	status int
	told   []toldOnce
}

type toldOnce struct {
	header http.Header
	body   []byte
}

func newListener(t *testing.T) *listener {
	t.Helper()
	l := &listener{status: http.StatusOK}
	l.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.status == http.StatusOK {
			l.told = append(l.told, toldOnce{r.Header.Clone(), body})
		}
		w.WriteHeader(l.status)
	}))
	t.Cleanup(l.Close)
	return l
}

func (l *listener) answer(status int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.status = status
}

// types are those of what was taken, each verified by the public library.
func (l *listener) types(t *testing.T, secret string) (all []string) {
	t.Helper()
	v, err := standardwebhooks.NewWebhook(secret)
	must(t, err)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range l.told {
		if err := v.VerifyIgnoringTimestamp(m.body, m.header); err != nil {
			t.Errorf("%v: %s", err, m.body)
		}
		var event struct{ Type string }
		must(t, json.Unmarshal(m.body, &event))
		all = append(all, event.Type)
	}
	return all
}

func (l *listener) wants(t *testing.T, secret string, want ...string) {
	t.Helper()
	if got := l.types(t, secret); !slices.Equal(got, want) {
		t.Fatalf("told %v, want %v", got, want)
	}
}

// request asks for an erasure of an execution with a callback.
func (h *hooked) request(url, more string, headers ...string) (answer, wire.Erasure) {
	h.t.Helper()
	a := h.ask("dpo", "POST", "/v1/erasures", `{"scope":{"executionId":"x"},"reason":"by Jo Doe","callback":"`+url+`"`+more+`}`, headers...)
	a.want(h.t, http.StatusAccepted, "")
	var e wire.Erasure
	a.into(h.t, &e)
	return a, e
}

func (h *hooked) callbacks(erasure string) []wire.Webhook {
	h.t.Helper()
	a := h.ask("dpo", "GET", "/v1/webhooks?erasure="+erasure, "")
	a.want(h.t, http.StatusOK, "")
	var page wire.Webhooks
	a.into(h.t, &page)
	return page.Items
}

func TestACallbackFromBeginningToEnd(t *testing.T) {
	h := newHooked(t)
	to := newListener(t)
	h.put("x", canaryText, "Blobd-Subjects", `"jo@example.org"`)
	a, e := h.request(to.URL+"/hook?key=private", "")
	if !strings.HasPrefix(e.CallbackSecret, "whsec_") || e.State != "running" {
		t.Fatalf("answer %s", a.body)
	}
	newSchemas(t, h.ask("", "GET", "/openapi.json", "").body).check(t, "POST", "/v1/erasures", a)
	h.work()
	to.wants(t, e.CallbackSecret, "erasure.requested")
	mine := h.callbacks(e.ID)
	if len(mine) != 1 || mine[0].Erasure != e.ID || mine[0].URL != to.URL+"/hook?key=private" {
		t.Fatalf("callbacks %+v", mine)
	}
	for _, path := range []string{"/v1/erasures/" + e.ID, "/v1/erasures", "/v1/webhooks?erasure=" + e.ID, "/v1/webhooks/" + mine[0].ID} {
		if b := h.ask("dpo", "GET", path, ""); bytes.Contains(b.body, []byte("ecret\"")) || bytes.Contains(b.body, []byte("whsec_")) {
			t.Errorf("%s shows the secret: %s", path, b.body)
		}
	}
	if b := h.ask("dpo", "GET", "/v1/webhooks", ""); bytes.Contains(b.body, []byte(mine[0].ID)) {
		t.Errorf("it is among the webhooks: %s", b.body)
	}
	h.ask("dpo", "POST", "/v1/erasures", `{"scope":{"executionId":"y"},"reason":"r"}`).want(t, http.StatusAccepted, "")
	h.clock.add(time.Minute)
	h.runErasures()
	h.work()
	to.wants(t, e.CallbackSecret, "erasure.requested", "erasure.erased")
	if left := h.callbacks(e.ID); len(left) != 0 {
		t.Errorf("left %+v", left)
	}
	h.ask("dpo", "GET", "/v1/webhooks/"+mine[0].ID, "").want(t, http.StatusNotFound, wire.CodeNotFound)
	for _, m := range to.told {
		for _, private := range []string{canaryText, "jo@example.org", "Jo Doe", `"x"`} {
			if bytes.Contains(m.body, []byte(private)) {
				t.Errorf("the body has %q: %s", private, m.body)
			}
		}
	}
	for _, private := range []string{strings.TrimPrefix(e.CallbackSecret, "whsec_"), "key=private"} {
		if strings.Contains(h.logs.String(), private) {
			t.Error("a log line has the secret or the URL")
		}
	}
}

// What becomes of an erasure that a person ends is told too, whatever the state that
// it waits in.
func TestACallbackOfAnErasureThatIsDenied(t *testing.T) {
	h := newHooked(t)
	to := newListener(t)
	h.put("x", canaryText)
	_, e := h.request(to.URL, `,"graceSeconds":600`)
	h.ask("dpo", "POST", "/v1/erasures/"+e.ID+"/deny", `{"code":"ART17_3_B"}`).want(t, http.StatusOK, "")
	h.work()
	to.wants(t, e.CallbackSecret, "erasure.requested", "erasure.denied")
	if left := h.callbacks(e.ID); len(left) != 0 {
		t.Errorf("left %+v", left)
	}
}

// An endpoint that takes nothing keeps no erasure; it can be told later.
func TestACallbackThatNobodyTakes(t *testing.T) {
	h := newHooked(t)
	to := newListener(t)
	to.answer(http.StatusInternalServerError)
	_, e := h.request(to.URL, "")
	h.clock.add(time.Minute)
	h.runErasures()
	for range webhooks.MaxAttempts {
		h.work()
		h.clock.add(30 * time.Hour)
	}
	var now wire.Erasure
	h.ask("dpo", "GET", "/v1/erasures/"+e.ID, "").into(t, &now)
	mine := h.callbacks(e.ID)
	if now.State != "erased" || len(mine) != 1 || len(h.get(mine[0].ID, "?state=dead").Deliveries) != 2 {
		t.Fatalf("%s, callbacks %+v", now.State, mine)
	}
	to.answer(http.StatusOK)
	a := h.ask("dpo", "POST", "/v1/webhooks/"+mine[0].ID+"/rotate", `{"overlapSeconds":0}`)
	var rotated wire.CreatedWebhook
	a.into(t, &rotated)
	h.ask("dpo", "POST", "/v1/webhooks/"+mine[0].ID+"/replay", "").want(t, http.StatusAccepted, "")
	h.work()
	to.wants(t, rotated.Secret, "erasure.requested", "erasure.erased")
	if len(h.callbacks(e.ID)) != 0 {
		t.Error("it stays")
	}
}

func TestACallbackUnderAKey(t *testing.T) {
	h := newHooked(t)
	to := newListener(t)
	first, e := h.request(to.URL, "", wire.HeaderIdempotencyKey, "k")
	again, _ := h.request(to.URL, "", wire.HeaderIdempotencyKey, "k")
	if !bytes.Equal(first.body, again.body) || e.CallbackSecret == "" {
		t.Errorf("first %s, again %s", first.body, again.body)
	}
	if n := len(h.callbacks(e.ID)); n != 1 {
		t.Errorf("%d callbacks", n)
	}
}

// A URL that nothing is sent to is refused before anything is done, and a dry run
// makes nothing.
func TestWhatACallbackCannotBe(t *testing.T) {
	h := newHooked(t, func(o *webhooks.Options) { o.AllowPrivate = false })
	s := h.put("x", canaryText)
	for _, url := range []string{
		"file:///x", "http://example.org/", "https://127.0.0.1/", "https://[::1]/", "https://169.254.169.254/latest", "https://u:p@example.org/", "",
		"https://example.org/" + strings.Repeat("x", 2048),
	} {
		for _, dry := range []string{"", `,"dryRun":true`} {
			a := h.ask("dpo", "POST", "/v1/erasures", `{"scope":{"executionId":"x"},"reason":"r","callback":"`+url+`"`+dry+`}`)
			a.want(t, http.StatusBadRequest, wire.CodeInvalid)
			if url != "" && strings.Contains(string(a.body), url) {
				t.Errorf("the answer repeats the URL: %s", a.body)
			}
		}
	}
	h.ask("dpo", "POST", "/v1/erasures", `{"scope":{"tenant":true},"reason":"r","callback":"https://example.org/"}`).want(t, http.StatusBadRequest, wire.CodeInvalid)
	dry := h.ask("dpo", "POST", "/v1/erasures", `{"scope":{"executionId":"x"},"reason":"r","callback":"https://example.org/","dryRun":true}`)
	dry.want(t, http.StatusOK, "")
	if bytes.Contains(dry.body, []byte("whsec_")) {
		t.Errorf("the dry run made a secret: %s", dry.body)
	}
	h.ask("runtime", "GET", "/v1/executions/x/blobs/"+s.Ref, "").want(t, http.StatusOK, "")
	state, err := h.store.Ledger.FeedState(t.Context())
	must(t, err)
	if state.Webhooks {
		t.Error("a callback was made")
	}
	h.ask("dpo", "GET", "/v1/webhooks?erasure="+strings.Repeat("x", 257), "").want(t, http.StatusBadRequest, wire.CodeInvalid)
}

// Callbacks are their tenant's.
func TestCallbacksOfAnotherTenant(t *testing.T) {
	h := newHooked(t)
	must(t, second(h.env))
	_, e := h.request("https://example.org/", "")
	var page wire.Webhooks
	h.ask(h.newToken("second", "dpo"), "GET", "/v1/webhooks?erasure="+e.ID, "").into(t, &page)
	if len(page.Items) != 0 {
		t.Errorf("page %+v", page)
	}
}
