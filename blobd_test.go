package blobd

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"
)

const someHex = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

func TestRefOf(t *testing.T) {
	ref := RefOf([]byte("test"))
	if ref.Hex() != someHex || ref.String() != "sha256:"+someHex || fmt.Sprint(ref) != ref.String() {
		t.Errorf("ref %s", ref)
	}
	if got, err := ParseRef(ref.String()); err != nil || got != ref {
		t.Errorf("came back as %v: %v", got, err)
	}
	if got, err := ParseRefHex(ref.Hex()); err != nil || got != ref {
		t.Errorf("came back as %v: %v", got, err)
	}
}

// A ref has one spelling.
func TestParseRefRefuses(t *testing.T) {
	good := "sha256:" + someHex
	for name, s := range map[string]string{
		"empty":             "",
		"prefix only":       "sha256:",
		"no prefix":         someHex,
		"capital prefix":    "SHA256:" + someHex,
		"capital digits":    "sha256:" + strings.ToUpper(someHex),
		"one capital":       strings.Replace(good, "9f", "9F", 1),
		"63 digits":         good[:len(good)-1],
		"65 digits":         good + "0",
		"two refs":          good + good,
		"other algorithm":   "sha512:" + someHex,
		"longer algorithm":  "sha256x:" + someHex,
		"no hex":            good[:len(good)-1] + "g",
		"slash":             good[:len(good)-1] + "/",
		"dots":              "sha256:" + strings.Repeat("../", 21) + "a",
		"backslashes":       "sha256:" + strings.Repeat(`..\`, 21) + "a",
		"leading space":     " " + good,
		"space in it":       "sha256: " + someHex[1:],
		"trailing newline":  good + "\n",
		"newline for digit": good[:len(good)-1] + "\n",
		"NUL for digit":     good[:len(good)-1] + "\x00",
		"percent-encoded":   "sha256%3A" + someHex,
		"full-width digit":  good[:len(good)-3] + "９",
		"sign":              "sha256:+" + someHex[1:],
		"0x":                "sha256:0x" + someHex[2:],
		"underscore":        "sha256:9_" + someHex[2:],
	} {
		ref, err := ParseRef(s)
		if !errors.Is(err, ErrInvalid) || ref != (Ref{}) {
			t.Errorf("%s: %v, %v, want ErrInvalid", name, ref, err)
		}
		if h, ok := strings.CutPrefix(s, "sha256:"); ok {
			if ref, err := ParseRefHex(h); !errors.Is(err, ErrInvalid) || ref != (Ref{}) {
				t.Errorf("%s: hex alone: %v, want ErrInvalid", name, err)
			}
			if d, err := ParseDigest(h); !errors.Is(err, ErrInvalid) || d != (Digest{}) {
				t.Errorf("%s: digest: %v, want ErrInvalid", name, err)
			}
		}
	}
}

func FuzzParseRef(f *testing.F) {
	f.Add("sha256:" + someHex)
	f.Add("sha256:" + strings.ToUpper(someHex))
	f.Fuzz(func(t *testing.T, s string) {
		ref, err := ParseRef(s)
		if err == nil && ref.String() != s {
			t.Fatalf("%q is another spelling of %s", s, ref)
		}
		if err != nil && !errors.Is(err, ErrInvalid) {
			t.Fatal(err)
		}
	})
}

func TestDigest(t *testing.T) {
	d := DigestOf([]byte("test"))
	if d.Hex() != someHex || d != sha256.Sum256([]byte("test")) {
		t.Errorf("digest %s", d.Hex())
	}
	if got, err := ParseDigest(someHex); err != nil || got != d {
		t.Errorf("came back as %s: %v", got.Hex(), err)
	}
}

func TestExecutionTag(t *testing.T) {
	tag := ExecutionTag{0xab, 15: 1}
	const text = "ab000000000000000000000000000001"
	if tag.String() != text {
		t.Errorf("tag %s", tag)
	}
	if got, err := ParseExecutionTag(text); err != nil || got != tag {
		t.Errorf("came back as %s: %v", got, err)
	}
	for _, s := range []string{"", text[1:], text + "0", strings.ToUpper(text), text[:30] + "/.", text[:31] + "\n", someHex} {
		if got, err := ParseExecutionTag(s); !errors.Is(err, ErrInvalid) || got != (ExecutionTag{}) {
			t.Errorf("%q: %v, want ErrInvalid", s, err)
		}
	}
}

func TestParseKind(t *testing.T) {
	for s, want := range map[string]Kind{"": KindText, "text": KindText, "summary": KindSummary, "redacted": KindRedacted} {
		if got, err := ParseKind(s); err != nil || got != want {
			t.Errorf("%q: %q, %v", s, got, err)
		}
	}
	for _, s := range []string{"Text", " text", "text\x00", "encrypted", "texts"} {
		if got, err := ParseKind(s); !errors.Is(err, ErrInvalid) || got != "" {
			t.Errorf("%q: %q, %v, want ErrInvalid", s, got, err)
		}
	}
}

func TestChecks(t *testing.T) {
	execution, step, subject, class := CheckExecutionID, CheckStepID, CheckSubject, CheckClass
	name := func(s string) error { return CheckName("provider", s) }
	for _, c := range []struct {
		what  string
		check func(string) error
		value string
		ok    bool
	}{
		{"execution", execution, "", false},
		{"execution", execution, ".", false},
		{"execution", execution, "..", false},
		{"execution", execution, "...", true},
		{"execution", execution, "../../etc", true}, // it never becomes a path: names hold tags
		{"execution", execution, "a/b", true},
		{"execution", execution, "запуск №1 🚀", true},
		{"execution", execution, strings.Repeat("x", 256), true},
		{"execution", execution, strings.Repeat("x", 257), false},
		{"execution", execution, strings.Repeat("é", 128), true}, // bytes, not characters
		{"execution", execution, strings.Repeat("é", 129), false},
		{"execution", execution, "a\x00", false},
		{"execution", execution, "a\n", false},
		{"execution", execution, "a\x7f", false},
		{"execution", execution, "a\u0085", false},
		{"execution", execution, "\xff", false},
		{"execution", execution, "a\xc0\xaf", false},
		{"execution", execution, "\xed\xa0\x80", false},
		{"step", step, "", true},
		{"step", step, strings.Repeat("x", 512), true},
		{"step", step, strings.Repeat("x", 513), false},
		{"step", step, "a\tb", false},
		{"subject", subject, "", false},
		{"subject", subject, "person@example.org", true},
		{"subject", subject, strings.Repeat("x", 512), true},
		{"subject", subject, strings.Repeat("x", 513), false},
		{"subject", subject, "a\r\n", false},
		{"name", name, "", true},
		{"name", name, strings.Repeat("x", 256), true},
		{"name", name, strings.Repeat("x", 257), false},
		{"name", name, "\xfe", false},
		{"class", class, "", false},
		{"class", class, DefaultClass, true},
		{"class", class, "a", true},
		{"class", class, "a-1", true},
		{"class", class, "a" + strings.Repeat("-", 62), true},
		{"class", class, strings.Repeat("a", 64), false},
		{"class", class, "1a", false},
		{"class", class, "-a", false},
		{"class", class, "A", false},
		{"class", class, "a_b", false},
		{"class", class, "a/b", false},
		{"class", class, "a.b", false},
		{"class", class, "aé", false},
		{"class", class, "a\n", false},
	} {
		err := c.check(c.value)
		if c.ok && err != nil || !c.ok && !errors.Is(err, ErrInvalid) {
			t.Errorf("%s %q: %v", c.what, c.value, err)
		}
		if err != nil && len(c.value) > 9 && strings.Contains(err.Error(), c.value) {
			t.Errorf("%s: the error repeats the value", c.what)
		}
	}
}

// Each refinement is exactly one of the closed set.
func TestRefinements(t *testing.T) {
	closed := []error{
		ErrNotFound, ErrErased, ErrExpired, ErrClosed, ErrDenied, ErrInvalid, ErrTooLarge,
		ErrConflict, ErrHeld, ErrPolicy, ErrCorrupt, ErrMissing, ErrUnavailable,
	}
	for err, want := range map[error]error{
		ErrBlobErased: ErrErased, ErrRestricted: ErrClosed, ErrKeyMissing: ErrMissing, ErrDigestMismatch: ErrInvalid,
		ErrInvalidUTF8: ErrInvalid, ErrUnknownField: ErrInvalid, ErrKeyReused: ErrPolicy,
		&RefsError{[]Ref{{1}}, ErrMissing}: ErrMissing,
	} {
		for _, c := range closed {
			if errors.Is(err, c) != (c == want) {
				t.Errorf("%v: is %v: %t", err, c, c != want)
			}
		}
	}
}

func TestRefsErrorNamesRefs(t *testing.T) {
	ref := RefOf([]byte("x"))
	if got := (&RefsError{[]Ref{ref}, ErrCorrupt}).Error(); got != "corrupt ["+ref.String()+"]" {
		t.Errorf("error %q", got)
	}
}
