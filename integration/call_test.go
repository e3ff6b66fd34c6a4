package integration

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"
)

// answer is what the server said; err: it said nothing.
type answer struct {
	status int
	header http.Header
	body   []byte
	err    error
}

// problem is an error's body.
type problem struct {
	Code string   `json:"code"`
	Refs []string `json:"refs"`
}

func (a answer) problem() problem {
	var p problem
	_ = json.Unmarshal(a.body, &p)
	return p
}

// isNull reports the definitive null, and nothing else that has status 404.
func (a answer) isNull() bool {
	return a.status == http.StatusNotFound && a.header.Get("Blobd-Resolution") == "null" && a.problem().Code == "null"
}

// do sends one request; header is a list of names and values.
func (s *server) do(method, path string, body []byte, header ...string) answer {
	r, err := http.NewRequest(method, s.url+path, bytes.NewReader(body))
	if err != nil {
		return answer{err: err}
	}
	r.Header.Set("Authorization", "Bearer "+s.token)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	response, err := s.client.Do(r)
	if err != nil {
		return answer{err: err}
	}
	defer func() { _ = response.Body.Close() }()
	b, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, response.Header, b, err}
}

func (s *server) get(path string, header ...string) answer {
	return s.do(http.MethodGet, path, nil, header...)
}

func (s *server) post(path string, body any, header ...string) answer {
	b, err := json.Marshal(body)
	if err != nil {
		return answer{err: err}
	}
	return s.do(http.MethodPost, path, b, header...)
}

func execution(id string) string { return "/v1/executions/" + url.PathEscape(id) }

// stored is the answer to a put.
type stored struct {
	Ref    string `json:"ref"`
	Digest string `json:"digest"`
	Size   int64  `json:"size"`
}

// put keeps bytes; the error is what the caller of a put can tell.
func (s *server) put(run string, text []byte, header ...string) (stored, error) {
	var out stored
	a := s.do(http.MethodPost, execution(run)+"/blobs?stepId=step", text, header...)
	switch {
	case a.err != nil:
		return out, a.err
	case a.status != http.StatusCreated && a.status != http.StatusOK:
		return out, refused{a.status, a.problem().Code}
	}
	return out, json.Unmarshal(a.body, &out)
}

// refused is an answer that is an error.
type refused struct {
	status int
	code   string
}

func (r refused) Error() string { return http.StatusText(r.status) + " " + r.code }

// definite reports whether an error says that nothing was stored.
func definite(err error) bool {
	var r refused
	return errors.As(err, &r) && r.status < 500
}

func (s *server) mustPut(run string, text []byte) stored {
	s.t.Helper()
	out, err := s.put(run, text)
	if err != nil {
		s.t.Fatalf("put: %v", err)
	}
	return out
}

func (s *server) resolve(run, ref string) answer { return s.get(execution(run) + "/blobs/" + ref) }

func (s *server) wantText(run, ref string, want []byte) {
	s.t.Helper()
	if a := s.resolve(run, ref); a.status != http.StatusOK || !bytes.Equal(a.body, want) {
		s.t.Errorf("resolve: %d %s with %d bytes, %v, want the text of %d bytes", a.status, a.problem().Code, len(a.body), a.err, len(want))
	}
}

func (s *server) wantNull(run, ref string) {
	s.t.Helper()
	if a := s.resolve(run, ref); !a.isNull() {
		s.t.Errorf("resolve: %d %s, %v, want the definitive null", a.status, a.problem().Code, a.err)
	}
}

// batch is the answer to a batch resolve.
type batch struct {
	Parts []struct {
		Ref    string  `json:"ref"`
		Status string  `json:"status"`
		Text   *string `json:"text"`
		Base64 []byte  `json:"base64"`
		Digest string  `json:"digest"`
		Size   int64   `json:"size"`
		Kind   string  `json:"kind"`
	} `json:"parts"`
	FirstHole *int `json:"firstHole"`
}

func (s *server) batch(run string, refs ...string) (batch, answer) {
	type want struct {
		Ref string `json:"ref"`
	}
	wants := make([]want, len(refs))
	for i, r := range refs {
		wants[i].Ref = r
	}
	var out batch
	a := s.post(execution(run)+"/resolve", map[string]any{"parts": wants})
	if a.status == http.StatusOK {
		a.err = json.Unmarshal(a.body, &out)
	}
	return out, a
}

// erasure is what is known of an erasure.
type erasure struct {
	ID    string `json:"id"`
	State string `json:"state"`
}

func (s *server) erase(run string, refs ...string) (erasure, error) {
	scope := map[string]any{"executionId": run}
	if len(refs) > 0 {
		scope["refs"] = refs
	}
	a := s.post("/v1/erasures", map[string]any{"scope": scope, "reason": "asked for"})
	var out erasure
	switch {
	case a.err != nil:
		return out, a.err
	case a.status != http.StatusAccepted:
		return out, refused{a.status, a.problem().Code}
	}
	return out, json.Unmarshal(a.body, &out)
}

func (s *server) mustErase(run string, refs ...string) erasure {
	s.t.Helper()
	e, err := s.erase(run, refs...)
	if err != nil {
		s.t.Fatalf("erase: %v", err)
	}
	return e
}

func (s *server) erasure(id string) erasure {
	s.t.Helper()
	var out erasure
	a := s.get("/v1/erasures/" + id)
	if a.status != http.StatusOK {
		s.t.Fatalf("erasure: %d %v", a.status, a.err)
	}
	must(s.t, json.Unmarshal(a.body, &out))
	return out
}

func (s *server) waitErased(id string) {
	s.t.Helper()
	s.eventually(30*time.Second, "the erasure to end", func() bool { return s.erasure(id).State == "erased" })
}

// waitAllErased waits until no erasure runs any more.
func (s *server) waitAllErased() {
	s.t.Helper()
	s.eventually(100*time.Second, "every erasure to end", func() bool {
		a := s.get("/v1/erasures?state=running&limit=1")
		var page struct {
			Items []erasure `json:"items"`
		}
		return a.status == http.StatusOK && json.Unmarshal(a.body, &page) == nil && len(page.Items) == 0
	})
}

// newToken makes a token with roles.
func (s *server) newToken(roles ...string) (id, token string) {
	s.t.Helper()
	a := s.post("/v1/tokens", map[string]any{"name": "a test's", "roles": roles})
	var out struct {
		ID    string `json:"id"`
		Token string `json:"token"`
	}
	if a.err != nil || json.Unmarshal(a.body, &out) != nil || out.Token == "" {
		s.t.Fatalf("token: %d %s %v", a.status, a.problem().Code, a.err)
	}
	return out.ID, out.Token
}
