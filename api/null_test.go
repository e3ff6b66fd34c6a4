package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/ledger"
)

// nulls are requests whose answer is the definitive null, each for another
// reason.
func nulls(t *testing.T, e *env) map[string][]string {
	t.Helper()
	at := func(execution, ref string, headers ...string) []string {
		return append([]string{"/v1/executions/" + execution + "/blobs/" + ref}, headers...)
	}
	principal := func(actor string) string { return b64(`{"tenant":"default","actor":"` + actor + `"}`) }
	mine := e.put("mine", canaryText)
	private := e.put("private", canaryText, wire.HeaderAudience, b64(`[{"tenant":"default","actor":"ann"}]`))
	gone := e.put("gone", canaryText)
	e.eraseAll("gone")
	one := e.put("one", canaryText)
	e.ask("dpo", "POST", "/v1/erasures", `{"scope":{"executionId":"one","refs":["`+one.Ref+`"]},"reason":"r"}`).want(t, 202, "")
	closed := e.put("closed", canaryText)
	tag, err := e.store.Tag(t.Context(), "default", "closed")
	must(t, err)
	entry := ledger.Entry{Tenant: "default", Kind: ledger.EntryOrder, At: e.clock.now(), Body: []byte(`{}`)}
	_, _, err = e.ledger.PlaceOrder(t.Context(), ledger.Order{
		ID: "restriction", Kind: ledger.OrderRestriction, Scope: ledger.Scope{Tenant: "default", Tag: tag, ExecutionID: "closed"},
		PlacedAt: e.clock.now(),
	}, entry)
	must(t, err)
	must(t, e.ledger.SetPolicy(t.Context(), ledger.Policy{
		Tenant: "default", Class: "short", Existing: true, Rule: ledger.Rule{Maximum: ledger.Period{Time: time.Hour}},
	}, entry))
	expired := e.ask("runtime", "POST", "/v1/executions/expired/blobs?class=short", canaryText)
	var short wire.Stored
	expired.into(t, &short)
	e.clock.add(2 * time.Hour)
	return map[string][]string{
		"never stored":             at("mine", anyRef),
		"of another execution":     at("other", mine.Ref),
		"execution erased":         at("gone", gone.Ref),
		"blob erased":              at("one", one.Ref),
		"closed":                   at("closed", closed.Ref),
		"expired":                  at("expired", short.Ref),
		"outside the audience":     at("private", private.Ref, wire.HeaderPrincipal, principal("bob")),
		"principal missing":        at("private", private.Ref),
		"another digest":           at("mine", mine.Ref, wire.HeaderExpectDigest, strings.Repeat("0", 64)),
		"never stored, with a key": at("nowhere", anyRef, wire.HeaderExpectDigest, strings.Repeat("0", 64)),
	}
}

func (e *env) eraseAll(execution string) {
	e.t.Helper()
	e.ask("dpo", "POST", "/v1/erasures", `{"scope":{"executionId":"`+execution+`"},"reason":"r"}`).want(e.t, 202, "")
}

// Every null is the same: status, headers and body, but for the request id and
// the date.
func TestNullsAreAlike(t *testing.T) {
	e := newEnv(t)
	must(t, second(e))
	stranger := e.newToken("second", wire.RoleRuntime)
	cases := nulls(t, e)
	mine := cases["another digest"][0]
	var first string
	check := func(reason string, a answer) {
		t.Helper()
		a.want(t, http.StatusNotFound, wire.CodeNull)
		if got := a.header.Get(wire.HeaderResolution); got != "null" {
			t.Errorf("%s: %s = %q, want null", reason, wire.HeaderResolution, got)
		}
		id := a.header.Get(wire.HeaderRequestID)
		a.header.Del("Date")
		whole := strings.ReplaceAll(fmt.Sprint(a.status, a.header, string(a.body)), id, "ID")
		if first == "" {
			first = whole
		}
		if whole != first {
			t.Errorf("%s:\n%s\nis not\n%s", reason, whole, first)
		}
	}
	for reason, q := range cases {
		check(reason, e.ask("runtime", "GET", q[0], "", q[1:]...))
	}
	check("of another tenant", e.ask(stranger, "GET", mine, ""))
	for reason, q := range cases {
		a := e.ask("runtime", "HEAD", q[0], "", q[1:]...)
		if a.status != http.StatusNotFound || a.header.Get(wire.HeaderResolution) != "null" || len(a.body) != 0 {
			t.Errorf("HEAD, %s: %d %v", reason, a.status, a.header)
		}
	}
	e.ask("runtime", "GET", mine, "").want(t, http.StatusOK, "")
}

// What is not definite is never a null.
func TestOutagesAreErrors(t *testing.T) {
	e := newEnv(t)
	s := e.put("x", canaryText)
	path := "/v1/executions/x/blobs/" + s.Ref
	e.gate.shut(fmt.Errorf("ledger: %w", blobd.ErrUnavailable))
	e.clock.add(time.Minute) // the token must be asked for again
	a := e.ask("runtime", "GET", path, "")
	a.want(t, http.StatusServiceUnavailable, wire.CodeUnavailable)
	if a.header.Get("Retry-After") == "" {
		t.Error("503 without Retry-After")
	}
	e.gate.shut(fmt.Errorf("something nobody classified"))
	e.ask("runtime", "GET", path, "").want(t, http.StatusServiceUnavailable, wire.CodeUnavailable)
	e.ask("", "GET", "/readyz", "").want(t, http.StatusServiceUnavailable, wire.CodeUnavailable)
	e.ask("", "GET", "/livez", "").want(t, http.StatusOK, "")
	verbose := e.ask("", "GET", "/readyz?verbose", "").problem(t)
	if len(verbose.Checks) == 0 {
		t.Error("readyz?verbose names no dependency")
	}
	e.gate.shut(nil)
	e.ask("", "GET", "/readyz", "").want(t, http.StatusOK, "")
	e.ask("runtime", "GET", path, "").want(t, http.StatusOK, "")
	e.api.Drain()
	e.ask("", "GET", "/readyz", "").want(t, http.StatusServiceUnavailable, wire.CodeUnavailable)
}

// A live row whose object is gone is an alarm that names the ref.
func TestMissingAndCorrupt(t *testing.T) {
	e := newEnv(t)
	for _, c := range []struct {
		name   string
		damage func([]byte) []byte
		code   wire.Code
		header string
	}{
		{"missing", func([]byte) []byte { return nil }, wire.CodeBlobMissing, ""},
		{"corrupt", func(b []byte) []byte { b[len(b)-1] ^= 1; return b }, wire.CodeCorrupt, "corrupt"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := e.put(c.name, canaryText)
			e.put(c.name, "another")
			e.damage(s.Ref, c.damage)
			a := e.ask("runtime", "GET", "/v1/executions/"+c.name+"/blobs/"+s.Ref, "")
			a.want(t, http.StatusInternalServerError, c.code)
			if got := a.header.Get(wire.HeaderResolution); got != c.header {
				t.Errorf("%s = %q, want %q", wire.HeaderResolution, got, c.header)
			}
			if refs := a.problem(t).Refs; len(refs) != 1 || refs[0] != s.Ref {
				t.Errorf("refs = %v, want %s", refs, s.Ref)
			}
			batch := e.ask("runtime", "POST", "/v1/executions/"+c.name+"/resolve", `{"parts":[{"ref":"`+s.Ref+`"},{"ref":"`+anyRef+`"}]}`)
			batch.want(t, http.StatusInternalServerError, c.code)
			if strings.Contains(string(batch.body), canaryText) {
				t.Error("a failed batch holds a text")
			}
		})
	}
}

// damage changes a stored object behind the server's back; nil removes it.
func (e *env) damage(ref string, f func([]byte) []byte) {
	e.t.Helper()
	objects, err := e.objects.List(e.t.Context(), "", "", 1000)
	must(e.t, err)
	for _, o := range objects {
		if !strings.HasSuffix(o.Name, strings.TrimPrefix(ref, "sha256:")) {
			continue
		}
		b, err := e.objects.Get(e.t.Context(), o.Name)
		must(e.t, err)
		changed := f(append([]byte{}, b...))
		e.forget(o.Name)
		if changed != nil {
			must(e.t, e.objects.Put(e.t.Context(), o.Name, changed))
		}
		return
	}
	e.t.Fatalf("no object of %s", ref)
}

// A definite answer for some parts and bytes for the others.
func TestBatch(t *testing.T) {
	e := newEnv(t)
	text, octets := e.put("x", canaryText), e.put("x", "\xff\x00", "Content-Type", "application/octet-stream")
	empty := e.put("x", "")
	if empty.Size != 0 {
		t.Fatalf("size = %d", empty.Size)
	}
	q := fmt.Sprintf(`{"stepId":"s","origin":"o","parts":[{"ref":%q,"digest":%q},{"ref":%q},{"ref":%q},{"ref":%q}]}`,
		text.Ref, text.Digest, octets.Ref, empty.Ref, anyRef)
	a := e.ask("runtime", "POST", "/v1/executions/x/resolve", q)
	a.want(t, http.StatusOK, "")
	want := fmt.Sprintf(`{"parts":[`+
		`{"ref":%q,"status":"ok","text":%q,"digest":%q,"size":37,"kind":"text"},`+
		`{"ref":%q,"status":"ok","base64":"/wA=","digest":%q,"size":2,"kind":"text"},`+
		`{"ref":%q,"status":"ok","text":"","digest":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","size":0,"kind":"text"},`+
		`{"ref":%q,"status":"null"}],"firstHole":3}`,
		text.Ref, canaryText, text.Digest, octets.Ref, octets.Digest, empty.Ref, anyRef)
	if string(a.body) != want {
		t.Errorf("answer\n%s\nwant\n%s", a.body, want)
	}
	e.ask("runtime", "POST", "/v1/executions/x/resolve", `{"parts":[{"ref":"`+text.Ref+`"}]}`).into(t, &struct{}{})
	whole := e.ask("runtime", "POST", "/v1/executions/x/resolve", `{"parts":[{"ref":"`+text.Ref+`"}]}`)
	var v map[string]json.RawMessage
	whole.into(t, &v)
	if string(v["firstHole"]) != "null" {
		t.Errorf("firstHole = %s, want null", v["firstHole"])
	}
	if a := e.ask("runtime", "POST", "/v1/executions/x/resolve", `{"parts":[]}`); string(a.body) != `{"parts":[],"firstHole":null}` {
		t.Errorf("an empty batch: %d %s", a.status, a.body)
	}
	if a := e.ask("runtime", "GET", "/v1/executions/x/blobs/"+empty.Ref, ""); a.status != http.StatusOK || a.header.Get("Content-Length") != "0" {
		t.Errorf("an empty blob: %d %v", a.status, a.header)
	}
}
