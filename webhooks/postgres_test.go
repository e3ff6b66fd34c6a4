package webhooks_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/blobd/blobd/internal/servers"
	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/ledger/postgres"
	"github.com/blobd/blobd/webhooks"
)

// newShared is a rig on a shared ledger, and what is needed to look at it from
// outside.
func newShared(t *testing.T) (*rig, string) {
	t.Helper()
	server := servers.NewPostgres(t, servers.PostgresOptions{InMemory: true})
	url := server.URL(server.Database(t))
	if err := postgres.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	c := &clock{t: time.Date(2031, 3, 4, 5, 6, 7, 0, time.UTC)}
	l, err := postgres.Open(t.Context(), postgres.Options{URL: url, Now: c.now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return newRigOn(t, c, l), url
}

// The number of an entry is taken before its transaction commits: what commits late
// is behind what was told already, and is told all the same.
func TestAnActThatCommitsLateIsTold(t *testing.T) {
	r, url := newShared(t)
	n := r.node("a")
	_, w := r.create(n, "https://example.org/")
	c, err := pgx.Connect(t.Context(), url)
	r.must(err)
	defer func() { _ = c.Close(t.Context()) }()
	late, err := c.Begin(t.Context())
	r.must(err)
	defer func() { _ = late.Rollback(t.Context()) }()
	e, err := r.scribe.Placed(ledger.Order{
		ID: "late", Kind: ledger.OrderHold, Scope: ledger.Scope{Tenant: tenant, Class: "reasoning"}, PlacedAt: r.clock.now(),
	})
	r.must(err)
	_, err = late.Exec(t.Context(), "INSERT INTO evidence (tenant, kind, at, body) VALUES ($1, $2, $3, $4)",
		e.Tenant, string(e.Kind), e.At.UnixMicro(), e.Body)
	r.must(err)
	r.held("early")
	r.feed(n)
	if ds := r.deliveries(w); len(ds) != 1 || ds[0].Subject != "early" {
		t.Fatalf("deliveries %+v", ds)
	}
	r.must(late.Commit(t.Context()))
	r.sequence()
	r.feed(n)
	if ds := r.deliveries(w); len(ds) != 2 || ds[1].Subject != "late" {
		t.Fatalf("deliveries %+v", ds)
	}
}

// Acts, the log, the feeds and the senders of several nodes at once: each act that
// came after the webhook is told once, and what came before it not twice.
func TestNodesOfASharedLedger(t *testing.T) {
	const writers, acts = 4, 25
	r, _ := newShared(t)
	to, later := newReceiver(t, nil), newReceiver(t, nil)
	nodes := []running{r.run("a"), r.run("b"), r.run("c")}
	_, w := r.create(nodes[0].Webhooks, to.URL)
	var writing sync.WaitGroup
	for i := range writers {
		writing.Go(func() {
			for j := range acts {
				e, err := r.scribe.Placed(ledger.Order{
					ID: fmt.Sprintf("hold-%d-%d", i, j), Kind: ledger.OrderHold,
					Scope: ledger.Scope{Tenant: tenant, Class: "reasoning"}, PlacedAt: r.clock.now(),
				})
				if err == nil {
					err = r.ledger.Append(t.Context(), e)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	written := make(chan struct{})
	go func() { writing.Wait(); close(written) }()
	var second ledger.Webhook
	for done := false; !done; {
		select {
		case <-written:
			done = true
		default:
		}
		r.sequence()
		for _, n := range nodes {
			n.Wake()
		}
		if second.ID == "" { // in the midst of it
			_, second = r.create(nodes[1].Webhooks, later.URL)
		}
	}
	r.sequence()
	r.held("last")
	for _, n := range nodes {
		n.Wake()
	}
	r.eventually("all is delivered", r.delivered(w, writers*acts+1))
	told := func(all []got) map[string]int {
		subjects := map[string]int{}
		for _, g := range all {
			subjects[g.subject(t)]++
		}
		return subjects
	}
	for subject, times := range told(to.all()) {
		if times != 1 {
			t.Errorf("%s was told %d times", subject, times)
		}
	}
	if n := len(told(to.all())); n != writers*acts+1 {
		t.Errorf("%d acts were told, not %d", n, writers*acts+1)
	}
	r.eventually("the later webhook is told all of its own", func() bool {
		for _, d := range r.deliveries(second) {
			if d.State != ledger.DeliveryDelivered {
				return false
			}
		}
		return told(later.all())["last"] == 1
	})
	for subject, times := range told(later.all()) {
		if times != 1 {
			t.Errorf("%s was told to the later one %d times", subject, times)
		}
	}
	tries := webhooks.Stats{}
	for _, n := range nodes {
		_ = n.stop() // it has then counted what it wrote down
		tries.Delivered += n.Stats().Delivered
	}
	if want := int64(len(to.all()) + len(later.all())); tries.Delivered != want {
		t.Errorf("%d tries were written down, %d made", tries.Delivered, want)
	}
}
