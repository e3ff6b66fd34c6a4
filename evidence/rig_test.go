package evidence_test

import (
	"crypto/sha256"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/blobd/blobd/backends"
	backendfaulty "github.com/blobd/blobd/backends/faulty"
	backendmem "github.com/blobd/blobd/backends/mem"
	"github.com/blobd/blobd/evidence"
	"github.com/blobd/blobd/keys"
	keysmem "github.com/blobd/blobd/keys/mem"
	"github.com/blobd/blobd/ledger"
	ledgerfaulty "github.com/blobd/blobd/ledger/faulty"
	ledgermem "github.com/blobd/blobd/ledger/mem"
)

const deployment = "00112233445566778899aabbccddeeff"

// clock is a clock that a test moves.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// tester is a testing.T or a rapid.T.
type tester interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// rig is what outlives the processes that keep a log.
type rig struct {
	tester
	t      *testing.T
	clock  *clock
	inner  ledger.Ledger
	ledger *ledgerfaulty.Ledger
	inside []backends.Store
	places []*backendfaulty.Store
	keys   *keys.Core
	owners int
}

// counting is a source of bytes that is the same in every run.
type counting struct{ n byte }

func (c *counting) Read(p []byte) (int, error) {
	for i := range p {
		c.n++
		p[i] = c.n
	}
	return len(p), nil
}

func newRig(t *testing.T, x tester, places int) *rig {
	r := &rig{tester: x, t: t, clock: &clock{t: now()}}
	r.inner = ledgermem.New(r.clock.now)
	r.ledger = ledgerfaulty.New(r.inner)
	for range places {
		r.inside = append(r.inside, backendmem.New(r.clock.now))
		r.places = append(r.places, backendfaulty.New(r.inside[len(r.inside)-1]))
	}
	r.keys = keys.NewCore(keysmem.New(nil), keys.Options{Now: r.clock.now, Random: &counting{}})
	return r
}

// process is one process: a log and its sequencer.
type process struct {
	*evidence.Log
	*evidence.Sequencer
}

func (r *rig) process() process {
	var places []backends.Store
	for _, p := range r.places {
		places = append(places, p)
	}
	l := evidence.NewLog(r.ledger, evidence.NewJournal(r.ledger, places...), r.keys, deployment)
	r.owners++
	return process{l, evidence.NewSequencer(l, fmt.Sprint("owner-", r.owners), r.clock.now, slog.New(slog.DiscardHandler))}
}

// append adds n entries, each unlike all others.
func (r *rig) append(n int) {
	r.Helper()
	have, err := r.inner.Entries(r.t.Context(), 0, 1_000_000)
	if err != nil {
		r.Fatal(err)
	}
	for i := range n {
		e := ledger.Entry{
			Tenant: "acme", Kind: ledger.EntryRead, At: r.clock.now(), Body: fmt.Appendf(nil, `{"number":%d}`, len(have)+i),
			FreeText: "never in the log", Salt: []byte("nor this"),
		}
		if err := r.inner.Append(r.t.Context(), e); err != nil {
			r.Fatal(err)
		}
	}
}

// drain steps until nothing is left.
func (r *rig) drain(p process) {
	r.Helper()
	for {
		worked, err := p.Step(r.t.Context())
		if err != nil {
			r.Fatal(err)
		}
		if !worked {
			return
		}
	}
}

func (r *rig) verifier(p process) note.Verifier {
	r.Helper()
	text, err := p.Verifier(r.t.Context())
	if err != nil {
		r.Fatal(err)
	}
	v, err := note.NewVerifier(text)
	if err != nil {
		r.Fatal(err)
	}
	return v
}

// treeHash is RFC 6962 section 2.1, word for word: the reference of these tests.
func treeHash(leaves [][]byte) [32]byte {
	switch len(leaves) {
	case 0:
		return sha256.Sum256(nil)
	case 1:
		return sha256.Sum256(append([]byte{0}, leaves[0]...))
	}
	k := 1
	for 2*k < len(leaves) {
		k *= 2
	}
	left, right := treeHash(leaves[:k]), treeHash(leaves[k:])
	return sha256.Sum256(append(append([]byte{1}, left[:]...), right[:]...))
}

// leaves reads the log out of the ledger, and sees that its indexes are dense
// and name each entry once.
func (r *rig) leaves() [][]byte {
	r.Helper()
	var out [][]byte
	seen := make(map[int64]bool)
	for i := int64(0); ; i++ {
		es, err := r.inner.Logged(r.t.Context(), ledger.LogQuery{Indexes: []int64{i}})
		if err != nil {
			r.Fatal(err)
		}
		if len(es) == 0 {
			return out
		}
		if seen[es[0].ID] {
			r.Fatalf("entry %d is in the log twice", es[0].ID)
		}
		seen[es[0].ID] = true
		out = append(out, evidence.LeafOf(es[0].Entry))
	}
}

// audit checks all of a log: that the newest checkpoint covers every entry, that
// it is the tree of the leaves, that each entry is in it, and that it continues
// every checkpoint told before.
func (r *rig) audit(p process, before ...evidence.Checkpoint) evidence.Checkpoint {
	r.Helper()
	ctx := r.t.Context()
	c, err := p.Checkpoint(ctx)
	if err != nil {
		r.Fatal(err)
	}
	opened, err := evidence.OpenCheckpoint(c.Note, r.verifier(p))
	if err != nil || opened.Size != c.Size || opened.Root != c.Root {
		r.Fatalf("the checkpoint reads as %+v, %v, not %+v", opened, err, c)
	}
	leaves := r.leaves()
	all, err := r.inner.Entries(ctx, 0, 1_000_000)
	if err != nil {
		r.Fatal(err)
	}
	if len(leaves) != len(all) || c.Size != int64(len(all)) {
		r.Fatalf("%d entries, %d in the log, %d in the checkpoint", len(all), len(leaves), c.Size)
	}
	if c.Root != treeHash(leaves) {
		r.Fatalf("the root of %d entries is not theirs", c.Size)
	}
	for i, leaf := range leaves {
		proof, err := p.Inclusion(ctx, int64(i))
		if err != nil {
			r.Fatal(err)
		}
		if err := tlog.CheckRecord(proof.Hashes, c.Size, c.Root, int64(i), tlog.RecordHash(leaf)); err != nil {
			r.Fatalf("entry %d: %v", i, err)
		}
	}
	for _, old := range before {
		if old.Root != treeHash(leaves[:old.Size]) {
			r.Fatalf("the tree of %d entries is not what was signed", old.Size)
		}
		proof, err := p.Consistency(ctx, old.Size)
		if err != nil {
			r.Fatal(err)
		}
		if err := tlog.CheckTree(proof.Hashes, c.Size, c.Root, old.Size, old.Root); err != nil {
			r.Fatalf("from %d to %d: %v", old.Size, c.Size, err)
		}
	}
	return c
}
