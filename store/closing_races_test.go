package store_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/store"
)

// TestRaceHoldAndErase: whoever comes first wins. What is held by the time that the
// hold is acknowledged, and was not erased, stays until its release, and then goes.
func TestRaceHoldAndErase(t *testing.T) {
	p := memParts(t)
	nodes := []*node{p.start(t), p.start(t)}
	var kept, gone atomic.Int64
	for round := range 100 {
		execution := fmt.Sprint("run ", round)
		stored := nodes[0].mustPutTagged(t, execution, runText, anna)
		var o ledger.Order
		var e ledger.Erasure
		together(3, func(i int) {
			var err error
			switch i {
			case 0:
				o, err = nodes[0].hold(t.Context(), func(r *store.OrderRequest) { r.ExecutionID = execution })
			case 1:
				e, err = nodes[1].erase(t.Context(), execution)
			default:
				_, err = nodes[1].erasures.RunOne(t.Context())
			}
			if err != nil {
				t.Errorf("%d: %v", i, err)
			}
		})
		nodes[0].wantNull(t, execution, stored.Ref)
		nodes[1].work(t)
		e = nodes[0].erasure(t, e.ID)
		switch state := e.Stands(); state {
		case ledger.ErasureErased:
			gone.Add(1)
			if left := nodes[0].sealedObjects(t, execution); len(left) != 0 {
				t.Errorf("%d objects are left of what was erased", len(left))
			}
		case ledger.ErasureDeferred:
			kept.Add(1)
			if left := nodes[0].sealedObjects(t, execution); len(left) != 1 {
				t.Errorf("%d objects of what is held", len(left))
			}
			nodes[0].verify(t)
		default:
			t.Errorf("the erasure is %s", state)
		}
		nodes[0].release(t, o)
		nodes[1].work(t)
		nodes[0].wantState(t, e.ID, ledger.ErasureErased)
	}
	nodes[0].wantObjects(t, 0)
	t.Logf("%d holds came first, %d erasures", kept.Load(), gone.Load())
}

// TestRaceReleaseAndPass: a hold that is lifted at any call of the pass over its scope
// loses no erasure: it completes without another order, policy or day.
func TestRaceReleaseAndPass(t *testing.T) {
	scene := func(t *testing.T) (*parts, ledger.Order, ledger.Erasure) {
		p := memParts(t)
		n := p.start(t)
		n.mustPutTagged(t, run, "held", anna)
		n.mustPut(t, run, "free")
		o := n.mustHold(t, func(r *store.OrderRequest) { r.Subjects = []string{anna} })
		return p, o, n.mustErase(t, run)
	}
	p, _, _ := scene(t)
	n := p.start(t)
	p.clock.advance(margin)
	var calls []call
	n.onCall(func(c call) { calls = append(calls, c) })
	if _, err := n.erasures.RunOne(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, at := range calls {
		t.Run("before "+at.String(), func(t *testing.T) {
			p, o, e := scene(t)
			n, other := p.start(t), p.start(t)
			p.clock.advance(margin)
			n.onCall(func(c call) {
				if c == at {
					other.release(t, o)
				}
			})
			n.work(t) // minutes, not a day
			n.wantState(t, e.ID, ledger.ErasureErased)
			n.wantObjects(t, 0)
		})
	}
}

// TestRaceSubjectErasureAndPut: once the closing is acknowledged, every put with the
// person was refused or is null, and nothing of the person is left once erased.
func TestRaceSubjectErasureAndPut(t *testing.T) {
	n := memParts(t).start(t)
	const rounds, puts = 50, 4
	for round := range rounds {
		person := fmt.Sprint("person ", round)
		var stored [puts]store.Stored
		var errs [puts]error
		together(puts+1, func(i int) {
			if i == puts {
				if _, err := n.store.Erase(t.Context(), eraseRequest(func(r *store.EraseRequest) { r.Subjects = []string{person} })); err != nil {
					t.Errorf("erase: %v", err)
				}
				return
			}
			stored[i], errs[i] = n.putTagged(t.Context(), fmt.Sprint("run ", i), fmt.Sprint(person, "'s text ", i), person, "everybody")
		})
		for i := range puts {
			if errs[i] != nil {
				wantErr(t, errs[i], blobd.ErrClosed)
				continue
			}
			n.wantNull(t, fmt.Sprint("run ", i), stored[i].Ref)
		}
	}
	n.work(t)
	n.runJobs(t)
	n.wantObjects(t, 0)
	n.verify(t)
}

// TestAClosingBetweenStepsOfAPut refuses it in the same words, and what it stored
// before is deleted.
func TestAClosingBetweenStepsOfAPut(t *testing.T) {
	n := memParts(t).start(t)
	n.mustPut(t, run, seed)
	var calls []call
	cold := n.parts.start(t)
	cold.onCall(func(c call) { calls = append(calls, c) })
	cold.mustPutTagged(t, run, runText, anna)
	cold.onCall(func(call) {})
	for form, set := range map[string]func(*store.EraseRequest){
		"a person": func(r *store.EraseRequest) { r.Subjects = []string{anna} },
		"a class":  func(r *store.EraseRequest) { r.Class = reason },
		"grace":    func(r *store.EraseRequest) { r.ExecutionID, r.Grace = run, time.Hour },
	} {
		for _, at := range calls {
			t.Run(form+" before "+at.String(), func(t *testing.T) {
				p := memParts(t)
				p.start(t).mustPut(t, run, seed)
				n, other := p.start(t), p.start(t)
				n.onCall(func(c call) {
					if c == at {
						other.mustEraseBy(t, set)
					}
				})
				stored, err := n.putTagged(t.Context(), run, runText, anna)
				n.onCall(func(call) {})
				if err != nil && !errors.Is(err, blobd.ErrClosed) {
					t.Errorf("put: %v", err)
				}
				if err == nil {
					n.wantNull(t, run, stored.Ref)
				}
				n.clock.advance(time.Hour)
				n.work(t)
				n.runJobs(t)
				n.verify(t)
			})
		}
	}
}
