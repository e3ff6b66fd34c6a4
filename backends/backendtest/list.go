package backendtest

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
)

// tricky are names whose order and prefixes are easy to get wrong, in byte
// order.
var tricky = []string{
	"a", "a-", "a-/x", "a/b", "a/b-", "a/b-/c", "a/b/c", "a/b0", "a/b_", "a/ba", "a0", "a_", "ab", "ab/x", "abc", "abc/x", "b",
}

var listTests = []test{
	{"an empty store lists nothing", func(t *testing.T, f *fixture) {
		f.lists("")
		f.lists("any/")
	}},
	{"in byte order", func(t *testing.T, f *fixture) {
		shuffled := slices.Clone(f.kept(tricky...))
		slices.Reverse(shuffled)
		for _, n := range shuffled {
			f.put(n, []byte(n))
		}
		f.lists("", f.kept(tricky...)...)
	}},
	{"only names that start with prefix", func(t *testing.T, f *fixture) {
		for _, n := range f.kept(tricky...) {
			f.put(n, nil)
		}
		f.lists("a/b", f.kept("a/b", "a/b-", "a/b-/c", "a/b/c", "a/b0", "a/b_", "a/ba")...)
		f.lists("a/b/", "a/b/c")
		f.lists("ab", f.kept("ab", "ab/x", "abc", "abc/x")...)
		f.lists("ab/", "ab/x")
		f.lists("zz")
	}},
	{"only names that sort after after", func(t *testing.T, f *fixture) {
		for _, n := range f.kept(tricky...) {
			f.put(n, nil)
		}
		for i, n := range tricky { // also after names that are not there
			if got := names(f.list("", n, 1000)); !slices.Equal(got, f.kept(tricky[i+1:]...)) {
				t.Errorf("after %q: %q", n, got)
			}
		}
		for _, c := range []struct {
			prefix, after string
			want          []string
		}{
			{"ab", "a", []string{"ab", "ab/x", "abc", "abc/x"}},
			{"ab", "ab", []string{"ab/x", "abc", "abc/x"}},
			{"ab", "aba", []string{"abc", "abc/x"}},
			{"ab", "zz", nil},
		} {
			if got := names(f.list(c.prefix, c.after, 1000)); !slices.Equal(got, f.kept(c.want...)) {
				t.Errorf("%q after %q: %q, want %q", c.prefix, c.after, got, c.want)
			}
		}
	}},
	{"at most limit, and fewer means no more", func(t *testing.T, f *fixture) {
		for _, n := range f.kept(tricky...) {
			f.put(n, nil)
		}
		for limit := 1; limit <= len(tricky)+1; limit++ {
			var got []string
			for after := ""; ; {
				page := f.list("", after, limit)
				got = append(got, names(page)...)
				if len(page) > limit {
					t.Fatalf("%d of at most %d", len(page), limit)
				}
				if len(page) < limit {
					break
				}
				after = page[len(page)-1].Name
			}
			if !slices.Equal(got, f.kept(tricky...)) {
				t.Fatalf("pages of %d: %q", limit, got)
			}
		}
	}},
	{"more than a page of 1,000", func(t *testing.T, f *fixture) {
		const n = 1003
		f.many(n)
		first := f.list("many/", "", 1000)
		if len(first) != 1000 || first[0].Name != numbered(0) || first[999].Name != numbered(999) {
			t.Fatalf("first page has %d", len(first))
		}
		if rest := f.list("many/", first[999].Name, 1000); len(rest) != n-1000 {
			t.Fatalf("second page has %d", len(rest))
		}
	}},
	{"a limit outside 1 to 1,000 is ErrInvalid", func(t *testing.T, f *fixture) {
		for _, limit := range []int{-1, 0, 1001} {
			if _, err := f.List(t.Context(), "", "", limit); !errors.Is(err, blobd.ErrInvalid) {
				t.Errorf("limit %d: %v", limit, err)
			}
		}
	}},
	{"says sizes, and times in UTC that do not run backwards", func(t *testing.T, f *fixture) {
		f.put("t/a", make([]byte, 5))
		f.put("t/b", make([]byte, 5000))
		l := f.list("t/", "", 10)
		if len(l) != 2 || l[0].Size != 5 || l[1].Size != 5000 {
			t.Fatalf("%+v", l)
		}
		for _, o := range l {
			if o.Modified.IsZero() || o.Modified.Location() != time.UTC {
				t.Errorf("%s: modified %v", o.Name, o.Modified)
			}
		}
		if l[1].Modified.Before(l[0].Modified) {
			t.Errorf("%v after %v", l[0].Modified, l[1].Modified)
		}
	}},
	{"says the same after a restart", func(t *testing.T, f *fixture) {
		for _, n := range f.kept(tricky...) {
			f.put(n, []byte(n))
		}
		before := f.list("", "", 1000)
		f.reopen()
		if after := f.list("", "", 1000); !slices.EqualFunc(before, after, sameObject) {
			t.Fatalf("before %+v, after %+v", before, after)
		}
	}},
	{"an ended context is an error, never a short page", func(t *testing.T, f *fixture) {
		f.put("a", nil)
		if l, err := f.List(cancelled(t), "", "", 10); err == nil || l != nil {
			t.Fatalf("%v, %v", l, err)
		}
	}},
	{"objects that stay are in every page while others come and go", func(t *testing.T, f *fixture) {
		stay := []string{"s/a", "s/m", "s/z"}
		for _, n := range stay {
			f.put(n, nil)
		}
		stop := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				name := []string{"s/b", "s/n", "s/y"}[i%3]
				if err := f.Put(t.Context(), name, []byte("x")); err != nil {
					t.Error(err)
					return
				}
				if _, err := f.Erase(t.Context(), backends.Scope{Names: []string{name}}); err != nil {
					t.Error(err)
					return
				}
			}
		})
		for range 50 {
			got := names(f.list("s/", "", 1000))
			for _, n := range stay {
				if !slices.Contains(got, n) {
					t.Errorf("%s is not in %q", n, got)
				}
			}
			if !slices.IsSorted(got) {
				t.Errorf("not sorted: %q", got)
			}
		}
		close(stop)
		wg.Wait()
	}},
}

func sameObject(a, b backends.Object) bool {
	return a.Name == b.Name && a.Size == b.Size && a.Modified.Equal(b.Modified)
}

// many puts n small objects, several at a time.
func (f *fixture) many(n int) {
	f.t.Helper()
	const writers = 16
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := w; i < n; i += writers {
				if err := f.Put(f.t.Context(), numbered(i), random(uint64(i), 100)); err != nil {
					f.t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if f.t.Failed() {
		f.t.FailNow()
	}
}
