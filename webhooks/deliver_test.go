package webhooks_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/ledger/faulty"
	"github.com/blobd/blobd/webhooks"
)

// verified reports whether the public library takes a request as signed with a
// secret. The clock of a test is not that of the library, so time is not asked.
func verified(t *testing.T, secret string, g got) bool {
	t.Helper()
	v, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	return v.VerifyIgnoringTimestamp(g.body, g.header) == nil
}

func TestADeliveryIsSigned(t *testing.T) {
	r := newRig(t)
	r.clock.set(time.Now()) // the library's
	to := newReceiver(t, nil)
	n := r.node("a")
	secret, w := r.create(n, to.URL+"/hook?key=1")
	if !strings.HasPrefix(secret, "whsec_") {
		t.Fatalf("secret of %d characters", len(secret))
	}
	r.held("hold-1")
	if tries := r.work(n); tries != 1 {
		t.Fatalf("%d tries", tries)
	}
	g, d := to.all()[0], r.deliveries(w)[0]
	v, err := standardwebhooks.NewWebhook(secret)
	r.must(err)
	r.must(v.Verify(g.body, g.header))
	if g.header.Get("webhook-id") != d.EventID || g.header.Get("Content-Type") != "application/cloudevents+json; charset=utf-8" {
		t.Errorf("headers %v", g.header)
	}
	if string(g.body) != string(d.Body) || d.State != ledger.DeliveryDelivered || d.Status != 204 || d.Attempts != 0 || !d.EndedAt.Equal(r.clock.now().Truncate(time.Microsecond)) {
		t.Errorf("delivery %+v", d)
	}
	g.body[10] ^= 1
	if v.Verify(g.body, g.header) == nil {
		t.Error("a changed body was taken")
	}
}

// A receiver is away for three days, in every way that one can be. What happened
// meanwhile is then told once, in the order of the log.
func TestAReceiverAwayForThreeDays(t *testing.T) {
	const away = 72 * time.Hour
	r := newRig(t)
	begin := r.clock.now()
	down := func() bool { return r.clock.now().Sub(begin) < away }
	to := newReceiver(t, func(n int) int {
		if down() {
			return []int{500, 503, 404, 302, 429}[n%5]
		}
		return 200
	})
	n := r.node("a")
	secret, w := r.create(n, to.URL)
	for i := range 3 {
		r.held(fmt.Sprint("hold-", i))
	}
	tries := 0
	for range 100 {
		tries += r.work(n)
		s := r.feed(n)
		if s.DueAt.IsZero() {
			break
		}
		r.clock.set(s.DueAt)
	}
	if took := r.clock.now().Sub(begin); took < 75*time.Hour || took > 84*time.Hour {
		t.Errorf("told after %v", took)
	}
	var subjects []string
	tried := map[string]int{}
	for _, g := range to.all() {
		if !verified(t, secret, g) {
			t.Error("a try is not signed")
		}
		stamp, err := strconv.ParseInt(g.header.Get("webhook-timestamp"), 10, 64)
		if err != nil || stamp < begin.Unix() || stamp > r.clock.now().Unix() {
			t.Errorf("timestamp %d, %v", stamp, err)
		}
		tried[g.header.Get("webhook-id")]++
		if g.status == 200 {
			subjects = append(subjects, g.subject(t))
		}
	}
	seen := map[string]bool{}
	for _, s := range subjects {
		seen[s] = true
	}
	if len(subjects) != 3 || len(seen) != 3 {
		t.Errorf("delivered %v", subjects)
	}
	for id, times := range tried {
		if times != webhooks.MaxAttempts {
			t.Errorf("%s was tried %d times", id, times)
		}
	}
	if tries != 30 || len(tried) != 3 {
		t.Errorf("%d tries of %d events", tries, len(tried))
	}
	for _, d := range r.deliveries(w) {
		if d.State != ledger.DeliveryDelivered || d.Attempts != 9 {
			t.Errorf("delivery %+v", d)
		}
	}
	if s := n.Stats(); s.Delivered != 3 || s.Retried != 27 || s.Dead != 0 {
		t.Errorf("stats %+v", s)
	}
}

// The process ends when the receiver has answered and nobody wrote it down.
func TestAKillBetweenSendAndAcknowledge(t *testing.T) {
	r := newRig(t)
	to := newReceiver(t, nil)
	first, second := r.node("first"), r.node("second")
	secret, w := r.create(first, to.URL)
	r.held("hold-1")
	r.feed(first)
	r.ledger.Fail("movedelivery", 1, faulty.Before, blobd.ErrUnavailable)
	if _, err := first.RunOne(t.Context()); !errors.Is(err, blobd.ErrUnavailable) {
		t.Fatal(err)
	}
	if tries := r.work(second); tries != 0 {
		t.Fatalf("%d tries under another's lease", tries)
	}
	r.clock.add(webhooks.LeaseTime)
	if tries := r.work(second); tries != 1 {
		t.Fatalf("%d tries", tries)
	}
	all := to.all()
	if len(all) != 2 || all[0].header.Get("webhook-id") != all[1].header.Get("webhook-id") || string(all[0].body) != string(all[1].body) {
		t.Fatalf("%d requests: %v", len(all), all)
	}
	if !verified(t, secret, all[1]) {
		t.Error("the second one is not signed")
	}
	if d := r.deliveries(w)[0]; d.State != ledger.DeliveryDelivered {
		t.Errorf("delivery %+v", d)
	}
	// Written down, but the word of it was lost: not told again.
	r.held("hold-2")
	r.feed(first)
	r.ledger.Fail("movedelivery", 1, faulty.After, blobd.ErrUnavailable)
	if _, err := first.RunOne(t.Context()); !errors.Is(err, blobd.ErrUnavailable) {
		t.Fatal(err)
	}
	r.clock.add(webhooks.LeaseTime)
	if tries := r.work(second); tries != 0 || len(to.all()) != 3 {
		t.Fatalf("%d tries, %d requests", tries, len(to.all()))
	}
}

// Whatever step of the feed fails, on either side of it, each event is delivered
// once.
func TestAKillInTheFeed(t *testing.T) {
	for _, op := range []string{"feedstate", "logged", "feed"} {
		for _, when := range []faulty.When{faulty.Before, faulty.After} {
			t.Run(fmt.Sprint(op, when), func(t *testing.T) {
				r := newRig(t)
				to := newReceiver(t, nil)
				first, second := r.node("first"), r.node("second")
				r.create(first, to.URL)
				for i := range 3 {
					r.held(fmt.Sprint("hold-", i))
				}
				r.ledger.Fail(op, 1, when, blobd.ErrUnavailable)
				if _, err := first.Feed(t.Context()); !errors.Is(err, blobd.ErrUnavailable) {
					t.Fatal(err)
				}
				r.work(second)
				r.work(first)
				var got []string
				for _, g := range to.all() {
					got = append(got, g.subject(t))
				}
				if fmt.Sprint(got) != "[hold-0 hold-1 hold-2]" {
					t.Fatalf("told %v", got)
				}
			})
		}
	}
}

func TestGoneDisables(t *testing.T) {
	r := newRig(t)
	to := newReceiver(t, func(n int) int {
		if n == 1 {
			return http.StatusGone
		}
		return 200
	})
	n := r.node("a")
	_, w := r.create(n, to.URL)
	r.held("hold-1")
	r.held("hold-2")
	if tries := r.work(n); tries != 1 {
		t.Fatalf("%d tries", tries)
	}
	row, err := r.ledger.Webhook(t.Context(), tenant, w.ID)
	r.must(err)
	if row.DisabledAt.IsZero() || row.DisabledFor != "gone" {
		t.Fatalf("webhook %+v", row)
	}
	r.held("hold-3")
	r.clock.add(1000 * time.Hour)
	if tries := r.work(n); tries != 0 {
		t.Fatalf("%d tries of a disabled webhook", tries)
	}
	ds := r.deliveries(w)
	if len(ds) != 2 || ds[0].State != ledger.DeliveryDead || ds[0].LastError != "gone" || ds[0].Status != 410 || ds[1].LastError != "disabled" {
		t.Fatalf("deliveries %+v", ds)
	}
	again, err := n.Replay(t.Context(), tenant, w.ID, "token", time.Time{})
	r.must(err)
	if tries := r.work(n); again != 2 || tries != 2 {
		t.Fatalf("%d replayed, %d tries", again, tries)
	}
	r.held("hold-4")
	if tries := r.work(n); tries != 1 {
		t.Fatalf("%d tries of an enabled webhook", tries)
	}
}

func TestDeadLettersAreListedAndReplayed(t *testing.T) {
	r := newRig(t)
	up := false
	to := newReceiver(t, func(int) int {
		if up {
			return 200
		}
		return 503
	})
	n := r.node("a")
	_, w := r.create(n, to.URL)
	r.held("hold-1")
	for range webhooks.MaxAttempts {
		if tries := r.work(n); tries != 1 {
			t.Fatalf("%d tries", tries)
		}
		r.clock.add(27 * time.Hour)
	}
	if tries := r.work(n); tries != 0 {
		t.Fatalf("%d tries after the last", tries)
	}
	d := r.deliveries(w)[0]
	if d.State != ledger.DeliveryDead || d.Attempts != 10 || d.Status != 503 || d.LastError != "status" {
		t.Fatalf("delivery %+v", d)
	}
	r.must(n.Trim(t.Context()))
	if s := n.Stats(); s.DeadLetters != 1 || s.Dead != 1 || s.Retried != 9 {
		t.Fatalf("stats %+v", s)
	}
	up = true
	again, err := n.Replay(t.Context(), tenant, w.ID, "token", time.Time{})
	r.must(err)
	if tries := r.work(n); again != 1 || tries != 1 {
		t.Fatalf("%d replayed, %d tries", again, tries)
	}
	r.must(n.Trim(t.Context()))
	if s := n.Stats(); s.DeadLetters != 0 || s.Delivered != 1 {
		t.Fatalf("stats %+v", s)
	}
	ids := map[string]bool{}
	for _, g := range to.all() {
		ids[g.header.Get("webhook-id")] = true
	}
	if len(ids) != 1 {
		t.Errorf("ids %v", ids)
	}
	// What was delivered comes again only when a time is named.
	if again, err = n.Replay(t.Context(), tenant, w.ID, "token", d.CreatedAt); err != nil || again != 1 {
		t.Fatal(again, err)
	}
	if tries := r.work(n); tries != 1 {
		t.Fatalf("%d tries", tries)
	}
	// And is forgotten in the end.
	r.clock.add(webhooks.KeepTime + time.Second)
	r.must(n.Trim(t.Context()))
	if left := r.deliveries(w); len(left) != 0 {
		t.Fatalf("left %+v", left)
	}
}

func TestWhileNothingIsServed(t *testing.T) {
	r := newRig(t)
	to := newReceiver(t, nil)
	n := r.node("a")
	_, w := r.create(n, to.URL)
	r.held("hold-1")
	r.feed(n)
	starting := r.node("b", func(o *webhooks.Options) {
		o.Serving = func() error { return fmt.Errorf("starting: %w", blobd.ErrUnavailable) }
	})
	if again, err := starting.RunOne(t.Context()); again || err != nil {
		t.Fatal(again, err)
	}
	_, _, create := starting.Create(t.Context(), ledger.Webhook{Tenant: tenant, URL: to.URL})
	_, _, rotate := starting.Rotate(t.Context(), tenant, w.ID, "", 0)
	_, replay := starting.Replay(t.Context(), tenant, w.ID, "", time.Time{})
	for what, err := range map[string]error{
		"create": create, "rotate": rotate, "replay": replay, "delete": starting.Delete(t.Context(), tenant, w.ID, ""),
	} {
		if !errors.Is(err, blobd.ErrUnavailable) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if tries := r.work(n); tries != 1 {
		t.Fatalf("%d tries", tries)
	}
}

// What happened before a webhook was made is not told to it, and not even read.
func TestWhatWasBeforeIsNotTold(t *testing.T) {
	r := newRig(t)
	n := r.node("a")
	r.held("hold-1")
	if s := r.feed(r.node("blind", func(o *webhooks.Options) { o.Ledger = noLog{r.ledger} })); s.Next != s.Size || s.Next == 0 {
		t.Fatalf("state %+v", s)
	}
	_, w := r.create(n, "https://example.org/")
	r.held("hold-2")
	r.feed(n)
	if ds := r.deliveries(w); len(ds) != 1 || ds[0].Subject != "hold-2" {
		t.Fatalf("deliveries %+v", ds)
	}
}

// Evidence tells who made, rotated, replayed and deleted a webhook.
func TestActsAreOnRecord(t *testing.T) {
	r := newRig(t)
	n := r.node("a")
	secret, w := r.create(n, "https://example.org/a-token-in-the-path")
	_, _, err := n.Rotate(t.Context(), tenant, w.ID, "token", 0)
	r.must(err)
	_, err = n.Replay(t.Context(), tenant, w.ID, "token", time.Time{})
	r.must(err)
	r.must(n.Delete(t.Context(), tenant, w.ID, "token"))
	es, err := r.ledger.Entries(context.Background(), 0, 100)
	r.must(err)
	var acts []string
	for _, e := range es {
		if e.Kind != ledger.EntryWebhook {
			continue
		}
		body := string(e.Body)
		acts = append(acts, body[:len(`{"act":"rotated"`)])
		if strings.Contains(body, "a-token") || strings.Contains(body, secret) || !strings.Contains(body, w.ID) {
			t.Errorf("entry %s", body)
		}
	}
	want := `[{"act":"created" {"act":"rotated" {"act":"replayed {"act":"deleted"]`
	if got := fmt.Sprint(acts); got != want {
		t.Errorf("acts %s, want %s", got, want)
	}
}
