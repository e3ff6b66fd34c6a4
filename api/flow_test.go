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

func TestCapture(t *testing.T) {
	e := newEnv(t)
	const path = "/v1/executions/x/captures"
	body := `{"stepId":"turn:1:model","attempt":1,"provider":"anthropic","model":"m","class":"reasoning","capture":true,` +
		`"subjects":["` + canarySubject + `"],"reasoning":[` +
		`{"kind":"text","text":"` + canaryText + `","signature":"sig"},` +
		`{"kind":"redacted","signature":"opaque"},{"kind":"summary","text":"","provider":"other"},{"kind":"summary","text":"short"}]}`
	a := e.ask("runtime", "POST", path, body)
	a.want(t, http.StatusCreated, "")
	var got wire.Captured
	a.into(t, &got)
	ref0, ref3 := got.Parts[0].TextRef, got.Parts[3].TextRef
	digest0 := "d01c3734832e78be9ae70774b905934025a6ad27e5be3379eb2517204b1295ec"
	digest3 := "f9b0078b5df596d2ea19010c001bbd009e651de2c57e8fb7e355f31eb9d3f739"
	want := fmt.Sprintf(`{"parts":[`+
		`{"type":"reasoning","kind":"text","provider":"anthropic","signature":"sig","textRef":%q,"digest":%q},`+
		`{"type":"reasoning","kind":"redacted","provider":"anthropic","signature":"opaque"},`+
		`{"type":"reasoning","kind":"summary","provider":"other"},`+
		`{"type":"reasoning","kind":"summary","provider":"anthropic","textRef":%q,"digest":%q}],`+
		`"event":{"stepId":"turn:1:model","attempt":1,"provider":"anthropic","model":"m","parts":[`+
		`{"kind":"text","ref":%q,"digest":%q,"size":37},{"kind":"redacted"},{"kind":"summary"},`+
		`{"kind":"summary","ref":%q,"digest":%q,"size":5}]}}`, ref0, digest0, ref3, digest3, ref0, digest0, ref3, digest3)
	if string(a.body) != want {
		t.Errorf("answer\n%s\nwant\n%s", a.body, want)
	}
	again := e.ask("runtime", "POST", path, body)
	again.want(t, http.StatusCreated, "")
	if string(again.body) != want {
		t.Errorf("the same capture again answers\n%s\nwant\n%s", again.body, want)
	}
	off := e.ask("runtime", "POST", path, strings.Replace(body, `"capture":true`, `"capture":false`, 1))
	off.want(t, http.StatusCreated, "")
	var dropped wire.Captured
	off.into(t, &dropped)
	if dropped.Event != nil || !dropped.Parts[0].Omitted || dropped.Parts[1].Omitted || dropped.Parts[2].Omitted || dropped.Parts[0].TextRef != "" {
		t.Errorf("capture off: %s", off.body)
	}

	read := e.ask("auditor", "POST", "/v1/executions/x/reasoning/read", `{"purpose":"`+canaryPurpose+`","stepPrefix":"turn:"}`)
	read.want(t, http.StatusOK, "")
	var answer wire.ReadAnswer
	read.into(t, &answer)
	first := answer.Parts[0]
	if first.Status != "ok" || first.Content == nil || string(first.Content.Text.Bytes()) != canaryText ||
		!first.Content.Untrusted || first.Content.Origin != "llm-reasoning:turn:1:model" || first.Digest != digest0 {
		t.Errorf("read: %s", read.body)
	}
	event := `{"stepId":"turn:1:model","attempt":1,"provider":"anthropic","parts":[{"kind":"text","ref":"` + ref0 +
		`","digest":"` + strings.Repeat("0", 64) + `"}]}`
	read = e.ask("auditor", "POST", "/v1/executions/x/reasoning/read", `{"purpose":"p","events":[`+event+`],"recorded":{"turn:1:model":2}}`)
	read.want(t, http.StatusOK, "")
	answer = wire.ReadAnswer{}
	read.into(t, &answer)
	if p := answer.Parts[0]; p.Status != "digest-mismatch" || !p.Superseded || p.Content != nil {
		t.Errorf("read with another digest: %s", read.body)
	}
	refuseCanaries(t, "the log", e.logs.String(), e)
}

func TestErasedExecutionRefusesPuts(t *testing.T) {
	e := newEnv(t)
	s := e.put("x", canaryText)
	e.ask("dpo", "POST", "/v1/erasures", `{"scope":{"executionId":"x","refs":["`+s.Ref+`"]},"reason":"r"}`).want(t, 202, "")
	e.ask("runtime", "POST", "/v1/executions/x/blobs", canaryText).want(t, http.StatusGone, wire.CodeBlobErased)
	capture := `{"reasoning":[{"kind":"text","text":"` + canaryText + `"}]}`
	a := e.ask("runtime", "POST", "/v1/executions/x/captures", capture)
	a.want(t, http.StatusCreated, "")
	if !strings.Contains(string(a.body), `"omitted":true`) {
		t.Errorf("a capture of an erased blob: %s", a.body)
	}
	e.eraseAll("x")
	e.ask("runtime", "POST", "/v1/executions/x/blobs", "new").want(t, http.StatusGone, wire.CodeExecutionErased)
	e.ask("runtime", "POST", "/v1/executions/x/captures", capture).want(t, http.StatusGone, wire.CodeExecutionErased)
	e.eraseAll("never-seen")
	e.ask("runtime", "POST", "/v1/executions/never-seen/blobs", "new").want(t, http.StatusGone, wire.CodeExecutionErased)
}

func TestErasure(t *testing.T) {
	e := newEnv(t)
	s := e.put("x", canaryText)
	e.put("x", "second")
	dry := e.ask("dpo", "POST", "/v1/erasures", `{"scope":{"executionId":"x"},"reason":"r","dryRun":true}`)
	dry.want(t, http.StatusOK, "")
	var d wire.DryRun
	dry.into(t, &d)
	e.ask("runtime", "GET", "/v1/executions/x/blobs/"+s.Ref, "").want(t, http.StatusOK, "")

	a := e.ask("dpo", "POST", "/v1/erasures", `{"scope":{"executionId":"x"},"reason":"`+canaryPurpose+`","legalBasis":"art 17","regime":"gdpr",`+
		`"receivedAt":"2026-01-02T03:04:05+01:00","dueAt":"2026-02-02T03:04:05Z","externalRef":"T-1"}`)
	a.want(t, http.StatusAccepted, "")
	var got wire.Erasure
	a.into(t, &got)
	if loc := a.header.Get("Location"); loc != "/v1/erasures/"+got.ID {
		t.Errorf("Location = %q", loc)
	}
	at := func(s string) *time.Time {
		v, err := time.Parse(time.RFC3339, s)
		must(t, err)
		return &v
	}
	x, regime, ticket := "x", "gdpr", "T-1"
	want := wire.Erasure{
		ID: got.ID, State: "running", RequestedBy: got.RequestedBy, ApprovedBy: []string{}, RequestedAt: got.RequestedAt,
		Scope: wire.Covered{Form: "execution", ExecutionID: &x}, Outcomes: map[wire.Outcome]int64{}, Regime: &regime, ExternalRef: &ticket,
		Plan:       wire.Plan{Digest: d.Plan.Digest, Executions: 1, Blobs: 2, Bytes: 43},
		Progress:   wire.Progress{Remaining: 2},
		ReceivedAt: at("2026-01-02T02:04:05Z"), DueAt: at("2026-02-02T03:04:05Z"),
		Items: []wire.ErasureItem{{ExecutionID: &x, State: "running"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("erasure (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want.Plan, d.Plan); diff != "" {
		t.Errorf("plan of the dry run (-want +got):\n%s", diff)
	}
	e.ask("runtime", "GET", "/v1/executions/x/blobs/"+s.Ref, "").want(t, http.StatusNotFound, wire.CodeNull)

	e.runErasures()
	done := e.ask("dpo", "GET", "/v1/erasures/"+got.ID, "")
	done.want(t, http.StatusOK, "")
	var after wire.Erasure
	done.into(t, &after)
	if after.State != "erased" || after.ErasedAt == nil || after.Progress.KeysDestroyed != 2 ||
		after.Progress.ObjectsDeleted != 2 || after.Progress.Remaining != 0 || after.Progress.Failed != 0 {
		t.Errorf("after the second half: %s", done.body)
	}
	if strings.Contains(string(done.body), canaryPurpose) {
		t.Error("the answer repeats the reason")
	}
	e.ask("dpo", "GET", "/v1/erasures/none", "").want(t, http.StatusNotFound, wire.CodeNotFound)
	must(t, second(e))
	e.ask(e.newToken("second", "dpo"), "GET", "/v1/erasures/"+got.ID, "").want(t, http.StatusNotFound, wire.CodeNotFound)
	refuseCanaries(t, "the log", e.logs.String(), e)
}

func TestErasureOfRefs(t *testing.T) {
	e := newEnv(t)
	s := e.put("x", canaryText)
	kept := e.put("x", "kept")
	a := e.ask("dpo", "POST", "/v1/erasures", fmt.Sprintf(`{"scope":{"executionId":"x","refs":[%q,%q,%q]},"reason":"r"}`, s.Ref, s.Ref, anyRef))
	a.want(t, http.StatusAccepted, "")
	var got wire.Erasure
	a.into(t, &got)
	if got.Plan.Blobs != 1 || got.Plan.NotFound != 1 || len(got.Items) != 2 || got.Items[0].Ref == "" {
		t.Errorf("erasure of refs: %s", a.body)
	}
	var list wire.Erasures
	e.ask("dpo", "GET", "/v1/erasures?state=running", "").into(t, &list)
	if len(list.Items) != 1 || list.Items[0].ID != got.ID || list.Items[0].Items != nil {
		t.Errorf("list = %+v", list)
	}
	e.ask("runtime", "GET", "/v1/executions/x/blobs/"+kept.Ref, "").want(t, http.StatusOK, "")
}

// Pages follow each other without gap or repeat, and the last has no next.
func TestPages(t *testing.T) {
	e := newEnv(t)
	for i := range 5 {
		e.put(fmt.Sprint("x", i), canaryText)
		e.eraseAll(fmt.Sprint("e", i))
		e.clock.add(time.Second)
		e.newToken("default", "dpo")
		if _, err := e.store.CreateTenant(t.Context(), fmt.Sprint("t", i), ""); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]int{"/v1/executions": 10, "/v1/executions?state=open": 5, "/v1/erasures": 5, "/v1/tenants": 6, "/v1/tokens": 13} {
		for _, limit := range []int{1, 3, 5, 100} {
			if got := e.countPages(path, limit); got != want {
				t.Errorf("%s in pages of %d: %d, want %d", path, limit, got, want)
			}
		}
	}
}

func (e *env) countPages(path string, limit int) int {
	e.t.Helper()
	role := map[bool]string{true: "auditor", false: "dpo"}[strings.HasPrefix(path, "/v1/executions")]
	if strings.HasPrefix(path, "/v1/t") {
		role = "admin"
	}
	join := map[bool]string{true: "&", false: "?"}[strings.Contains(path, "?")]
	seen := make(map[string]bool)
	for cursor := ""; ; {
		a := e.ask(role, "GET", fmt.Sprint(path, join, "limit=", limit, "&cursor=", cursor), "")
		a.want(e.t, http.StatusOK, "")
		var page struct {
			Items []struct{ ID, ExecutionID string }
			Next  *string
		}
		a.into(e.t, &page)
		if len(page.Items) > limit {
			e.t.Fatalf("%s: a page of %d has %d", path, limit, len(page.Items))
		}
		for _, i := range page.Items {
			seen[i.ID+i.ExecutionID] = true
		}
		if page.Next == nil {
			return len(seen)
		}
		if len(page.Items) == 0 {
			e.t.Fatalf("%s: an empty page has a next", path)
		}
		cursor = *page.Next
	}
}

func TestExecutionMetadata(t *testing.T) {
	e := newEnv(t)
	e.put("a%2Fb", canaryText)
	e.ask("runtime", "POST", "/v1/executions/-/blobs?class=notes&stepId=s2", "more", wire.HeaderExecutionID, b64("a/b")).want(t, http.StatusCreated, "")
	a := e.ask("auditor", "GET", "/v1/executions/a%2fb", "")
	a.want(t, http.StatusOK, "")
	var got wire.ExecutionSummary
	a.into(t, &got)
	if *got.ExecutionID != "a/b" || got.State != "open" || got.Blobs != 2 || got.Bytes != 41 || got.Steps != 2 || got.NextDue == nil || !got.NextDue.Equal(got.CreatedAt.AddDate(1, 0, 0)) ||
		got.Holds == nil || !cmp.Equal(got.Classes, map[string]int64{"reasoning": 1, "notes": 1}) {
		t.Errorf("execution: %s", a.body)
	}
	// A padded header says the same, and "-" without the header is an id.
	e.ask("auditor", "GET", "/v1/executions/-", "", wire.HeaderExecutionID, "YS9i").want(t, http.StatusOK, "")
	e.ask("auditor", "GET", "/v1/executions/-", "").want(t, http.StatusNotFound, wire.CodeNotFound)
	e.eraseAll("gone")
	gone := e.ask("auditor", "GET", "/v1/executions/gone", "")
	gone.want(t, http.StatusOK, "")
	if !strings.Contains(string(gone.body), `"state":"erased"`) {
		t.Errorf("an erased execution: %s", gone.body)
	}
}

func TestTenantsAndTokens(t *testing.T) {
	e := newEnv(t)
	// With one tenant, a token with every role need not name it.
	e.ask("all", "POST", "/v1/executions/x/blobs", "a").want(t, http.StatusCreated, "")
	made := e.ask("admin", "POST", "/v1/tenants", `{"id":"acme"}`)
	made.want(t, http.StatusCreated, "")
	if made.header.Get("Location") != "/v1/tenants/acme" {
		t.Errorf("Location = %q", made.header.Get("Location"))
	}
	e.ask("admin", "POST", "/v1/tenants", `{"id":"acme"}`).want(t, http.StatusConflict, wire.CodeConflict)
	e.ask("admin", "GET", "/v1/tenants/acme", "").want(t, http.StatusOK, "")
	e.ask("admin", "GET", "/v1/tenants/none", "").want(t, http.StatusNotFound, wire.CodeNotFound)
	// With two it must, and at once.
	e.ask("all", "POST", "/v1/executions/x/blobs", "a").want(t, http.StatusBadRequest, wire.CodeInvalid)
	e.ask("all", "POST", "/v1/executions/x/blobs", "a", wire.HeaderTenant, "default").want(t, http.StatusOK, "")
	e.ask("all", "POST", "/v1/executions/x/blobs", "a", wire.HeaderTenant, "acme").want(t, http.StatusCreated, "")
	e.ask("all", "POST", "/v1/executions/x/blobs", "a", wire.HeaderTenant, "none").want(t, http.StatusNotFound, wire.CodeNotFound)
	e.ask("all", "GET", "/v1/tenants", "").want(t, http.StatusOK, "")
	e.ask("all", "GET", "/v1/tokens", "").want(t, http.StatusBadRequest, wire.CodeInvalid)
	e.ask("all", "POST", "/v1/tokens", `{"roles":["dpo"]}`).want(t, http.StatusBadRequest, wire.CodeInvalid)
	e.ask("runtime", "POST", "/v1/executions/x/blobs", "a").want(t, http.StatusOK, "") // one role: nothing to name

	for _, how := range [][]string{{`{"roles":["runtime","runtime"],"name":"n"}`, wire.HeaderTenant, "acme"}, {`{"roles":["runtime"],"tenant":"acme"}`}} {
		a := e.ask("all", "POST", "/v1/tokens", how[0], how[1:]...)
		a.want(t, http.StatusCreated, "")
		var token wire.CreatedToken
		a.into(t, &token)
		if token.Tenant != "acme" || !cmp.Equal(token.Roles, []string{"runtime"}) || !strings.HasPrefix(token.Secret, "blobd_") {
			t.Fatalf("token: %s", a.body)
		}
		e.ask(token.Secret, "POST", "/v1/executions/new/blobs", how[0]).want(t, http.StatusCreated, "") // works at once
		one := e.ask("admin", "GET", "/v1/tokens/"+token.ID, "", wire.HeaderTenant, "acme")
		one.want(t, http.StatusOK, "")
		if strings.Contains(string(one.body), token.Secret) {
			t.Error("a token is shown twice")
		}
		e.ask("admin", "DELETE", "/v1/tokens/"+token.ID, "").want(t, http.StatusNotFound, wire.CodeNotFound) // not of this tenant
		e.ask("admin", "DELETE", "/v1/tokens/"+token.ID, "", wire.HeaderTenant, "acme").want(t, http.StatusNoContent, "")
		e.ask("admin", "DELETE", "/v1/tokens/"+token.ID, "", wire.HeaderTenant, "acme").want(t, http.StatusNoContent, "")
		e.ask(token.Secret, "POST", "/v1/executions/new/blobs", "a").want(t, http.StatusUnauthorized, wire.CodeUnauthenticated)
	}
	e.ask("admin", "POST", "/v1/tokens", `{"roles":["dpo"],"tenant":"acme"}`, wire.HeaderTenant, "default").want(t, http.StatusBadRequest, wire.CodeInvalid)
	e.ask("admin", "POST", "/v1/tokens", `{"roles":["dpo"],"tenant":"none"}`).want(t, http.StatusNotFound, wire.CodeNotFound)
	refuseCanaries(t, "the log", e.logs.String(), e)
}

// A token that another node revoked, or that ends, is believed for no longer
// than the cache says.
func TestTokenCacheBound(t *testing.T) {
	e := newEnv(t)
	token := e.newToken("default", "runtime")
	const path = "/v1/executions/x/blobs"
	e.ask(token, "POST", path, "a").want(t, http.StatusCreated, "")
	rows, err := e.ledger.ListTokens(t.Context(), "default", "", 1000)
	must(t, err)
	for _, row := range rows {
		if len(row.Roles) == 1 && row.Roles[0] == "runtime" {
			must(t, e.store.RevokeToken(t.Context(), "default", row.ID, "")) // past the API, as another node would
		}
	}
	e.clock.add(5*time.Second - time.Nanosecond)
	e.ask(token, "POST", path, "a").want(t, http.StatusOK, "")
	e.clock.add(time.Nanosecond)
	e.ask(token, "POST", path, "a").want(t, http.StatusUnauthorized, wire.CodeUnauthenticated)

	ends := e.clock.now().Add(2 * time.Second).Format(time.RFC3339Nano)
	a := e.ask("admin", "POST", "/v1/tokens", `{"roles":["runtime"],"expiresAt":"`+ends+`"}`)
	a.want(t, http.StatusCreated, "")
	var short wire.CreatedToken
	a.into(t, &short)
	e.ask(short.Secret, "POST", path, "a").want(t, http.StatusOK, "")
	e.clock.add(2 * time.Second)
	e.ask(short.Secret, "POST", path, "a").want(t, http.StatusUnauthorized, wire.CodeUnauthenticated)
}
