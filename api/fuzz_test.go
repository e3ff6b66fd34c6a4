package api_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/blobd/blobd/api/wire"
)

// Whatever the headers and the query hold, a put is stored or refused as the
// request's fault; it is never a failure of the server, and what it says of a
// stored blob is true.
func FuzzPutHeaders(f *testing.F) {
	f.Add("stepId=a&attempt=1", "text/plain", "sha-256=:AAAA:", `"a", "b"`, "W10", "")
	f.Add("kind=summary;x", "a/b; c=\"d\"", "sha-512=:AA==:, sha-256", `%"z%c3%a9"`, "e30", "aWQ")
	f.Add("%zz&class=", "", "(1 2)", `"a";p=1`, "!", "=")
	h := newStub(f, nil)
	f.Fuzz(func(t *testing.T, query, contentType, digest, subjects, audience, id string) {
		r := httptest.NewRequest(http.MethodPost, "http://blobd/v1/executions/-/blobs", strings.NewReader("body"))
		r.URL.RawQuery = query
		r.Header = http.Header{
			"Authorization": {"Bearer x"}, "Content-Type": {contentType}, wire.HeaderReprDigest: {digest},
			wire.HeaderSubjects: {subjects}, wire.HeaderAudience: {audience},
		}
		if id != "" {
			r.Header[wire.HeaderExecutionID] = []string{id}
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		resp := w.Result()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != http.StatusCreated && resp.StatusCode != http.StatusBadRequest && resp.StatusCode != http.StatusRequestEntityTooLarge {
			t.Fatalf("status = %d: %s", resp.StatusCode, body)
		}
		if got := resp.Header.Get("Content-Type"); resp.StatusCode == http.StatusCreated != (got == wire.TypeJSON) {
			t.Fatalf("status %d with Content-Type %q", resp.StatusCode, got)
		}
	})
}
