// Package ledgertest holds every sentence of the contract of package ledger as
// a named subtest. An engine that passes Run is a ledger.
package ledgertest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/blobd/blobd/ledger"
)

// Harness makes ledgers of one engine.
type Harness struct {
	// New opens an empty ledger with the given clock. It closes it when t ends.
	New func(t *testing.T, now func() time.Time) ledger.Ledger
	// Reopen closes a ledger that New made and opens what it left behind. Nil
	// says that the engine keeps nothing: then what must outlive a process is
	// not asked of it.
	Reopen func(t *testing.T, l ledger.Ledger, now func() time.Time) ledger.Ledger
	// Subjects returns the subjects of a row in byte order, by way of the
	// engine's own storage: no method of the contract reads them yet.
	Subjects func(t *testing.T, l ledger.Ledger, p ledger.Position) [][32]byte
}

// sentence is one promise of the contract.
type sentence struct {
	name string
	test func(*env)
}

// Run tests an engine.
func Run(t *testing.T, h Harness) {
	areas := map[string][]sentence{
		"Tenants":       tenantSentences(),
		"Tokens":        tokenSentences(),
		"Lookup":        lookupSentences(),
		"Commit":        commitSentences(),
		"Repeats":       repeatSentences(),
		"Executions":    executionSentences(),
		"Records":       recordSentences(),
		"Fence":         fenceSentences(),
		"FenceOfRefs":   fenceOfRefsSentences(),
		"Erasures":      erasureSentences(),
		"Jobs":          jobSentences(),
		"Tombstone":     tombstoneSentences(),
		"Finish":        finishSentences(),
		"Epochs":        epochSentences(),
		"Rewrap":        rewrapSentences(),
		"Horizon":       horizonSentences(),
		"Offboard":      offboardSentences(),
		"Journal":       journalSentences(),
		"Replay":        replaySentences(),
		"Deployment":    deploymentSentences(),
		"Requests":      requestSentences(),
		"Audit":         auditSentences(),
		"Sequence":      sequenceSentences(),
		"Policies":      policySentences(),
		"Due":           dueSentences(),
		"Sweeps":        sweepSentences(),
		"Expire":        expireSentences(),
		"Clocks":        clockSentences(),
		"ClockNotes":    clockNoteSentences(),
		"Maintenance":   maintenanceSentences(),
		"Webhooks":      webhookSentences(),
		"Deliveries":    deliverySentences(),
		"Callbacks":     callbackSentences(),
		"Orders":        orderSentences(),
		"OrderScopes":   orderScopeSentences(),
		"Suppressions":  suppressionSentences(),
		"Holds":         holdSentences(),
		"Floors":        floorSentences(),
		"Closings":      closingSentences(),
		"Approvals":     approvalSentences(),
		"Undo":          undoSentences(),
		"Drop":          dropSentences(),
		"Delta":         deltaSentences(),
		"ScopeRows":     scopeRowSentences(),
		"Find":          findSentences(),
		"OrderReplay":   orderReplaySentences(),
		"Moves":         moveSentences(),
		"Parallel":      parallelSentences(),
		"OrderParallel": orderParallelSentences(),
		"Contexts":      contextSentences(),
	}
	if h.Reopen != nil {
		areas["Durable"] = durableSentences()
	}
	for area, sentences := range areas {
		t.Run(area, func(t *testing.T) {
			for _, s := range sentences {
				t.Run(s.name, func(t *testing.T) {
					t.Parallel()
					s.test(newEnv(t, h))
				})
			}
		})
	}
	t.Run("Machine", func(t *testing.T) { runMachine(t, h) })
	t.Run("Protection", func(t *testing.T) { runProtection(t, h) })
	t.Run("KeyRace", func(t *testing.T) { runKeyRace(t, h) })
}

// env is what a sentence is tested in: an empty ledger with one tenant.
type env struct {
	*testing.T
	ledger.Ledger
	h     Harness
	ctx   context.Context
	clock *clock
	next  *env // what fresh made last
}

// start is when every test starts. It has microseconds and no more, as every
// engine keeps.
var start = time.Date(2031, 3, 4, 5, 6, 7, 89_123_000, time.UTC)

const tenant = "acme"

// at is the time of a test after n seconds.
func at(n int) time.Time { return start.Add(time.Duration(n) * time.Second) }

func newEnv(t *testing.T, h Harness) *env {
	c := &clock{now: start}
	e := &env{T: t, h: h, ctx: t.Context(), clock: c, Ledger: h.New(t, c.Now)}
	e.tenant(tenant, 0)
	return e
}

// fresh makes another env for a case of the same sentence, and ends the one before.
func (e *env) fresh() *env {
	e.Helper()
	if e.next != nil {
		e.must(e.next.Close())
	}
	e.next = newEnv(e.T, e.h)
	return e.next
}

func (e *env) tenant(id string, minimumWrap uint32) {
	e.Helper()
	e.must(e.CreateTenant(e.ctx, ledger.Tenant{
		ID: id, CreatedAt: start, NameKey: []byte("name key"), IndexKey: []byte("index key"), MinimumWrap: minimumWrap,
	}, entry(ledger.EntryTenant)))
}

// clock is a ledger's clock that a test moves.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) set(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = t
}

func (e *env) must(err error) {
	e.Helper()
	if err != nil {
		e.Fatalf("unexpected error: %v", err)
	}
}

// refused checks that an error is of the closed set.
func (e *env) refused(err, want error) {
	e.Helper()
	if !errors.Is(err, want) {
		e.Fatalf("error is %v, want %v", err, want)
	}
}

func (e *env) equal(what string, got, want any) {
	e.Helper()
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
		e.Fatalf("%s: -want +got\n%s", what, d)
	}
}
