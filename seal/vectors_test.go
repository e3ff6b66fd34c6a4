package seal

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/blobd/blobd"
)

// hexBytes is bytes as vectors write them.
type hexBytes []byte

func (h *hexBytes) UnmarshalText(b []byte) error {
	*h = make([]byte, hex.DecodedLen(len(b)))
	_, err := hex.Decode(*h, b)
	return err
}

type vector struct {
	Reason                                        Reason
	BlobKey, ExecutionKey, TagKey                 hexBytes
	Tenant, ExecutionID, Class, Kind, ContentType string
	Digest, Content, Sealed                       hexBytes
	Size                                          int64
	Repeat                                        struct {
		Bytes hexBytes
		Count int
	}
	Ref                           string
	Nonce, Wrapped, Audience, Tag hexBytes
}

func (v *vector) owner() Owner { return Owner{v.Tenant, v.ExecutionID} }

func (v *vector) metadata() Metadata {
	return Metadata{v.Tenant, v.ExecutionID, v.Class, blobd.Kind(v.Kind), v.ContentType, blobd.Digest(v.Digest), v.Size}
}

func (v *vector) content() []byte {
	if v.Repeat.Count > 0 {
		return bytes.Repeat(v.Repeat.Bytes, v.Repeat.Count)
	}
	return v.Content
}

func vectors(t testing.TB, folder string) map[string]*vector {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", folder, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no vectors in %s: %v", folder, err)
	}
	all := make(map[string]*vector, len(files))
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		v := new(vector)
		if err := json.Unmarshal(b, v); err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		all[strings.TrimSuffix(filepath.Base(f), ".json")] = v
	}
	return all
}

func keyOf(t testing.TB, b []byte) *blobd.Key {
	t.Helper()
	k, err := blobd.KeyFrom(b)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// reasonOf is empty unless err is a corruption with a reason.
func reasonOf(err error) Reason {
	var c *CorruptError
	if !errors.As(err, &c) || !errors.Is(err, blobd.ErrCorrupt) {
		return ""
	}
	return c.Reason
}

func TestValidVectors(t *testing.T) {
	for name, v := range vectors(t, "valid") {
		t.Run(name, func(t *testing.T) {
			key, m, content := keyOf(t, v.BlobKey), v.metadata(), v.content()
			sealed, err := Seal(key, m, content)
			if err != nil {
				t.Fatal(err)
			}
			if v.Sealed != nil && !bytes.Equal(sealed, v.Sealed) {
				t.Errorf("sealed\n%x, want\n%x", sealed, v.Sealed)
			}
			if ref := blobd.RefOf(sealed).String(); ref != v.Ref {
				t.Errorf("ref %s, want %s", ref, v.Ref)
			}
			if got := len(sealed) - len(content); got != Overhead(m) || cap(sealed) < len(sealed) {
				t.Errorf("overhead %d, Overhead says %d", got, Overhead(m))
			}
			got, text, err := Open(key, sealed, v.owner())
			if err != nil {
				t.Fatal(err)
			}
			if got != m {
				t.Errorf("metadata %#v, want %#v", got, m)
			}
			if !bytes.Equal(text.Bytes(), content) {
				t.Error("content differs")
			}
		})
	}
}

func TestInvalidVectors(t *testing.T) {
	all := vectors(t, "invalid")
	seen := map[Reason]bool{}
	for name, v := range all {
		seen[v.Reason] = true
		t.Run(name, func(t *testing.T) {
			mustFail(t, keyOf(t, v.BlobKey), v.Sealed, v.owner(), v.Reason)
		})
	}
	for _, r := range []Reason{
		ReasonMagic, ReasonTruncated, ReasonVersion, ReasonSuite, ReasonReserved, ReasonLengths, ReasonTrailing, ReasonKeyID,
		ReasonCommitment, ReasonTag, ReasonMetadata, ReasonTenant, ReasonExecution, ReasonSize, ReasonDigest,
	} {
		if !seen[r] {
			t.Errorf("no vector fails for %q", r)
		}
	}
}

// tester is what testing and rapid share.
type tester interface {
	Helper()
	Error(...any)
	Errorf(string, ...any)
}

// mustFail holds a failed Open to giving nothing at all.
func mustFail(t tester, key *blobd.Key, sealed []byte, owner Owner, want Reason) {
	t.Helper()
	m, text, err := Open(key, sealed, owner)
	if got := reasonOf(err); got != want {
		t.Errorf("reason %q (%v), want %q", got, err, want)
	}
	if m != (Metadata{}) || text.Bytes() != nil {
		t.Error("a failed Open gave bytes")
	}
}

func TestWrapVectors(t *testing.T) {
	for name, v := range vectors(t, "wrap") {
		t.Run(name, func(t *testing.T) {
			execution := keyOf(t, v.ExecutionKey)
			ref, err := blobd.ParseRef(v.Ref)
			if err != nil {
				t.Fatal(err)
			}
			key, err := UnwrapKey(execution, ref, v.Wrapped)
			if v.Reason != "" {
				if reasonOf(err) != v.Reason || key != nil {
					t.Fatalf("%v, want %q", err, v.Reason)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(key.Bytes(), v.BlobKey) {
				t.Error("another key came out")
			}
			wrapped, err := WrapKey(bytes.NewReader(v.Nonce), execution, ref, key)
			if err != nil || !bytes.Equal(wrapped, v.Wrapped) {
				t.Errorf("wrapped %x (%v), want %x", wrapped, err, v.Wrapped)
			}
		})
	}
}

func TestRepeatVectors(t *testing.T) {
	names := map[string]string{}
	for name, v := range vectors(t, "repeat") {
		tag := RepeatTag(keyOf(t, v.TagKey), Content{v.Class, blobd.Kind(v.Kind), v.ContentType, v.Audience, blobd.Digest(v.Digest)})
		if !bytes.Equal(tag[:], v.Tag) {
			t.Errorf("%s: tag %x, want %x", name, tag, v.Tag)
		}
		if other, ok := names[string(tag[:])]; ok {
			t.Errorf("%s and %s share a tag", name, other)
		}
		names[string(tag[:])] = name
	}
}

// The bytes that the specification prints are the vector's.
func TestWorkedExample(t *testing.T) {
	doc, err := os.ReadFile("../docs/format.md")
	if err != nil {
		t.Fatal(err)
	}
	_, example, ok := strings.Cut(string(doc), "The sealed blob, 187 bytes:")
	if !ok {
		t.Fatal("no worked example")
	}
	example, _, _ = strings.Cut(example, "Its ref")
	example = regexp.MustCompile(`#.*|\s`).ReplaceAllString(example, "")
	v := vectors(t, "valid")["example"]
	if example != hex.EncodeToString(v.Sealed) {
		t.Errorf("the specification prints\n%s, want\n%x", example, v.Sealed)
	}
	if !strings.Contains(string(doc), v.Ref) {
		t.Error("the specification prints another ref")
	}
}
