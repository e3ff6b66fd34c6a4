package evidence_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/evidence"
	"github.com/blobd/blobd/ledger"
)

// vector reads a file of testdata. They are fixed: the formats outlive the
// programs that write them.
func vector(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestVectors: from the same inputs come the same bytes, now and for ever.
func TestVectors(t *testing.T) {
	e, certificate := certified(t, blobd.RefOf([]byte("sealed")))
	c, err := e.Checkpoint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tile, err := e.Tile(t.Context(), "0/000.p/16")
	if err != nil {
		t.Fatal(err)
	}
	entries, err := e.Tile(t.Context(), "entries/000.p/16")
	if err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string][]byte{
		"key": []byte(e.key() + "\n"), "checkpoint": c.Note, "tile": tile, "entries": entries, "certificate.json": certificate,
	} {
		if want := vector(t, name); !bytes.Equal(got, want) {
			t.Errorf("%s:\n%q\nwant\n%q", name, got, want)
		}
	}
	if _, err := evidence.VerifyCertificate(vector(t, "certificate.json"), string(vector(t, "key"))); err != nil {
		t.Error(err)
	}
}

// TestLeafBytes, word for word.
func TestLeafBytes(t *testing.T) {
	long := `{"x":"` + strings.Repeat("x", 60_000-8) + `"}`
	for want, e := range map[string]ledger.Entry{
		`{"tenant":"acme","kind":"read","at":"2026-11-30T11:00:00Z","body":{"a":[1,"é\u003c"]}}`:                                                     {Tenant: "acme", Kind: "read", At: at, Body: []byte(`{"a":[1,"é\u003c"]}`), FreeText: "x", Salt: []byte("y")},
		`{"tenant":"","kind":"recovery","at":"2026-11-30T11:00:00.000001Z","body":{}}`:                                                               {Kind: "recovery", At: at.Add(1000), Body: []byte(`{}`)},
		`{"tenant":"acme","kind":"put","at":"2026-11-30T11:00:00Z","body":` + long + `}`:                                                             {Tenant: "acme", Kind: "put", At: at, Body: []byte(long)},
		`{"tenant":"acme","kind":"put","at":"2026-11-30T11:00:00Z","bodySha256":"95ce1b1188f2bac50c0a3225ffb0ed726bda8e2efbce7e1858b47df9aad0d129"}`: {Tenant: "acme", Kind: "put", At: at, Body: []byte(" " + long)},
		`{"tenant":"acme","kind":"put","at":"2026-11-30T11:00:00Z","bodySha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}`: {Tenant: "acme", Kind: "put", At: at},
		`{"tenant":"acme","kind":"put","at":"2026-11-30T11:00:00Z","bodySha256":"2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"}`: {Tenant: "acme", Kind: "put", At: at, Body: []byte("x")},
	} {
		got := evidence.LeafOf(e)
		if string(got) != want {
			t.Errorf("%s, want %s", got[:min(len(got), 300)], want[:min(len(want), 300)])
		}
		body := e.Body
		if strings.Contains(want, `"body":`) {
			body = nil
		}
		l, err := evidence.ParseLeaf(got, body)
		if err != nil || l.Tenant != e.Tenant || l.Kind != e.Kind || !l.At.Equal(e.At) || !bytes.Equal(l.Body, e.Body) {
			t.Errorf("%.300s reads as %.300v, %v", got, l, err)
		}
		if _, err := evidence.ParseLeaf(got, []byte(`{"other":1}`)); !errors.Is(err, blobd.ErrInvalid) {
			t.Errorf("with another body: %v", err)
		}
		if len(got) > 65535 {
			t.Errorf("a leaf of %d bytes", len(got))
		}
	}
}

// TestOtherSpellingsOfACheckpointAreRefused though their signature is right.
func TestOtherSpellingsOfACheckpointAreRefused(t *testing.T) {
	skey, vkey, err := note.GenerateKey(&counting{}, "blobd/x")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(skey)
	if err != nil {
		t.Fatal(err)
	}
	v, err := evidence.ParseVerifier(vkey)
	if err != nil {
		t.Fatal(err)
	}
	const root = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
	for text, good := range map[string]bool{
		"blobd/x\n7\n" + root + "\n":                   true,
		"blobd/y\n7\n" + root + "\n":                   false, // another log
		"blobd/x\n07\n" + root + "\n":                  false,
		"blobd/x\n+7\n" + root + "\n":                  false,
		"blobd/x\n-7\n" + root + "\n":                  false,
		"blobd/x\n9223372036854775807\n" + root + "\n": false,
		"blobd/x\n7\n" + root[:40] + "\n":              false, // a short hash
		"blobd/x\n7\n" + root[:42] + "B=\n":            false, // loose base64
		"blobd/x\n7\n" + root + "\nmore\n":             false,
		"blobd/x\n7\n":                                 false,
		"\n":                                           false,
	} {
		signed, err := note.Sign(&note.Note{Text: text}, signer)
		if err != nil {
			t.Fatal(err)
		}
		c, err := evidence.OpenCheckpoint(signed, v)
		if good != (err == nil) || !good && !errors.Is(err, blobd.ErrInvalid) || good && c.Size != 7 {
			t.Errorf("%q: %d, %v", text, c.Size, err)
		}
	}
}

// FuzzOpenCheckpoint: nothing but what the key signed is a checkpoint.
func FuzzOpenCheckpoint(f *testing.F) {
	good := vector(f, "checkpoint")
	v, err := evidence.ParseVerifier(string(vector(f, "key")))
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range [][]byte{good, good[:len(good)-1], bytes.Replace(good, []byte("\n16\n"), []byte("\n17\n"), 1), append(bytes.Clone(good), good...), nil} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := evidence.OpenCheckpoint(b, v)
		switch {
		case err != nil && !errors.Is(err, blobd.ErrInvalid):
			t.Errorf("%v is not of the closed set", err)
		case err == nil && (c.Size != 16 || !bytes.HasPrefix(b, good[:bytes.Index(good, []byte("\n\n"))])):
			t.Errorf("%q is taken for signed", b)
		}
	})
}

// FuzzVerifyCertificate: white space apart, one spelling verifies.
func FuzzVerifyCertificate(f *testing.F) {
	good, key := vector(f, "certificate.json"), string(vector(f, "key"))
	for _, seed := range [][]byte{good, append([]byte(" "), good...), good[:len(good)/2], []byte("{}"), []byte("null"), []byte(`{"log":{},"signature":{},"statement":{}}`), nil} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		_, err := evidence.VerifyCertificate(b, key)
		switch {
		case err != nil && !errors.Is(err, blobd.ErrInvalid) && !errors.Is(err, blobd.ErrTooLarge):
			t.Errorf("%v is not of the closed set", err)
		case err == nil && !bytes.Equal(withoutSpace(b), withoutSpace(good)):
			t.Errorf("%q verifies", b)
		}
	})
}

func withoutSpace(b []byte) []byte {
	return bytes.Map(func(r rune) rune {
		if strings.ContainsRune(" \t\r\n", r) {
			return -1
		}
		return r
	}, b)
}

// FuzzParseCertificate: what is read is spelled in one way, and the document for
// people can be made of it.
func FuzzParseCertificate(f *testing.F) {
	good := vector(f, "certificate.json")
	f.Add(good)
	f.Add(bytes.Replace(good, []byte(`"acme"`), []byte(`"\u00e9"`), 1))
	f.Add(bytes.Replace(good, []byte(`"exceptions":[]`), []byte(`"exceptions":["x"]`), 1))
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := evidence.ParseCertificate(b); err != nil {
			if !errors.Is(err, blobd.ErrInvalid) && !errors.Is(err, blobd.ErrTooLarge) {
				t.Errorf("%v is not of the closed set", err)
			}
			return
		}
		if _, err := evidence.PDF(b); err != nil {
			t.Errorf("no document of %q: %v", b, err)
		}
	})
}

// FuzzParseLeaf: what is read is the leaf of what it says.
func FuzzParseLeaf(f *testing.F) {
	f.Add([]byte(`{"tenant":"acme","kind":"read","at":"2026-11-30T11:00:00Z","body":{"a":1}}`), []byte(nil))
	f.Add([]byte(`{"tenant":"","kind":"put","at":"2026-11-30T11:00:00Z","bodySha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}`), []byte{})
	f.Add([]byte(`{"tenant":"acme","kind":"read","at":"2026-11-30T12:00:00+01:00","body":{}}`), []byte(nil))
	f.Fuzz(func(t *testing.T, b, body []byte) {
		l, err := evidence.ParseLeaf(b, body)
		if err != nil {
			if !errors.Is(err, blobd.ErrInvalid) {
				t.Errorf("%v is not of the closed set", err)
			}
			return
		}
		again := evidence.LeafOf(ledger.Entry{Tenant: l.Tenant, Kind: l.Kind, At: l.At, Body: l.Body})
		if !bytes.Equal(again, b) {
			t.Errorf("%q reads as the leaf %q", b, again)
		}
	})
}
