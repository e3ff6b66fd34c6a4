package sqlite

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

func (l keyLedger) place(id string, kind ledger.OrderKind, s ledger.Scope) {
	l.t.Helper()
	s.Tenant = "t"
	_, _, err := l.PlaceOrder(l.t.Context(), ledger.Order{ID: id, Kind: kind, Scope: s, PlacedAt: l.now(), PlacedBy: "token"}, ledger.Entry{})
	l.must(err)
}

func (l keyLedger) lift(id string, kind ledger.OrderKind) {
	l.t.Helper()
	_, _, err := l.LiftOrder(l.t.Context(), ledger.Lift{Tenant: "t", Kind: kind, ID: id, At: l.now(), By: "token"}, ledger.Entry{})
	l.must(err)
}

// What asks whether an order covers a row, and what finds the rows of a scope, takes a
// look at an index for each question: nothing is scanned, and nothing sorted.
func TestCoversAndScopesAreFoundByIndexes(t *testing.T) {
	l := openTest(t, filepath.Join(t.TempDir(), "ledger.db"), time.Now)
	held := standing{holds: true}
	for name, query := range map[string]string{
		"held row": heldRowQuery, "closed row": closedRowQuery, "closed rows": l.closedQueries[256],
		"closed execution": executionClosedQuery, "closed to a new row": newClosedQuery, "of a subject": subjectOrdersQuery,
		"rows of an execution": held.selectScope(rowsOfExecution), "row of a ref": held.selectScope(rowOfRef),
		"rows of a subject": held.selectScope(rowsOfSubject), "rows of a class": held.selectScope(rowsOfClass),
		"executions of a tenant": executionsOfTenant, "newest of a class": held.selectScope(newestOfClass),
		"what is left": "SELECT execution_tag, ref" + leftOfDropped + " ORDER BY execution_tag, ref LIMIT ?",
		"claimable":    claimable, "open orders": nextOpenOrder,
	} {
		plan := steps(t, l, query)
		for line := range strings.Lines(plan + "\n") {
			line = strings.TrimSpace(line)
			constant := line == "SCAN CONSTANT ROW" || line == "SCAN e" || line == "SCAN b" // rows that the statement brings
			if strings.Contains(line, "TEMP B-TREE") || strings.HasPrefix(line, "SCAN ") && !constant {
				t.Errorf("%s: %s in\n%s", name, line, plan)
			}
		}
		if !strings.Contains(plan, "SEARCH") {
			t.Errorf("%s looks nowhere:\n%s", name, plan)
		}
	}
	for _, look := range []string{
		"orders_open (tenant=? AND kind=? AND form=?)", "orders_execution (execution_tag=? AND kind=?)",
		"order_refs_open (execution_tag=? AND ref=? AND kind=?)", "order_subjects_open (tenant=? AND subject=? AND kind=?)",
		"orders_class (tenant=? AND class=? AND kind=? AND before>?)",
	} {
		if plan := steps(t, l, heldRowQuery); !strings.Contains(plan, look) {
			t.Errorf("a row's holds are not found by %s:\n%s", look, plan)
		}
	}
}

// A tenant without an open order is asked nothing about orders, and one is asked about
// those that it has.
func TestFactsFollowTheOrdersOfATenant(t *testing.T) {
	l := newKeyLedger(t)
	standingOf := func(want standing) {
		t.Helper()
		known, err := l.known(t.Context())
		l.must(err)
		if got := known.standing["t"]; got != want {
			t.Fatalf("%+v, want %+v", got, want)
		}
	}
	subjects := ledger.Scope{Subjects: [][32]byte{{1}}}
	standingOf(standing{})
	l.place("hold", ledger.OrderHold, subjects)
	standingOf(standing{holds: true})
	l.place("suppression", ledger.OrderSuppression, subjects)
	standingOf(standing{holds: true, subjects: true})
	l.place("restriction", ledger.OrderRestriction, ledger.Scope{Tag: keyTag(1)})
	standingOf(standing{holds: true, subjects: true, closes: true})
	l.place("class", ledger.OrderRestriction, ledger.Scope{Class: "reasoning"})
	standingOf(standing{holds: true, subjects: true, closes: true, parts: true})
	l.lift("hold", ledger.OrderHold)
	l.lift("suppression", ledger.OrderSuppression)
	l.lift("class", ledger.OrderRestriction)
	standingOf(standing{closes: true})
	l.lift("restriction", ledger.OrderRestriction)
	floor := ledger.Policy{
		Tenant: "t", Class: "reasoning", At: l.now(),
		Rule: ledger.Rule{Maximum: ledger.Period{Days: 2}, Floor: ledger.Period{Days: 1}, LegalBasis: "a law"},
	}
	l.must(l.SetPolicy(t.Context(), floor, ledger.Entry{}))
	standingOf(standing{floors: true})
}

// What is closed is answered from memory too, row by row.
func TestMemoKnowsWhatIsClosed(t *testing.T) {
	l := newKeyLedger(t)
	l.put(1, 0, 3)
	l.place("refs", ledger.OrderRestriction, ledger.Scope{Tag: keyTag(1), Refs: []blobd.Ref{keyRef(1, 1)}})
	refs := []blobd.Ref{keyRef(1, 0), keyRef(1, 1), keyRef(1, 2)}
	_, err := l.Lookup(t.Context(), keyTag(1), refs) // asks SQLite
	l.must(err)
	l.put(1, 3, 4) // what a commit adds is not closed
	for range cap(l.readers) {
		c, err := l.take(t.Context(), l.readers, true)
		l.must(err)
		defer func() { l.readers <- c }()
	}
	v, err := l.Lookup(t.Context(), keyTag(1), append(refs, keyRef(1, 3)))
	l.must(err)
	for i, want := range []ledger.CloseReason{0, ledger.ClosedRestricted, 0, 0} {
		if v.Blobs[i].Closed != want {
			t.Errorf("row %d is closed for %d, want %d", i, v.Blobs[i].Closed, want)
		}
	}
	if v.Execution.State != ledger.ExecutionOpen {
		t.Errorf("the execution is %d", v.Execution.State)
	}
}

// An answer that was asked for by facts of before an order is not kept.
func TestMemoTakesNoAnswerOfOtherFacts(t *testing.T) {
	l := newKeyLedger(t)
	l.put(1, 0, 1)
	before, err := l.known(t.Context())
	l.must(err)
	l.place("refs", ledger.OrderRestriction, ledger.Scope{Tag: keyTag(1), Refs: []blobd.Ref{keyRef(1, 0)}})
	_, ok, err := l.viewBy(t.Context(), before, keyTag(1), byRef, [][32]byte{keyRef(1, 0)})
	l.must(err)
	if ok {
		t.Error("the answer was taken")
	}
	v, err := l.Lookup(t.Context(), keyTag(1), []blobd.Ref{keyRef(1, 0)})
	l.must(err)
	if v.Blobs[0].Closed != ledger.ClosedRestricted {
		t.Errorf("closed for %d", v.Blobs[0].Closed)
	}
}

// Once one lookup has seen a closing, no later one reads past it until it is lifted,
// and none after that is kept from reading, whoever fills the memo meanwhile.
func TestMemoNeverGoesBackBehindAnOrder(t *testing.T) {
	l := newKeyLedger(t)
	scopes := []ledger.Scope{
		{Tag: keyTag(0)}, {Class: "reasoning"}, {Tag: keyTag(0), Refs: []blobd.Ref{keyRef(0, 0)}}, {WholeTenant: true},
	}
	l.put(0, 0, 2)
	for round := range 40 {
		var closed atomic.Bool
		var readers sync.WaitGroup
		stop := make(chan struct{})
		for r := range 4 {
			random := rand.New(rand.NewPCG(uint64(round), uint64(r)))
			readers.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					seen := closed.Load()
					refs := []blobd.Ref{keyRef(0, 0), keyRef(0, random.IntN(2))}
					v, err := l.Lookup(context.WithoutCancel(t.Context()), keyTag(0), refs)
					if err != nil {
						t.Error(err)
						return
					}
					now := v.Blobs[0].Closed != 0
					if seen && !now {
						t.Error("a closed row was seen as open")
						return
					}
					if now {
						closed.Store(true)
					}
				}
			})
		}
		id := fmt.Sprint("order ", round)
		l.place(id, ledger.OrderRestriction, scopes[round%len(scopes)])
		close(stop)
		readers.Wait()
		for _, want := range []ledger.CloseReason{ledger.ClosedRestricted, 0} {
			v, err := l.Lookup(t.Context(), keyTag(0), []blobd.Ref{keyRef(0, 0)})
			l.must(err)
			if v.Blobs[0].Closed != want {
				t.Fatalf("closed for %d, want %d", v.Blobs[0].Closed, want)
			}
			if want != 0 {
				l.lift(id, ledger.OrderRestriction)
			}
		}
	}
}

// The fence of a whole tenant is kept up by a hold, or a floor, of one row among many;
// by none it is not.
func TestAWholeTenantIsProtectedByOneRow(t *testing.T) {
	for name, protect := range map[string]func(keyLedger){
		"nothing": func(keyLedger) {},
		"a hold": func(l keyLedger) {
			l.place("elsewhere", ledger.OrderHold, ledger.Scope{Tag: keyTag(9)})
			l.place("hold", ledger.OrderHold, ledger.Scope{Tag: keyTag(2), Refs: []blobd.Ref{keyRef(2, 300)}})
		},
		"a hold of nothing": func(l keyLedger) { l.place("hold", ledger.OrderHold, ledger.Scope{Tag: keyTag(9)}) },
		"a floor":           func(l keyLedger) { l.floor(ledger.StartCaptured, time.Hour) },
		"a floor that is over": func(l keyLedger) {
			l.floor(ledger.StartCaptured, time.Second)
		},
		"a floor that starts with an end that has not come": func(l keyLedger) {
			l.floor(ledger.StartEnded, time.Second)
			for _, x := range []int{0, 2} { // the oldest and the newest
				_, err := l.EndExecution(t.Context(), "t", keyTag(x), l.now(), ledger.Entry{})
				l.must(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newKeyLedger(t)
			for x := range 3 {
				l.put(x, 0, 256)
				l.put(x, 256, 400)
			}
			protect(l)
			e, _, err := l.Fence(t.Context(), ledger.Fence{
				ID: "e", Scope: ledger.Scope{Tenant: "t", WholeTenant: true}, At: l.now().Add(time.Minute), RunAt: l.now(),
			})
			l.must(err)
			want := map[string]bool{"a hold": true, "a floor": true, "a floor that starts with an end that has not come": true}[name]
			if e.Closing != want {
				t.Errorf("closing: %v, want %v", e.Closing, want)
			}
		})
	}
}

// A row whose execution was lost is held with its execution or by its ref, and not with
// a tenant, whose row nobody says it is.
func TestNobodysRowIsHeldByItsExecutionAndRef(t *testing.T) {
	l := newKeyLedger(t)
	row := ledger.Position{Tag: keyTag(7), Ref: keyRef(7, 1)}
	_, err := l.EnterMissing(t.Context(), []ledger.Position{row}, l.now())
	l.must(err)
	refs := ledger.Scope{Tenant: "t", Tag: row.Tag, Refs: []blobd.Ref{row.Ref}}
	for name, want := range map[string]struct {
		scope ledger.Scope
		held  bool
	}{
		"tenant": {ledger.Scope{WholeTenant: true}, false}, "execution": {ledger.Scope{Tag: row.Tag}, true}, "ref": {refs, true},
	} {
		l.place(name, ledger.OrderHold, want.scope)
		rows, _, err := l.ScopeRows(t.Context(), refs, ledger.ScopeCursor{}, 10)
		l.must(err)
		if len(rows) != 1 || rows[0].Held != want.held {
			t.Errorf("a hold of the %s: %+v", name, rows)
		}
		l.lift(name, ledger.OrderHold)
	}
}

func (l keyLedger) floor(start ledger.StartEvent, d time.Duration) {
	l.t.Helper()
	l.must(l.SetPolicy(l.t.Context(), ledger.Policy{
		Tenant: "t", Class: "reasoning", At: l.now(), Existing: true,
		Rule: ledger.Rule{Start: start, Maximum: ledger.Period{Days: 1}, Floor: ledger.Period{Time: d}, LegalBasis: "a law"},
	}, ledger.Entry{}))
}

// A key that is dropped row by row leaves no trace in the files, those that a hold
// keeps stay, and nothing grows or moves.
func TestSettleLeavesNoTraceOfWhatWasDroppedRowByRow(t *testing.T) {
	l := newKeyLedger(t)
	for x := range 20 {
		l.put(x, 0, 20)
	}
	l.place("hold", ledger.OrderHold, ledger.Scope{Tag: keyTag(3), Refs: []blobd.Ref{keyRef(3, 7)}})
	_, _, err := l.Fence(t.Context(), ledger.Fence{
		ID: "e", Scope: ledger.Scope{Tenant: "t", Class: "reasoning"}, At: l.now(), RunAt: l.now(),
	})
	l.must(err)
	job, err := l.Claim(t.Context(), "w", l.now(), l.now().Add(time.Hour))
	l.must(err)
	d := ledger.Drop{At: l.now(), Limit: 37, Entry: func([]ledger.DueRow) (ledger.Entry, error) { return ledger.Entry{}, nil }}
	kept, dropped := 0, 0
	for {
		done, err := l.Drop(t.Context(), job.Lease, d)
		l.must(err)
		kept, dropped = kept+len(done.Kept), dropped+len(done.Dropped)
		if d.After = done.Next; d.After == (ledger.ScopeCursor{}) {
			break
		}
	}
	if kept != 1 || dropped != 399 {
		t.Fatalf("%d kept, %d dropped", kept, dropped)
	}
	check := func() {
		t.Helper()
		l.settle()
		for _, n := range []int{0, 3006, 3008, 19019} {
			l.found(wrapped("blob", n), false)
		}
		l.found(wrapped("blob", 3007), true)
		l.found(wrapped("execution", 3), true)
	}
	check()
	for left := 1; left > 0; {
		left, err = l.Tombstone(t.Context(), job.Lease, 100)
		l.must(err)
	}
	check()
}

// A ledger of before orders keeps its erasures, fenced as they are.
func TestErasuresOfBeforeOrders(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	older(t, path, 5, olderTenant, `INSERT INTO erasures (id, tenant, execution_tag, execution_id, of_refs, state, plan_executions, plan_blobs,
		plan_bytes, already_erased, not_found, requested_by, reason, legal_basis, regime, external_ref, fenced_at, record, run_at)
		VALUES ('e', 'acme', x'01000000000000000000000000000000', 'x', 0, 'running', 1, 2, 3, 0, 0, 'token', '', '', '', '', 7, 1, 7)`)
	l := openTest(t, path, time.Now)
	job, err := l.Claim(t.Context(), "w", time.UnixMicro(8), time.UnixMicro(9))
	if err != nil {
		t.Fatal(err)
	}
	e := job.Erasure
	if e.Closing || e.State != ledger.ErasureRunning || e.Plan != (ledger.Plan{Executions: 1, Blobs: 2, Bytes: 3}) || e.GraceUntil != (time.Time{}) {
		t.Errorf("%+v", e)
	}
	if err := l.Finish(t.Context(), job.Lease, ledger.Progress{}, time.UnixMicro(9), nil); err != nil {
		t.Error(err)
	}
	tenant, err := l.Tenant(t.Context(), "acme")
	if err != nil || tenant.Approvals != 0 {
		t.Errorf("%+v, %v", tenant, err)
	}
}

// Every statement that changes orders is found by its text.
func TestStatementsThatChangeOrdersAreKnown(t *testing.T) {
	for query, orders := range map[string]bool{
		"INSERT INTO orders (id) VALUES (?)":                  true,
		"INSERT INTO order_refs (placed) VALUES ":             true,
		"UPDATE orders SET kind = 4 WHERE erasure = ?":        true,
		"UPDATE order_subjects SET open = 0 WHERE placed = ?": true,
		heldRowQuery: false,
		"UPDATE erasures SET run_at = ? WHERE seq = ?":          false,
		"INSERT INTO erasure_refs (erasure, ref) VALUES (?, ?)": false,
	} {
		if got := ordering.MatchString(query); got != orders {
			t.Errorf("%s: %v", query, got)
		}
	}
}
