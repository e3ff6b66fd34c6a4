package faults

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"io"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
	"github.com/blobd/blobd/backends/minio"
	"github.com/blobd/blobd/backends/s3"
	"github.com/blobd/blobd/evidence"
	"github.com/blobd/blobd/internal/servers"
	"github.com/blobd/blobd/keys"
	"github.com/blobd/blobd/keys/local"
	"github.com/blobd/blobd/ledger/sqlite"
	"github.com/blobd/blobd/resolver"
	"github.com/blobd/blobd/store"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// A toxic that cuts a stream leaves the goroutine that fed it behind.
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2.(*ToxicLink).read"),
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2/toxics.(*ToxicStub).Run"),
	)
}

const (
	tenant = "acme"
	// repeatFor is how long a driver repeats a request, and tryFor how long it
	// waits for one try: long enough for the slowest proxy here.
	repeatFor = 10 * time.Second
	tryFor    = 5 * time.Second
)

// object is a driver that can be closed.
type object interface {
	backends.Store
	io.Closer
}

// driver opens a store in a bucket.
type driver struct {
	name string
	open func(ctx context.Context, endpoint, bucket string, server *servers.S3) (object, error)
}

func drivers() []driver {
	return []driver{
		{"s3", func(ctx context.Context, endpoint, bucket string, server *servers.S3) (object, error) {
			return s3.Open(ctx, s3.Options{
				Endpoint: endpoint, Bucket: bucket, Region: server.Region, PathStyle: true, Random: rand.Reader,
				AccessKey: server.AccessKey, SecretKey: blobd.TextOf([]byte(server.SecretKey)),
				RetryFor: repeatFor, TryFor: tryFor,
			})
		}},
		{"minio", func(ctx context.Context, endpoint, bucket string, server *servers.S3) (object, error) {
			return minio.Open(ctx, minio.Options{
				Endpoint: endpoint, Bucket: bucket, Region: server.Region, PathStyle: true, Random: rand.Reader,
				AccessKey: server.AccessKey, SecretKey: blobd.TextOf([]byte(server.SecretKey)),
				RetryFor: repeatFor, TryFor: tryFor,
			})
		}},
	}
}

// world is blobd's core on a real ledger and keyring, with a proxy and a relay
// before the object store.
type world struct {
	t        *testing.T
	relay    *relay
	proxy    *proxy
	objects  object
	store    *store.Store
	resolver *resolver.Resolver
}

// newWorld makes a world with one tenant, on a bucket of its own.
func newWorld(t *testing.T, d driver, server *servers.S3) *world {
	t.Helper()
	w := &world{t: t, relay: newRelay(t, server.Endpoint[len("http://"):])}
	w.proxy = newProxy(t, w.relay.address())
	bucket := unique()
	server.Bucket(t, bucket, servers.Bucket{})
	var err error
	w.objects, err = d.open(t.Context(), w.proxy.endpoint(), bucket, server)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	ring, err := local.Open(filepath.Join(dir, "keys", "keyring.json"), local.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	l, err := sqlite.Open(filepath.Join(dir, "ledger.db"), sqlite.Options{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, c := range []io.Closer{l, ring} {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	log := slog.New(slog.DiscardHandler)
	w.store = store.New(store.Config{
		Ledger: l, Objects: w.objects, Journal: evidence.NewJournal(l, w.objects), Now: time.Now, Random: rand.Reader,
		Keys:      keys.NewCore(ring, keys.Options{Now: time.Now}),
		PutMargin: store.DefaultPutMargin, Log: log, // no cache: every resolve asks the store
	})
	w.resolver = resolver.New(w.store, l, resolver.Options{Now: time.Now, Random: rand.Reader, Log: log})
	if err := w.store.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := w.store.CreateTenant(t.Context(), tenant, ""); err != nil {
		t.Fatal(err)
	}
	return w
}

// close ends the driver, and makes sure that the server has no connection left.
func (w *world) close() {
	w.t.Helper()
	if err := w.objects.Close(); err != nil {
		w.t.Error(err)
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	if err := w.relay.await(ctx, func(open, _ int) bool { return open == 0 }); err != nil {
		open, total := w.relay.counts()
		w.t.Errorf("%d of %d connections are still open", open, total)
	}
}

// patience bounds waits that only a failure makes long.
const patience = 20 * time.Second

func unique() string {
	var b [8]byte
	_, _ = rand.Read(b[:])
	return "test-" + hex.EncodeToString(b[:])
}

// put asks to keep a text, within a time.
func (w *world) put(ctx context.Context, within time.Duration, execution string, text []byte) (blobd.Ref, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	stored, err := w.store.Put(ctx, store.PutRequest{
		Attempt: store.Attempt{Tenant: tenant, ExecutionID: execution, StepID: "step", Number: 1, Provider: "p", Actor: "token"},
		Content: store.Content{
			Class: "reasoning", Kind: blobd.KindText, ContentType: "text/plain; charset=utf-8",
			Text: blobd.TextOf(append([]byte{}, text...)),
		},
	})
	return stored.Ref, err
}

// resolve asks for a text, within a time. null is what must never be.
func (w *world) resolve(ctx context.Context, within time.Duration, execution string, ref blobd.Ref) (text []byte, null bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	a, err := w.resolver.Resolve(ctx, resolver.Request{Tenant: tenant, ExecutionID: execution, Wants: []resolver.Want{{Ref: ref}}})
	if err != nil {
		return nil, false, err
	}
	p := a.Parts[0]
	if p.Null {
		return nil, true, nil
	}
	defer p.Text.Wipe()
	return append([]byte{}, p.Text.Bytes()...), false, nil
}
