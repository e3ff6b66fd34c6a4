package keys_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/keys"
	"github.com/blobd/blobd/keys/faulty"
	"github.com/blobd/blobd/keys/mem"
)

const (
	acme  = "acme"
	other = "other"
)

var (
	tagA = blobd.ExecutionTag{0xa}
	tagB = blobd.ExecutionTag{0xb}
)

// countRandom gives 0x01 over and over to the first read, 0x02 to the second.
type countRandom struct{ n byte }

func (r *countRandom) Read(p []byte) (int, error) {
	r.n++
	copy(p, bytes.Repeat([]byte{r.n}, len(p)))
	return len(p), nil
}

// fixture is a core over a key service in memory that has KEKs for acme and
// other, counts calls and fails as told.
type fixture struct {
	*testing.T
	core *keys.Core
	ring *faulty.Keyring
	now  time.Time
	mu   sync.Mutex
	ops  map[string]int
}

func setUp(t *testing.T, o keys.Options) *fixture {
	t.Helper()
	f := &fixture{T: t, ring: faulty.New(mem.New(nil)), now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), ops: map[string]int{}}
	if o.Now == nil {
		o.Now = func() time.Time { return f.now }
	}
	f.core = keys.NewCore(f.ring, o)
	for _, tenant := range []string{acme, other} {
		f.must(f.ring.Create(t.Context(), tenant))
	}
	f.ring.OnCall(func(op string) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.ops[op]++
	})
	return f
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) is(err, want error) {
	f.Helper()
	if !errors.Is(err, want) {
		f.Fatalf("got %v, want %v", err, want)
	}
}

func (f *fixture) newExecution(tenant string, tag blobd.ExecutionTag) (keys.ExecutionKeys, keys.Wrapped) {
	f.Helper()
	k, w, err := f.core.NewExecution(f.Context(), tenant, tag)
	f.must(err)
	return k, w
}

func same(a, b keys.ExecutionKeys) bool {
	return a.ID == b.ID && bytes.Equal(a.Execution.Bytes(), b.Execution.Bytes()) && bytes.Equal(a.Tag.Bytes(), b.Tag.Bytes())
}

func TestNewExecutionIsRandomAndComesBack(t *testing.T) {
	f := setUp(t, keys.Options{})
	a, wa := f.newExecution(acme, tagA)
	b, _ := f.newExecution(acme, tagA)
	if a.ID == b.ID || bytes.Equal(a.Execution.Bytes(), b.Execution.Bytes()) || bytes.Equal(a.Tag.Bytes(), b.Tag.Bytes()) || bytes.Equal(a.Execution.Bytes(), a.Tag.Bytes()) {
		t.Fatal("two keys are alike")
	}
	got, err := f.core.Execution(t.Context(), acme, tagA, a.ID, wa)
	f.must(err)
	if !same(got, a) {
		t.Fatal("another key came back")
	}
}

func TestWhatIsWrappedIsKeysAndBinding(t *testing.T) {
	f := setUp(t, keys.Options{Random: new(countRandom)})
	k, w := f.newExecution(acme, tagA)
	if k.ID != keys.ID(bytes.Repeat([]byte{1}, 16)) {
		t.Fatalf("id %x", k.ID)
	}
	got, err := f.ring.Unwrap(t.Context(), acme, []keys.Wrapped{w})
	f.must(err)
	plaintext := got[0].Plaintext
	if len(plaintext) != 96 || !bytes.Equal(plaintext[:64], bytes.Repeat([]byte{2}, 64)) {
		t.Fatalf("%d bytes, or other keys", len(plaintext))
	}
	if bytes.Equal(plaintext[64:], make([]byte, 32)) {
		t.Fatal("no binding")
	}
	_, w, err = f.core.NewIndex(t.Context(), acme)
	f.must(err)
	got, err = f.ring.Unwrap(t.Context(), acme, []keys.Wrapped{w})
	f.must(err)
	if plaintext := got[0].Plaintext; len(plaintext) != 64 || !bytes.Equal(plaintext[:32], bytes.Repeat([]byte{3}, 32)) {
		t.Fatalf("index: %d bytes, or another key", len(plaintext))
	}
}

// rewrapRaw wraps what w holds under another tenant's KEK, as somebody may who
// can use the key service and write rows.
func (f *fixture) rewrapRaw(from, to string, w keys.Wrapped, change func([]byte) []byte) keys.Wrapped {
	f.Helper()
	got, err := f.ring.Unwrap(f.Context(), from, []keys.Wrapped{w})
	f.must(err)
	f.must(got[0].Err)
	wrapped, err := f.ring.Wrap(f.Context(), to, [][]byte{change(got[0].Plaintext)})
	f.must(err)
	return wrapped[0]
}

func whole(b []byte) []byte { return b }

func TestAKeyOfSomethingElseIsCorrupt(t *testing.T) {
	f := setUp(t, keys.Options{})
	a, wa := f.newExecution(acme, tagA)
	b, wb := f.newExecution(acme, tagB)
	_, wIndex, err := f.core.NewIndex(t.Context(), acme)
	f.must(err)
	tests := []struct {
		name, tenant string
		tag          blobd.ExecutionTag
		id           keys.ID
		w            keys.Wrapped
	}{
		{"another execution's wrap", acme, tagA, a.ID, wb},
		{"another execution's wrap with its id", acme, tagA, b.ID, wb},
		{"another id", acme, tagA, b.ID, wa},
		{"another tag", acme, tagB, a.ID, wa},
		{"another tenant's KEK", other, tagA, a.ID, wa},
		{"wrapped for another tenant", other, tagA, a.ID, f.rewrapRaw(acme, other, wa, whole)},
		{"an index key", acme, tagA, a.ID, wIndex},
		{"a byte less", acme, tagA, a.ID, f.rewrapRaw(acme, acme, wa, func(b []byte) []byte { return b[:95] })},
		{"a byte more", acme, tagA, a.ID, f.rewrapRaw(acme, acme, wa, func(b []byte) []byte { return append(b, 0) })},
		{"another binding", acme, tagA, a.ID, f.rewrapRaw(acme, acme, wa, func(b []byte) []byte { b[95] ^= 1; return b })},
		{"nothing", acme, tagA, a.ID, keys.Wrapped{}},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			got, err := f.core.Execution(t.Context(), c.tenant, c.tag, c.id, c.w)
			f.is(err, blobd.ErrCorrupt)
			if got != (keys.ExecutionKeys{}) {
				t.Fatal("an error and keys")
			}
			_, err = f.core.Rewrap(t.Context(), c.tenant, c.tag, c.id, c.w)
			f.is(err, blobd.ErrCorrupt)
			if _, cached := f.core.Cached(c.tag, c.id); cached {
				t.Fatal("it was cached")
			}
		})
	}
	for name, w := range map[string]keys.Wrapped{
		"an execution key": f.rewrapRaw(acme, acme, wa, whole), "another tenant's": f.rewrapRaw(acme, other, wIndex, whole),
	} {
		tenant := acme
		if name == "another tenant's" {
			tenant = other
		}
		_, err := f.core.Index(t.Context(), tenant, w)
		f.is(err, blobd.ErrCorrupt)
		_, err = f.core.RewrapIndex(t.Context(), tenant, w)
		f.is(err, blobd.ErrCorrupt)
	}
}

func TestACachedKeyIsNoOtherTenants(t *testing.T) {
	f := setUp(t, keys.Options{})
	k, w := f.newExecution(acme, tagA)
	f.core.Adopt(acme, tagA, k)
	_, err := f.core.Execution(t.Context(), other, tagA, k.ID, w)
	f.is(err, blobd.ErrCorrupt)
	got, err := f.core.Execution(t.Context(), acme, tagA, k.ID, w)
	f.must(err)
	if !same(got, k) {
		t.Fatal("the other tenant's question spoilt the key")
	}
}

func TestNewExecutionIsCachedByAdoptOnly(t *testing.T) {
	f := setUp(t, keys.Options{})
	k, w := f.newExecution(acme, tagA)
	if _, cached := f.core.Cached(tagA, k.ID); cached {
		t.Fatal("cached before Adopt")
	}
	f.core.Adopt(acme, tagA, k)
	got, cached := f.core.Cached(tagA, k.ID)
	if !cached || !same(got, k) {
		t.Fatal("not cached after Adopt, or another key")
	}
	k.Wipe()
	again, err := f.core.Execution(t.Context(), acme, tagA, k.ID, w)
	f.must(err)
	if !same(again, got) || f.ops["unwrap"] != 0 {
		t.Fatal("the caller's wipe reached the cache, or the key was asked for")
	}
}

func TestPastTheTTLAKeyIsNotUsed(t *testing.T) {
	f := setUp(t, keys.Options{CacheTTL: time.Minute})
	ctx := t.Context()
	k, w := f.newExecution(acme, tagA)
	_, index, err := f.core.NewIndex(ctx, acme)
	f.must(err)
	ask := func(wantUnwraps int) {
		t.Helper()
		got, err := f.core.Execution(ctx, acme, tagA, k.ID, w)
		f.must(err)
		if !same(got, k) {
			t.Fatal("another key")
		}
		_, err = f.core.Index(ctx, acme, index)
		f.must(err)
		if f.ops["unwrap"] != wantUnwraps {
			t.Fatalf("%d unwraps, want %d", f.ops["unwrap"], wantUnwraps)
		}
	}
	ask(2)
	f.now = f.now.Add(time.Minute - 1)
	ask(2)
	f.now = f.now.Add(1)
	if _, cached := f.core.Cached(tagA, k.ID); cached {
		t.Fatal("cached past its time")
	}
	ask(4)

	f.must(f.ring.Destroy(ctx, acme))
	f.now = f.now.Add(time.Minute)
	_, err = f.core.Execution(ctx, acme, tagA, k.ID, w)
	f.is(err, blobd.ErrKeyMissing)
	_, err = f.core.Index(ctx, acme, index)
	f.is(err, blobd.ErrKeyMissing)
}

// TestASlowAnswerAgesFromTheQuestion: the KEK may have been destroyed between.
func TestASlowAnswerAgesFromTheQuestion(t *testing.T) {
	f := setUp(t, keys.Options{CacheTTL: time.Minute})
	k, w := f.newExecution(acme, tagA)
	f.ring.OnCall(func(string) { f.now = f.now.Add(40 * time.Second) })
	_, err := f.core.Execution(t.Context(), acme, tagA, k.ID, w)
	f.must(err)
	f.now = f.now.Add(20*time.Second - 1)
	if _, cached := f.core.Cached(tagA, k.ID); !cached {
		t.Fatal("gone before its time")
	}
	f.now = f.now.Add(1)
	if _, cached := f.core.Cached(tagA, k.ID); cached {
		t.Fatal("kept for longer than the TTL after the question")
	}
}

func TestEvictionsAreCounted(t *testing.T) {
	f := setUp(t, keys.Options{CacheSize: 2})
	var ids []keys.ID
	for i := range 3 {
		k, _ := f.newExecution(acme, blobd.ExecutionTag{byte(i)})
		f.core.Adopt(acme, blobd.ExecutionTag{byte(i)}, k)
		ids = append(ids, k.ID)
	}
	for i, id := range ids {
		if _, cached := f.core.Cached(blobd.ExecutionTag{byte(i)}, id); cached != (i > 0) {
			t.Errorf("execution %d cached: %v", i, cached)
		}
	}
	if want := (keys.Stats{Hits: 2, Misses: 1, Evictions: 1, Size: 2}); f.core.Stats() != want {
		t.Fatalf("%+v, want %+v", f.core.Stats(), want)
	}
}

func TestRewrapKeepsTheKeys(t *testing.T) {
	f := setUp(t, keys.Options{})
	ctx := t.Context()
	k, w := f.newExecution(acme, tagA)
	index, wIndex, err := f.core.NewIndex(ctx, acme)
	f.must(err)
	_, err = f.ring.Rotate(ctx, acme)
	f.must(err)
	w2, err := f.core.Rewrap(ctx, acme, tagA, k.ID, w)
	f.must(err)
	wIndex2, err := f.core.RewrapIndex(ctx, acme, wIndex)
	f.must(err)
	if w2.Version != 2 || wIndex2.Version != 2 {
		t.Fatalf("versions %d and %d", w2.Version, wIndex2.Version)
	}
	f.must(f.ring.Trim(ctx, acme, 2))
	got, err := f.core.Execution(ctx, acme, tagA, k.ID, w2)
	f.must(err)
	gotIndex, err := f.core.Index(ctx, acme, wIndex2)
	f.must(err)
	if !same(got, k) || !bytes.Equal(gotIndex.Bytes(), index.Bytes()) {
		t.Fatal("another key came back")
	}
	_, err = f.core.Rewrap(ctx, acme, tagA, k.ID, w)
	f.is(err, blobd.ErrKeyMissing)
}

func TestIndexIsCachedPerWrap(t *testing.T) {
	f := setUp(t, keys.Options{})
	ctx := t.Context()
	one, w1, err := f.core.NewIndex(ctx, acme)
	f.must(err)
	two, w2, err := f.core.NewIndex(ctx, acme)
	f.must(err)
	for range 3 {
		for _, c := range []struct {
			w    keys.Wrapped
			want *blobd.Key
		}{{w1, one}, {w2, two}} {
			got, err := f.core.Index(ctx, acme, c.w)
			f.must(err)
			if !bytes.Equal(got.Bytes(), c.want.Bytes()) {
				t.Fatal("another key, or one that a caller wiped")
			}
			got.Wipe()
		}
	}
	if f.ops["unwrap"] != 2 {
		t.Fatalf("%d unwraps, want 2", f.ops["unwrap"])
	}
}

func TestNoRandomnessMeansNoKeys(t *testing.T) {
	for _, n := range []int{0, 15, 16, 79} {
		f := setUp(t, keys.Options{Random: strings.NewReader(strings.Repeat("x", n))})
		k, w, err := f.core.NewExecution(t.Context(), acme, tagA)
		if err == nil || k != (keys.ExecutionKeys{}) || w.Ciphertext != nil || f.ops["wrap"] != 0 {
			t.Fatalf("%d bytes of randomness gave keys, or %v", n, err)
		}
		f.is(err, eof(n))
	}
}

func eof(n int) error {
	if n == 0 || n == 16 {
		return io.EOF
	}
	return io.ErrUnexpectedEOF
}
