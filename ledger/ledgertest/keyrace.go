package ledgertest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// runKeyRace lets puts, erasures and epochs meet in random orders, each step of
// each in any place. After every step the ledger is looked at as whoever steals
// a backup would, and as a reader:
//
//   - no key is lost: the key of every live blob is wrapped by the key that its
//     execution has;
//   - none is brought back: what was erased never has a key again;
//   - the horizon is true: once an epoch is complete and older KEK versions are
//     gone, no state that the ledger ever was in, all of them together, opens a
//     blob whose erasure names an older version.
func runKeyRace(t *testing.T, h Harness) {
	rapid.Check(t, func(r *rapid.T) {
		c := &clock{now: start}
		k := &keyRace{
			Ledger: h.New(t, c.Now), newest: 1,
			seen: map[keyID]uint32{}, openers: map[ledger.Position]map[keyID]bool{}, erased: map[ledger.Position]bool{},
		}
		defer func() { _ = k.Close() }()
		k.must(r, k.CreateTenant(ctx, ledger.Tenant{
			ID: tenant, CreatedAt: start, IndexKey: make([]byte, 8), IndexWrap: 1, MinimumWrap: 1,
		}, entry(ledger.EntryTenant)))
		r.Repeat(map[string]func(*rapid.T){
			"":         k.look,
			"put":      k.put,
			"land":     k.land,
			"erase":    k.erase,
			"rotate":   func(*rapid.T) { k.newest++ },
			"start":    k.start,
			"raise":    k.raise,
			"read":     k.read,
			"rewrap":   k.rewrap,
			"complete": k.complete,
			"epoch":    k.epoch,
		})
	})
}

type keyID = [16]byte

type keyRace struct {
	ledger.Ledger
	newest uint32 // KEK version
	keys   uint32 // keys ever made
	epochs int

	lease    *ledger.EpochLease // of the epoch that runs
	version  uint32             // of the epoch that re-wraps; 0 before
	stalled  []ledger.Capture   // puts on their way
	prepared []ledger.Rewrap    // re-wraps on their way
	done     []uint32           // versions of complete epochs
	erasures []ledger.Erasure
	named    [][]blobd.Ref // by them, in the same order

	seen    map[keyID]uint32                   // newest version that ever wrapped a key
	openers map[ledger.Position]map[keyID]bool // keys that ever wrapped a blob's
	erased  map[ledger.Position]bool
}

func (k *keyRace) must(r *rapid.T, err error) {
	if err != nil {
		r.Fatalf("unexpected error: %v", err)
	}
}

// settled takes an answer of the contract for one.
func (k *keyRace) settled(r *rapid.T, err error) {
	if err != nil && !errors.Is(err, blobd.ErrConflict) && !errors.Is(err, blobd.ErrErased) {
		r.Fatalf("unexpected error: %v", err)
	}
}

func (k *keyRace) newKey(version uint32) ledger.WrappedKey {
	k.keys++
	w := ledger.WrappedKey{Version: version}
	binary.BigEndian.PutUint32(w.ID[:], k.keys)
	return wrapAs(w, version)
}

func wrapAs(w ledger.WrappedKey, version uint32) ledger.WrappedKey {
	w.Version = version
	w.Ciphertext = binary.BigEndian.AppendUint32(bytes.Clone(w.ID[:]), version)
	return w
}

func blobWrap(id keyID, ref blobd.Ref) []byte { return append(bytes.Clone(id[:]), ref[:8]...) }

// put reads what a put needs and lets it stall before its commit.
func (k *keyRace) put(r *rapid.T) {
	x := execution(r)
	v := k.view(r, x)
	if v.Execution != nil && v.Execution.Key == nil {
		r.Skip("erased")
	}
	k.stalled = append(k.stalled, k.draft(x, 10*x+rapid.IntRange(0, 3).Draw(r, "blob"), v))
}

func (k *keyRace) view(r *rapid.T, x int) ledger.View {
	v, err := k.LookupRepeats(ctx, tagOf(x), nil)
	k.must(r, err)
	return v
}

// draft is a put of the n-th blob, under the key that a view shows or a new one.
func (k *keyRace) draft(x, n int, v ledger.View) ledger.Capture {
	c := capture(x, start, newBlob(n))
	if v.Execution == nil {
		c.Key = k.newKey(k.newest)
	} else {
		c.Key = *v.Execution.Key
	}
	c.Blobs[0].WrappedKey = blobWrap(c.Key.ID, c.Blobs[0].Ref)
	return c
}

func (k *keyRace) land(r *rapid.T) {
	if len(k.stalled) == 0 {
		r.Skip("no put")
	}
	i := rapid.IntRange(0, len(k.stalled)-1).Draw(r, "put")
	_, err := k.Commit(ctx, k.stalled[i])
	k.settled(r, err)
	k.stalled = append(k.stalled[:i:i], k.stalled[i+1:]...)
}

func (k *keyRace) erase(r *rapid.T) {
	x := execution(r)
	var rs []blobd.Ref
	if rapid.IntRange(0, 3).Draw(r, "whole") > 0 {
		rs = refsOf(10*x, 10*x+1+rapid.IntRange(0, 3).Draw(r, "refs"))
	}
	k.fence(r, x, rs...)
}

func (k *keyRace) fence(r *rapid.T, x int, rs ...blobd.Ref) {
	e, _, err := k.Fence(ctx, fenceOf(len(k.erasures), x, rs...))
	k.must(r, err)
	k.erasures = append(k.erasures, e)
	named, err := k.ErasedRefs(ctx, e.ID)
	k.must(r, err)
	k.named = append(k.named, named)
	if !e.OfRefs {
		named = refsOf(10*x, 10*x+4)
	}
	for _, ref := range named {
		k.erased[ledger.Position{Tag: e.Scope.Tag, Ref: ref}] = true
	}
}

func (k *keyRace) start(r *rapid.T) {
	if k.lease != nil {
		r.Skip("one runs")
	}
	k.epochs++
	n := newEpoch(k.epochs)
	n.At = start
	_, err := k.StartEpoch(ctx, n)
	k.must(r, err)
	j, err := k.ClaimEpoch(ctx, "worker", start, at(1000))
	k.must(r, err)
	k.must(r, k.MoveEpoch(ctx, j.Lease, ledger.EpochMove{To: ledger.EpochRotating, From: k.newest, Until: at(1000)}))
	k.lease, k.version = &j.Lease, 0
	k.newest++
}

func (k *keyRace) raise(r *rapid.T) {
	if k.lease == nil || k.version != 0 {
		r.Skip("nothing to raise")
	}
	k.version = k.newest
	k.must(r, k.MoveEpoch(ctx, *k.lease, ledger.EpochMove{To: ledger.EpochRewrapping, Version: k.version, Until: at(1000)}))
}

// read prepares a re-wrap of all that is below, from what it reads now.
func (k *keyRace) read(r *rapid.T) {
	if k.version == 0 {
		r.Skip("nothing to re-wrap")
	}
	ws, err := k.Wraps(ctx, ledger.WrapQuery{Tenant: tenant, Below: k.version, Limit: 100})
	k.must(r, err)
	rows, err := k.ScanBlobs(ctx, ledger.Position{}, 1000)
	k.must(r, err)
	for _, w := range ws {
		item := ledger.Rewrap{Tag: w.Tag, Old: w.Key, New: wrapAs(w.Key, k.newest)}
		if w.Tag == (blobd.ExecutionTag{}) {
			item.New.Ciphertext = make([]byte, 8)
		}
		if w.LostBlob {
			item.New = k.newKey(k.newest)
			for _, row := range rows {
				if row.Tag == w.Tag && row.Blob.WrappedKey != nil {
					item.Blobs = append(item.Blobs, ledger.RewrapBlob{
						Ref: row.Ref, Old: row.Blob.WrappedKey, New: blobWrap(item.New.ID, row.Ref),
					})
				}
			}
		}
		k.prepared = append(k.prepared, item)
	}
}

func (k *keyRace) rewrap(r *rapid.T) {
	if len(k.prepared) == 0 || k.version == 0 {
		r.Skip("nothing prepared")
	}
	i := rapid.IntRange(0, len(k.prepared)-1).Draw(r, "item")
	_, err := k.Rewrap(ctx, *k.lease, k.prepared[i:i+1])
	k.settled(r, err)
	k.prepared = append(k.prepared[:i:i], k.prepared[i+1:]...)
}

func (k *keyRace) complete(r *rapid.T) {
	if k.version == 0 {
		r.Skip("nothing to complete")
	}
	err := k.MoveEpoch(ctx, *k.lease, ledger.EpochMove{To: ledger.EpochWaiting, At: start, TrimAt: at(5000), Due: at(5000)})
	k.settled(r, err)
	if err != nil {
		return
	}
	k.done = append(k.done, k.version)
	k.lease, k.version = nil, 0
}

// epoch runs a whole epoch, into which puts and erasures break between what it
// reads and what it replaces.
func (k *keyRace) epoch(r *rapid.T) {
	if k.lease == nil {
		k.start(r)
	}
	if k.version == 0 {
		k.raise(r)
	}
	for range 4 {
		k.read(r)
		for range rapid.IntRange(0, 2).Draw(r, "intruders") {
			k.intrude(r)
		}
		for len(k.prepared) > 0 {
			k.rewrap(r)
			k.look(r)
		}
	}
	k.complete(r)
}

func (k *keyRace) intrude(r *rapid.T) {
	x := execution(r)
	n := 10*x + rapid.IntRange(0, 3).Draw(r, "blob")
	v := k.view(r, x)
	if v.Execution != nil && v.Execution.Key == nil {
		return
	}
	if rapid.Bool().Draw(r, "erase") {
		k.fence(r, x, refOf(n))
		return
	}
	k.stalled = append(k.stalled, k.draft(x, n, v))
	_, err := k.Commit(ctx, k.stalled[len(k.stalled)-1])
	k.settled(r, err)
}

// look takes a backup and checks all promises.
func (k *keyRace) look(r *rapid.T) {
	rows, err := k.ScanBlobs(ctx, ledger.Position{}, 1000)
	k.must(r, err)
	for _, row := range rows {
		if row.Key != nil {
			k.seen[row.Key.ID] = max(k.seen[row.Key.ID], row.Key.Version)
		}
		if k.openers[row.Position] == nil {
			k.openers[row.Position] = map[keyID]bool{}
		}
		if row.Blob.WrappedKey != nil {
			k.openers[row.Position][keyID(row.Blob.WrappedKey)] = true
		}
		opens := row.Key != nil && row.Blob.WrappedKey != nil
		if k.erased[row.Position] && opens {
			r.Fatalf("an erased blob has a key: %+v", row)
		}
		if row.Blob.State == ledger.BlobLive && row.ExecutionState == ledger.ExecutionOpen {
			if !opens || keyID(row.Blob.WrappedKey) != row.Key.ID {
				r.Fatalf("a live blob does not open: %+v", row)
			}
		}
	}
	k.horizon(r)
}

func (k *keyRace) horizon(r *rapid.T) {
	for _, version := range k.done {
		for i, e := range k.erasures {
			if e.Wrap >= version {
				continue
			}
			named := k.named[i]
			for at, ids := range k.openers {
				if at.Tag != e.Scope.Tag || e.OfRefs && !slices.Contains(named, at.Ref) {
					continue
				}
				for id := range ids {
					if k.seen[id] >= version {
						r.Fatalf("erased at version %d and opened at %d: key %x of version %d", e.Wrap, version, id, k.seen[id])
					}
				}
			}
		}
	}
}
