package faulty_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/blobd/blobd/keys"
	"github.com/blobd/blobd/keys/faulty"
	"github.com/blobd/blobd/keys/keystest"
	"github.com/blobd/blobd/keys/mem"
)

var errFault = errors.New("the fault")

func TestContractWithoutFaults(t *testing.T) {
	keystest.Run(t, keystest.Harness{New: func(*testing.T) keystest.Service {
		ring := faulty.New(mem.New(nil))
		return keystest.Service{Open: func(*testing.T) keys.Keyring { return ring }}
	}})
}

// calls has every operation once.
var calls = map[string]func(context.Context, keys.Keyring) error{
	"wrap": func(ctx context.Context, k keys.Keyring) error {
		_, err := k.Wrap(ctx, "acme", [][]byte{[]byte("x")})
		return err
	},
	"unwrap": func(ctx context.Context, k keys.Keyring) error {
		_, err := k.Unwrap(ctx, "acme", []keys.Wrapped{{Version: 1}})
		return err
	},
	"create":  func(ctx context.Context, k keys.Keyring) error { return k.Create(ctx, "acme") },
	"rotate":  func(ctx context.Context, k keys.Keyring) error { _, err := k.Rotate(ctx, "acme"); return err },
	"status":  func(ctx context.Context, k keys.Keyring) error { _, err := k.Status(ctx, "acme"); return err },
	"trim":    func(ctx context.Context, k keys.Keyring) error { return k.Trim(ctx, "acme", 1) },
	"destroy": func(ctx context.Context, k keys.Keyring) error { return k.Destroy(ctx, "other") },
	"check":   func(ctx context.Context, k keys.Keyring) error { return k.Check(ctx) },
	"tenants": func(ctx context.Context, k keys.Keyring) error { _, err := k.Tenants(ctx); return err },
}

func TestAFaultStrikesItsCallOnce(t *testing.T) {
	for op, act := range calls {
		for _, when := range []faulty.When{faulty.Before, faulty.After} {
			reached := faulty.New(mem.New(nil))
			k := faulty.New(reached)
			must(t, k.Create(t.Context(), "acme"))
			n := 0
			reached.OnCall(func(string) { n++ })
			k.Fail(op, 2, when, errFault)
			for call := 1; call <= 4; call++ {
				err := act(t.Context(), k)
				if call == 2 != errors.Is(err, errFault) || call != 2 && err != nil {
					t.Fatalf("%s, call %d: %v", op, call, err)
				}
			}
			want := 4
			if when == faulty.Before {
				want = 3
			}
			if n != want {
				t.Errorf("%s, when %d: the service was reached %d times, want %d", op, when, n, want)
			}
		}
	}
}

func TestAfterMeansThatItHappened(t *testing.T) {
	inner := mem.New(nil)
	k := faulty.New(inner)
	k.Fail("create", 1, faulty.Before, errFault)
	k.Fail("create", 2, faulty.After, errFault)
	for want := range 2 {
		if err := k.Create(t.Context(), "acme"); !errors.Is(err, errFault) {
			t.Fatal(err)
		}
		if got, err := inner.Tenants(t.Context()); err != nil || len(got) != want {
			t.Fatalf("%q, %v, want %d", got, err, want)
		}
	}
}

func TestOnCallSeesEveryCall(t *testing.T) {
	k := faulty.New(mem.New(nil))
	var seen []string
	k.OnCall(func(op string) { seen = append(seen, op) })
	want := []string{"create", "wrap", "unwrap", "rotate", "status", "trim", "destroy", "check", "tenants"}
	k.Fail("check", 1, faulty.Before, errFault)
	for _, op := range want {
		_ = calls[op](t.Context(), k)
	}
	if !slices.Equal(seen, want) {
		t.Fatalf("%q", seen)
	}
}

func TestAFaultThatCouldNotStrikePanics(t *testing.T) {
	for name, set := range map[string]func(k *faulty.Keyring){
		"unknown op": func(k *faulty.Keyring) { k.Fail("warp", 1, faulty.Before, errFault) },
		"call 0":     func(k *faulty.Keyring) { k.Fail("wrap", 0, faulty.Before, errFault) },
		"no error":   func(k *faulty.Keyring) { k.Fail("wrap", 1, faulty.Before, nil) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			set(faulty.New(mem.New(nil)))
		}()
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
