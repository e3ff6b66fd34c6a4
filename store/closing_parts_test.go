package store_test

import (
	"context"
	"encoding/hex"
	"testing"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/resolver"
	"github.com/blobd/blobd/store"
)

// Persons, and a class beside the usual one.
const (
	anna  = "anna@example.org"
	bert  = "bert@example.org"
	other = "notes"
)

func (n *node) putTagged(ctx context.Context, execution, text string, subjects ...string) (store.Stored, error) {
	return n.putFor(ctx, tenant, execution, text, subjects...)
}

func (n *node) mustPutTagged(t testing.TB, execution, text string, subjects ...string) store.Stored {
	t.Helper()
	s, err := n.putTagged(t.Context(), execution, text, subjects...)
	if err != nil {
		t.Fatalf("put: %v", err)
	}
	return s
}

// eraseRequest is a request over one scope; set fills it in.
func eraseRequest(set func(*store.EraseRequest)) store.EraseRequest {
	r := store.EraseRequest{Tenant: tenant, Actor: "dpo", Reason: "asked"}
	set(&r)
	return r
}

func (n *node) mustEraseBy(t testing.TB, set func(*store.EraseRequest)) ledger.Erasure {
	t.Helper()
	e, err := n.store.Erase(t.Context(), eraseRequest(set))
	if err != nil {
		t.Fatalf("erase: %v", err)
	}
	return e
}

func (n *node) hold(ctx context.Context, set func(*store.OrderRequest)) (ledger.Order, error) {
	r := store.OrderRequest{Tenant: tenant, Actor: "holder", Matter: "a matter", Reason: "a reason", Owner: "legal"}
	set(&r)
	return n.store.PlaceHold(ctx, r)
}

func (n *node) mustHold(t testing.TB, set func(*store.OrderRequest)) ledger.Order {
	t.Helper()
	o, err := n.hold(t.Context(), set)
	if err != nil {
		t.Fatalf("hold: %v", err)
	}
	return o
}

func (n *node) release(t testing.TB, o ledger.Order) {
	t.Helper()
	if _, err := n.store.LiftOrder(t.Context(), tenant, o.Kind, o.ID, "holder", "over"); err != nil {
		t.Fatalf("release: %v", err)
	}
}

func (n *node) erasure(t testing.TB, id string) ledger.Erasure {
	t.Helper()
	e, err := n.parts.ledger.Erasure(t.Context(), tenant, id)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// work runs what is due now and becomes due within a few margins.
func (n *node) work(t testing.TB) {
	t.Helper()
	for range 6 {
		for {
			worked, err := n.erasures.RunOne(t.Context())
			if err != nil {
				t.Fatalf("run a job: %v", err)
			}
			if !worked {
				break
			}
		}
		n.clock.advance(margin)
	}
}

func (n *node) wantState(t testing.TB, id string, want ledger.ErasureState) ledger.Erasure {
	t.Helper()
	e := n.erasure(t, id)
	if e.Stands() != want {
		t.Errorf("the erasure is %s, want %s (%+v)", e.Stands(), want, e.Progress)
	}
	return e
}

// audit reads an execution's parts for a purpose, by ref.
func (n *node) audit(t testing.TB, execution, purpose string) map[blobd.Ref]resolver.Status {
	t.Helper()
	a, err := n.resolver.Read(t.Context(), resolver.ReadRequest{
		Tenant: tenant, ExecutionID: execution, Actor: "auditor", Purpose: purpose,
	})
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	all := make(map[blobd.Ref]resolver.Status)
	for _, p := range a.Parts {
		if p.Ref != nil {
			all[*p.Ref] = p.Status
		}
	}
	return all
}

func (n *node) wantAudit(t testing.TB, execution string, ref blobd.Ref, purpose string, want resolver.Status) {
	t.Helper()
	if got := n.audit(t, execution, purpose)[ref]; got != want {
		t.Errorf("a read for %q: %q, want %q", purpose, got, want)
	}
}

// wantObjects counts the sealed objects of all executions.
func (n *node) wantObjects(t testing.TB, want int) {
	t.Helper()
	if got := len(n.sealedObjects(t, "")); got != want {
		t.Errorf("%d objects, want %d", got, want)
	}
}

// floor gives a class a legal floor for what is there.
func (n *node) floor(t testing.TB, class string, d time.Duration) {
	t.Helper()
	n.setPolicy(t, ledger.Policy{Class: class, Existing: true, Rule: ledger.Rule{
		Maximum: ledger.Period{Time: 1000 * time.Hour}, Floor: ledger.Period{Time: d}, LegalBasis: "a law",
	}})
}

// hashOf is the keyed hash by which an order's scope knows its one person, in hex.
func hashOf(o ledger.Order) string { return hex.EncodeToString(o.Scope.Subjects[0][:]) }
