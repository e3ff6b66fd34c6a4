package ledgertest

import (
	"errors"
	"fmt"
	"sync"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// workers is how many calls run at once.
const workers = 24

// together runs f from many goroutines at once, after one start signal.
func together(n int, f func(i int)) {
	var wg sync.WaitGroup
	begin := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-begin
			f(i)
		})
	}
	close(begin)
	wg.Wait()
}

func parallelSentences() []sentence {
	return []sentence{
		{"of puts of the same text exactly one is created", func(e *env) {
			var mu sync.Mutex
			created := 0
			refs := map[blobd.Ref]bool{}
			together(workers, func(i int) {
				done, err := e.Commit(e.ctx, capture(1, start, again(1, i)))
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					e.Errorf("commit: %v", err)
					return
				}
				if done.Created[0] {
					created++
				}
				refs[done.Blobs[0].Ref] = true
			})
			e.equal("created", created, 1)
			e.equal("refs", len(refs), 1)
			e.equal("blobs", e.summary(1).Blobs, int64(1))
		}},
		{"of first puts with different keys one wins and the others learn of it", func(e *env) {
			var mu sync.Mutex
			won, lost := []ledger.WrappedKey{}, map[[16]byte]int{}
			together(workers, func(i int) {
				c := capture(1, start, newBlob(i))
				c.Key = keyOf(i)
				_, err := e.Commit(e.ctx, c)
				mu.Lock()
				defer mu.Unlock()
				var other *ledger.KeyConflict
				switch {
				case err == nil:
					won = append(won, c.Key)
				case errors.As(err, &other):
					lost[other.Winner.ID]++
				default:
					e.Errorf("commit: %v", err)
				}
			})
			e.equal("winners", len(won), 1)
			e.equal("losers", lost, map[[16]byte]int{won[0].ID: workers - 1})
			e.equal("key", *e.summary(1).Key, won[0])
		}},
		{"puts of many executions all land, one refusal leaves the others whole", func(e *env) {
			e.put(0, 1000)
			together(4*workers, func(i int) {
				c := capture(i%4, start, newBlob(i))
				if i%8 == 0 {
					c.Blobs[0].Ref = refOf(1000)
					c.Tag, c.ExecutionID, c.Key = tagOf(0), idOf(0), keyOf(0)
				}
				_, err := e.Commit(e.ctx, c)
				if refused := errors.Is(err, blobd.ErrConflict); refused != (i%8 == 0) || err != nil && !refused {
					e.Errorf("put %d: %v", i, err)
				}
			})
			e.equal("blobs", e.stats().Blobs, int64(1+4*workers-4*workers/8))
			total := int64(0)
			for x := range 4 {
				total += e.summary(x).Blobs
			}
			e.equal("blobs by execution", total, e.stats().Blobs)
		}},
		{"a put against a fence is committed before it or erased, and nothing stays live", func(e *env) {
			e.put(1, 1000)
			var mu sync.Mutex
			landed := int64(1)
			together(workers, func(i int) {
				if i == workers/2 {
					if _, _, err := e.Fence(e.ctx, fenceOf(1, 1)); err != nil {
						e.Errorf("fence: %v", err)
					}
					return
				}
				_, err := e.Commit(e.ctx, capture(1, start, newBlob(i)))
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					landed++
				} else if !errors.Is(err, blobd.ErrErased) {
					e.Errorf("put %d: %v", i, err)
				}
			})
			e.equal("planned", e.erasure(erasureID(1)).Plan.Blobs, landed)
			e.equal("live", e.stats().Blobs, int64(0))
			e.equal("state", e.summary(1).State, ledger.ExecutionErased)
			e.tombstone(e.claim())
			bs, err := e.ScanBlobs(e.ctx, ledger.Position{}, 1000)
			e.must(err)
			e.equal("rows", int64(len(bs)), landed)
			for _, b := range bs {
				e.equal("state", b.Blob.State, ledger.BlobErased)
			}
		}},
		{"fences against fences all answer and erase once", func(e *env) {
			e.commit(capture(1, start, newBlob(1), newBlob(2)))
			together(workers, func(i int) {
				if _, _, err := e.Fence(e.ctx, fenceOf(i, 1)); err != nil {
					e.Errorf("fence %d: %v", i, err)
				}
			})
			es, err := e.ListErasures(e.ctx, ledger.ErasureQuery{Tenant: tenant, Limit: 100})
			e.must(err)
			e.equal("erasures", len(es), workers)
			var erased, already int64
			for _, x := range es {
				erased, already = erased+x.Plan.Executions, already+x.Plan.AlreadyErased
			}
			e.equal("plans", []int64{erased, already}, []int64{1, workers - 1})
			e.equal("records", e.head().Seq, int64(workers))
			e.equal("live", []int64{e.stats().Blobs, e.stats().Executions}, []int64{0, 0})
		}},
		{"one erasure id from many callers is one erasure", func(e *env) {
			e.put(1, 1)
			together(workers, func(int) {
				got, r, err := e.Fence(e.ctx, fenceOf(1, 1))
				if err != nil || got.Plan.Executions != 1 || r.Seq != 1 {
					e.Errorf("fence: %+v, %+v, %v", got, r, err)
				}
			})
			e.equal("records", e.head().Seq, int64(1))
		}},
		{"each due job is claimed once", func(e *env) {
			for i := range workers / 2 {
				e.fence(fenceOf(i, i))
			}
			var mu sync.Mutex
			claimed := map[string]int{}
			none := 0
			together(workers, func(i int) {
				j, err := e.Claim(e.ctx, fmt.Sprint("worker ", i), at(20), at(30))
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					claimed[j.Erasure.ID]++
				case errors.Is(err, blobd.ErrNotFound):
					none++
				default:
					e.Errorf("claim: %v", err)
				}
			})
			e.equal("claimed", len(claimed), workers/2)
			e.equal("none left", none, workers/2)
		}},
		{"a read against a fence sees one state or the other", func(e *env) {
			e.commit(capture(1, start, newBlob(1), newBlob(2)))
			together(workers, func(i int) {
				if i == workers/2 {
					if _, _, err := e.Fence(e.ctx, fenceOf(1, 1, refOf(1), refOf(2))); err != nil {
						e.Errorf("fence: %v", err)
					}
					return
				}
				for range 20 {
					v, err := e.Lookup(e.ctx, tagOf(1), refsOf(1, 3))
					if err != nil {
						e.Errorf("lookup: %v", err)
						return
					}
					erased := v.Execution.Blobs == 0
					for _, b := range v.Blobs {
						if (b.State == ledger.BlobErased) != erased || (b.WrappedKey == nil) != erased {
							e.Errorf("a view of two states: %+v, %+v", v.Execution, *b)
						}
					}
				}
			})
		}},
	}
}
