package webhooks_test

import (
	"bytes"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	backendmem "github.com/blobd/blobd/backends/mem"
	"github.com/blobd/blobd/evidence"
	"github.com/blobd/blobd/keys"
	keysmem "github.com/blobd/blobd/keys/mem"
	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/ledger/faulty"
	ledgermem "github.com/blobd/blobd/ledger/mem"
	"github.com/blobd/blobd/webhooks"
)

const (
	deployment = "00112233445566778899aabbccddeeff"
	tenant     = "acme"
)

// clock is a clock that a test moves.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) add(d time.Duration) { c.set(c.now().Add(d)) }

func (c *clock) set(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = t
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// rig is what outlives the nodes: a ledger, a key service and an evidence log.
type rig struct {
	*testing.T
	clock     *clock
	ledger    *faulty.Ledger
	keys      *keys.Core
	sequencer *evidence.Sequencer
	scribe    evidence.Scribe
	logs      *lockedBuffer
	log       *slog.Logger
}

func newRig(t *testing.T) *rig {
	c := &clock{t: time.Date(2031, 3, 4, 5, 6, 7, 0, time.UTC)}
	return newRigOn(t, c, ledgermem.New(c.now))
}

func newRigOn(t *testing.T, c *clock, l ledger.Ledger) *rig {
	t.Helper()
	r := &rig{T: t, clock: c, ledger: faulty.New(l), logs: new(lockedBuffer), keys: keys.NewCore(keysmem.New(rand.Reader), keys.Options{})}
	r.log = slog.New(slog.NewJSONHandler(r.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	_, err := r.ledger.Identity(t.Context(), deployment)
	r.must(err)
	kept := evidence.NewLog(r.ledger, evidence.NewJournal(r.ledger, backendmem.New(c.now)), r.keys, deployment)
	r.sequencer = evidence.NewSequencer(kept, "sequencer", c.now, r.log)
	r.scribe = evidence.Scribe{Tenant: tenant, NameKey: []byte("name key"), Random: rand.Reader}
	r.tenant(tenant)
	return r
}

func (r *rig) tenant(id string) {
	r.Helper()
	r.must(r.keys.Ring().Create(r.Context(), id))
	index, wrapped, err := r.keys.NewIndex(r.Context(), id)
	r.must(err)
	index.Wipe()
	r.must(r.ledger.CreateTenant(r.Context(), ledger.Tenant{
		ID: id, CreatedAt: r.clock.now(), NameKey: []byte("name key"), IndexKey: wrapped.Ciphertext,
		IndexWrap: uint32(wrapped.Version), MinimumWrap: uint32(wrapped.Version),
	}, ledger.Entry{Tenant: id, Kind: ledger.EntryTenant, At: r.clock.now(), Body: []byte("{}")}))
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// node is one process.
func (r *rig) node(owner string, tune ...func(*webhooks.Options)) *webhooks.Webhooks {
	o := webhooks.Options{
		Ledger: r.ledger, Keys: r.keys, Deployment: deployment, Owner: owner, Serving: func() error { return nil },
		Now: r.clock.now, Random: rand.Reader, Log: r.log, AllowPrivate: true,
	}
	for _, f := range tune {
		f(&o)
	}
	return webhooks.New(o)
}

// create makes a webhook of the tenant.
func (r *rig) create(n *webhooks.Webhooks, url string, types ...string) (secret string, w ledger.Webhook) {
	r.Helper()
	secret, w, err := n.Create(r.Context(), ledger.Webhook{Tenant: tenant, URL: url, Types: types, CreatedBy: "token"})
	r.must(err)
	return secret, w
}

// append appends an entry and gives all entries their index.
func (r *rig) append(e ledger.Entry, err error) {
	r.Helper()
	r.must(err)
	r.must(r.ledger.Append(r.Context(), e))
	r.sequence()
}

func (r *rig) sequence() {
	r.Helper()
	for {
		worked, err := r.sequencer.Step(r.Context())
		r.must(err)
		if !worked {
			return
		}
	}
}

// held appends that a hold was placed.
func (r *rig) held(id string) {
	r.Helper()
	r.append(r.scribe.Placed(ledger.Order{
		ID: id, Kind: ledger.OrderHold, Scope: ledger.Scope{Tenant: tenant, Class: "reasoning"}, PlacedAt: r.clock.now(), PlacedBy: "token",
	}))
}

func (r *rig) feed(n *webhooks.Webhooks) ledger.FeedState {
	r.Helper()
	s, err := n.Feed(r.Context())
	r.must(err)
	return s
}

// work sends what is due, and returns how many tries there were.
func (r *rig) work(n *webhooks.Webhooks) (tries int) {
	r.Helper()
	r.feed(n)
	for {
		again, err := n.RunOne(r.Context())
		r.must(err)
		if !again {
			return tries
		}
		tries++
	}
}

// deliveries are those of a webhook, oldest first.
func (r *rig) deliveries(w ledger.Webhook) []ledger.Delivery {
	r.Helper()
	ds, err := r.ledger.ListDeliveries(r.Context(), ledger.DeliveryQuery{Tenant: w.Tenant, WebhookID: w.ID, Limit: 1000})
	r.must(err)
	for i, j := 0, len(ds)-1; i < j; i, j = i+1, j-1 {
		ds[i], ds[j] = ds[j], ds[i]
	}
	return ds
}

// got is a request that a receiver took or refused.
type got struct {
	header http.Header
	body   []byte
	status int // what it was answered
}

func (g got) subject(t *testing.T) string {
	t.Helper()
	var event struct{ Subject string }
	if err := json.Unmarshal(g.body, &event); err != nil {
		t.Fatal(err)
	}
	return event.Subject
}

// receiver is a tenant's own system.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	answer func(n int) int // by the number of the request, from 1; nil: 204
	got    []got
	told   chan got
}

func newReceiver(t *testing.T, answer func(n int) int) *receiver {
	t.Helper()
	r := &receiver{answer: answer, told: make(chan got, 1000)}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, _ := io.ReadAll(q.Body)
	r.mu.Lock()
	g := got{q.Header.Clone(), body, http.StatusNoContent}
	if r.answer != nil {
		g.status = r.answer(len(r.got) + 1)
	}
	r.got = append(r.got, g)
	r.mu.Unlock()
	if g.status >= 300 && g.status < 400 {
		w.Header().Set("Location", "/elsewhere")
	}
	w.WriteHeader(g.status)
	r.told <- g
}

func (r *receiver) all() []got {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]got(nil), r.got...)
}

// newTLSReceiver is a receiver whose certificate no system trusts.
func newTLSReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{told: make(chan got, 1000)}
	r.Server = httptest.NewUnstartedServer(r)
	r.Config.ErrorLog = log.New(io.Discard, "", 0)
	r.StartTLS()
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(r.Certificate())
	return p
}

// always answers every request alike.
func always(status int) func(int) int { return func(int) int { return status } }
