package ledgertest

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

func dropSentences() []sentence {
	return slices.Concat(passSentences(), droppedRowsSentences(), finishClosingSentences())
}

// closed closes a scope by an erasure whose job it claims.
func (e *env) closed(id int, s ledger.Scope) ledger.Job {
	e.Helper()
	e.fence(eraseOf(id, s))
	j := e.claimAt(20)
	e.equal("claimed", []any{j.Erasure.ID, j.Erasure.Closing}, []any{erasureID(id), true})
	return j
}

func passSentences() []sentence {
	return []sentence{
		{"a pass drops exactly what its scope covers, in pages of any size", func(e *env) {
			for _, c := range sceneScopes() {
				for _, limit := range []int{1, 2, 100} {
					fresh := e.fresh()
					fresh.scene()
					fresh.putClass(8, 80, "free", start)
					fresh.hold(1, executionScope(8)) // of the tenant, so that the scope only closes
					if c.scope.Form().Bounded() {
						fresh.putTagged(c.covered[0], 20)
						fresh.hold(2, refScope(c.covered[0], 20))
						c.scope.Refs = append(c.scope.Refs, refOf(20))
						if c.form == "execution" {
							c.scope.Refs = nil
						}
					}
					j := fresh.closed(1, c.scope)
					dropped, kept := fresh.pass(j, limit)
					var want []blobd.Ref
					for _, n := range c.covered {
						want = append(want, refOf(n))
						b := fresh.blob(sceneBlobs[n], n)
						e.equal(c.form+": row", []any{b.State, b.WrappedKey, b.Repeat}, []any{ledger.BlobErased, nilBytes, repeatOf(n)})
					}
					e.equal(fmt.Sprintf("%s, pages of %d: dropped", c.form, limit), refsOfRows(dropped), sortedRefs(want...))
					e.equal(c.form+": counted", fresh.erasure(erasureID(1)).Dropped, int64(len(c.covered)))
					for n, x := range sceneBlobs {
						if !slices.Contains(c.covered, n) {
							e.equal(c.form+": not covered", fresh.state(x, n), ledger.BlobLive)
						}
					}
					keeps := map[string]int{"execution": 1, "refs": 1, "tenant": 1}[c.form]
					e.equal(c.form+": kept", len(kept), keeps)
					again, _ := fresh.pass(j, limit)
					e.equal(c.form+": a second pass", len(again), 0)
				}
			}
		}},
		{"a row that was dropped is told as it was", func(e *env) {
			e.scene()
			e.end(1, at(9))
			j := e.closed(1, subjectScope(1))
			dropped, _ := e.pass(j, 10)
			dropped[0].N = 0
			e.equal("dropped", dropped, []ledger.DueRow{{
				Position: position(1, 1), ExecutionID: idOf(1), Class: "reasoning", State: ledger.BlobLive, CreatedAt: start, EndedAt: at(9), Size: size(1),
			}})
		}},
		{"what is dropped comes off the counts", func(e *env) {
			e.scene()
			e.pass(e.closed(1, subjectScope(2)), 10)
			s := e.stats()
			e.equal("stats", []int64{s.Blobs, s.Bytes, s.Executions}, []int64{3, size(1) + size(4) + size(9), 4})
			x := e.summary(1)
			e.equal("execution", []any{x.Blobs, x.Bytes, x.Classes}, []any{int64(1), size(1), map[string]int64{"reasoning": 1}})
			e.equal("emptied", []int64{e.summary(2).Blobs, e.summary(2).Bytes}, []int64{0, 0})
			e.equal("listed by class", len(e.listExecutions(ledger.ExecutionQuery{Tenant: tenant, Class: "notes"})), 1)
		}},
		{"what is protected is kept and told, whatever protects it", func(e *env) {
			for _, h := range sceneScopes() {
				fresh := e.fresh()
				fresh.scene()
				fresh.hold(1, h.scope)
				j := fresh.closed(1, tenantScope())
				dropped, kept := fresh.pass(j, 2)
				e.equal(h.form+": dropped", len(dropped), 4-len(h.covered))
				slices.SortFunc(kept, func(a, b ledger.Kept) int { return bytes.Compare(a.Ref[:], b.Ref[:]) })
				var want []ledger.Kept
				for _, n := range h.covered {
					want = append(want, ledger.Kept{
						Position: position(sceneBlobs[n], n), ExecutionID: idOf(sceneBlobs[n]), Verdict: ledger.VerdictHeld,
						Extent: ledger.Extent{Blobs: 1, Bytes: size(n)},
					})
				}
				slices.SortFunc(want, func(a, b ledger.Kept) int { return bytes.Compare(a.Ref[:], b.Ref[:]) })
				e.equal(h.form+": kept", kept, want)
				fresh.intact(h.form, h.covered...)
			}
		}},
		{"a legal floor keeps until its end", func(e *env) {
			e.scene()
			e.floor("notes", 40*second)
			p := policyOf("reasoning", time.Hour)
			p.Floor, p.LegalBasis, p.Start = ledger.Period{Time: 5 * second}, "a law", ledger.StartEnded
			e.setPolicy(p)
			e.hold(1, refScope(1, 2))
			j := e.closed(1, subjectScope(1, 2))
			_, kept := e.pass(j, 10)
			want := map[int]ledger.Kept{
				1: {Verdict: ledger.VerdictFloor}, 2: {Verdict: ledger.VerdictHeld}, 3: {Verdict: ledger.VerdictFloor},
			}
			e.equal("kept", len(kept), 3)
			for _, k := range kept {
				for n, w := range want {
					if k.Ref == refOf(n) {
						e.equal(fmt.Sprint("kept ", n), []any{k.Verdict, k.Until}, []any{w.Verdict, w.Until})
					}
				}
			}
			e.lift(1, ledger.OrderHold)
			e.end(2, at(20))
			dropped, kept := e.pass(j, 10)
			e.equal("past its floor", refsOfRows(dropped), refsOf(3, 4))
			for _, k := range kept {
				until := map[blobd.Ref]time.Time{refOf(1): {}, refOf(2): at(40)}[k.Ref]
				e.equal("until", []any{k.Verdict, k.Until}, []any{ledger.VerdictFloor, until})
			}
			d := dropOf(10)
			d.At = at(40).Add(-time.Microsecond)
			done, err := e.Drop(e.ctx, j.Lease, d)
			e.must(err)
			e.equal("before the end", len(done.Dropped), 0)
			d.At = at(40)
			done, err = e.Drop(e.ctx, j.Lease, d)
			e.must(err)
			e.equal("at the end", refsOfRows(done.Dropped), refsOf(2, 3))
		}},
		{"live, missing, lost, superseded and expired rows are dropped; tombstones and collected ones are not", func(e *env) {
			e.maximum("reasoning", 5*second)
			for n := 1; n < 6; n++ {
				e.put(1, n)
			}
			e.commit(capture(1, at(6), again(1, 9))) // supersedes 1
			e.must(e.AcceptLoss(e.ctx, tagOf(1), refOf(2), at(6), entry(ledger.EntryRecovery)))
			e.fence(fenceOf(9, 1, refOf(3)))
			e.finish(e.claimAt(20))
			e.clock.set(at(7))
			s := e.sweep(1)
			e.expire(s, 2, position(1, 4), position(1, 5))
			e.bury(s, 1, position(1, 5))
			_, err := e.EnterMissing(e.ctx, []ledger.Position{position(1, 6)}, at(7))
			e.must(err)
			e.must(e.Collect(e.ctx, position(1, 7), at(7)))
			e.put(1, 8)
			e.hold(1, refScope(1, 8))
			j := e.closed(1, executionScope(1))
			dropped, kept := e.pass(j, 3)
			e.equal("dropped", refsOfRows(dropped), sortedRefs(refOf(1), refOf(2), refOf(4), refOf(6), refOf(9)))
			states := map[blobd.Ref]ledger.BlobState{}
			for _, r := range dropped {
				states[r.Ref] = r.State
			}
			e.equal("states", states, map[blobd.Ref]ledger.BlobState{
				refOf(1): ledger.BlobSuperseded, refOf(2): ledger.BlobLost, refOf(4): ledger.BlobExpired, refOf(6): ledger.BlobMissing, refOf(9): ledger.BlobLive,
			})
			e.equal("kept", []any{len(kept), kept[0].Position}, []any{1, position(1, 8)})
			for _, n := range []int{1, 2, 4, 6, 9} {
				e.equal("state", e.state(1, n), ledger.BlobErased)
			}
			e.equal("others", []ledger.BlobState{e.state(1, 5), e.state(1, 7)}, []ledger.BlobState{ledger.BlobExpired, ledger.BlobCollected})
			e.equal("to delete", e.droppedRows(erasureID(1)), sortedPositions(position(1, 1), position(1, 2), position(1, 4), position(1, 6), position(1, 9)))
			e.equal("counts", []int64{e.summary(1).Blobs, e.summary(1).Bytes}, []int64{1, size(8)})
		}},
		{"the evidence of what was dropped is inserted with it, and of nothing there is none", func(e *env) {
			e.scene()
			j := e.closed(1, subjectScope(1, 2))
			before := len(e.entries())
			e.pass(j, 2)
			first := e.bodies(before)
			total := 0
			for _, b := range first {
				var n int
				if _, err := fmt.Sscanf(b, `{"dropped":%d}`, &n); err != nil || n == 0 {
					e.Fatalf("entry %s", b)
				}
				total += n
			}
			e.equal("told", total, 3)
			e.pass(j, 2)
			e.equal("entries", len(e.entries()), before+len(first))
		}},
		{"an entry that cannot be made undoes the page", func(e *env) {
			e.scene()
			j := e.closed(1, subjectScope(1))
			before := e.whole()
			d := dropOf(10)
			d.Entry = func([]ledger.DueRow) (ledger.Entry, error) { return ledger.Entry{}, blobd.ErrCorrupt }
			_, err := e.Drop(e.ctx, j.Lease, d)
			e.refused(err, blobd.ErrCorrupt)
			e.equal("the ledger", e.whole(), before)
			e.equal("to delete", len(e.droppedRows(erasureID(1))), 0)
		}},
		{"a page has bounds, and a stale lease is a conflict", func(e *env) {
			e.scene()
			j := e.closed(1, subjectScope(1))
			for _, limit := range []int{0, -1, ledger.MaxExpiry + 1} {
				_, err := e.Drop(e.ctx, j.Lease, dropOf(limit))
				e.refused(err, blobd.ErrInvalid)
			}
			stale := j.Lease
			stale.Term++
			_, err := e.Drop(e.ctx, stale, dropOf(10))
			e.refused(err, blobd.ErrConflict)
			stale = j.Lease
			stale.Owner = "other"
			_, err = e.Drop(e.ctx, stale, dropOf(10))
			e.refused(err, blobd.ErrConflict)
			e.intact("refused", 1)
			_, err = e.Drop(e.ctx, j.Lease, dropOf(ledger.MaxExpiry))
			e.must(err)
		}},
		{"rows that come while it runs are found by the next pass", func(e *env) {
			e.scene()
			e.hold(1, refScope(1, 2))
			j := e.closed(1, executionScope(1))
			e.pass(j, 10)
			_, err := e.EnterMissing(e.ctx, []ledger.Position{position(1, 30)}, at(22))
			e.must(err)
			dropped, _ := e.pass(j, 10)
			e.equal("dropped", refsOfRows(dropped), refsOf(30, 31))
		}},
		{"an execution that lost a blob gets a new key in its next epoch, and the erasure tells its key's version", func(e *env) {
			e.tenant("gamma", 1)
			for x := 1; x <= 2; x++ {
				c := sceneCapture(x, x, "notes", 0, start)
				c.Tenant, c.Key.Version = "gamma", uint32(3+x)
				e.commit(c)
			}
			f := eraseOf(1, ledger.Scope{Tenant: "gamma", Class: "notes"})
			got, _ := e.fence(f)
			e.equal("wrap before", got.Wrap, uint32(1))
			j := e.claimAt(20)
			d := dropOf(10)
			_, err := e.Drop(e.ctx, j.Lease, d)
			e.must(err)
			got, err = e.Erasure(e.ctx, "gamma", f.ID)
			e.must(err)
			e.equal("wrap", got.Wrap, uint32(5))
			wraps, err := e.Wraps(e.ctx, ledger.WrapQuery{Tenant: "gamma", Below: 99, Limit: 10})
			e.must(err)
			lost := 0
			for _, w := range wraps {
				if w.LostBlob {
					lost++
				}
			}
			e.equal("lost a blob", lost, 2)
		}},
		{"what it finds erased counts for the version of the keys too", func(e *env) {
			e.tenant("gamma", 1)
			for x, refs := range map[int][]blobd.Ref{1: refsOf(1, 2), 2: nil} {
				class := fmt.Sprint("class-", x)
				c := sceneCapture(x, x, class, 0, start)
				c.Tenant, c.Key.Version = "gamma", uint32(3+x)
				e.commit(c)
				earlier := fenceOf(x, x, refs...) // of the ref, or of the execution
				earlier.Scope.Tenant, earlier.RunAt = "gamma", at(5000)
				e.fence(earlier)
				f := eraseOf(10+x, ledger.Scope{Tenant: "gamma", Class: class})
				got, _ := e.fence(f)
				e.equal("wrap before", got.Wrap, uint32(1))
				_, err := e.Drop(e.ctx, e.claimAt(20).Lease, dropOf(10))
				e.must(err)
				got, err = e.Erasure(e.ctx, "gamma", f.ID)
				e.must(err)
				e.equal("wrap", []any{got.Wrap, got.Dropped}, []any{uint32(3 + x), int64(0)})
			}
		}},
		{"a repeat of what was dropped is refused as erased, once the closing ended", func(e *env) {
			e.scene()
			e.hold(1, refScope(1, 1))
			e.pass(e.closed(1, executionScope(1)), 10)
			e.refusedCommit(capture(1, at(22), again(2, 30)), blobd.ErrClosed)
			e.equal("repeat", e.repeat(1, 2).State, ledger.BlobErased)
		}},
	}
}
