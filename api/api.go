// Package api is blobd's HTTP surface: the routes of the contract, who may call
// them, what they read and what they answer.
//
// It promises that every request takes one path: identify, check the role,
// check and decode, act, map the error. It decides nothing about texts: that is
// the core's. No answer, log line, metric label or URL that it makes holds a
// text, a digest of a text, a subject or a token.
//
// routes.go is the one table of routes; roles, metrics, stubs and the OpenAPI
// document are made from it. errors.go is the one table of errors. call.go is
// the path that every request takes.
package api

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/sync/singleflight"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/keys"
	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/resolver"
	"github.com/blobd/blobd/store"
)

// Core is what the API needs of package store.
type Core interface {
	Put(ctx context.Context, r store.PutRequest) (store.Stored, error)
	Capture(ctx context.Context, r store.CaptureRequest) ([]store.CapturedPart, error)
	Erase(ctx context.Context, r store.EraseRequest) (ledger.Erasure, error)
	PreviewErasure(ctx context.Context, r store.EraseRequest) (store.Preview, error)
	Approve(ctx context.Context, tenant, id, actor string, planDigest [32]byte) (ledger.Erasure, error)
	Deny(ctx context.Context, tenant, id, actor, code, reason string) (ledger.Erasure, error)
	Cancel(ctx context.Context, tenant, id, actor, reason string) (ledger.Erasure, error)
	SetApprovals(ctx context.Context, tenant string, approvals int, actor string) error
	Clocks
	PlaceHold(ctx context.Context, r store.OrderRequest) (ledger.Order, error)
	Restrict(ctx context.Context, r store.OrderRequest) (ledger.Order, error)
	Suppress(ctx context.Context, r store.OrderRequest) (ledger.Order, error)
	LiftOrder(ctx context.Context, tenant string, kind ledger.OrderKind, id, actor, reason string) (ledger.Order, error)
	Explain(ctx context.Context, tenant string, ref blobd.Ref, executionID string) ([]store.Explanation, error)
	SetPolicy(ctx context.Context, p ledger.Policy) (store.PolicyEffect, error)
	SimulatePolicy(ctx context.Context, p ledger.Policy) (store.PolicyEffect, error)
	Class(ctx context.Context, tenant, name string) (ledger.Class, error)
	EndExecution(ctx context.Context, tenant, executionID, actor string) (ledger.Execution, error)
	StartSweep(ctx context.Context, n store.NewSweep) (ledger.Sweep, error)
	PlanSweep(ctx context.Context, tenant string) (ledger.Tally, error)
	ListDebt(ctx context.Context, tenant string, after store.DebtCursor, limit int) ([]store.Debt, *store.DebtCursor, error)
	Tenant(ctx context.Context, id string) (ledger.Tenant, error)
	Tag(ctx context.Context, tenant, executionID string) (blobd.ExecutionTag, error)
	RefreshTenant(ctx context.Context, id string) (ledger.Tenant, error)
	TenantTag(ctx context.Context, tenant string) (blobd.ExecutionTag, error)
	CreateTenant(ctx context.Context, id, actor string) (ledger.Tenant, error)
	CreateToken(ctx context.Context, t store.NewToken) (string, ledger.Token, error)
	RevokeToken(ctx context.Context, tenant, id, actor string) error
	RequestKeys(ctx context.Context, tenant, route, key string, body []byte) (ledger.Request, *blobd.Key, error)
	LastingRequestKeys(ctx context.Context, tenant, route, key string, body []byte) (ledger.Request, *blobd.Key, error)
	LedgerClock
	Ready(ctx context.Context) []store.Dependency
	Serving() error
	Stats() store.Stats
}

// Reader is what the API needs of package resolver.
type Reader interface {
	Resolve(ctx context.Context, q resolver.Request) (resolver.Answer, error)
	Read(ctx context.Context, q resolver.ReadRequest) (resolver.ReadAnswer, error)
}

// Ledger is what the API reads and remembers without the core: tokens,
// metadata, and answers under an idempotency key.
type Ledger interface {
	TokenByHash(ctx context.Context, hash [32]byte) (ledger.Token, error)
	ListTenants(ctx context.Context, after string, limit int) ([]ledger.Tenant, error)
	ListTokens(ctx context.Context, tenant, after string, limit int) ([]ledger.Token, error)
	Execution(ctx context.Context, tenant string, tag blobd.ExecutionTag) (ledger.Summary, error)
	ListExecutions(ctx context.Context, q ledger.ExecutionQuery) ([]ledger.Execution, error)
	Erasure(ctx context.Context, tenant, id string) (ledger.Erasure, error)
	ListErasures(ctx context.Context, q ledger.ErasureQuery) ([]ledger.Erasure, error)
	ErasedRefs(ctx context.Context, erasureID string) ([]blobd.Ref, error)
	Order(ctx context.Context, tenant, id string) (ledger.Order, error)
	ListOrders(ctx context.Context, q ledger.OrderQuery) ([]ledger.Order, error)
	CountHeld(ctx context.Context, tenant, id string, atMost int64) (rows, bytes int64, err error)
	ScopeRows(ctx context.Context, s ledger.Scope, after ledger.ScopeCursor, limit int) ([]ledger.ScopeRow, ledger.ScopeCursor, error)
	Classes(ctx context.Context, tenant, after string, limit int) ([]ledger.Class, error)
	Due(ctx context.Context, q ledger.DueQuery) ([]ledger.DueRow, error)
	Sweep(ctx context.Context, tenant, id string) (ledger.Sweep, error)
	ListSweeps(ctx context.Context, q ledger.SweepQuery) ([]ledger.Sweep, error)
	Stats(ctx context.Context) (ledger.Stats, error)
	DueDates
	ledger.Requests
}

// Config is what an API is made of. Store, Resolver, Ledger, Now, Random and
// Log are required; a zero limit takes its default.
type Config struct {
	Store    Core
	Resolver Reader
	Ledger   Ledger
	// Evidence and Certifier serve the evidence log; nil: there is none.
	Evidence  Evidence
	Certifier Certifier
	// NextSweep tells when the schedule sweeps a tenant next, zero for never; nil:
	// there is no schedule.
	NextSweep func(ctx context.Context, t ledger.Tenant) (time.Time, error)
	// Retention gives figures for metrics; nil gives none.
	Retention func() RetentionStats
	// Census gives the figures of erasures and holds for metrics; nil gives none.
	Census func() CensusStats
	// Webhooks makes and shows webhooks; nil: there are none. WebhookStats gives figures
	// for metrics; nil gives none.
	Webhooks     Webhooks
	WebhookStats func() WebhookStats
	// Keys gives figures for metrics; nil gives none.
	Keys   func() keys.Stats
	Now    func() time.Time
	Random io.Reader // seeds request ids
	Log    *slog.Logger

	// TokenCache is how long a token may be believed without asking the ledger:
	// the bound within which a revocation takes effect.
	TokenCache time.Duration
	MaxBlob    int64 // readable bytes of one blob
	MaxBatch   int64 // readable bytes of one capture
	MaxJSON    int64 // bytes of a JSON body
	// MaxInFlight is the memory budget of requests, in bytes: bodies and what was
	// decoded of them, sealed bytes, texts and answers. A request whose share does
	// not come free within MemoryWait is answered 429; one that needs more than
	// there is has it alone. The cache of sealed bytes is not in it.
	MaxInFlight int64
	// MemoryWait is how long a request waits for its share.
	MemoryWait time.Duration
	// HideMetrics leaves /metrics out, for a server that binds Metrics elsewhere.
	HideMetrics bool
	Version     string
}

// Defaults of Config.
const (
	DefaultTokenCache  = 5 * time.Second
	DefaultMaxBlob     = 16 << 20
	DefaultMaxBatch    = 16 << 20
	DefaultMaxJSON     = 24 << 20
	DefaultMaxInFlight = 512 << 20
	DefaultMemoryWait  = 2 * time.Second
)

// requestTimeout bounds what a request may wait for, once its body is read.
const requestTimeout = store.DependencyTimeout

// API is an http.Handler. It is safe for concurrent use.
type API struct {
	Config
	routes   []*boundRoute
	mux      *http.ServeMux
	errors   *errorTable
	shared   shared
	tokens   *tokenCache
	metrics  *metrics
	memory   *memory
	buffers  *buffers
	calls    sync.Pool          // of *call
	lists    *json.Unmarshalers // limits of lists
	document func() ([]byte, error)
	docs     page
	// noSuchRoute answers every path that is none.
	noSuchRoute *boundRoute

	idSeed   uint64
	idNext   atomic.Uint64
	probing  singleflight.Group
	probed   atomic.Pointer[probe]
	draining atomic.Bool
}

// New builds an API. It starts nothing.
func New(c Config) (*API, error) {
	c = c.withDefaults()
	var seed [sha256.Size]byte
	if _, err := io.ReadFull(c.Random, seed[:]); err != nil {
		return nil, fmt.Errorf("api: seed of request ids: %w", err)
	}
	a := &API{
		Config:  c,
		errors:  newErrorTable(),
		shared:  newShared(),
		memory:  newMemory(c.MaxInFlight, c.MemoryWait),
		buffers: newBuffers(),
		lists:   listLimits(),
		docs:    newDocs(),
		idSeed:  binary.NativeEndian.Uint64(seed[:]),
	}
	a.metrics = newMetrics(c, a.memory)
	a.tokens = newTokenCache(c.Ledger, c.TokenCache, c.Now)
	a.calls.New = func() any { return new(call) }
	table := routes()
	a.document = sync.OnceValues(func() ([]byte, error) { return openAPI(table, c.Version) })
	a.noSuchRoute = a.nothing()
	a.mux = a.bind(table)
	return a, nil
}

func (c Config) withDefaults() Config {
	c.TokenCache = cmp.Or(c.TokenCache, DefaultTokenCache)
	c.MemoryWait = cmp.Or(c.MemoryWait, DefaultMemoryWait)
	for _, limit := range []struct {
		field *int64
		value int64
	}{
		{&c.MaxBlob, DefaultMaxBlob}, {&c.MaxBatch, DefaultMaxBatch},
		{&c.MaxJSON, DefaultMaxJSON}, {&c.MaxInFlight, DefaultMaxInFlight},
	} {
		if *limit.field == 0 {
			*limit.field = limit.value
		}
	}
	return c
}

// Drain makes /readyz answer 503, so that a balancer sends nothing more. All
// else is served as before.
func (a *API) Drain() { a.draining.Store(true) }

// Metrics serves the metrics alone, for a listener of their own.
func (a *API) Metrics() http.Handler { return a.metrics.handler }

// requestID makes an id that no other request of this process has. It is not a
// secret.
func (a *API) requestID() string {
	var b [16]byte
	n := a.idNext.Add(1)
	binary.BigEndian.PutUint64(b[:8], a.idSeed)
	binary.BigEndian.PutUint64(b[8:], mix(n^a.idSeed))
	return hex.EncodeToString(b[:])
}

// mix is a bijection, so that ids are distinct and do not count requests aloud.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Headers that are set directly, in canonical form.
const (
	headerCacheControl       = "Cache-Control"
	headerContentType        = "Content-Type"
	headerContentLength      = "Content-Length"
	headerContentTypeOptions = "X-Content-Type-Options"
	headerRetryAfter         = "Retry-After"
	headerAllow              = "Allow"
	headerLocation           = "Location"
)
