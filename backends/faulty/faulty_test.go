package faulty_test

import (
	"errors"
	"testing"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
	"github.com/blobd/blobd/backends/backendtest"
	"github.com/blobd/blobd/backends/faulty"
	"github.com/blobd/blobd/backends/mem"
)

var errDown = errors.New("down")

func TestWithoutFaultsItIsTheStoreItWraps(t *testing.T) {
	backendtest.Run(t, backendtest.Harness{
		New:    func(*testing.T) backends.Store { return faulty.New(mem.New(time.Now)) },
		Reopen: func(_ *testing.T, s backends.Store) backends.Store { return s },
	})
}

func TestBeforeDoesNothingAndAfterDoesIt(t *testing.T) {
	for when, acted := range map[faulty.When]bool{faulty.Before: false, faulty.After: true} {
		s := faulty.New(mem.New(time.Now))
		s.Fail("put", 1, when, errDown)
		if err := s.Put(t.Context(), "a", []byte("x")); !errors.Is(err, errDown) {
			t.Fatal(err)
		}
		_, err := s.Get(t.Context(), "a")
		if acted != (err == nil) || !acted && !errors.Is(err, blobd.ErrNotFound) {
			t.Errorf("%v: %v", when, err)
		}

		s = faulty.New(mem.New(time.Now))
		scope := backends.Scope{Names: []string{"b"}}
		if err := s.Put(t.Context(), "b", nil); err != nil {
			t.Fatal(err)
		}
		s.Fail("erase", 1, when, errDown)
		if _, err := s.Erase(t.Context(), scope); !errors.Is(err, errDown) {
			t.Fatal(err)
		}
		left, err := s.Residue(t.Context(), scope, 1)
		if err != nil || acted != (len(left) == 0) {
			t.Errorf("%v: %+v, %v", when, left, err)
		}
	}
}

func TestOnlyTheNthCallFails(t *testing.T) {
	s := faulty.New(mem.New(time.Now))
	s.Fail("check", 3, faulty.Before, errDown)
	for i := 1; i <= 5; i++ {
		if err := s.Check(t.Context()); (err != nil) != (i == 3) {
			t.Errorf("call %d: %v", i, err)
		}
	}
	s.Fail("check", 0, faulty.Before, errDown)
	for range 3 {
		if err := s.Check(t.Context()); !errors.Is(err, errDown) {
			t.Error(err)
		}
	}
	s.Heal()
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestAFailedReadGivesNothing(t *testing.T) {
	s := faulty.New(mem.New(time.Now))
	if err := s.Put(t.Context(), "a/b", []byte("x")); err != nil {
		t.Fatal(err)
	}
	for _, op := range []string{"get", "list", "residue"} {
		s.Fail(op, 0, faulty.After, errDown)
	}
	if b, err := s.Get(t.Context(), "a/b"); b != nil || !errors.Is(err, errDown) {
		t.Error(b, err)
	}
	if l, err := s.List(t.Context(), "", "", 1); l != nil || !errors.Is(err, errDown) {
		t.Error(l, err)
	}
	if l, err := s.Residue(t.Context(), backends.Scope{Prefix: "a/"}, 1); l != nil || !errors.Is(err, errDown) {
		t.Error(l, err)
	}
}

func TestACallCanBeHeldUntilItIsReleased(t *testing.T) {
	s := faulty.New(mem.New(time.Now))
	entered, release := make(chan string), make(chan struct{})
	s.OnCall(func(op, name string) {
		if op == "put" {
			entered <- op + " " + name
			<-release
		}
	})
	done := make(chan error)
	go func() { done <- s.Put(t.Context(), "a", nil) }()
	if got := <-entered; got != "put a" {
		t.Error(got)
	}
	if _, err := s.Get(t.Context(), "a"); !errors.Is(err, blobd.ErrNotFound) {
		t.Errorf("it acted while held: %v", err)
	}
	close(release)
	if err := <-done; err != nil {
		t.Error(err)
	}
}
