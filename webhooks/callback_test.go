package webhooks_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/evidence"
	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/ledger/faulty"
	"github.com/blobd/blobd/webhooks"
)

// fenced is the fence of an execution, with a callback to a URL and its secret.
func (r *rig) fenced(n *webhooks.Webhooks, id, url string) (secret string, f ledger.Fence) {
	r.Helper()
	secret, callback, err := n.Callback(r.Context(), tenant, url, "token")
	r.must(err)
	callback.Webhook.Erasure = id
	s := ledger.Scope{Tenant: tenant, Tag: [16]byte{byte(len(id)), id[len(id)-1]}, ExecutionID: "execution of " + id}
	entry, err := r.scribe.Erasure(r.clock.now(), s, evidence.ErasureStep{Step: evidence.StepFenced, Erasure: id}, "token")
	r.must(err)
	return secret, ledger.Fence{ID: id, Scope: s, At: r.clock.now(), RunAt: r.clock.now(), Entries: []ledger.Entry{entry}, Callback: &callback}
}

// erase asks for an erasure with a callback.
func (r *rig) erase(n *webhooks.Webhooks, id, url string) (secret string) {
	r.Helper()
	secret, f := r.fenced(n, id, url)
	_, _, err := r.ledger.Fence(r.Context(), f)
	r.must(err)
	r.sequence()
	return secret
}

// callbacks are those of an erasure.
func (r *rig) callbacks(id string) []ledger.Webhook {
	r.Helper()
	all, err := r.ledger.ListWebhooks(r.Context(), ledger.WebhookQuery{Tenant: tenant, Erasure: id, Limit: 9})
	r.must(err)
	return all
}

// types are those of the events that a receiver was told, each signed.
func (r *receiver) types(t *testing.T, secret string) (all []string) {
	t.Helper()
	for _, g := range r.all() {
		if !verified(t, secret, g) {
			t.Errorf("not signed: %s", g.body)
		}
		what, rest, _ := strings.Cut(string(g.body), `"type":"`)
		if what == "" {
			t.Fatalf("body %s", g.body)
		}
		what, _, _ = strings.Cut(rest, `"`)
		all = append(all, what)
	}
	return all
}

func TestACallbackIsToldOfItsErasureToTheEnd(t *testing.T) {
	r := newRig(t)
	n := r.node("a")
	mine, others, all := newReceiver(t, nil), newReceiver(t, nil), newReceiver(t, nil)
	hookSecret, _ := r.create(n, all.URL)
	secret, otherSecret := r.erase(n, "erasure-1", mine.URL), r.erase(n, "erasure-2", others.URL)
	if secret == otherSecret || !strings.HasPrefix(secret, "whsec_") {
		t.Fatal("the secrets of two callbacks are one")
	}
	r.held("hold-1")
	r.work(n)
	raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	r.must(err)
	if row := r.callbacks("erasure-1")[0]; len(raw) != 32 || bytes.Contains(row.Secret, raw) {
		t.Error("the secret is not sealed")
	}
	r.step("erasure-1", evidence.ErasureStep{Step: evidence.StepDeferred, Held: 1, KeysDestroyed: 1})
	r.work(n)
	if len(r.callbacks("erasure-1")) != 1 {
		t.Fatal("the callback ended before its erasure")
	}
	r.step("erasure-1", evidence.ErasureStep{Step: evidence.StepErased})
	r.work(n)
	want := []string{"erasure.requested", "erasure.partial", "erasure.erased"}
	if d := cmp.Diff(want, mine.types(t, secret)); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	if d := cmp.Diff([]string{"erasure.requested"}, others.types(t, otherSecret)); d != "" {
		t.Errorf("the other: -want +got\n%s", d)
	}
	// A webhook of the tenant is told the same and more.
	want = []string{"erasure.requested", "erasure.requested", "hold.placed", "erasure.partial", "erasure.erased"}
	if d := cmp.Diff(want, all.types(t, hookSecret)); d != "" {
		t.Errorf("the webhook: -want +got\n%s", d)
	}
	for i, g := range all.all() {
		for _, m := range mine.all() {
			if m.header.Get("webhook-id") == g.header.Get("webhook-id") && string(m.body) != string(g.body) {
				t.Errorf("event %d has two bodies", i)
			}
		}
	}
	if len(r.callbacks("erasure-1")) != 0 || len(r.callbacks("erasure-2")) != 1 {
		t.Errorf("left %d and %d", len(r.callbacks("erasure-1")), len(r.callbacks("erasure-2")))
	}
}

// A receiver that never takes anything keeps neither the erasure nor the others, and
// its dead letters can be replayed until they are forgotten.
func TestTheDeadLettersOfACallback(t *testing.T) {
	r := newRig(t)
	n := r.node("a")
	down := true
	to := newReceiver(t, func(int) int {
		if down {
			return http.StatusInternalServerError
		}
		return http.StatusNoContent
	})
	secret := r.erase(n, "erasure-1", to.URL)
	r.step("erasure-1", evidence.ErasureStep{Step: evidence.StepErased})
	for range webhooks.MaxAttempts {
		r.work(n)
		r.clock.add(30 * time.Hour)
	}
	left := r.callbacks("erasure-1")
	if len(left) != 1 || len(to.all()) != 2*webhooks.MaxAttempts {
		t.Fatalf("%d callbacks, %d tries", len(left), len(to.all()))
	}
	for _, d := range r.deliveries(left[0]) {
		if d.State != ledger.DeliveryDead || d.Status != http.StatusInternalServerError {
			t.Errorf("delivery %+v", d)
		}
	}
	down = false
	if again, err := n.Replay(t.Context(), tenant, left[0].ID, "token", time.Time{}); err != nil || again != 2 {
		t.Fatalf("%d replayed: %v", again, err)
	}
	r.work(n)
	all := to.all()
	if got := all[len(all)-1]; !verified(t, secret, got) || len(all) != 2*webhooks.MaxAttempts+2 {
		t.Errorf("%d tries", len(all))
	}
	if len(r.callbacks("erasure-1")) != 0 {
		t.Error("the callback stays")
	}
}

// Wherever the process ends while an erasure is taken, there are both, the erasure and
// its callback, or neither; and a callback that is there is told.
func TestAKillWhileACallbackIsMade(t *testing.T) {
	for _, when := range []faulty.When{faulty.Before, faulty.After} {
		t.Run(fmt.Sprint(when), func(t *testing.T) {
			r := newRig(t)
			to := newReceiver(t, nil)
			secret, f := r.fenced(r.node("first"), "erasure-1", to.URL)
			r.ledger.Fail("fence", 1, when, blobd.ErrUnavailable)
			if _, _, err := r.ledger.Fence(t.Context(), f); !errors.Is(err, blobd.ErrUnavailable) {
				t.Fatal(err)
			}
			r.sequence()
			r.work(r.node("second"))
			_, err := r.ledger.Erasure(t.Context(), tenant, "erasure-1")
			if when == faulty.Before {
				if !errors.Is(err, blobd.ErrNotFound) || len(r.callbacks("erasure-1")) != 0 {
					t.Errorf("%v, %d callbacks", err, len(r.callbacks("erasure-1")))
				}
				return
			}
			r.must(err)
			if d := cmp.Diff([]string{"erasure.requested"}, to.types(t, secret)); d != "" || len(r.callbacks("erasure-1")) != 1 {
				t.Errorf("-want +got\n%s", d)
			}
		})
	}
}

// The last word of a callback: told and not written down, it is told again.
func TestAKillAtTheEndOfACallback(t *testing.T) {
	for _, when := range []faulty.When{faulty.Before, faulty.After} {
		t.Run(fmt.Sprint(when), func(t *testing.T) {
			r := newRig(t)
			to := newReceiver(t, nil)
			first, second := r.node("first"), r.node("second")
			secret := r.erase(first, "erasure-1", to.URL)
			r.work(first)
			r.step("erasure-1", evidence.ErasureStep{Step: evidence.StepErased})
			r.feed(first)
			r.ledger.Fail("movedelivery", 1, when, blobd.ErrUnavailable)
			if _, err := first.RunOne(t.Context()); !errors.Is(err, blobd.ErrUnavailable) {
				t.Fatal(err)
			}
			r.clock.add(webhooks.LeaseTime)
			r.work(second)
			want := []string{"erasure.requested", "erasure.erased", "erasure.erased"}
			if when == faulty.After {
				want = want[:2]
			}
			if d := cmp.Diff(want, to.types(t, secret)); d != "" || len(r.callbacks("erasure-1")) != 0 {
				t.Errorf("%d left, -want +got\n%s", len(r.callbacks("erasure-1")), d)
			}
		})
	}
}

func TestWhatACallbackCannotBe(t *testing.T) {
	r := newRig(t)
	n := r.node("a", func(o *webhooks.Options) { o.AllowPrivate = false })
	for _, url := range []string{"http://example.org/", "https://10.0.0.1/", "file:///etc/passwd", "https://user:word@example.org/", ""} {
		_, _, err := n.Callback(t.Context(), tenant, url, "token")
		if !errors.Is(err, blobd.ErrInvalid) || !errors.Is(n.CheckURL(url), blobd.ErrInvalid) || url != "" && strings.Contains(err.Error(), url) {
			t.Errorf("%q: %v", url, err)
		}
	}
	if err := n.CheckURL("https://example.org/hook"); err != nil {
		t.Error(err)
	}
}
