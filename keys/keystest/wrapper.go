package keystest

import (
	"bytes"
	"slices"
	"strings"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/keys"
)

const maxCiphertext = 1024

var wrapTests = []test{
	{"then unwrap gives the plaintexts back in order", func(s *suite) {
		s.mustCreate(tenantA)
		want := secrets(10)
		for i, got := range s.mustUnwrap(tenantA, s.mustWrap(tenantA, want...)...) {
			s.answers(got, want[i])
		}
	}},
	{"takes 1 and 512 bytes and answers at most 1 KiB", func(s *suite) {
		s.mustCreate(tenantA)
		for _, size := range []int{1, 512} {
			plaintext := strings.Repeat("\x00", size)
			w := s.mustWrapOne(tenantA, plaintext)
			if len(w.Ciphertext) > maxCiphertext {
				s.Fatalf("%d bytes became %d", size, len(w.Ciphertext))
			}
			s.opens(tenantA, w, plaintext)
		}
	}},
	{"of 0 or 513 bytes is ErrInvalid", func(s *suite) {
		s.mustCreate(tenantA)
		for _, size := range []int{0, 513} {
			_, err := s.ring.Wrap(s.ctx, tenantA, [][]byte{[]byte("good"), make([]byte, size)})
			s.is("Wrap", err, blobd.ErrInvalid)
		}
	}},
	{"takes any bytes", func(s *suite) {
		s.mustCreate(tenantA)
		all := make([]byte, 256)
		for i := range all {
			all[i] = byte(i)
		}
		s.opens(tenantA, s.mustWrapOne(tenantA, string(all)), string(all))
	}},
	{"hides the plaintext and never repeats itself", func(s *suite) {
		s.mustCreate(tenantA)
		secret := secrets(1)[0]
		w := s.mustWrap(tenantA, secret, secret)
		if bytes.Equal(w[0].Ciphertext, w[1].Ciphertext) {
			s.Fatal("the same plaintext twice gave the same ciphertext")
		}
		if bytes.Contains(w[0].Ciphertext, []byte(secret)) {
			s.Fatal("the ciphertext shows the plaintext")
		}
	}},
	{"keeps and changes nothing of the caller's plaintext", func(s *suite) {
		s.mustCreate(tenantA)
		secret := secrets(1)[0]
		mine := []byte(secret)
		w, err := s.ring.Wrap(s.ctx, tenantA, [][]byte{mine})
		s.must("Wrap", err)
		if string(mine) != secret {
			s.Fatal("Wrap changed the plaintext")
		}
		clear(mine)
		s.opens(tenantA, w[0], secret)
	}},
	{"for a tenant without a KEK is ErrNotFound and creates none", func(s *suite) {
		_, err := s.ring.Wrap(s.ctx, nobody, [][]byte{[]byte("secret")})
		s.is("Wrap", err, blobd.ErrNotFound)
		s.tenants()
		_, err = s.ring.Status(s.ctx, nobody)
		s.is("Status", err, blobd.ErrNotFound)
	}},
	{"for a destroyed KEK is ErrErased and creates none", func(s *suite) {
		s.mustCreate(tenantA)
		s.must("Destroy", s.ring.Destroy(s.ctx, tenantA))
		_, err := s.ring.Wrap(s.ctx, tenantA, [][]byte{[]byte("secret")})
		s.is("Wrap", err, blobd.ErrErased)
		s.tenants()
	}},
	{"check permits its use", func(s *suite) {
		s.must("Check", s.ring.Check(s.ctx))
		s.mustCreate(tenantA)
		s.must("Check", s.ring.Check(s.ctx))
	}},
}

var unwrapTests = []test{
	{"with one bad item of ten answers nine", func(s *suite) {
		s.mustCreate(tenantA)
		want := secrets(10)
		for bad := range want {
			items := s.mustWrap(tenantA, want...)
			items[bad] = damaged(items[bad], len(items[bad].Ciphertext)/2)
			for i, got := range s.mustUnwrap(tenantA, items...) {
				if i == bad {
					s.refused(got, blobd.ErrCorrupt)
					continue
				}
				s.answers(got, want[i])
			}
		}
	}},
	{"of damaged ciphertext is ErrCorrupt", func(s *suite) {
		s.mustCreate(tenantA)
		w := s.mustWrapOne(tenantA, "secret")
		n := len(w.Ciphertext)
		for _, at := range []int{0, n / 4, n / 2, n - 8} {
			s.refuses(tenantA, damaged(w, at), blobd.ErrCorrupt)
		}
		for _, ciphertext := range [][]byte{nil, {}, {0}, w.Ciphertext[:n/2], w.Ciphertext[:n-4], w.Ciphertext[4:]} {
			s.refuses(tenantA, keys.Wrapped{Version: w.Version, Ciphertext: ciphertext}, blobd.ErrCorrupt)
		}
		s.opens(tenantA, w, "secret")
	}},
	{"of another tenant's ciphertext is ErrCorrupt", func(s *suite) {
		s.mustCreate(tenantA, tenantB)
		w := s.mustWrapOne(tenantA, "secret")
		s.refuses(tenantB, w, blobd.ErrCorrupt)
		s.opens(tenantA, w, "secret")
	}},
	{"under another version than it says is ErrCorrupt", func(s *suite) {
		s.mustCreate(tenantA)
		w := s.mustWrapOne(tenantA, "secret")
		s.mustRotate(tenantA)
		for _, v := range []keys.Version{0, 2, 3, 1 << 31} {
			s.refuses(tenantA, keys.Wrapped{Version: v, Ciphertext: w.Ciphertext}, blobd.ErrCorrupt)
		}
		s.opens(tenantA, w, "secret")
	}},
	{"for a tenant that never had a KEK is ErrNotFound for the whole call", func(s *suite) {
		s.mustCreate(tenantA)
		w := s.mustWrapOne(tenantA, "secret")
		answers, err := s.ring.Unwrap(s.ctx, nobody, []keys.Wrapped{w})
		s.is("Unwrap", err, blobd.ErrNotFound)
		if len(answers) != 0 {
			s.Fatal("Unwrap failed and answered")
		}
	}},
	{"gives the caller plaintexts of its own", func(s *suite) {
		s.mustCreate(tenantA)
		w := s.mustWrapOne(tenantA, "secret")
		twice := s.mustUnwrap(tenantA, w, w)
		clear(twice[0].Plaintext)
		s.answers(twice[1], "secret")
		s.opens(tenantA, w, "secret")
	}},
	{"changes nothing of the caller's items", func(s *suite) {
		s.mustCreate(tenantA)
		w := s.mustWrapOne(tenantA, "secret")
		before := slices.Clone(w.Ciphertext)
		s.opens(tenantA, w, "secret")
		if !bytes.Equal(before, w.Ciphertext) {
			s.Fatal("Unwrap changed the ciphertext")
		}
		s.opens(tenantA, w, "secret")
	}},
}

// damaged returns w with another byte at an index.
func damaged(w keys.Wrapped, at int) keys.Wrapped {
	w.Ciphertext = slices.Clone(w.Ciphertext)
	w.Ciphertext[at] ^= 1
	return w
}
