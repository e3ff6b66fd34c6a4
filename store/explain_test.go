package store_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/store"
)

// TestExplain says why a blob is kept or goes, in each of its states.
func TestExplain(t *testing.T) {
	const maximum = 10 * time.Hour
	for name, c := range map[string]struct {
		make                          func(t *testing.T, n *node, ref blobd.Ref) (ids []string)
		state, verdict, next          string
		holds, restrictions, erasures bool // which list has the ids
	}{
		"live":    {state: "live", verdict: "keep", next: "until its maximum ends on 2026-11-30T22:00:00Z"},
		"expired": {state: "expired", verdict: "erase", next: "next sweep", make: func(_ *testing.T, n *node, _ blobd.Ref) []string { n.clock.advance(maximum); return nil }},
		"held": {state: "expired", verdict: "held", next: "every hold", holds: true, make: func(t *testing.T, n *node, _ blobd.Ref) []string {
			n.clock.advance(maximum)
			return []string{n.mustHold(t, func(r *store.OrderRequest) { r.Subjects = []string{anna} }).ID}
		}},
		"held, elsewhere": {state: "live", verdict: "keep", next: "until", holds: true, make: func(t *testing.T, n *node, _ blobd.Ref) []string {
			n.mustHold(t, func(r *store.OrderRequest) { r.Subjects = []string{bert} })
			n.mustHold(t, func(r *store.OrderRequest) { r.ExecutionID = "another" })
			return nil
		}},
		"floor": {state: "expired", verdict: "floor", next: "ends on 2026-12-01T08:00:00Z", make: func(t *testing.T, n *node, _ blobd.Ref) []string {
			n.setPolicy(t, ledger.Policy{Class: reason, Existing: true, Rule: ledger.Rule{
				Maximum: ledger.Period{Time: maximum}, Floor: ledger.Period{Time: 2 * maximum}, LegalBasis: "a law",
			}})
			n.clock.advance(maximum)
			return nil
		}},
		"restricted": {state: "closed", verdict: "keep", next: "until", restrictions: true, make: func(t *testing.T, n *node, _ blobd.Ref) []string {
			return []string{n.restrict(t, func(r *store.OrderRequest) { r.WholeTenant = true }).ID}
		}},
		"grace": {state: "closed", verdict: "keep", next: "its grace is over", erasures: true, make: func(t *testing.T, n *node, ref blobd.Ref) []string {
			return []string{n.mustEraseBy(t, func(r *store.EraseRequest) { r.ExecutionID, r.Refs, r.Grace = run, []blobd.Ref{ref}, time.Hour }).ID}
		}},
		"erased": {state: "erased", next: "erasure deletes", erasures: true, make: func(t *testing.T, n *node, _ blobd.Ref) []string {
			return []string{n.mustErase(t, run).ID}
		}},
		"gone": {state: "erased", next: "gone for good", make: func(t *testing.T, n *node, _ blobd.Ref) []string {
			n.mustErase(t, run)
			n.work(t)
			return nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			n := memParts(t).start(t)
			n.setMaximum(t, maximum)
			stored := n.mustPutTagged(t, run, runText, anna)
			var ids []string
			if c.make != nil {
				ids = c.make(t, n, stored.Ref)
			}
			for _, execution := range []string{run, ""} {
				all, err := n.store.Explain(t.Context(), tenant, stored.Ref, execution)
				if err != nil || len(all) != 1 {
					t.Fatalf("in %q: %d, %v", execution, len(all), err)
				}
				x := all[0]
				if x.State != c.state || x.Verdict != c.verdict || !strings.Contains(x.Next, c.next) || x.ExecutionID != run || x.Ref != stored.Ref {
					t.Errorf("in %q: %+v", execution, x)
				}
				for what, list := range map[string]struct {
					is   []string
					want bool
				}{"holds": {x.Holds, c.holds}, "restrictions": {x.Restrictions, c.restrictions}, "erasures": {x.Erasures, c.erasures}} {
					want := ids
					if !list.want {
						want = nil
					}
					if !slices.Equal(list.is, want) {
						t.Errorf("%s %v", what, list.is)
					}
				}
			}
		})
	}
	n := memParts(t).start(t)
	for _, execution := range []string{run, ""} {
		_, err := n.store.Explain(t.Context(), tenant, blobd.RefOf([]byte("never")), execution)
		wantErr(t, err, blobd.ErrNotFound)
	}
}
