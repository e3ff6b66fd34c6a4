package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/blobd/blobd/api"
	"github.com/blobd/blobd/api/wire"
)

// Every answer that the server gives is one that its own document allows.
func TestAnswersFitTheDocument(t *testing.T) {
	e := newEnv(t, func(c *api.Config) { c.MaxBlob = 4096 })
	schemas := newSchemas(t, e.ask("", "GET", "/openapi.json", "").body)
	s := e.put("x", canaryText)
	e.eraseAll("gone")
	var erased wire.Erasures
	e.ask("dpo", "GET", "/v1/erasures", "").into(t, &erased)
	var token wire.CreatedToken
	e.ask("admin", "POST", "/v1/tokens", `{"roles":["dpo"]}`).into(t, &token)
	h := e.hold(`{"executionId":"held"}`)
	e.put("held", "held", subjects("bob")...)
	deferred := e.erase(`{"executionId":"held"}`, "")
	var restricted wire.Restriction
	e.ask("dpo", "POST", "/v1/restrictions", `{"scope":{"class":"notes"},"reason":"r"}`).into(t, &restricted)
	var suppressed wire.Suppression
	e.ask("dpo", "POST", "/v1/suppressions", `{"subjects":["carol"],"reason":"r"}`).into(t, &suppressed)
	const hold = `"matter":"m","reason":"r","owner":"o"}`
	read := `{"stepId":"s","reasoning":[{"kind":"text","text":"t"},{"kind":"redacted"}]}`
	samples := []struct {
		role, method, path, body string
		status                   int
	}{
		{"runtime", "POST", "/v1/executions/x/blobs?stepId=s", "new", 201},
		{"runtime", "POST", "/v1/executions/x/blobs", canaryText, 200},
		{"runtime", "GET", "/v1/executions/x/blobs/" + s.Ref, "", 200},
		{"runtime", "GET", "/v1/executions/x/blobs/" + anyRef, "", 404},
		{"runtime", "POST", "/v1/executions/x/captures", read, 201},
		{"runtime", "POST", "/v1/executions/x/captures", `{"reasoning":[{"kind":"redacted"}]}`, 201},
		{"runtime", "POST", "/v1/executions/x/resolve", `{"parts":[{"ref":"` + s.Ref + `"},{"ref":"` + anyRef + `"}]}`, 200},
		{"auditor", "POST", "/v1/executions/x/reasoning/read", `{"purpose":"p"}`, 200},
		{"auditor", "GET", "/v1/executions/x", "", 200},
		{"auditor", "GET", "/v1/executions/gone", "", 200},
		{"auditor", "GET", "/v1/executions", "", 200},
		{"dpo", "POST", "/v1/erasures", `{"scope":{"executionId":"y","refs":["` + anyRef + `"]},"reason":"r"}`, 202},
		{"dpo", "POST", "/v1/erasures", `{"scope":{"executionId":"y"},"reason":"r","dryRun":true}`, 200},
		{"dpo", "POST", "/v1/erasures", `{"scope":{"executionId":"held"},"reason":"r","dryRun":true}`, 200},
		{"dpo", "POST", "/v1/erasures", `{"scope":{"subjects":["bob"]},"reason":"r","dryRun":true}`, 200},
		{"dpo", "POST", "/v1/erasures", `{"scope":{"class":"c","capturedBefore":"2026-01-01T00:00:00Z"},"reason":"r"}`, 202},
		{"dpo", "GET", "/v1/erasures/" + deferred.ID, "", 200},
		{"dpo", "POST", "/v1/erasures/" + deferred.ID + "/cancel", "", 200},
		{"approver", "POST", "/v1/erasures/" + deferred.ID + "/deny", `{"code":"DUPLICATE"}`, 409},
		{"approver", "POST", "/v1/erasures/" + deferred.ID + "/approve", `{"planDigest":"` + deferred.Plan.Digest + `"}`, 409},
		{"holds", "POST", "/v1/holds", `{"scope":{"subjects":["bob"]},` + hold, 201},
		{"holds", "POST", "/v1/holds", `{"scope":{"tenant":true},"reviewAt":"2999-01-01T00:00:00Z",` + hold, 201},
		{"dpo", "GET", "/v1/holds?state=all", "", 200},
		{"dpo", "GET", "/v1/holds/" + h.ID, "", 200},
		{"holds", "DELETE", "/v1/holds/" + h.ID, `{"reason":"r"}`, 200},
		{"dpo", "POST", "/v1/restrictions", `{"scope":{"executionId":"r"},"reason":"r","purposes":["p"]}`, 201},
		{"dpo", "GET", "/v1/restrictions", "", 200},
		{"dpo", "GET", "/v1/restrictions/" + restricted.ID, "", 200},
		{"dpo", "DELETE", "/v1/restrictions/" + restricted.ID, "", 200},
		{"dpo", "POST", "/v1/suppressions", `{"subjects":["dave"],"reason":"r","expiresAt":"2999-01-01T00:00:00Z"}`, 201},
		{"dpo", "GET", "/v1/suppressions", "", 200},
		{"dpo", "GET", "/v1/suppressions/" + suppressed.ID, "", 200},
		{"dpo", "DELETE", "/v1/suppressions/" + suppressed.ID, "", 200},
		{"dpo", "GET", "/v1/blobs/" + s.Ref + "/explain", "", 200},
		{"dpo", "GET", "/v1/blobs/" + anyRef + "/explain", "", 404},
		{"dpo", "GET", "/v1/reports/erasures", "", 200},
		{"dpo", "GET", "/v1/reports/retention?from=2026-01-01", "", 200},
		{"dpo", "GET", "/v1/reports/holds", "", 200},
		{"dpo", "GET", "/v1/reports/sweeps", "", 200},
		{"admin", "PUT", "/v1/tenants/default/approvals", `{"erasures":0}`, 200},
		{"dpo", "GET", "/v1/erasures", "", 200},
		{"dpo", "GET", "/v1/erasures/" + erased.Items[0].ID, "", 200},
		{"admin", "POST", "/v1/tenants", `{"id":"acme"}`, 201},
		{"admin", "GET", "/v1/tenants", "", 200},
		{"admin", "GET", "/v1/tenants/acme", "", 200},
		{"admin", "POST", "/v1/tenants", `{"id":"leaver"}`, 201},
		{"admin", "DELETE", "/v1/tenants/leaver?dryRun=true", "", 200},
		{"admin", "DELETE", "/v1/tenants/leaver", "", 202},
		{"admin", "GET", "/v1/tenants/leaver", "", 200},
		{"admin", "GET", "/v1/tenants", "", 200},
		{"admin", "POST", "/v1/tokens", `{"roles":["dpo"],"tenant":"leaver"}`, 410},
		{"admin", "POST", "/v1/tokens", `{"roles":["dpo"]}`, 201},
		{"admin", "GET", "/v1/tokens", "", 200},
		{"admin", "GET", "/v1/tokens/" + token.ID, "", 200},
		{"admin", "DELETE", "/v1/tokens/" + token.ID, "", 204},
		{"", "GET", "/readyz?verbose=1", "", 200},
		{"dpo", "GET", "/v1/webhooks", "", 501},
		{"", "GET", "/v1/holds", "", 401},
		{"dpo", "POST", "/v1/tokens", "{}", 403},
		{"runtime", "POST", "/v1/executions/x/blobs", strings.Repeat("x", 4097), 413},
		{"runtime", "POST", "/v1/executions/gone/blobs", "x", 410},
	}
	for _, q := range samples {
		t.Run(fmt.Sprint(q.method, " ", q.path, " ", q.status), func(t *testing.T) {
			a := e.ask(q.role, q.method, q.path, q.body)
			a.want(t, q.status, "")
			schemas.check(t, q.method, q.path, a)
		})
	}
}

// schemas judge answers by the document that the server serves.
type schemas struct {
	paths    map[string]map[string]operation
	compiler *jsonschema.Compiler
}

type operation struct {
	Responses map[string]struct {
		Headers map[string]any
		Content map[string]any
	}
}

const documentURL = "https://blobd.test/openapi.json"

func newSchemas(t *testing.T, document []byte) schemas {
	t.Helper()
	var parsed struct {
		Paths map[string]map[string]operation
	}
	must(t, json.Unmarshal(document, &parsed))
	whole, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	must(t, err)
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	must(t, c.AddResource(documentURL, whole))
	return schemas{parsed.Paths, c}
}

// check holds an answer to its status, headers, media type and schema.
func (s schemas) check(t *testing.T, method, path string, a answer) {
	t.Helper()
	pattern := s.match(t, path)
	responses := s.paths[pattern][strings.ToLower(method)].Responses
	status := strconv.Itoa(a.status)
	if _, known := responses[status]; !known {
		status = "default"
	}
	for name := range responses[status].Headers {
		if a.header.Get(name) == "" {
			t.Errorf("no header %s", name)
		}
	}
	media, _, _ := strings.Cut(a.header.Get("Content-Type"), ";")
	content := responses[status].Content
	if len(content) == 0 && len(a.body) == 0 {
		return
	}
	if _, any := content["*/*"]; any {
		return
	}
	if _, known := content[media]; !known {
		t.Fatalf("%s is not documented", media)
	}
	escape := strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace
	schema, err := s.compiler.Compile(documentURL + "#/paths/" + escape(pattern) + "/" + strings.ToLower(method) +
		"/responses/" + status + "/content/" + escape(media) + "/schema")
	must(t, err)
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(a.body))
	must(t, err)
	if err := schema.Validate(v); err != nil {
		t.Errorf("%v\nanswer: %s", err, a.body)
	}
}

// match finds the documented path that a path is spelled by; the one with the
// fewest parameters is meant.
func (s schemas) match(t *testing.T, path string) string {
	t.Helper()
	path, _, _ = strings.Cut(path, "?")
	got := strings.Split(path, "/")
	best, fewest := "", len(got)+1
	for pattern := range s.paths {
		want := strings.Split(pattern, "/")
		same, params := len(want) == len(got), 0
		for i := 0; same && i < len(want); i++ {
			if strings.HasPrefix(want[i], "{") {
				params++
			} else {
				same = want[i] == got[i]
			}
		}
		if same && params < fewest {
			best, fewest = pattern, params
		}
	}
	if best == "" {
		t.Fatalf("%s is not documented", path)
	}
	return best
}

// The judge itself: an answer with a field too many, or of a wrong type, does
// not fit.
func TestSchemasRefuse(t *testing.T) {
	e := newEnv(t)
	s := newSchemas(t, e.ask("", "GET", "/openapi.json", "").body)
	schema, err := s.compiler.Compile(documentURL + "#/components/schemas/Stored")
	must(t, err)
	a := e.ask("runtime", "POST", "/v1/executions/x/blobs", canaryText)
	for name, change := range map[string]func(map[string]any){
		"a field too many": func(v map[string]any) { v["text"] = canaryText },
		"a missing field":  func(v map[string]any) { delete(v, "digest") },
		"a wrong type":     func(v map[string]any) { v["size"] = "37" },
		"a wrong time":     func(v map[string]any) { v["createdAt"] = "today" },
	} {
		var v map[string]any
		a.into(t, &v)
		must(t, schema.Validate(v))
		change(v)
		if schema.Validate(v) == nil {
			t.Errorf("an answer with %s fits", name)
		}
	}
}
