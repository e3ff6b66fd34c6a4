package transit_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/vault/api"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/internal/servers"
	"github.com/blobd/blobd/keys"
	"github.com/blobd/blobd/keys/transit"
)

const secret = "the secret of acme"

// acme makes a tenant with one wrapped secret.
func acme(t *testing.T, k *transit.Keyring) keys.Wrapped {
	t.Helper()
	must(t, k.Create(t.Context(), "acme"))
	w, err := k.Wrap(t.Context(), "acme", [][]byte{[]byte(secret)})
	must(t, err)
	return w[0]
}

func opens(t *testing.T, k *transit.Keyring, w keys.Wrapped) {
	t.Helper()
	if err := outcome(k.Unwrap(t.Context(), "acme", []keys.Wrapped{w})); err != nil {
		t.Fatal(err)
	}
}

// outcome is what came of the unwrap of one secret.
func outcome(got []keys.Unwrapped, err error) error {
	switch {
	case err != nil:
		return err
	case len(got) != 1:
		return errors.New("no answer for the item")
	case got[0].Err != nil:
		return got[0].Err
	case string(got[0].Plaintext) != secret:
		return errors.New("another plaintext")
	}
	return nil
}

// absences are what no failure may be read as.
var absences = []error{blobd.ErrNotFound, blobd.ErrErased, blobd.ErrMissing, blobd.ErrExpired, blobd.ErrClosed, blobd.ErrCorrupt}

func wantOnly(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got %v, want %v", what, err, want)
	}
	for _, a := range absences {
		if a != want && errors.Is(err, a) && !errors.Is(want, a) {
			t.Errorf("%s: %v says %v", what, err, a)
		}
	}
}

// wantFailure asks everything of a key service that fails: each answer is want,
// none an absence, and the core over it says so too.
func wantFailure(t *testing.T, k *transit.Keyring, w keys.Wrapped, want error) {
	t.Helper()
	ctx := t.Context()
	_, err := k.Wrap(ctx, "acme", [][]byte{[]byte(secret)})
	wantOnly(t, "Wrap", err, want)
	wantOnly(t, "Unwrap", outcome(k.Unwrap(ctx, "acme", []keys.Wrapped{w})), want)
	_, err = k.Unwrap(ctx, "nobody", []keys.Wrapped{w})
	wantOnly(t, "Unwrap of an unknown tenant", err, want)
	_, err = k.Status(ctx, "acme")
	wantOnly(t, "Status", err, want)
	_, err = k.Rotate(ctx, "acme")
	wantOnly(t, "Rotate", err, want)
	wantOnly(t, "Trim", k.Trim(ctx, "acme", 1), want)
	wantOnly(t, "Create", k.Create(ctx, "new"), want)
	wantOnly(t, "Destroy", k.Destroy(ctx, "acme"), want)
	_, err = k.Tenants(ctx)
	wantOnly(t, "Tenants", err, want)
	wantOnly(t, "Check", k.Check(ctx), want)
	_, err = keys.NewCore(k, keys.Options{}).Execution(ctx, "acme", blobd.ExecutionTag{}, keys.ID{}, w)
	wantOnly(t, "the core's Execution", err, want)
}

// Whatever Vault does instead of answering is an error and no absence, and the
// same keyring works again once Vault does.
func TestFailuresThatPass(t *testing.T) {
	v := vault(t)
	k := open(t, v)
	w := acme(t, k)
	for _, c := range []struct {
		name       string
		fail, mend func()
		want       error
	}{
		{"sealed", v.Seal, v.Unseal, blobd.ErrUnavailable},
		{"killed", v.Kill, v.Restart, blobd.ErrUnavailable},
		{"restarted and still sealed", func() { v.Kill(); v.Start() }, v.Unseal, blobd.ErrUnavailable},
		{"policy deleted", func() { must(t, v.Root().Sys().DeletePolicyWithContext(t.Context(), "blobd")) },
			func() { v.Policy("blobd", policy(t)) }, blobd.ErrDenied},
		{"policy for another mount", func() { v.Policy("blobd", strings.ReplaceAll(policy(t), "transit/", "elsewhere/")) },
			func() { v.Policy("blobd", policy(t)) }, blobd.ErrDenied},
		{"quota used up", func() { exhaust(t, v) },
			func() {
				_, err := v.Root().Logical().DeleteWithContext(t.Context(), "sys/quotas/rate-limit/all")
				must(t, err)
			},
			blobd.ErrUnavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			opens(t, k, w)
			c.fail()
			wantFailure(t, k, w, c.want)
			c.mend()
			opens(t, k, w)
			if s, err := k.Status(t.Context(), "acme"); err != nil || s != (keys.Status{Newest: 1, Oldest: 1}) {
				t.Errorf("a call that failed did something: %+v, %v", s, err)
			}
			must(t, k.Check(t.Context()))
		})
	}
}

// exhaust lets Transit answer one request in an hour, and uses it up.
func exhaust(t *testing.T, v *servers.VaultServer) {
	t.Helper()
	v.Write("sys/quotas/rate-limit/all", map[string]any{"path": "transit", "rate": 1, "interval": "1h"})
	for {
		_, err := v.Root().Logical().ReadWithContext(t.Context(), "transit/config/keys")
		var refused *api.ResponseError
		if errors.As(err, &refused) && refused.StatusCode == http.StatusTooManyRequests {
			return
		}
		must(t, err)
	}
}

func TestARevokedTokenIsDenied(t *testing.T) {
	v := vault(t)
	token := v.NewToken("blobd", "1h")
	k := open(t, v, func(o *transit.Options) { o.Login = transit.Token(token) })
	w := acme(t, k)
	must(t, v.Root().Auth().Token().RevokeTreeWithContext(t.Context(), token))
	wantFailure(t, k, w, blobd.ErrDenied)
}

func TestAMissingMountIsNoAbsence(t *testing.T) {
	v := vault(t)
	k := open(t, v)
	w := acme(t, k)
	must(t, v.Root().Sys().UnmountWithContext(t.Context(), "transit"))
	wantFailure(t, k, w, blobd.ErrUnavailable)
}

// Another engine in Transit's place would store what is sent to be wrapped, and
// says of every key that it is absent.
func TestAnotherEngineIsNoTransit(t *testing.T) {
	v := vault(t)
	w := acme(t, open(t, v))
	must(t, v.Root().Sys().UnmountWithContext(t.Context(), "transit"))
	must(t, v.Root().Sys().MountWithContext(t.Context(), "transit", &api.MountInput{Type: "kv"}))
	k := open(t, v, func(o *transit.Options) { o.Login = transit.Token(v.Token) })
	wantFailure(t, k, w, blobd.ErrUnavailable)
	list, err := v.Root().Logical().ListWithContext(t.Context(), "transit/encrypt")
	must(t, err)
	if list != nil {
		t.Errorf("keys were stored: %v", list.Data)
	}
}

func TestAHangIsBounded(t *testing.T) {
	v := vault(t)
	w := acme(t, open(t, v))
	k := open(t, v, func(o *transit.Options) { o.Timeout = 100 * time.Millisecond })
	opens(t, k, w)
	v.Pause()
	defer v.Resume()
	began := time.Now()
	wantFailure(t, k, w, blobd.ErrUnavailable)
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestAResetConnectionIsNoAbsence(t *testing.T) {
	v := vault(t)
	w := acme(t, open(t, v))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 1))
			_ = c.(*net.TCPConn).SetLinger(0)
			_ = c.Close()
		}
	}()
	defer func() { must(t, l.Close()); <-done }()
	k := open(t, v, func(o *transit.Options) { o.Address = "http://" + l.Addr().String() })
	wantFailure(t, k, w, blobd.ErrUnavailable)
}

// A KEK that is absent without a marker was lost, not destroyed.
func TestAKeyThatWasLostIsNotErased(t *testing.T) {
	v := vault(t)
	k := open(t, v)
	for name, lose := range map[string]func(){
		"the key deleted by hand": func() {
			v.Write("transit/keys/blobd.acme.kek/config", map[string]any{"deletion_allowed": true})
			_, err := v.Root().Logical().DeleteWithContext(t.Context(), "transit/keys/blobd.acme.kek")
			must(t, err)
		},
		"the mount made anew": func() { v.FreshTransit("transit") },
	} {
		t.Run(name, func(t *testing.T) {
			w := acme(t, k)
			lose()
			_, err := k.Unwrap(t.Context(), "acme", []keys.Wrapped{w})
			wantOnly(t, "Unwrap", err, blobd.ErrNotFound)
			_, err = k.Wrap(t.Context(), "acme", [][]byte{[]byte(secret)})
			wantOnly(t, "Wrap", err, blobd.ErrNotFound)
			_, err = keys.NewCore(k, keys.Options{}).Execution(t.Context(), "acme", blobd.ExecutionTag{}, keys.ID{}, w)
			wantOnly(t, "the core's Execution", err, blobd.ErrKeyMissing)
			if names, err := k.Tenants(t.Context()); err != nil || len(names) != 0 {
				t.Errorf("a key was made: %v, %v", names, err)
			}
		})
	}
}

// A Vault restored from before a tenant, a version, or a destruction.
func TestARestoredOlderVault(t *testing.T) {
	v := vault(t)
	k := open(t, v)
	v1 := acme(t, k)
	must(t, k.Create(t.Context(), "doomed"))
	gone, err := k.Wrap(t.Context(), "doomed", [][]byte{[]byte(secret)})
	must(t, err)
	old := v.Backup()

	if _, err := k.Rotate(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	v2, err := k.Wrap(t.Context(), "acme", [][]byte{[]byte(secret)})
	must(t, err)
	must(t, k.Create(t.Context(), "younger"))
	younger, err := k.Wrap(t.Context(), "younger", [][]byte{[]byte(secret)})
	must(t, err)
	must(t, k.Destroy(t.Context(), "doomed"))
	wantOnly(t, "destroyed", outcome(k.Unwrap(t.Context(), "doomed", gone)), blobd.ErrErased)

	v.Restore(old)
	opens(t, k, v1)
	wantOnly(t, "a version that this Vault never made", outcome(k.Unwrap(t.Context(), "acme", v2)), blobd.ErrKeyMissing)
	wantOnly(t, "a tenant that this Vault never had", outcome(k.Unwrap(t.Context(), "younger", younger)), blobd.ErrNotFound)
	// What docs/keys.md warns of: the snapshot has the destroyed KEK. Only the
	// ledger's fence keeps its texts null, and Destroy can be repeated.
	must(t, outcome(k.Unwrap(t.Context(), "doomed", gone)))
	must(t, k.Destroy(t.Context(), "doomed"))
	wantOnly(t, "destroyed again", outcome(k.Unwrap(t.Context(), "doomed", gone)), blobd.ErrErased)

	// The same number again is another key.
	if _, err := k.Rotate(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	wantOnly(t, "a version made twice", outcome(k.Unwrap(t.Context(), "acme", v2)), blobd.ErrCorrupt)
}

// An operator may forbid old versions without destroying them: nothing says
// erased of what can be allowed again.
func TestAForbiddenVersionIsNotErased(t *testing.T) {
	v := vault(t)
	k := open(t, v)
	w := acme(t, k)
	if _, err := k.Rotate(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	v.Write("transit/keys/blobd.acme.kek/config", map[string]any{"min_decryption_version": 2})
	wantOnly(t, "Unwrap", outcome(k.Unwrap(t.Context(), "acme", []keys.Wrapped{w})), blobd.ErrDenied)
	v.Write("transit/keys/blobd.acme.kek/config", map[string]any{"min_decryption_version": 1})
	opens(t, k, w)
}

// A standby passes requests on; without an active node it has no answer.
func TestAStandby(t *testing.T) {
	active := vault(t)
	standby := servers.Vault(t, servers.VaultOptions{Join: active})
	k := open(t, active, func(o *transit.Options) { o.Address = standby.Address })
	standby.Until("standby", func(ctx context.Context) error { return k.Check(ctx) })
	if status := standby.Health(); status != http.StatusTooManyRequests {
		t.Fatalf("the second node is no standby: %d", status)
	}
	w := acme(t, k)
	opens(t, k, w)
	active.Kill()
	wantFailure(t, k, w, blobd.ErrUnavailable)
}

func TestOffboardingOneTenantLeavesOthersAlone(t *testing.T) {
	v := vault(t)
	k := open(t, v)
	w := acme(t, k)
	must(t, k.Create(t.Context(), "leaving"))
	gone, err := k.Wrap(t.Context(), "leaving", [][]byte{[]byte(secret)})
	must(t, err)

	// Nobody may delete a KEK before its tenant is off-boarded.
	mine := v.As(v.NewToken("blobd", "1h"))
	if _, err := mine.Logical().DeleteWithContext(t.Context(), "transit/keys/blobd.leaving.kek"); err == nil {
		t.Fatal("a KEK could be deleted at once")
	}
	must(t, k.Destroy(t.Context(), "leaving"))
	wantOnly(t, "off-boarded", outcome(k.Unwrap(t.Context(), "leaving", gone)), blobd.ErrErased)
	list, err := v.Root().Logical().ListWithContext(t.Context(), "transit/keys")
	must(t, err)
	for _, name := range list.Data["keys"].([]any) {
		if name == "blobd.leaving.kek" {
			t.Error("Vault still has the KEK")
		}
	}
	opens(t, k, w)
	if _, err := k.Rotate(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	opens(t, k, w)
}

// A Destroy that was cut short after its marker is completed by the next, and
// until then nobody makes the tenant's KEK.
func TestADestroyCutShort(t *testing.T) {
	v := vault(t)
	k := open(t, v)
	w := acme(t, k)
	refuse := open(t, v, func(o *transit.Options) {
		o.Transport = func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				if r.Method == http.MethodDelete {
					return nil, errors.New("cut")
				}
				return next.RoundTrip(r)
			})
		}
	})
	wantOnly(t, "Destroy", refuse.Destroy(t.Context(), "acme"), blobd.ErrUnavailable)
	opens(t, k, w)
	wantOnly(t, "Create", k.Create(t.Context(), "acme"), blobd.ErrErased)
	wantOnly(t, "after Create", outcome(k.Unwrap(t.Context(), "acme", []keys.Wrapped{w})), nil)
	must(t, k.Destroy(t.Context(), "acme"))
	wantOnly(t, "after Destroy", outcome(k.Unwrap(t.Context(), "acme", []keys.Wrapped{w})), blobd.ErrErased)
}

// A Create that was under way when the tenant was off-boarded leaves no KEK.
func TestACreateOvertakenByADestroy(t *testing.T) {
	v := vault(t)
	other := open(t, v)
	k := open(t, v, func(o *transit.Options) {
		o.Transport = func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				if r.Method == http.MethodPut && r.URL.Path == "/v1/transit/keys/blobd.acme.kek" {
					must(t, other.Destroy(t.Context(), "acme"))
				}
				return next.RoundTrip(r)
			})
		}
	})
	wantOnly(t, "Create", k.Create(t.Context(), "acme"), blobd.ErrErased)
	_, err := other.Status(t.Context(), "acme")
	wantOnly(t, "Status", err, blobd.ErrErased)
}

// The policy lets blobd do no more than its work.
func TestThePolicyForbidsTheRest(t *testing.T) {
	v := vault(t)
	k := open(t, v)
	acme(t, k)
	must(t, k.Create(t.Context(), "other"))
	must(t, k.Destroy(t.Context(), "other"))
	v.Write("transit/keys/foreign", nil)
	mine := v.As(v.NewToken("blobd", "1h")).Logical()
	for name, try := range map[string]func() error{
		"export": func() error {
			_, err := mine.ReadWithContext(t.Context(), "transit/export/encryption-key/blobd.acme.kek")
			return err
		},
		"backup":                 func() error { _, err := mine.ReadWithContext(t.Context(), "transit/backup/blobd.acme.kek"); return err },
		"make exportable":        write(t, mine, "transit/keys/blobd.acme.kek/config", "exportable", true),
		"allow a backup":         write(t, mine, "transit/keys/blobd.acme.kek/config", "allow_plaintext_backup", true),
		"rotate by time":         write(t, mine, "transit/keys/blobd.acme.kek/config", "auto_rotate_period", "1h"),
		"forget a destruction":   write(t, mine, "transit/keys/blobd-destroyed.other.kek/config", "deletion_allowed", true),
		"make a key by wrapping": write(t, mine, "transit/encrypt/blobd.typo.kek", "plaintext", "AAAA"),
		"use another's key":      write(t, mine, "transit/encrypt/foreign", "plaintext", "AAAA"),
		"delete another's key":   func() error { _, err := mine.DeleteWithContext(t.Context(), "transit/keys/foreign"); return err },
		"change the mount":       write(t, mine, "transit/config/keys", "disable_upsert", true),
		"make a token":           write(t, mine, "auth/token/create", "ttl", "1h"),
		"read the policy":        func() error { _, err := mine.ReadWithContext(t.Context(), "sys/policies/acl/blobd"); return err },
	} {
		t.Run(name, func(t *testing.T) {
			var refused *api.ResponseError
			if err := try(); !errors.As(err, &refused) || refused.StatusCode != http.StatusForbidden {
				t.Errorf("got %v, want a 403", err)
			}
		})
	}
}

func write(t *testing.T, l *api.Logical, path, name string, value any) func() error {
	return func() error {
		_, err := l.WriteWithContext(t.Context(), path, map[string]any{name: value})
		return err
	}
}
