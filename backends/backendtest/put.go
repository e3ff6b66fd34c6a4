package backendtest

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
)

var putTests = []test{
	{"on nil the object is whole", func(t *testing.T, f *fixture) {
		name, data := blob(1, 1, 8192)
		f.put(name, data)
		f.has(name, data)
	}},
	{"on nil the object is durable", func(t *testing.T, f *fixture) {
		name, data := blob(1, 1, 8192)
		f.put(name, data)
		f.put(backends.IdentityName, []byte("id"))
		f.reopen()
		f.has(name, data)
		f.has(backends.IdentityName, []byte("id"))
	}},
	{"an object of 0 bytes is an object", func(t *testing.T, f *fixture) {
		f.put("empty", nil)
		f.has("empty", nil)
		f.put("empty", []byte{})
		f.lists("empty", "empty")
	}},
	{"an object of 16 MiB is an object", func(t *testing.T, f *fixture) {
		name, data := blob(1, 2, 16<<20)
		f.put(name, data)
		f.has(name, data)
		if l := f.list("", "", 10); len(l) != 1 || l[0].Size != 16<<20 {
			t.Fatalf("listed as %+v", l)
		}
	}},
	{"sizes around powers of two are kept exactly", func(t *testing.T, f *fixture) {
		for _, n := range []int{1, 2, 63, 64, 65, 511, 512, 513, 4095, 4096, 4097, 65535, 65536, 65537} {
			name, data := blob(1, uint64(n), n)
			f.put(name, data)
			f.has(name, data)
		}
	}},
	{"bytes are kept whatever they are", func(t *testing.T, f *fixture) {
		for i, data := range [][]byte{make([]byte, 5000), bytes.Repeat([]byte{0xff}, 5000), []byte("\r\n\x00\x1a")} {
			name := fmt.Sprintf("bytes/n%d", i)
			f.put(name, data)
			f.has(name, data)
		}
	}},
	{"the same bytes again succeed", func(t *testing.T, f *fixture) {
		name, data := blob(1, 1, 8192)
		f.put(name, data)
		f.put(name, data)
		f.has(name, data)
		f.lists("", name)
		if left := f.residue(backends.Scope{Names: []string{name}}, 10); len(left) != 1 {
			t.Fatalf("stored %d times", len(left))
		}
	}},
	{"other bytes under a used name are ErrCorrupt", func(t *testing.T, f *fixture) {
		f.put("used", []byte("first bytes"))
		for _, other := range []string{"other bytes", "first byte", "first bytes!", ""} {
			if err := f.Put(t.Context(), "used", []byte(other)); !errors.Is(err, blobd.ErrCorrupt) {
				t.Errorf("put of %q: %v", other, err)
			}
		}
		f.has("used", []byte("first bytes"))
	}},
	{"the caller may reuse data after it returns", func(t *testing.T, f *fixture) {
		buffer := make([]byte, 4096)
		for i := range 8 {
			copy(buffer, random(uint64(i), 4096))
			f.put(numbered(i), buffer)
			clear(buffer)
		}
		for i := range 8 {
			f.has(numbered(i), random(uint64(i), 4096))
		}
	}},
	{"a bad name is ErrInvalid and stores nothing", func(t *testing.T, f *fixture) {
		for _, name := range badNames() {
			if err := f.Put(t.Context(), name, []byte("x")); !errors.Is(err, blobd.ErrInvalid) {
				t.Errorf("put %q: %v", name, err)
			}
		}
		f.lists("")
	}},
	{"a cancelled context stores nothing partial", func(t *testing.T, f *fixture) {
		name, data := blob(1, 1, 8192)
		if err := f.Put(cancelled(t), name, data); err == nil {
			t.Fatal("succeeded")
		}
		got, err := f.Get(t.Context(), name)
		if !errors.Is(err, blobd.ErrNotFound) && !bytes.Equal(got, data) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
		f.put(name, data)
		f.has(name, data)
	}},
	{"racing puts of the same bytes all succeed", func(t *testing.T, f *fixture) {
		name, data := blob(1, 1, 8192)
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				if err := f.Put(t.Context(), name, data); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		f.has(name, data)
		f.lists("", name)
	}},
	{"of racing puts of different bytes one wins, whole", func(t *testing.T, f *fixture) {
		const racers = 8
		var wg sync.WaitGroup
		errs := make([]error, racers)
		for i := range racers {
			wg.Go(func() { errs[i] = f.Put(t.Context(), "contested", random(uint64(i), 4096)) })
		}
		wg.Wait()
		winner := -1
		for i, err := range errs {
			switch {
			case err == nil && winner >= 0:
				t.Fatalf("puts %d and %d both succeeded", winner, i)
			case err == nil:
				winner = i
			case !errors.Is(err, blobd.ErrCorrupt):
				t.Errorf("put %d: %v", i, err)
			}
		}
		if winner < 0 {
			t.Fatal("nobody won")
		}
		f.has("contested", random(uint64(winner), 4096))
	}},
	{"after an erasure the name can be used again", func(t *testing.T, f *fixture) {
		f.put("again", []byte("first"))
		f.erase(backends.Scope{Names: []string{"again"}})
		f.put("again", []byte("second, and longer"))
		f.has("again", []byte("second, and longer"))
		f.lists("", "again")
		f.erase(backends.Scope{Names: []string{"again"}})
		f.put("again", []byte("first"))
		f.has("again", []byte("first"))
	}},
}

var getTests = []test{
	{"absent is ErrNotFound, and no bytes", func(t *testing.T, f *fixture) {
		name, _ := blob(1, 1, 10)
		f.lacks(name)
		f.put("ab/cd", []byte("x"))
		for _, near := range []string{"a", "ab", "ab/c", "ab/cd/e", "ab/ce", "abc"} {
			f.lacks(near)
		}
	}},
	{"an erased object is absent", func(t *testing.T, f *fixture) {
		name, data := blob(1, 1, 8192)
		f.put(name, data)
		f.erase(backends.Scope{Names: []string{name}})
		f.lacks(name)
	}},
	{"an erased object stays absent", func(t *testing.T, f *fixture) {
		kept, keptData := blob(1, 1, 8192)
		gone, data := blob(2, 2, 8192)
		f.put(kept, keptData)
		f.put(gone, data)
		f.erase(backends.Scope{Prefix: prefixOf(2)})
		f.reopen()
		f.lacks(gone)
		f.has(kept, keptData)
	}},
	{"an ended context is an error and never an absence", func(t *testing.T, f *fixture) {
		for _, name := range []string{"absent", "present"} {
			if name == "present" {
				f.put(name, []byte("x"))
			}
			got, err := f.Get(cancelled(t), name)
			if err == nil || got != nil || errors.Is(err, blobd.ErrNotFound) {
				t.Errorf("get %s: %d bytes, %v", name, len(got), err)
			}
		}
	}},
	{"a bad name is ErrInvalid, never an absence", func(t *testing.T, f *fixture) {
		for _, name := range badNames() {
			_, err := f.Get(t.Context(), name)
			if !errors.Is(err, blobd.ErrInvalid) || errors.Is(err, blobd.ErrNotFound) {
				t.Errorf("get %q: %v", name, err)
			}
		}
	}},
	{"the bytes are the caller's own", func(t *testing.T, f *fixture) {
		name, data := blob(1, 1, 8192)
		f.put(name, data)
		got, err := f.Get(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		clear(got)
		_ = append(got, "more"...)
		f.has(name, data)
	}},
}

func badNames() []string {
	return []string{
		"", "/", "a/", "/a", "a//b", ".", "..", "../a", "a/../b", "a/./b", "/etc/passwd", "a\\b", "a\x00b",
		"A", "a b", "é", "a.b", "a/b/c/d/e", string(bytes.Repeat([]byte{'a'}, 256)),
		string(bytes.Repeat([]byte{'a'}, 10<<10)),
	}
}
