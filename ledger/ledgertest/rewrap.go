package ledgertest

import (
	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

func rewrapSentences() []sentence {
	return []sentence{
		{"wraps below a version are told, the index key first, then the oldest", func(e *env) {
			for x, when := range []int{3, 1, 2} {
				e.commit(capture(x, at(when), newBlob(x)))
			}
			c := capture(7, at(0), newBlob(7))
			c.Key.Version = 2
			e.commit(c)
			e.put(8, 8)
			e.fence(fenceOf(1, 8))
			wrap := func(x, when int) ledger.Wrap {
				return ledger.Wrap{Tag: tagOf(x), CreatedAt: at(when), Key: keyOf(x)}
			}
			all := []ledger.Wrap{{Key: ledger.WrappedKey{Ciphertext: []byte("index key")}}, wrap(1, 1), wrap(2, 2), wrap(0, 3)}
			e.equal("wraps", e.wraps(2), all)
			e.equal("below 1", e.wraps(1), all[:1])
			q := ledger.WrapQuery{Tenant: tenant, Below: 2, Limit: 1}
			for _, want := range all {
				page, err := e.Wraps(e.ctx, q)
				e.must(err)
				e.equal("page", page, []ledger.Wrap{want})
				q.After = ledger.ExecutionCursor{CreatedAt: page[0].CreatedAt, Tag: page[0].Tag}
				if want.CreatedAt.IsZero() { // the position of the index key is the start
					q.Limit = 2
					page, err = e.Wraps(e.ctx, q)
					e.must(err)
					e.equal("page", page, all[:2])
					q.Limit, q.After = 1, ledger.ExecutionCursor{CreatedAt: at(0)}
				}
			}
			page, err := e.Wraps(e.ctx, q)
			e.must(err)
			e.equal("past the last", len(page), 0)
			q.Limit = 0
			_, err = e.Wraps(e.ctx, q)
			e.refused(err, blobd.ErrInvalid)
			q.Limit, q.Tenant = 1, "nobody"
			page, err = e.Wraps(e.ctx, q)
			e.must(err)
			e.equal("of nobody", len(page), 0)
		}},
		{"a re-wrapped key is the same key under a newer version", func(e *env) {
			e.put(1, 1)
			l := e.raised(1, 2)
			e.rewrap(l, 2, indexRewrap(2), rewrapOf(1, 2))
			e.equal("key", *e.lookup(1, refOf(1)).Execution.Key, newWrap(keyOf(1), 2))
			e.equal("blob", e.blob(1, 1).WrappedKey, newBlob(1).WrappedKey)
			t, err := e.Tenant(e.ctx, tenant)
			e.must(err)
			e.equal("index key", []any{t.IndexKey, t.IndexWrap}, []any{indexRewrap(2).New.Ciphertext, uint32(2)})
			got := e.epoch(1)
			e.equal("progress", []int64{got.Rewrapped, got.Rekeyed}, []int64{2, 0})
			e.equal("left", len(e.wraps(2)), 0)
			e.commit(capture(1, start, newBlob(2))) // under the key that it has always had
		}},
		{"a wrap may be longer than the one before it", func(e *env) {
			e.put(1, 1)
			e.put(2, 2)
			l := e.raised(1, 2)
			longer := rewrapOf(1, 2)
			longer.New.Ciphertext = append(longer.New.Ciphertext, "of a tenth version"...)
			e.rewrap(l, 1, longer)
			c := capture(3, start, newBlob(3))
			c.Key.Version = 2
			e.commit(c)
			e.equal("key", *e.lookup(1, refOf(1)).Execution.Key, longer.New)
			e.equal("another key", *e.lookup(2, refOf(2)).Execution.Key, keyOf(2))
			e.put(1, 4)
			e.fence(fenceOf(1, 1))
			if k := e.summary(1).Key; k != nil {
				e.Fatalf("the erased execution has a key: %v", k)
			}
		}},
		{"a key that was dropped or re-wrapped meanwhile stays as it is", func(e *env) {
			e.put(1, 1)
			e.put(2, 2)
			l := e.raised(1, 2)
			e.fence(fenceOf(1, 1))
			e.rewrap(l, 1, rewrapOf(1, 2), rewrapOf(2, 2))
			if k := e.summary(1).Key; k != nil {
				e.Fatalf("the erased execution has a key again: %v", k)
			}
			late := rewrapOf(2, 2)
			late.New.Ciphertext = []byte("a later wrap of the same length!")[:len(late.Old.Ciphertext)]
			e.rewrap(l, 0, late)
			e.equal("key", *e.summary(2).Key, newWrap(keyOf(2), 2))
			e.rewrap(l, 1, indexRewrap(2))
			e.rewrap(l, 0, indexRewrap(3))
			e.equal("rewrapped", e.epoch(1).Rewrapped, int64(2))
		}},
		{"an execution of another tenant is left alone", func(e *env) {
			e.tenant("beta", 1)
			c := capture(1, start, newBlob(1))
			c.Tenant = "beta"
			e.commit(c)
			l := e.raised(1, 2)
			e.rewrap(l, 0, rewrapOf(1, 2))
		}},
		{"an execution that lost a blob is told so and keeps its wrap until it has a new key", func(e *env) {
			e.commit(capture(1, start, newBlob(1), newBlob(2)))
			e.fence(fenceOf(1, 1, refOf(1)))
			e.equal("lost", e.wraps(2)[1].LostBlob, true)
			l := e.raised(1, 2)
			e.rewrap(l, 0, rewrapOf(1, 2))
			e.equal("key", *e.summary(1).Key, keyOf(1))
			e.rewrap(l, 1, rekeyOf(1, 2, 2))
			e.equal("key", *e.summary(1).Key, rekeyOf(1, 2).New)
			e.equal("lost", e.wraps(3)[1].LostBlob, false)
			e.equal("blob", e.blob(1, 2).WrappedKey, rewrapped(2))
			e.equal("erased blob", e.blob(1, 1).WrappedKey, nilBytes)
			e.equal("rekeyed", e.epoch(1).Rekeyed, int64(1))
		}},
		{"a put under a key that was replaced learns of the new one", func(e *env) {
			e.put(1, 1)
			l := e.raised(1, 2)
			e.rewrap(l, 1, rekeyOf(1, 2, 1))
			_, err := e.Commit(e.ctx, capture(1, start, newBlob(2)))
			e.refused(err, blobd.ErrConflict)
			c := capture(1, start, newBlob(2))
			c.Key = rekeyOf(1, 2).New
			e.commit(c)
			e.equal("repeat", e.repeat(1, 1).Ref, refOf(1))
		}},
		{"an execution that got a blob while its key was being changed is left alone", func(e *env) {
			e.commit(capture(1, start, newBlob(1), newBlob(2)))
			l := e.raised(1, 2)
			e.rewrap(l, 0, rekeyOf(1, 2, 1))
			e.equal("key", *e.summary(1).Key, keyOf(1))
			for n := 1; n < 3; n++ {
				e.equal("blob", e.blob(1, n).WrappedKey, newBlob(n).WrappedKey)
			}
			e.rewrap(l, 1, rekeyOf(1, 2, 1, 2))
		}},
		{"a blob's key that was dropped meanwhile never returns", func(e *env) {
			e.commit(capture(1, start, newBlob(1), newBlob(2)))
			l := e.raised(1, 2)
			item := rekeyOf(1, 2, 1, 2)
			e.fence(fenceOf(1, 1, refOf(1)))
			e.rewrap(l, 1, item)
			e.equal("erased blob", e.blob(1, 1).WrappedKey, nilBytes)
			e.equal("state", e.state(1, 1), ledger.BlobErased)
			e.equal("blob", e.blob(1, 2).WrappedKey, rewrapped(2))
			e.equal("lost", e.wraps(3)[1].LostBlob, false) // its old key is in no row any more
		}},
		{"rows of every state that have a key get it re-wrapped", func(e *env) {
			e.maximum("reasoning", 5*second)
			e.put(1, 1)
			e.commit(capture(1, at(6), again(1, 2)))
			e.must(e.AcceptLoss(e.ctx, tagOf(1), refOf(2), at(7), entry(ledger.EntryRecovery)))
			l := e.raised(1, 2)
			e.rewrap(l, 0, rekeyOf(1, 2))
			e.rewrap(l, 1, rekeyOf(1, 2, 1, 2))
		}},
		{"a wrap below the minimum is a conflict and nothing is replaced", func(e *env) {
			e.put(1, 1)
			l := e.raised(1, 3)
			_, err := e.Rewrap(e.ctx, l, []ledger.Rewrap{indexRewrap(3), rewrapOf(1, 2)})
			e.refused(err, blobd.ErrConflict)
			e.equal("left", len(e.wraps(3)), 2)
		}},
		{"only an epoch that re-wraps may", func(e *env) {
			e.startEpoch(1)
			l := e.claimEpoch().Lease
			_, err := e.Rewrap(e.ctx, l, []ledger.Rewrap{indexRewrap(2)})
			e.refused(err, blobd.ErrConflict)
			e.move(l, ledger.EpochMove{To: ledger.EpochRewrapping, Version: 2, Until: at(300)})
			e.rewrap(l, 1, indexRewrap(2))
			e.move(l, ledger.EpochMove{To: ledger.EpochWaiting, At: at(210), TrimAt: at(250), Until: at(300)})
			_, err = e.Rewrap(e.ctx, l, []ledger.Rewrap{indexRewrap(3)})
			e.refused(err, blobd.ErrConflict)
		}},
		{"one call takes 1 to 256 items", func(e *env) {
			l := e.raised(1, 2)
			for _, items := range [][]ledger.Rewrap{nil, make([]ledger.Rewrap, 257)} {
				_, err := e.Rewrap(e.ctx, l, items)
				e.refused(err, blobd.ErrInvalid)
			}
		}},
		{"an epoch is not complete while a wrap is below its version", func(e *env) {
			e.put(1, 1)
			l := e.raised(1, 2)
			done := ledger.EpochMove{To: ledger.EpochWaiting, At: at(210), TrimAt: at(900), Due: at(900)}
			e.refused(e.MoveEpoch(e.ctx, l, done), blobd.ErrConflict)
			e.rewrap(l, 1, indexRewrap(2))
			e.refused(e.MoveEpoch(e.ctx, l, done), blobd.ErrConflict)
			e.equal("state", e.epoch(1).State, ledger.EpochRewrapping)
			e.rewrap(l, 1, rewrapOf(1, 2))
			e.move(l, done)
		}},
		{"an erased execution has no wrap to wait for", func(e *env) {
			e.put(1, 1)
			l := e.raised(1, 2)
			e.rewrap(l, 1, indexRewrap(2))
			e.fence(fenceOf(1, 1))
			e.move(l, ledger.EpochMove{To: ledger.EpochWaiting, At: at(210), TrimAt: at(900), Due: at(900)})
		}},
	}
}

func horizonSentences() []sentence {
	return []sentence{
		{"an erasure tells the version of the key at its fence", func(e *env) {
			for x := range 2 {
				c := capture(x, start, newBlob(2*x), newBlob(2*x+1))
				c.Key.Version = uint32(4 + x)
				e.commit(c)
			}
			whole, rec := e.fence(fenceOf(1, 0))
			e.equal("of an execution", []uint32{whole.Wrap, rec.Wrap}, []uint32{4, 4})
			refs, rec := e.fence(fenceOf(2, 1, refOf(2)))
			e.equal("of refs", []uint32{refs.Wrap, rec.Wrap}, []uint32{5, 5})
			e.equal("read back", e.erasure(erasureID(1)).Wrap, uint32(4))
		}},
		{"of an execution erased before it is that of its erasures", func(e *env) {
			c := capture(1, start, newBlob(1))
			c.Key.Version = 6
			e.commit(c)
			e.fence(fenceOf(1, 1))
			again, _ := e.fence(fenceOf(2, 1))
			e.equal("version", again.Wrap, uint32(6))
		}},
		{"of an execution without a row it is the tenant's minimum", func(e *env) {
			e.raised(1, 3)
			none, _ := e.fence(fenceOf(1, 1))
			e.equal("version", none.Wrap, uint32(3))
		}},
		{"a replayed erasure has the newer of its record and the row", func(e *env) {
			for x := range 2 {
				c := capture(x, start, newBlob(x))
				c.Key.Version = 4
				e.commit(c)
			}
			record := func(x int, wrap uint32) ledger.Record {
				return ledger.Record{
					Seq: int64(x) + 1, Kind: ledger.RecordFence, At: at(2), Tenant: tenant, Tag: tagOf(x), ErasureID: erasureID(x), Wrap: wrap,
				}
			}
			e.replay(record(0, 2), record(1, 7), record(2, 9))
			for x, want := range []uint32{4, 7, 9} {
				e.equal("version", e.erasure(erasureID(x)).Wrap, want)
			}
		}},
		{"a replayed erasure of refs without a row marks the execution", func(e *env) {
			e.put(1, 1)
			e.replay(ledger.Record{
				Seq: 4, Kind: ledger.RecordErase, At: at(2), Tenant: tenant, Tag: tagOf(1), Refs: refsOf(8, 9), ErasureID: erasureID(1),
			})
			e.equal("lost", e.wraps(2)[1].LostBlob, true)
		}},
		{"an erasure that found no row marks nothing", func(e *env) {
			e.put(1, 1)
			e.fence(fenceOf(1, 1, refOf(8)))
			e.equal("lost", e.wraps(2)[1].LostBlob, false)
		}},
	}
}
