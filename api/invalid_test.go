package api_test

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"github.com/blobd/blobd/api"
	"github.com/blobd/blobd/api/wire"
)

const anyRef = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// bad is one request that must be refused.
type bad struct {
	name               string
	role, method, path string
	body               string
	headers            []string
	status             int
	code               wire.Code
}

func b64(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

func badPaths() []bad {
	long := strings.Repeat("a", 257)
	get := func(name, path string) bad {
		return bad{name, "runtime", "GET", path, "", nil, 400, wire.CodeInvalid}
	}
	return []bad{
		get("id too long", "/v1/executions/"+long+"/blobs/"+anyRef),
		get("id with a control character", "/v1/executions/a%01b/blobs/"+anyRef),
		get("id with NUL", "/v1/executions/a%00b/blobs/"+anyRef),
		get("id that is not UTF-8", "/v1/executions/a%FFb/blobs/"+anyRef),
		get("id .", "/v1/executions/%2E/blobs/"+anyRef),
		get("id ..", "/v1/executions/%2E%2E/blobs/"+anyRef),
		get("ref in upper case", "/v1/executions/x/blobs/"+strings.ToUpper(anyRef)),
		get("ref without its algorithm", "/v1/executions/x/blobs/"+anyRef[7:]),
		get("ref too short", "/v1/executions/x/blobs/"+anyRef[:70]),
		get("ref that climbs", "/v1/executions/x/blobs/..%2F..%2Fetc%2Fpasswd"),
		get("ref of 10 KB", "/v1/executions/x/blobs/"+strings.Repeat("a", 10_000)),
		get("stepId too long", "/v1/executions/x/blobs/"+anyRef+"?stepId="+strings.Repeat("s", 513)),
		get("query key twice", "/v1/executions/x/blobs/"+anyRef+"?stepId=a&stepId=b"),
		get("query key twice, escaped", "/v1/executions/x/blobs/"+anyRef+"?stepId=a&step%49d=b"),
		get("unknown query key", "/v1/executions/x/blobs/"+anyRef+"?other=1"),
		get("query with a semicolon", "/v1/executions/x/blobs/"+anyRef+"?stepId=a;origin=b"),
		get("query that is not UTF-8", "/v1/executions/x/blobs/"+anyRef+"?stepId=%FF"),
		get("query with a bad escape", "/v1/executions/x/blobs/"+anyRef+"?stepId=%zz"),
		{"expected digest", "runtime", "GET", "/v1/executions/x/blobs/" + anyRef, "", []string{"Blobd-Expect-Digest", "ABC"}, 400, wire.CodeInvalid},
		{"principal not base64url", "runtime", "GET", "/v1/executions/x/blobs/" + anyRef, "", []string{"Blobd-Principal", "{}"}, 400, wire.CodeInvalid},
		{"principal without actor", "runtime", "GET", "/v1/executions/x/blobs/" + anyRef, "", []string{"Blobd-Principal", b64(`{"tenant":"t"}`)}, 400, wire.CodeInvalid},
		{"principal with more", "runtime", "GET", "/v1/executions/x/blobs/" + anyRef, "", []string{"Blobd-Principal", b64(`{"tenant":"t","actor":"a","x":1}`)}, 400, wire.CodeUnknownField},
		{"id in a header beside one in the path", "runtime", "GET", "/v1/executions/x/blobs/" + anyRef, "", []string{"Blobd-Execution-Id", b64("x")}, 400, wire.CodeInvalid},
		{"id in a header that is no base64url", "runtime", "GET", "/v1/executions/-/blobs/" + anyRef, "", []string{"Blobd-Execution-Id", "a/b+"}, 400, wire.CodeInvalid},
		{"empty id in a header", "runtime", "GET", "/v1/executions/-/blobs/" + anyRef, "", []string{"Blobd-Execution-Id", ""}, 400, wire.CodeInvalid},
		{"limit 0", "auditor", "GET", "/v1/executions?limit=0", "", nil, 400, wire.CodeInvalid},
		{"limit 1001", "auditor", "GET", "/v1/executions?limit=1001", "", nil, 400, wire.CodeInvalid},
		{"limit in words", "auditor", "GET", "/v1/executions?limit=ten", "", nil, 400, wire.CodeInvalid},
		{"cursor", "auditor", "GET", "/v1/executions?cursor=%21", "", nil, 400, wire.CodeInvalid},
		{"cursor of something else", "dpo", "GET", "/v1/erasures?cursor=" + b64("x"), "", nil, 400, wire.CodeInvalid},
		{"state of an execution", "auditor", "GET", "/v1/executions?state=gone", "", nil, 400, wire.CodeInvalid},
		{"state of an erasure", "dpo", "GET", "/v1/erasures?state=gone", "", nil, 400, wire.CodeInvalid},
		{"class in a listing", "auditor", "GET", "/v1/executions?class=A", "", nil, 400, wire.CodeInvalid},
	}
}

func badPuts() []bad {
	put := func(name, query string, headers ...string) bad {
		return bad{name, "runtime", "POST", "/v1/executions/x/blobs" + query, canaryText, headers, 400, wire.CodeInvalid}
	}
	withCode := func(b bad, status int, code wire.Code) bad {
		b.status, b.code = status, code
		return b
	}
	tooLarge := strings.Repeat("x", 4097)
	list := []bad{
		put("class", "?class=Notes"),
		put("class too long", "?class="+strings.Repeat("a", 64)),
		put("kind", "?kind=other"),
		put("redacted kind", "?kind=redacted"),
		put("attempt", "?attempt=-1"),
		put("attempt with a fraction", "?attempt=1.5"),
		put("attempt beyond range", "?attempt=9223372036854775808"),
		put("stepId with a control character", "?stepId=%0A"),
		put("provider too long", "?provider="+strings.Repeat("p", 257)),
		put("Repr-Digest that is no dictionary", "", "Repr-Digest", "sha-256=::x"),
		put("Repr-Digest of a wrong size", "", "Repr-Digest", "sha-256=:AAAA:"),
		put("Repr-Digest of a wrong type", "", "Repr-Digest", `sha-256="abc"`),
		put("subjects that are no list", "", "Blobd-Subjects", `"`+canarySubject),
		put("subjects that are tokens", "", "Blobd-Subjects", "canary"),
		put("subjects that are numbers", "", "Blobd-Subjects", "1, 2"),
		put("empty subject", "", "Blobd-Subjects", `""`),
		put("audience that is an object", "", "Blobd-Audience", b64(`{"tenant":"t","actor":"a"}`)),
		put("audience cut short", "", "Blobd-Audience", b64(`[{"tenant":"t","actor":"a"}`)),
		put("audience with stray bits", "", "Blobd-Audience", "W11"),
		put("two audiences", "", "Blobd-Audience", b64(`[]`), "Blobd-Audience", b64(`[]`)),
		put("Content-Type", "", "Content-Type", "text"),
		put("Content-Type too long", "", "Content-Type", "text/plain; x="+strings.Repeat("y", 256)),
		put("two Content-Types", "", "Content-Type", "text/plain", "Content-Type", "text/html"),
		withCode(put("other digest", "", "Repr-Digest", "sha-256=:"+strings.Repeat("A", 43)+"=:"), 400, wire.CodeDigestMismatch),
		withCode(put("Content-Encoding", "", "Content-Encoding", "gzip"), 415, wire.CodeUnsupportedEncoding),
		withCode(put("Content-Encoding identity", "", "Content-Encoding", "identity"), 415, wire.CodeUnsupportedEncoding),
	}
	text := put("text that is not UTF-8", "", "Content-Type", "text/markdown")
	text.body, text.code = "\xff"+canaryText, wire.CodeInvalidUTF8
	asJSON := put("JSON that is not UTF-8", "", "Content-Type", "application/json")
	asJSON.body, asJSON.code = "\xc3\x28", wire.CodeInvalidUTF8
	large := put("too large", "")
	large.body, large.status, large.code = tooLarge, 413, wire.CodeTooLarge
	named := put("a wrong class beats too large", "?class=A")
	named.body = tooLarge
	return append(list, text, asJSON, large, named)
}

func badJSON() []bad {
	const captures, resolve, read = "/v1/executions/x/captures", "/v1/executions/x/resolve", "/v1/executions/x/reasoning/read"
	part := `{"kind":"text","text":"` + canaryText + `"}`
	rows := []struct {
		name, role, path, body string
		code                   wire.Code
	}{
		{"empty body", "runtime", captures, ``, wire.CodeInvalid},
		{"null", "runtime", captures, `null`, wire.CodeInvalid},
		{"array", "runtime", captures, `[]`, wire.CodeInvalid},
		{"cut short", "runtime", captures, `{"reasoning":[` + part, wire.CodeInvalid},
		{"second value", "runtime", captures, `{"reasoning":[` + part + `]} {}`, wire.CodeInvalid},
		{"trailing word", "runtime", captures, `{"reasoning":[` + part + `]}x`, wire.CodeInvalid},
		{"byte order mark", "runtime", captures, "\ufeff" + `{"reasoning":[` + part + `]}`, wire.CodeInvalid},
		{"unknown field", "runtime", captures, `{"canary":1,"reasoning":[` + part + `]}`, wire.CodeUnknownField},
		{"unknown field in a part", "runtime", captures, `{"reasoning":[{"kind":"text","Text":"` + canaryText + `"}]}`, wire.CodeUnknownField},
		{"field in another case", "runtime", captures, `{"Reasoning":[` + part + `]}`, wire.CodeUnknownField},
		{"field twice", "runtime", captures, `{"stepId":"a","stepId":"b","reasoning":[` + part + `]}`, wire.CodeInvalid},
		{"not UTF-8", "runtime", captures, "{\"stepId\":\"\xff\",\"reasoning\":[" + part + "]}", wire.CodeInvalidUTF8},
		{"lone high surrogate", "runtime", captures, `{"reasoning":[{"kind":"text","text":"a\ud800b"}]}`, wire.CodeInvalidUTF8},
		{"lone low surrogate", "runtime", captures, `{"reasoning":[{"kind":"text","text":"\udc00"}]}`, wire.CodeInvalidUTF8},
		{"surrogates the wrong way round", "runtime", captures, `{"reasoning":[{"kind":"text","text":"\udc00\ud800"}]}`, wire.CodeInvalidUTF8},
		{"bad escape", "runtime", captures, `{"reasoning":[{"kind":"text","text":"\x"}]}`, wire.CodeInvalid},
		{"text that is a number", "runtime", captures, `{"reasoning":[{"kind":"text","text":1}]}`, wire.CodeInvalid},
		{"attempt beyond range", "runtime", captures, `{"attempt":9223372036854775808,"reasoning":[` + part + `]}`, wire.CodeInvalid},
		{"attempt with a fraction", "runtime", captures, `{"attempt":1.5,"reasoning":[` + part + `]}`, wire.CodeInvalid},
		{"attempt as text", "runtime", captures, `{"attempt":"1","reasoning":[` + part + `]}`, wire.CodeInvalid},
		{"attempt below 0", "runtime", captures, `{"attempt":-1,"reasoning":[` + part + `]}`, wire.CodeInvalid},
		{"no parts", "runtime", captures, `{"reasoning":[]}`, wire.CodeInvalid},
		{"no kind", "runtime", captures, `{"reasoning":[{"text":"` + canaryText + `"}]}`, wire.CodeInvalid},
		{"unknown kind", "runtime", captures, `{"reasoning":[{"kind":"canary","text":"t"}]}`, wire.CodeInvalid},
		{"redacted with text", "runtime", captures, `{"reasoning":[{"kind":"redacted","text":"` + canaryText + `"}]}`, wire.CodeInvalid},
		{"class", "runtime", captures, `{"class":"_","reasoning":[` + part + `]}`, wire.CodeInvalid},
		{"stepId", "runtime", captures, `{"stepId":"\u0000","reasoning":[` + part + `]}`, wire.CodeInvalid},
		{"empty subject", "runtime", captures, `{"subjects":[""],"reasoning":[` + part + `]}`, wire.CodeInvalid},
		{"audience without actor", "runtime", captures, `{"audience":[{"tenant":"t"}],"reasoning":[` + part + `]}`, wire.CodeInvalid},
		{"resolve: no parts", "runtime", resolve, `{}`, wire.CodeInvalid},
		{"resolve: bad ref", "runtime", resolve, `{"parts":[{"ref":"sha256:0"}]}`, wire.CodeInvalid},
		{"resolve: bad digest", "runtime", resolve, `{"parts":[{"ref":"` + anyRef + `","digest":"0"}]}`, wire.CodeInvalid},
		{"resolve: bad principal", "runtime", resolve, `{"principal":{},"parts":[]}`, wire.CodeInvalid},
		{"read: no purpose", "auditor", read, `{}`, wire.CodeInvalid},
		{"read: purpose too long", "auditor", read, `{"purpose":"` + strings.Repeat("p", 1025) + `"}`, wire.CodeInvalid},
		{"read: step twice", "auditor", read, `{"purpose":"p","stepId":"a","stepPrefix":"b"}`, wire.CodeInvalid},
		{"read: maxParts 0", "auditor", read, `{"purpose":"p","maxParts":0}`, wire.CodeInvalid},
		{"read: bad event", "auditor", read, `{"purpose":"p","events":[{"stepId":"s","attempt":1,"provider":"p","parts":[{"kind":"text","ref":"x"}]}]}`, wire.CodeInvalid},
		{"tenant id", "admin", "/v1/tenants", `{"id":"Acme"}`, wire.CodeInvalid},
		{"token without roles", "admin", "/v1/tokens", `{"roles":[]}`, wire.CodeInvalid},
		{"token with an unknown role", "admin", "/v1/tokens", `{"roles":["root"]}`, wire.CodeInvalid},
		{"token of the past", "admin", "/v1/tokens", `{"roles":["dpo"],"expiresAt":"2020-01-01T00:00:00Z"}`, wire.CodeInvalid},
		{"token with a wrong time", "admin", "/v1/tokens", `{"roles":["dpo"],"expiresAt":"tomorrow"}`, wire.CodeInvalid},
	}
	var out []bad
	for _, r := range rows {
		out = append(out, bad{r.name, r.role, "POST", r.path, r.body, nil, 400, r.code})
	}
	return out
}

func badErasures() []bad {
	rows := []struct {
		name, body string
		status     int
		code       wire.Code
	}{
		{"no scope", `{"reason":"r"}`, 400, wire.CodeInvalid},
		{"null scope", `{"scope":null,"reason":"r"}`, 400, wire.CodeInvalid},
		{"empty scope", `{"scope":{},"reason":"r"}`, 400, wire.CodeInvalid},
		{"two scopes", `{"scope":{"executionId":"x","tenant":true},"reason":"r"}`, 400, wire.CodeInvalid},
		{"no reason", `{"scope":{"executionId":"x"}}`, 400, wire.CodeInvalid},
		{"bad id", `{"scope":{"executionId":".."},"reason":"r"}`, 400, wire.CodeInvalid},
		{"refs alone", `{"scope":{"refs":["` + anyRef + `"]},"reason":"r"}`, 400, wire.CodeInvalid},
		{"no refs", `{"scope":{"refs":[],"executionId":"x"},"reason":"r"}`, 400, wire.CodeInvalid},
		{"refs that are null", `{"scope":{"refs":null,"executionId":"x"},"reason":"r"}`, 400, wire.CodeInvalid},
		{"subjects that are null", `{"scope":{"subjects":null,"executionId":"x"},"reason":"r"}`, 400, wire.CodeInvalid},
		{"a dry run that is null", `{"scope":{"executionId":"x"},"reason":"r","dryRun":null}`, 400, wire.CodeInvalid},
		{"bad ref", `{"scope":{"refs":["x"],"executionId":"x"},"reason":"r"}`, 400, wire.CodeInvalid},
		{"class alone", `{"scope":{"class":"notes"},"reason":"r"}`, 400, wire.CodeInvalid},
		{"time alone", `{"scope":{"capturedBefore":"2020-01-01T00:00:00Z"},"reason":"r"}`, 400, wire.CodeInvalid},
		{"bad class", `{"scope":{"class":"A","capturedBefore":"2020-01-01T00:00:00Z"},"reason":"r"}`, 400, wire.CodeInvalid},
		{"no subjects", `{"scope":{"subjects":[]},"reason":"r"}`, 400, wire.CodeInvalid},
		{"not the tenant", `{"scope":{"tenant":false},"reason":"r"}`, 400, wire.CodeInvalid},
		{"regime", `{"scope":{"executionId":"x"},"reason":"r","regime":"none"}`, 400, wire.CodeInvalid},
		{"grace below 0", `{"scope":{"executionId":"x"},"reason":"r","graceSeconds":-1}`, 400, wire.CodeInvalid},
		{"received in the future", `{"scope":{"executionId":"x"},"reason":"r","receivedAt":"2999-01-01T00:00:00Z"}`, 400, wire.CodeInvalid},
		{"due before received", `{"scope":{"executionId":"x"},"reason":"r","receivedAt":"2026-01-02T00:00:00Z","dueAt":"2026-01-01T00:00:00Z"}`, 400, wire.CodeInvalid},
		{"time without zone", `{"scope":{"executionId":"x"},"reason":"r","dueAt":"2026-01-01T00:00:00"}`, 400, wire.CodeInvalid},
		{"unknown field in scope", `{"scope":{"execution":"x"},"reason":"r"}`, 400, wire.CodeUnknownField},
		{"a wrong field beats one of a later version", `{"scope":{"tenant":true},"reason":"r","regime":"none"}`, 400, wire.CodeInvalid},
		{"tenant without a reason", `{"scope":{"tenant":true}}`, 400, wire.CodeInvalid},
		{"tenant and an execution", `{"scope":{"tenant":true,"executionId":"x"},"reason":"r"}`, 400, wire.CodeInvalid},
		{"empty subject", `{"scope":{"subjects":["a",""]},"reason":"r"}`, 400, wire.CodeInvalid},
		{"class before the first year", `{"scope":{"class":"notes","capturedBefore":"1969-12-31T23:59:59Z"},"reason":"r"}`, 400, wire.CodeInvalid},
		{"grace beyond 30 days", `{"scope":{"executionId":"x"},"reason":"r","graceSeconds":2592001}`, 400, wire.CodeInvalid},
		{"grace with a fraction", `{"scope":{"executionId":"x"},"reason":"r","graceSeconds":1.5}`, 400, wire.CodeInvalid},
		{"grace that is null", `{"scope":{"executionId":"x"},"reason":"r","graceSeconds":null}`, 400, wire.CodeInvalid},
		{"callback where no webhooks are told", `{"scope":{"executionId":"x"},"reason":"r","callback":"https://example.org/x"}`, 501, wire.CodeNotImplemented},
	}
	var out []bad
	for _, r := range rows {
		out = append(out, bad{"erasure: " + r.name, "dpo", "POST", "/v1/erasures", r.body, nil, r.status, r.code})
	}
	key := `{"scope":{"executionId":"x"},"reason":"r"}`
	for name, value := range map[string]string{
		"key too long": strings.Repeat("k", 256), "empty key": "", "key with a space": "a b", "key that is not ASCII": "é",
	} {
		out = append(out, bad{name, "dpo", "POST", "/v1/erasures", key, []string{wire.HeaderIdempotencyKey, value}, 400, wire.CodeInvalid})
	}
	return out
}

// Every refusal has its status and code, is a problem document, and repeats
// nothing of what was sent; nor does the log.
func TestRefusals(t *testing.T) {
	e := newEnv(t, func(c *api.Config) { c.MaxBlob, c.MaxBatch, c.MaxJSON = 4096, 8192, 64<<10 })
	for _, list := range [][]bad{badPaths(), badPuts(), badJSON(), badErasures(), badOrders()} {
		for _, b := range list {
			t.Run(b.name, func(t *testing.T) {
				a := e.ask(b.role, b.method, b.path, b.body, b.headers...)
				a.want(t, b.status, b.code)
				checkProblem(t, a)
			})
		}
	}
	refuseCanaries(t, "the log", e.logs.String(), e)
	if s, err := e.ledger.Stats(t.Context()); err != nil || s.Blobs != 0 || s.Executions != 0 {
		t.Errorf("refused requests left %+v, %v", s, err)
	}
}

func checkProblem(t *testing.T, a answer) {
	t.Helper()
	p := a.problem(t)
	if p.Type != "urn:blobd:problem:"+string(p.Code) || p.Title == "" || p.Detail == "" || p.Status != a.status {
		t.Errorf("problem = %+v", p)
	}
	if p.RequestID == "" || p.RequestID != a.header.Get(wire.HeaderRequestID) {
		t.Errorf("requestId = %q, header %q", p.RequestID, a.header.Get(wire.HeaderRequestID))
	}
	if a.header.Get("Cache-Control") != "no-store" || a.header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("headers = %v", a.header)
	}
	if a.header.Get(wire.HeaderResolution) != "" && p.Code != wire.CodeNull && p.Code != wire.CodeCorrupt {
		t.Errorf("a %s problem carries %s", p.Code, wire.HeaderResolution)
	}
	if strings.Contains(string(a.body), "anary") {
		t.Errorf("the problem repeats what was sent: %s", a.body)
	}
}

// refuseCanaries fails if a place holds what it must not.
func refuseCanaries(t *testing.T, place, content string, e *env) {
	t.Helper()
	for _, canary := range []string{canaryText, canarySubject, canaryPurpose} {
		if strings.Contains(content, canary) {
			t.Errorf("%s holds %q", place, canary)
		}
	}
	for role, token := range e.tokens {
		if strings.Contains(content, token) {
			t.Errorf("%s holds the token of %s", place, role)
		}
	}
}

// A limit of parts is 413, of one part too many.
func TestTooManyParts(t *testing.T) {
	e := newEnv(t, func(c *api.Config) { c.MaxBatch = 1000 })
	parts := func(n int, part string) string { return strings.Repeat(part+",", n-1) + part }
	e.ask("runtime", "POST", "/v1/executions/x/captures", `{"reasoning":[`+parts(257, `{"kind":"redacted"}`)+`]}`).
		want(t, http.StatusRequestEntityTooLarge, wire.CodeTooLarge)
	e.ask("runtime", "POST", "/v1/executions/x/captures", `{"reasoning":[`+parts(256, `{"kind":"redacted"}`)+`]}`).
		want(t, http.StatusCreated, "")
	e.ask("runtime", "POST", "/v1/executions/x/captures", `{"reasoning":[`+parts(2, `{"kind":"text","text":"`+strings.Repeat("x", 501)+`"}`)+`]}`).
		want(t, http.StatusRequestEntityTooLarge, wire.CodeTooLarge)
	e.ask("runtime", "POST", "/v1/executions/x/resolve", `{"parts":[`+parts(257, `{"ref":"`+anyRef+`"}`)+`]}`).
		want(t, http.StatusRequestEntityTooLarge, wire.CodeTooLarge)
	e.ask("runtime", "POST", "/v1/executions/x/resolve", `{"parts":[`+parts(256, `{"ref":"`+anyRef+`"}`)+`]}`).
		want(t, http.StatusOK, "")
}
