package api_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/api"
	"github.com/blobd/blobd/keys"
	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/resolver"
	"github.com/blobd/blobd/store"
)

// stub is a core that answers at once, so that a benchmark sees the API alone.
// What it does not implement panics.
type stub struct {
	api.Core
	text []byte
}

func (s stub) Put(_ context.Context, r store.PutRequest) (store.Stored, error) {
	return store.Stored{
		Size: int64(r.Text.Len()), StepID: r.StepID, Class: r.Class, CreatedAt: time.Unix(1_700_000_000, 0), Created: true,
	}, nil
}

func (stub) Stats() store.Stats { return store.Stats{} }

func (s stub) Resolve(_ context.Context, q resolver.Request) (resolver.Answer, error) {
	return resolver.Answer{FirstHole: -1, Parts: []resolver.Part{{
		Ref: q.Wants[0].Ref, Text: blobd.TextOf(s.text), Size: int64(len(s.text)), Kind: blobd.KindText,
		Class: blobd.DefaultClass, ContentType: "text/plain; charset=utf-8",
	}}}, nil
}

func (stub) Read(context.Context, resolver.ReadRequest) (resolver.ReadAnswer, error) {
	return resolver.ReadAnswer{}, nil
}

// stubLedger knows one token.
type stubLedger struct{ api.Ledger }

func (stubLedger) TokenByHash(context.Context, [32]byte) (ledger.Token, error) {
	return ledger.Token{ID: "t", Tenant: "default", Roles: []string{"runtime", "admin"}}, nil
}

func (stubLedger) ListTenants(context.Context, string, int) ([]ledger.Tenant, error) {
	return []ledger.Tenant{{ID: "default"}}, nil
}

func (stubLedger) Stats(context.Context) (ledger.Stats, error) { return ledger.Stats{}, nil }

func newStub(b testing.TB, text []byte) *api.API {
	b.Helper()
	s := stub{text: text}
	a, err := api.New(api.Config{
		Store: s, Resolver: s, Ledger: stubLedger{}, Keys: func() keys.Stats { return keys.Stats{} },
		Now: time.Now, Random: rand.Reader, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		b.Fatal(err)
	}
	return a
}

// sink is a response writer that keeps nothing.
type sink struct {
	header http.Header
	status int
}

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) WriteHeader(status int)      { s.status = status }
func (s *sink) Write(p []byte) (int, error) { return len(p), nil }

// bench drives a handler without a network: what is left is the handler.
func bench(b *testing.B, h http.Handler, method, path string, body []byte, want int) {
	b.Helper()
	r, err := http.NewRequestWithContext(b.Context(), method, "http://blobd"+path, nil)
	if err != nil {
		b.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer blobd_"+strings.Repeat("x", 43))
	r.Header.Set("Content-Type", "text/plain; charset=utf-8")
	r.ContentLength = int64(len(body))
	reader := bytes.NewReader(body)
	closer := io.NopCloser(reader)
	w := &sink{header: make(http.Header)}
	b.ReportAllocs()
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		reader.Reset(body)
		r.Body = closer
		clear(w.header)
		q := *r // the mux writes into it
		h.ServeHTTP(w, &q)
	}
	if w.status != want {
		b.Fatalf("status = %d, want %d", w.status, want)
	}
}

const benchPath = "/v1/executions/run-1234/blobs"

func BenchmarkPut4K(b *testing.B) {
	bench(b, newStub(b, nil), "POST", benchPath+"?stepId=turn:1:model&attempt=1", bytes.Repeat([]byte("x"), 4096), 201)
}

func BenchmarkGet4K(b *testing.B) {
	bench(b, newStub(b, bytes.Repeat([]byte("x"), 4096)), "GET", benchPath+"/"+anyRef, nil, 200)
}

// The empty handler under the same mux: what of the above is net/http's.
func BenchmarkEmptyPut4K(b *testing.B) {
	mux := http.NewServeMux()
	buf := make([]byte, 4096)
	mux.HandleFunc("POST /v1/executions/{executionId}/blobs", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadFull(r.Body, buf)
		w.WriteHeader(http.StatusCreated)
	})
	bench(b, mux, "POST", benchPath+"?stepId=turn:1:model&attempt=1", bytes.Repeat([]byte("x"), 4096), 201)
}

func BenchmarkEmptyGet(b *testing.B) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/executions/{executionId}/blobs/{ref}", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
	})
	bench(b, mux, "GET", benchPath+"/"+anyRef, nil, 200)
}
