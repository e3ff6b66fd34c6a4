package transit

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/blobd/blobd"
)

func TestNames(t *testing.T) {
	for tenant, want := range map[string]string{
		"default": "default", "a-": "a-", "a.b": "a_2eb", "../sys": "_2e_2e_2fsys", "A": "_41", "a_b": "a_5fb", "é": "_c3_a9", "*": "_2a", "+": "_2b",
	} {
		n, err := namesOf(tenant)
		if err != nil {
			t.Fatal(err)
		}
		if n.kek != "blobd."+want+".kek" || n.marker != "blobd-destroyed."+want+".kek" {
			t.Errorf("%q became %+v", tenant, n)
		}
	}
	for _, tenant := range []string{"", "a\x00", "\xff", strings.Repeat("a", 201), strings.Repeat("é", 40)} {
		if _, err := namesOf(tenant); !errors.Is(err, blobd.ErrInvalid) {
			t.Errorf("%q: %v, want ErrInvalid", tenant, err)
		}
	}
	for _, name := range []string{"other", "blobd.", "blobd..kek", "blobd.a", "blobd.a_.kek", "blobd.a_4.kek", "blobd.a_zz.kek", "blobd.A.kek", "blobd._61.kek", "blobd._2E.kek", "blobd-destroyed.a.kek"} {
		if tenant, ok := tenantOf(name, kekPrefix); ok {
			t.Errorf("%s is read as tenant %q", name, tenant)
		}
	}
}

// Every tenant has a name of its own that Transit takes and that reads back.
func TestNamesReadBack(t *testing.T) {
	taken := regexp.MustCompile(`^\w([\w.-]*\w)?$`) // Transit's rule
	rapid.Check(t, func(t *rapid.T) {
		tenant := rapid.StringN(1, 30, 60).Draw(t, "tenant")
		n, err := namesOf(tenant)
		if err != nil {
			t.Skip("no tenant")
		}
		if !taken.MatchString(n.kek) || !taken.MatchString(n.marker) {
			t.Fatalf("Transit takes no %+v", n)
		}
		kek, ok1 := tenantOf(n.kek, kekPrefix)
		marker, ok2 := tenantOf(n.marker, markerPrefix)
		if !ok1 || !ok2 || kek != tenant || marker != tenant {
			t.Fatalf("%q reads back as %q and %q", tenant, kek, marker)
		}
	})
}
