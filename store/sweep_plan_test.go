package store_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/store"
)

// The breaker: no sweep of fewer than 100 blobs is stopped; one past a part or a
// number of what is stored is, and deletes nothing, unless it was confirmed.
func TestTheBreaker(t *testing.T) {
	type result struct {
		state  ledger.SweepState
		erased int64
	}
	run := func(t *testing.T, due, young int, b store.Breaker, confirm int64) result {
		n := memParts(t).start(t)
		n.setClassMaximum(t, "short", time.Hour)
		for i := range due {
			n.putClass(t, "run", "short", fmt.Sprint("text ", i))
		}
		for i := range young {
			n.mustPut(t, "run", fmt.Sprint("text ", i))
		}
		n.clock.advance(2 * time.Hour)
		before := len(n.sealedObjects(t, ""))
		_, err := n.store.StartSweep(t.Context(), store.NewSweep{Tenant: tenant, Confirm: confirm})
		if err != nil {
			t.Fatal(err)
		}
		job, err := n.ledger.ClaimSweep(t.Context(), "node", n.clock.Now(), n.clock.Now().Add(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		err = n.store.RunSweep(t.Context(), job, store.SweepOptions{
			Lease: time.Minute, Batch: 50, Breaker: b, Wait: func(context.Context, int) error { return nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		s := n.lastSweep(t)
		if gone := before - len(n.sealedObjects(t, "")); int64(gone) != s.Erased {
			t.Errorf("%d objects went, erased %d", gone, s.Erased)
		}
		return result{s.State, s.Erased}
	}
	half := store.Breaker{Percent: 50, Never: 100}
	for name, c := range map[string]struct {
		due, young int
		b          store.Breaker
		confirm    int64
		want       result
	}{
		"99 of 99":                     {99, 0, half, 0, result{ledger.SweepDone, 99}},
		"100 of 100":                   {100, 0, half, 0, result{ledger.SweepStopped, 0}},
		"100 of 200, not past it":      {100, 100, half, 0, result{ledger.SweepDone, 100}},
		"101 of 201":                   {101, 100, half, 0, result{ledger.SweepStopped, 0}},
		"confirmed":                    {101, 100, half, 101, result{ledger.SweepDone, 101}},
		"fewer confirmed":              {101, 100, half, 100, result{ledger.SweepStopped, 0}},
		"no part":                      {100, 0, store.Breaker{Never: 100}, 0, result{ledger.SweepDone, 100}},
		"past a number":                {121, 300, store.Breaker{Percent: 50, Blobs: 120, Never: 100}, 0, result{ledger.SweepStopped, 0}},
		"at a number":                  {120, 300, store.Breaker{Percent: 50, Blobs: 120, Never: 100}, 0, result{ledger.SweepDone, 120}},
		"nothing is due":               {0, 5, store.Breaker{Percent: 50}, 0, result{ledger.SweepDone, 0}},
		"a breaker without a minimum":  {3, 1, store.Breaker{Percent: 50}, 0, result{ledger.SweepStopped, 0}},
		"a part that no plan is above": {100, 0, store.Breaker{Percent: 100, Never: 100}, 0, result{ledger.SweepDone, 100}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := run(t, c.due, c.young, c.b, c.confirm); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

// The count of a simulation is what the next sweep erases, whatever the policies and
// the rows are.
func TestASimulationCountsWhatTheNextSweepErases(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		n := memParts(t).start(t)
		period := func(what string) ledger.Period {
			return rapid.SampledFrom([]ledger.Period{
				{Time: time.Second}, {Time: time.Hour}, {Days: 1}, {Days: 30}, {Months: 1}, {Months: 1, Days: 1}, {Months: 11},
			}).Draw(r, what)
		}
		policy := func() ledger.Policy {
			p := ledger.Policy{Tenant: tenant, Class: reason, Existing: rapid.Bool().Draw(r, "existing"), Rule: ledger.Rule{
				Maximum: period("maximum"), Start: ledger.StartEvent(rapid.IntRange(0, 1).Draw(r, "start")),
			}}
			switch rapid.IntRange(0, 5).Draw(r, "more") {
			case 0:
				p.OnExpiry = ledger.ExpiryReview
			case 1:
				p.Floor, p.LegalBasis = period("floor"), "a law"
			case 2:
				p.Removed = true
			}
			return p
		}
		texts := 0
		for range rapid.IntRange(1, 12).Draw(r, "history") {
			switch rapid.IntRange(0, 5).Draw(r, "act") {
			case 0:
				n.setPolicy(t, policy())
			case 1:
				if _, err := n.store.EndExecution(t.Context(), tenant, rapid.SampledFrom(modelRuns).Draw(r, "run"), ""); err != nil &&
					!errors.Is(err, blobd.ErrNotFound) {
					r.Fatal(err)
				}
			case 2:
				n.sweep(t)
			default:
				texts++
				n.mustPut(t, rapid.SampledFrom(modelRuns).Draw(r, "run"), fmt.Sprint("text ", rapid.IntRange(0, texts).Draw(r, "text")))
			}
			n.clock.advance(time.Duration(rapid.Int64Range(0, int64(60*24*time.Hour)).Draw(r, "time")))
		}
		p := policy()
		simulated, err := n.store.SimulatePolicy(t.Context(), p)
		if err != nil {
			r.Fatal(err)
		}
		set := n.setPolicy(t, p)
		plan, err := n.store.PlanSweep(t.Context(), tenant)
		if err != nil {
			r.Fatal(err)
		}
		objects := len(n.sealedObjects(t, ""))
		s := n.sweep(t)
		want := simulated.After
		if set.After != want || plan != want || s.Plan != want || s.Erased != want.Erase || s.Failed != 0 {
			r.Fatalf("simulated %+v, set %+v, planned %+v, swept %+v, erased %d", want, set.After, plan, s.Plan, s.Erased)
		}
		if gone := objects - len(n.sealedObjects(t, "")); int64(gone) != want.Erase {
			r.Fatalf("%d objects went, simulated %d", gone, want.Erase)
		}
		n.verify(t)
	})
}

// Debt names everything that is past its maximum, once, with its reason, whatever
// the size of a page.
func TestDebtNamesWhatIsLeftAndWhy(t *testing.T) {
	n := memParts(t).start(t)
	hour := ledger.Period{Time: time.Hour}
	for class, p := range map[string]ledger.Policy{
		"floor":  {Rule: ledger.Rule{Maximum: hour, Floor: ledger.Period{Days: 3}, LegalBasis: "a law"}},
		"review": {Rule: ledger.Rule{Maximum: hour, OnExpiry: ledger.ExpiryReview}},
		"sweep":  {Rule: ledger.Rule{Maximum: hour}},
		"strict": {Rule: ledger.Rule{Maximum: hour, Slack: ledger.Period{Time: time.Second}}},
	} {
		p.Class, p.Existing = class, true
		n.setPolicy(t, p)
	}
	for class, count := range map[string]int{"floor": 3, "review": 2, "sweep": 4, "strict": 1, reason: 5} {
		for i := range count {
			n.putClass(t, "run", class, fmt.Sprint("text ", i))
		}
	}
	n.clock.advance(2 * time.Hour)
	want := map[store.DebtReason]int64{store.DebtFloor: 3, store.DebtReview: 2, store.DebtSweep: 4, store.DebtOverdue: 1}
	for limit := 1; limit < 12; limit += 3 {
		got, seen := map[store.DebtReason]int64{}, map[blobd.Ref]bool{}
		for at := (store.DebtCursor{}); ; {
			page, next, err := n.store.ListDebt(t.Context(), tenant, at, limit)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range page {
				if seen[d.Ref] {
					t.Errorf("%s comes twice", d.Ref)
				}
				seen[d.Ref] = true
				got[d.Reason]++
				if d.ExecutionID != "run" || !d.ExpiredAt.Equal(d.CreatedAt.Add(time.Hour)) {
					t.Errorf("debt: %+v", d)
				}
			}
			if next == nil {
				break
			}
			at = *next
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("pages of %d: got %v, want %v", limit, got, want)
		}
	}
	counted, err := n.store.CountDebt(t.Context(), tenant)
	if err != nil || fmt.Sprint(counted) != fmt.Sprint(want) {
		t.Errorf("counted %v, want %v: %v", counted, want, err)
	}
	n.sweep(t)
	counted, err = n.store.CountDebt(t.Context(), tenant)
	if err != nil || len(counted) != 2 || counted[store.DebtFloor] != 3 || counted[store.DebtReview] != 2 {
		t.Errorf("after a sweep: %v, %v", counted, err)
	}
}
