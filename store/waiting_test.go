package store_test

import (
	"context"
	"testing"
	"time"

	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/store"
)

// claim takes the job that is due first, as a worker does.
func (n *node) claim(t *testing.T) ledger.Job {
	t.Helper()
	now := n.clock.Now().UTC()
	job, err := n.parts.ledger.Claim(t.Context(), "worker", now, now.Add(time.Hour))
	if err != nil {
		t.Fatalf("claim: %v", err)
	}
	return job
}

func (n *node) finishJob(ctx context.Context, job ledger.Job) error {
	_, err := n.store.FinishErasure(ctx, job, func(context.Context) error { return nil })
	return err
}

// TestEndedWhileItsWorkerLooks: a deferred erasure can be cancelled and denied at any
// moment, also while its worker looks whether it still must wait.
func TestEndedWhileItsWorkerLooks(t *testing.T) {
	for name, end := range map[string]func(*store.Store, string) (ledger.Erasure, error){
		"cancel": func(s *store.Store, id string) (ledger.Erasure, error) {
			return s.Cancel(t.Context(), tenant, id, "dpo", "a mistake")
		},
		"deny": func(s *store.Store, id string) (ledger.Erasure, error) {
			return s.Deny(t.Context(), tenant, id, "approver", "LEGAL_HOLD", "kept")
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := memParts(t).start(t)
			stored := n.mustPut(t, run, runText)
			n.mustHold(t, func(r *store.OrderRequest) { r.ExecutionID = run })
			e := n.mustEraseBy(t, func(r *store.EraseRequest) { r.ExecutionID = run })
			n.wantState(t, e.ID, ledger.ErasureDeferred)
			job := n.claim(t)
			if job.Erasure.ID != e.ID || !store.Waiting(&job.Erasure) {
				t.Fatalf("claimed: %+v", job.Erasure)
			}
			again, finished := make(chan struct{}), make(chan error, 1)
			n.onCall(func(c call) {
				if c == (call{"ledger", "decide", 2}) { // the first was in the worker's way
					close(again)
				}
			})
			go func() {
				select {
				case <-again:
					finished <- n.finishJob(t.Context(), job)
				case <-t.Context().Done():
				}
			}()
			ended, err := end(n.store, e.ID)
			if err != nil || ended.State != ledger.ErasureDenied && ended.State != ledger.ErasureCancelled {
				t.Fatalf("ended: %v, %+v", err, ended)
			}
			if err := <-finished; err != nil {
				t.Error(err)
			}
			n.wantText(t, run, stored.Ref, runText)
		})
	}
}

// TestEndedAsItIsClaimed: likewise where the worker comes between the look and the
// decision.
func TestEndedAsItIsClaimed(t *testing.T) {
	n := memParts(t).start(t)
	stored := n.mustPut(t, run, runText)
	n.mustHold(t, func(r *store.OrderRequest) { r.ExecutionID = run })
	e := n.mustEraseBy(t, func(r *store.EraseRequest) { r.ExecutionID = run })
	var job ledger.Job
	n.onCall(func(c call) {
		if c == (call{"ledger", "decide", 1}) {
			job = n.claim(t)
		}
		if c == (call{"ledger", "decide", 2}) {
			kept := job.Erasure.Progress
			kept.Held = 1
			if err := n.parts.ledger.Defer(t.Context(), job.Lease, n.clock.Now().Add(time.Hour), kept, nil); err != nil {
				t.Error(err)
			}
		}
	})
	if _, err := n.store.Cancel(t.Context(), tenant, e.ID, "dpo", "a mistake"); err != nil {
		t.Fatal(err)
	}
	n.wantState(t, e.ID, ledger.ErasureCancelled)
	n.wantText(t, run, stored.Ref, runText)
}

// TestWaiting: an erasure is deferred while its worker looks at what is protected, and
// runs from the first row on that this run drops.
func TestWaiting(t *testing.T) {
	n := memParts(t).start(t)
	n.mustPutTagged(t, run, "of anna", anna)
	n.mustPut(t, run, "of nobody")
	h := n.mustHold(t, func(r *store.OrderRequest) { r.Subjects = []string{anna} })
	e := n.mustEraseBy(t, func(r *store.EraseRequest) { r.ExecutionID = run })
	waits := func(when string, want bool) {
		t.Helper()
		if now := n.erasure(t, e.ID); store.Waiting(&now) != want {
			t.Errorf("%s: waits %t, want %t: %+v", when, !want, want, now)
		}
	}
	waits("with something to drop", false)
	n.work(t)
	if got := n.wantState(t, e.ID, ledger.ErasurePartial); got.Progress.Held != 1 {
		t.Fatalf("held: %+v", got.Progress)
	}
	n.clock.advance(25 * time.Hour)
	job := n.claim(t)
	waits("looked at again", true)
	n.release(t, h)
	waits("released", true)
	if err := n.finishJob(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	waits("fenced", false)
	n.work(t)
	n.wantState(t, e.ID, ledger.ErasureErased)
}
