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
	header http.Header
	body   []byte
	Type   string
	Data   struct{ State string }
}

// The whole road: a service, its acts, its evidence log, and a receiver that checks
// what it is told with the public library.
func TestAServiceTellsWebhooks(t *testing.T) {
	got := make(chan told, 100)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		n := told{header: r.Header.Clone(), body: body}
		if err := json.Unmarshal(body, &n); err == nil {
			got <- n
		}
	}))
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
