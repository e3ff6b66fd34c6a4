package backendtest

import (
	"bytes"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
)

var eraseTests = []test{
	{"a prefix takes everything under it and nothing beside it", func(t *testing.T, f *fixture) {
		for _, n := range f.kept(tricky...) {
			f.put(n, []byte(n))
		}
		if got := f.erase(backends.Scope{Prefix: "a/b/"}); got.Objects != 1 || got.Versions < 1 {
			t.Errorf("%+v", got)
		}
		f.lacks("a/b/c")
		if got := f.erase(backends.Scope{Prefix: "a/"}); got.Objects != len(f.kept("a/b", "a/b-", "a/b-/c", "a/b0", "a/b_", "a/ba")) {
			t.Errorf("%+v", got)
		}
		f.lists("", f.kept("a", "a-", "a-/x", "a0", "a_", "ab", "ab/x", "abc", "abc/x", "b")...)
		f.erase(backends.Scope{Prefix: "ab/"})
		f.lists("ab", f.kept("ab", "abc", "abc/x")...)
		f.has("abc/x", []byte("abc/x"))
	}},
	{"names take exactly these", func(t *testing.T, f *fixture) {
		for _, n := range f.kept(tricky...) {
			f.put(n, []byte(n))
		}
		taken := f.kept("a", "a/b", "a0", "abc/x")
		if got := f.erase(backends.Scope{Names: taken}); got.Objects != len(taken) {
			t.Errorf("%+v", got)
		}
		for _, n := range taken {
			f.lacks(n)
		}
		f.has("a/b/c", []byte("a/b/c"))
		f.has("ab/x", []byte("ab/x"))
		if got := f.list("", "", 1000); len(got) != len(f.kept(tricky...))-len(taken) {
			t.Errorf("left %q", names(got))
		}
	}},
	{"absent names are fine", func(t *testing.T, f *fixture) {
		f.put("there", []byte("x"))
		got := f.erase(backends.Scope{Names: []string{"never", "there", "nor/this"}})
		if got.Objects != 1 || len(got.Refused) != 0 {
			t.Errorf("%+v", got)
		}
		if got := f.erase(backends.Scope{Prefix: "nothing/here/"}); got.Objects != 0 || len(got.Refused) != 0 {
			t.Errorf("%+v", got)
		}
	}},
	{"a name given twice is erased once", func(t *testing.T, f *fixture) {
		f.put("twice", []byte("x"))
		if got := f.erase(backends.Scope{Names: []string{"twice", "twice"}}); got.Objects != 1 {
			t.Errorf("%+v", got)
		}
		f.lacks("twice")
	}},
	{"repeatable", func(t *testing.T, f *fixture) {
		name, data := blob(1, 1, 8192)
		f.put(name, data)
		for i := range 3 {
			got := f.erase(backends.Scope{Prefix: prefixOf(1)})
			if i > 0 && got.Objects != 0 {
				t.Errorf("run %d: %+v", i, got)
			}
			f.lacks(name)
		}
		f.put(name, data)
		if got := f.erase(backends.Scope{Prefix: prefixOf(1)}); got.Objects != 1 {
			t.Errorf("after a new put: %+v", got)
		}
		f.lacks(name)
	}},
	{"more than 1,000 objects by prefix", func(t *testing.T, f *fixture) {
		const n = 1003
		f.many(n)
		neighbours := []string{"many", "many0"}
		if f.h.NoNesting {
			neighbours = []string{"many0"}
		}
		for _, name := range neighbours {
			f.put(name, []byte("neighbour"))
		}
		if got := f.erase(backends.Scope{Prefix: "many/"}); got.Objects != n || got.Versions < n {
			t.Errorf("%+v", got)
		}
		f.lists("", neighbours...)
		if left := f.residue(backends.Scope{Prefix: "many/"}, 10); len(left) != 0 {
			t.Errorf("left %q", names(left))
		}
	}},
	{"more than 1,000 objects by name", func(t *testing.T, f *fixture) {
		const n = 1003
		f.many(n)
		var scope backends.Scope
		for i := range n {
			if i != 500 {
				scope.Names = append(scope.Names, numbered(i))
			}
		}
		if got := f.erase(scope); got.Objects != n-1 {
			t.Errorf("%+v", got)
		}
		f.lists("", numbered(500))
		if left := f.residue(scope, 10); len(left) != 0 {
			t.Errorf("left %q", names(left))
		}
	}},
	{"what is erased is not seen by any method", func(t *testing.T, f *fixture) {
		name, data := blob(1, 1, 8192)
		other, otherData := blob(2, 2, 8192)
		f.put(name, data)
		f.put(other, otherData)
		f.erase(backends.Scope{Prefix: prefixOf(1)})
		f.lacks(name)
		f.lists("", other)
		if left := f.residue(backends.Scope{Prefix: prefixOf(1)}, 10); len(left) != 0 {
			t.Errorf("left %+v", left)
		}
		f.has(other, otherData)
	}},
	{"a scope that is not exactly one of the two is ErrInvalid and erases nothing", func(t *testing.T, f *fixture) {
		f.put("a/b", []byte("x"))
		for _, s := range badScopes() {
			if _, err := f.Erase(t.Context(), s); !errors.Is(err, blobd.ErrInvalid) {
				t.Errorf("%+v: %v", s, err)
			}
		}
		f.has("a/b", []byte("x"))
	}},
	{"an ended context is an error", func(t *testing.T, f *fixture) {
		f.put("a", []byte("x"))
		if _, err := f.Erase(cancelled(t), backends.Scope{Names: []string{"a"}}); err == nil {
			t.Fatal("succeeded")
		}
		f.erase(backends.Scope{Names: []string{"a"}})
		f.lacks("a")
	}},
	{"a read that races an erasure gets the whole object or ErrNotFound", func(t *testing.T, f *fixture) {
		for round := range 10 {
			name, data := blob(1, uint64(round), 256<<10)
			f.put(name, data)
			var wg sync.WaitGroup
			for range 3 {
				wg.Go(func() {
					for {
						got, err := f.Get(t.Context(), name)
						if errors.Is(err, blobd.ErrNotFound) {
							return
						}
						if err != nil || !bytes.Equal(got, data) {
							t.Errorf("%d bytes, %v", len(got), err)
							return
						}
					}
				})
			}
			f.erase(backends.Scope{Names: []string{name}})
			wg.Wait()
		}
	}},
	{"racing erasures of the same scope all succeed", func(t *testing.T, f *fixture) {
		f.many(100)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if _, err := f.Erase(t.Context(), backends.Scope{Prefix: "many/"}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		f.lists("")
	}},
}

var residueTests = []test{
	{"reports what is left under a prefix", func(t *testing.T, f *fixture) {
		for _, n := range f.kept(tricky...) {
			f.put(n, []byte(n))
		}
		left := names(f.residue(backends.Scope{Prefix: "ab/"}, 10))
		if !slices.Equal(left, []string{"ab/x"}) {
			t.Errorf("%q", left)
		}
	}},
	{"reports what is left of names", func(t *testing.T, f *fixture) {
		for _, n := range f.kept(tricky...) {
			f.put(n, []byte(n))
		}
		left := names(f.residue(backends.Scope{Names: []string{"abc", "absent", "a", "b", "a0"}}, 10))
		slices.Sort(left)
		if !slices.Equal(left, f.kept("a", "a0", "abc", "b")) {
			t.Errorf("%q", left)
		}
	}},
	{"empty means proved absent", func(t *testing.T, f *fixture) {
		if left := f.residue(backends.Scope{Prefix: "no/"}, 10); len(left) != 0 {
			t.Errorf("%+v", left)
		}
		if left := f.residue(backends.Scope{Names: []string{"no"}}, 10); len(left) != 0 {
			t.Errorf("%+v", left)
		}
	}},
	{"at most limit entries", func(t *testing.T, f *fixture) {
		f.many(20)
		for _, limit := range []int{1, 7, 20} {
			if left := f.residue(backends.Scope{Prefix: "many/"}, limit); len(left) != limit {
				t.Errorf("limit %d: %d", limit, len(left))
			}
		}
	}},
	{"what was put after an erasure is reported", func(t *testing.T, f *fixture) {
		name, data := blob(1, 1, 100)
		scope := backends.Scope{Prefix: prefixOf(1)}
		f.put(name, data)
		f.erase(scope)
		f.put(name, data)
		if left := f.residue(scope, 10); len(left) != 1 || left[0].Name != name {
			t.Errorf("%+v", left)
		}
	}},
	{"a bad scope is ErrInvalid, never empty", func(t *testing.T, f *fixture) {
		for _, s := range badScopes() {
			if _, err := f.Residue(t.Context(), s, 10); !errors.Is(err, blobd.ErrInvalid) {
				t.Errorf("%+v: %v", s, err)
			}
		}
	}},
	{"a limit below 1 is ErrInvalid, never empty", func(t *testing.T, f *fixture) {
		f.put("a/b", nil)
		if _, err := f.Residue(t.Context(), backends.Scope{Prefix: "a/"}, 0); !errors.Is(err, blobd.ErrInvalid) {
			t.Error(err)
		}
	}},
	{"an ended context is an error, never empty", func(t *testing.T, f *fixture) {
		if _, err := f.Residue(cancelled(t), backends.Scope{Prefix: "a/"}, 10); err == nil {
			t.Error("no error")
		}
	}},
}

func badScopes() []backends.Scope {
	return []backends.Scope{
		{},
		{Prefix: "a"},
		{Prefix: "/"},
		{Prefix: "../"},
		{Prefix: "a//"},
		{Prefix: "a/", Names: []string{"a/b"}},
		{Names: []string{"a/b", "../c"}},
		{Names: []string{"a/b", ""}},
	}
}
