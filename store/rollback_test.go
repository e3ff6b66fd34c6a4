package store_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

func TestRolledBackLedgerIsReplayed(t *testing.T) {
	h := newHistory(t, false)
	n := h.boot()
	if _, err := n.resolve(t.Context(), goneRun, h.erased.Ref); !errors.Is(err, blobd.ErrUnavailable) {
		t.Errorf("before the start: %v, want unavailable", err)
	}
	if err := n.store.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.judge(t, n)
	// The store was not rolled back, so its listing told of every put.
	n.wantNull(t, oldRun, blobd.RefOf([]byte("never stored")))
	n = h.start(t)
	h.judge(t, n)
	if err := n.store.AcceptLoss(t.Context(), tenant, newRun, []blobd.Ref{h.elsewhere.Ref}, "operator"); err != nil {
		t.Fatal(err)
	}
	n.wantNull(t, newRun, h.elsewhere.Ref)
	h.judgeLater(t, n)
}

// TestRolledBackLedgerIsNotServed: until the replay is whole, nothing is
// answered, and nothing is null.
func TestRolledBackLedgerIsNotServed(t *testing.T) {
	h := newHistory(t, false)
	n := h.boot()
	n.fail(call{"ledger", "replay", 1}, false, errDown)
	if err := n.store.Start(t.Context()); err == nil {
		t.Fatal("started without the replay")
	}
	for _, ref := range []blobd.Ref{h.old.Ref, h.newer.Ref, h.erased.Ref} {
		_, err := n.resolve(t.Context(), oldRun, ref)
		wantErr(t, err, blobd.ErrUnavailable)
	}
	_, err := n.putText(t.Context(), oldRun, "a text")
	wantErr(t, err, blobd.ErrUnavailable)
	_, err = n.erase(t.Context(), oldRun)
	wantErr(t, err, blobd.ErrUnavailable)
	if err := n.store.Start(t.Context()); err != nil {
		t.Fatalf("the second try: %v", err)
	}
	h.judge(t, n)
}

// TestRolledBackStoreAndLedger: where the store came back old as well, an
// unknown ref may be a put that nobody remembers: an error until accepted.
func TestRolledBackStoreAndLedger(t *testing.T) {
	h := newHistory(t, true)
	n := h.start(t)
	h.judge(t, n)
	unknown := blobd.RefOf([]byte("nobody remembers"))
	_, err := n.resolve(t.Context(), oldRun, unknown)
	wantErr(t, err, blobd.ErrMissing)
	n = h.start(t) // a restart does not forget it
	_, err = n.resolve(t.Context(), oldRun, unknown)
	wantErr(t, err, blobd.ErrMissing)
	if err := n.store.AcceptGap(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.wantNull(t, oldRun, unknown)
	n.wantNull(t, newRun, h.elsewhere.Ref)
	h.judgeLater(t, n)
	// Both places of the journal know all again.
	n.wantNull(t, goneRun, h.erased.Ref)
	known := make(map[int64]bool)
	for _, r := range journalRecords(t, h.parts.objects) {
		known[r.Seq] = true
	}
	for _, r := range journalRecords(t, h.parts.second) {
		if r.Kind != ledger.RecordMark && !known[r.Seq] {
			t.Errorf("record %d (%s) is in the second place alone", r.Seq, r.Kind)
		}
	}
}

// TestRecoveryCrashMatrix interrupts the recovery at every call: what is
// answered after the next start is the same.
func TestRecoveryCrashMatrix(t *testing.T) {
	for _, rollStore := range []bool{false, true} {
		t.Run(fmt.Sprint("store rolled back ", rollStore), func(t *testing.T) {
			first := newHistory(t, rollStore)
			scene := func(t *testing.T) *history { return first.again(t) }
			n := scene(t).boot()
			var calls []call
			n.onCall(func(c call) { calls = append(calls, c) })
			if err := n.store.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			if len(calls) < 10 {
				t.Fatalf("only %d calls: nothing was recovered", len(calls))
			}
			for _, c := range calls {
				if c.nth > 1 && c.op != "setrecovery" {
					continue // one of a kind is enough
				}
				t.Run(c.String()+" failed after it acted", func(t *testing.T) {
					interruptRecovery(t, scene(t), rollStore, func(n *node) { n.fail(c, true, errDown) })
				})
				t.Run("killed after "+c.String(), func(t *testing.T) {
					interruptRecovery(t, scene(t), rollStore, func(n *node) { n.dieAfter(c) })
				})
			}
		})
	}
}

func interruptRecovery(t *testing.T, h *history, rollStore bool, arm func(*node)) {
	n := h.boot()
	arm(n)
	if err := n.store.Start(t.Context()); err != nil {
		_, err := n.resolve(t.Context(), oldRun, h.newer.Ref)
		wantErr(t, err, blobd.ErrUnavailable)
	}
	n = h.start(t)
	h.judge(t, n)
	if rollStore {
		_, err := n.resolve(t.Context(), oldRun, blobd.RefOf([]byte("nobody remembers")))
		wantErr(t, err, blobd.ErrMissing)
		if err := n.store.AcceptGap(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	h.judgeLater(t, n)
}
