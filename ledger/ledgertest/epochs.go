package ledgertest

import (
	"fmt"
	"time"

	"pgregory.net/rapid"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

func epochID(n int) string { return fmt.Sprintf("epoch-%03d", n) }

func newEpoch(n int) ledger.NewEpoch {
	return ledger.NewEpoch{ID: epochID(n), Tenant: tenant, At: at(100 + n), Entry: entry(ledger.EntryKeys)}
}

func (e *env) startEpoch(n int) ledger.Epoch {
	e.Helper()
	got, err := e.StartEpoch(e.ctx, newEpoch(n))
	e.must(err)
	return got
}

func (e *env) claimEpoch() ledger.EpochJob {
	e.Helper()
	j, err := e.ClaimEpoch(e.ctx, "worker", at(200), at(300))
	e.must(err)
	return j
}

// epochLease is the lease that claimEpoch gives of the first epoch.
var epochLease = ledger.EpochLease{EpochID: epochID(1), Owner: "worker", Term: 1, Until: at(300)}

func (e *env) move(l ledger.EpochLease, m ledger.EpochMove) {
	e.Helper()
	e.must(e.MoveEpoch(e.ctx, l, m))
}

// raised starts and claims the n-th epoch and raises the minimum to a version.
func (e *env) raised(n int, version uint32) ledger.EpochLease {
	e.Helper()
	e.startEpoch(n)
	l := e.claimEpoch().Lease
	e.move(l, ledger.EpochMove{To: ledger.EpochRotating, From: version - 1, Until: at(300)})
	e.move(l, ledger.EpochMove{To: ledger.EpochRewrapping, Version: version, Until: at(300)})
	return l
}

func (e *env) epoch(n int) ledger.Epoch {
	e.Helper()
	es, err := e.ListEpochs(e.ctx, ledger.EpochQuery{Tenant: tenant, Limit: 1000})
	e.must(err)
	for _, got := range es {
		if got.ID == epochID(n) {
			return got
		}
	}
	e.Fatalf("no epoch %d", n)
	return ledger.Epoch{}
}

func (e *env) wraps(below uint32) []ledger.Wrap {
	e.Helper()
	ws, err := e.Wraps(e.ctx, ledger.WrapQuery{Tenant: tenant, Below: below, Limit: 1000})
	e.must(err)
	return ws
}

// rewrap replaces wraps and checks how many it could.
func (e *env) rewrap(l ledger.EpochLease, want int, items ...ledger.Rewrap) {
	e.Helper()
	done, err := e.Rewrap(e.ctx, l, items)
	e.must(err)
	e.equal("replaced", done, want)
}

// newWrap is a key as a version wraps it: as long as the one before.
func newWrap(k ledger.WrappedKey, version uint32) ledger.WrappedKey {
	h := hash("wrap"+string(k.ID[:]), int(version))
	return ledger.WrappedKey{ID: k.ID, Version: version, Ciphertext: h[:len(k.Ciphertext)]}
}

// rewrapOf re-wraps the x-th execution as it is in its first epoch.
func rewrapOf(x int, version uint32) ledger.Rewrap {
	return ledger.Rewrap{Tag: tagOf(x), Old: keyOf(x), New: newWrap(keyOf(x), version)}
}

func indexRewrap(version uint32) ledger.Rewrap {
	old := ledger.WrappedKey{Ciphertext: []byte("index key")}
	return ledger.Rewrap{Old: old, New: newWrap(old, version)}
}

// rekeyOf gives the x-th execution a new key, and the blobs that it lists keys
// wrapped by that.
func rekeyOf(x int, version uint32, blobs ...int) ledger.Rewrap {
	r := ledger.Rewrap{Tag: tagOf(x), Old: keyOf(x), New: newWrap(keyOf(x+100), version)}
	for _, n := range blobs {
		r.Blobs = append(r.Blobs, ledger.RewrapBlob{Ref: refOf(n), Old: newBlob(n).WrappedKey, New: rewrapped(n)})
	}
	return r
}

func rewrapped(n int) []byte {
	h := hash("rewrapped", n)
	return h[:]
}

// staleEpoch checks that no method takes a lease, and that none changes anything.
func (e *env) staleEpoch(l ledger.EpochLease) {
	e.Helper()
	before := e.whole()
	e.refused(e.MoveEpoch(e.ctx, l, ledger.EpochMove{To: ledger.EpochRotating, LastError: "x", Due: at(900)}), blobd.ErrConflict)
	e.refused(e.MoveEpoch(e.ctx, l, ledger.EpochMove{To: ledger.EpochRewrapping, Version: 9, Until: at(900)}), blobd.ErrConflict)
	_, err := e.Rewrap(e.ctx, l, []ledger.Rewrap{indexRewrap(9)})
	e.refused(err, blobd.ErrConflict)
	e.equal("the ledger", e.whole(), before)
}

func epochSentences() []sentence {
	return []sentence{
		{"an epoch is a job that is due at once", func(e *env) {
			entries := len(e.entries())
			want := ledger.Epoch{ID: epochID(1), Tenant: tenant, State: ledger.EpochRotating, StartedAt: at(101), RunAt: at(101)}
			e.equal("epoch", e.startEpoch(1), want)
			e.equal("entries", len(e.entries()), entries+1)
			_, err := e.ClaimEpoch(e.ctx, "worker", at(101).Add(-time.Microsecond), at(300))
			e.refused(err, blobd.ErrNotFound)
			want.Attempts = 1
			e.equal("job", e.claimEpoch(), ledger.EpochJob{Epoch: want, Lease: epochLease})
		}},
		{"the same id again changes nothing", func(e *env) {
			e.startEpoch(1)
			e.claimEpoch()
			before := e.whole()
			e.equal("epoch", e.startEpoch(1), e.epoch(1))
			e.equal("the ledger", e.whole(), before)
			e.tenant("beta", 0)
			n := newEpoch(1)
			n.Tenant = "beta"
			_, err := e.StartEpoch(e.ctx, n)
			e.refused(err, blobd.ErrConflict)
		}},
		{"an epoch of an unknown tenant or without an id is refused", func(e *env) {
			n := newEpoch(1)
			n.Tenant = "nobody"
			_, err := e.StartEpoch(e.ctx, n)
			e.refused(err, blobd.ErrNotFound)
			n = newEpoch(1)
			n.ID = ""
			_, err = e.StartEpoch(e.ctx, n)
			e.refused(err, blobd.ErrInvalid)
		}},
		{"a tenant has one epoch at a time that is not complete", func(e *env) {
			l := e.raised(1, 2)
			_, err := e.StartEpoch(e.ctx, newEpoch(2))
			e.refused(err, blobd.ErrConflict)
			e.tenant("beta", 0)
			n := newEpoch(3)
			n.Tenant = "beta"
			_, err = e.StartEpoch(e.ctx, n)
			e.must(err)
			e.rewrap(l, 1, indexRewrap(2))
			e.move(l, ledger.EpochMove{To: ledger.EpochWaiting, At: at(210), TrimAt: at(900), Due: at(900)})
			e.startEpoch(2)
		}},
		{"a leased epoch is nobody else's until the lease ends", func(e *env) {
			e.startEpoch(1)
			old := e.claimEpoch().Lease
			_, err := e.ClaimEpoch(e.ctx, "other", at(300).Add(-time.Microsecond), at(400))
			e.refused(err, blobd.ErrNotFound)
			e.move(old, ledger.EpochMove{To: ledger.EpochRotating, Until: at(310)})
			_, err = e.ClaimEpoch(e.ctx, "other", at(309), at(400))
			e.refused(err, blobd.ErrNotFound)
			j, err := e.ClaimEpoch(e.ctx, "worker", at(310), at(400)) // the same owner, a later term
			e.must(err)
			e.equal("lease", j.Lease, ledger.EpochLease{EpochID: epochID(1), Owner: "worker", Term: 2, Until: at(400)})
			e.staleEpoch(old)
			other := j.Lease
			other.Owner = "other"
			e.staleEpoch(other)
		}},
		{"a move without a lease time ends the lease and moves the due time", func(e *env) {
			e.startEpoch(1)
			l := e.claimEpoch().Lease
			entries := len(e.entries())
			e.move(l, ledger.EpochMove{
				To: ledger.EpochRotating, From: 4, Due: at(350), LastError: "unavailable", Entries: []ledger.Entry{entry(ledger.EntryKeys)},
			})
			e.equal("entries", len(e.entries()), entries+1)
			e.staleEpoch(l)
			got := e.epoch(1)
			e.equal("epoch", []any{got.From, got.LastError, got.RunAt}, []any{uint32(4), "unavailable", at(350)})
			_, err := e.ClaimEpoch(e.ctx, "worker", at(350).Add(-time.Microsecond), at(400))
			e.refused(err, blobd.ErrNotFound)
			_, err = e.ClaimEpoch(e.ctx, "worker", at(350), at(400))
			e.must(err)
		}},
		{"what is due first is claimed first", func(e *env) {
			for i, id := range []string{"alpha", "beta", "gamma"} {
				e.tenant(id, 0)
				n := newEpoch(i)
				n.Tenant, n.At = id, at([]int{103, 101, 102}[i])
				_, err := e.StartEpoch(e.ctx, n)
				e.must(err)
			}
			for _, want := range []string{"beta", "gamma", "alpha"} {
				e.equal("claimed", e.claimEpoch().Epoch.Tenant, want)
			}
			_, err := e.ClaimEpoch(e.ctx, "worker", at(200), at(300))
			e.refused(err, blobd.ErrNotFound)
		}},
		{"the raise is seen by every new key and never lowered", func(e *env) {
			e.put(1, 1) // wrapped by version 1
			l := e.raised(1, 3)
			c := capture(2, start, newBlob(2))
			c.Key.Version = 2
			_, err := e.Commit(e.ctx, c)
			e.refused(err, blobd.ErrConflict)
			c.Key.Version = 3
			e.commit(c)
			e.put(1, 3) // a key in use goes on
			e.equal("minimum", e.lookup(1, refOf(1)).MinimumWrap, uint32(3))
			t, err := e.Tenant(e.ctx, tenant)
			e.must(err)
			e.equal("minimum", t.MinimumWrap, uint32(3))
			e.equal("total", e.epoch(1).Total, int64(2)) // the index key and the first execution
			e.tenant("beta", 7)
			n := newEpoch(2)
			n.Tenant = "beta"
			_, err = e.StartEpoch(e.ctx, n)
			e.must(err)
			e.move(l, ledger.EpochMove{To: ledger.EpochRewrapping, Until: at(300)})
			j := e.claimEpoch()
			e.move(j.Lease, ledger.EpochMove{To: ledger.EpochRewrapping, Version: 5, Until: at(300)})
			t, err = e.Tenant(e.ctx, "beta")
			e.must(err)
			e.equal("minimum", t.MinimumWrap, uint32(7))
		}},
		{"a version that is not past the one before is invalid", func(e *env) {
			e.startEpoch(1)
			l := e.claimEpoch().Lease
			before := e.whole()
			for _, m := range []ledger.EpochMove{
				{To: ledger.EpochRewrapping, Until: at(300)}, {To: ledger.EpochRewrapping, From: 4, Version: 4, Until: at(300)},
			} {
				e.refused(e.MoveEpoch(e.ctx, l, m), blobd.ErrInvalid)
			}
			e.equal("the ledger", e.whole(), before)
		}},
		{"no other move is legal", func(e *env) {
			states := []ledger.EpochState{0, ledger.EpochRotating, ledger.EpochRewrapping, ledger.EpochWaiting, ledger.EpochTrimmed}
			e.startEpoch(1)
			l := e.claimEpoch().Lease
			for i, from := range states[1:] {
				if i > 0 {
					e.move(l, ledger.EpochMove{To: from, Version: 2, Until: at(300), At: at(210), TrimAt: at(220)})
				}
				if from == ledger.EpochRewrapping {
					e.rewrap(l, 1, indexRewrap(2))
				}
				for _, to := range states {
					if to == from && from != ledger.EpochTrimmed || ledger.Legal(ledger.EpochMoves(), from, to) {
						continue
					}
					e.refused(e.MoveEpoch(e.ctx, l, ledger.EpochMove{To: to, Version: 3, Until: at(300)}), blobd.ErrConflict)
					e.equal("state", e.epoch(1).State, from)
				}
			}
		}},
		{"an epoch that waits is due when it may trim and ends trimmed", func(e *env) {
			l := e.raised(1, 2)
			e.rewrap(l, 1, indexRewrap(2))
			e.move(l, ledger.EpochMove{To: ledger.EpochWaiting, At: at(210), TrimAt: at(900), Due: at(900)})
			_, err := e.ClaimEpoch(e.ctx, "worker", at(899), at(950))
			e.refused(err, blobd.ErrNotFound)
			j, err := e.ClaimEpoch(e.ctx, "worker", at(900), at(950))
			e.must(err)
			e.move(j.Lease, ledger.EpochMove{To: ledger.EpochTrimmed, At: at(910), Until: at(990)})
			want := ledger.Epoch{
				ID: epochID(1), Tenant: tenant, State: ledger.EpochTrimmed, From: 1, Version: 2, Total: 1, Rewrapped: 1, Attempts: 2,
				StartedAt: at(101), CompletedAt: at(210), TrimAt: at(900), TrimmedAt: at(910), RunAt: at(900),
			}
			e.equal("epoch", e.epoch(1), want)
			e.staleEpoch(j.Lease)
			_, err = e.ClaimEpoch(e.ctx, "worker", at(5000), at(6000))
			e.refused(err, blobd.ErrNotFound)
		}},
		{"epochs are listed newest first", func(e *env) {
			for n := range 3 {
				e.startEpoch(n)
				l := e.claimEpoch().Lease
				version := uint32(n + 2)
				e.move(l, ledger.EpochMove{To: ledger.EpochRewrapping, Version: version, Until: at(300)})
				for _, w := range e.wraps(version) {
					e.rewrap(l, 1, ledger.Rewrap{Old: w.Key, New: newWrap(w.Key, version)})
				}
				e.move(l, ledger.EpochMove{To: ledger.EpochWaiting, At: at(210), TrimAt: at(900), Due: at(900)})
			}
			q := ledger.EpochQuery{Tenant: tenant, Limit: 2}
			page, err := e.ListEpochs(e.ctx, q)
			e.must(err)
			e.equal("first page", []string{page[0].ID, page[1].ID}, []string{epochID(2), epochID(1)})
			q.Before = ledger.EpochCursor{StartedAt: page[1].StartedAt, ID: page[1].ID}
			page, err = e.ListEpochs(e.ctx, q)
			e.must(err)
			e.equal("second page", []string{page[0].ID}, []string{epochID(0)})
			page, err = e.ListEpochs(e.ctx, ledger.EpochQuery{Tenant: "nobody", Limit: 2})
			e.must(err)
			e.equal("of nobody", len(page), 0)
			_, err = e.ListEpochs(e.ctx, ledger.EpochQuery{Tenant: tenant})
			e.refused(err, blobd.ErrInvalid)
		}},
	}
}

// epochActs are the machine's.
func (m *machine) epochActs() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"start epoch": func(r *rapid.T) {
			n := newEpoch(rapid.IntRange(0, m.epochs).Draw(r, "epoch"))
			n.At = m.now()
			m.both(r, "start epoch", func(l ledger.Ledger) (any, error) { return l.StartEpoch(ctx, n) })
			m.epochs++
		},
		"claim epoch": func(r *rapid.T) {
			until := m.now().Add(time.Duration(rapid.IntRange(1, 60).Draw(r, "lease")) * second)
			j := m.both(r, "claim epoch", func(l ledger.Ledger) (any, error) { return l.ClaimEpoch(ctx, "worker", m.now(), until) })
			if job, ok := j.(ledger.EpochJob); ok {
				m.epochJobs = append(m.epochJobs, job)
			}
		},
		"move epoch": func(r *rapid.T) {
			lease := m.epochLease(r)
			move := ledger.EpochMove{
				To: ledger.EpochState(rapid.IntRange(1, 4).Draw(r, "state")), At: m.now(), Due: m.now(),
				From: uint32(rapid.IntRange(0, 4).Draw(r, "from")), Version: uint32(rapid.IntRange(0, 9).Draw(r, "version")),
				Entries: []ledger.Entry{entry(ledger.EntryKeys)},
			}
			if rapid.IntRange(0, 3).Draw(r, "renew") > 0 {
				move.Until = m.now().Add(20 * second)
			}
			m.both(r, "move epoch", func(l ledger.Ledger) (any, error) { return nil, l.MoveEpoch(ctx, lease, move) })
		},
		"rewrap": m.rewrap,
	}
}

func (m *machine) epochLease(r *rapid.T) ledger.EpochLease {
	if len(m.epochJobs) == 0 {
		r.Skip("no epoch")
	}
	return rapid.SampledFrom(m.epochJobs[max(0, len(m.epochJobs)-3):]).Draw(r, "epoch job").Lease
}

// rewrap replaces wraps as the model has them, some of them not quite.
func (m *machine) rewrap(r *rapid.T) {
	lease := m.epochLease(r)
	ws, err := m.model.Wraps(ctx, ledger.WrapQuery{Tenant: tenant, Below: 10, Limit: 100})
	if err != nil || len(ws) == 0 {
		r.Skip("no wraps")
	}
	rows, err := m.model.ScanBlobs(ctx, ledger.Position{}, 1000)
	if err != nil {
		r.Fatal(err)
	}
	version := uint32(rapid.IntRange(5, 9).Draw(r, "version"))
	var items []ledger.Rewrap
	for _, w := range rapid.SliceOfN(rapid.SampledFrom(ws), 1, 3).Draw(r, "wraps") {
		item := ledger.Rewrap{Tag: w.Tag, Old: w.Key, New: newWrap(w.Key, version)}
		if w.Tag != (blobd.ExecutionTag{}) && (w.LostBlob || rapid.Bool().Draw(r, "rekey")) {
			item.New.ID[0]++
			for _, row := range rows {
				listed := row.Tag == w.Tag && row.Blob.WrappedKey != nil
				if listed && rapid.IntRange(0, 9).Draw(r, "forget") > 0 {
					item.Blobs = append(item.Blobs, ledger.RewrapBlob{
						Ref: row.Ref, Old: row.Blob.WrappedKey, New: rewrapped(int(version)*100 + int(row.Ref[0])),
					})
				}
			}
		}
		items = append(items, item)
	}
	m.both(r, "rewrap", func(l ledger.Ledger) (any, error) { return l.Rewrap(ctx, lease, items) })
}
