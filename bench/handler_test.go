// Package bench holds benchmarks of the whole service in one process.
//
//	go test -run '^$' -bench . -benchtime 3s .
package bench

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/blobd/blobd/api"
	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/backends/fs"
	"github.com/blobd/blobd/bench/load"
	"github.com/blobd/blobd/bench/target"
	"github.com/blobd/blobd/evidence"
	"github.com/blobd/blobd/keys"
	"github.com/blobd/blobd/keys/local"
	"github.com/blobd/blobd/ledger/sqlite"
	"github.com/blobd/blobd/resolver"
	"github.com/blobd/blobd/store"
)

const tenant = "default"

// service is the real handler over SQLite and files, wired as blobd serve
// wires it but without its background work.
type service struct {
	handler http.Handler
	token   string
}

// newService keeps cacheBytes of sealed blobs in memory; 0 keeps none.
func newService(b *testing.B, cacheBytes int64) *service {
	b.Helper()
	must := func(err error) {
		if err != nil {
			b.Helper()
			b.Fatal(err)
		}
	}
	ctx, dir, log := b.Context(), b.TempDir(), slog.New(slog.DiscardHandler)
	must(target.CheckDisk(dir))
	l, err := sqlite.Open(filepath.Join(dir, "ledger.db"), sqlite.Options{Now: time.Now})
	must(err)
	b.Cleanup(func() { must(l.Close()) })
	_, err = l.Identity(ctx, fmt.Sprintf("%032x", 1))
	must(err)
	ring, err := local.Open(filepath.Join(dir, "keys", "keyring.json"), local.Options{Create: true})
	must(err)
	b.Cleanup(func() { must(ring.Close()) })
	objects, err := fs.Open(filepath.Join(dir, "objects"), fs.Options{Now: time.Now})
	must(err)
	b.Cleanup(func() { must(objects.Close()) })
	core := keys.NewCore(ring, keys.Options{})
	s := store.New(store.Config{
		Ledger: l, Objects: objects, Keys: core, Journal: evidence.NewJournal(l, objects),
		Now: time.Now, Random: rand.Reader, PutMargin: store.DefaultPutMargin,
		CacheBytes: cacheBytes, Log: log,
	})
	must(s.Start(ctx))
	_, err = s.CreateTenant(ctx, tenant, "")
	must(err)
	token, _, err := s.CreateToken(ctx, store.NewToken{Tenant: tenant, Name: "bench", Roles: wire.Roles()})
	must(err)
	handler, err := api.New(api.Config{
		Store: s, Ledger: l, Keys: core.Stats, Now: time.Now, Random: rand.Reader, Log: log,
		Resolver: resolver.New(s, l, resolver.Options{Now: time.Now, Random: rand.Reader, Log: log}),
	})
	must(err)
	return &service{handler, token}
}

// request makes a request as net/http's server would hand it over.
func (s *service) request(ctx context.Context, method, target string, body []byte) *http.Request {
	r, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		panic(err) // the targets below are constants
	}
	r.RequestURI = target
	r.Header.Set("Authorization", "Bearer "+s.token)
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "text/plain; charset=utf-8")
	}
	return r
}

func (s *service) put(b *testing.B, execution string, body []byte) (ref string) {
	w := newAnswer(true)
	s.handler.ServeHTTP(w, s.request(b.Context(), http.MethodPost, "/v1/executions/"+execution+"/blobs?stepId=turn:1:model", body))
	if w.status != http.StatusCreated {
		b.Fatalf("put: status %d: %.300s", w.status, w.body.Bytes())
	}
	var stored struct {
		Ref string `json:"ref"`
	}
	if err := json.Unmarshal(w.body.Bytes(), &stored); err != nil {
		b.Fatal(err)
	}
	return stored.Ref
}

// answer is a ResponseWriter that costs little and keeps the body if asked to.
type answer struct {
	header http.Header
	status int
	size   int
	keep   bool
	body   bytes.Buffer
}

func newAnswer(keep bool) *answer { return &answer{header: http.Header{}, keep: keep} }

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	a.size += len(p)
	if a.keep {
		return a.body.Write(p)
	}
	return len(p), nil
}

func (a *answer) reset() {
	clear(a.header)
	a.status, a.size = 0, 0
	a.body.Reset()
}

// rewound lets one request be sent again.
type rewound struct{ bytes.Reader }

func (*rewound) Close() error { return nil }

// BenchmarkPut stores bodies of 8 KiB that were never seen before, one after
// the other: every iteration waits for the disk, so its allocations matter
// here and its time only beside the disk's.
func BenchmarkPut(b *testing.B) {
	for _, mode := range []string{"known execution", "new execution"} {
		b.Run(mode, func(b *testing.B) {
			s, source, body := newService(b, 0), load.NewBodies(1, 0), make([]byte, load.BodySize)
			s.put(b, "known", []byte("the first put makes the execution's key"))
			r := s.request(b.Context(), http.MethodPost, "/v1/executions/known/blobs?stepId=turn:1:model", nil)
			w, in := newAnswer(false), &rewound{}
			r.Body, r.ContentLength = in, load.BodySize
			b.SetBytes(load.BodySize)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				source.Fill(body)
				in.Reset(body)
				if mode == "new execution" {
					r.URL.Path = fmt.Sprintf("/v1/executions/new-%d/blobs", i)
				}
				w.reset()
				s.handler.ServeHTTP(w, r)
				if w.status != http.StatusCreated {
					b.Fatalf("put: status %d", w.status)
				}
			}
		})
	}
}

// BenchmarkPutParallel puts from many clients at once, so that they share
// what the disk is asked for.
func BenchmarkPutParallel(b *testing.B) {
	for _, clients := range []int{16, 64} {
		b.Run(fmt.Sprintf("%d clients", clients), func(b *testing.B) {
			s := newService(b, 0)
			b.SetBytes(load.BodySize)
			b.ReportAllocs()
			b.ResetTimer()
			eachClient(b, clients, func(client, times int) error {
				source, body := load.NewBodies(1, client), make([]byte, load.BodySize)
				r := s.request(b.Context(), http.MethodPost, fmt.Sprintf("/v1/executions/client-%d/blobs?stepId=turn:1:model", client), nil)
				w, in := newAnswer(false), &rewound{}
				r.Body, r.ContentLength = in, load.BodySize
				for range times {
					source.Fill(body)
					in.Reset(body)
					w.reset()
					s.handler.ServeHTTP(w, r)
					if w.status != http.StatusCreated {
						return fmt.Errorf("put: status %d", w.status)
					}
				}
				return nil
			})
		})
	}
}

// eachClient splits b.N iterations over clients.
func eachClient(b *testing.B, clients int, do func(client, times int) error) {
	done := make(chan error, clients)
	for client := range clients {
		times := b.N / clients
		if client < b.N%clients {
			times++
		}
		go func() { done <- do(client, times) }()
	}
	for range clients {
		if err := <-done; err != nil {
			b.Error(err)
		}
	}
}

// BenchmarkResolve reads stored bodies of 8 KiB, one after the other.
func BenchmarkResolve(b *testing.B) {
	for _, mode := range []struct {
		name  string
		cache int64
	}{{"from memory", 64 << 20}, {"from the backend", 0}} {
		b.Run(mode.name, func(b *testing.B) {
			s, source, body := newService(b, mode.cache), load.NewBodies(1, 0), make([]byte, load.BodySize)
			requests := make([]*http.Request, target.PerClient)
			for i := range requests {
				source.Fill(body)
				ref := s.put(b, "read", body)
				requests[i] = s.request(b.Context(), http.MethodGet, "/v1/executions/read/blobs/"+ref, nil)
			}
			w := newAnswer(false)
			b.SetBytes(load.BodySize)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				w.reset()
				s.handler.ServeHTTP(w, requests[i%len(requests)])
				if w.status != http.StatusOK || w.size != load.BodySize {
					b.Fatalf("resolve: status %d, %d bytes", w.status, w.size)
				}
			}
		})
	}
}

// BenchmarkBatchResolve reads 64 bodies of 8 KiB in one request.
func BenchmarkBatchResolve(b *testing.B) {
	s, source, body := newService(b, 64<<20), load.NewBodies(1, 0), make([]byte, load.BodySize)
	var parts []map[string]string
	for range target.BatchParts {
		source.Fill(body)
		parts = append(parts, map[string]string{"ref": s.put(b, "read", body)})
	}
	wanted, err := json.Marshal(map[string]any{"parts": parts})
	if err != nil {
		b.Fatal(err)
	}
	r := s.request(b.Context(), http.MethodPost, "/v1/executions/read/resolve", nil)
	r.Header.Set("Content-Type", "application/json")
	w, in := newAnswer(false), &rewound{}
	r.Body, r.ContentLength = in, int64(len(wanted))
	b.SetBytes(target.BatchParts * load.BodySize)
	b.ReportAllocs()
	for b.Loop() {
		in.Reset(wanted)
		w.reset()
		s.handler.ServeHTTP(w, r)
		if w.status != http.StatusOK || w.size < target.BatchParts*load.BodySize {
			b.Fatalf("batch: status %d, %d bytes", w.status, w.size)
		}
	}
}

var _ io.ReadCloser = (*rewound)(nil)
