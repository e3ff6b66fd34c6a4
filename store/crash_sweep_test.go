package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/store"
)

// crashOfSweep: whatever fails, nothing is buried whose object is there, nothing goes
// that was not due, and the sweep gets to its end by itself.
func crashOfSweep(last bool) crash {
	var due []store.Stored
	var young store.Stored
	return crash{
		cold: true,
		setup: func(t *testing.T, n *node) {
			n.setClassMaximum(t, "short", time.Hour)
			for i := range 3 {
				due = append(due, n.putClass(t, fmt.Sprint("run-", i%2), "short", fmt.Sprint("text ", i)))
			}
			n.clock.advance(time.Hour)
			young = n.putClass(t, "run-0", "short", "young")
			n.startSweep(t)
			if last {
				n.sweepPass(t)
				n.clock.advance(margin)
			}
		},
		act: func(t *testing.T, n *node) error {
			_, err := n.sweeps.RunOne(t.Context())
			return err
		},
		judge: func(t *testing.T, n *node, told error) {
			n.wantNoBuriedObject(t)
			n.runSweeps(t)
			s := n.lastSweep(t)
			if s.State != ledger.SweepDone || s.Erased != 3 || s.Failed != 0 || s.Plan.Erase != 3 {
				t.Errorf("the sweep ended as %s: erased %d, failed %d, planned %d", s.State, s.Erased, s.Failed, s.Plan.Erase)
			}
			for i, d := range due {
				n.wantNull(t, fmt.Sprint("run-", i%2), d.Ref)
			}
			if left := n.sealedObjects(t, "run-1"); len(left) != 0 {
				t.Errorf("%d objects are left of what was swept", len(left))
			}
			if left := n.sealedObjects(t, "run-0"); len(left) != 1 {
				t.Errorf("%d objects are left beside what was swept, want 1", len(left))
			}
			n.wantEvidence(t, due)
			_ = young // runSweeps moved the clock past its maximum, maybe: its object says that it was not swept
		},
	}
}

// wantNoBuriedObject: a row that says that its object is gone says the truth.
func (n *node) wantNoBuriedObject(t *testing.T) {
	t.Helper()
	rows, err := n.parts.ledger.ScanBlobs(t.Context(), ledger.Position{}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		if row.Blob.State != ledger.BlobExpired || row.Blob.Class != "" {
			continue
		}
		for _, name := range n.sealedObjects(t, "") {
			if len(name) > 64 && name[len(name)-64:] == row.Ref.Hex() {
				t.Errorf("%s is buried and its object is there", row.Ref)
			}
		}
	}
}

// crashOfSweepStart: a start that was not answered leaves one sweep or none.
func crashOfSweepStart() crash {
	start := func(t *testing.T, n *node) error {
		_, err := n.store.StartSweep(t.Context(), store.NewSweep{Tenant: tenant, ID: "the-sweep", Trigger: ledger.TriggerManual})
		return err
	}
	return crash{
		cold: true,
		act:  start,
		judge: func(t *testing.T, n *node, told error) {
			if err := start(t, n); err != nil {
				t.Errorf("repeat: %v", err)
			}
			if all := n.listSweeps(t); len(all) != 1 {
				t.Errorf("%d sweeps", len(all))
			}
			n.runSweeps(t)
			if s := n.lastSweep(t); s.State != ledger.SweepDone || s.Erased != 0 {
				t.Errorf("the sweep ended as %s, erased %d", s.State, s.Erased)
			}
		},
	}
}

// crashOfPolicy: an acknowledged policy governs; one that was not acknowledged does
// or does not, and a repeat does.
func crashOfPolicy() crash {
	p := ledger.Policy{Tenant: tenant, Class: reason, Existing: true, Rule: ledger.Rule{Maximum: ledger.Period{Time: time.Hour}}}
	var kept store.Stored
	return crash{
		setup: func(t *testing.T, n *node) { kept = n.mustPut(t, run, runText) },
		act: func(t *testing.T, n *node) error {
			_, err := n.store.SetPolicy(t.Context(), p)
			return err
		},
		judge: func(t *testing.T, n *node, told error) {
			ends := func() time.Time {
				v, err := n.parts.ledger.Lookup(t.Context(), n.tag(t, run), []blobd.Ref{kept.Ref})
				if err != nil {
					t.Fatal(err)
				}
				return v.Blobs[0].ExpiresAt
			}
			want := kept.CreatedAt.Add(time.Hour)
			if told == nil && !ends().Equal(want) {
				t.Errorf("the policy was acknowledged and the blob ends at %v", ends())
			}
			if _, err := n.store.SetPolicy(t.Context(), p); err != nil {
				t.Fatalf("repeat: %v", err)
			}
			if !ends().Equal(want) {
				t.Errorf("the blob ends at %v, want %v", ends(), want)
			}
		},
	}
}

// crashOfEnd: an acknowledged end stands, and only the first counts.
func crashOfEnd() crash {
	return crash{
		cold:  true,
		setup: func(t *testing.T, n *node) { n.mustPut(t, run, runText) },
		act: func(t *testing.T, n *node) error {
			_, err := n.store.EndExecution(t.Context(), tenant, run, "token")
			return err
		},
		judge: func(t *testing.T, n *node, told error) {
			before := n.clock.Now()
			n.clock.advance(time.Minute)
			x, err := n.store.EndExecution(t.Context(), tenant, run, "token")
			if err != nil {
				t.Fatalf("repeat: %v", err)
			}
			if told == nil && !x.EndedAt.Equal(before) {
				t.Errorf("ended at %v, want %v", x.EndedAt, before)
			}
		},
	}
}
