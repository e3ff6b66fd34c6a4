package endpoint_test

import (
	"crypto/rand"
	"errors"
	"strings"
	"testing"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/internal/endpoint"
)

func TestRoot(t *testing.T) {
	for prefix, want := range map[string]string{
		"": "", "a": "a/", "a/b.c_d-E9": "a/b.c_d-E9/", strings.Repeat("x", 255): strings.Repeat("x", 255) + "/",
	} {
		if got, err := endpoint.Root(prefix); got != want || err != nil {
			t.Errorf("%q: %q, %v", prefix, got, err)
		}
	}
	for _, prefix := range []string{"/", "/a", "a/", "a//b", ".", "a/..", "../a", "a b", "ü", "a\n", strings.Repeat("x", 256)} {
		if got, err := endpoint.Root(prefix); !errors.Is(err, blobd.ErrInvalid) {
			t.Errorf("%q: %q, %v", prefix, got, err)
		}
	}
}

func TestParse(t *testing.T) {
	for raw, want := range map[string]struct{ bare, path bool }{
		"https://minio.example": {true, true}, "http://127.0.0.1:9000/": {true, true}, "https://h/path": {false, true},
		"": {}, "minio.example": {}, "ftp://h": {}, "https://": {}, "https://me:secret@h": {}, "http://[": {},
	} {
		_, err := endpoint.Parse(raw)
		if (err == nil) != want.path || err != nil && !errors.Is(err, blobd.ErrInvalid) {
			t.Errorf("parse %q: %v", raw, err)
		}
		_, err = endpoint.ParseBare(raw)
		if (err == nil) != want.bare || err != nil && !errors.Is(err, blobd.ErrInvalid) {
			t.Errorf("parse %q without a path: %v", raw, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("the error tells a secret: %v", err)
		}
	}
}

func TestOptionsThatCannotBeRight(t *testing.T) {
	right := endpoint.Options{Bucket: "b", Random: rand.Reader, AccessKey: "k", SecretKey: blobd.TextOf([]byte("s"))}
	if err := right.Check(); err != nil {
		t.Error(err)
	}
	for name, spoil := range map[string]func(*endpoint.Options){
		"no bucket":    func(o *endpoint.Options) { o.Bucket = "" },
		"a path":       func(o *endpoint.Options) { o.Bucket = "b/c" },
		"no chance":    func(o *endpoint.Options) { o.Random = nil },
		"no secret":    func(o *endpoint.Options) { o.SecretKey = blobd.Text{} },
		"only secrets": func(o *endpoint.Options) { o.AccessKey = "" },
	} {
		o := right
		spoil(&o)
		if err := o.Check(); !errors.Is(err, blobd.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTransportTrustsNobodyElse(t *testing.T) {
	if _, err := endpoint.Transport([]byte("no PEM")); !errors.Is(err, blobd.ErrInvalid) {
		t.Error(err)
	}
	if tr, err := endpoint.Transport(nil); err != nil || tr.TLSClientConfig.RootCAs != nil || tr.ResponseHeaderTimeout == 0 {
		t.Errorf("%+v, %v", tr, err)
	}
}
