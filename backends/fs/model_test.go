package fs_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
	blobfs "github.com/blobd/blobd/backends/fs"
)

// TestItBehavesLikeAMap compares any sequence of calls, closings, crashes and
// losses of the index with a map.
func TestItBehavesLikeAMap(t *testing.T) {
	parent := memoryDir(t)
	rapid.Check(t, func(rt *rapid.T) {
		folder, err := os.MkdirTemp(parent, "")
		if err != nil {
			rt.Fatal(err)
		}
		m := &machine{folder: folder, want: make(map[string][]byte)}
		m.options = blobfs.Options{
			SegmentSize: rapid.SampledFrom([]int64{256, 1024, 1 << 20}).Draw(rt, "segment size"),
			IndexBatch:  rapid.SampledFrom([]int{1, 3, 1000}).Draw(rt, "index batch"),
			OpenFiles:   rapid.SampledFrom([]int{1, 100}).Draw(rt, "open files"),
		}
		m.open(rt)
		defer func() { m.store.Crash(); _ = os.RemoveAll(folder) }()
		rt.Repeat(map[string]func(*rapid.T){
			"put":    m.put,
			"get":    m.get,
			"list":   m.list,
			"erase":  m.erase,
			"prefix": m.erasePrefix,
			"close":  m.close,
			"crash":  m.crash,
			"index":  m.loseIndex,
			"":       func(*rapid.T) {},
		})
	})
}

type machine struct {
	folder  string
	options blobfs.Options
	store   *blobfs.Store
	want    map[string][]byte
}

func (m *machine) open(t *rapid.T) {
	s, err := tryOpen(m.folder, m.options)
	if err != nil {
		t.Fatal(err)
	}
	m.store = s
}

func drawName(t *rapid.T) string {
	return rapid.SampledFrom([]string{"a", "a/b", "a/b/c", "a/bb", "ab", "ab/c", "b", "b/c", "b-", "b-/c"}).Draw(t, "name")
}

func (m *machine) put(t *rapid.T) {
	name := drawName(t)
	data := bytes.Repeat([]byte{byte(rapid.IntRange(0, 2).Draw(t, "byte"))}, rapid.SampledFrom([]int{0, 1, 64, 300}).Draw(t, "size"))
	err := m.store.Put(t.Context(), name, data)
	old, used := m.want[name]
	switch {
	case used && !bytes.Equal(old, data):
		if !errors.Is(err, blobd.ErrCorrupt) {
			t.Fatalf("other bytes: %v", err)
		}
	case err != nil:
		t.Fatal(err)
	default:
		m.want[name] = data
	}
}

func (m *machine) get(t *rapid.T) {
	name := drawName(t)
	got, err := m.store.Get(t.Context(), name)
	want, ok := m.want[name]
	if ok && (err != nil || !bytes.Equal(got, want)) || !ok && !errors.Is(err, blobd.ErrNotFound) {
		t.Fatalf("get %s: %d bytes, %v; want %d bytes, %v", name, len(got), err, len(want), ok)
	}
}

func (m *machine) list(t *rapid.T) {
	prefix := rapid.SampledFrom([]string{"", "a", "a/", "ab", "b"}).Draw(t, "prefix")
	after := rapid.SampledFrom([]string{"", "a", "a/b", "b", "zz"}).Draw(t, "after")
	limit := rapid.SampledFrom([]int{1, 2, 1000}).Draw(t, "limit")
	page, err := m.store.List(t.Context(), prefix, after, limit)
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, name := range slices.Sorted(maps.Keys(m.want)) {
		if strings.HasPrefix(name, prefix) && name > after && len(want) < limit {
			want = append(want, fmt.Sprint(name, len(m.want[name])))
		}
	}
	for _, o := range page {
		got = append(got, fmt.Sprint(o.Name, o.Size))
	}
	if !slices.Equal(got, want) {
		t.Fatalf("list %q after %q: %q, want %q", prefix, after, got, want)
	}
}

func (m *machine) erase(t *rapid.T) {
	m.eraseScope(t, backends.Scope{Names: []string{drawName(t), drawName(t)}})
}

func (m *machine) erasePrefix(t *rapid.T) {
	m.eraseScope(t, backends.Scope{Prefix: rapid.SampledFrom([]string{"a/", "ab/", "b/", "a/b/"}).Draw(t, "prefix")})
}

func (m *machine) eraseScope(t *rapid.T, scope backends.Scope) {
	got, err := m.store.Erase(t.Context(), scope)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for name := range maps.Clone(m.want) {
		if scope.Prefix != "" && strings.HasPrefix(name, scope.Prefix) || slices.Contains(scope.Names, name) {
			delete(m.want, name)
			n++
		}
	}
	if got.Objects != n || got.Versions != n {
		t.Fatalf("%+v, want %d", got, n)
	}
	if left, err := m.store.Residue(t.Context(), scope, 10); err != nil || len(left) != 0 {
		t.Fatalf("residue %+v, %v", left, err)
	}
}

func (m *machine) close(t *rapid.T) {
	if err := m.store.Close(); err != nil {
		t.Fatal(err)
	}
	m.open(t)
}

func (m *machine) crash(t *rapid.T) {
	m.store.Crash()
	m.open(t)
}

func (m *machine) loseIndex(t *rapid.T) {
	m.store.Crash()
	if err := os.Remove(filepath.Join(m.folder, "index.db")); err != nil {
		t.Fatal(err)
	}
	m.open(t)
}
