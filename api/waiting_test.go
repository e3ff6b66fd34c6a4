package api_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/blobd/blobd/api/wire"
)

// ids lists the erasures of a state.
func (e *env) ids(state string) (out []string) {
	e.t.Helper()
	var list wire.Erasures
	e.ask("dpo", "GET", "/v1/erasures?state="+state, "").into(e.t, &list)
	for _, x := range list.Items {
		if x.State != state {
			e.t.Errorf("listed as %s: %+v", state, x)
		}
		out = append(out, x.ID)
	}
	return out
}

// TestDeferredWhileItsWorkerLooks: that a worker looks again at what is protected is
// told nowhere.
func TestDeferredWhileItsWorkerLooks(t *testing.T) {
	e := newEnv(t)
	e.put("x", canaryText)
	e.put("y", canaryText)
	e.hold(`{"executionId":"x"}`)
	older := e.erase(`{"executionId":"x"}`, "")
	e.clock.add(time.Second)
	newer := e.erase(`{"executionId":"x"}`, "")
	running := e.erase(`{"executionId":"y"}`, "")
	e.clock.add(time.Second)
	now := e.clock.now().UTC()
	for range 3 {
		job, err := e.ledger.Claim(t.Context(), "worker", now, now.Add(time.Hour))
		must(t, err)
		want := "deferred"
		if job.Erasure.ID == running.ID {
			want = "running"
		}
		got := e.erasure(job.Erasure.ID)
		if got.State != want || want == "deferred" && (got.Items[0].State != want || got.Outcomes[wire.OutcomeLegalHold] != 1) {
			t.Errorf("claimed: %+v, want %s", got, want)
		}
	}
	if got := e.ids("deferred"); len(got) != 2 || got[0] != newer.ID || got[1] != older.ID {
		t.Errorf("deferred: %v, want %s and %s", got, newer.ID, older.ID)
	}
	if got := e.ids("running"); len(got) != 1 || got[0] != running.ID {
		t.Errorf("running: %v, want %s", got, running.ID)
	}
	var first wire.Erasures
	e.ask("dpo", "GET", "/v1/erasures?state=deferred&limit=1", "").into(t, &first)
	if first.Next == nil {
		t.Fatalf("first page: %+v", first)
	}
	var second wire.Erasures
	e.ask("dpo", "GET", "/v1/erasures?state=deferred&limit=1&cursor="+*first.Next, "").into(t, &second)
	if first.Items[0].ID != newer.ID || len(second.Items) != 1 || second.Items[0].ID != older.ID || second.Next != nil {
		t.Errorf("pages: %+v, %+v", first, second)
	}
}

// TestItemsOfRefs: each ref once, with what keeps it where something does; what names
// nothing and what was erased before is counted.
func TestItemsOfRefs(t *testing.T) {
	e := newEnv(t)
	gone, held, free := e.put("x", canaryText+"1").Ref, e.put("x", canaryText+"2").Ref, e.put("x", canaryText+"3").Ref
	refs := func(list string) string { return `{"executionId":"x","refs":[` + list + `]}` }
	e.erase(refs(`"`+gone+`"`), "")
	e.runErasures()
	none := "sha256:00000000000000000000000000000000000000000000000000000000000000aa"
	all := e.erase(refs(`"`+gone+`","`+free+`","`+none+`"`), "")
	e.runErasures()
	counted := map[wire.Outcome]int64{}
	for _, i := range e.erasure(all.ID).Items {
		if i.Ref == "" {
			counted[i.Outcome] = i.Count
		} else if i.Outcome != wire.OutcomeErased {
			t.Errorf("item: %+v", i)
		}
	}
	if counted[wire.OutcomeAlreadyErased] != 1 || counted[wire.OutcomeNoMatch] != 1 || len(counted) != 2 {
		t.Errorf("counted: %v", counted)
	}
	e.hold(refs(`"` + held + `"`))
	kept := e.erase(refs(`"`+held+`"`), "")
	e.runErasures()
	got := e.erasure(kept.ID)
	if len(got.Items) != 1 || got.Items[0].Ref != held || got.Items[0].Outcome != wire.OutcomeLegalHold {
		t.Errorf("held: %+v", got.Items)
	}
}

// TestSweepWithoutABody: every member of its request is optional.
func TestSweepWithoutABody(t *testing.T) {
	e := newEnv(t)
	e.ask("operator", "POST", "/v1/sweeps", "").want(t, http.StatusAccepted, "")
}

// TestAccept: the representation with the greater weight, in any case of letters.
func TestAccept(t *testing.T) {
	e := newEnv(t)
	for accept, want := range map[string]string{
		"text/csv":                          "text/csv; charset=utf-8; header=present",
		"TEXT/CSV; q=0.3":                   "text/csv; charset=utf-8; header=present",
		"application/json; q=0.9, text/csv": "text/csv; charset=utf-8; header=present",
		"application/json, text/csv;q=0.5":  wire.TypeJSON,
		"text/csv;q=0":                      wire.TypeJSON,
		"text/html, */*":                    wire.TypeJSON,
	} {
		a := e.ask("dpo", "GET", "/v1/erasures", "", "Accept", accept)
		if got := a.header.Get("Content-Type"); got != want {
			t.Errorf("Accept %s: %s, want %s", accept, got, want)
		}
	}
}

// TestTheDPODenies, too: the contract gives the decisions but the approval to it.
func TestTheDPODenies(t *testing.T) {
	e := newEnv(t)
	e.needApprovals("1")
	x := e.erase(`{"executionId":"x"}`, "")
	e.ask("dpo", "POST", "/v1/erasures/"+x.ID+"/deny", `{"code":"DUPLICATE"}`).want(t, http.StatusOK, "")
	if got := e.erasure(x.ID); got.State != "denied" {
		t.Errorf("denied: %+v", got)
	}
}
