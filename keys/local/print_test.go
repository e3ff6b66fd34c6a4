package local

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/keys/internal/kek"
)

// leaksNothing looks for the two keys of the golden file, and of a countRandom,
// in every form that a print may give them.
func leaksNothing(t *testing.T, printed string) {
	t.Helper()
	if form := shownKey(printed); form != "" {
		t.Fatalf("a key shows as %q", form)
	}
}

func shownKey(printed string) (form string) {
	for _, b := range []byte{1, 2} {
		key := bytes.Repeat([]byte{b}, 32)
		decimal := strings.Trim(fmt.Sprint(key[:6]), "[]")
		literal := strings.Trim(strings.TrimPrefix(fmt.Sprintf("%#v", key[:6]), "[]byte"), "{}")
		for _, form := range []string{
			string(key[:8]), strings.Trim(fmt.Sprintf("%q", key[:8]), `"`), hex.EncodeToString(key[:8]),
			fmt.Sprintf("% x", key[:8]), base64.StdEncoding.EncodeToString(key)[:8], decimal, literal,
		} {
			if strings.Contains(strings.ToLower(printed), strings.ToLower(form)) {
				return form
			}
		}
	}
	return ""
}

func TestABareKeyIsNoticed(t *testing.T) {
	raw := struct{ b [32]byte }{[32]byte(bytes.Repeat([]byte{1}, 32))}
	for _, verb := range []string{"%v", "%+v", "%#v", "%x", "% x", "%s", "%q", "%d"} {
		if shownKey(fmt.Sprintf(verb, raw)) == "" {
			t.Errorf("%s of a bare key goes unnoticed: "+verb, verb, raw)
		}
	}
	if shownKey(string(golden(t))) == "" {
		t.Error("the golden file's keys go unnoticed")
	}
}

func TestNothingPrintsAKey(t *testing.T) {
	set, err := decode(golden(t))
	if err != nil {
		t.Fatal(err)
	}
	ring := openNew(t)
	if err := ring.Create(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	tenant := set.Tenants()[0]
	secret := wireSecret{tenant.Versions[0].Key}
	key := wireKey{Key: secret}
	wire := wireTenant{Keys: []wireKey{key}}
	values := []any{
		ring, *ring, ring.Ring, set, &set, tenant, &tenant, tenant.Versions, tenant.Versions[0],
		secret, &secret, key, &key, wire, wireFile{Tenants: []wireTenant{wire}}, &wireFile{Tenants: []wireTenant{wire}},
		[]any{set, tenant}, map[string]kek.Set{"x": set}, struct{ k *Keyring }{ring}, struct{ r *kek.Ring }{ring.Ring}, keyfile{},
	}
	for _, v := range values {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "% x", "%d"} {
			if form := shownKey(fmt.Sprintf(verb, v)); form != "" {
				t.Errorf("%s of a %T shows a key as %q", verb, v, form)
			}
		}
		var log bytes.Buffer
		slog.New(slog.NewTextHandler(&log, nil)).Info("x", "v", v)
		slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "v", v)
		if form := shownKey(log.String()); form != "" {
			t.Errorf("a logged %T shows a key as %q", v, form)
		}
	}
}

func TestAnErrorOfTheFormatNamesNoKey(t *testing.T) {
	var s wireSecret
	err := s.UnmarshalText([]byte("AQEBAQEBAQEB*"))
	if !errors.Is(err, blobd.ErrCorrupt) {
		t.Fatalf("got %v", err)
	}
	leaksNothing(t, err.Error())
}
