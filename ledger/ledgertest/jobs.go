package ledgertest

import (
	"bytes"
	"slices"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

const second = time.Second

var nilBytes []byte

func (e *env) finish(j ledger.Job) {
	e.Helper()
	e.tombstone(j)
	e.must(e.Finish(e.ctx, j.Lease, ledger.Progress{ObjectsDeleted: 1}, at(25), nil))
}

// tombstone ends the rows of a job's scope.
func (e *env) tombstone(j ledger.Job) {
	e.Helper()
	left, err := e.Tombstone(e.ctx, j.Lease, 1000)
	e.must(err)
	e.equal("left", left, 0)
}

// stale checks that no method takes a lease, and that none of them changes
// anything.
func (e *env) stale(l ledger.Lease) {
	e.Helper()
	before, entries := e.erasure(l.ErasureID), len(e.entries())
	es := []ledger.Entry{entry(ledger.EntryErasure)}
	p := ledger.Progress{ObjectsDeleted: 99}
	e.refused(e.Postpone(e.ctx, l, at(90), p, es), blobd.ErrConflict)
	e.refused(e.Renew(e.ctx, l, at(90)), blobd.ErrConflict)
	e.refused(e.Finish(e.ctx, l, p, at(90), es), blobd.ErrConflict)
	_, err := e.Tombstone(e.ctx, l, 10)
	e.refused(err, blobd.ErrConflict)
	_, _, err = e.DropKeys(e.ctx, l, 10)
	e.refused(err, blobd.ErrConflict)
	e.equal("erasure", e.erasure(l.ErasureID), before)
	e.equal("entries", len(e.entries()), entries)
}

func (e *env) erasure(id string) ledger.Erasure {
	e.Helper()
	got, err := e.Erasure(e.ctx, tenant, id)
	e.must(err)
	return got
}

func jobSentences() []sentence {
	return []sentence{
		{"an erasure is a job that is due at its run time", func(e *env) {
			e.put(1, 1)
			want, _ := e.fence(fenceOf(1, 1))
			_, err := e.Claim(e.ctx, "worker", at(10).Add(-time.Microsecond), at(30))
			e.refused(err, blobd.ErrNotFound)
			j, err := e.Claim(e.ctx, "worker", at(10), at(30))
			e.must(err)
			want.Attempts = 1
			e.equal("job", j, ledger.Job{
				Erasure: want, Lease: ledger.Lease{ErasureID: erasureID(1), Owner: "worker", Term: 1, Until: at(30)},
			})
		}},
		{"what is due first is claimed first", func(e *env) {
			for i, run := range []int{14, 12, 13, 12} {
				f := fenceOf(i, i)
				f.RunAt = at(run)
				e.fence(f)
			}
			for _, want := range []int{1, 3, 2, 0} {
				e.equal("claimed", e.claim().Erasure.ID, erasureID(want))
			}
			_, err := e.Claim(e.ctx, "worker", at(20), at(30))
			e.refused(err, blobd.ErrNotFound)
		}},
		{"without a job that is due it is not found", func(e *env) {
			_, err := e.Claim(e.ctx, "worker", at(20), at(30))
			e.refused(err, blobd.ErrNotFound)
		}},
		{"a leased job is nobody else's until the lease ends", func(e *env) {
			e.fence(fenceOf(1, 1))
			e.claim()
			_, err := e.Claim(e.ctx, "other", at(30).Add(-time.Microsecond), at(40))
			e.refused(err, blobd.ErrNotFound)
			j, err := e.Claim(e.ctx, "other", at(30), at(40))
			e.must(err)
			e.equal("lease", j.Lease, ledger.Lease{ErasureID: erasureID(1), Owner: "other", Term: 2, Until: at(40)})
			e.equal("attempts", j.Erasure.Attempts, int64(2))
		}},
		{"a stale lease is a conflict everywhere and changes nothing", func(e *env) {
			e.put(1, 1)
			e.fence(fenceOf(1, 1))
			old := e.claim()
			_, err := e.Claim(e.ctx, "worker", at(30), at(40)) // the same owner, a later term
			e.must(err)
			e.stale(old.Lease)
			e.equal("row", e.state(1, 1), ledger.BlobLive)
		}},
		{"another's lease is a conflict", func(e *env) {
			e.fence(fenceOf(1, 1))
			l := e.claim().Lease
			l.Owner = "other"
			e.stale(l)
		}},
		{"postponing keeps progress, moves the due time and ends the lease", func(e *env) {
			e.fence(fenceOf(1, 1))
			j := e.claim()
			entries := len(e.entries())
			p := ledger.Progress{
				KeysDestroyed: 1, ObjectsDeleted: 2, VersionsDeleted: 3, Failed: 4, Remaining: 5,
				Settled: true, Swept: true, LastError: "unavailable", Residuals: []string{"archives"},
				Refused: []ledger.Refused{
					{Ref: refOf(1), Version: "v", Reason: "COMPLIANCE", Until: at(99)}, {Reason: "LEGAL_HOLD"},
				},
			}
			e.must(e.Postpone(e.ctx, j.Lease, at(50), p, []ledger.Entry{entry(ledger.EntryErasure)}))
			e.equal("progress", e.erasure(erasureID(1)).Progress, p)
			e.equal("entries", len(e.entries()), entries+1)
			e.stale(j.Lease)
			_, err := e.Claim(e.ctx, "other", at(50).Add(-time.Microsecond), at(60))
			e.refused(err, blobd.ErrNotFound)
			again, err := e.Claim(e.ctx, "other", at(50), at(60))
			e.must(err)
			e.equal("term", again.Lease.Term, int64(2))
			e.equal("progress", again.Erasure.Progress, p)
		}},
		{"renewing extends the lease", func(e *env) {
			e.fence(fenceOf(1, 1))
			j := e.claim()
			e.must(e.Renew(e.ctx, j.Lease, at(45)))
			_, err := e.Claim(e.ctx, "other", at(40), at(60))
			e.refused(err, blobd.ErrNotFound)
			e.tombstone(j)
			_, err = e.Claim(e.ctx, "other", at(45), at(60))
			e.must(err)
			e.stale(j.Lease)
		}},
		{"the open erasures are counted, and the oldest told however late it is due", func(e *env) {
			e.equal("none", e.stats().OldestErasure, time.Time{})
			for i, run := range []int{12, 14} {
				f := fenceOf(i, i)
				f.At, f.RunAt = at(9-i), at(run)
				e.fence(f)
			}
			e.equal("open", e.stats().ErasuresOpen, int64(2))
			e.equal("oldest", e.stats().OldestErasure, at(8))
			e.finish(e.claim())
			e.equal("open", e.stats().ErasuresOpen, int64(1))
			e.equal("oldest", e.stats().OldestErasure, at(8))
		}},
		{"an erasure that waits is open and does not run; one that was denied or cancelled is not open", func(e *env) {
			e.scene()
			e.asked(1, 1, executionScope(1))
			grace, deferred := eraseOf(2, executionScope(2)), eraseOf(3, subjectScope(1))
			grace.GraceUntil, deferred.DeferUntil = at(60), at(60)
			e.fence(grace)
			e.fence(deferred)
			e.equal("waiting", e.stats().ErasuresOpen, int64(3))
			e.equal("oldest", e.stats().OldestErasure, time.Time{})
			e.decide(decisionOf(1, ledger.ActDeny, "dan"))
			e.decide(decisionOf(2, ledger.ActCancel, "dan"))
			e.equal("ended", e.stats().ErasuresOpen, int64(1))
		}},
	}
}

func tombstoneSentences() []sentence {
	return []sentence{
		{"tombstones of an execution hold no content facts and no repeat tag", func(e *env) {
			b := newBlob(1)
			b.Audience = [][32]byte{hash("audience", 1)}
			c := capture(1, start, b)
			c.Subjects = [][32]byte{subjectOf(1)}
			e.commit(c)
			e.fence(fenceOf(1, 1))
			e.tombstone(e.claim())
			e.equal("row", e.blob(1, 1), &ledger.Blob{Ref: refOf(1), State: ledger.BlobErased, CreatedAt: start})
			e.equal("subjects", len(e.subjects(1, 1)), 0)
			if e.repeat(1, 1) != nil {
				e.Fatal("the repeat tag was not released")
			}
		}},
		{"tombstones of refs keep the repeat tag and spare the other rows", func(e *env) {
			c := capture(1, start, newBlob(1), newBlob(2))
			c.Subjects = [][32]byte{subjectOf(1)}
			e.commit(c)
			other := e.blob(1, 2)
			e.fence(fenceOf(1, 1, refOf(1)))
			e.tombstone(e.claim())
			e.equal("row", e.blob(1, 1),
				&ledger.Blob{Ref: refOf(1), State: ledger.BlobErased, CreatedAt: start, Repeat: repeatOf(1)})
			e.equal("repeat", e.repeat(1, 1).State, ledger.BlobErased)
			e.equal("other row", e.blob(1, 2), other)
			e.equal("subjects", len(e.subjects(1, 1)), 0)
			e.equal("subjects of the other", len(e.subjects(1, 2)), 1)
		}},
		{"an execution's erasure releases the tags that an erasure of refs kept", func(e *env) {
			e.put(1, 1)
			e.fence(fenceOf(1, 1, refOf(1)))
			e.finish(e.claim())
			e.fence(fenceOf(2, 1))
			e.finish(e.claim())
			if e.repeat(1, 1) != nil {
				e.Fatal("the repeat tag was not released")
			}
		}},
		{"at most the limit is turned, and what is left is told up to the limit", func(e *env) {
			var blobs []ledger.NewBlob
			for n := range 10 {
				blobs = append(blobs, newBlob(n))
			}
			e.commit(capture(1, start, blobs...))
			e.fence(fenceOf(1, 1))
			j := e.claim()
			for _, want := range []int{6, 2, 0, 0} {
				left, err := e.Tombstone(e.ctx, j.Lease, 4)
				e.must(err)
				e.equal("left", left, min(want, 4))
				live := 0
				for n := range 10 {
					if e.state(1, n) == ledger.BlobLive {
						live++
					}
				}
				e.equal("live rows", live, want)
			}
			_, err := e.Tombstone(e.ctx, j.Lease, 0)
			e.refused(err, blobd.ErrInvalid)
		}},
		{"rows of every state but collected become tombstones", func(e *env) {
			e.maximum("reasoning", 5*second)
			e.commit(capture(1, start, newBlob(1), newBlob(2)))
			e.commit(capture(1, at(6), again(1, 3)))
			e.must(e.AcceptLoss(e.ctx, tagOf(1), refOf(2), at(7), entry(ledger.EntryRecovery)))
			_, err := e.EnterMissing(e.ctx, []ledger.Position{position(1, 4)}, at(7))
			e.must(err)
			e.must(e.Collect(e.ctx, position(1, 5), at(7)))
			e.fence(fenceOf(1, 1))
			e.finish(e.claim())
			for n := 1; n < 5; n++ {
				e.equal("state", e.state(1, n), ledger.BlobErased)
			}
			e.equal("collected", e.state(1, 5), ledger.BlobCollected)
		}},
		{"rows that came behind the place are left, also where none is after it", func(e *env) {
			byRef := []int{0, 1, 2, 3, 4, 5}
			slices.SortFunc(byRef, func(a, b int) int { ra, rb := refOf(a), refOf(b); return bytes.Compare(ra[:], rb[:]) })
			e.commit(capture(1, start, newBlob(byRef[4]), newBlob(byRef[5])))
			e.fence(fenceOf(1, 1))
			j := e.claim()
			tombstone := func() int {
				e.Helper()
				left, err := e.Tombstone(e.ctx, j.Lease, 1)
				e.must(err)
				return left
			}
			e.equal("left", tombstone(), 1)
			var behind []ledger.Position
			for _, n := range byRef[:4] {
				behind = append(behind, position(1, n))
			}
			_, err := e.EnterMissing(e.ctx, behind, at(21))
			e.must(err)
			for range 4 {
				e.equal("left", tombstone(), 1)
			}
			rounds := 5 // a step may find the end and nothing else
			for tombstone() > 0 {
				if rounds++; rounds > 9 {
					e.Fatal("rows stay")
				}
			}
			for n := range 6 {
				e.equal("state", e.state(1, n), ledger.BlobErased)
			}
			e.must(e.Finish(e.ctx, j.Lease, ledger.Progress{}, at(25), nil))
		}},
		{"rows that came behind the last tombstone are found too", func(e *env) {
			e.commit(capture(1, start, newBlob(1), newBlob(2), newBlob(3)))
			e.fence(fenceOf(1, 1))
			j := e.claim()
			_, err := e.Tombstone(e.ctx, j.Lease, 2)
			e.must(err)
			var objects []ledger.Position
			for n := 10; n < 30; n++ {
				objects = append(objects, position(1, n))
			}
			_, err = e.EnterMissing(e.ctx, objects, at(21))
			e.must(err)
			for rounds := 0; ; rounds++ {
				left, err := e.Tombstone(e.ctx, j.Lease, 7)
				e.must(err)
				if left == 0 {
					break
				}
				if rounds > 10 {
					e.Fatalf("%d rows stay", left)
				}
			}
			e.finish(j)
		}},
	}
}

func finishSentences() []sentence {
	return []sentence{
		{"finishing moves the job to erased with its progress and evidence", func(e *env) {
			e.put(1, 1)
			e.fence(fenceOf(1, 1))
			j := e.claim()
			e.tombstone(j)
			entries := len(e.entries())
			p := ledger.Progress{KeysDestroyed: 1, ObjectsDeleted: 1, VersionsDeleted: 2, Settled: true, Swept: true}
			e.must(e.Finish(e.ctx, j.Lease, p, at(25), []ledger.Entry{entry(ledger.EntryErasure)}))
			got := e.erasure(erasureID(1))
			e.equal("state", got.State, ledger.ErasureErased)
			e.equal("erased at", got.ErasedAt, at(25))
			e.equal("progress", got.Progress, p)
			e.equal("entries", len(e.entries()), entries+1)
			e.stale(j.Lease)
			_, err := e.Claim(e.ctx, "worker", at(99), at(100))
			e.refused(err, blobd.ErrNotFound)
		}},
		{"while rows are left it is a conflict", func(e *env) {
			e.commit(capture(1, start, newBlob(1), newBlob(2)))
			e.fence(fenceOf(1, 1))
			j := e.claim()
			e.refused(e.Finish(e.ctx, j.Lease, ledger.Progress{}, at(25), nil), blobd.ErrConflict)
			_, err := e.Tombstone(e.ctx, j.Lease, 1)
			e.must(err)
			e.refused(e.Finish(e.ctx, j.Lease, ledger.Progress{}, at(25), nil), blobd.ErrConflict)
			e.equal("state", e.erasure(erasureID(1)).State, ledger.ErasureRunning)
			e.finish(j)
		}},
		{"while rows of named refs are left it is a conflict", func(e *env) {
			e.commit(capture(1, start, newBlob(1), newBlob(2)))
			e.fence(fenceOf(1, 1, refOf(1)))
			j := e.claim()
			e.refused(e.Finish(e.ctx, j.Lease, ledger.Progress{}, at(25), nil), blobd.ErrConflict)
			e.finish(j)
		}},
		{"while an earlier erasure of the execution runs it is a conflict", func(e *env) {
			e.put(1, 1)
			e.fence(fenceOf(1, 1))
			for i, f := range []ledger.Fence{fenceOf(2, 1), fenceOf(3, 1, refOf(1))} {
				f.RunAt = at(11 + i)
				e.fence(f)
			}
			first, second, third := e.claim(), e.claim(), e.claim()
			e.tombstone(first)
			for _, later := range []ledger.Job{second, third} {
				e.tombstone(later)
				e.refused(e.Finish(e.ctx, later.Lease, ledger.Progress{}, at(25), nil), blobd.ErrConflict)
			}
			e.finish(first)
			e.finish(second)
			e.finish(third)
		}},
		{"while an earlier erasure of the same ref runs it is a conflict", func(e *env) {
			e.commit(capture(1, start, newBlob(1), newBlob(2), newBlob(3)))
			e.fence(fenceOf(1, 1, refOf(1), refOf(2)))
			overlap, apart := fenceOf(2, 1, refOf(2), refOf(3)), fenceOf(3, 1, refOf(3))
			overlap.RunAt, apart.RunAt = at(11), at(12)
			e.fence(overlap)
			first, second := e.claim(), e.claim()
			e.tombstone(second)
			e.refused(e.Finish(e.ctx, second.Lease, ledger.Progress{}, at(25), nil), blobd.ErrConflict)
			e.finish(first)
			e.finish(second)
			e.fence(apart)
			e.finish(e.claim())
		}},
		{"an earlier erasure of other refs or another execution is no hindrance", func(e *env) {
			e.commit(capture(1, start, newBlob(1), newBlob(2)))
			e.put(2, 3)
			e.fence(fenceOf(1, 1, refOf(1)))
			e.fence(fenceOf(2, 2))
			later := fenceOf(3, 1, refOf(2))
			later.RunAt = at(9)
			e.fence(later)
			j := e.claim()
			e.equal("claimed", j.Erasure.ID, later.ID)
			e.finish(j)
		}},
	}
}
