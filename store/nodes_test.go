package store_test

import (
	"testing"
	"time"
)

// TestNodesStartAtOnceInEveryOrder: whatever one node's start has come to,
// another may start beside it, and work; then both serve.
func TestNodesStartAtOnceInEveryOrder(t *testing.T) {
	calls := 0
	n := bareParts().boot()
	n.onCall(func(call) { calls++ })
	if err := n.store.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for at := range calls {
		p := bareParts()
		n, other := p.boot(), p.boot()
		left := at
		n.onCall(func(call) {
			if left--; left != -1 {
				return
			}
			if err := other.store.Start(t.Context()); err != nil {
				t.Error(err)
			}
			other.createTenant(t, tenant)
		})
		if err := n.store.Start(t.Context()); err != nil {
			t.Errorf("another node started before call %d of a start: %v", at, err)
			continue
		}
		stored := other.mustPut(t, run, runText)
		n.wantText(t, run, stored.Ref, runText)
	}
}

// TestANodeStartsBesideOthersAtWork, whose marks replace the ones that it just
// listed.
func TestANodeStartsBesideOthersAtWork(t *testing.T) {
	p := memParts(t)
	other := p.start(t)
	stored := other.mustPut(t, run, runText)
	n := p.boot()
	vanish := 10 // for ever would be a start that never ends
	n.onCall(func(call) {
		if vanish--; vanish < 0 {
			return
		}
		other.mustPut(t, run, time.Duration(vanish).String())
		if err := other.journal.Mark(t.Context(), p.clock.Now()); err != nil {
			t.Error(err)
		}
	})
	if err := n.store.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.wantText(t, run, stored.Ref, runText)
}
