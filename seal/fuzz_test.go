package seal

import (
	"bytes"
	"testing"

	"github.com/blobd/blobd"
)

func addVectors(f *testing.F) {
	for _, folder := range []string{"valid", "invalid"} {
		for _, v := range vectors(f, folder) {
			f.Add([]byte(v.Sealed))
		}
	}
}

// Whatever parses is spelt the one way there is.
func FuzzParse(f *testing.F) {
	addVectors(f)
	f.Fuzz(func(t *testing.T, sealed []byte) {
		h, err := Parse(sealed)
		if err != nil {
			if reasonOf(err) == "" || h != (Header{}) {
				t.Fatalf("%v with header %v", err, h)
			}
			return
		}
		if !bytes.Equal(h.append(nil), sealed[:headerSize]) {
			t.Fatal("header encodes to other bytes")
		}
		if h.sealedLen() != len(sealed) {
			t.Fatal("lengths do not account for every byte")
		}
	})
}

// Mutated bytes never open. Whatever does open is what Seal makes of it.
func FuzzOpen(f *testing.F) {
	addVectors(f)
	v := vectors(f, "valid")["example"]
	key := keyOf(f, v.BlobKey)
	f.Fuzz(func(t *testing.T, sealed []byte) {
		m, text, err := Open(key, sealed, v.owner())
		if err != nil {
			mustFail(t, key, sealed, v.owner(), reasonOf(err))
			return
		}
		again, err := Seal(key, m, text.Bytes())
		if err != nil || !bytes.Equal(again, sealed) {
			t.Fatalf("sealing again gave other bytes: %v", err)
		}
		if !bytes.Equal(sealed, v.Sealed) {
			t.Fatal("bytes that nobody sealed opened")
		}
	})
}

// Beyond authentication: any plaintext, honestly sealed by a writer who holds
// the key, is refused unless it is canonical.
func FuzzPlaintext(f *testing.F) {
	v := vectors(f, "valid")["example"]
	key := keyOf(f, v.BlobKey)
	m := v.metadata()
	f.Add(m.append(nil), v.content())
	f.Fuzz(func(t *testing.T, encoded, content []byte) {
		d, err := deriveBlob(key)
		if err != nil {
			t.Fatal(err)
		}
		h := Header{version1, suite1, d.keyID, uint32(len(encoded)), uint64(len(content)), d.commitment}
		header := h.append(nil)
		sealed := d.aead.Seal(header, make([]byte, nonceSize), append(bytes.Clone(encoded), content...), header)
		m, text, err := Open(key, sealed, v.owner())
		if err != nil {
			mustFail(t, key, sealed, v.owner(), reasonOf(err))
			return
		}
		again, err := Seal(key, m, text.Bytes())
		if err != nil || !bytes.Equal(again, sealed) {
			t.Fatalf("sealing again gave other bytes: %v", err)
		}
	})
}

func FuzzMetadata(f *testing.F) {
	for _, v := range vectors(f, "valid") {
		m := v.metadata()
		f.Add(m.append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, ok := parseMetadata(b)
		if !ok {
			if m != (Metadata{}) {
				t.Fatal("refused metadata came out")
			}
			return
		}
		if err := m.check(); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(m.append(nil), b) || m.encodedLen() != len(b) {
			t.Fatal("metadata encodes to other bytes")
		}
		if len(b) < int(minMetadata) || len(b) > int(maxMetadata) {
			t.Fatalf("%d bytes are outside the header's limits", len(b))
		}
	})
}

// Metadata whose fields pass the checks encodes, and parses to itself.
func FuzzMetadataFields(f *testing.F) {
	f.Add("acme", "run-1", "reasoning", "text", "text/plain", uint32(3))
	f.Fuzz(func(t *testing.T, tenant, execution, class, kind, contentType string, size uint32) {
		m := Metadata{Tenant: tenant, ExecutionID: execution, Class: class, Kind: blobd.Kind(kind), ContentType: contentType, Size: int64(size)}
		if m.check() != nil || m.Size > MaxContent {
			return
		}
		if got, ok := parseMetadata(m.append(nil)); !ok || got != m {
			t.Fatalf("%+v came back as %+v", m, got)
		}
	})
}
