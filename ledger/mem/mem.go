// Package mem is a ledger in memory: the contract of package ledger in maps
// under one mutex, for tests and for trying things out.
//
// It passes the same suite as the durable engines and promises the same, except
// that "durable" means until the process ends.
package mem

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// Ledger implements ledger.Ledger. Make one with New.
type Ledger struct {
	now func() time.Time

	mu           sync.Mutex // guards all below
	closed       bool
	identity     ledger.Identity
	writes       int64
	tenants      map[string]ledger.Tenant
	policies     map[class][]ledger.Policy // newest first
	versions     int64                     // the newest version of a policy
	classes      map[class]bool            // ever put
	numbers      map[ledger.Position]int64 // of rows that were put
	sweeps       []*sweep
	tokens       map[string]ledger.Token
	executions   map[blobd.ExecutionTag]*ledger.Execution
	blobs        map[ledger.Position]*ledger.Blob
	repeats      map[repeat]blobd.Ref
	subjects     map[ledger.Position]map[[32]byte]bool
	parts        []part
	partKeys     map[partKey]bool
	entries      []ledger.StoredEntry
	erasures     []*erasure                  // in the order in which they were asked for
	orders       map[string]*order           // by id
	open         map[string][]*order         // of a tenant, those that were not lifted
	lostBlob     map[blobd.ExecutionTag]bool // lost refs since it got its key
	epochs       []*epoch
	journal      []journalled
	headEvidence int
	requests     map[requestKey]ledger.Request
	sequence     sequence
	hooks        hooks
	clocks       map[string][]ledger.ClockEvent // by the erasure's id
	clockNote    ledger.ClockNote
}

type class struct{ tenant, name string }

type repeat struct {
	tag    blobd.ExecutionTag
	repeat [32]byte
}

var _ ledger.Ledger = (*Ledger)(nil)

// New returns an empty ledger with the given clock.
func New(now func() time.Time) *Ledger {
	return &Ledger{
		now:        now,
		tenants:    map[string]ledger.Tenant{},
		policies:   map[class][]ledger.Policy{},
		classes:    map[class]bool{},
		numbers:    map[ledger.Position]int64{},
		tokens:     map[string]ledger.Token{},
		executions: map[blobd.ExecutionTag]*ledger.Execution{},
		blobs:      map[ledger.Position]*ledger.Blob{},
		repeats:    map[repeat]blobd.Ref{},
		subjects:   map[ledger.Position]map[[32]byte]bool{},
		partKeys:   map[partKey]bool{},
		requests:   map[requestKey]ledger.Request{},
		lostBlob:   map[blobd.ExecutionTag]bool{},
		orders:     map[string]*order{},
		open:       map[string][]*order{},
	}
}

// begin locks the ledger, unless the context ended or the ledger is closed.
func (l *Ledger) begin(ctx context.Context, op string) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("ledger: %s: %w: %w", op, blobd.ErrUnavailable, err)
	}
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return fmt.Errorf("ledger: %s: closed: %w", op, blobd.ErrUnavailable)
	}
	return nil
}

func refuse(op string, err error) error { return fmt.Errorf("ledger: %s: %w", op, err) }

func checkLimit(op string, limit int) error {
	if limit < 1 {
		return refuse(op, fmt.Errorf("limit %d: %w", limit, blobd.ErrInvalid))
	}
	return nil
}

// kept returns t as every engine keeps it.
func kept(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return time.UnixMicro(t.UnixMicro()).UTC()
}

func cut[T any](s []T, limit int) []T { return s[:min(limit, len(s))] }

func cloneTenant(t ledger.Tenant) ledger.Tenant {
	t.CreatedAt, t.FencedAt = kept(t.CreatedAt), kept(t.FencedAt)
	t.NameKey, t.IndexKey = slices.Clone(t.NameKey), slices.Clone(t.IndexKey)
	return t
}

func cloneToken(t ledger.Token) ledger.Token {
	t.CreatedAt, t.ExpiresAt, t.RevokedAt = kept(t.CreatedAt), kept(t.ExpiresAt), kept(t.RevokedAt)
	t.Roles = slices.Clone(t.Roles)
	return t
}

func cloneKey(k ledger.WrappedKey) *ledger.WrappedKey {
	k.Ciphertext = slices.Clone(k.Ciphertext)
	return &k
}

func cloneExecution(e ledger.Execution) *ledger.Execution {
	if e.Key != nil {
		e.Key = cloneKey(*e.Key)
	}
	return &e
}

// blob returns a row for a reader, with what its class's policy and the open orders
// say now.
func (l *Ledger) blob(tag blobd.ExecutionTag, row *ledger.Blob) *ledger.Blob {
	b := *row
	b.WrappedKey, b.Audience = slices.Clone(b.WrappedKey), slices.Clone(b.Audience)
	b.ExpiresAt = l.expires(tag, row)
	if x := l.executions[tag]; x != nil && l.living(x.Tenant) == nil && x.State == ledger.ExecutionOpen {
		r := l.facts(ledger.Position{Tag: tag, Ref: row.Ref}, row)
		b.Closed = l.closes(x.Tenant, &r)
		b.Held = b.Expired(kept(l.now())) && l.held(x.Tenant, &r)
	}
	return &b
}

// Close implements ledger.Maintenance.
func (l *Ledger) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	return nil
}
