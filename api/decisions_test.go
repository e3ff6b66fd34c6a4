package api_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/evidence"
)

func (e *env) needApprovals(n string) {
	e.t.Helper()
	e.ask("admin", "PUT", "/v1/tenants/default/approvals", `{"erasures":`+n+`}`).want(e.t, http.StatusOK, "")
}

func (e *env) approve(token, id, digest string) answer {
	return e.ask(token, "POST", "/v1/erasures/"+id+"/approve", `{"planDigest":"`+digest+`"}`)
}

func TestAnErasureWaitsForItsApprovals(t *testing.T) {
	e := newEnv(t)
	s := e.put("x", canaryText)
	e.needApprovals("2")
	if got := e.tenant("default"); got.Approvals.Erasures == nil || *got.Approvals.Erasures != 2 {
		t.Errorf("tenant: %+v", got)
	}
	got := e.erase(`{"executionId":"x"}`, "")
	if got.State != "awaiting_approval" || got.Approvals != 2 || got.Plan.Blobs != 1 {
		t.Fatalf("asked for: %+v", got)
	}
	e.wantRead("x", s.Ref, canaryText) // nothing changed yet
	e.put("x", canaryText)

	other := strings.Repeat("0", 64)
	e.approve("approver", got.ID, other).want(t, http.StatusConflict, wire.CodePlanDrift)
	e.approve("dpo", got.ID, got.Plan.Digest).want(t, http.StatusForbidden, wire.CodeForbidden)
	first := e.approve("approver", got.ID, got.Plan.Digest)
	first.want(t, http.StatusOK, "")
	first.into(t, &got)
	if got.State != "awaiting_approval" || len(got.ApprovedBy) != 1 {
		t.Errorf("after one approval: %s", first.body)
	}
	again := e.approve("approver", got.ID, got.Plan.Digest)
	again.want(t, http.StatusOK, "")
	if again.into(t, &got); len(got.ApprovedBy) != 1 {
		t.Errorf("the same person twice: %s", again.body)
	}
	e.wantRead("x", s.Ref, canaryText)
	e.approve(e.newToken("default", "approver"), got.ID, got.Plan.Digest).want(t, http.StatusOK, "")
	e.wantRead("x", s.Ref, "")
	e.runErasures()
	if got = e.erasure(got.ID); got.State != "erased" || len(got.ApprovedBy) != 2 {
		t.Errorf("after both: %+v", got)
	}
	refuseCanaries(t, "the log", e.logs.String(), e)
}

// Who asked does not approve, with the other role of the same token either.
func TestTheRequesterDoesNotApprove(t *testing.T) {
	e := newEnv(t)
	s := e.put("x", canaryText)
	e.needApprovals("1")
	a := e.ask("all", "POST", "/v1/erasures", `{"scope":{"executionId":"x"},"reason":"r"}`)
	a.want(t, http.StatusAccepted, "")
	var got wire.Erasure
	a.into(t, &got)
	e.approve("all", got.ID, got.Plan.Digest).want(t, http.StatusForbidden, wire.CodeForbidden)
	e.wantRead("x", s.Ref, canaryText)
	e.approve("approver", got.ID, got.Plan.Digest).want(t, http.StatusOK, "")
	e.wantRead("x", s.Ref, "")
}

// A hold that was placed after the plan is drift: the old digest is refused, the new
// one is taken. What joined the scope is not.
func TestProtectionThatChangedIsDrift(t *testing.T) {
	e := newEnv(t)
	s := e.put("x", canaryText)
	e.needApprovals("1")
	got := e.erase(`{"executionId":"x"}`, "")
	joined := e.put("x", "joined later")
	h := e.hold(`{"executionId":"x","refs":["` + s.Ref + `"]}`)
	e.approve("approver", got.ID, got.Plan.Digest).want(t, http.StatusConflict, wire.CodePlanDrift)
	e.wantRead("x", s.Ref, canaryText)
	renewed := e.erasure(got.ID)
	if renewed.State != "awaiting_approval" || renewed.Plan.Digest == got.Plan.Digest || renewed.Plan.Held != 1 {
		t.Fatalf("after the drift: %+v", renewed)
	}
	e.approve("approver", got.ID, got.Plan.Digest).want(t, http.StatusConflict, wire.CodePlanDrift)
	e.approve("approver", got.ID, renewed.Plan.Digest).want(t, http.StatusOK, "")
	e.runErasures()
	if got = e.erasure(got.ID); got.State != "partial" || got.Outcomes[wire.OutcomeErased] != 1 {
		t.Errorf("approved: %+v", got)
	}
	e.wantRead("x", joined.Ref, "")
	e.release(h.ID)
	e.runErasures()
	if got = e.erasure(got.ID); got.State != "erased" {
		t.Errorf("after the release: %+v", got)
	}
}

// What joined an approved scope is told beside the plan, which stays: in the answer, the
// listing, the report, and the certificate that verifies without a server.
func TestWhatJoinedAnApprovedScopeIsTold(t *testing.T) {
	e := newLogged(t)
	held := e.put("x", canaryText)
	e.needApprovals("1")
	e.clock.add(time.Second)
	hold := e.hold(`{"executionId":"x","refs":["` + held.Ref + `"]}`)
	asked := e.erase(`{"executionId":"x"}`, "")
	if asked.Delta != nil {
		t.Errorf("of what nobody approved: %+v", asked.Delta)
	}
	e.put("x", "joined")
	e.put("x", "and again")
	e.approve("approver", asked.ID, asked.Plan.Digest).want(t, http.StatusOK, "")
	want := wire.Delta{Blobs: 2, Bytes: int64(len("joined") + len("and again"))}
	check := func(state string, erased int64) {
		t.Helper()
		got := e.erasure(asked.ID)
		if got.State != state || got.Plan != asked.Plan || got.Outcomes[wire.OutcomeErased] != erased {
			t.Errorf("%s: plan %+v, approved %+v, outcomes %v", got.State, got.Plan, asked.Plan, got.Outcomes)
		}
		var all wire.Erasures
		e.ask("dpo", "GET", "/v1/erasures", "").into(t, &all)
		for _, d := range []*wire.Delta{got.Delta, all.Items[0].Delta} {
			if d == nil || *d != want {
				t.Errorf("delta %+v, want %+v", d, want)
			}
		}
	}
	e.runErasures()
	check("partial", 2)
	e.release(hold.ID)
	e.runErasures()
	check("erased", 3)
	_, rows := e.ask("dpo", "GET", "/v1/reports/erasures", "", "Accept", "text/csv").table(t)
	if rows[0]["blobs"] != "3" || rows[0]["erased"] != "3" || rows[0]["deltaBlobs"] != "2" {
		t.Errorf("the report: %v", rows[0])
	}
	e.sequence()
	key, _ := e.verifier()
	c, err := evidence.VerifyCertificate(e.ask("dpo", "GET", "/v1/erasures/"+asked.ID+"/certificate", "").body, key)
	must(t, err)
	s := c.Statement
	if s.Delta == nil || wire.Delta(*s.Delta) != want || s.Plan.Blobs != 1 || s.Plan.Held != 1 || s.Plan.Digest != asked.Plan.Digest {
		t.Errorf("the certificate: plan %+v, delta %+v", s.Plan, s.Delta)
	}
}

func TestGraceGivesEverythingBack(t *testing.T) {
	e := newEnv(t)
	s := e.put("x", canaryText)
	got := e.erase(`{"executionId":"x"}`, `,"graceSeconds":3600`)
	if got.State != "grace" || got.GraceUntil == nil || !got.GraceUntil.Equal(got.RequestedAt.Add(time.Hour)) {
		t.Fatalf("grace: %+v", got)
	}
	e.wantRead("x", s.Ref, "")
	e.ask("runtime", "POST", "/v1/executions/x/blobs", "more").want(t, http.StatusConflict, wire.CodeErasurePending)
	e.runErasures() // three minutes: its grace is not over
	cancelled := e.ask("dpo", "POST", "/v1/erasures/"+got.ID+"/cancel", `{"reason":"a mistake"}`)
	cancelled.want(t, http.StatusOK, "")
	if cancelled.into(t, &got); got.State != "cancelled" || got.DecidedBy == nil {
		t.Errorf("cancelled: %s", cancelled.body)
	}
	if strings.Contains(string(cancelled.body), "a mistake") {
		t.Error("the answer repeats the reason")
	}
	e.wantRead("x", s.Ref, canaryText)
	e.put("x", "more")
	e.clock.add(2 * time.Hour)
	e.runErasures()
	e.wantRead("x", s.Ref, canaryText)
	e.ask("dpo", "POST", "/v1/erasures/"+got.ID+"/cancel", "").want(t, http.StatusOK, "") // again changes nothing

	done := e.erase(`{"executionId":"x"}`, `,"graceSeconds":60`)
	e.runErasures()
	if done = e.erasure(done.ID); done.State != "erased" {
		t.Errorf("past its grace: %+v", done)
	}
	e.ask("dpo", "POST", "/v1/erasures/"+done.ID+"/cancel", "").want(t, http.StatusConflict, wire.CodeConflict)
	e.wantRead("x", s.Ref, "")
}

func TestADenialSaysWhy(t *testing.T) {
	e := newEnv(t)
	s := e.put("x", canaryText)
	e.needApprovals("1")
	got := e.erase(`{"executionId":"x"}`, `,"regime":"ccpa"`)
	if got.DecidedAt != nil {
		t.Errorf("decided at %v before it was", got.DecidedAt)
	}
	e.clock.add(time.Hour)
	when := e.clock.now().Truncate(time.Microsecond)
	denied := e.ask("approver", "POST", "/v1/erasures/"+got.ID+"/deny", `{"code":"ID_UNVERIFIED","reason":"`+canaryPurpose+`"}`)
	denied.want(t, http.StatusOK, "")
	denied.into(t, &got)
	if got.State != "denied" || got.Code == nil || *got.Code != "ID_UNVERIFIED" || got.DecidedBy == nil {
		t.Errorf("denied: %s", denied.body)
	}
	if strings.Contains(string(denied.body), canaryPurpose) {
		t.Error("the answer repeats the reason")
	}
	e.clock.add(time.Hour)
	e.ask("approver", "GET", "/v1/erasures/"+got.ID, "").into(t, &got)
	if got.DecidedAt == nil || !got.DecidedAt.Equal(when) || got.Clock == nil || got.Clock.EndedAt == nil || !got.Clock.EndedAt.Equal(when) {
		t.Errorf("decided at %v, want %v; clock %+v", got.DecidedAt, when, got.Clock)
	}
	e.approve("approver", got.ID, got.Plan.Digest).want(t, http.StatusConflict, wire.CodeConflict)
	e.wantRead("x", s.Ref, canaryText)
	e.runErasures()
	e.wantRead("x", s.Ref, canaryText)
	bare := e.erase(`{"executionId":"x"}`, ``)
	answer := e.ask("approver", "POST", "/v1/erasures/"+bare.ID+"/deny", "")
	answer.want(t, http.StatusOK, "")
	answer.into(t, &bare)
	if bare.State != "denied" || bare.Code != nil {
		t.Errorf("denied without a code: %s", answer.body)
	}
	var list wire.Erasures
	e.ask("dpo", "GET", "/v1/erasures?state=denied&regime=ccpa", "").into(t, &list)
	if len(list.Items) != 1 {
		t.Errorf("denied by regime: %+v", list)
	}
	e.ask("dpo", "GET", "/v1/erasures?state=denied&regime=gdpr", "").into(t, &list)
	if len(list.Items) != 0 {
		t.Errorf("denied by another regime: %+v", list)
	}
}

// dueBefore selects what is open and due.
func TestErasuresAreListedByTheirDueDate(t *testing.T) {
	e := newEnv(t)
	e.needApprovals("1")
	day := e.clock.now().Add(24 * time.Hour)
	soon := e.erase(`{"executionId":"a"}`, `,"dueAt":"`+day.Format(time.RFC3339)+`"`)
	e.erase(`{"executionId":"b"}`, `,"dueAt":"`+day.Add(72*time.Hour).Format(time.RFC3339)+`"`)
	e.erase(`{"executionId":"c"}`, "")
	var list wire.Erasures
	e.ask("dpo", "GET", "/v1/erasures?dueBefore="+day.Add(time.Hour).Format(time.RFC3339), "").into(t, &list)
	if len(list.Items) != 1 || list.Items[0].ID != soon.ID {
		t.Errorf("due soon: %+v", list.Items)
	}
}

func TestASubjectIsErased(t *testing.T) {
	e := newEnv(t)
	first := e.put("x", canaryText, subjects(canarySubject)...)
	second := e.put("y", "second", subjects(canarySubject)...)
	shared := e.put("y", "shared", subjects(canarySubject, "bob")...)
	other := e.put("y", "of bob", subjects("bob")...)
	untagged := e.put("y", "of nobody")
	scope := `{"subjects":["` + canarySubject + `","nobody"]}`

	dry := e.ask("dpo", "POST", "/v1/erasures", `{"scope":`+scope+`,"reason":"r","dryRun":true}`)
	dry.want(t, http.StatusOK, "")
	var d wire.DryRun
	dry.into(t, &d)
	if d.Plan.Blobs != 3 || d.Plan.Executions != 2 || d.Plan.Shared != 1 || d.Classes["reasoning"] != 3 || len(d.Sample) != 3 ||
		!cmp.Equal(d.Coverage, &wire.Coverage{Blobs: 5, Tagged: 4, Untagged: 1}) || !d.Oldest.Equal(first.CreatedAt) || !d.Newest.Equal(shared.CreatedAt) {
		t.Errorf("preview: %s", dry.body)
	}
	e.wantRead("x", first.Ref, canaryText)

	got := e.erase(scope, "")
	if got.Scope.Form != "subjects" || got.Scope.Subjects != 2 || len(got.Scope.SubjectTags) != 2 {
		t.Errorf("scope: %+v", got.Scope)
	}
	for execution, s := range map[string]wire.Stored{"x": first, "y": second} {
		e.wantRead(execution, s.Ref, "")
	}
	e.wantRead("y", shared.Ref, "")
	e.wantRead("y", other.Ref, "of bob")
	e.wantRead("y", untagged.Ref, "of nobody")
	e.ask("runtime", "POST", "/v1/executions/z/blobs", "new", subjects(canarySubject)...).want(t, http.StatusConflict, wire.CodeErasurePending)
	e.put("z", "of bob", subjects("bob")...)

	e.runErasures()
	got = e.erasure(got.ID)
	if got.State != "erased" || got.Outcomes[wire.OutcomeErased] != 3 || got.Outcomes[wire.OutcomeShared] != 1 {
		t.Errorf("erased: %+v", got)
	}
	refused := e.ask("runtime", "POST", "/v1/executions/z/blobs", "new", subjects(canarySubject)...)
	refused.want(t, http.StatusUnprocessableEntity, wire.CodePolicyForbids)
	e.wantRead("y", other.Ref, "of bob")
	e.put("x", "of nobody") // the execution lives on
	if metrics := string(e.ask("", "GET", "/metrics", "").body); !strings.Contains(metrics, "blobd_suppressed_writes_total 1\n") {
		t.Error("the refused put is not counted")
	}

	var left wire.Suppressions
	list := e.ask("dpo", "GET", "/v1/suppressions", "")
	list.into(t, &left)
	if len(left.Items) != 1 || *left.Items[0].ErasureID != got.ID || left.Items[0].Scope.Subjects != 2 ||
		!cmp.Equal(left.Items[0].Scope.SubjectTags, got.Scope.SubjectTags) {
		t.Errorf("suppressions: %s", list.body)
	}
	e.ask("dpo", "DELETE", "/v1/suppressions/"+left.Items[0].ID, `{"reason":"consent"}`).want(t, http.StatusOK, "")
	e.put("z", "new", subjects(canarySubject)...)
	refuseCanaries(t, "the log", e.logs.String(), e)
}

func TestAClassIsErasedUpToADate(t *testing.T) {
	e := newEnv(t)
	s := e.put("x", canaryText)
	kept := e.put("x", "kept for now")
	e.ask("runtime", "POST", "/v1/executions/x/blobs?class=notes", "a note").want(t, http.StatusCreated, "")
	got := e.erase(`{"class":"notes","capturedBefore":"2999-01-01T00:00:00Z"}`, "")
	if *got.Scope.Class != "notes" || got.Scope.CapturedBefore == nil || got.Plan.Blobs != 1 {
		t.Errorf("erasure: %+v", got)
	}
	e.runErasures()
	if got = e.erasure(got.ID); got.State != "erased" || got.Outcomes[wire.OutcomeErased] != 1 {
		t.Errorf("erased: %+v", got)
	}
	e.wantRead("x", s.Ref, canaryText)
	e.wantRead("x", kept.Ref, "kept for now")
	none := e.erase(`{"class":"notes","capturedBefore":"2999-01-01T00:00:00Z"}`, "")
	e.runErasures()
	if none = e.erasure(none.ID); none.State != "erased" || none.Items[0].Outcome != wire.OutcomeNoMatch {
		t.Errorf("of nothing: %+v", none)
	}
}
