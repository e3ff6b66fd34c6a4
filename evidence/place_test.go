package evidence_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/evidence"
	"github.com/blobd/blobd/evidence/bucket"
	"github.com/blobd/blobd/internal/servers"
	"github.com/blobd/blobd/keys"
	keysmem "github.com/blobd/blobd/keys/mem"
)

// placeKind is a kind of place. fresh makes an empty one; files is what lies in one, by
// a reader that is not the place.
type placeKind struct {
	fresh func(t *testing.T) evidence.Place
	files func(t *testing.T, p evidence.Place) map[string][]byte
}

// placeKinds are the kinds, over servers of their own.
func placeKinds(t *testing.T) map[string]placeKind {
	return map[string]placeKind{
		"folder": {
			fresh: func(t *testing.T) evidence.Place { return evidence.Folder(filepath.Join(t.TempDir(), "log")) },
			files: func(t *testing.T, p evidence.Place) map[string][]byte { return files(t, string(p.(evidence.Folder))) },
		},
		"minio":     bucketKind(t, servers.MinIO(t, servers.MinIOOptions{})),
		"versitygw": bucketKind(t, servers.VersityGW(t, servers.VersityGWOptions{})),
	}
}

// inBucket is a place and where it lies.
type inBucket struct {
	*bucket.Place
	prefix string
}

func bucketKind(t *testing.T, server *servers.S3) placeKind {
	t.Helper()
	server.Bucket(t, "log", servers.Bucket{})
	n := 0
	return placeKind{
		fresh: func(t *testing.T) evidence.Place {
			t.Helper()
			n++
			prefix := fmt.Sprint("team/log-", n)
			return inBucket{openBucket(t, server, "s3://log/"+prefix), prefix}
		},
		files: func(t *testing.T, p evidence.Place) map[string][]byte {
			return objects(t, server, p.(inBucket).prefix+"/")
		},
	}
}

func openBucket(t *testing.T, server *servers.S3, url string) *bucket.Place {
	t.Helper()
	p, err := bucket.Open(bucket.Options{
		URL: url, Endpoint: server.Endpoint, PathStyle: true,
		AccessKey: server.AccessKey, SecretKey: blobd.TextOf([]byte(server.SecretKey)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// objects reads a bucket below a prefix by another client, by the name after it.
func objects(t *testing.T, server *servers.S3, prefix string) map[string][]byte {
	t.Helper()
	out := make(map[string][]byte)
	c := server.Client()
	list, err := c.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: aws.String("log"), Prefix: &prefix})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range list.Contents {
		got, err := c.GetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String("log"), Key: o.Key})
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(got.Body)
		if err = errors.Join(err, got.Body.Close()); err != nil {
			t.Fatal(err)
		}
		out[strings.TrimPrefix(*o.Key, prefix)] = b
	}
	return out
}

// TestPlaces: every kind of place keeps a log, and they all keep the same one.
func TestPlaces(t *testing.T) {
	for name, kind := range placeKinds(t) {
		t.Run(name, func(t *testing.T) {
			t.Run("objects are replaced and removed", func(t *testing.T) { placeKeeps(t, kind) })
			t.Run("the layout is that of a folder", func(t *testing.T) { placeLayout(t, kind) })
			t.Run("what broke off goes on", func(t *testing.T) { placeBroke(t, kind) })
			t.Run("a changed byte is found", func(t *testing.T) { placeChanged(t, kind) })
			t.Run("another log's place is refused", func(t *testing.T) { placeOther(t, kind) })
		})
	}
}

func placeKeeps(t *testing.T, kind placeKind) {
	p, ctx := kind.fresh(t), t.Context()
	if _, err := p.Read(ctx, "checkpoint"); !errors.Is(err, blobd.ErrNotFound) {
		t.Errorf("an absent object: %v, want not found", err)
	}
	if err := p.Remove(ctx, "tile/0/000"); err != nil {
		t.Errorf("an absent object removed: %v", err)
	}
	for _, want := range [][]byte{[]byte("first"), []byte("second, longer"), {}} {
		if err := p.Write(ctx, "tile/0/000", want); err != nil {
			t.Fatal(err)
		}
		if got, err := p.Read(ctx, "tile/0/000"); err != nil || !bytes.Equal(got, want) {
			t.Errorf("read %q, %v, want %q", got, err, want)
		}
	}
	if err := p.Remove(ctx, "tile/0/000"); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Read(ctx, "tile/0/000"); !errors.Is(err, blobd.ErrNotFound) {
		t.Errorf("a removed object: %v, want not found", err)
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	if _, isFolder := p.(evidence.Folder); isFolder {
		return
	}
	if _, err := p.Read(over, "tile/0/000"); errors.Is(err, blobd.ErrNotFound) || !errors.Is(err, blobd.ErrUnavailable) {
		t.Errorf("a read whose time is over: %v, want unavailable", err)
	}
}

func placeLayout(t *testing.T, kind placeKind) {
	r := newRig(t, t, 1)
	p, to, folder := r.process(), kind.fresh(t), t.TempDir()
	for _, n := range []int{3, 257, 300} {
		r.append(n)
		r.drain(p)
		export(t, p.Log, r.verifier(p), folder)
		c, err := evidence.Export(t.Context(), p.Log, r.verifier(p), to)
		if err != nil {
			t.Fatal(err)
		}
		got, err := evidence.VerifyExport(t.Context(), to, r.verifier(p), evidence.VerifyOptions{})
		if err != nil || got.Root != c.Root || got.Size != c.Size {
			t.Fatalf("verifies as %d, %v, want %d", got.Size, err, c.Size)
		}
	}
	want, got := files(t, folder), kind.files(t, to)
	if len(want) != len(got) || len(want) < 8 {
		t.Errorf("%d objects, want %d", len(got), len(want))
	}
	for name := range want {
		if !bytes.Equal(got[name], want[name]) {
			t.Errorf("%s is not what the folder holds", name)
		}
	}
}

// breaking is a place that fails once, at its nth call: before it acted or after.
type breaking struct {
	evidence.Place
	left  *int
	after bool
}

func (b breaking) fails(act func() error) error {
	*b.left--
	if *b.left != 0 {
		return act()
	}
	if b.after {
		if err := act(); err != nil {
			return err
		}
	}
	return errFault
}

func (b breaking) Read(ctx context.Context, name string) (out []byte, err error) {
	err = b.fails(func() error {
		out, err = b.Place.Read(ctx, name)
		return err
	})
	return out, err
}

func (b breaking) Write(ctx context.Context, name string, body []byte) error {
	return b.fails(func() error { return b.Place.Write(ctx, name, body) })
}

func (b breaking) Remove(ctx context.Context, name string) error {
	return b.fails(func() error { return b.Place.Remove(ctx, name) })
}

func placeBroke(t *testing.T, kind placeKind) {
	r := newRig(t, t, 1)
	p := r.process()
	r.append(300)
	r.drain(p)
	v := r.verifier(p)
	older := kind.fresh(t) // of 300, to be brought up to 530
	old, err := evidence.Export(t.Context(), p.Log, v, older)
	if err != nil {
		t.Fatal(err)
	}
	begun := kind.files(t, older)
	r.append(230)
	r.drain(p)
	for _, after := range []bool{false, true} {
		for nth := 1; ; nth++ {
			to, left := kind.fresh(t), nth
			for name, b := range begun {
				if err := to.Write(t.Context(), name, b); err != nil {
					t.Fatal(err)
				}
			}
			_, err := evidence.Export(t.Context(), p.Log, v, breaking{to, &left, after})
			if err == nil {
				if nth < 8 {
					t.Errorf("only %d calls", nth-1)
				}
				break
			}
			if !errors.Is(err, errFault) {
				t.Fatal(err)
			}
			// Whole as it was, or whole as it will be.
			if c, err := evidence.VerifyExport(t.Context(), to, v, evidence.VerifyOptions{Since: []evidence.Checkpoint{old}}); err != nil || c.Size != 300 && c.Size != 530 {
				t.Errorf("call %d, after %v: verifies as %d, %v", nth, after, c.Size, err)
			}
			if _, err := evidence.Export(t.Context(), p.Log, v, to); err != nil {
				t.Errorf("call %d, after %v: again: %v", nth, after, err)
			}
			if c, err := evidence.VerifyExport(t.Context(), to, v, evidence.VerifyOptions{}); err != nil || c.Size != 530 {
				t.Errorf("call %d, after %v: again: verifies as %d, %v", nth, after, c.Size, err)
			}
		}
	}
}

func placeChanged(t *testing.T, kind placeKind) {
	r := newRig(t, t, 1)
	p, to := r.process(), kind.fresh(t)
	r.append(260)
	r.drain(p)
	v := r.verifier(p)
	if _, err := evidence.Export(t.Context(), p.Log, v, to); err != nil {
		t.Fatal(err)
	}
	wrong := func(what string) {
		t.Helper()
		_, err := evidence.VerifyExport(t.Context(), to, v, evidence.VerifyOptions{})
		if err == nil || !errors.Is(err, blobd.ErrCorrupt) && what != "checkpoint" {
			t.Errorf("%s: %v, want corrupt", what, err)
		}
	}
	all := kind.files(t, to)
	if len(all) < 6 {
		t.Fatalf("%d objects", len(all))
	}
	for name, b := range all {
		changed := bytes.Clone(b)
		changed[len(b)/2] ^= 1
		if err := to.Write(t.Context(), name, changed); err != nil {
			t.Fatal(err)
		}
		wrong(name)
		if err := to.Remove(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		wrong(name)
		if err := to.Write(t.Context(), name, b); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := evidence.VerifyExport(t.Context(), to, v, evidence.VerifyOptions{}); err != nil {
		t.Errorf("as it was: %v", err)
	}
}

func placeOther(t *testing.T, kind placeKind) {
	mine, other := newRig(t, t, 1), newRig(t, t, 1)
	other.keys = keys.NewCore(keysmem.New(nil), keys.Options{Now: other.clock.now})
	p, q, to := mine.process(), other.process(), kind.fresh(t)
	for r, p := range map[*rig]process{mine: p, other: q} {
		r.append(5)
		r.drain(p)
	}
	if mine.verifier(p) == other.verifier(q) {
		t.Fatal("one key")
	}
	if _, err := evidence.Export(t.Context(), p.Log, mine.verifier(p), to); err != nil {
		t.Fatal(err)
	}
	before := kind.files(t, to)
	if _, err := evidence.Export(t.Context(), q.Log, other.verifier(q), to); !errors.Is(err, blobd.ErrInvalid) {
		t.Errorf("another log: %v, want invalid", err)
	}
	for name, b := range kind.files(t, to) {
		if !bytes.Equal(b, before[name]) {
			t.Errorf("%s was changed", name)
		}
	}
}

// TestABucketTellsAnOutageFromAnAbsence: only the store's own word is an absence.
func TestABucketTellsAnOutageFromAnAbsence(t *testing.T) {
	server := servers.MinIO(t, servers.MinIOOptions{})
	server.Bucket(t, "log", servers.Bucket{})
	for what, url := range map[string]string{"no such bucket": "s3://nowhere/x", "not ours": "s3://log/x"} {
		p, err := bucket.Open(bucket.Options{
			URL: url, Endpoint: server.Endpoint, PathStyle: true, AccessKey: "who", SecretKey: blobd.TextOf([]byte("knows-this")),
		})
		if what == "no such bucket" {
			p = openBucket(t, server, url)
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Read(t.Context(), "checkpoint"); errors.Is(err, blobd.ErrNotFound) || !errors.Is(err, blobd.ErrUnavailable) {
			t.Errorf("%s: read: %v, want unavailable", what, err)
		}
		if err := p.Write(t.Context(), "checkpoint", []byte("x")); !errors.Is(err, blobd.ErrUnavailable) {
			t.Errorf("%s: write: %v, want unavailable", what, err)
		}
		_ = p.Close()
	}
	for what, status := range map[string]int{"a bare 404": http.StatusNotFound, "a page": http.StatusOK} {
		proxy := page(t, status)
		p, err := bucket.Open(bucket.Options{URL: "s3://log", Endpoint: proxy, PathStyle: true, AccessKey: "a", SecretKey: blobd.TextOf([]byte("b"))})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Read(t.Context(), "checkpoint"); status == http.StatusNotFound && (errors.Is(err, blobd.ErrNotFound) || !errors.Is(err, blobd.ErrUnavailable)) {
			t.Errorf("%s: read: %v, want unavailable", what, err)
		}
		if err := p.Write(t.Context(), "checkpoint", []byte("x")); !errors.Is(err, blobd.ErrUnavailable) {
			t.Errorf("%s: write: %v, want unavailable", what, err)
		}
		_ = p.Close()
	}
}

// TestURLsOfBuckets.
func TestURLsOfBuckets(t *testing.T) {
	for url, ok := range map[string]bool{
		"s3://b": true, "s3://b/": true, "s3://b/p": true, "s3://b/p/q/": true, "s3://b/p-_.1": true,
		"": false, "s3://": false, "s3:///p": false, "b/p": false, "https://b/p": false, "s3://b//p": false, "s3://b/p//q": false,
		"s3://b/../p": false, "s3://b/p q": false, "s3://b/p?q": false, "s3://b/p%2f": false,
	} {
		p, err := bucket.Open(bucket.Options{URL: url})
		if (err == nil) != ok || err != nil && !errors.Is(err, blobd.ErrInvalid) {
			t.Errorf("%q: %v", url, err)
		}
		if err == nil {
			_ = p.Close()
		}
	}
	for what, o := range map[string]bucket.Options{
		"half of the keys": {URL: "s3://b", AccessKey: "a"}, "an endpoint with a path": {URL: "s3://b", Endpoint: "https://h/p"},
		"a bare host": {URL: "s3://b", Endpoint: "h:9000"}, "no certificates": {URL: "s3://b", RootCAs: []byte("x")},
	} {
		if _, err := bucket.Open(o); !errors.Is(err, blobd.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// page is a proxy that answers everything alike.
func page(t *testing.T, status int) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "<html>sign in</html>")
	}))
	t.Cleanup(s.Close)
	return s.URL
}
