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

var checkTests = []test{
	{"a store that answers passes and shows nothing of the check", func(t *testing.T, f *fixture) {
		for range 3 {
			if err := f.Check(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		f.lists("")
	}},
	{"an ended context is an error", func(t *testing.T, f *fixture) {
		if err := f.Check(cancelled(t)); err == nil {
			t.Fatal("no error")
		}
	}},
}

var allTests = []test{
	{"an ended context is never an absence, a corruption or a bad input", func(t *testing.T, f *fixture) {
		f.put("a/b", []byte("x"))
		ctx := cancelled(t)
		scope := backends.Scope{Prefix: "a/"}
		for op, call := range map[string]func() error{
			"put":     func() error { return f.Put(ctx, "a/c", nil) },
			"get":     func() error { _, err := f.Get(ctx, "a/b"); return err },
			"list":    func() error { _, err := f.List(ctx, "a/", "", 1); return err },
			"erase":   func() error { _, err := f.Erase(ctx, scope); return err },
			"residue": func() error { _, err := f.Residue(ctx, scope, 1); return err },
			"check":   func() error { return f.Check(ctx) },
		} {
			err := call()
			if err == nil || errors.Is(err, blobd.ErrNotFound) || errors.Is(err, blobd.ErrCorrupt) || errors.Is(err, blobd.ErrInvalid) {
				t.Errorf("%s: %v", op, err)
			}
		}
	}},
	{"are safe for concurrent use", func(t *testing.T, f *fixture) {
		const workers, rounds = 8, 12
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() { worker(t, f, byte(w+1), rounds) })
		}
		wg.Wait()
		for w := range workers {
			f.lists(prefixOf(byte(w + 1)))
		}
	}},
}

// worker does everything to one execution of its own while others do the same.
func worker(t *testing.T, f *fixture, execution byte, rounds int) {
	for i := range rounds {
		if err := oneRound(t, f, execution, uint64(execution)*1000+uint64(i)); err != nil {
			t.Errorf("execution %d, round %d: %v", execution, i, err)
			return
		}
	}
}

func oneRound(t *testing.T, f *fixture, execution byte, seed uint64) error {
	ctx := t.Context()
	name, data := blob(execution, seed, 3000)
	scope := backends.Scope{Prefix: prefixOf(execution)}
	if err := f.Put(ctx, name, data); err != nil {
		return err
	}
	got, err := f.Get(ctx, name)
	if err != nil || !bytes.Equal(got, data) {
		return fmt.Errorf("got %d bytes: %w", len(got), err)
	}
	if l, err := f.List(ctx, scope.Prefix, "", 1000); err != nil || len(l) != 1 || l[0].Name != name {
		return fmt.Errorf("listed %q: %w", names(l), err)
	}
	if e, err := f.Erase(ctx, scope); err != nil || e.Objects != 1 {
		return fmt.Errorf("erased %+v: %w", e, err)
	}
	if left, err := f.Residue(ctx, scope, 10); err != nil || len(left) != 0 {
		return fmt.Errorf("left %q: %w", names(left), err)
	}
	if _, err := f.Get(ctx, name); !errors.Is(err, blobd.ErrNotFound) {
		return fmt.Errorf("after the erasure: %w", err)
	}
	return nil
}
