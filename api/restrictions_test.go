package api_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/blobd/blobd/api/wire"
)

func TestARestrictionLetsItsPurposesRead(t *testing.T) {
	e := newEnv(t)
	s := e.put("x", canaryText)
	a := e.ask("dpo", "POST", "/v1/restrictions", `{"scope":{"executionId":"x"},"reason":"accuracy is contested","purposes":["legal claims","legal claims"]}`)
	a.want(t, http.StatusCreated, "")
	var r wire.Restriction
	a.into(t, &r)
	if a.header.Get("Location") != "/v1/restrictions/"+r.ID || !cmp.Equal(r.Purposes, []string{"legal claims"}) || r.Covers.Blobs != 1 {
		t.Errorf("restriction: %s", a.body)
	}
	e.wantRead("x", s.Ref, "")
	e.ask("runtime", "POST", "/v1/executions/x/blobs", "new").want(t, http.StatusConflict, wire.CodeRestricted)
	read := func(purpose string) wire.ReadPart {
		a := e.ask("auditor", "POST", "/v1/executions/x/reasoning/read", `{"purpose":"`+purpose+`"}`)
		a.want(t, http.StatusOK, "")
		var answer wire.ReadAnswer
		a.into(t, &answer)
		return answer.Parts[0]
	}
	if p := read("curiosity"); p.Status != "restricted" || p.Content != nil {
		t.Errorf("for another purpose: %+v", p)
	}
	if p := read("legal claims"); p.Status != "ok" || p.Content == nil || string(p.Content.Text.Bytes()) != canaryText {
		t.Errorf("for its purpose: %+v", p)
	}
	summary := e.ask("auditor", "GET", "/v1/executions/x", "")
	var x wire.ExecutionSummary
	summary.into(t, &x)
	if x.State != "closed" || x.CloseReason != "restricted" {
		t.Errorf("execution: %s", summary.body)
	}
	lifted := e.ask("dpo", "DELETE", "/v1/restrictions/"+r.ID, "")
	lifted.want(t, http.StatusOK, "")
	lifted.into(t, &r)
	if r.State != "lifted" || r.LiftedAt == nil || r.LiftReason != nil {
		t.Errorf("lifted: %s", lifted.body)
	}
	e.wantRead("x", s.Ref, canaryText)
	e.put("x", "new")
	for query, want := range map[string]int{"": 0, "?state=open": 0, "?state=lifted": 1, "?state=all": 1} {
		var page wire.Restrictions
		e.ask("dpo", "GET", "/v1/restrictions"+query, "").into(t, &page)
		if len(page.Items) != want {
			t.Errorf("%q lists %d, want %d", query, len(page.Items), want)
		}
	}
	e.ask("dpo", "GET", "/v1/restrictions/"+r.ID, "").want(t, http.StatusOK, "")
	refuseCanaries(t, "the log", e.logs.String(), e)
}

// Subjects are told by how many they are and by the beginnings of their keyed
// hashes, never themselves.
func TestASuppressionKeepsItsSubjectsToItself(t *testing.T) {
	e := newEnv(t)
	ends := e.clock.now().Add(time.Hour).Format(time.RFC3339)
	place := func(body string) (s wire.Suppression) {
		a := e.ask("dpo", "POST", "/v1/suppressions", body)
		a.want(t, http.StatusCreated, "")
		refuseCanaries(t, "the answer", string(a.body), e)
		a.into(t, &s)
		return s
	}
	inScope := place(`{"scope":{"subjects":["` + canarySubject + `"]},"reason":"objected"}`)
	beside := place(`{"subjects":["` + canarySubject + `","bob"],"reason":"objected","expiresAt":"` + ends + `"}`)
	if inScope.Scope.Subjects != 1 || beside.Scope.Subjects != 2 || len(inScope.Scope.SubjectTags[0]) != 16 || beside.ExpiresAt == nil ||
		inScope.ErasureID != nil || inScope.State != "open" {
		t.Errorf("in scope %+v, beside it %+v", inScope, beside)
	}
	for _, execution := range []string{"x", "y"} {
		e.ask("runtime", "POST", "/v1/executions/"+execution+"/blobs", "of bob", subjects("bob")...).
			want(t, http.StatusUnprocessableEntity, wire.CodePolicyForbids)
	}
	capture := `{"subjects":["bob"],"reasoning":[{"kind":"text","text":"of bob"}]}`
	e.ask("runtime", "POST", "/v1/executions/x/captures", capture).want(t, http.StatusUnprocessableEntity, wire.CodePolicyForbids)
	e.put("x", "of carol", subjects("carol")...)
	e.clock.add(2 * time.Hour)
	e.put("x", "of bob", subjects("bob")...) // its end is over
	e.ask("runtime", "POST", "/v1/executions/x/blobs", "more", subjects(canarySubject)...).
		want(t, http.StatusUnprocessableEntity, wire.CodePolicyForbids)
	for query, want := range map[string]string{"": inScope.ID, "?state=expired": beside.ID, "?state=lifted": ""} {
		list := e.ask("dpo", "GET", "/v1/suppressions"+query, "")
		var page wire.Suppressions
		list.into(t, &page)
		got := ""
		if len(page.Items) == 1 {
			got = page.Items[0].ID
		}
		if got != want || len(page.Items) > 1 {
			t.Errorf("%q lists %+v, want %q", query, page.Items, want)
		}
		refuseCanaries(t, "the list", string(list.body), e)
	}
	e.ask("dpo", "GET", "/v1/suppressions/"+inScope.ID, "").want(t, http.StatusOK, "")
	e.ask("dpo", "DELETE", "/v1/suppressions/"+inScope.ID, "").want(t, http.StatusOK, "")
	e.put("x", "more", subjects(canarySubject)...)
}

// What keeps a blob is said in every case: its rule, a hold, a floor, an erasure, a
// sweep.
func TestExplain(t *testing.T) {
	e := newEnv(t)
	e.setPolicy("reasoning", `{"period":"P30D","floor":"P10D","legalBasis":"a law","existing":true}`)
	s := e.put("x", canaryText)
	explain := func(role, query string) wire.Explanation {
		t.Helper()
		a := e.ask(role, "GET", "/v1/blobs/"+s.Ref+"/explain"+query, "")
		a.want(t, http.StatusOK, "")
		var out wire.Explanations
		a.into(t, &out)
		if len(out.Items) != 1 {
			t.Fatalf("explained: %s", a.body)
		}
		return out.Items[0]
	}
	for _, role := range []string{"dpo", "auditor", "operator"} {
		x := explain(role, "")
		if x.State != "live" || x.Verdict != "keep" || *x.ExecutionID != "x" || x.Class != "reasoning" || x.Rule.Period != "P30D" || *x.Rule.Floor != "P10D" ||
			!x.Start.Equal(s.CreatedAt) || !x.Due.Equal(s.CreatedAt.Add(30*24*time.Hour)) || !x.Floor.Equal(s.CreatedAt.Add(10*24*time.Hour)) ||
			len(x.Holds) != 0 || x.LastSweep != nil || x.Next == "" {
			t.Errorf("live: %+v", x)
		}
	}
	missing := e.ask("dpo", "GET", "/v1/blobs/"+s.Ref+"/explain?executionId=y", "")
	missing.want(t, http.StatusNotFound, wire.CodeNotFound)
	if missing.header.Get(wire.HeaderResolution) != "" {
		t.Error("what cannot be explained reads as a null")
	}
	h := e.hold(`{"class":"reasoning"}`)
	asked := e.ask("dpo", "POST", "/v1/restrictions", `{"scope":{"tenant":true},"reason":"r"}`)
	var r wire.Restriction
	asked.into(t, &r)
	x := explain("dpo", "?executionId=x")
	if x.State != "closed" || !cmp.Equal(x.Holds, []string{h.ID}) || !cmp.Equal(x.Restrictions, []string{r.ID}) {
		t.Errorf("held and restricted: %+v", x)
	}
	e.ask("dpo", "DELETE", "/v1/restrictions/"+r.ID, "").want(t, http.StatusOK, "")
	e.clock.add(31 * 24 * time.Hour)
	e.sweep(`{}`)
	e.runSweeps()
	if x = explain("dpo", ""); x.Verdict != "held" || x.LastSweep == nil || x.LastSweep.State != "done" {
		t.Errorf("past its maximum and held: %+v", x)
	}
	erasing := e.erase(`{"executionId":"x"}`, "")
	if x = explain("dpo", ""); !cmp.Equal(x.Erasures, []string{erasing.ID}) {
		t.Errorf("being erased: %+v", x)
	}
	e.release(h.ID)
	e.runErasures()
	if x = explain("dpo", ""); x.State != "erased" || x.Rule != nil || x.Due != nil || x.Next == "" {
		t.Errorf("erased: %+v", x)
	}
}
