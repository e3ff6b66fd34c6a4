package local

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/blobd/blobd"
)

// golden was written by another implementation of the format.
func golden(t *testing.T) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/keyring-v1.json")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestFormatReadsAndWritesTheGoldenFile(t *testing.T) {
	want := golden(t)
	set, err := decode(want)
	if err != nil {
		t.Fatal(err)
	}
	tenants := set.Tenants()
	if len(tenants) != 2 || tenants[0].Name != "acme" || tenants[1].Name != "gone" {
		t.Fatalf("tenants: %d", len(tenants))
	}
	if tenants[0].Versions[1].Version != 3 || !bytes.Equal(tenants[0].Versions[1].Key.Bytes(), bytes.Repeat([]byte{2}, 32)) {
		t.Fatal("version 3 is not the key of the file")
	}
	if got := tenants[1].Destroyed.Format("2006-01-02T15:04:05Z07:00"); got != "2026-03-04T05:06:07Z" {
		t.Fatalf("destroyed at %s", got)
	}
	got, err := encode(set)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Fatal("encoded to other bytes")
	}
}

func TestFormatRefusesEveryChangedByte(t *testing.T) {
	whole := golden(t)
	for i := range whole {
		for _, mask := range []byte{1, 0x20, 0x80} {
			b := bytes.Clone(whole)
			b[i] ^= mask
			refuses(t, b)
		}
		refuses(t, whole[:i])
		refuses(t, append(bytes.Clone(whole[:i]), whole[i+1:]...))
	}
	for _, more := range []string{"\n", " ", "{}", "x"} {
		refuses(t, append(bytes.Clone(whole), more...))
	}
}

func refuses(t *testing.T, b []byte) {
	t.Helper()
	_, err := decode(b)
	if !errors.Is(err, blobd.ErrCorrupt) && !errors.Is(err, blobd.ErrInvalid) {
		t.Fatalf("got %v", err)
	}
	leaksNothing(t, err.Error())
}

// TestFormatRefuses changes the golden file and signs it again, so that only
// the rule in question can refuse it.
func TestFormatRefuses(t *testing.T) {
	const key1 = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE="
	tests := []struct {
		name, old, new string
		want           error
	}{
		{"nothing when nothing changed", `"acme"`, `"acme"`, nil},
		{"another format", `"blobd-keyring"`, `"another"`, blobd.ErrCorrupt},
		{"version 0", "\t\"version\": 1,", "\t\"version\": 0,", blobd.ErrInvalid},
		{"version 2", "\t\"version\": 1,", "\t\"version\": 2,", blobd.ErrInvalid},
		{"an unknown field", `"tenant": "acme",`, `"tenant": "acme", "x": 1,`, blobd.ErrCorrupt},
		{"a field twice", `"tenant": "acme",`, `"tenant": "acme", "tenant": "acme",`, blobd.ErrCorrupt},
		{"another case of a field", `"tenant": "acme"`, `"Tenant": "acme"`, blobd.ErrCorrupt},
		{"an empty tenant", `"acme"`, `""`, blobd.ErrCorrupt},
		{"tenants out of order", `"acme"`, `"zeta"`, blobd.ErrCorrupt},
		{"a tenant twice", `"gone"`, `"acme"`, blobd.ErrCorrupt},
		{"a gap in the versions", `"version": 2`, `"version": 1`, blobd.ErrCorrupt},
		{"a version twice", `"version": 2`, `"version": 3`, blobd.ErrCorrupt},
		{"a short key", key1, "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQ==", blobd.ErrCorrupt},
		{"a key in another spelling", key1, "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQF=", blobd.ErrCorrupt},
		{"an absent key", "\"" + key1 + "\"", "null", blobd.ErrCorrupt},
		{"a tenant neither alive nor destroyed", "\"tenant\": \"gone\",\n\t\t\t\"destroyed\": \"2026-03-04T05:06:07Z\"", `"tenant": "gone"`, blobd.ErrCorrupt},
		{"a destroyed tenant with keys", `"tenant": "acme",`, "\"tenant\": \"acme\",\n\t\t\t\"destroyed\": \"2026-03-04T05:06:07Z\",", blobd.ErrCorrupt},
		{"a time in another zone", `"2026-01-02T03:04:05Z"`, `"2026-01-02T04:04:05+01:00"`, blobd.ErrCorrupt},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			if !strings.Contains(string(golden(t)), c.old) {
				t.Fatal("the golden file does not hold what is to be changed")
			}
			_, err := decode(signed(t, strings.Replace(string(golden(t)), c.old, c.new, 1)))
			if !errors.Is(err, c.want) {
				t.Fatalf("got %v, want %v", err, c.want)
			}
			if err != nil {
				leaksNothing(t, err.Error())
			}
		})
	}
}

// signed puts the right checksum into a file.
func signed(t *testing.T, file string) []byte {
	t.Helper()
	const field = `"checksum": "`
	at := strings.LastIndex(file, field) + len(field)
	before, after := file[:at], file[at+64:]
	sum := sha256.Sum256([]byte(before + after))
	return []byte(before + hex.EncodeToString(sum[:]) + after)
}
