package integration

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
)

// TestExactBytes: what comes back is what went in, whatever it is.
func TestExactBytes(t *testing.T) {
	t.Parallel()
	const octets, text = "application/octet-stream", "text/plain; charset=utf-8"
	big := make([]byte, 16<<20)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(big)
	s := start(t, t.TempDir())
	for name, c := range map[string]struct {
		bytes []byte
		kind  string
	}{
		"empty":              {nil, text},
		"one byte":           {[]byte("8"), text},
		"byte order mark":    {[]byte("\ufeffthought"), text},
		"CRLF":               {[]byte("a\r\nb\rc\n"), text},
		"NUL":                {[]byte("a\x00b\x00"), text},
		"composed":           {[]byte("caf\u00e9"), text},
		"decomposed":         {[]byte("cafe\u0301"), text},
		"emoji":              {[]byte("🧠👩‍🚀🏳️‍🌈"), text},
		"spaces":             {[]byte("  \t\n "), text},
		"looks like JSON":    {[]byte(`{"text":"x"}`), "application/json"},
		"separators":         {[]byte("a\u2028b\u2029c\u0085"), text},
		"noncharacters":      {[]byte("\ufffe\uffff\U0010ffff"), text},
		"invalid UTF-8":      {[]byte("a\xff\xc0\xaf\xed\xa0\x80"), octets},
		"16 MiB of anything": {big, octets},
		"16 MiB of text":     {bytes.Repeat([]byte("thought "), 2<<20), text},
	} {
		t.Run(name, func(t *testing.T) {
			s.t = t
			sum := sha256.Sum256(c.bytes)
			repr := "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
			out, err := s.put("bytes", c.bytes, "Content-Type", c.kind, "Repr-Digest", repr)
			if err != nil {
				t.Fatal(err)
			}
			if out.Digest != hex.EncodeToString(sum[:]) || out.Size != int64(len(c.bytes)) {
				t.Errorf("digest %s, size %d", out.Digest, out.Size)
			}
			a := s.resolve("bytes", out.Ref)
			if a.status != http.StatusOK || !bytes.Equal(a.body, c.bytes) {
				t.Fatalf("resolve: %d, %d bytes, the same: %v", a.status, len(a.body), bytes.Equal(a.body, c.bytes))
			}
			if a.header.Get("Content-Type") != c.kind || a.header.Get("Repr-Digest") != repr ||
				a.header.Get("Content-Length") != fmt.Sprint(len(c.bytes)) {
				t.Errorf("headers %v", a.header)
			}
			head := s.do(http.MethodHead, execution("bytes")+"/blobs/"+out.Ref, nil)
			if head.status != http.StatusOK || len(head.body) != 0 || head.header.Get("Content-Length") != fmt.Sprint(len(c.bytes)) {
				t.Errorf("HEAD: %d, %v", head.status, head.header)
			}
			b, whole := s.batch("bytes", out.Ref)
			if whole.status != http.StatusOK || whole.err != nil {
				t.Fatalf("batch: %d %s %v", whole.status, whole.problem().Code, whole.err)
			}
			p := b.Parts[0]
			if got := p.Base64; p.Text != nil {
				got = []byte(*p.Text)
				if !bytes.Equal(got, c.bytes) {
					t.Error("the batch has other bytes as text")
				}
			} else if c.kind != octets || !bytes.Equal(got, c.bytes) {
				t.Error("the batch has other bytes")
			}
			again, err := s.put("bytes", c.bytes, "Content-Type", c.kind)
			if err != nil || again.Ref != out.Ref {
				t.Errorf("a repeat: %v, same ref %v", err, again.Ref == out.Ref)
			}
		})
	}
	s.t = t
	// Neither is normalised into the other.
	composed, decomposed := s.mustPut("bytes", []byte("caf\u00e9")), s.mustPut("bytes", []byte("cafe\u0301"))
	if composed.Ref == decomposed.Ref {
		t.Error("two spellings are one text")
	}
	for name, c := range map[string]struct {
		body   []byte
		header []string
		status int
		code   string
	}{
		"invalid UTF-8 as text":   {[]byte("a\xff"), []string{"Content-Type", "text/plain"}, 400, "invalid_utf8"},
		"one byte past the limit": {make([]byte, 16<<20+1), []string{"Content-Type", "application/octet-stream"}, 413, "too_large"},
		"another digest":          {[]byte("a"), []string{"Repr-Digest", "sha-256=:" + base64.StdEncoding.EncodeToString(make([]byte, 32)) + ":"}, 400, "digest_mismatch"},
		"compressed":              {[]byte("a"), []string{"Content-Encoding", "gzip"}, 415, "unsupported_encoding"},
	} {
		if _, err := s.put("refused", c.body, c.header...); err != (refused{c.status, c.code}) {
			t.Errorf("%s: %v, want %d %s", name, err, c.status, c.code)
		}
	}
	if a := s.get(execution("refused")); a.status != http.StatusNotFound || strings.Contains(string(a.body), `"blobs"`) {
		t.Errorf("after refusals only: %d, want no such execution", a.status)
	}
}
