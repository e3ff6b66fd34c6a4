package keystest

import (
	"github.com/blobd/blobd"
	"github.com/blobd/blobd/keys"
)

var createTests = []test{
	{"makes version 1", func(s *suite) {
		s.mustCreate(tenantA)
		s.status(tenantA, 1, 1)
		if v := s.mustWrapOne(tenantA, "secret").Version; v != 1 {
			s.Fatalf("wrapped under version %d, want 1", v)
		}
	}},
	{"again leaves the KEK as it is", func(s *suite) {
		s.mustCreate(tenantA)
		w := s.mustWrapOne(tenantA, "secret")
		s.mustCreate(tenantA)
		s.opens(tenantA, w, "secret")
		s.mustRotate(tenantA)
		s.mustCreate(tenantA)
		s.status(tenantA, 1, 2)
		s.opens(tenantA, w, "secret")
	}},
	{"after Destroy is ErrErased", func(s *suite) {
		s.mustCreate(tenantA)
		s.must("Destroy", s.ring.Destroy(s.ctx, tenantA))
		for range 2 {
			s.is("Create", s.ring.Create(s.ctx, tenantA), blobd.ErrErased)
		}
		s.tenants()
	}},
}

var rotateTests = []test{
	{"adds the next version, which Wrap uses from then on", func(s *suite) {
		s.mustCreate(tenantA)
		for want := keys.Version(2); want <= 4; want++ {
			if got := s.mustRotate(tenantA); got != want {
				s.Fatalf("Rotate: got %d, want %d", got, want)
			}
			if got := s.mustWrapOne(tenantA, "secret").Version; got != want {
				s.Fatalf("wrapped under version %d, want %d", got, want)
			}
			s.status(tenantA, 1, want)
		}
	}},
	{"leaves older versions unwrapping", func(s *suite) {
		s.mustCreate(tenantA)
		want := secrets(3)
		var items []keys.Wrapped
		for _, secret := range want {
			items = append(items, s.mustWrapOne(tenantA, secret))
			s.mustRotate(tenantA)
		}
		for i, got := range s.mustUnwrap(tenantA, items...) {
			s.answers(got, want[i])
		}
	}},
	{"leaves other tenants alone", func(s *suite) {
		s.mustCreate(tenantA, tenantB)
		s.mustRotate(tenantA)
		s.status(tenantB, 1, 1)
	}},
	{"of no KEK is ErrNotFound and creates none", func(s *suite) {
		_, err := s.ring.Rotate(s.ctx, nobody)
		s.is("Rotate", err, blobd.ErrNotFound)
		s.tenants()
	}},
	{"of a destroyed KEK is ErrErased", func(s *suite) {
		s.mustCreate(tenantA)
		s.must("Destroy", s.ring.Destroy(s.ctx, tenantA))
		_, err := s.ring.Rotate(s.ctx, tenantA)
		s.is("Rotate", err, blobd.ErrErased)
	}},
}

var statusTests = []test{
	{"of no KEK is ErrNotFound", func(s *suite) {
		_, err := s.ring.Status(s.ctx, nobody)
		s.is("Status", err, blobd.ErrNotFound)
	}},
	{"of a destroyed KEK is ErrErased", func(s *suite) {
		s.mustCreate(tenantA)
		s.must("Destroy", s.ring.Destroy(s.ctx, tenantA))
		_, err := s.ring.Status(s.ctx, tenantA)
		s.is("Status", err, blobd.ErrErased)
	}},
	{"says the newest version and the oldest that unwraps", func(s *suite) {
		s.mustCreate(tenantA)
		s.mustRotate(tenantA)
		s.mustRotate(tenantA)
		s.status(tenantA, 1, 3)
		s.must("Trim", s.ring.Trim(s.ctx, tenantA, 2))
		s.status(tenantA, 2, 3)
	}},
}

var trimTests = []test{
	{"makes older versions ErrErased per item and leaves the others", func(s *suite) {
		s.mustCreate(tenantA)
		v1 := s.mustWrapOne(tenantA, "one")
		s.mustRotate(tenantA)
		v2 := s.mustWrapOne(tenantA, "two")
		s.mustRotate(tenantA)
		v3 := s.mustWrapOne(tenantA, "three")
		s.must("Trim", s.ring.Trim(s.ctx, tenantA, 2))
		answers := s.mustUnwrap(tenantA, v1, v2, v3, v1)
		s.refused(answers[0], blobd.ErrErased)
		s.answers(answers[1], "two")
		s.answers(answers[2], "three")
		s.refused(answers[3], blobd.ErrErased)
	}},
	{"again is nil", func(s *suite) {
		s.mustCreate(tenantA)
		s.mustRotate(tenantA)
		for range 2 {
			s.must("Trim", s.ring.Trim(s.ctx, tenantA, 2))
		}
		s.status(tenantA, 2, 2)
	}},
	{"never brings a version back", func(s *suite) {
		s.mustCreate(tenantA)
		w := s.mustWrapOne(tenantA, "secret")
		s.mustRotate(tenantA)
		s.must("Trim", s.ring.Trim(s.ctx, tenantA, 2))
		s.must("Trim", s.ring.Trim(s.ctx, tenantA, 1))
		s.status(tenantA, 2, 2)
		s.mustRotate(tenantA)
		s.refuses(tenantA, w, blobd.ErrErased)
	}},
	{"past the newest version is ErrInvalid and destroys nothing", func(s *suite) {
		s.mustCreate(tenantA)
		w := s.mustWrapOne(tenantA, "secret")
		s.is("Trim", s.ring.Trim(s.ctx, tenantA, 2), blobd.ErrInvalid)
		s.status(tenantA, 1, 1)
		s.opens(tenantA, w, "secret")
	}},
	{"leaves other tenants alone", func(s *suite) {
		s.mustCreate(tenantA, tenantB)
		w := s.mustWrapOne(tenantB, "secret")
		s.mustRotate(tenantA)
		s.mustRotate(tenantB)
		s.must("Trim", s.ring.Trim(s.ctx, tenantA, 2))
		s.opens(tenantB, w, "secret")
	}},
	{"of no KEK is ErrNotFound", func(s *suite) {
		s.is("Trim", s.ring.Trim(s.ctx, nobody, 1), blobd.ErrNotFound)
	}},
	{"of a destroyed KEK is ErrErased", func(s *suite) {
		s.mustCreate(tenantA)
		s.must("Destroy", s.ring.Destroy(s.ctx, tenantA))
		s.is("Trim", s.ring.Trim(s.ctx, tenantA, 1), blobd.ErrErased)
	}},
}

var destroyTests = []test{
	{"makes every version ErrErased per item", func(s *suite) {
		s.mustCreate(tenantA)
		v1 := s.mustWrapOne(tenantA, "one")
		s.mustRotate(tenantA)
		v2 := s.mustWrapOne(tenantA, "two")
		s.must("Destroy", s.ring.Destroy(s.ctx, tenantA))
		for _, got := range s.mustUnwrap(tenantA, v1, v2) {
			s.refused(got, blobd.ErrErased)
		}
	}},
	{"again is nil", func(s *suite) {
		s.mustCreate(tenantA)
		w := s.mustWrapOne(tenantA, "secret")
		for range 3 {
			s.must("Destroy", s.ring.Destroy(s.ctx, tenantA))
		}
		s.refuses(tenantA, w, blobd.ErrErased)
	}},
	{"of a tenant that never had a KEK is nil and final", func(s *suite) {
		s.must("Destroy", s.ring.Destroy(s.ctx, nobody))
		s.must("Destroy", s.ring.Destroy(s.ctx, nobody))
		s.tenants()
		s.is("Create", s.ring.Create(s.ctx, nobody), blobd.ErrErased)
	}},
	{"leaves other tenants alone", func(s *suite) {
		s.mustCreate(tenantA, tenantB)
		w := s.mustWrapOne(tenantB, "secret")
		s.must("Destroy", s.ring.Destroy(s.ctx, tenantA))
		s.opens(tenantB, w, "secret")
		s.status(tenantB, 1, 1)
	}},
}

var tenantsTests = []test{
	{"of a fresh service are none", func(s *suite) { s.tenants() }},
	{"are sorted", func(s *suite) {
		s.mustCreate("delta", "alpha", "charlie", "bravo", "alpha-2")
		s.tenants("alpha", "alpha-2", "bravo", "charlie", "delta")
	}},
	{"are without the destroyed ones", func(s *suite) {
		s.mustCreate(tenantA, tenantB)
		s.must("Destroy", s.ring.Destroy(s.ctx, tenantA))
		s.tenants(tenantB)
	}},
}
