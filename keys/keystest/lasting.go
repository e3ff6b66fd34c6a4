package keystest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/keys"
)

var cancelTests = []test{
	{"call is ErrUnavailable and changes nothing", func(s *suite) {
		s.mustCreate(tenantA)
		w := s.mustWrapOne(tenantA, "secret")
		s.mustRotate(tenantA)
		ctx, cancel := context.WithCancel(s.ctx)
		cancel()

		_, err := s.ring.Wrap(ctx, tenantA, [][]byte{[]byte("secret")})
		s.is("Wrap", err, blobd.ErrUnavailable)
		_, err = s.ring.Unwrap(ctx, tenantA, []keys.Wrapped{w})
		s.is("Unwrap", err, blobd.ErrUnavailable)
		_, err = s.ring.Rotate(ctx, tenantA)
		s.is("Rotate", err, blobd.ErrUnavailable)
		_, err = s.ring.Status(ctx, tenantA)
		s.is("Status", err, blobd.ErrUnavailable)
		_, err = s.ring.Tenants(ctx)
		s.is("Tenants", err, blobd.ErrUnavailable)
		s.is("Create", s.ring.Create(ctx, tenantB), blobd.ErrUnavailable)
		s.is("Trim", s.ring.Trim(ctx, tenantA, 2), blobd.ErrUnavailable)
		s.is("Destroy", s.ring.Destroy(ctx, tenantA), blobd.ErrUnavailable)
		s.is("Check", s.ring.Check(ctx), blobd.ErrUnavailable)

		s.tenants(tenantA)
		s.status(tenantA, 1, 2)
		s.opens(tenantA, w, "secret")
	}},
	{"call for a tenant without a KEK is no absence", func(s *suite) {
		ctx, cancel := context.WithCancel(s.ctx)
		cancel()
		_, err := s.ring.Unwrap(ctx, nobody, []keys.Wrapped{{Version: 1, Ciphertext: []byte("x")}})
		s.is("Unwrap", err, blobd.ErrUnavailable)
		_, err = s.ring.Status(ctx, nobody)
		s.is("Status", err, blobd.ErrUnavailable)
	}},
}

var reopenTests = []test{
	{"keeps KEKs and versions", func(s *suite) {
		s.mustCreate(tenantA, tenantB)
		v1 := s.mustWrapOne(tenantA, "one")
		s.mustRotate(tenantA)
		v2 := s.mustWrapOne(tenantA, "two")
		b := s.mustWrapOne(tenantB, "other")
		s.reopen()
		s.tenants(tenantA, tenantB)
		s.status(tenantA, 1, 2)
		s.status(tenantB, 1, 1)
		s.opens(tenantA, v1, "one")
		s.opens(tenantA, v2, "two")
		s.opens(tenantB, b, "other")
		if v := s.mustWrapOne(tenantA, "three").Version; v != 2 {
			s.Fatalf("wrapped under version %d, want 2", v)
		}
	}},
	{"keeps what was trimmed away", func(s *suite) {
		s.mustCreate(tenantA)
		v1 := s.mustWrapOne(tenantA, "one")
		s.mustRotate(tenantA)
		v2 := s.mustWrapOne(tenantA, "two")
		s.must("Trim", s.ring.Trim(s.ctx, tenantA, 2))
		s.reopen()
		s.status(tenantA, 2, 2)
		s.refuses(tenantA, v1, blobd.ErrErased)
		s.opens(tenantA, v2, "two")
		if v := s.mustRotate(tenantA); v != 3 {
			s.Fatalf("Rotate: got %d, want 3", v)
		}
	}},
	{"keeps what was destroyed", func(s *suite) {
		s.mustCreate(tenantA)
		w := s.mustWrapOne(tenantA, "secret")
		s.must("Destroy", s.ring.Destroy(s.ctx, tenantA))
		s.must("Destroy", s.ring.Destroy(s.ctx, nobody))
		s.reopen()
		s.tenants()
		s.refuses(tenantA, w, blobd.ErrErased)
		s.is("Create", s.ring.Create(s.ctx, tenantA), blobd.ErrErased)
		s.is("Create", s.ring.Create(s.ctx, nobody), blobd.ErrErased)
	}},
}

const workers = 8

// each runs f in several goroutines at once and reports what they return.
func (s *suite) each(f func(worker int) error) {
	s.Helper()
	errs := make([]error, workers)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { errs[i] = f(i) })
	}
	all.Wait()
	for i, err := range errs {
		if err != nil {
			s.Fatalf("worker %d: %v", i, err)
		}
	}
}

var concurrentTests = []test{
	{"Create makes one KEK", func(s *suite) {
		wrapped := make([][]keys.Wrapped, workers)
		s.each(func(i int) (err error) {
			if err := s.ring.Create(s.ctx, tenantA); err != nil {
				return err
			}
			wrapped[i], err = s.ring.Wrap(s.ctx, tenantA, [][]byte{[]byte("secret")})
			return err
		})
		s.status(tenantA, 1, 1)
		for _, w := range wrapped {
			s.opens(tenantA, w[0], "secret")
		}
	}},
	{"Rotate makes different versions", func(s *suite) {
		s.mustCreate(tenantA)
		made := make([]keys.Version, workers)
		s.each(func(i int) (err error) {
			made[i], err = s.ring.Rotate(s.ctx, tenantA)
			return err
		})
		seen := make(map[keys.Version]bool)
		for _, v := range made {
			if seen[v] || v < 2 || v > workers+1 {
				s.Fatalf("Rotate answered %v", made)
			}
			seen[v] = true
		}
		s.status(tenantA, 1, workers+1)
	}},
	{"wraps and unwraps go on while others rotate", func(s *suite) {
		s.mustCreate(tenantA)
		s.each(func(i int) error {
			if i == 0 {
				for range 5 {
					if _, err := s.ring.Rotate(s.ctx, tenantA); err != nil {
						return err
					}
				}
				return nil
			}
			return s.roundTrips(i)
		})
		s.status(tenantA, 1, 6)
	}},
	{"trims and destroys leave answers either whole or ErrErased", func(s *suite) {
		s.mustCreate(tenantA)
		w := s.mustWrapOne(tenantA, "secret")
		s.mustRotate(tenantA)
		s.each(func(i int) error {
			if i == 0 {
				if err := s.ring.Trim(s.ctx, tenantA, 2); err != nil {
					return err
				}
				return s.ring.Destroy(s.ctx, tenantA)
			}
			for range 10 {
				answers, err := s.ring.Unwrap(s.ctx, tenantA, []keys.Wrapped{w})
				if err != nil {
					return err
				}
				if err := wholeOrErased(answers[0], "secret"); err != nil {
					return err
				}
			}
			return nil
		})
		s.refuses(tenantA, w, blobd.ErrErased)
	}},
}

func (s *suite) roundTrips(worker int) error {
	for round := range 10 {
		want := fmt.Sprintf("secret %d of worker %d", round, worker)
		w, err := s.ring.Wrap(s.ctx, tenantA, [][]byte{[]byte(want)})
		if err != nil {
			return err
		}
		got, err := s.ring.Unwrap(s.ctx, tenantA, w)
		if err != nil {
			return err
		}
		if got[0].Err != nil || string(got[0].Plaintext) != want {
			return fmt.Errorf("round %d came back as something else: %v", round, got[0].Err)
		}
	}
	return nil
}

func wholeOrErased(got keys.Unwrapped, want string) error {
	if errors.Is(got.Err, blobd.ErrErased) && got.Plaintext == nil {
		return nil
	}
	if got.Err != nil || string(got.Plaintext) != want {
		return fmt.Errorf("neither the plaintext nor ErrErased: %v", got.Err)
	}
	return nil
}
