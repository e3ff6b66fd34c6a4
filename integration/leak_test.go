package integration

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// planted is what must not be found.
type planted struct {
	what  string
	forms [][]byte
}

// plant returns a value with all the spellings that would give it away.
func plant(what, value string, withDigest bool) planted {
	p := planted{what: what}
	add := func(b []byte) {
		h := hex.EncodeToString(b)
		std, url := base64.StdEncoding.EncodeToString(b), base64.URLEncoding.EncodeToString(b)
		for _, form := range []string{
			string(b), h, strings.ToUpper(h), strings.TrimRight(std, "="), strings.TrimRight(url, "="),
		} {
			p.forms = append(p.forms, []byte(form))
		}
	}
	add([]byte(value))
	if withDigest {
		sum := sha256.Sum256([]byte(value))
		add(sum[:])
	}
	return p
}

// search reports what of the planted is in b.
func search(t *testing.T, where string, b []byte, all []planted) {
	t.Helper()
	for _, p := range all {
		for i, form := range p.forms {
			if bytes.Contains(b, form) {
				t.Errorf("%s holds %s (spelling %d)", where, p.what, i)
			}
		}
	}
}

// TestNothingLeaks plants a text, persons, a purpose and tokens, uses every
// road that they can take, and searches everything that is kept or said.
func TestNothingLeaks(t *testing.T) {
	t.Parallel()
	const (
		text    = "planted thought 5b0f1e: the customer is called Quentin"
		erased  = "planted thought 77aa10: to be erased"
		part    = "planted thought 90cc42: part of a capture"
		invalid = "planted thought 13dd37: refused"
		subject = "planted-subject-31337@example.org"
		actor   = "planted-actor-424242"
	)
	dir := t.TempDir()
	s := start(t, dir, "BLOBD_LOG_LEVEL=debug")
	_, runtime := s.newToken("runtime")
	revokedID, revoked := s.newToken("runtime", "dpo")
	secrets := []planted{
		plant("a text", text, true), plant("an erased text", erased, true), plant("a captured text", part, true),
		plant("a refused text", invalid, true), plant("a subject", subject, true), plant("an actor", actor, true),
		plant("a token", runtime, false), plant("a revoked token", revoked, false),
	}
	tokens := []planted{plant("the admin token", s.token, false)}
	keys := keyringKeys(t, dir)

	var said []answer // every error, and the pages for machines
	note := func(a answer) answer {
		said = append(said, a)
		return a
	}
	// Puts with everything, as a runtime.
	audience := base64.RawURLEncoding.EncodeToString([]byte(`[{"tenant":"default","actor":"` + actor + `","onBehalfOf":null}]`))
	who := base64.RawURLEncoding.EncodeToString([]byte(`{"tenant":"default","actor":"` + actor + `","onBehalfOf":null}`))
	header := []string{"Authorization", "Bearer " + runtime, "Blobd-Subjects", `"` + subject + `"`, "Blobd-Audience", audience}
	kept, err := s.put("leaks", []byte(text), header...)
	must(t, err)
	gone, err := s.put("leaks", []byte(erased), "Blobd-Subjects", `"`+subject+`"`)
	must(t, err)
	capture := map[string]any{
		"stepId": "s", "provider": "p", "subjects": []string{subject}, "audience": []map[string]any{{"tenant": "default", "actor": actor, "onBehalfOf": nil}},
		"reasoning": []map[string]string{{"kind": "text", "text": part}},
	}
	if a := s.post(execution("leaks")+"/captures", capture); a.status != http.StatusCreated {
		t.Fatalf("capture: %d %s", a.status, a.problem().Code)
	}
	// Reads, right and wrong.
	blob := execution("leaks") + "/blobs/" + kept.Ref
	if a := s.get(blob, "Blobd-Principal", who, "Blobd-Expect-Digest", kept.Digest); a.status != http.StatusOK || string(a.body) != text {
		t.Fatalf("resolve: %d %s", a.status, a.problem().Code)
	}
	note(s.get(blob))
	note(s.get(blob, "Authorization", "Bearer "+revoked+"x"))
	note(s.get(blob, "Blobd-Principal", who, "Blobd-Expect-Digest", strings.Repeat("0", 64)))
	note(s.get(blob, "Blobd-Expect-Digest", "not "+kept.Digest))
	note(s.get(blob, "Blobd-Principal", "{"+actor))
	note(s.get("/v1/executions/leaks/blobs/" + strings.ReplaceAll(subject, "@", "%40")))
	if a := s.post(execution("leaks")+"/reasoning/read", map[string]any{"purpose": "a check"}); a.status != http.StatusOK || !bytes.Contains(a.body, []byte("77aa10")) {
		t.Fatalf("read: %d %s", a.status, a.problem().Code)
	}
	// Requests that are refused.
	for _, put := range [][]string{
		{"Repr-Digest", "sha-256=:" + base64.StdEncoding.EncodeToString(make([]byte, 32)) + ":"},
		{"Content-Encoding", "gzip"}, {"Content-Type", invalid}, {"Blobd-Subjects", `"` + subject}, {"Blobd-Audience", audience + "!"},
	} {
		note(s.do(http.MethodPost, execution("leaks")+"/blobs", []byte(invalid), put...))
	}
	note(s.do(http.MethodPost, execution("leaks")+"/blobs", []byte(invalid+"\xff")))
	for _, body := range []string{
		`{"reasoning":[{"kind":"text","text":"` + invalid + `"}],"` + invalid + `":1}`, `{"reasoning":"` + invalid + `"}`,
		`{"reasoning":[{"kind":"redacted","text":"` + invalid + `"}]}`, `{"reasoning":[{"kind":"` + invalid + `"}]}`,
		`{"reasoning":[{"kind":"text","text":"` + invalid + `\ud800"}]}`, `{"subjects":["` + subject + `\u0000"],"reasoning":[]}`, invalid,
	} {
		note(s.do(http.MethodPost, execution("leaks")+"/captures", []byte(body)))
	}
	// Erasures, and what is refused after them.
	if a := s.do(http.MethodDelete, "/v1/tokens/"+revokedID, nil); a.status/100 != 2 {
		t.Fatalf("revoke: %d %s", a.status, a.problem().Code)
	}
	e := s.mustErase("leaks", gone.Ref)
	note(s.do(http.MethodPost, execution("leaks")+"/blobs", []byte(erased)))
	note(s.resolve("leaks", gone.Ref))
	s.waitErased(e.ID)
	for _, path := range []string{"/metrics", "/readyz?verbose", "/livez", "/openapi.json", "/v1/nowhere", execution("leaks"), "/v1/executions", "/v1/erasures", "/v1/tokens", "/v1/tenants"} {
		note(s.get(path))
	}
	note(s.post("/v1/erasures", map[string]any{"scope": map[string]any{"subjects": []string{subject}}, "reason": "asked for"}))

	forbidden := append(append(append([]planted{}, secrets...), tokens...), keys...)
	errorsSeen := 0
	for _, a := range said {
		if a.err != nil {
			t.Fatal(a.err)
		}
		if a.status >= 400 {
			errorsSeen++
		}
		var h bytes.Buffer
		_ = a.header.Write(&h)
		search(t, "an answer", append(h.Bytes(), a.body...), forbidden)
	}
	if errorsSeen < 20 {
		t.Errorf("only %d of the answers are errors", errorsSeen)
	}
	searchFolder(t, dir, secrets, tokens, keys) // with the log of the database as it is while it runs
	s.stop()
	searchFolder(t, dir, secrets, tokens, keys)
	logs := s.stderr.String()
	if !strings.Contains(logs, `"DEBUG"`) {
		t.Error("no debug line: the search of the logs proves nothing")
	}
	search(t, "the log", []byte(logs), forbidden)

	// The search finds what is there.
	found := new(testing.T)
	search(found, "", []byte("x"+hex.EncodeToString([]byte(text))), secrets[:1])
	if !found.Failed() {
		t.Error("the search is blind")
	}
}

// searchFolder searches every file; the admin token and the keys may stand in
// the files that are theirs.
func searchFolder(t *testing.T, dir string, secrets, tokens, keys []planted) {
	t.Helper()
	files := 0
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		name := filepath.Base(path)
		search(t, "file "+name, b, secrets)
		if name != "admin.token" {
			search(t, "file "+name, b, tokens)
		}
		if name != "keyring.json" {
			search(t, "file "+name, b, keys)
		}
		search(t, "the name "+name, []byte(path), secrets)
		return nil
	}))
	if files < 4 {
		t.Errorf("only %d files in the data folder", files)
	}
}

// keyringKeys are the keys in the keyring: its strings that decode to a key.
func keyringKeys(t *testing.T, dir string) []planted {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "keyring.json"))
	must(t, err)
	var document any
	must(t, json.Unmarshal(b, &document))
	var keys []planted
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for _, x := range v {
				walk(x)
			}
		case []any:
			for _, x := range v {
				walk(x)
			}
		case string:
			for _, decode := range []func(string) ([]byte, error){
				hex.DecodeString, base64.StdEncoding.DecodeString, base64.RawStdEncoding.DecodeString, base64.RawURLEncoding.DecodeString,
			} {
				if key, err := decode(v); err == nil && len(key) == 32 {
					keys = append(keys, plant("a key of the keyring", string(key), false))
					return
				}
			}
		}
	}
	walk(document)
	if len(keys) == 0 {
		t.Fatal("no key found in the keyring")
	}
	return keys
}
