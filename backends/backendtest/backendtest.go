// Package backendtest holds every sentence of the contract in package backends
// as a named subtest. A driver runs it on stores of its own making.
package backendtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
)

// Harness makes the stores under test.
type Harness struct {
	// New returns a store that is empty and that no other test uses. The harness
	// closes it, in t.Cleanup.
	New func(t *testing.T) backends.Store
	// Reopen returns a second view of the same stored objects, as after a
	// restart; s is not used again. Nil where nothing outlives the process.
	Reopen func(t *testing.T, s backends.Store) backends.Store
	// NoNesting says that a name cannot be in use while it is a folder of others,
	// as "a" is of "a/b": some stores keep names as paths. blobd makes no such
	// names, so the suite leaves them out.
	NoNesting bool
}

// Run runs the suite. Its subtests are independent of each other.
func Run(t *testing.T, h Harness) {
	for _, part := range []struct {
		name  string
		tests []test
	}{
		{"Put", putTests},
		{"Get", getTests},
		{"List", listTests},
		{"Erase", eraseTests},
		{"Residue", residueTests},
		{"Check", checkTests},
		{"All methods", allTests},
	} {
		t.Run(part.name, func(t *testing.T) {
			for _, c := range part.tests {
				t.Run(c.name, func(t *testing.T) {
					c.run(t, &fixture{Store: h.New(t), t: t, h: h})
				})
			}
		})
	}
}

// test is one sentence of the contract.
type test struct {
	name string
	run  func(*testing.T, *fixture)
}

// fixture is a store under test; its helpers end the test when a call that must
// succeed does not.
type fixture struct {
	backends.Store
	t *testing.T
	h Harness
}

func (f *fixture) reopen() {
	f.t.Helper()
	if f.h.Reopen == nil {
		f.t.Skip("nothing outlives this store's process")
	}
	f.Store = f.h.Reopen(f.t, f.Store)
}

func (f *fixture) put(name string, data []byte) {
	f.t.Helper()
	if err := f.Put(f.t.Context(), name, data); err != nil {
		f.t.Fatalf("put %s: %v", name, err)
	}
}

func (f *fixture) has(name string, want []byte) {
	f.t.Helper()
	got, err := f.Get(f.t.Context(), name)
	if err != nil {
		f.t.Fatalf("get %s: %v", name, err)
	}
	if !bytes.Equal(got, want) {
		f.t.Fatalf("get %s: %d bytes that are not the %d stored", name, len(got), len(want))
	}
}

func (f *fixture) lacks(name string) {
	f.t.Helper()
	if got, err := f.Get(f.t.Context(), name); !errors.Is(err, blobd.ErrNotFound) || got != nil {
		f.t.Fatalf("get %s: %d bytes and %v, want ErrNotFound", name, len(got), err)
	}
}

func (f *fixture) list(prefix, after string, limit int) []backends.Object {
	f.t.Helper()
	found, err := f.List(f.t.Context(), prefix, after, limit)
	if err != nil {
		f.t.Fatalf("list %q after %q: %v", prefix, after, err)
	}
	return found
}

func (f *fixture) erase(s backends.Scope) backends.Erased {
	f.t.Helper()
	erased, err := f.Erase(f.t.Context(), s)
	if err != nil {
		f.t.Fatalf("erase: %v", err)
	}
	return erased
}

func (f *fixture) residue(s backends.Scope, limit int) []backends.Object {
	f.t.Helper()
	left, err := f.Residue(f.t.Context(), s, limit)
	if err != nil {
		f.t.Fatalf("residue: %v", err)
	}
	return left
}

// kept returns the given names that the store can hold beside the tricky ones.
func (f *fixture) kept(given ...string) []string {
	if !f.h.NoNesting {
		return given
	}
	return slices.DeleteFunc(slices.Clone(given), func(name string) bool {
		return slices.ContainsFunc(tricky, func(other string) bool { return strings.HasPrefix(other, name+"/") })
	})
}

// names returns the listed names.
func names(objects []backends.Object) []string {
	var found []string
	for _, o := range objects {
		found = append(found, o.Name)
	}
	return found
}

func (f *fixture) lists(prefix string, want ...string) {
	f.t.Helper()
	if got := names(f.list(prefix, "", 1000)); !slices.Equal(got, want) {
		f.t.Fatalf("list %q: %q, want %q", prefix, got, want)
	}
}

// random returns n bytes that a seed always gives.
func random(seed uint64, n int) []byte {
	b := make([]byte, n)
	var key [32]byte
	key[0], key[1] = byte(seed), byte(seed>>8)
	_, _ = rand.NewChaCha8(key).Read(b)
	return b
}

// blob returns sealed-looking bytes and the name they have in an execution.
func blob(execution byte, seed uint64, n int) (string, []byte) {
	data := random(seed, n)
	return backends.BlobName("tenant-tag", blobd.ExecutionTag{execution}, blobd.RefOf(data)), data
}

func prefixOf(execution byte) string {
	return backends.ExecutionPrefix("tenant-tag", blobd.ExecutionTag{execution})
}

func numbered(i int) string { return fmt.Sprintf("many/n%05d", i) }

// cancelled returns a context that is over.
func cancelled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
