package kek

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/keys"
)

type countRandom struct{ n byte }

func (r *countRandom) Read(p []byte) (int, error) {
	r.n++
	copy(p, bytes.Repeat([]byte{r.n}, len(p)))
	return len(p), nil
}

func clock() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

func newRing(random io.Reader, save func(Set) error) *Ring {
	return NewRing(Set{}, random, clock, save)
}

func saved(Set) error { return nil }

// TestUnwrapKnownAnswer opens what another implementation of AES-GCM made of
// key 00…1f, tenant "acme", version 3.
func TestUnwrapKnownAnswer(t *testing.T) {
	ciphertext, err := hex.DecodeString("a0a1a2a3a4a5a6a7a8a9aaab" + "9270190d32b963cf1200e3f3741fa3ac15d8" + "26544a138b7a996d0d9b34193ddb0f84")
	if err != nil {
		t.Fatal(err)
	}
	key, err := blobd.KeyFrom(make([]byte, blobd.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	for i := range key.Bytes() {
		key.Bytes()[i] = byte(i)
	}
	set, err := NewSet([]Tenant{{Name: "acme", Versions: []Version{{Version: 3, Key: key}}}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := NewRing(set, nil, clock, saved).Unwrap(t.Context(), "acme", []keys.Wrapped{{Version: 3, Ciphertext: ciphertext}})
	if err != nil || got[0].Err != nil {
		t.Fatal(err, got[0].Err)
	}
	if string(got[0].Plaintext) != "the wrapped secret" {
		t.Fatalf("got %q", got[0].Plaintext)
	}
}

func TestDroppedKeysAreWipedAndKeptOnesAreNot(t *testing.T) {
	ctx := context.Background()
	r := newRing(new(countRandom), saved)
	must(t, r.Create(ctx, "a"))
	must(t, r.Create(ctx, "b"))
	_, err := r.Rotate(ctx, "a")
	must(t, err)
	a1, a2 := r.set.tenants["a"].Versions[0].Key, r.set.tenants["a"].Versions[1].Key
	b1 := r.set.tenants["b"].Versions[0].Key

	must(t, r.Trim(ctx, "a", 2))
	holds(t, a1, 0)
	holds(t, a2, 3)
	must(t, r.Destroy(ctx, "a"))
	holds(t, a2, 0)
	holds(t, b1, 2)
	r.Close()
	holds(t, b1, 0)
}

func TestAChangeThatWasNotSavedIsNotSeenAndItsKeyIsWiped(t *testing.T) {
	ctx := context.Background()
	full := errors.New("disk is full")
	var offered Set
	fails := false
	r := newRing(new(countRandom), func(s Set) error {
		offered = s
		if fails {
			return full
		}
		return nil
	})
	must(t, r.Create(ctx, "a"))
	a1 := r.set.tenants["a"].Versions[0].Key
	fails = true
	if _, err := r.Rotate(ctx, "a"); !errors.Is(err, full) {
		t.Fatalf("got %v", err)
	}
	holds(t, offered.tenants["a"].Versions[1].Key, 0)
	for name, change := range map[string]func() error{
		"trim":    func() error { return r.Trim(ctx, "a", 2) },
		"destroy": func() error { return r.Destroy(ctx, "a") },
		"create":  func() error { return r.Create(ctx, "b") },
	} {
		if change() == nil {
			t.Errorf("%s: no error", name)
		}
		holds(t, a1, 1)
	}
	if s, err := r.Status(ctx, "a"); err != nil || s != (keys.Status{Newest: 1, Oldest: 1}) {
		t.Fatalf("%+v, %v", s, err)
	}
}

func TestARepeatedChangeIsNotSavedAgain(t *testing.T) {
	ctx := context.Background()
	saves := 0
	r := newRing(new(countRandom), func(Set) error { saves++; return nil })
	for range 3 {
		must(t, r.Create(ctx, "a"))
		must(t, r.Trim(ctx, "a", 1))
	}
	for range 3 {
		must(t, r.Destroy(ctx, "a"))
	}
	if saves != 2 {
		t.Fatalf("%d saves, want 2", saves)
	}
}

func TestNoRandomnessMeansNoKEK(t *testing.T) {
	r := newRing(strings.NewReader("short"), saved)
	if err := r.Create(t.Context(), "a"); err == nil {
		t.Fatal("created without randomness")
	}
	if got, err := r.Tenants(t.Context()); err != nil || len(got) != 0 {
		t.Fatalf("%q, %v", got, err)
	}
}

func TestTenantNames(t *testing.T) {
	r := newRing(new(countRandom), saved)
	for _, name := range []string{"", "a\x00b", "a\nb", "\xff", strings.Repeat("x", 257)} {
		if err := r.Create(t.Context(), name); !errors.Is(err, blobd.ErrInvalid) {
			t.Errorf("Create(%q): %v", name, err)
		}
		if _, err := r.Unwrap(t.Context(), name, nil); !errors.Is(err, blobd.ErrInvalid) {
			t.Errorf("Unwrap(%q): %v", name, err)
		}
	}
	for _, name := range []string{"a", "a/b", "ä <&> \"", strings.Repeat("x", 256)} {
		must(t, r.Create(t.Context(), name))
	}
}

// holds checks that a key is one byte, repeated.
func holds(t *testing.T, key *blobd.Key, b byte) {
	t.Helper()
	if !bytes.Equal(key.Bytes(), bytes.Repeat([]byte{b}, blobd.KeySize)) {
		t.Fatalf("the key is not %d repeated", b)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
