package transit_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/keys"
	"github.com/blobd/blobd/keys/transit"
)

const canary = "hvs.canary-of-the-token"

// form is a ciphertext that is well formed and nothing more.
var form = keys.Wrapped{Version: 1, Ciphertext: []byte("vault:v1:" + base64.StdEncoding.EncodeToString(make([]byte, 60)))}

// fake is something that answers in Vault's place.
func fake(t *testing.T, h http.HandlerFunc) *transit.Keyring {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	k, err := transit.New(transit.Options{Address: s.URL, Login: transit.Token(canary)})
	must(t, err)
	t.Cleanup(func() { must(t, k.Close()) })
	return k
}

// What does not speak as Transit does has said nothing: no answer of these is a
// panic, an absence or a plaintext.
func TestStrangeAnswersAreNoAnswers(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		body   string
	}{
		{"no content", 204, ""}, {"nothing", 200, ""}, {"null", 200, "null"}, {"an empty object", 200, "{}"},
		{"no data", 200, `{"data":null}`}, {"empty data", 200, `{"data":{}}`},
		{"an empty plaintext", 200, `{"data":{"plaintext":""}}`}, {"a plaintext and no batch", 200, `{"data":{"plaintext":"QUFBQQ=="}}`},
		{"no results", 200, `{"data":{"batch_results":[]}}`}, {"null results", 200, `{"data":{"batch_results":null}}`},
		{"too many results", 200, `{"data":{"batch_results":[{"plaintext":"QQ=="},{"plaintext":"QQ=="}]}}`},
		{"results that are no list", 200, `{"data":{"batch_results":"x"}}`}, {"a plaintext that is a number", 200, `{"data":{"batch_results":[{"plaintext":1}]}}`},
		{"a page", 200, "<html>welcome</html>"}, {"a list", 200, "[]"}, {"keys that are no list", 200, `{"data":{"keys":"x"}}`},
		{"a page that is missing", 404, "<html>not found</html>"}, {"nothing at 404", 404, ""}, {"an object at 404", 404, "{}"},
		{"null errors at 404", 404, `{"errors":null}`}, {"a text at 404", 404, `{"errors":["no handler for route"]}`},
		{"an absence of everything", 404, `{"errors":[]}`},
		{"a redirect", 302, ""}, {"not modified", 304, ""}, {"gateway", 502, "bad gateway"}, {"a warning page", 503, "<html>"},
		{"not initialised", 501, `{"errors":["Vault is not initialized"]}`}, {"standby", 473, ""}, {"removed", 530, ""},
		{"quota", 429, `{"errors":["quota"]}`}, {"precondition", 412, `{"errors":["state"]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := fake(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			})
			wantFailure(t, k, form, blobd.ErrUnavailable)
		})
	}
}

// Beside a mount that is well, only Vault's own way to say absent is believed.
func TestOnlyVaultsOwnWordIsAnAbsence(t *testing.T) {
	for body, want := range map[string]error{
		`{"errors":[]}`: blobd.ErrNotFound,
		"":              blobd.ErrUnavailable, "{}": blobd.ErrUnavailable, "[]": blobd.ErrUnavailable, "null": blobd.ErrUnavailable,
		`{"errors":null}`: blobd.ErrUnavailable, `{"errors":["no handler for route"]}`: blobd.ErrUnavailable,
		"<html>": blobd.ErrUnavailable, `{"error":"not found"}`: blobd.ErrUnavailable,
	} {
		t.Run(body, func(t *testing.T) {
			k := fake(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/v1/transit/config/keys" {
					_, _ = io.WriteString(w, `{"data":{"disable_upsert":false}}`)
					return
				}
				w.WriteHeader(http.StatusNotFound)
				_, _ = io.WriteString(w, body)
			})
			_, err := k.Status(t.Context(), "acme")
			wantOnly(t, "Status", err, want)
		})
	}
}

// Something before Vault that repeats the request in its answer brings neither
// the token nor a key into an error.
func TestErrorsRepeatNothing(t *testing.T) {
	plain := strings.Repeat("K", 32)
	secrets := []string{canary, plain, base64.StdEncoding.EncodeToString([]byte(plain)), string(form.Ciphertext)}
	for _, status := range []int{200, 204, 302, 400, 403, 404, 405, 418, 429, 500, 503} {
		for _, as := range []string{"page", "errors", "results"} {
			t.Run(fmt.Sprint(status, " ", as), func(t *testing.T) {
				k := fake(t, echo(status, as))
				ctx := t.Context()
				_, err1 := k.Wrap(ctx, "acme", [][]byte{[]byte(plain)})
				_, err2 := k.Unwrap(ctx, "acme", []keys.Wrapped{form})
				_, err3 := k.Rotate(ctx, "acme")
				_, err4 := k.Tenants(ctx)
				for _, err := range []error{err1, err2, err3, err4, k.Create(ctx, "acme"), k.Destroy(ctx, "acme"), k.Check(ctx)} {
					if err == nil {
						t.Error("no error")
						continue
					}
					for _, s := range secrets {
						if text := fmt.Sprintf("%v %+v %#v %s %q", err, err, err, err, err); strings.Contains(text, s) {
							t.Errorf("the error shows a secret: %s", text)
						}
					}
				}
			})
		}
	}
}

func echo(status int, as string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		all := fmt.Sprint(r.Header, string(body))
		var answer any = map[string]any{"errors": []string{all}}
		if as == "results" {
			answer = map[string]any{"data": map[string]any{"batch_results": []any{map[string]string{"error": all, "ciphertext": all}}}}
		}
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(status)
		if as == "page" {
			_, _ = io.WriteString(w, all)
			return
		}
		_ = json.NewEncoder(w).Encode(answer)
	}
}

func TestNothingPrintsItsToken(t *testing.T) {
	k := fake(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) })
	_ = k.Check(t.Context())
	for _, v := range []any{k, transit.Token(canary), transit.Options{Login: transit.Token(canary)}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			text := fmt.Sprintf(verb, v)
			if strings.Contains(text, canary) || strings.Contains(text, fmt.Sprintf("%x", canary)) {
				t.Errorf("%s of %T shows the token", verb, v)
			}
		}
	}
}
