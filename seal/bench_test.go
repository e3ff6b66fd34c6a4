package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"fmt"
	"testing"

	"github.com/blobd/blobd"
)

var benchSizes = []int{8 << 10, 64 << 10, 1 << 20}

func bench(b *testing.B, size int, f func(content []byte)) {
	b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
		content := make([]byte, size)
		b.SetBytes(int64(size))
		b.ReportAllocs()
		for b.Loop() {
			f(content)
		}
	})
}

// BenchmarkFloor is what no sealing of this suite can be faster than: AES-GCM
// into a fresh buffer, one SHA-256 for the digest and one for the ref.
func BenchmarkFloor(b *testing.B) {
	block, _ := aes.NewCipher(make([]byte, 32))
	aead, _ := cipher.NewGCM(block)
	nonce := make([]byte, nonceSize)
	for _, size := range benchSizes {
		bench(b, size, func(content []byte) {
			sha256.Sum256(content)
			sealed := aead.Seal(make([]byte, 0, len(content)+tagSize), nonce, content, nil)
			sha256.Sum256(sealed)
		})
	}
}

// BenchmarkSeal is the same work by this package: digest, Seal, ref.
func BenchmarkSeal(b *testing.B) {
	key, m := benchBlob(b)
	for _, size := range benchSizes {
		bench(b, size, func(content []byte) {
			m.Digest, m.Size = blobd.DigestOf(content), int64(len(content))
			sealed, err := Seal(key, m, content)
			if err != nil {
				b.Fatal(err)
			}
			blobd.RefOf(sealed)
		})
	}
}

// BenchmarkOpen is a resolve's share: ref, Open (which hashes the content).
func BenchmarkOpen(b *testing.B) {
	key, m := benchBlob(b)
	for _, size := range benchSizes {
		content := make([]byte, size)
		m.Digest, m.Size = blobd.DigestOf(content), int64(size)
		sealed, err := Seal(key, m, content)
		if err != nil {
			b.Fatal(err)
		}
		bench(b, size, func([]byte) {
			blobd.RefOf(sealed)
			if _, _, err := Open(key, sealed, ownerOf(m)); err != nil {
				b.Fatal(err)
			}
		})
	}
}

func BenchmarkWrapKey(b *testing.B) {
	key, _ := benchBlob(b)
	b.ReportAllocs()
	for b.Loop() {
		wrapped, err := WrapKey(zeros{}, key, blobd.Ref{}, key)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := UnwrapKey(key, blobd.Ref{}, wrapped); err != nil {
			b.Fatal(err)
		}
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

func benchBlob(b *testing.B) (*blobd.Key, Metadata) {
	key, err := blobd.NewKey(zeros{})
	if err != nil {
		b.Fatal(err)
	}
	return key, Metadata{
		Tenant: "acme", ExecutionID: "01J9ZQ5W8N3T7X", Class: blobd.DefaultClass, Kind: blobd.KindText,
		ContentType: "text/plain; charset=utf-8",
	}
}
