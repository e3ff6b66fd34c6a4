package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/client"
)

// told is a delivery as a receiver gets it.
type told struct {
	header  http.Header
	body    []byte
	Type    string
	Subject string
	Data    struct{ State string }
}

// receives takes what it is told.
func receives(got chan<- told) http.Handler {
	return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		n := told{header: r.Header.Clone(), body: body}
		if err := json.Unmarshal(body, &n); err == nil {
			got <- n
		}
	})
}

// The whole road: a service, its acts, its evidence log, and a receiver that checks
// what it is told with the public library.
func TestAServiceTellsWebhooks(t *testing.T) {
	got := make(chan told, 100)
	receiver := httptest.NewServer(receives(got))
	defer receiver.Close()
	folder := filepath.Join(t.TempDir(), "data")
	r := start(t, testConfig(t, folder, map[string]string{"webhooks.allowPrivate": "true"}))
	token, err := readToken(filepath.Join(folder, tokenFile))
	must(t, err)
	c, err := client.New(client.Options{Server: r.url, Token: token})
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	hook, err := c.CreateWebhook(ctx, wire.NewWebhook{URL: receiver.URL}, "")
	must(t, err)
	verify, err := standardwebhooks.NewWebhook(hook.Secret)
	must(t, err)

	yes, x := true, "execution-1"
	_, _, err = c.Put(ctx, x, client.Put{Text: []byte("a thought")})
	must(t, err)
	hold, err := c.PlaceHold(ctx, wire.HoldRequest{Scope: &wire.Scope{Tenant: &yes}, Matter: "m", Reason: "r", Owner: "o"}, "")
	must(t, err)
	_, err = c.ReleaseHold(ctx, hold.ID, "")
	must(t, err)
	_, err = c.Erase(ctx, wire.EraseRequest{Scope: &wire.Scope{ExecutionID: &x}, Reason: "r"}, "")
	must(t, err)
	_, err = c.StartSweep(ctx, wire.SweepRequest{})
	must(t, err)

	want := map[string]string{
		"hold.placed": "placed", "hold.released": "lifted", "erasure.requested": "running", "erasure.erased": "erased", "sweep.finished": "done",
	}
	ids := map[string]bool{}
	for len(want) > 0 {
		select {
		case n := <-got:
			must(t, verify.Verify(n.body, n.header))
			if id := n.header.Get("webhook-id"); ids[id] {
				t.Errorf("%s came twice", n.Type)
			} else {
				ids[id] = true
			}
			if state, wanted := want[n.Type]; !wanted || state != n.Data.State {
				t.Errorf("told %s, %s", n.Type, n.Data.State)
			}
			delete(want, n.Type)
		case <-ctx.Done():
			t.Fatalf("never told: %v", want)
		}
	}
	r.end(t)
}

// A callback is told of its erasure to the end, and is gone then.
func TestAServiceTellsACallback(t *testing.T) {
	got := make(chan told, 100)
	receiver := httptest.NewServer(receives(got))
	defer receiver.Close()
	folder := filepath.Join(t.TempDir(), "data")
	r := start(t, testConfig(t, folder, map[string]string{"webhooks.allowPrivate": "true"}))
	token, err := readToken(filepath.Join(folder, tokenFile))
	must(t, err)
	c, err := client.New(client.Options{Server: r.url, Token: token})
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	x, other := "execution-1", "execution-2"
	_, _, err = c.Put(ctx, x, client.Put{Text: []byte("a thought")})
	must(t, err)
	_, err = c.Erase(ctx, wire.EraseRequest{Scope: &wire.Scope{ExecutionID: &other}, Reason: "r"}, "")
	must(t, err)
	e, err := c.Erase(ctx, wire.EraseRequest{Scope: &wire.Scope{ExecutionID: &x}, Reason: "r", Callback: &receiver.URL}, "")
	must(t, err)
	verify, err := standardwebhooks.NewWebhook(e.CallbackSecret)
	must(t, err)
	for _, want := range []string{"erasure.requested", "erasure.erased"} {
		select {
		case n := <-got:
			must(t, verify.Verify(n.body, n.header))
			if n.Type != want || n.Subject != e.ID {
				t.Errorf("told %s of %s, want %s of %s", n.Type, n.Subject, want, e.ID)
			}
		case <-ctx.Done():
			t.Fatalf("never told: %s", want)
		}
	}
	for left := 1; left > 0; { // it goes when the last answer was written down
		page, err := c.Webhooks(ctx, client.Page{Filters: filters("erasure", e.ID)})
		must(t, err)
		left = len(page.Items)
	}
	r.end(t)
}
