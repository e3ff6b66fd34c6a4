package webhooks_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/keys"
	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/ledger/faulty"
	"github.com/blobd/blobd/webhooks"
)

func TestARotatedSecret(t *testing.T) {
	r := newRig(t)
	to := newReceiver(t, nil)
	n := r.node("a")
	first, w := r.create(n, to.URL)
	deliver := func(id string) got {
		t.Helper()
		r.held(id)
		if tries := r.work(n); tries != 1 {
			t.Fatalf("%d tries", tries)
		}
		all := to.all()
		return all[len(all)-1]
	}
	second, _, err := n.Rotate(t.Context(), tenant, w.ID, "token", time.Hour)
	r.must(err)
	if first == second {
		t.Fatal("the secret stayed")
	}
	r.clock.add(time.Hour - time.Microsecond)
	g := deliver("hold-1")
	if !verified(t, first, g) || !verified(t, second, g) || len(strings.Fields(g.header.Get("webhook-signature"))) != 2 {
		t.Errorf("while both are valid: %q", g.header.Get("webhook-signature"))
	}
	r.clock.add(time.Microsecond)
	g = deliver("hold-2")
	if verified(t, first, g) || !verified(t, second, g) {
		t.Error("the secret before is valid past its time")
	}
	third, _, err := n.Rotate(t.Context(), tenant, w.ID, "token", 0)
	r.must(err)
	g = deliver("hold-3")
	if verified(t, second, g) || !verified(t, third, g) {
		t.Error("without an overlap both are valid")
	}
	for _, overlap := range []time.Duration{-1, webhooks.MaxOverlap + 1} {
		if _, _, err := n.Rotate(t.Context(), tenant, w.ID, "token", overlap); !errors.Is(err, blobd.ErrInvalid) {
			t.Errorf("overlap %v: %v", overlap, err)
		}
	}
}

// A key service that does not answer is no fault of the receiver's.
func TestWhatCannotBeSignedIsNoAttempt(t *testing.T) {
	r := newRig(t)
	to := newReceiver(t, nil)
	n := r.node("a")
	_, w := r.create(n, to.URL)
	r.held("hold-1")
	r.feed(n)
	for range 20 {
		r.ledger.Fail("tenant", 1, faulty.Before, blobd.ErrUnavailable)
		if tries := r.work(n); tries != 1 {
			t.Fatalf("%d tries", tries)
		}
		if d := r.deliveries(w)[0]; d.State != ledger.DeliveryPending || d.Attempts != 0 || d.LastError != "unavailable" {
			t.Fatalf("delivery %+v", d)
		}
		r.clock.add(30 * time.Second)
	}
	if tries := r.work(n); tries != 1 || len(to.all()) != 1 {
		t.Fatalf("%d tries, %d requests", tries, len(to.all()))
	}
}

// rewrapped tells how the tenant's index key was wrapped before, stale times, and
// then how it is wrapped now.
type rewrapped struct {
	webhooks.Ledger
	before ledger.Tenant
	stale  int
}

func (l *rewrapped) Tenant(ctx context.Context, id string) (ledger.Tenant, error) {
	if l.stale > 0 {
		l.stale--
		return l.before, nil
	}
	return l.Ledger.Tenant(ctx, id)
}

// An epoch wraps the index key anew and destroys what wrapped it before: secrets
// stay as they are, also where it comes between two questions.
func TestSecretsOutliveEpochs(t *testing.T) {
	r := newRig(t)
	to := newReceiver(t, nil)
	before := r.node("before")
	secret, w := r.create(before, to.URL)
	old, err := r.ledger.Tenant(t.Context(), tenant)
	r.must(err)
	_, err = r.keys.Ring().Rotate(t.Context(), tenant)
	r.must(err)
	wrapped, err := r.keys.RewrapIndex(t.Context(), tenant, keys.Wrapped{Version: keys.Version(old.IndexWrap), Ciphertext: old.IndexKey})
	r.must(err)
	r.must(r.keys.Ring().Trim(t.Context(), tenant, wrapped.Version))
	now := old
	now.IndexKey, now.IndexWrap = wrapped.Ciphertext, uint32(wrapped.Version)
	for _, stale := range []int{0, 1, 2} {
		r.keys.ForgetTenant(tenant)
		l := &rewrapped{&rewrapped{r.ledger, now, 1000}, old, stale}
		n := r.node("after", func(o *webhooks.Options) { o.Ledger = l })
		r.held(fmt.Sprint("hold-", stale))
		if tries := r.work(n); tries != 1 {
			t.Fatalf("%d tries", tries)
		}
		all := to.all()
		if sent := len(all) == stale+1; stale < 2 && (!sent || !verified(t, secret, all[stale])) {
			t.Fatalf("row stale %d times: %d requests, deliveries %+v", stale, len(all), r.deliveries(w))
		}
	}
	// A wrap that is gone while the row stays as it was is a key service's fault.
	if d := r.deliveries(w)[2]; d.LastError != "unavailable" || d.Attempts != 0 {
		t.Fatalf("delivery %+v", d)
	}
}

func TestSecretsEndWithTheTenant(t *testing.T) {
	r := newRig(t)
	to := newReceiver(t, nil)
	n := r.node("a")
	secret, w := r.create(n, to.URL)
	r.held("hold-1")
	r.feed(n)
	_, _, err := r.ledger.Fence(t.Context(), ledger.Fence{
		ID: "erasure-1", At: r.clock.now(), RunAt: r.clock.now(), Scope: ledger.Scope{Tenant: tenant, Tag: [16]byte{1}, WholeTenant: true},
		Entries: []ledger.Entry{{Tenant: tenant, Kind: ledger.EntryErasure, At: r.clock.now(), Body: []byte(`{"step":"fenced","erasure":"erasure-1","wholeTenant":true}`)}},
	})
	r.must(err)
	// What was fed before cannot be signed any more.
	if again, err := n.RunOne(t.Context()); err != nil || !again {
		t.Fatal(again, err)
	}
	if d := r.deliveries(w)[0]; d.State != ledger.DeliveryDead || d.LastError != "tenant_erased" {
		t.Fatalf("delivery %+v", d)
	}
	if _, _, err := n.Rotate(t.Context(), tenant, w.ID, "token", 0); !errors.Is(err, blobd.ErrTenantErased) {
		t.Fatal(err)
	}
	r.sequence()
	r.work(n)
	if _, err := r.ledger.Webhook(t.Context(), tenant, w.ID); !errors.Is(err, blobd.ErrNotFound) {
		t.Fatalf("the webhook is left: %v", err)
	}
	if len(to.all()) != 0 || secret == "" {
		t.Fatal("something was sent")
	}
}
