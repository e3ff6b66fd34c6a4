package sqlite

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// wrapped is a key of the size that the wrapping really has, found in a file by
// any 16 bytes of it: a half overwritten copy is a copy.
func wrapped(family string, n int) []byte {
	a := sha256.Sum256(fmt.Appendf(nil, "%s %d a", family, n))
	b := sha256.Sum256(fmt.Appendf(nil, "%s %d b", family, n))
	return append(a[:], b[:28]...)
}

// holds reports which of the ledger's files have a part of a key.
func holds(t *testing.T, l *Ledger, key []byte) (files []string) {
	t.Helper()
	for _, suffix := range []string{"", "-wal", "-shm"} {
		content, err := os.ReadFile(l.path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i+16 <= len(key); i += 4 {
			if bytes.Contains(content, key[i:i+16]) {
				files = append(files, "ledger.db"+suffix)
				break
			}
		}
	}
	return files
}

type keyLedger struct {
	*Ledger
	t *testing.T
}

func newKeyLedger(t *testing.T) keyLedger {
	now := func() time.Time { return time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC) }
	l := keyLedger{openTest(t, filepath.Join(t.TempDir(), "ledger.db"), now), t}
	l.must(l.CreateTenant(t.Context(), ledger.Tenant{ID: "t", CreatedAt: now()}, ledger.Entry{}))
	return l
}

func (l keyLedger) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

func keyTag(x int) (tag blobd.ExecutionTag) {
	h := sha256.Sum256(fmt.Append(nil, "tag", x))
	copy(tag[:], h[:])
	return tag
}

func keyRef(x, n int) blobd.Ref { return sha256.Sum256(fmt.Append(nil, "ref", x, n)) }

// put commits blobs from n up to m into an execution.
func (l keyLedger) put(x, n, m int) {
	l.t.Helper()
	c := ledger.Capture{
		Tenant: "t", Tag: keyTag(x), ExecutionID: fmt.Sprint("run/", x), At: l.now(), StepID: "step", Provider: "p", Model: "m",
		Key: ledger.WrappedKey{ID: [16]byte{byte(x)}, Version: 1, Ciphertext: wrapped("execution", x)},
	}
	for i := n; i < m; i++ {
		c.Parts = append(c.Parts, ledger.Part{Index: i, Kind: blobd.KindText, Status: ledger.PartKept, Blob: i - n})
		c.Blobs = append(c.Blobs, ledger.NewBlob{
			Ref: keyRef(x, i), Class: "reasoning", Kind: blobd.KindText, ContentType: "text/plain", Size: int64(i),
			Repeat: sha256.Sum256(fmt.Append(nil, "repeat", x, i)), WrappedKey: wrapped("blob", 1000*x+i),
		})
	}
	_, err := l.Commit(l.t.Context(), c)
	l.must(err)
}

func (l keyLedger) fence(id string, x int, refs ...blobd.Ref) {
	l.t.Helper()
	_, _, err := l.Fence(l.t.Context(), ledger.Fence{
		ID: id, Scope: ledger.Scope{Tenant: "t", Tag: keyTag(x), Refs: refs}, At: l.now(), RunAt: l.now(),
	})
	l.must(err)
}

func (l keyLedger) settle() {
	l.t.Helper()
	_, err := l.Settle(l.t.Context())
	l.must(err)
}

func (l keyLedger) found(key []byte, want bool) {
	l.t.Helper()
	if files := holds(l.t, l.Ledger, key); (len(files) > 0) != want {
		l.t.Fatalf("the key is in %v, want found: %v", files, want)
	}
}

func TestSettleLeavesNoTraceOfADroppedExecutionKey(t *testing.T) {
	l := newKeyLedger(t)
	for x := range 40 {
		l.put(x, 0, 3)
	}
	for _, x := range []int{0, 17, 39} {
		l.found(wrapped("execution", x), true)
		l.settle()
		l.found(wrapped("execution", x), true)
		l.fence(fmt.Sprint("e", x), x)
		l.settle()
		l.found(wrapped("execution", x), false)
	}
	l.found(wrapped("execution", 18), true)
}

func TestSettleLeavesNoTraceOfADroppedBlobKey(t *testing.T) {
	l := newKeyLedger(t)
	l.put(1, 0, 1)
	l.found(wrapped("blob", 1000), true)
	l.fence("e", 1, keyRef(1, 0))
	l.settle()
	l.found(wrapped("blob", 1000), false)
}

// Pages were split, rows were superseded, lost and erased in every order: no
// dropped key may be left in the slack of any page.
func TestSettleLeavesNoTraceAmongManyPages(t *testing.T) {
	l := newKeyLedger(t)
	ctx := context.Background()
	for round := range 10 {
		for x := range 30 {
			l.put(x, 20*round, 20*round+20)
		}
	}
	erased := map[int]bool{}
	for x := range 30 {
		var refs []blobd.Ref
		for n := x % 3; n < 200; n += 3 {
			if n%2 == 0 {
				l.must(l.AcceptLoss(ctx, keyTag(x), keyRef(x, n), l.now(), ledger.Entry{}))
			}
			refs = append(refs, keyRef(x, n))
			erased[1000*x+n] = true
		}
		l.fence(fmt.Sprint("refs ", x), x, refs...)
		job, err := l.Claim(ctx, "w", l.now(), l.now().Add(time.Hour))
		l.must(err)
		_, err = l.Tombstone(ctx, job.Lease, 1000)
		l.must(err)
		l.put(x, 200, 210) // and the ledger goes on
	}
	l.settle()
	content, err := os.ReadFile(l.path)
	l.must(err)
	if pages := len(content) / 4096; pages < 200 {
		t.Fatalf("only %d pages", pages)
	}
	// One pass over the file: every 16 bytes that begin or end a dropped key.
	prefixes := map[[16]byte]int{}
	for n := range erased {
		k := wrapped("blob", n)
		prefixes[[16]byte(k[:16])], prefixes[[16]byte(k[len(k)-16:])] = n, n
	}
	for i := 0; i+16 <= len(content); i++ {
		if n, found := prefixes[[16]byte(content[i:i+16])]; found {
			t.Fatalf("a part of the dropped key %d is at byte %d", n, i)
		}
	}
	l.found(wrapped("blob", 1001), !erased[1001])
	l.found(wrapped("blob", 1000), !erased[1000])
}
