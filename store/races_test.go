package store_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/blobd/blobd"
	backendfaulty "github.com/blobd/blobd/backends/faulty"
	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/resolver"
	"github.com/blobd/blobd/store"
)

// together runs f once per index, all let go at the same moment.
func together(n int, f func(i int)) {
	var wg sync.WaitGroup
	gate := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-gate
			f(i)
		})
	}
	close(gate)
	wg.Wait()
}

// TestRacePutAndErase: once the fence is acknowledged, every put of the
// execution was refused or resolves to null, and nothing is left once erased.
func TestRacePutAndErase(t *testing.T) {
	n := memParts(t).start(t)
	const rounds, puts = 200, 4
	var landed, refused atomic.Int64
	for round := range rounds {
		execution := fmt.Sprint("run ", round)
		if round%2 == 0 { // half of them are executions with a key in memory
			n.mustPut(t, execution, "the first")
		}
		var stored [puts]store.Stored
		var errs [puts]error
		together(puts+1, func(i int) {
			if i == puts {
				if _, err := n.erase(t.Context(), execution); err != nil {
					t.Errorf("erase: %v", err)
				}
				return
			}
			stored[i], errs[i] = n.putText(t.Context(), execution, fmt.Sprint("text ", i))
		})
		for i := range puts {
			if errs[i] != nil {
				refused.Add(1)
				wantErr(t, errs[i], blobd.ErrErased)
				continue
			}
			landed.Add(1)
			n.wantNull(t, execution, stored[i].Ref)
		}
	}
	n.runJobs(t)
	if left := n.sealedObjects(t, ""); len(left) != 0 {
		t.Errorf("%d objects are left", len(left))
	}
	n.verify(t)
	t.Logf("%d puts landed before their fence, %d were refused", landed.Load(), refused.Load())
}

// TestRaceSameText: puts of one text, in an execution that is new or known, by
// one process or two, make one ref and one object.
func TestRaceSameText(t *testing.T) {
	p := memParts(t)
	nodes := []*node{p.start(t), p.start(t)}
	for round := range 50 {
		execution := fmt.Sprint("run ", round)
		if round%2 == 0 {
			nodes[0].mustPut(t, execution, "the first")
		}
		const puts = 8
		var stored [puts]store.Stored
		together(puts, func(i int) {
			var err error
			if stored[i], err = nodes[i%2].putText(t.Context(), execution, "the same"); err != nil {
				t.Errorf("put: %v", err)
			}
		})
		created := 0
		for _, s := range stored {
			if s.Ref != stored[0].Ref {
				t.Fatal("two refs for one text")
			}
			if s.Created {
				created++
			}
		}
		if created != 1 {
			t.Errorf("%d puts made the blob, want 1", created)
		}
		want := 1 + (round+1)%2
		if objects := nodes[0].sealedObjects(t, execution); len(objects) != want {
			t.Errorf("%d objects, want %d", len(objects), want)
		}
		nodes[1].wantText(t, execution, stored[0].Ref, "the same")
	}
	nodes[0].verify(t)
}

// TestRaceNewExecution: first puts of one execution, by two processes, end
// under one key: every text opens on both.
func TestRaceNewExecution(t *testing.T) {
	p := memParts(t)
	nodes := []*node{p.start(t), p.start(t)}
	for round := range 50 {
		execution := fmt.Sprint("run ", round)
		const puts = 6
		var stored [puts]store.Stored
		together(puts, func(i int) {
			var err error
			if stored[i], err = nodes[i%2].putText(t.Context(), execution, fmt.Sprint("text ", i)); err != nil {
				t.Errorf("put: %v", err)
			}
		})
		for i, s := range stored {
			nodes[0].wantText(t, execution, s.Ref, fmt.Sprint("text ", i))
			nodes[1].wantText(t, execution, s.Ref, fmt.Sprint("text ", i))
		}
	}
	if r := nodes[0].verify(t); r.Orphans != 0 {
		t.Errorf("%d orphans", r.Orphans)
	}
}

// TestRaceEraseAndErase: erasures of one scope are all accepted, and each says
// erased no earlier than the first; two workers share the jobs.
func TestRaceEraseAndErase(t *testing.T) {
	p := memParts(t)
	nodes := []*node{p.start(t), p.start(t)}
	stored := nodes[0].mustPut(t, run, runText)
	together(6, func(i int) {
		if _, err := nodes[i%2].erase(t.Context(), run); err != nil {
			t.Errorf("erase: %v", err)
		}
	})
	nodes[1].wantNull(t, run, stored.Ref)
	for range 20 {
		together(2, func(i int) {
			if _, err := nodes[i].erasures.RunOne(t.Context()); err != nil {
				t.Errorf("run a job: %v", err)
			}
		})
		p.clock.advance(margin)
	}
	nodes[0].runJobs(t)
	all, err := p.ledger.ListErasures(t.Context(), ledger.ErasureQuery{Tenant: tenant, Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 6 {
		t.Errorf("%d erasures, want 6", len(all))
	}
	if left := nodes[0].sealedObjects(t, ""); len(left) != 0 {
		t.Errorf("%d objects are left", len(left))
	}
}

// TestRaceEraseRefsAndPutAgain: a repeat of bytes that are being erased never
// brings them back.
func TestRaceEraseRefsAndPutAgain(t *testing.T) {
	n := memParts(t).start(t)
	for round := range 50 {
		execution := fmt.Sprint("run ", round)
		kept := n.mustPut(t, execution, "stays")
		stored := n.mustPut(t, execution, runText)
		n.objects.OnCall(nil)
		together(4, func(i int) {
			if i == 0 {
				if _, err := n.erase(t.Context(), execution, stored.Ref); err != nil {
					t.Errorf("erase: %v", err)
				}
				return
			}
			again, err := n.putText(t.Context(), execution, runText)
			if err == nil && again.Ref != stored.Ref {
				t.Error("a repeat made a second ref")
			}
			if err != nil && !errors.Is(err, blobd.ErrBlobErased) {
				t.Errorf("put: %v", err)
			}
		})
		n.wantNull(t, execution, stored.Ref)
		n.wantText(t, execution, kept.Ref, "stays")
		_, err := n.putText(t.Context(), execution, runText)
		wantErr(t, err, blobd.ErrBlobErased)
	}
	n.runJobs(t)
	if left := n.sealedObjects(t, ""); len(left) != 50 {
		t.Errorf("%d objects are left, want the 50 that stay", len(left))
	}
	n.verify(t)
}

// TestLateObjectWriteIsDeleted: an object that lands after the fence and the
// first deletion, within the margin, is found by the second, and its put is
// refused.
func TestLateObjectWriteIsDeleted(t *testing.T) {
	n := memParts(t).start(t)
	n.mustPut(t, run, seed)
	arrived, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	n.objects.OnCall(func(op, name string) {
		if op == "put" && !isJournal(name) {
			once.Do(func() {
				close(arrived)
				<-release
			})
		}
	})
	put := make(chan error)
	go func() {
		_, err := n.putText(t.Context(), run, runText)
		put <- err
	}()
	<-arrived
	e := n.mustErase(t, run)
	if worked, err := n.erasures.RunOne(t.Context()); !worked || err != nil {
		t.Fatalf("the first pass: worked %v, %v", worked, err)
	}
	if left := n.sealedObjects(t, run); len(left) != 0 {
		t.Fatalf("%d objects after the first pass", len(left))
	}
	n.objects.Fail("erase", 1, backendfaulty.Before, errDown) // the put cannot clean up after itself
	close(release)
	wantErr(t, <-put, blobd.ErrErased)
	if left := n.sealedObjects(t, run); len(left) != 1 {
		t.Fatalf("%d objects, want the late one", len(left))
	}
	if worked, err := n.erasures.RunOne(t.Context()); worked || err != nil {
		t.Fatalf("the job is due before the margin is over: worked %v, %v", worked, err)
	}
	n.clock.advance(margin)
	if worked, err := n.erasures.RunOne(t.Context()); !worked || err != nil {
		t.Fatalf("the second pass: worked %v, %v", worked, err)
	}
	after, err := n.parts.ledger.Erasure(t.Context(), tenant, e.ID)
	if err != nil || after.State != ledger.ErasureErased {
		t.Errorf("the erasure is %s, %v", after.State, err)
	}
	if left := n.sealedObjects(t, run); len(left) != 0 {
		t.Errorf("%d objects are left", len(left))
	}
}

func isJournal(name string) bool { return len(name) > 8 && name[:8] == "journal/" }

// TestFenceBetweenStepsOfAPut: a fence that falls between any two steps of a put
// refuses it in the same words, and leaves nothing readable.
func TestFenceBetweenStepsOfAPut(t *testing.T) {
	n := memParts(t).start(t)
	n.mustPut(t, run, seed)
	var calls []call
	cold := n.parts.start(t)
	cold.onCall(func(c call) { calls = append(calls, c) })
	cold.mustPut(t, run, runText)
	for _, at := range calls {
		t.Run("before "+at.String(), func(t *testing.T) {
			p := memParts(t)
			p.start(t).mustPut(t, run, seed)
			n, other := p.start(t), p.start(t)
			n.onCall(func(c call) {
				if c == at {
					other.mustErase(t, run)
				}
			})
			_, err := n.putText(t.Context(), run, runText)
			wantErr(t, err, blobd.ErrErased)
			other.runJobs(t)
			if left := other.sealedObjects(t, run); len(left) != 0 {
				t.Errorf("%d objects are left", len(left))
			}
		})
	}
}

// TestLateCommitOfACollectedObject: the collector never lets a late commit
// acknowledge what is gone: the put starts again and keeps its text.
func TestLateCommitOfACollectedObject(t *testing.T) {
	n := memParts(t).start(t)
	n.mustPut(t, run, seed)
	var once sync.Once
	n.ledger.OnCall(func(op string) {
		if op != "commit" {
			return
		}
		once.Do(func() { // the object is stored, the row is not
			n.clock.advance(10 * margin)
			r, err := n.store.Verify(t.Context(), store.VerifyOptions{Repair: true})
			if err != nil || r.Repaired != 1 {
				t.Errorf("the collector took %d objects, %v", r.Repaired, err)
			}
		})
	})
	stored := n.mustPut(t, run, runText)
	n = n.parts.start(t)
	n.wantText(t, run, stored.Ref, runText)
	if r := n.verify(t); r.Live != 2 || r.Objects != 2 {
		t.Errorf("%d live rows and %d objects, want 2 and 2", r.Live, r.Objects)
	}
}

// TestCollectorLeavesYoungOrphans: an object whose put may still commit stays.
func TestCollectorLeavesYoungOrphans(t *testing.T) {
	n := memParts(t).start(t)
	n.mustPut(t, run, seed)
	var once sync.Once
	n.ledger.OnCall(func(op string) {
		if op != "commit" {
			return
		}
		once.Do(func() {
			n.clock.advance(margin)
			r, err := n.store.Verify(t.Context(), store.VerifyOptions{Repair: true})
			if err != nil || r.Repaired != 0 || r.Orphans != 1 {
				t.Errorf("%d orphans, %d collected, %v", r.Orphans, r.Repaired, err)
			}
		})
	})
	stored := n.mustPut(t, run, runText)
	n.parts.start(t).wantText(t, run, stored.Ref, runText)
}

// TestRaceCaptureIsAllOrNothing: a reader sees all parts of a capture or none.
func TestRaceCaptureIsAllOrNothing(t *testing.T) {
	n := memParts(t).start(t)
	for round := range 40 {
		execution := fmt.Sprint("run ", round)
		together(4, func(i int) {
			if i == 0 {
				if _, err := n.captureTexts(t.Context(), execution, captured...); err != nil {
					t.Errorf("capture: %v", err)
				}
				return
			}
			for range 20 {
				a, err := n.resolver.Read(t.Context(), resolver.ReadRequest{Tenant: tenant, ExecutionID: execution, Purpose: "a check"})
				if err != nil {
					t.Errorf("read: %v", err)
					return
				}
				var got []string
				for _, p := range a.Parts {
					if p.Text == nil {
						t.Errorf("a part is %s", p.Status)
						return
					}
					got = append(got, string(p.Text.Bytes()))
				}
				if got != nil && !slices.Equal(got, captured) {
					t.Errorf("%d of %d parts", len(got), len(captured))
				}
			}
		})
	}
}

// TestRaceReadAndErase: what starts after the acknowledgement is null, warm
// caches or not; what is under way answers with the text or null.
func TestRaceReadAndErase(t *testing.T) {
	n := memParts(t).start(t)
	for round := range 50 {
		execution := fmt.Sprint("run ", round)
		stored := n.mustPut(t, execution, runText)
		n.wantText(t, execution, stored.Ref, runText)
		var fenced atomic.Bool
		together(5, func(i int) {
			if i == 0 {
				if _, err := n.erase(t.Context(), execution); err != nil {
					t.Errorf("erase: %v", err)
				}
				fenced.Store(true)
				return
			}
			for {
				after := fenced.Load()
				got, err := n.resolve(t.Context(), execution, stored.Ref)
				switch {
				case err != nil:
					t.Errorf("resolve: %v", err)
				case got[0] != nil && *got[0] != runText:
					t.Error("other bytes")
				case got[0] != nil && after:
					t.Error("the text after an acknowledged erasure")
				}
				if after {
					return
				}
			}
		})
	}
}
