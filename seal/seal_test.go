package seal

import (
	"bytes"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/blobd/blobd"
	"pgregory.net/rapid"
)

func drawKey(t *rapid.T, label string) *blobd.Key {
	k, _ := blobd.KeyFrom(rapid.SliceOfN(rapid.Byte(), blobd.KeySize, blobd.KeySize).Draw(t, label))
	return k
}

func drawMetadata(t *rapid.T, content []byte) Metadata {
	id := rapid.StringMatching(`[\pL0-9/_.-]{0,40}[a-z]`)
	return Metadata{
		Tenant:      id.Draw(t, "tenant"),
		ExecutionID: id.Draw(t, "executionId"),
		Class:       rapid.StringMatching(`[a-z][a-z0-9-]{0,62}`).Draw(t, "class"),
		Kind:        rapid.SampledFrom([]blobd.Kind{blobd.KindText, blobd.KindSummary, blobd.KindRedacted}).Draw(t, "kind"),
		ContentType: rapid.StringMatching(`([a-z]{1,20}/[a-z]{1,20})?`).Draw(t, "contentType"),
		Digest:      blobd.DigestOf(content),
		Size:        int64(len(content)),
	}
}

func drawSealed(t *rapid.T) (*blobd.Key, Metadata, []byte, []byte) {
	content := rapid.SliceOfN(rapid.Byte(), 0, 400).Draw(t, "content")
	key, m := drawKey(t, "key"), drawMetadata(t, content)
	sealed, err := Seal(key, m, content)
	if err != nil {
		t.Fatal(err)
	}
	return key, m, content, sealed
}

func ownerOf(m Metadata) Owner { return Owner{m.Tenant, m.ExecutionID} }

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key, m, content, sealed := drawSealed(t)
		before := bytes.Clone(sealed)
		got, text, err := Open(key, sealed, ownerOf(m))
		if err != nil || got != m || !bytes.Equal(text.Bytes(), content) {
			t.Fatalf("open gave something else: %v", err)
		}
		if !bytes.Equal(sealed, before) {
			t.Fatal("Open changed the sealed bytes")
		}
		again, err := Seal(key, got, text.Bytes())
		if err != nil || !bytes.Equal(again, sealed) {
			t.Fatalf("sealing again gave other bytes: %v", err)
		}
	})
}

func TestAnyFlippedBitFails(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key, m, _, sealed := drawSealed(t)
		bit := rapid.IntRange(0, 8*len(sealed)-1).Draw(t, "bit")
		sealed[bit/8] ^= 1 << (bit % 8)
		mustFailSomehow(t, key, sealed, ownerOf(m))
	})
}

// Every bit of one blob, each with the reason of the field it lies in.
func TestEveryFlippedBitOfTheExample(t *testing.T) {
	v := vectors(t, "valid")["example"]
	key := keyOf(t, v.BlobKey)
	for bit := range 8 * len(v.Sealed) {
		at := bit / 8
		sealed := bytes.Clone(v.Sealed)
		sealed[at] ^= 1 << (bit % 8)
		_, _, err := Open(key, sealed, v.owner())
		got, want := reasonOf(err), ReasonTag
		switch {
		case at < 8:
			want = ReasonMagic
		case at == 8:
			want = ReasonVersion
		case at == 9:
			want = ReasonSuite
		case at < 12:
			want = ReasonReserved
		case at < 28:
			want = ReasonKeyID
		case at < 40: // both lengths
			if got == ReasonTruncated || got == ReasonTrailing {
				got = ReasonLengths
			}
			want = ReasonLengths
		case at < 72:
			want = ReasonCommitment
		}
		if got != want {
			t.Errorf("bit %d of byte %d: %v, want %q", bit%8, at, err, want)
		}
	}
}

func TestEveryCutFails(t *testing.T) {
	v := vectors(t, "valid")["example"]
	key := keyOf(t, v.BlobKey)
	for n := range v.Sealed {
		mustFail(t, key, v.Sealed[:n], v.owner(), ReasonTruncated)
	}
}

func TestOnlyTheOwnerOpens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key, m, _, sealed := drawSealed(t)
		other := rapid.String().Draw(t, "other")
		if other != m.Tenant {
			mustFail(t, key, sealed, Owner{other, m.ExecutionID}, ReasonTenant)
		}
		if other != m.ExecutionID {
			mustFail(t, key, sealed, Owner{m.Tenant, other}, ReasonExecution)
		}
	})
}

func TestOnlyTheKeyOpens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key, m, _, sealed := drawSealed(t)
		if other := drawKey(t, "other key"); !other.Equal(key) {
			mustFail(t, other, sealed, ownerOf(m), ReasonKeyID)
		}
	})
}

func mustFailSomehow(t tester, key *blobd.Key, sealed []byte, owner Owner) {
	t.Helper()
	_, _, err := Open(key, sealed, owner)
	mustFail(t, key, sealed, owner, reasonOf(err))
	if reasonOf(err) == "" {
		t.Errorf("%v, want a corruption with a reason", err)
	}
}

// A plaintext that authenticated but was refused is gone from memory, and so
// is the encoded metadata of one that was accepted.
func TestOpenWipes(t *testing.T) {
	decrypt := func(v *vector) ([]byte, error) {
		buffer := make([]byte, 0, len(v.Sealed))
		h, err := Parse(v.Sealed)
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = open(buffer, keyOf(t, v.BlobKey), h, v.Sealed, v.owner())
		return buffer[:cap(buffer)], err
	}
	for name, v := range vectors(t, "invalid") {
		switch v.Reason {
		case ReasonTag, ReasonMetadata, ReasonTenant, ReasonExecution, ReasonSize, ReasonDigest:
		default:
			continue
		}
		buffer, err := decrypt(v)
		if err == nil || len(bytes.Trim(buffer, "\x00")) != 0 {
			t.Errorf("%s: %v left plaintext behind", name, err)
		}
	}
	v := vectors(t, "valid")["example"]
	if buffer, err := decrypt(v); err != nil || string(bytes.Trim(buffer, "\x00")) != "Hi" {
		t.Errorf("%v, or more than the content stayed in memory", err)
	}
}

// Keys derive as the standard library's HKDF-Expand derives them.
func TestExpandIsHKDF(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := drawKey(t, "key")
		e := newExpander(key)
		for _, label := range []string{labelKeyID, labelCommitment, labelAEAD, labelWrap} {
			want, err := hkdf.Expand(sha256.New, key.Bytes(), label, sha256.Size)
			if got := e.expand(label); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%s: %x (%v), want %x", label, got, err, want)
			}
		}
	})
}

func TestSealRefuses(t *testing.T) {
	key := keyOf(t, make([]byte, blobd.KeySize))
	good := Metadata{Tenant: "t", ExecutionID: "e", Class: "c", Kind: blobd.KindText, Digest: blobd.DigestOf([]byte("x")), Size: 1}
	if _, err := Seal(key, good, []byte("x")); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Metadata){
		"tenant empty":         func(m *Metadata) { m.Tenant = "" },
		"tenant long":          func(m *Metadata) { m.Tenant = strings.Repeat("t", 257) },
		"tenant control":       func(m *Metadata) { m.Tenant = "a\x00" },
		"execution empty":      func(m *Metadata) { m.ExecutionID = "" },
		"execution dots":       func(m *Metadata) { m.ExecutionID = ".." },
		"execution long":       func(m *Metadata) { m.ExecutionID = strings.Repeat("e", 257) },
		"execution not UTF-8":  func(m *Metadata) { m.ExecutionID = "\xff" },
		"class":                func(m *Metadata) { m.Class = "C" },
		"kind empty":           func(m *Metadata) { m.Kind = "" },
		"kind unknown":         func(m *Metadata) { m.Kind = "other" },
		"content type long":    func(m *Metadata) { m.ContentType = strings.Repeat("x", 256) },
		"content type control": func(m *Metadata) { m.ContentType = "a\r\n" },
		"size":                 func(m *Metadata) { m.Size = 2 },
		"size negative":        func(m *Metadata) { m.Size = -1 },
	} {
		m := good
		change(&m)
		if sealed, err := Seal(key, m, []byte("x")); !errors.Is(err, blobd.ErrInvalid) || sealed != nil {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
	if testing.Short() {
		return
	}
	if _, err := Seal(key, good, make([]byte, MaxContent+1)); !errors.Is(err, blobd.ErrTooLarge) {
		t.Errorf("%v, want ErrTooLarge", err)
	}
}

func TestWrapBindsKeyAndRef(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		execution, key := drawKey(t, "execution key"), drawKey(t, "key")
		ref := blobd.RefOf(rapid.SliceOf(rapid.Byte()).Draw(t, "sealed"))
		nonce := rapid.SliceOfN(rapid.Byte(), nonceSize, nonceSize).Draw(t, "nonce")
		wrapped, err := WrapKey(bytes.NewReader(nonce), execution, ref, key)
		if err != nil || len(wrapped) != 60 {
			t.Fatalf("%d bytes: %v", len(wrapped), err)
		}
		got, err := UnwrapKey(execution, ref, wrapped)
		if err != nil || !got.Equal(key) {
			t.Fatalf("another key came out: %v", err)
		}
		refuses := func(what string, execution *blobd.Key, ref blobd.Ref, wrapped []byte) {
			if key, err := UnwrapKey(execution, ref, wrapped); reasonOf(err) != ReasonTag || key != nil {
				t.Errorf("%s: %v, want %q", what, err, ReasonTag)
			}
		}
		if other := drawKey(t, "other key"); !other.Equal(execution) {
			refuses("other key", other, ref, wrapped)
		}
		other := ref
		other[rapid.IntRange(0, 31).Draw(t, "at")] ^= 1
		refuses("other ref", execution, other, wrapped)
		bit := rapid.IntRange(0, 8*len(wrapped)-1).Draw(t, "bit")
		wrapped[bit/8] ^= 1 << (bit % 8)
		refuses("flipped bit", execution, ref, wrapped)
	})
}

func TestWrapNeedsRandomness(t *testing.T) {
	key := keyOf(t, make([]byte, blobd.KeySize))
	broken := errors.New("broken")
	if w, err := WrapKey(iotest.ErrReader(broken), key, blobd.Ref{}, key); !errors.Is(err, broken) || w != nil {
		t.Errorf("%v, want the source's error", err)
	}
	if w, err := WrapKey(strings.NewReader("short"), key, blobd.Ref{}, key); !errors.Is(err, io.ErrUnexpectedEOF) || w != nil {
		t.Errorf("%v, want a short read", err)
	}
}

func TestRepeatTagTellsApart(t *testing.T) {
	draw := func(t *rapid.T, label string) Content {
		s := rapid.StringMatching(`[ab]{0,3}`) // few letters, so that joins collide
		return Content{
			Class: s.Draw(t, label+" class"), Kind: blobd.Kind(s.Draw(t, label+" kind")), ContentType: s.Draw(t, label+" type"),
			Audience: []byte(s.Draw(t, label+" audience")),
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		key, a, b := drawKey(t, "key"), draw(t, "a"), draw(t, "b")
		same := a.Class == b.Class && a.Kind == b.Kind && a.ContentType == b.ContentType && bytes.Equal(a.Audience, b.Audience)
		if (RepeatTag(key, a) == RepeatTag(key, b)) != same {
			t.Fatal("tags agree where contents do not, or the reverse")
		}
		if other := drawKey(t, "other key"); !other.Equal(key) && RepeatTag(other, a) == RepeatTag(key, a) {
			t.Fatal("two keys give one tag")
		}
	})
}

// A failure is told by operation and reason and by nothing of its input.
func TestErrorsTellNothing(t *testing.T) {
	v := vectors(t, "invalid")["tenant"]
	_, _, err := Open(keyOf(t, v.BlobKey), v.Sealed, v.owner())
	if got := err.Error(); got != "open: tenant: corrupt" {
		t.Errorf("error %q", got)
	}
}
