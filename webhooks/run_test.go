package webhooks_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/ledger/sqlite"
	"github.com/blobd/blobd/webhooks"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// running is a node that works.
type running struct {
	*webhooks.Webhooks
	stop func() error
}

func (r *rig) run(owner string, tune ...func(*webhooks.Options)) running {
	r.Helper()
	n := r.node(owner, tune...)
	ctx, cancel := context.WithCancelCause(r.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	stopped := false
	stop := func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel(errEnd)
		return <-ended
	}
	r.Cleanup(func() { _ = stop() })
	return running{n, stop}
}

var errEnd = errors.New("the test ends")

// eventually waits for a condition that another goroutine brings about.
func (r *rig) eventually(what string, is func() bool) {
	r.Helper()
	deadline, poll := time.After(20*time.Second), time.NewTicker(5*time.Millisecond)
	defer poll.Stop()
	for !is() {
		select {
		case <-deadline:
			r.Fatalf("never: %s", what)
		case <-poll.C:
		}
	}
}

func (r *rig) delivered(w ledger.Webhook, n int) func() bool {
	return func() bool {
		have := 0
		for _, d := range r.deliveries(w) {
			if d.State == ledger.DeliveryDelivered {
				have++
			}
		}
		return have == n
	}
}

func TestRunTellsAndEnds(t *testing.T) {
	r := newRig(t)
	to := newReceiver(t, nil)
	n := r.run("a")
	secret, w := r.create(n.Webhooks, to.URL)
	r.held("hold-1")
	n.Wake()
	if g := <-to.told; g.subject(t) != "hold-1" || !verified(t, secret, g) {
		t.Fatalf("told %s", g.body)
	}
	r.eventually("the delivery ends", r.delivered(w, 1))
	if err := n.stop(); !errors.Is(err, errEnd) {
		t.Fatal(err)
	}
}

// All nodes share the work, and each event is delivered once where nobody dies.
func TestNodesShareTheWork(t *testing.T) {
	const events, hooks = 20, 3
	r := newRig(t)
	var rows []ledger.Webhook
	var receivers []*receiver
	maker := r.node("maker")
	for range hooks {
		to := newReceiver(t, nil)
		_, w := r.create(maker, to.URL)
		rows, receivers = append(rows, w), append(receivers, to)
	}
	nodes := []running{r.run("a"), r.run("b"), r.run("c")}
	for i := range events {
		r.held(fmt.Sprint("hold-", i))
		for _, n := range nodes {
			n.Wake()
		}
	}
	for i, w := range rows {
		r.eventually("all is delivered", r.delivered(w, events))
		var got, want []string
		for n, g := range receivers[i].all() {
			got, want = append(got, g.subject(t)), append(want, fmt.Sprint("hold-", n))
		}
		if fmt.Sprint(got) != fmt.Sprint(want) || len(got) != events {
			t.Errorf("webhook %d was told %v", i, got)
		}
	}
	for _, n := range nodes {
		if err := n.stop(); !errors.Is(err, errEnd) {
			t.Error(err)
		}
	}
}

// One that does not answer keeps no other waiting, and the end of the process cuts
// it short: what it was told is told again, by the next process, as no attempt.
func TestAReceiverThatHangs(t *testing.T) {
	r := newRig(t)
	release, hung := make(chan struct{}), make(chan struct{}, 100)
	hanging := newReceiver(t, func(n int) int {
		if n == 1 {
			hung <- struct{}{}
			<-release
		}
		return 204
	})
	quick := newReceiver(t, nil)
	n := r.run("a", func(o *webhooks.Options) { o.Parallel = 2 })
	_, slow := r.create(n.Webhooks, hanging.URL)
	_, w := r.create(n.Webhooks, quick.URL)
	for i := range 5 {
		r.held(fmt.Sprint("hold-", i))
	}
	n.Wake()
	<-hung
	r.eventually("the other is told all", r.delivered(w, 5))
	if err := n.stop(); !errors.Is(err, errEnd) {
		t.Fatal(err)
	}
	for i, d := range r.deliveries(slow) {
		if d.State != ledger.DeliveryPending || d.Attempts != 0 || d.DueAt.After(r.clock.now()) {
			t.Errorf("delivery %d: %+v", i, d)
		}
	}
	close(release)
	r.work(r.node("b"))
	if !r.delivered(slow, 5)() {
		t.Errorf("deliveries %+v", r.deliveries(slow))
	}
}

// noLog is a ledger whose log cannot be read.
type noLog struct{ webhooks.Ledger }

func (noLog) Logged(context.Context, ledger.LogQuery) ([]ledger.LoggedEntry, error) {
	return nil, fmt.Errorf("the log: %w", blobd.ErrCorrupt)
}

// A feed that fails keeps nobody from what was fed before.
func TestAFeedThatFails(t *testing.T) {
	r := newRig(t)
	to := newReceiver(t, nil)
	n := r.node("a")
	_, w := r.create(n, to.URL)
	r.held("hold-1")
	r.feed(n)
	r.held("hold-2")
	failing := r.run("b", func(o *webhooks.Options) { o.Ledger = noLog{r.ledger} })
	r.eventually("what was fed is told", r.delivered(w, 1))
	r.must(nilOr(failing.stop(), errEnd))
	if !strings.Contains(r.logs.String(), "webhooks wait") {
		t.Error("the failure is not told")
	}
}

func nilOr(err, want error) error {
	if errors.Is(err, want) {
		return nil
	}
	return err
}

func TestDelays(t *testing.T) {
	want := []time.Duration{
		5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
	}
	sum := time.Duration(0)
	for i, d := range want {
		if got := webhooks.Delay(int64(i + 1)); got != d {
			t.Errorf("after %d attempts %v, want %v", i+1, got, d)
		}
		sum += d
	}
	if sum != 75*time.Hour+35*time.Minute+5*time.Second || len(want) != webhooks.MaxAttempts-1 {
		t.Errorf("%v in all", sum)
	}
}

// Delays are jittered, upwards and by a tenth at most.
func TestJitter(t *testing.T) {
	r := newRig(t)
	to := newReceiver(t, always(500))
	n := r.node("a")
	_, w := r.create(n, to.URL)
	for i := range 30 {
		r.held(fmt.Sprint("hold-", i))
	}
	r.work(n)
	distinct := map[time.Duration]bool{}
	for _, d := range r.deliveries(w) {
		wait := d.DueAt.Sub(r.clock.now())
		if wait < 5*time.Second || wait > 5500*time.Millisecond {
			t.Errorf("waits %v", wait)
		}
		distinct[wait] = true
	}
	if len(distinct) < 10 {
		t.Errorf("%d different waits of 30", len(distinct))
	}
}

// The secret is in no byte of the ledger, in no log line, in no entry and in no
// printed row.
func TestSecretsAreNowhere(t *testing.T) {
	c := &clock{t: time.Date(2031, 3, 4, 5, 6, 7, 0, time.UTC)}
	folder := t.TempDir()
	l, err := sqlite.Open(filepath.Join(folder, "ledger.db"), sqlite.Options{Now: c.now})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	r := newRigOn(t, c, l)
	to := newReceiver(t, func(n int) int { return []int{500, 204}[n%2] })
	n := r.node("a")
	first, w := r.create(n, to.URL)
	second, rotated, err := n.Rotate(t.Context(), tenant, w.ID, "token", time.Hour)
	r.must(err)
	r.held("hold-1")
	r.work(n)
	r.clock.add(time.Minute)
	r.work(n)
	if !r.delivered(w, 1)() {
		t.Fatalf("deliveries %+v", r.deliveries(w))
	}
	rows := fmt.Sprintf("%v %+v %#v", w, rotated, rotated)
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("row", "webhook", rotated, "node", n.Stats())
	places := map[string][]byte{"the log": []byte(r.logs.String()), "printed rows": []byte(rows), "logged rows": log.Bytes()}
	files, err := os.ReadDir(folder)
	r.must(err)
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(folder, f.Name()))
		r.must(err)
		places[f.Name()] = b
	}
	if !bytes.Contains(bytes.Join([][]byte{places["ledger.db"], places["ledger.db-wal"]}, nil), []byte(w.ID)) {
		t.Fatal("the ledger's files do not hold the webhook: nothing was looked at")
	}
	for _, secret := range []string{first, second} {
		text := strings.TrimPrefix(secret, "whsec_")
		raw, err := base64.StdEncoding.DecodeString(text)
		r.must(err)
		if len(raw) != 32 {
			t.Fatalf("a secret of %d bytes", len(raw))
		}
		for where, b := range places {
			if bytes.Contains(b, raw) || bytes.Contains(b, []byte(text)) {
				t.Errorf("%s holds the secret", where)
			}
		}
	}
}

// A secret that was sealed for one webhook opens for no other.
func TestASecretIsItsWebhooksAlone(t *testing.T) {
	r := newRig(t)
	to := newReceiver(t, nil)
	n := r.node("a")
	_, w := r.create(n, to.URL)
	_, other := r.create(n, to.URL)
	row, err := r.ledger.Webhook(t.Context(), tenant, other.ID)
	r.must(err)
	_, err = r.ledger.RotateSecret(t.Context(), tenant, w.ID, row.Secret, time.Time{}, ledger.Entry{Tenant: tenant, Kind: ledger.EntryWebhook, At: r.clock.now(), Body: []byte("{}")})
	r.must(err)
	r.held("hold-1")
	r.work(n)
	if d := r.deliveries(w)[0]; d.LastError != "unavailable" || d.State != ledger.DeliveryPending {
		t.Errorf("delivery %+v", d)
	}
	if !r.delivered(other, 1)() || len(to.all()) != 1 {
		t.Errorf("deliveries %+v", r.deliveries(other))
	}
	if _, _, err := n.Create(t.Context(), ledger.Webhook{Tenant: "nobody", URL: to.URL}); !errors.Is(err, blobd.ErrNotFound) {
		t.Errorf("a webhook of nobody: %v", err)
	}
}
