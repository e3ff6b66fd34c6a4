package api_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/blobd/blobd/api"
	"github.com/blobd/blobd/api/wire"
)

// rights is who may call what, written from the contract and not from the
// table of routes. A route of the contract that is not here fails the test.
func rights() map[string][]string {
	const (
		rt, au, dpo, ho, ap, op, ad = "runtime", "auditor", "dpo", "holds", "approver", "operator", "admin"
		x                           = "/v1/executions/{executionId}"
	)
	return map[string][]string{
		"POST " + x + "/blobs":               {rt},
		"GET " + x + "/blobs/{ref}":          {rt},
		"HEAD " + x + "/blobs/{ref}":         {rt},
		"POST " + x + "/captures":            {rt},
		"POST " + x + "/resolve":             {rt},
		"POST " + x + "/reasoning/read":      {au},
		"GET " + x:                           {au},
		"GET /v1/executions":                 {au},
		"GET /v1/blobs/{ref}/explain":        {dpo, au, op},
		"POST /v1/erasures":                  {dpo},
		"GET /v1/erasures":                   {dpo, ap},
		"GET /v1/erasures/{id}":              {dpo, ap},
		"POST /v1/erasures/{id}/approve":     {ap},
		"POST /v1/erasures/{id}/deny":        {ap, dpo},
		"POST /v1/erasures/{id}/cancel":      {dpo},
		"GET /v1/erasures/{id}/certificate":  {dpo, au},
		"POST /v1/erasures/{id}/clock":       {dpo},
		"POST /v1/holds":                     {ho},
		"GET /v1/holds":                      {ho, dpo},
		"PUT /v1/tenants/{id}/approvals":     {ad},
		"GET /v1/holds/{id}":                 {ho, dpo},
		"DELETE /v1/holds/{id}":              {ho},
		"GET /v1/policies":                   {dpo},
		"GET /v1/policies/{class}":           {dpo},
		"PUT /v1/policies/{class}":           {dpo},
		"DELETE /v1/policies/{class}":        {dpo},
		"POST /v1/policies/{class}/simulate": {dpo},
		"POST " + x + "/end":                 {rt},
		"POST /v1/restrictions":              {dpo},
		"GET /v1/restrictions":               {dpo},
		"GET /v1/restrictions/{id}":          {dpo},
		"DELETE /v1/restrictions/{id}":       {dpo},
		"GET /v1/suppressions":               {dpo},
		"GET /v1/suppressions/{id}":          {dpo},
		"POST /v1/suppressions":              {dpo},
		"DELETE /v1/suppressions/{id}":       {dpo},
		"GET /v1/reports/erasures":           {dpo},
		"GET /v1/reports/retention":          {dpo},
		"GET /v1/reports/holds":              {dpo},
		"GET /v1/reports/sweeps":             {dpo},
		"GET /v1/debt":                       {dpo, op},
		"GET /v1/webhooks":                   {dpo},
		"GET /v1/webhooks/{id}":              {dpo},
		"POST /v1/webhooks":                  {dpo},
		"DELETE /v1/webhooks/{id}":           {dpo},
		"POST /v1/webhooks/{id}/replay":      {dpo},
		"POST /v1/webhooks/{id}/rotate":      {dpo},
		"POST /v1/tenants":                   {ad},
		"GET /v1/tenants":                    {ad},
		"GET /v1/tenants/{id}":               {ad},
		"DELETE /v1/tenants/{id}":            {ad},
		"PUT /v1/tenants/{id}/capture-mode":  {ad},
		"POST /v1/tokens":                    {ad},
		"GET /v1/tokens":                     {ad},
		"GET /v1/tokens/{id}":                {ad},
		"DELETE /v1/tokens/{id}":             {ad},
		"GET /v1/clock":                      {op, ad},
		"POST /v1/clock/confirm":             {op, ad},
		"POST /v1/sweeps":                    {op},
		"GET /v1/sweeps":                     {op, dpo},
		"GET /v1/sweeps/{id}":                {op, dpo},
		"POST " + x + "/occurrences":         {rt},
		"GET " + x + "/usage":                {rt, au},
		"PUT " + x + "/continuation":         {rt},
		"GET " + x + "/continuation":         {rt},
		"DELETE " + x + "/continuation":      {rt},
		"POST " + x + "/steps/{stepId}/live": {rt},
		"GET " + x + "/steps/{stepId}/live":  {rt},
		"GET /v1/evidence/checkpoint":        {au, op},
		"GET /v1/evidence/tile/{path...}":    {au, op},
		"GET /v1/evidence/entries":           {au, op},
		"GET /v1/evidence/proof":             {au, op},
		"GET /v1/evidence/key":               {au, op},
		"GET /console":                       wire.Roles(),
		"GET /livez":                         nil,
		"GET /readyz":                        nil,
		"GET /metrics":                       nil,
		"GET /openapi.json":                  nil,
		"GET /docs":                          nil,
	}
}

// sample fills a pattern.
func sample(pattern string) (method, path string) {
	method, path, _ = strings.Cut(pattern, " ")
	return method, strings.NewReplacer(
		"{executionId}", "x", "{ref}", "sha256:"+strings.Repeat("0", 64), "{id}", "00000000-0000-0000-0000-000000000000",
		"{class}", "reasoning", "{stepId}", "s", "{path...}", "0/000",
	).Replace(path)
}

func TestEveryRoleOnEveryRoute(t *testing.T) {
	e := newEnv(t)
	must(t, second(e))
	foreign := make(map[string]string)
	for _, role := range wire.Roles() {
		foreign[role] = e.newToken("second", role)
	}
	rights := rights()
	for _, pattern := range api.Patterns(e.api) {
		if _, known := rights[pattern]; !known {
			t.Errorf("%s is in the table of routes and not in the contract", pattern)
		}
	}
	for pattern, roles := range rights {
		if !slices.Contains(api.Patterns(e.api), pattern) {
			t.Errorf("%s is in the contract and not in the table of routes", pattern)
			continue
		}
		method, path := sample(pattern)
		if roles == nil {
			if a := e.ask("", method, path, ""); a.status != http.StatusOK {
				t.Errorf("%s without a token: status = %d, want 200", pattern, a.status)
			}
			continue
		}
		for what, token := range map[string]string{"no token": "", "unknown token": "blobd_wrong"} {
			if a := e.ask(token, method, path, "{}"); a.status != http.StatusUnauthorized || a.header.Get("Www-Authenticate") != "Bearer" {
				t.Errorf("%s with %s: status = %d, want 401", pattern, what, a.status)
			}
		}
		for _, role := range wire.Roles() {
			may := slices.Contains(roles, role)
			for _, token := range []string{e.tokens[role], foreign[role]} {
				checkRight(t, pattern, role, may, e.ask(token, method, path, "{}"))
			}
			if role != wire.RoleAdmin {
				a := e.ask(role, method, path, "{}", wire.HeaderTenant, "default")
				if a.status != http.StatusForbidden {
					t.Errorf("%s as %s with %s: status = %d, want 403", pattern, role, wire.HeaderTenant, a.status)
				}
			}
		}
	}
}

func second(e *env) error {
	_, err := e.store.CreateTenant(e.t.Context(), "second", "")
	return err
}

func checkRight(t *testing.T, pattern, role string, may bool, a answer) {
	t.Helper()
	if !may {
		if a.status != http.StatusForbidden {
			t.Errorf("%s as %s: status = %d, want 403", pattern, role, a.status)
		}
		return
	}
	if a.status == http.StatusForbidden || a.status == http.StatusUnauthorized {
		t.Errorf("%s as %s: status = %d, want neither 401 nor 403", pattern, role, a.status)
	}
	if a.status == http.StatusNotFound && strings.Contains(string(a.body), string(wire.CodeNoSuchRoute)) {
		t.Errorf("%s as %s: no such route", pattern, role)
	}
}

// laterPatterns are the routes of the contract that this version answers with 501.
func laterPatterns() []string {
	const x = "/v1/executions/{executionId}"
	return []string{
		"POST " + x + "/occurrences", "GET " + x + "/usage", "PUT " + x + "/continuation", "GET " + x + "/continuation",
		"DELETE " + x + "/continuation", "POST " + x + "/steps/{stepId}/live", "GET " + x + "/steps/{stepId}/live",
		"GET /v1/webhooks", "GET /v1/webhooks/{id}", "POST /v1/webhooks", "DELETE /v1/webhooks/{id}", "POST /v1/webhooks/{id}/replay",
		"POST /v1/webhooks/{id}/rotate",
		"PUT /v1/tenants/{id}/capture-mode", "GET /console",
	}
}

// What is not there yet answers 501 and nothing else does, but for the log, which
// this server does not keep.
func TestRoutesOfLaterVersions(t *testing.T) {
	e := newEnv(t)
	for pattern, roles := range rights() {
		role := ""
		if roles != nil {
			role = roles[0]
		}
		method, url := sample(pattern)
		a := e.ask(role, method, url, `{"any":"thing"}`)
		later := slices.Contains(laterPatterns(), pattern) || strings.Contains(url, "/evidence/") || strings.HasSuffix(url, "/certificate")
		if later {
			a.want(t, http.StatusNotImplemented, wire.CodeNotImplemented)
		} else if a.status == http.StatusNotImplemented {
			t.Errorf("%s answers 501", pattern)
		}
	}
}

func TestWhatIsNoRoute(t *testing.T) {
	e := newEnv(t)
	for _, path := range []string{
		"/", "/v1", "/v1/", "/v1/nothing", "/v1/executions/", "/v1/executions//blobs", "//v1/executions", "/v1/./executions",
		"/v1/x/../executions", "/v1/executions/..", "/livez/", "/v1/evidence/tile", "/v1/executions/x/blobs/", "/V1/executions",
		"/v1/erasures/x/unknown", "/index.html", "/v1/executions/.", "/docs/../livez",
	} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", e.url, nil)
		must(t, err)
		r.URL.Opaque = "//" + r.URL.Host + path // as it is
		r.Header.Set("Authorization", "Bearer "+e.tokens["all"])
		a := e.send(r)
		if a.status != http.StatusNotFound || a.problem(t).Code != wire.CodeNoSuchRoute {
			t.Errorf("%s: status = %d, want 404 no_such_route; body %s", path, a.status, a.body)
		}
		if a.header.Get(wire.HeaderResolution) != "" {
			t.Errorf("%s carries %s", path, wire.HeaderResolution)
		}
	}
	for path, allow := range map[string]string{
		"/v1/executions/x/blobs": "POST", "/v1/tokens": "GET, HEAD, POST", "/livez": "GET, HEAD",
		"/v1/tokens/x": "DELETE, GET, HEAD", "/v1/executions/x/blobs/y": "GET, HEAD",
	} {
		a := e.ask("all", "PATCH", path, "")
		a.want(t, http.StatusMethodNotAllowed, wire.CodeMethodNotAllowed)
		if got := a.header.Get("Allow"); got != allow {
			t.Errorf("%s: Allow = %q, want %q", path, got, allow)
		}
	}
}

// The document describes every route of the contract and no other.
func TestOpenAPIHasEveryRoute(t *testing.T) {
	e := newEnv(t)
	a := e.ask("", "GET", "/openapi.json", "")
	a.want(t, http.StatusOK, "")
	var doc struct {
		OpenAPI string
		Paths   map[string]map[string]json.RawMessage
	}
	a.into(t, &doc)
	if doc.OpenAPI != "3.1.0" {
		t.Errorf("openapi = %q, want 3.1.0", doc.OpenAPI)
	}
	var got, want []string
	for path, methods := range doc.Paths {
		for method := range methods {
			got = append(got, strings.ToUpper(method)+" "+path)
		}
	}
	for pattern := range rights() {
		want = append(want, strings.Replace(pattern, "...}", "}", 1))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("documented:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
