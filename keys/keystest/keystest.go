// Package keystest holds every sentence of the contract keys.Keyring as a named
// subtest. Each driver passes it.
//
// It asks nothing of a driver but the contract, so it runs against a key
// service on the network as well as against one in memory.
package keystest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/keys"
)

// Harness makes key services for the suite.
type Harness struct {
	// New returns a fresh service without any KEK; it is called once per
	// subtest, and cleans up with t.Cleanup.
	New func(t *testing.T) Service
}

// Service is one key service.
type Service struct {
	// Open connects to the service, or starts it again on what it has stored.
	// What an earlier Open returned is no longer used.
	Open func(t *testing.T) keys.Keyring
}

// Tenants of the suite.
const (
	tenantA = "alpha"
	tenantB = "beta"
	nobody  = "nobody"
)

// Run runs the suite.
func Run(t *testing.T, h Harness) {
	t.Helper()
	groups := []struct {
		name  string
		tests []test
	}{
		{"Wrap", wrapTests}, {"Unwrap", unwrapTests}, {"Create", createTests},
		{"Rotate", rotateTests}, {"Status", statusTests}, {"Trim", trimTests},
		{"Destroy", destroyTests}, {"Tenants", tenantsTests}, {"Cancelled", cancelTests},
		{"Reopen", reopenTests}, {"Concurrent", concurrentTests},
	}
	for _, g := range groups {
		t.Run(g.name, func(t *testing.T) {
			for _, c := range g.tests {
				t.Run(c.name, func(t *testing.T) {
					service := h.New(t)
					c.run(&suite{t, t.Context(), service, service.Open(t)})
				})
			}
		})
	}
}

type test struct {
	name string
	run  func(s *suite)
}

// suite is one subtest's service and what it asks of it. Methods named must…
// end the subtest when the answer is another.
type suite struct {
	*testing.T
	ctx     context.Context
	service Service
	ring    keys.Keyring
}

func (s *suite) reopen() { s.ring = s.service.Open(s.T) }

func (s *suite) mustCreate(tenants ...string) {
	s.Helper()
	for _, tenant := range tenants {
		s.must("Create", s.ring.Create(s.ctx, tenant))
	}
}

func (s *suite) mustRotate(tenant string) keys.Version {
	s.Helper()
	v, err := s.ring.Rotate(s.ctx, tenant)
	s.must("Rotate", err)
	return v
}

func (s *suite) mustWrap(tenant string, plaintexts ...string) []keys.Wrapped {
	s.Helper()
	in := make([][]byte, len(plaintexts))
	for i, p := range plaintexts {
		in[i] = []byte(p)
	}
	wrapped, err := s.ring.Wrap(s.ctx, tenant, in)
	s.must("Wrap", err)
	if len(wrapped) != len(plaintexts) {
		s.Fatalf("Wrap answered %d items for %d", len(wrapped), len(plaintexts))
	}
	return wrapped
}

func (s *suite) mustWrapOne(tenant, plaintext string) keys.Wrapped {
	s.Helper()
	return s.mustWrap(tenant, plaintext)[0]
}

func (s *suite) mustUnwrap(tenant string, items ...keys.Wrapped) []keys.Unwrapped {
	s.Helper()
	answers, err := s.ring.Unwrap(s.ctx, tenant, items)
	s.must("Unwrap", err)
	if len(answers) != len(items) {
		s.Fatalf("Unwrap answered %d items for %d", len(answers), len(items))
	}
	return answers
}

func (s *suite) must(what string, err error) {
	s.Helper()
	if err != nil {
		s.Fatalf("%s: %v", what, err)
	}
}

// opens checks that an item unwraps to a plaintext.
func (s *suite) opens(tenant string, w keys.Wrapped, want string) {
	s.Helper()
	s.answers(s.mustUnwrap(tenant, w)[0], want)
}

func (s *suite) answers(got keys.Unwrapped, want string) {
	s.Helper()
	if got.Err != nil {
		s.Fatalf("item: %v, want a plaintext", got.Err)
	}
	if !bytes.Equal(got.Plaintext, []byte(want)) {
		s.Fatal("item: unwrapped to another plaintext")
	}
}

// refuses checks that an item is answered by want, without a plaintext.
func (s *suite) refuses(tenant string, w keys.Wrapped, want error) {
	s.Helper()
	s.refused(s.mustUnwrap(tenant, w)[0], want)
}

func (s *suite) refused(got keys.Unwrapped, want error) {
	s.Helper()
	s.is("item", got.Err, want)
	if got.Plaintext != nil {
		s.Fatal("item: has an error and a plaintext")
	}
}

// is checks that an error is want and no other of the closed set.
func (s *suite) is(what string, err, want error) {
	s.Helper()
	if !errors.Is(err, want) {
		s.Fatalf("%s: got %v, want %v", what, err, want)
	}
	for _, other := range closedSet {
		if other != want && errors.Is(err, other) {
			s.Fatalf("%s: %v is %v too, want only %v", what, err, other, want)
		}
	}
}

var closedSet = []error{
	blobd.ErrNotFound, blobd.ErrErased, blobd.ErrExpired, blobd.ErrClosed, blobd.ErrDenied,
	blobd.ErrInvalid, blobd.ErrTooLarge, blobd.ErrConflict, blobd.ErrHeld, blobd.ErrPolicy,
	blobd.ErrCorrupt, blobd.ErrMissing, blobd.ErrUnavailable,
}

func (s *suite) status(tenant string, oldest, newest keys.Version) {
	s.Helper()
	got, err := s.ring.Status(s.ctx, tenant)
	s.must("Status", err)
	if want := (keys.Status{Newest: newest, Oldest: oldest}); got != want {
		s.Fatalf("Status: got %+v, want %+v", got, want)
	}
}

func (s *suite) tenants(want ...string) {
	s.Helper()
	got, err := s.ring.Tenants(s.ctx)
	s.must("Tenants", err)
	if !slices.Equal(got, want) {
		s.Fatalf("Tenants: got %q, want %q", got, want)
	}
}

// secrets returns n different plaintexts.
func secrets(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("the secret number %04d", i)
	}
	return all
}
