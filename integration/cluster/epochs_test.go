package cluster

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	backendmem "github.com/blobd/blobd/backends/mem"
	"github.com/blobd/blobd/evidence"
	"github.com/blobd/blobd/keys"
	keysmem "github.com/blobd/blobd/keys/mem"
	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/ledger/postgres"
	"github.com/blobd/blobd/retention"
	"github.com/blobd/blobd/store"
)

// clock is the time of all nodes and of the ledger; only the test moves it.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

const scheduled = "scheduled" // the tenant

// lateLedger does something else before it starts an epoch.
type lateLedger struct {
	ledger.Ledger
	before func() // of the test's goroutine
}

func (l *lateLedger) StartEpoch(ctx context.Context, n ledger.NewEpoch) (ledger.Epoch, error) {
	if before := l.before; before != nil {
		l.before = nil
		before()
	}
	return l.Ledger.StartEpoch(ctx, n)
}

// schedulers are nodes that run key epochs over one database, in this process,
// where time can be moved.
// The ledger is the last node's.
func schedulers(t *testing.T, w *world, c *clock) (nodes []*retention.Epochs, l *lateLedger) {
	t.Helper()
	url := w.postgres.URL(w.postgres.Database(t))
	schedule, err := retention.ParseSchedule("0 * * * *")
	must(t, err)
	ring, objects, log := keysmem.New(nil), backendmem.New(c.now), slog.New(slog.DiscardHandler)
	for i := range nodeCount {
		opened, err := postgres.Open(t.Context(), postgres.Options{URL: url, Now: c.now})
		must(t, err)
		t.Cleanup(func() { _ = opened.Close() })
		own := &lateLedger{Ledger: opened}
		s := store.New(store.Config{
			Ledger: own, Objects: objects, Journal: evidence.NewJournal(own, objects), Now: c.now, Random: rand.Reader,
			Keys: keys.NewCore(ring, keys.Options{Now: c.now}), PutMargin: margin, Log: log,
		})
		must(t, s.Start(t.Context()))
		if i == 0 {
			_, err := s.CreateTenant(t.Context(), scheduled, "")
			must(t, err)
		}
		o := retention.EpochOptions{Horizon: 10 * time.Minute, Schedule: schedule}
		nodes = append(nodes, retention.NewEpochs(s, own, fmt.Sprintf("node %d", i), o, c.now, log))
		l = own
	}
	return nodes, l
}

// runAll runs every epoch that is due.
func runAll(t *testing.T, n *retention.Epochs) {
	for worked, err := n.RunOne(t.Context()); worked || err != nil; worked, err = n.RunOne(t.Context()) {
		if err != nil {
			t.Errorf("run: %v", err)
			return
		}
	}
}

// epochsOncePerTick: however many nodes look at the schedule at once, a tick
// begins one epoch; ticks that all nodes missed are made up for by one.
func epochsOncePerTick(t *testing.T, w *world) {
	c := &clock{at: time.Date(2026, 3, 1, 0, 30, 0, 0, time.UTC)}
	nodes, l := schedulers(t, w, c)
	// tick lets all nodes look several times at once, and run what is due.
	tick := func() {
		t.Helper()
		var all sync.WaitGroup
		for _, n := range nodes {
			for range 3 {
				all.Go(func() {
					if err := n.Schedule(t.Context()); err != nil {
						t.Errorf("schedule: %v", err)
					}
					runAll(t, n)
				})
			}
		}
		all.Wait()
	}
	want := 0
	wantEpochs := func(after string) {
		t.Helper()
		epochs, err := l.ListEpochs(t.Context(), ledger.EpochQuery{Tenant: scheduled, Limit: 100})
		must(t, err)
		if len(epochs) != want {
			t.Errorf("after %s: %d epochs, want %d", after, len(epochs), want)
		}
	}
	for _, step := range []struct {
		what   string
		passes time.Duration
		begins int
	}{
		{"before the first tick", 29 * time.Minute, 0},
		{"the first tick", time.Minute, 1},
		{"the same tick", 20 * time.Minute, 0},
		{"the second tick", 40 * time.Minute, 1},
		{"five ticks that all missed", 5 * time.Hour, 1},
		{"the same ticks", 10 * time.Minute, 0},
		{"the tick after them", 50 * time.Minute, 1},
	} {
		c.add(step.passes)
		tick()
		want += step.begins
		wantEpochs(step.what)
	}

	// A node that saw the tick, and is so late that another has run its epoch to
	// the end meanwhile, begins none.
	c.add(time.Hour)
	l.before = func() {
		must(t, nodes[0].Schedule(t.Context()))
		runAll(t, nodes[0])
		want++
		wantEpochs("a tick that one node saw to")
	}
	must(t, nodes[nodeCount-1].Schedule(t.Context()))
	tick()
	wantEpochs("a node that came late to the tick")

	// Each step of each epoch is in the evidence once.
	entries, err := l.Entries(t.Context(), 0, 1000)
	must(t, err)
	type step struct{ Step, Epoch string }
	said := make(map[step]int)
	for _, e := range entries {
		if e.Kind == ledger.EntryKeys {
			var s step
			must(t, json.Unmarshal(e.Body, &s))
			said[s]++
		}
	}
	if least := 3 * want; len(said) < least { // started, raised, completed
		t.Errorf("%d steps of %d epochs in the evidence, want %d at least", len(said), want, least)
	}
	for s, times := range said {
		if times != 1 {
			t.Errorf("%d times in the evidence: %s %s", times, s.Epoch, s.Step)
		}
	}
}
