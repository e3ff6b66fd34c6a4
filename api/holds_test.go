package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/blobd/blobd/api/wire"
)

// subjects is the header of a put that names people.
func subjects(people ...string) []string {
	return []string{wire.HeaderSubjects, `"` + strings.Join(people, `", "`) + `"`}
}

// hold places a hold over a scope, as JSON.
func (e *env) hold(scope string) (h wire.Hold) {
	e.t.Helper()
	a := e.ask("holds", "POST", "/v1/holds", `{"scope":`+scope+`,"matter":"case 7","reason":"claims","owner":"legal"}`)
	a.want(e.t, http.StatusCreated, "")
	a.into(e.t, &h)
	return h
}

func (e *env) release(id string) {
	e.t.Helper()
	e.ask("holds", "DELETE", "/v1/holds/"+id, `{"reason":"settled"}`).want(e.t, http.StatusOK, "")
}

// erase asks for an erasure of a scope, as JSON, with further members.
func (e *env) erase(scope, more string) (x wire.Erasure) {
	e.t.Helper()
	a := e.ask("dpo", "POST", "/v1/erasures", `{"scope":`+scope+`,"reason":"`+canaryPurpose+`"`+more+`}`)
	a.want(e.t, http.StatusAccepted, "")
	a.into(e.t, &x)
	return x
}

func (e *env) erasure(id string) (x wire.Erasure) {
	e.t.Helper()
	a := e.ask("dpo", "GET", "/v1/erasures/"+id, "")
	a.want(e.t, http.StatusOK, "")
	a.into(e.t, &x)
	return x
}

// wantRead reads a blob: a text, or "" for the null.
func (e *env) wantRead(execution, ref, text string) {
	e.t.Helper()
	a := e.ask("runtime", "GET", "/v1/executions/"+execution+"/blobs/"+ref, "")
	if text == "" {
		a.want(e.t, http.StatusNotFound, wire.CodeNull)
		return
	}
	a.want(e.t, http.StatusOK, "")
	if string(a.body) != text {
		e.t.Errorf("%s: read %q, want %q", execution, a.body, text)
	}
}

func TestAHoldDefersAnErasureAndItsReleaseCompletesIt(t *testing.T) {
	e := newEnv(t)
	s := e.put("x", canaryText)
	made := e.ask("holds", "POST", "/v1/holds",
		`{"scope":{"executionId":"x"},"matter":"case 7","reason":"claims","owner":"legal","reviewAt":"`+
			e.clock.now().Add(time.Hour).Format(time.RFC3339)+`"}`)
	made.want(t, http.StatusCreated, "")
	var h wire.Hold
	made.into(t, &h)
	x := "x"
	want := wire.Hold{
		ID: h.ID, State: "open", Scope: wire.Covered{Form: "execution", ExecutionID: &x}, Matter: "case 7", Reason: "claims", Owner: "legal",
		ReviewAt: h.ReviewAt, PlacedAt: h.PlacedAt, PlacedBy: h.PlacedBy, Held: wire.Held{Blobs: 1, Bytes: 37},
	}
	if diff := cmp.Diff(want, h); diff != "" || h.ReviewAt == nil || h.PlacedBy == "" {
		t.Errorf("hold (-want +got):\n%s", diff)
	}
	if loc := made.header.Get("Location"); loc != "/v1/holds/"+h.ID {
		t.Errorf("Location = %q", loc)
	}
	e.wantRead("x", s.Ref, canaryText) // a hold changes no answer

	dry := e.ask("dpo", "POST", "/v1/erasures", `{"scope":{"executionId":"x"},"reason":"r","dryRun":true}`)
	dry.want(t, http.StatusOK, "")
	var d wire.DryRun
	dry.into(t, &d)
	if d.Plan.Blobs != 1 || d.Plan.Held != 1 || !cmp.Equal(d.Holds, []string{h.ID}) || len(d.Kept) != 1 ||
		d.Kept[0].Outcome != wire.OutcomeLegalHold || d.Kept[0].Ref != s.Ref {
		t.Errorf("preview: %s", dry.body)
	}
	got := e.erase(`{"executionId":"x"}`, "")
	if got.State != "deferred" || got.Plan.Held != 1 || got.Plan.Digest != d.Plan.Digest || got.Outcomes[wire.OutcomeLegalHold] != 1 ||
		got.Items[0].Outcome != wire.OutcomeLegalHold {
		t.Errorf("with a hold: %+v", got)
	}
	e.wantRead("x", s.Ref, "")
	e.ask("runtime", "POST", "/v1/executions/x/blobs", "more").want(t, http.StatusConflict, wire.CodeErasurePending)
	e.runErasures()
	got = e.erasure(got.ID)
	if got.State != "deferred" || got.Progress.Remaining != 1 || got.Outcomes[wire.OutcomeLegalHold] != 1 || got.ErasedAt != nil {
		t.Errorf("after a pass: %+v", got)
	}
	if len(got.Items) != 2 || got.Items[0].Outcome != wire.OutcomeLegalHold || *got.Items[0].ExecutionID != "x" ||
		got.Items[1].Ref != s.Ref || got.Items[1].Outcome != wire.OutcomeLegalHold {
		t.Errorf("items: %+v", got.Items)
	}
	a := e.ask("auditor", "GET", "/v1/executions/x", "")
	var summary wire.ExecutionSummary
	a.into(t, &summary)
	if summary.State != "closed" || summary.CloseReason != "erasure_pending" || !cmp.Equal(summary.Holds, []string{h.ID}) {
		t.Errorf("execution: %s", a.body)
	}

	freed := e.ask("holds", "DELETE", "/v1/holds/"+h.ID, `{"reason":"settled"}`)
	freed.want(t, http.StatusOK, "")
	var released wire.Hold
	freed.into(t, &released)
	if released.State != "released" || released.ReleasedAt == nil || *released.ReleaseReason != "settled" || released.Held != (wire.Held{}) {
		t.Errorf("released: %s", freed.body)
	}
	again := e.ask("holds", "DELETE", "/v1/holds/"+h.ID, "")
	again.want(t, http.StatusOK, "")
	if string(again.body) != string(freed.body) {
		t.Errorf("released again: %s, first %s", again.body, freed.body)
	}
	e.runErasures()
	got = e.erasure(got.ID)
	if got.State != "erased" || got.Outcomes[wire.OutcomeErased] != 1 || got.Outcomes[wire.OutcomeLegalHold] != 0 ||
		got.Progress.Remaining != 0 || got.Items[0].Outcome != wire.OutcomeErased {
		t.Errorf("after the release: %+v", got)
	}
	e.ask("runtime", "POST", "/v1/executions/x/blobs", "more").want(t, http.StatusGone, wire.CodeExecutionErased)
	refuseCanaries(t, "the log", e.logs.String(), e)
}

func TestAnErasureErasesWhatIsNotHeld(t *testing.T) {
	e := newEnv(t)
	kept := e.put("x", canaryText)
	gone := e.put("x", "second")
	h := e.hold(`{"executionId":"x","refs":["` + kept.Ref + `"]}`)
	got := e.erase(`{"executionId":"x"}`, "")
	e.wantRead("x", kept.Ref, "")
	e.wantRead("x", gone.Ref, "")
	e.runErasures()
	got = e.erasure(got.ID)
	if got.State != "partial" || got.Outcomes[wire.OutcomeErased] != 1 || got.Outcomes[wire.OutcomeLegalHold] != 1 || got.Progress.Remaining != 1 {
		t.Errorf("partly held: %+v", got)
	}
	if len(got.Items) != 2 || got.Items[0].Outcome != "" || got.Items[1].Ref != kept.Ref || got.Items[1].Outcome != wire.OutcomeLegalHold ||
		*got.Items[1].ExecutionID != "x" {
		t.Errorf("items: %+v", got.Items)
	}
	var list wire.Erasures
	for state, want := range map[string]int{"partial": 1, "deferred": 0, "running": 0, "erased": 0} {
		e.ask("dpo", "GET", "/v1/erasures?state="+state, "").into(t, &list)
		if len(list.Items) != want {
			t.Errorf("state %s lists %d, want %d", state, len(list.Items), want)
		}
	}
	e.release(h.ID)
	e.runErasures()
	if got = e.erasure(got.ID); got.State != "erased" || got.Outcomes[wire.OutcomeErased] != 2 {
		t.Errorf("after the release: %+v", got)
	}
}

func TestHoldsAreListedByState(t *testing.T) {
	e := newEnv(t)
	var ids []string
	for i := range 5 {
		ids = append(ids, e.hold(fmt.Sprintf(`{"executionId":"x%d"}`, i)).ID)
		e.clock.add(time.Second)
	}
	e.release(ids[1])
	e.release(ids[3])
	for query, want := range map[string][]string{
		"":                {ids[4], ids[2], ids[0]},
		"?state=open":     {ids[4], ids[2], ids[0]},
		"?state=released": {ids[3], ids[1]},
		"?state=all":      {ids[4], ids[3], ids[2], ids[1], ids[0]},
	} {
		for _, role := range []string{"holds", "dpo"} {
			var page wire.Holds
			e.ask(role, "GET", "/v1/holds"+query, "").into(t, &page)
			if diff := cmp.Diff(want, idsOf(page.Items)); diff != "" || page.Next != nil {
				t.Errorf("%s as %s (-want +got):\n%s", query, role, diff)
			}
		}
	}
	var all []string
	for cursor := ""; ; {
		var page wire.Holds
		e.ask("holds", "GET", "/v1/holds?state=released&limit=1&cursor="+cursor, "").into(t, &page)
		all = append(all, idsOf(page.Items)...)
		if page.Next == nil {
			break
		}
		cursor = *page.Next
	}
	if !cmp.Equal(all, []string{ids[3], ids[1]}) {
		t.Errorf("page by page: %v", all)
	}
	must(t, second(e))
	e.ask(e.newToken("second", "holds"), "GET", "/v1/holds/"+ids[0], "").want(t, http.StatusNotFound, wire.CodeNotFound)
	e.ask(e.newToken("second", "holds"), "DELETE", "/v1/holds/"+ids[0], "").want(t, http.StatusNotFound, wire.CodeNotFound)
	// An order of another kind is not this one.
	e.ask("dpo", "GET", "/v1/restrictions/"+ids[0], "").want(t, http.StatusNotFound, wire.CodeNotFound)
	e.ask("dpo", "DELETE", "/v1/suppressions/"+ids[0], "").want(t, http.StatusNotFound, wire.CodeNotFound)
}

func idsOf(holds []wire.Hold) (ids []string) {
	for _, h := range holds {
		ids = append(ids, h.ID)
	}
	return ids
}

// An execution names the holds that protect something in it, of every form, and no
// other.
func TestAnExecutionNamesItsHolds(t *testing.T) {
	e := newEnv(t)
	s := e.put("x", canaryText, subjects(canarySubject)...)
	e.put("other", canaryText, subjects("somebody else")...)
	e.ask("runtime", "POST", "/v1/executions/other/blobs?class=notes", "note").want(t, http.StatusCreated, "")
	var want []string
	for _, scope := range []string{
		`{"executionId":"x"}`, `{"executionId":"x","refs":["` + s.Ref + `"]}`, `{"class":"reasoning"}`,
		`{"class":"reasoning","capturedBefore":"2999-01-01T00:00:00Z"}`, `{"subjects":["` + canarySubject + `"]}`, `{"tenant":true}`,
	} {
		want = append([]string{e.hold(scope).ID}, want...)
		e.clock.add(time.Second)
	}
	for _, scope := range []string{
		`{"executionId":"other"}`, `{"class":"notes"}`, `{"class":"reasoning","capturedBefore":"2020-01-01T00:00:00Z"}`,
		`{"subjects":["somebody else"]}`,
	} {
		e.hold(scope)
	}
	var got wire.ExecutionSummary
	e.ask("auditor", "GET", "/v1/executions/x", "").into(t, &got)
	if diff := cmp.Diff(want, got.Holds); diff != "" {
		t.Errorf("holds (-want +got):\n%s", diff)
	}
	if got.State != "open" || got.CloseReason != "" {
		t.Errorf("a hold closes: %+v", got)
	}
}

// The same Idempotency-Key places one hold, and another body under it is refused.
func TestAHoldIsPlacedOnce(t *testing.T) {
	e := newEnv(t)
	const body = `{"scope":{"class":"notes"},"matter":"m","reason":"r","owner":"o"}`
	first := e.ask("holds", "POST", "/v1/holds", body, wire.HeaderIdempotencyKey, "k")
	first.want(t, http.StatusCreated, "")
	again := e.ask("holds", "POST", "/v1/holds", body, wire.HeaderIdempotencyKey, "k")
	again.want(t, http.StatusCreated, "")
	if string(first.body) != string(again.body) || first.header.Get("Location") != again.header.Get("Location") {
		t.Errorf("first %s, again %s", first.body, again.body)
	}
	other := strings.Replace(body, "notes", "other", 1)
	e.ask("holds", "POST", "/v1/holds", other, wire.HeaderIdempotencyKey, "k").want(t, http.StatusUnprocessableEntity, wire.CodeKeyReused)
	var page wire.Holds
	e.ask("holds", "GET", "/v1/holds?state=all", "").into(t, &page)
	if len(page.Items) != 1 {
		t.Errorf("%d holds of one request", len(page.Items))
	}
}

// Off-boarding names the tenant itself: a hold in it refuses it, and nothing changes.
func TestAHeldTenantIsNotOffboarded(t *testing.T) {
	e := newEnv(t)
	tokens, ref := e.leaver()
	made := e.ask(tokens["holds"], "POST", "/v1/holds", `{"scope":{"executionId":"x"},"matter":"m","reason":"r","owner":"o"}`)
	made.want(t, http.StatusCreated, "")
	var h wire.Hold
	made.into(t, &h)
	e.ask("admin", "DELETE", "/v1/tenants/leaver", "").want(t, http.StatusConflict, wire.CodeHeld)
	e.ask(tokens["runtime"], "GET", "/v1/executions/x/blobs/"+ref, "").want(t, http.StatusOK, "")
	var list wire.Erasures
	e.ask(tokens["dpo"], "GET", "/v1/erasures", "").into(t, &list)
	if len(list.Items) != 0 {
		t.Errorf("a refused off-boarding left %+v", list.Items)
	}
	e.ask(tokens["holds"], "DELETE", "/v1/holds/"+h.ID, "").want(t, http.StatusOK, "")
	e.ask("admin", "DELETE", "/v1/tenants/leaver", "").want(t, http.StatusAccepted, "")
}

// A legal floor keeps like a hold, until it ends.
func TestAFloorDefersUntilItEnds(t *testing.T) {
	e := newEnv(t)
	e.setPolicy("reasoning", `{"period":"P30D","floor":"P2D","legalBasis":"a law","existing":true}`)
	s := e.put("x", canaryText)
	got := e.erase(`{"executionId":"x"}`, "")
	e.wantRead("x", s.Ref, "")
	e.runErasures()
	got = e.erasure(got.ID)
	if got.State != "deferred" || got.Plan.Floor != 1 || got.Outcomes[wire.OutcomeLegalFloor] != 1 {
		t.Fatalf("under a floor: %+v", got)
	}
	end := s.CreatedAt.Add(48 * time.Hour)
	if len(got.Items) != 2 || got.Items[1].Until == nil || !got.Items[1].Until.Equal(end) {
		t.Errorf("items: %+v, want until %v", got.Items, end)
	}
	var d wire.DryRun
	e.ask("dpo", "POST", "/v1/erasures", `{"scope":{"executionId":"x"},"reason":"r","dryRun":true}`).into(t, &d)
	if len(d.Kept) != 1 || d.Kept[0].Outcome != wire.OutcomeLegalFloor || d.Kept[0].Until == nil || !d.Kept[0].Until.Equal(end) {
		t.Errorf("kept: %+v, want until %v", d.Kept, end)
	}
	e.clock.add(48 * time.Hour)
	e.runErasures()
	if got = e.erasure(got.ID); got.State != "erased" {
		t.Errorf("past the floor: %+v", got)
	}
}

// A policy that would end the maximum of something held earlier is refused, and
// nothing changes; one that does not touch it is taken.
func TestAPolicyDoesNotCutShortWhatIsHeld(t *testing.T) {
	e := newEnv(t)
	s := e.put("x", canaryText)
	for _, scope := range []string{`{"executionId":"x"}`, `{"class":"reasoning"}`, `{"tenant":true}`, `{"executionId":"x","refs":["` + s.Ref + `"]}`} {
		h := e.hold(scope)
		a := e.ask("dpo", "PUT", "/v1/policies/reasoning", `{"period":"P30D","existing":true}`)
		a.want(t, http.StatusConflict, wire.CodeHeld)
		e.ask("dpo", "POST", "/v1/policies/reasoning/simulate", `{"period":"P30D","existing":true}`).want(t, http.StatusOK, "")
		e.setPolicy("notes", `{"period":"P30D","existing":true}`)
		e.ask("dpo", "DELETE", "/v1/policies/notes?existing=true", "").want(t, http.StatusNoContent, "")
		e.release(h.ID)
	}
	var p wire.Policy
	e.ask("dpo", "GET", "/v1/policies/reasoning", "").into(t, &p)
	if !p.Default {
		t.Errorf("a refused policy was set: %+v", p)
	}
	h := e.hold(`{"executionId":"x"}`)
	e.setPolicy("reasoning", `{"period":"P2Y","existing":true}`)                                   // longer
	e.ask("dpo", "DELETE", "/v1/policies/reasoning?existing=true", "").want(t, 409, wire.CodeHeld) // back to a year
	e.release(h.ID)
	e.setPolicy("reasoning", `{"period":"P40D","existing":true}`)
	h = e.hold(`{"executionId":"x"}`)
	e.setPolicy("reasoning", `{"period":"P1M20D","existing":true}`)                            // longer, with fewer days
	e.setPolicy("reasoning", `{"period":"P1D","existing":false}`)                              // for new blobs alone
	e.setPolicy("reasoning", `{"period":"P1D","startEvent":"executionEnded","existing":true}`) // no end yet
	e.ask("dpo", "PUT", "/v1/policies/reasoning", `{"period":"P1D","existing":true}`).want(t, http.StatusConflict, wire.CodeHeld)
	e.release(h.ID)
	e.setPolicy("reasoning", `{"period":"P1D","existing":true}`)
}
