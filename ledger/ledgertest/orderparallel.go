package ledgertest

import (
	"errors"
	"fmt"
	"sync"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// blobsIn is how many blobs the parallel sentences put into the x-th execution.
const blobsIn = 12

// many puts blobs x*100, x*100+1, … into the x-th execution.
func (e *env) many(x int) {
	e.Helper()
	var blobs []ledger.NewBlob
	for n := range blobsIn {
		blobs = append(blobs, newBlob(100*x+n))
	}
	e.commit(capture(x, start, blobs...))
}

// keptAll checks that what a hold covered when it was placed has its key.
func (e *env) keptAll(what string, x int, covered []int) {
	e.Helper()
	for _, n := range covered {
		if b := e.blob(x, n); b.State != ledger.BlobLive || b.WrappedKey == nil {
			e.Errorf("%s: blob %d is %d under a hold", what, n, b.State)
		}
	}
	if len(covered) > 0 && e.lookup(x, refOf(0)).Execution.Key == nil {
		e.Errorf("%s: the execution under a hold lost its key", what)
	}
}

// keyed lists the blobs of the x-th execution that had their keys when a hold was
// placed: what the placing waited for was done, and nothing came after it.
func (e *env) keyed(x int) (blobs []int) {
	v, err := e.Lookup(e.ctx, tagOf(x), refsOf(100*x, 100*x+blobsIn))
	if err != nil {
		e.Errorf("lookup: %v", err)
		return nil
	}
	if v.Execution.Key == nil {
		return nil
	}
	for i, b := range v.Blobs {
		if b.WrappedKey != nil {
			blobs = append(blobs, 100*x+i)
		}
	}
	return blobs
}

func orderParallelSentences() []sentence {
	return []sentence{
		{"a put against a restriction is committed before it or refused, and what landed is closed", func(e *env) {
			for _, s := range []ledger.Scope{executionScope(1), classScope("reasoning", at(9)), subjectScope(1), tenantScope()} {
				fresh := e.fresh()
				fresh.put(2, 1000)
				var mu sync.Mutex
				landed := map[int]bool{}
				together(workers, func(i int) {
					if i == workers/2 {
						if _, _, err := fresh.PlaceOrder(e.ctx, orderOf(1, ledger.OrderRestriction, s), entry(ledger.EntryOrder)); err != nil {
							e.Errorf("place: %v", err)
						}
						_, err := fresh.Commit(e.ctx, tagged(1, 500))
						if !errors.Is(err, blobd.ErrRestricted) {
							e.Errorf("a put after the order: %v", err)
						}
						return
					}
					_, err := fresh.Commit(e.ctx, tagged(1, i))
					mu.Lock()
					defer mu.Unlock()
					if landed[i] = err == nil; err != nil && !errors.Is(err, blobd.ErrRestricted) {
						e.Errorf("put %d: %v", i, err)
					}
				})
				for i := range workers {
					b := fresh.blob(1, i)
					if (b != nil) != landed[i] || b != nil && b.Closed != ledger.ClosedRestricted {
						e.Errorf("put %d landed %v: %+v", i, landed[i], b)
					}
				}
			}
		}},
		{"a put against a suppression is committed before it or refused", func(e *env) {
			var mu sync.Mutex
			landed := 0
			together(workers, func(i int) {
				if i == workers/2 {
					if _, _, err := e.PlaceOrder(e.ctx, orderOf(1, ledger.OrderSuppression, subjectScope(1)), entry(ledger.EntryOrder)); err != nil {
						e.Errorf("place: %v", err)
					}
					if _, err := e.Commit(e.ctx, tagged(1, 500)); !errors.Is(err, blobd.ErrSuppressed) {
						e.Errorf("a put after the order: %v", err)
					}
					return
				}
				_, err := e.Commit(e.ctx, tagged(1, i))
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					landed++
				} else if !errors.Is(err, blobd.ErrSuppressed) {
					e.Errorf("put %d: %v", i, err)
				}
			})
			e.equal("blobs", e.stats().Blobs, int64(landed))
		}},
		{"a hold against fences: what has its key when the hold was placed keeps it", func(e *env) {
			for x := range 4 {
				e.many(x)
			}
			covered := make([][]int, 4)
			together(workers, func(i int) {
				x := i % 4
				if i < 4 {
					s := []ledger.Scope{executionScope(0), refScope(1, 100, 101), classScope("reasoning", at(9)), tenantScope()}[i]
					if _, _, err := e.PlaceOrder(e.ctx, orderOf(i, ledger.OrderHold, s), entry(ledger.EntryOrder)); err != nil {
						e.Errorf("place: %v", err)
					}
					if covered[i] = e.keyed(i); i == 1 { // only two of them are held
						covered[i] = covered[i][:min(2, len(covered[i]))]
					}
					return
				}
				f := fenceOf(i, x)
				if i%3 == 0 {
					f.Scope.Refs = refsOf(100*x+i/4, 100*x+i/4+2)
				}
				if _, _, err := e.Fence(e.ctx, f); err != nil {
					e.Errorf("fence %d: %v", i, err)
				}
			})
			for x := range 4 {
				e.keptAll(fmt.Sprint("hold ", x), x, covered[x])
			}
		}},
		{"a hold against drops: what has its key when the hold was placed keeps it", func(e *env) {
			for x := range 4 {
				e.many(x)
			}
			e.fence(eraseOf(1, classScope("reasoning", at(9))))
			j := e.claimAt(20)
			e.holdsAgainst(func() error {
				d := dropOf(3)
				for {
					done, err := e.Drop(e.ctx, j.Lease, d)
					if err != nil || done.Next == (ledger.ScopeCursor{}) {
						return err
					}
					d.After = done.Next
				}
			})
		}},
		{"a hold against sweeps: what has its key when the hold was placed keeps it", func(e *env) {
			e.maximum("reasoning", 5*second)
			for x := range 4 {
				e.many(x)
			}
			e.clock.set(at(9))
			j := e.sweep(1)
			e.holdsAgainst(func() error {
				for n := range blobsIn {
					var rows []ledger.Position
					for x := range 4 {
						rows = append(rows, position(x, 100*x+n))
					}
					if _, err := e.Expire(e.ctx, j.Lease, expiryOf(rows...)); err != nil {
						return err
					}
				}
				return nil
			})
		}},
		{"a hold against the fence of what was closed: it is fenced before or held", func(e *env) {
			for range 8 {
				fresh := e.fresh()
				fresh.many(1)
				f := fenceOf(1, 1)
				f.GraceUntil = at(15)
				fresh.fence(f)
				j := fresh.claimAt(20)
				var fenced error
				var covered []int
				together(2, func(i int) {
					if i == 0 {
						_, _, fenced = fresh.FenceClosed(e.ctx, j.Lease, at(21), nil)
						return
					}
					if _, _, err := fresh.PlaceOrder(e.ctx, orderOf(1, ledger.OrderHold, tenantScope()), entry(ledger.EntryOrder)); err != nil {
						e.Errorf("place: %v", err)
					}
					covered = fresh.keyed(1)
				})
				if fenced == nil {
					e.equal("state", fresh.summary(1).State, ledger.ExecutionErased)
				} else {
					e.refused(fenced, blobd.ErrHeld)
				}
				fresh.keptAll("hold", 1, covered)
				e.equal("all or none", len(covered)%blobsIn, 0)
			}
		}},
		{"one order id from many callers is one order, and one erasure is approved once", func(e *env) {
			together(workers, func(i int) {
				_, r, err := e.PlaceOrder(e.ctx, orderOf(1, ledger.OrderHold, executionScope(1)), entry(ledger.EntryOrder))
				if err != nil || r.Seq != 1 {
					e.Errorf("place: %+v, %v", r, err)
				}
			})
			e.equal("records", e.head().Seq, int64(1))
			e.put(2, 2)
			e.asked(1, 3, executionScope(2))
			var mu sync.Mutex
			records := 0
			together(workers, func(i int) {
				_, r, err := e.Decide(e.ctx, decisionOf(1, ledger.ActApprove, fmt.Sprint("token ", i%6)))
				mu.Lock()
				defer mu.Unlock()
				if r.Seq != 0 {
					records++
				}
				if err != nil && !errors.Is(err, blobd.ErrConflict) {
					e.Errorf("approve: %v", err)
				}
			})
			e.equal("records", records, 1)
			got := e.erasure(erasureID(1))
			e.equal("approved", []any{got.State, len(got.ApprovedBy)}, []any{ledger.ErasureRunning, 3})
		}},
		{"lifts of one hold against a worker that defers leave nothing forgotten", func(e *env) {
			for i := range 8 {
				fresh := e.fresh()
				fresh.many(1)
				fresh.hold(1, executionScope(1))
				fresh.fence(eraseOf(1, executionScope(1)))
				j := fresh.claimAt(20)
				together(2, func(n int) {
					if n == i%2 {
						lift := liftOf(1, ledger.OrderHold)
						lift.At = at(25)
						if _, _, err := fresh.LiftOrder(e.ctx, lift, entry(ledger.EntryOrder)); err != nil {
							e.Errorf("lift: %v", err)
						}
						return
					}
					done, err := fresh.Drop(e.ctx, j.Lease, dropOf(100))
					if err != nil {
						e.Errorf("drop: %v", err)
					}
					if err := fresh.Defer(e.ctx, j.Lease, at(90_000), ledger.Progress{Held: int64(len(done.Kept))}, nil); err != nil {
						e.Errorf("defer: %v", err)
					}
				})
				e.equal("claimed", fresh.claimAt(30).Erasure.ID, erasureID(1))
			}
		}},
	}
}

// tagged is a capture of the n-th blob, tagged with the first subject.
func tagged(x, n int) ledger.Capture {
	c := capture(x, at(3), newBlob(n))
	c.Subjects = [][32]byte{subjectOf(1)}
	return c
}

// holdsAgainst places a hold over each of four executions while rows are deleted.
func (e *env) holdsAgainst(remove func() error) {
	e.Helper()
	covered := make([][]int, 4)
	together(5, func(x int) {
		if x == 4 {
			if err := remove(); err != nil {
				e.Errorf("remove: %v", err)
			}
			return
		}
		if _, _, err := e.PlaceOrder(e.ctx, orderOf(x, ledger.OrderHold, executionScope(x)), entry(ledger.EntryOrder)); err != nil {
			e.Errorf("place: %v", err)
		}
		covered[x] = e.keyed(x)
	})
	for x := range 4 {
		e.keptAll(fmt.Sprint("hold ", x), x, covered[x])
	}
}
