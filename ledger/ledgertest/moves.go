package ledgertest

import (
	"fmt"

	"github.com/blobd/blobd/ledger"
)

// The states of a blob and of an execution, with no row first.
var (
	blobStates = []ledger.BlobState{
		0, ledger.BlobLive, ledger.BlobErased, ledger.BlobMissing, ledger.BlobLost, ledger.BlobCollected, ledger.BlobSuperseded,
		ledger.BlobExpired,
	}
	executionStates = []ledger.ExecutionState{0, ledger.ExecutionOpen, ledger.ExecutionClosed, ledger.ExecutionErased}
)

// blobActs is every method that can move the blob position(1, 1), which may
// refuse. Each is tried on a blob in each state.
func blobActs() map[string]func(*env) error {
	return map[string]func(*env) error{
		"Commit": func(e *env) error {
			_, err := e.Commit(e.ctx, capture(1, at(30), newBlob(1)))
			return err
		},
		"Commit of the same text": func(e *env) error {
			_, err := e.Commit(e.ctx, capture(1, at(30), again(1, 2)))
			return err
		},
		"Fence": func(e *env) error {
			_, _, err := e.Fence(e.ctx, fenceOf(9, 1, refOf(1)))
			return err
		},
		"Replay": func(e *env) error {
			return e.Replay(e.ctx, []ledger.Record{{
				Seq: 99, Kind: ledger.RecordErase, At: at(30), Tenant: tenant, Tag: tagOf(1), Refs: refsOf(1, 2), ErasureID: erasureID(9),
			}})
		},
		"EnterMissing": func(e *env) error {
			_, err := e.EnterMissing(e.ctx, []ledger.Position{position(1, 1)}, at(30))
			return err
		},
		"AcceptLoss": func(e *env) error {
			return e.AcceptLoss(e.ctx, tagOf(1), refOf(1), at(30), entry(ledger.EntryRecovery))
		},
		"Collect": func(e *env) error { return e.Collect(e.ctx, position(1, 1), at(30)) },
		"Drop": func(e *env) error {
			f := fenceOf(9, 1)
			f.Scope = ledger.Scope{Tenant: tenant, Class: newBlob(1).Class}
			e.fence(f)
			_, err := e.Drop(e.ctx, e.claim().Lease, dropOf(100))
			return err
		},
		"Drop of refs": func(e *env) error {
			e.place(orderOf(9, ledger.OrderHold, ledger.Scope{Tenant: tenant, Tag: tagOf(1), Refs: refsOf(50, 51)}))
			e.fence(fenceOf(9, 1, refOf(1), refOf(50)))
			_, err := e.Drop(e.ctx, e.claim().Lease, dropOf(100))
			return err
		},
		"Expire": func(e *env) error {
			e.clock.set(at(30))
			_, err := e.Expire(e.ctx, e.sweep(9).Lease, expiryOf(position(1, 1)))
			return err
		},
	}
}

// enterBlob brings the blob position(1, 1) into a state, in an open execution.
func (e *env) enterBlob(s ledger.BlobState) {
	e.Helper()
	e.maximum("reasoning", 20*second)
	e.put(1, 50)
	var err error
	switch s {
	case 0:
	case ledger.BlobLive:
		e.put(1, 1)
	case ledger.BlobErased:
		e.put(1, 1)
		e.fence(fenceOf(1, 1, refOf(1)))
	case ledger.BlobMissing:
		_, err = e.EnterMissing(e.ctx, []ledger.Position{position(1, 1)}, start)
	case ledger.BlobLost:
		e.put(1, 1)
		err = e.AcceptLoss(e.ctx, tagOf(1), refOf(1), start, entry(ledger.EntryRecovery))
	case ledger.BlobCollected:
		err = e.Collect(e.ctx, position(1, 1), start)
	case ledger.BlobSuperseded:
		e.put(1, 1)
		e.commit(capture(1, at(20), again(1, 3)))
	case ledger.BlobExpired:
		e.put(1, 1)
		e.clock.set(at(25))
		j := e.sweep(8)
		e.expire(j, 1, position(1, 1))
		e.endSweep(j, ledger.SweepDone)
	}
	e.must(err)
	e.equal("state", e.state(1, 1), s)
}

// executionActs is every method that can move the execution tagOf(1).
func executionActs() map[string]func(*env) error {
	return map[string]func(*env) error{
		"Commit": func(e *env) error {
			_, err := e.Commit(e.ctx, capture(1, at(30), newBlob(1)))
			return err
		},
		"Fence": func(e *env) error {
			_, _, err := e.Fence(e.ctx, fenceOf(9, 1))
			return err
		},
		"Fence of refs": func(e *env) error {
			_, _, err := e.Fence(e.ctx, fenceOf(9, 1, refOf(1)))
			return err
		},
		"PlaceOrder": func(e *env) error {
			_, _, err := e.PlaceOrder(e.ctx, orderOf(1, ledger.OrderRestriction, executionScope(1)), entry(ledger.EntryOrder))
			return err
		},
		"LiftOrder": func(e *env) error {
			_, _, err := e.LiftOrder(e.ctx, liftOf(801, ledger.OrderRestriction), entry(ledger.EntryOrder))
			return err
		},
		"EnterMissing": func(e *env) error {
			_, err := e.EnterMissing(e.ctx, []ledger.Position{position(1, 7)}, at(30))
			return err
		},
		"Collect": func(e *env) error { return e.Collect(e.ctx, position(1, 7), at(30)) },
	}
}

// enterExecution brings the execution tagOf(1) into a state.
func (e *env) enterExecution(s ledger.ExecutionState) {
	e.Helper()
	if s != 0 {
		e.put(1, 50)
	}
	switch s {
	case ledger.ExecutionClosed:
		e.restrict(1)
	case ledger.ExecutionErased:
		e.fence(fenceOf(1, 1))
	}
	e.equal("state", e.executionState(), s)
}

func (e *env) executionState() ledger.ExecutionState {
	e.Helper()
	if x := e.lookup(1, refOf(1)).Execution; x != nil {
		return x.State
	}
	return 0
}

// moveSentences tries every act in every state: what moved must be a legal move
// and every legal move must be made by some act.
func moveSentences() []sentence {
	var s []sentence
	for _, from := range blobStates {
		s = append(s, sentence{fmt.Sprintf("blob from %d", from), func(e *env) { e.tryBlob(from) }})
	}
	for _, from := range executionStates {
		s = append(s, sentence{fmt.Sprintf("execution from %d", from), func(e *env) { e.tryExecution(from) }})
	}
	return s
}

func (e *env) tryBlob(from ledger.BlobState) {
	made := map[ledger.BlobState]bool{}
	for name, act := range blobActs() {
		fresh := newEnv(e.T, e.h)
		fresh.enterBlob(from)
		_ = act(fresh) // a refusal is one way not to move
		to := fresh.state(1, 1)
		if to == from {
			continue
		}
		made[to] = true
		if !ledger.Legal(ledger.BlobMoves(), from, to) {
			e.Errorf("%s moved %d to %d", name, from, to)
		}
	}
	for _, to := range blobStates {
		if ledger.Legal(ledger.BlobMoves(), from, to) != made[to] {
			e.Errorf("%d to %d: legal %v, made %v", from, to, !made[to], made[to])
		}
	}
}

func (e *env) tryExecution(from ledger.ExecutionState) {
	made := map[ledger.ExecutionState]bool{}
	for name, act := range executionActs() {
		fresh := newEnv(e.T, e.h)
		fresh.enterExecution(from)
		_ = act(fresh)
		to := fresh.executionState()
		if to == from {
			continue
		}
		made[to] = true
		if !ledger.Legal(ledger.ExecutionMoves(), from, to) {
			e.Errorf("%s moved %d to %d", name, from, to)
		}
	}
	for _, to := range executionStates {
		if ledger.Legal(ledger.ExecutionMoves(), from, to) != made[to] {
			e.Errorf("%d to %d: legal %v, made %v", from, to, !made[to], made[to])
		}
	}
}
