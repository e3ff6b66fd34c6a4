package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/store"
)

// leaver makes a tenant with one text and a token of each role in it.
func (e *env) leaver() (tokens map[string]string, ref string) {
	e.t.Helper()
	e.ask("admin", "POST", "/v1/tenants", `{"id":"leaver"}`).want(e.t, http.StatusCreated, "")
	tokens = make(map[string]string)
	for _, role := range wire.Roles() {
		tokens[role] = e.newToken("leaver", role)
	}
	a := e.ask(tokens["runtime"], "POST", "/v1/executions/x/blobs", canaryText)
	a.want(e.t, http.StatusCreated, "")
	var s wire.Stored
	a.into(e.t, &s)
	return tokens, s.Ref
}

func (e *env) tenant(id string) (t wire.Tenant) {
	e.t.Helper()
	a := e.ask("admin", "GET", "/v1/tenants/"+id, "")
	a.want(e.t, http.StatusOK, "")
	a.into(e.t, &t)
	return t
}

// ways are the two spellings of one act.
func ways(e *env, tokens map[string]string) map[string]func() answer {
	return map[string]func() answer{
		"DELETE of the tenant": func() answer { return e.ask("admin", "DELETE", "/v1/tenants/leaver", "") },
		"erasure of the whole tenant": func() answer {
			return e.ask(tokens["dpo"], "POST", "/v1/erasures", `{"scope":{"tenant":true},"reason":"`+canaryPurpose+`"}`)
		},
	}
}

func TestATenantIsOffboarded(t *testing.T) {
	for way := range ways(nil, nil) {
		t.Run(way, func(t *testing.T) {
			e := newEnv(t)
			kept := e.put("x", canaryText)
			tokens, ref := e.leaver()
			a := ways(e, tokens)[way]()
			a.want(t, http.StatusAccepted, "")
			var got wire.Erasure
			a.into(t, &got)
			if a.header.Get("Location") != "/v1/erasures/"+got.ID {
				t.Errorf("Location = %q", a.header.Get("Location"))
			}
			want := wire.Erasure{
				ID: got.ID, State: "running", Plan: wire.Plan{Digest: got.Plan.Digest}, Progress: wire.Progress{Remaining: 1},
				RequestedBy: got.RequestedBy, ApprovedBy: []string{}, ReceivedAt: got.ReceivedAt,
				Items: []wire.ErasureItem{{Tenant: true, State: "running"}}, RequestedAt: got.RequestedAt,
				Scope: wire.Covered{Form: "tenant", Tenant: true}, Outcomes: map[wire.Outcome]int64{},
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("erasure (-want +got):\n%s", diff)
			}
			e.wantOffboarded(tokens, ref, "running")
			e.ask("runtime", "GET", "/v1/executions/x/blobs/"+kept.Ref, "").want(t, http.StatusOK, "")

			e.runErasures()
			e.wantOffboarded(tokens, ref, "erased")
			e.ask("runtime", "GET", "/v1/executions/x/blobs/"+kept.Ref, "").want(t, http.StatusOK, "")
			e.put("x", "another tenant goes on")
			e.ask(tokens["dpo"], "GET", "/v1/erasures/"+got.ID, "").into(t, &got)
			if got.State != "erased" || got.Plan.Executions != 1 || got.Plan.Blobs != 1 || got.Progress.KeysDestroyed != 1 ||
				got.Progress.ObjectsDeleted != 1 || got.Progress.Remaining != 0 || got.ErasedAt == nil {
				t.Errorf("after the second half: %+v", got)
			}
			refuseCanaries(t, "the log", e.logs.String(), e)
		})
	}
}

// wantOffboarded: with the tenant's own tokens every resolve is the null and every
// put is 410, what tells of the erasure is read, and nothing new is made.
func (e *env) wantOffboarded(tokens map[string]string, ref, state string) {
	t := e.t
	t.Helper()
	for _, path := range []string{"/v1/executions/x/blobs/" + ref, "/v1/executions/x/blobs/" + anyRef, "/v1/executions/y/blobs/" + ref} {
		a := e.ask(tokens["runtime"], "GET", path, "")
		a.want(t, http.StatusNotFound, wire.CodeNull)
		if a.header.Get(wire.HeaderResolution) != wire.ResolutionNull {
			t.Errorf("%s carries %q", path, a.header.Get(wire.HeaderResolution))
		}
	}
	var batch wire.Resolved
	a := e.ask(tokens["runtime"], "POST", "/v1/executions/x/resolve", `{"parts":[{"ref":"`+ref+`"},{"ref":"`+anyRef+`"}]}`)
	a.want(t, http.StatusOK, "")
	a.into(t, &batch)
	if batch.FirstHole == nil || *batch.FirstHole != 0 || len(batch.Parts) != 2 || batch.Parts[1].Status != "null" {
		t.Errorf("batch: %s", a.body)
	}
	for _, x := range []string{"x", "never-seen"} {
		e.ask(tokens["runtime"], "POST", "/v1/executions/"+x+"/blobs", canaryText).want(t, http.StatusGone, wire.CodeExecutionErased)
		e.ask(tokens["runtime"], "POST", "/v1/executions/"+x+"/blobs", canaryText, wire.HeaderSubjects, `"`+canarySubject+`"`).
			want(t, http.StatusGone, wire.CodeExecutionErased)
		e.ask(tokens["runtime"], "POST", "/v1/executions/"+x+"/captures", `{"reasoning":[{"kind":"text","text":"t"}]}`).
			want(t, http.StatusGone, wire.CodeExecutionErased)
	}
	// What is wrong with a request comes first.
	e.ask(tokens["runtime"], "POST", "/v1/executions/x/blobs?class=A", "x").want(t, http.StatusBadRequest, wire.CodeInvalid)
	e.ask(tokens["runtime"], "POST", "/v1/executions/x/blobs", "x", "Repr-Digest", "sha-256=:"+strings.Repeat("A", 43)+"=:").
		want(t, http.StatusBadRequest, wire.CodeDigestMismatch)

	var x wire.ExecutionSummary
	e.ask(tokens["auditor"], "GET", "/v1/executions/x", "").into(t, &x)
	if x.State != "erased" || x.Blobs != 0 || len(x.Classes) != 0 {
		t.Errorf("execution: %+v", x)
	}
	read := e.ask(tokens["auditor"], "POST", "/v1/executions/x/reasoning/read", `{"purpose":"p"}`)
	read.want(t, http.StatusOK, "")
	if !strings.Contains(string(read.body), `"erased"`) || strings.Contains(string(read.body), canaryText) {
		t.Errorf("audit read: %s", read.body)
	}
	var list wire.Erasures
	e.ask(tokens["dpo"], "GET", "/v1/erasures", "").into(t, &list)
	if len(list.Items) != 1 || list.Items[0].State != state {
		t.Errorf("erasures: %+v", list)
	}
	told := e.tenant("leaver")
	if told.OffboardedAt == nil || told.ErasureID != list.Items[0].ID || told.ErasureState != state {
		t.Errorf("tenant: %+v", told)
	}
	if d := e.tenant("default"); d.OffboardedAt != nil || d.ErasureID != "" || d.ErasureState != "" {
		t.Errorf("default: %+v", d)
	}

	e.ask("admin", "POST", "/v1/tokens", `{"roles":["runtime"],"tenant":"leaver"}`).want(t, http.StatusGone, wire.CodeExecutionErased)
	e.ask("admin", "POST", "/v1/tokens", `{"roles":["runtime"],"tenant":"leaver"}`, wire.HeaderIdempotencyKey, "k").
		want(t, http.StatusGone, wire.CodeExecutionErased)
	e.ask("admin", "POST", "/v1/tenants", `{"id":"leaver"}`).want(t, http.StatusConflict, wire.CodeConflict)
	e.ask(tokens["admin"], "GET", "/v1/tokens", "").want(t, http.StatusOK, "")
}

// A dry run of either spelling counts, agrees with the other, and does nothing.
func TestADryRunOfOffboarding(t *testing.T) {
	e := newEnv(t)
	tokens, ref := e.leaver()
	var byDelete, byErasure wire.DryRun
	a := e.ask("admin", "DELETE", "/v1/tenants/leaver?dryRun=true", "")
	a.want(t, http.StatusOK, "")
	a.into(t, &byDelete)
	a = e.ask(tokens["dpo"], "POST", "/v1/erasures", `{"scope":{"tenant":true},"reason":"r","dryRun":true}`)
	a.want(t, http.StatusOK, "")
	a.into(t, &byErasure)
	want := wire.Plan{Digest: byDelete.Plan.Digest, Executions: 1, Blobs: 1, Bytes: int64(len(canaryText))}
	if byDelete.Plan != want || byErasure.Plan != want || len(want.Digest) != 64 {
		t.Errorf("plans %+v and %+v, want %+v", byDelete.Plan, byErasure.Plan, want)
	}
	e.ask(tokens["runtime"], "GET", "/v1/executions/x/blobs/"+ref, "").want(t, http.StatusOK, "")
	if e.tenant("leaver").OffboardedAt != nil {
		t.Error("a dry run off-boarded")
	}
}

func TestOffboardingThatIsRefused(t *testing.T) {
	e := newEnv(t)
	tokens, ref := e.leaver()
	for path, want := range map[string]struct {
		status int
		code   wire.Code
	}{
		"/v1/tenants/nobody":               {404, wire.CodeNotFound},
		"/v1/tenants/nobody?dryRun=true":   {404, wire.CodeNotFound},
		"/v1/tenants/No":                   {400, wire.CodeInvalid},
		"/v1/tenants/leaver?dryRun=1":      {400, wire.CodeInvalid},
		"/v1/tenants/leaver?dryrun=true":   {400, wire.CodeInvalid},
		"/v1/tenants/leaver?reason=canary": {400, wire.CodeInvalid},
	} {
		a := e.ask("admin", "DELETE", path, "")
		a.want(t, want.status, want.code)
		checkProblem(t, a)
	}
	for _, role := range wire.Roles() {
		if role != wire.RoleAdmin {
			e.ask(tokens[role], "DELETE", "/v1/tenants/leaver", "").want(t, http.StatusForbidden, wire.CodeForbidden)
		}
		if role != wire.RoleDPO {
			e.ask(tokens[role], "POST", "/v1/erasures", `{"scope":{"tenant":true},"reason":"r"}`).want(t, http.StatusForbidden, wire.CodeForbidden)
		}
	}
	e.ask(tokens["runtime"], "GET", "/v1/executions/x/blobs/"+ref, "").want(t, http.StatusOK, "")
}

// An off-boarding under an Idempotency-Key is remembered, although the tenant's
// own keys go with it; and asked for again without one it follows the first.
func TestOffboardingIsRemembered(t *testing.T) {
	e := newEnv(t)
	tokens, _ := e.leaver()
	const body = `{"scope":{"tenant":true},"reason":"r"}`
	ask := func(body, key string) answer {
		return e.ask(tokens["dpo"], "POST", "/v1/erasures", body, wire.HeaderIdempotencyKey, key)
	}
	first := ask(body, "k")
	first.want(t, http.StatusAccepted, "")
	again := ask(body, "k")
	again.want(t, http.StatusAccepted, "")
	if string(first.body) != string(again.body) || first.header.Get("Location") != again.header.Get("Location") {
		t.Errorf("answers differ:\n%s\n%s", first.body, again.body)
	}
	ask(`{"scope":{"tenant":true},"reason":"another"}`, "k").want(t, http.StatusUnprocessableEntity, wire.CodeKeyReused)
	other := ask(body, "l")
	other.want(t, http.StatusAccepted, "")
	var second wire.Erasure
	other.into(t, &second)
	if second.Plan.AlreadyErased != 1 || e.tenant("leaver").ErasureID == second.ID {
		t.Errorf("the second: %s", other.body)
	}
	inside := ask(`{"scope":{"executionId":"x"},"reason":"r"}`, "m")
	inside.want(t, http.StatusAccepted, "")
	e.runErasures()
	for _, path := range []string{first.header.Get("Location"), other.header.Get("Location"), inside.header.Get("Location")} {
		var got wire.Erasure
		e.ask(tokens["dpo"], "GET", path, "").into(t, &got)
		if got.State != "erased" {
			t.Errorf("%s is %s", path, got.State)
		}
	}
	if string(ask(body, "k").body) != string(first.body) {
		t.Error("the first answer is forgotten once it is erased")
	}
}

// The tenant of an administrator may be off-boarded too: the token works on, and
// the deployment with it.
func TestTheTenantOfTheAdministratorIsOffboarded(t *testing.T) {
	e := newEnv(t)
	s := e.put("x", canaryText)
	e.ask("all", "DELETE", "/v1/tenants/default", "").want(t, http.StatusAccepted, "")
	e.runErasures()
	e.ask("all", "GET", "/v1/executions/x/blobs/"+s.Ref, "").want(t, http.StatusNotFound, wire.CodeNull)
	e.ask("all", "POST", "/v1/tenants", `{"id":"next"}`).want(t, http.StatusCreated, "")
	secret, _, err := e.store.CreateToken(t.Context(), store.NewToken{Tenant: "next", Roles: wire.Roles()})
	must(t, err)
	e.ask(secret, "POST", "/v1/executions/x/blobs", "a", wire.HeaderTenant, "next").want(t, http.StatusCreated, "")
}
