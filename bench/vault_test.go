package bench

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends/fs"
	"github.com/blobd/blobd/bench/target"
	"github.com/blobd/blobd/evidence"
	"github.com/blobd/blobd/internal/servers"
	"github.com/blobd/blobd/keys"
	"github.com/blobd/blobd/keys/transit"
	"github.com/blobd/blobd/ledger/sqlite"
	"github.com/blobd/blobd/resolver"
	"github.com/blobd/blobd/retention"
	"github.com/blobd/blobd/store"
)

const (
	vaultExecutions = 10_000
	vaultClients    = 16
	vaultBatch      = 64
)

// vaultService is a store whose keys are a real Vault's, and the count of
// requests that it sent to it.
type vaultService struct {
	*testing.B
	store    *store.Store
	resolver *resolver.Resolver
	epochs   *retention.Epochs
	calls    *atomic.Int64
	cold     func() // forgets every key in memory
}

// counting counts requests on their way to Vault.
type counting struct {
	next  http.RoundTripper
	calls *atomic.Int64
}

func (c counting) RoundTrip(r *http.Request) (*http.Response, error) {
	c.calls.Add(1)
	return c.next.RoundTrip(r)
}

func newVaultService(b *testing.B) *vaultService {
	b.Helper()
	s := &vaultService{B: b, calls: new(atomic.Int64)}
	v := servers.Vault(b, servers.VaultOptions{})
	v.FreshTransit("transit")
	policy, err := os.ReadFile("../deploy/vault/blobd-policy.hcl")
	s.must(err)
	v.Policy("blobd", string(policy))
	ring, err := transit.New(transit.Options{
		Address: v.Address, Login: transit.Token(v.NewToken("blobd", "1h")),
		Transport: func(next http.RoundTripper) http.RoundTripper { return counting{next, s.calls} },
	})
	s.must(err)
	b.Cleanup(func() { s.must(ring.Close()) })

	dir, log := b.TempDir(), slog.New(slog.DiscardHandler)
	s.must(target.CheckDisk(dir))
	l, err := sqlite.Open(filepath.Join(dir, "ledger.db"), sqlite.Options{Now: time.Now})
	s.must(err)
	b.Cleanup(func() { s.must(l.Close()) })
	objects, err := fs.Open(filepath.Join(dir, "objects"), fs.Options{Now: time.Now})
	s.must(err)
	b.Cleanup(func() { s.must(objects.Close()) })
	s.cold = func() {
		s.store = store.New(store.Config{
			Ledger: l, Objects: objects, Keys: keys.NewCore(ring, keys.Options{Now: time.Now}),
			Journal: evidence.NewJournal(l, objects), Now: time.Now, Random: rand.Reader,
			PutMargin: store.DefaultPutMargin, CacheBytes: 64 << 20, Log: log,
		})
		s.must(s.store.Start(b.Context()))
		s.resolver = resolver.New(s.store, l, resolver.Options{Now: time.Now, Random: rand.Reader, Log: log})
		s.epochs = retention.NewEpochs(s.store, l, "bench", retention.EpochOptions{Horizon: time.Hour}, time.Now, log)
	}
	s.cold()
	_, err = s.store.CreateTenant(b.Context(), tenant, "bench")
	s.must(err)
	return s
}

func (s *vaultService) must(err error) {
	if err != nil {
		s.Helper()
		s.Fatal(err)
	}
}

// phase runs one act for every execution and reports its time and Vault calls.
func (s *vaultService) phase(name string, n int, act func(ctx context.Context, i int) error) {
	s.Helper()
	before, start := s.calls.Load(), time.Now()
	g, ctx := errgroup.WithContext(s.Context())
	g.SetLimit(vaultClients)
	for i := range n {
		g.Go(func() error { return act(ctx, i) })
	}
	s.must(g.Wait())
	s.ReportMetric(float64(s.calls.Load()-before), name+"-calls")
	s.ReportMetric(float64(time.Since(start).Microseconds())/float64(n), name+"-µs")
}

// BenchmarkVault captures one text in each of 10,000 executions, resolves them
// all with keys in memory and without, resolves one batch of 64, and re-wraps
// every execution's key in one key epoch: the number of requests to Vault and
// the time of one act, sixteen at a time.
//
//	go test -run '^$' -bench Vault -benchtime 1x .
func BenchmarkVault(b *testing.B) {
	for range b.N {
		s := newVaultService(b)
		refs := make([]blobd.Ref, vaultExecutions)
		put := func(ctx context.Context, execution, text string) (blobd.Ref, error) {
			stored, err := s.store.Put(ctx, store.PutRequest{
				Attempt: store.Attempt{Tenant: tenant, ExecutionID: execution, StepID: "turn:1:model", Number: 1},
				Content: store.Content{Class: "reasoning", Kind: blobd.KindText, ContentType: "text/plain", Text: blobd.TextOf([]byte(text))},
			})
			return stored.Ref, err
		}
		s.phase("capture", vaultExecutions, func(ctx context.Context, i int) (err error) {
			refs[i], err = put(ctx, fmt.Sprint("run-", i), fmt.Sprint("thought ", i))
			return err
		})
		resolve := func(ctx context.Context, i int) error { return s.resolve(ctx, fmt.Sprint("run-", i), refs[i]) }
		s.phase("warm", vaultExecutions, resolve)
		s.cold()
		s.phase("cold", vaultExecutions, resolve)

		var batch []blobd.Ref
		for i := range vaultBatch {
			ref, err := put(b.Context(), "batch", fmt.Sprint("part ", i))
			s.must(err)
			batch = append(batch, ref)
		}
		s.cold()
		s.phase("cold-batch", 1, func(ctx context.Context, _ int) error { return s.resolve(ctx, "batch", batch...) })
		s.phase("rewrap", vaultExecutions, func(ctx context.Context, i int) error {
			if i > 0 { // one act re-wraps them all
				return nil
			}
			return s.rewrap(ctx)
		})
	}
}

func (s *vaultService) resolve(ctx context.Context, execution string, refs ...blobd.Ref) error {
	r := resolver.Request{Tenant: tenant, ExecutionID: execution}
	for _, ref := range refs {
		r.Wants = append(r.Wants, resolver.Want{Ref: ref})
	}
	a, err := s.resolver.Resolve(ctx, r)
	if err != nil {
		return err
	}
	for _, p := range a.Parts {
		p.Text.Wipe()
	}
	if a.FirstHole >= 0 {
		return fmt.Errorf("part %d of %s is null", a.FirstHole, execution)
	}
	return nil
}

func (s *vaultService) rewrap(ctx context.Context) error {
	if _, err := s.store.StartEpoch(ctx, tenant, "bench", "bench"); err != nil {
		return err
	}
	for {
		worked, err := s.epochs.RunOne(ctx)
		if err != nil || !worked {
			return err
		}
	}
}
