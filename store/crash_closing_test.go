package store_test

import (
	"slices"
	"testing"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/store"
)

// closingScene is what the crashes of the closing way begin with: a held text, one
// under a legal floor and one that nothing protects, all tagged with anna, and one of
// somebody else.
type closingScene struct {
	held, floor, free, bystander store.Stored
	hold                         ledger.Order
	erasure                      ledger.Erasure
}

const floorTime = 100 * 24 * time.Hour

func (s *closingScene) set(t *testing.T, n *node) {
	t.Helper()
	n.floor(t, other, floorTime)
	s.held, s.free = n.mustPutTagged(t, run, "held", anna), n.mustPutTagged(t, run, "free", anna)
	s.bystander = n.mustPutTagged(t, "run 2", "bert's", bert)
	stored, err := n.store.Put(t.Context(), store.PutRequest{Attempt: attempt("run 2"), Subjects: []string{anna}, Content: store.Content{
		Class: other, Kind: blobd.KindText, ContentType: plain, Text: blobd.TextOf([]byte("floor")),
	}})
	if err != nil {
		t.Fatal(err)
	}
	s.floor = stored
	s.hold = n.mustHold(t, func(r *store.OrderRequest) { r.ExecutionID, r.Refs = run, []blobd.Ref{s.held.Ref} })
}

// safe: nothing that is held is gone, whatever was asked for and interrupted.
func (s *closingScene) safe(t *testing.T, n *node) {
	t.Helper()
	for _, kept := range []store.Stored{s.held, s.floor} {
		if !slices.ContainsFunc(n.sealedObjects(t, ""), func(name string) bool {
			p, _ := backends.ParseBlobName(name)
			return p.Ref == kept.Ref
		}) {
			t.Errorf("the object of a protected text is gone: %s", kept.Ref)
		}
		rows, err := n.parts.ledger.ScanBlobs(t.Context(), ledger.Position{}, 1000)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(rows, func(r ledger.ScannedBlob) bool {
			return r.Ref == kept.Ref && r.Blob.State == ledger.BlobLive && r.Blob.WrappedKey != nil
		}) {
			t.Errorf("the key of a protected text is gone: %s", kept.Ref)
		}
	}
	n.wantText(t, "run 2", s.bystander.Ref, "bert's")
}

// over: once nothing protects anything, every erasure that was acknowledged ends.
func (s *closingScene) over(t *testing.T, n *node) {
	t.Helper()
	n.release(t, s.hold)
	n.clock.advance(floorTime)
	n.work(t)
	for _, e := range n.allErasures(t) {
		if e.State != ledger.ErasureErased && e.State != ledger.ErasureCancelled {
			t.Errorf("an erasure ended as %s: %+v", e.State, e.Progress)
		}
	}
}

// allErasures lists the tenant's erasures.
func (n *node) allErasures(t testing.TB) []ledger.Erasure {
	t.Helper()
	all, err := n.parts.ledger.ListErasures(t.Context(), ledger.ErasureQuery{Tenant: tenant, Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func erasureForms(s *closingScene) map[string]func(*store.EraseRequest) {
	return map[string]func(*store.EraseRequest){
		"a person":     func(r *store.EraseRequest) { r.Subjects = []string{anna} },
		"an execution": func(r *store.EraseRequest) { r.ExecutionID = run },
		"refs":         func(r *store.EraseRequest) { r.ExecutionID, r.Refs = run, []blobd.Ref{s.held.Ref, s.free.Ref} },
	}
}

// gone: what an erasure of any form covers is null, protected or not.
func (s *closingScene) gone(t *testing.T, n *node) {
	t.Helper()
	n.wantNull(t, run, s.free.Ref)
	n.wantNull(t, run, s.held.Ref)
}

// crashOfClosing: the first half of an erasure that can only close its scope.
func crashOfClosing(form string) crash {
	s := new(closingScene)
	return crash{
		setup: s.set,
		act: func(t *testing.T, n *node) error {
			_, err := n.store.Erase(t.Context(), eraseRequest(erasureForms(s)[form]))
			return err
		},
		judge: func(t *testing.T, n *node, told error) {
			if told == nil {
				s.gone(t, n)
				n.wantJournalled(t, ledger.RecordOrder)
			}
			n.work(t)
			n.verify(t)
			s.safe(t, n)
			s.over(t, n)
			if told == nil {
				s.gone(t, n)
			}
		},
	}
}

// wantJournalled: both places of the journal have a record of a kind.
func (n *node) wantJournalled(t *testing.T, kind ledger.RecordKind) {
	t.Helper()
	for place, s := range map[string]backends.Store{"the store": n.parts.objects, "the second place": n.parts.second} {
		if !slices.ContainsFunc(journalRecords(t, s), func(r ledger.Record) bool { return r.Kind == kind }) {
			t.Errorf("the journal in %s has no record of kind %s", place, kind)
		}
	}
}

// crashOfPass: the job, from its claim to its deferral or, once everything is
// released, to its end. last: the pass after the margin.
func crashOfPass(form string, released, last bool) crash {
	s := new(closingScene)
	return crash{
		cold: true,
		setup: func(t *testing.T, n *node) {
			s.set(t, n)
			s.erasure = n.mustEraseBy(t, erasureForms(s)[form])
			if released {
				n.work(t)
				n.release(t, s.hold)
				n.clock.advance(floorTime)
			}
			if last {
				if worked, err := n.erasures.RunOne(t.Context()); !worked || err != nil {
					t.Fatalf("the first pass: worked %v, %v", worked, err)
				}
				n.clock.advance(margin)
			}
		},
		act: func(t *testing.T, n *node) error {
			_, err := n.erasures.RunOne(t.Context())
			return err
		},
		judge: func(t *testing.T, n *node, told error) {
			n.wantNull(t, run, s.free.Ref)
			n.wantNull(t, run, s.held.Ref)
			if e := n.erasure(t, s.erasure.ID); e.State == ledger.ErasureErased && !released {
				t.Errorf("erased is said of what is protected: %+v", e.Progress)
			}
			n.work(t)
			n.verify(t)
			if !released {
				s.safe(t, n)
				if e := n.erasure(t, s.erasure.ID); e.Stands() != ledger.ErasurePartial || e.Progress.KeysDestroyed != 1 {
					t.Errorf("the erasure is %s: %+v", e.Stands(), e.Progress)
				}
				n.wantDelta(t, s.erasure.ID, ledger.Extent{})
				s.over(t, n)
			}
			e := n.wantState(t, s.erasure.ID, ledger.ErasureErased)
			want := int64(2)
			if form == "a person" {
				want = 3
			}
			if e.Progress.KeysDestroyed != want || e.Progress.Held+e.Progress.Floor != 0 {
				t.Errorf("the erasure ended as %+v, want %d keys destroyed", e.Progress, want)
			}
			n.wantDelta(t, s.erasure.ID, ledger.Extent{}) // nothing joined, and nothing is counted twice
			n.wantNull(t, run, s.free.Ref)
			n.wantNull(t, run, s.held.Ref)
		},
	}
}

// crashOfOrder: an acknowledged order stands, on every node and in the journal; one
// that was not acknowledged may.
func crashOfOrder(place func(*node, *testing.T) error, stands func(*testing.T, *node)) crash {
	s := new(closingScene)
	return crash{
		setup: s.set,
		act:   func(t *testing.T, n *node) error { return place(n, t) },
		judge: func(t *testing.T, n *node, told error) {
			if told == nil {
				stands(t, n)
				n.wantJournalled(t, ledger.RecordOrder)
			}
			for _, kind := range []ledger.OrderKind{ledger.OrderRestriction, ledger.OrderSuppression} {
				open, err := n.parts.ledger.ListOrders(t.Context(), ledger.OrderQuery{Tenant: tenant, Kind: kind, Open: true, Limit: 10})
				if err != nil {
					t.Fatal(err)
				}
				for _, o := range open {
					n.release(t, o)
				}
			}
			n.wantText(t, run, s.free.Ref, "free")
			if _, err := n.putTagged(t.Context(), run, "anna's again", anna); err != nil {
				t.Errorf("after it was lifted: %v", err)
			}
		},
	}
}

// crashOfLift: a release that was acknowledged completes what the hold deferred; one
// that was not may have, and a repeat does.
func crashOfLift() crash {
	s := new(closingScene)
	return crash{
		setup: func(t *testing.T, n *node) {
			s.set(t, n)
			s.erasure = n.mustEraseBy(t, func(r *store.EraseRequest) { r.ExecutionID = run })
			n.work(t)
		},
		act: func(t *testing.T, n *node) error {
			_, err := n.store.LiftOrder(t.Context(), tenant, ledger.OrderHold, s.hold.ID, "holder", "over")
			return err
		},
		judge: func(t *testing.T, n *node, told error) {
			if told == nil {
				n.wantJournalled(t, ledger.RecordLift)
			} else {
				n.release(t, s.hold)
			}
			n.work(t)
			n.wantState(t, s.erasure.ID, ledger.ErasureErased)
			n.wantObjects(t, 3) // of the bystanders
		},
	}
}

// crashOfDecision: approving, denying and cancelling are done or not, and can be
// repeated.
func crashOfDecision(decide func(*testing.T, *node, ledger.Erasure) error, want ledger.ErasureState, awaits bool) crash {
	s := new(closingScene)
	return crash{
		setup: func(t *testing.T, n *node) {
			s.free = n.mustPutTagged(t, run, "free", anna)
			if awaits {
				if err := n.store.SetApprovals(t.Context(), tenant, 1, "admin"); err != nil {
					t.Fatal(err)
				}
			}
			s.erasure = n.mustEraseBy(t, func(r *store.EraseRequest) { r.ExecutionID, r.Grace = run, time.Hour })
		},
		act: func(t *testing.T, n *node) error { return decide(t, n, s.erasure) },
		judge: func(t *testing.T, n *node, told error) {
			if told != nil {
				if err := decide(t, n, n.erasure(t, s.erasure.ID)); err != nil {
					t.Fatalf("repeat: %v", err)
				}
			}
			n.clock.advance(time.Hour)
			n.work(t)
			n.wantState(t, s.erasure.ID, want)
			if want == ledger.ErasureErased {
				n.wantNull(t, run, s.free.Ref)
				return
			}
			n.wantText(t, run, s.free.Ref, "free")
		},
	}
}

func closingCrashes() map[string]func() crash {
	all := map[string]func() crash{
		"release a hold": crashOfLift,
		"restrict": func() crash {
			return crashOfOrder(func(n *node, t *testing.T) error {
				_, err := n.store.Restrict(t.Context(), store.OrderRequest{Tenant: tenant, Subjects: []string{anna}, Reason: "asked"})
				return err
			}, func(t *testing.T, n *node) {
				_, err := n.putTagged(t.Context(), run, "anna's again", anna)
				wantErr(t, err, blobd.ErrRestricted)
			})
		},
		"suppress": func() crash {
			return crashOfOrder(func(n *node, t *testing.T) error {
				_, err := n.store.Suppress(t.Context(), store.OrderRequest{Tenant: tenant, Subjects: []string{anna}})
				return err
			}, func(t *testing.T, n *node) {
				_, err := n.putTagged(t.Context(), run, "anna's again", anna)
				wantErr(t, err, blobd.ErrSuppressed)
			})
		},
		"approve": func() crash {
			return crashOfDecision(func(t *testing.T, n *node, e ledger.Erasure) error {
				_, err := n.store.Approve(t.Context(), tenant, e.ID, "approver", e.PlanDigest)
				return err
			}, ledger.ErasureErased, true)
		},
		"deny": func() crash {
			return crashOfDecision(func(t *testing.T, n *node, e ledger.Erasure) error {
				_, err := n.store.Deny(t.Context(), tenant, e.ID, "approver", "ID_UNVERIFIED", "who?")
				return err
			}, ledger.ErasureDenied, true)
		},
		"cancel": func() crash {
			return crashOfDecision(func(t *testing.T, n *node, e ledger.Erasure) error {
				_, err := n.store.Cancel(t.Context(), tenant, e.ID, "dpo", "a mistake")
				return err
			}, ledger.ErasureCancelled, false)
		},
	}
	for _, form := range []string{"a person", "an execution", "refs"} {
		all["close, "+form] = func() crash { return crashOfClosing(form) }
		all["pass over what is held, "+form] = func() crash { return crashOfPass(form, false, false) }
		all["last pass over what is held, "+form] = func() crash { return crashOfPass(form, false, true) }
		all["pass over what was released, "+form] = func() crash { return crashOfPass(form, true, false) }
	}
	return all
}

// TestCrashMatrixOfClosings interrupts every act of the closing way at every call.
func TestCrashMatrixOfClosings(t *testing.T) {
	for name, make := range closingCrashes() {
		t.Run(name, func(t *testing.T) { interrupt(t, make) })
	}
}
