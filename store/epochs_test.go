package store_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/keys"
	"github.com/blobd/blobd/ledger"
	ledgerfaulty "github.com/blobd/blobd/ledger/faulty"
	"github.com/blobd/blobd/resolver"
	"github.com/blobd/blobd/retention"
	"github.com/blobd/blobd/store"
)

const horizon = 30 * 24 * time.Hour

// epochs is a runner of key epochs in this process.
func (n *node) epochs() *retention.Epochs {
	return retention.NewEpochs(n.store, n.ledger, "node", retention.EpochOptions{Horizon: horizon}, n.clock.Now, slog.New(slog.DiscardHandler))
}

func (n *node) startEpoch(ctx context.Context) error {
	_, err := n.store.StartEpoch(ctx, tenant, "epoch", "operator")
	return err
}

// runEpochs runs what is due now.
func (n *node) runEpochs(t testing.TB) {
	t.Helper()
	for {
		worked, err := n.epochs().RunOne(t.Context())
		if err != nil {
			t.Fatalf("run an epoch: %v", err)
		}
		if !worked {
			return
		}
	}
}

// rotate starts an epoch and runs it until it waits for its horizon.
func (n *node) rotate(t testing.TB) ledger.Epoch {
	t.Helper()
	e, err := n.store.StartEpoch(t.Context(), tenant, "", "operator")
	if err != nil {
		t.Fatal(err)
	}
	n.runEpochs(t)
	return n.epoch(t, e.ID, ledger.EpochWaiting)
}

// trim lets the horizon pass and runs what is due then.
func (n *node) trim(t testing.TB) {
	t.Helper()
	n.clock.advance(horizon)
	n.runEpochs(t)
}

func (n *node) epoch(t testing.TB, id string, want ledger.EpochState) ledger.Epoch {
	t.Helper()
	es, err := n.parts.ledger.ListEpochs(t.Context(), ledger.EpochQuery{Tenant: tenant, Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range es {
		if e.ID == id {
			if e.State != want {
				t.Fatalf("epoch %s is %v, want %v: %+v", id, e.State, want, e)
			}
			return e
		}
	}
	t.Fatalf("no epoch %q", id)
	return ledger.Epoch{}
}

func (n *node) horizonOf(t testing.TB, id string) store.Horizon {
	t.Helper()
	e, err := n.parts.ledger.Erasure(t.Context(), tenant, id)
	if err != nil {
		t.Fatal(err)
	}
	h, err := n.store.Horizon(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func (n *node) wantVersions(t testing.TB, oldest, newest keys.Version) {
	t.Helper()
	s, err := n.parts.keys.Status(t.Context(), tenant)
	if err != nil || s != (keys.Status{Newest: newest, Oldest: oldest}) {
		t.Errorf("the KEK has versions %d to %d (%v), want %d to %d", s.Oldest, s.Newest, err, oldest, newest)
	}
}

func TestAnEpochRenewsEveryKeyAndTrimsAtItsHorizon(t *testing.T) {
	n := memParts(t).start(t)
	var texts []store.Stored
	for i := range 250 {
		texts = append(texts, n.mustPut(t, fmt.Sprint("run ", i), fmt.Sprint("text ", i)))
	}
	lone, stays := n.mustPut(t, run, "to be erased alone"), n.mustPut(t, run, "stays")
	whole := n.mustErase(t, "run 7")
	single := n.mustErase(t, run, lone.Ref)
	n.runJobs(t)
	if h := n.horizonOf(t, whole.ID); h != (store.Horizon{}) {
		t.Errorf("a date before any epoch: %+v", h)
	}
	e := n.rotate(t)
	if want := n.clock.Now().Add(horizon); !e.TrimAt.Equal(want) || !e.CompletedAt.Equal(n.clock.Now()) {
		t.Errorf("completed %v, to be trimmed %v, want %v", e.CompletedAt, e.TrimAt, want)
	}
	if e.Rewrapped != 251 || e.Total != 251 || e.Rekeyed != 1 || e.Version != 2 { // 250 executions and the index key
		t.Errorf("progress: %+v", e)
	}
	n.wantVersions(t, 1, 2)
	for _, id := range []string{whole.ID, single.ID} {
		if h := n.horizonOf(t, id); h != (store.Horizon{At: e.TrimAt}) {
			t.Errorf("horizon %+v, want %v", h, e.TrimAt)
		}
	}
	later := n.mustErase(t, "run 8")
	n.trim(t)
	n.wantVersions(t, 2, 2)
	n.epoch(t, e.ID, ledger.EpochTrimmed)
	for _, id := range []string{whole.ID, single.ID} {
		if h := n.horizonOf(t, id); h != (store.Horizon{At: n.clock.Now(), Reached: true}) {
			t.Errorf("horizon %+v, want reached", h)
		}
	}
	if h := n.horizonOf(t, later.ID); h != (store.Horizon{}) {
		t.Errorf("what was erased after the epoch has the date of the next one, not %+v", h)
	}
	for _, n := range []*node{n, n.parts.start(t)} {
		n.runJobs(t)
		n.verify(t)
		n.wantText(t, run, stays.Ref, "stays")
		n.wantText(t, "run 249", texts[249].Ref, "text 249")
		n.wantNull(t, run, lone.Ref)
		if again := n.mustPut(t, run, "stays"); again.Created || again.Ref != stays.Ref {
			t.Error("a repeat was not found under the execution's new key")
		}
		_, err := n.putText(t.Context(), run, "to be erased alone")
		wantErr(t, err, blobd.ErrBlobErased)
		if _, err := n.store.Put(t.Context(), store.PutRequest{
			Attempt: attempt("subject"), Subjects: []string{"someone"},
			Content: store.Content{Class: reason, Kind: blobd.KindText, ContentType: plain, Text: blobd.TextOf([]byte("s"))},
		}); err != nil {
			t.Errorf("put with a subject: %v", err)
		}
	}
	steps := map[string]int{}
	entries, err := n.parts.ledger.Entries(t.Context(), 0, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if entry.Kind == ledger.EntryKeys {
			var body struct{ Step string }
			if err := json.Unmarshal(entry.Body, &body); err != nil {
				t.Fatal(err)
			}
			steps[body.Step]++
		}
	}
	for _, step := range []string{"started", "raised", "completed", "trimmed"} {
		if steps[step] != 1 {
			t.Errorf("%d entries of step %q", steps[step], step)
		}
	}
}

func TestALongerHorizonIsWaitedForAndAShorterOneIsNot(t *testing.T) {
	n := memParts(t).start(t)
	e := n.rotate(t)
	with := func(h time.Duration) {
		r := retention.NewEpochs(n.store, n.ledger, "node", retention.EpochOptions{Horizon: h}, n.clock.Now, slog.New(slog.DiscardHandler))
		if _, err := r.RunOne(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	n.clock.advance(horizon / 2)
	with(time.Hour)
	n.epoch(t, e.ID, ledger.EpochWaiting)
	n.clock.advance(horizon / 2)
	with(2 * horizon)
	if got := n.epoch(t, e.ID, ledger.EpochWaiting); !got.TrimAt.Equal(e.CompletedAt.Add(2 * horizon)) {
		t.Errorf("to be trimmed %v", got.TrimAt)
	}
	n.clock.advance(horizon)
	with(2 * horizon)
	n.epoch(t, e.ID, ledger.EpochTrimmed)
}

// TestAPutAcrossAnEpoch: the whole epoch, trim included, runs in the middle of a
// put, whatever the put holds in its hands then.
func TestAPutAcrossAnEpoch(t *testing.T) {
	for _, op := range []string{"lookuprepeats", "commit"} {
		for name, setup := range map[string]func(*testing.T, *node){
			"a new execution":   func(*testing.T, *node) {},
			"a known execution": func(t *testing.T, n *node) { n.mustPut(t, run, seed) },
			"an execution that lost a blob": func(t *testing.T, n *node) {
				n.mustPut(t, run, seed)
				n.mustErase(t, run, n.mustPut(t, run, "gone").Ref)
			},
		} {
			t.Run(name+" at "+op, func(t *testing.T) {
				n := memParts(t).start(t)
				setup(t, n)
				worker, stalled := n.parts.start(t), false
				n.ledger.OnCall(func(called string) {
					if called == op && !stalled {
						stalled = true
						worker.rotate(t)
						worker.trim(t)
					}
				})
				s := n.mustPut(t, run, runText)
				if !stalled {
					t.Fatal("the epoch did not run in between")
				}
				n.wantText(t, run, s.Ref, runText)
				if again := n.mustPut(t, run, runText); again.Created {
					t.Error("the repeat was not found")
				}
				cold := n.parts.start(t)
				cold.wantText(t, run, s.Ref, runText)
				cold.runJobs(t)
				cold.verify(t)
			})
		}
	}
}

// TestAnotherNodesTenantRowIsReadAgain: its index key was wrapped anew, and what
// wrapped it before is gone.
func TestAnotherNodesTenantRowIsReadAgain(t *testing.T) {
	p := memParts(t)
	other, n := p.start(t), p.start(t)
	request := func(n *node) [32]byte {
		t.Helper()
		r, key, err := n.store.RequestKeys(t.Context(), tenant, "route", "key", nil)
		if err != nil {
			t.Fatal(err)
		}
		key.Wipe()
		return r.Key
	}
	before := request(other)
	n.rotate(t)
	n.trim(t) // longer than any cache lives
	if request(other) != before || request(n) != before {
		t.Error("the nodes have different index keys")
	}
}

// TestADamagedKeyHoldsTheEpochAndNothingElse: the others are re-wrapped, and the
// old version, which may still be needed, stays.
func TestADamagedKeyHoldsTheEpochAndNothingElse(t *testing.T) {
	n := memParts(t).start(t)
	n.mustPut(t, run, runText)
	ok := n.mustPut(t, bystander, bystanderText)
	if err := n.startEpoch(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.keys.Fail("unwrap", 1, 0, blobd.ErrUnavailable)
	n.runEpochs(t)
	e := n.epoch(t, "epoch", ledger.EpochRewrapping)
	if e.LastError != blobd.ErrUnavailable.Error() {
		t.Errorf("last error %q", e.LastError)
	}
	damaged := damagedWraps{n.ledger, n.tag(t, run)}
	worker := store.New(store.Config{
		Ledger: damaged, Objects: n.objects, Journal: n.journal, Now: n.clock.Now, Random: n.store.Random,
		Keys: n.store.Keys, PutMargin: margin, Log: slog.New(slog.DiscardHandler),
	})
	if err := worker.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.clock.advance(time.Hour)
	r := retention.NewEpochs(worker, damaged, "worker", retention.EpochOptions{Horizon: horizon}, n.clock.Now, slog.New(slog.DiscardHandler))
	if worked, err := r.RunOne(t.Context()); !worked || err != nil {
		t.Fatalf("worked %v, %v", worked, err)
	}
	e = n.epoch(t, "epoch", ledger.EpochRewrapping)
	if e.LastError != blobd.ErrCorrupt.Error() || e.Rewrapped != 2 { // the index key and the bystander
		t.Errorf("%+v", e)
	}
	n.trim(t) // completes with the true wraps, and waits for its horizon
	n.epoch(t, "epoch", ledger.EpochWaiting)
	n.wantVersions(t, 1, 2)
	n.wantText(t, bystander, ok.Ref, bystanderText)
}

// damagedWraps is a ledger one of whose wraps is read damaged.
type damagedWraps struct {
	*ledgerfaulty.Ledger
	tag blobd.ExecutionTag
}

func (d damagedWraps) Wraps(ctx context.Context, q ledger.WrapQuery) ([]ledger.Wrap, error) {
	ws, err := d.Ledger.Wraps(ctx, q)
	for i := range ws {
		if ws[i].Tag == d.tag {
			ws[i].Key.Ciphertext[len(ws[i].Key.Ciphertext)-1] ^= 1
		}
	}
	return ws, err
}

// TestEpochCrashMatrix interrupts an epoch at every call of every dependency.
func TestEpochCrashMatrix(t *testing.T) {
	for name, make := range map[string]func() crash{
		"start, rotate, re-wrap": func() crash { return crashOfEpoch(false) },
		"trim":                   func() crash { return crashOfEpoch(true) },
	} {
		t.Run(name, func(t *testing.T) { interrupt(t, make) })
	}
}

// crashOfEpoch: whatever fails, no key is lost, none comes back, and the epoch
// gets to its end by itself.
func crashOfEpoch(last bool) crash {
	var stays, gone, whole store.Stored
	return crash{
		cold: true,
		setup: func(t *testing.T, n *node) {
			stays, gone = n.mustPut(t, run, runText), n.mustPut(t, run, "gone")
			whole = n.mustPut(t, "whole", "whole")
			n.mustErase(t, run, gone.Ref)
			n.mustErase(t, "whole")
			n.runJobs(t)
			if last {
				if err := n.startEpoch(t.Context()); err != nil {
					t.Fatal(err)
				}
				n.runEpochs(t)
				n.epoch(t, "epoch", ledger.EpochWaiting)
				n.clock.advance(horizon)
			}
		},
		act: func(t *testing.T, n *node) error {
			if !last {
				if err := n.startEpoch(t.Context()); err != nil {
					return err
				}
			}
			_, err := n.epochs().RunOne(t.Context())
			return err
		},
		judge: func(t *testing.T, n *node, told error) {
			check := func() {
				n.verify(t)
				n.wantText(t, run, stays.Ref, runText)
				n.wantNull(t, run, gone.Ref)
				n.wantNull(t, "whole", whole.Ref)
			}
			check()
			if err := n.startEpoch(t.Context()); err != nil { // the same id: no second one
				t.Fatal(err)
			}
			for range 3 {
				n.clock.advance(10 * time.Minute)
				n.runEpochs(t)
			}
			want := ledger.EpochWaiting
			if last {
				want = ledger.EpochTrimmed
			}
			e := n.epoch(t, "epoch", want)
			if e.Rekeyed != 1 || e.Rewrapped != 3 || e.Version != 2 {
				t.Errorf("%+v", e)
			}
			check()
			n.trim(t)
			n.epoch(t, "epoch", ledger.EpochTrimmed)
			n.wantVersions(t, 2, 2) // rotated once, however often it was tried
			n = n.parts.start(t)
			check()
			if again := n.mustPut(t, run, runText); again.Created {
				t.Error("the repeat was not found")
			}
		},
	}
}

// TestAnAuditReadAcrossAnEpoch: keys that an epoch changes between the two looks
// of a read make no blob a mismatch.
func TestAnAuditReadAcrossAnEpoch(t *testing.T) {
	n := memParts(t).start(t)
	stored := n.mustPut(t, run, runText)
	n.mustErase(t, run, n.mustPut(t, run, "gone").Ref) // so that the epoch gives a new key
	worker, moved := n.parts.start(t), false
	n.ledger.OnCall(func(called string) {
		if called == "records" && !moved {
			moved = true
			worker.rotate(t)
		}
	})
	a, err := n.resolver.Read(t.Context(), resolver.ReadRequest{Tenant: tenant, ExecutionID: run, Purpose: "a check"})
	if err != nil {
		t.Fatal(err)
	}
	if !moved {
		t.Fatal("the epoch did not run in between")
	}
	for _, p := range a.Parts {
		if *p.Ref == stored.Ref && (p.Status != resolver.StatusOK || p.Text == nil || string(p.Text.Bytes()) != runText) {
			t.Errorf("status %s", p.Status)
		}
	}
}
