package minio_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
	"github.com/blobd/blobd/backends/minio"
	"github.com/blobd/blobd/internal/servers"
)

func put(t *testing.T, s *minio.Store, name, data string) {
	t.Helper()
	if err := s.Put(t.Context(), name, []byte(data)); err != nil {
		t.Errorf("put %s: %v", name, err)
	}
}

func has(t *testing.T, s *minio.Store, name, want string) {
	t.Helper()
	if got, err := s.Get(t.Context(), name); err != nil || string(got) != want {
		t.Errorf("get %s: %d bytes, %v", name, len(got), err)
	}
}

func lacks(t *testing.T, s *minio.Store, name string) {
	t.Helper()
	if got, err := s.Get(t.Context(), name); !errors.Is(err, blobd.ErrNotFound) {
		t.Errorf("get %s: %d bytes, %v", name, len(got), err)
	}
}

// soon bounds calls that repeat until time is up.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

func TestOnlyTheStoresOwnNoSuchKeyIsAnAbsence(t *testing.T) {
	s, b, _, _ := strange(t)
	put(t, s, "a/b", "text")
	for _, c := range []struct {
		name   string
		answer odd
	}{
		{"404 without a body", gives(404, "")},
		{"404 of a default backend", gives(404, "default backend - 404")},
		{"404 with a page", gives(404, "<html><body>not found</body></html>")},
		{"404 with a page and MinIO's header", func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("X-Minio-Error-Code", "NoSuchKey")
			return gives(404, "")(w, r)
		}},
		{"404 cut within its body", gives(404, xmlError("NoSuchKey")[:80])},
		{"no bucket", gives(404, xmlError("NoSuchBucket"))},
		{"no version", gives(404, xmlError("NoSuchVersion"))},
		{"not found", gives(404, xmlError("NotFound"))},
		{"404 without a code", gives(404, xmlError(""))},
		{"a code with another status", gives(403, xmlError("NoSuchKey"))},
		{"denied", gives(403, xmlError("AccessDenied"))},
		{"403 without a body", gives(403, "")},
		{"expired token", gives(400, xmlError("ExpiredToken"))},
		{"skew", gives(403, xmlError("RequestTimeTooSkewed"))},
		{"redirect", gives(301, xmlError("PermanentRedirect"))},
		{"redirect without a body", gives(307, "")},
		{"not allowed", gives(405, xmlError("MethodNotAllowed"))},
		{"archived", gives(403, xmlError("InvalidObjectState"))},
		{"slow down", gives(503, xmlError("SlowDown"))},
		{"not initialized", gives(503, xmlError("XMinioServerNotInitialized"))},
		{"500", gives(500, "")},
		{"a gateway's timeout", gives(504, "<html>timeout</html>")},
		{"what nobody knows", gives(418, xmlError("Teapot"))},
	} {
		t.Run(c.name, func(t *testing.T) {
			b.with(to("GET", "", c.answer))
			got, err := s.Get(soon(t), "a/b")
			if err == nil || got != nil || errors.Is(err, blobd.ErrNotFound) || errors.Is(err, blobd.ErrMissing) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
			b.with(nil)
			has(t, s, "a/b", "text")
		})
	}
	b.with(to("GET", "", gives(404, xmlError("NoSuchKey"))))
	lacks(t, s, "a/b")
}

func TestRefusedCredentialsAndOutagesAreUnavailable(t *testing.T) {
	s, b, server, bucket := strange(t)
	for _, answer := range []odd{
		gives(403, xmlError("AccessDenied")), gives(403, ""), gives(503, xmlError("SlowDown")), gives(404, xmlError("NoSuchBucket")),
		gives(403, xmlError("RequestTimeTooSkewed")), gives(301, xmlError("PermanentRedirect")), gives(507, xmlError("XMinioStorageFull")),
	} {
		b.with(answer)
		if _, err := s.Get(soon(t), "a"); !errors.Is(err, blobd.ErrUnavailable) {
			t.Errorf("get: %v", err)
		}
		if err := s.Put(soon(t), "a", []byte("x")); !errors.Is(err, blobd.ErrUnavailable) {
			t.Errorf("put: %v", err)
		}
		if err := s.Check(soon(t)); !errors.Is(err, blobd.ErrUnavailable) {
			t.Errorf("check: %v", err)
		}
	}
	o := options(server, bucket)
	o.SecretKey = blobd.TextOf([]byte("not the secret"))
	if err := open(t, o).Check(t.Context()); !errors.Is(err, blobd.ErrUnavailable) || strings.Contains(err.Error(), "not the secret") {
		t.Errorf("wrong secret: %v", err)
	}
}

func TestABucketThatIsGoneIsNoAbsence(t *testing.T) {
	for name, server := range map[string]*servers.S3{
		"MinIO": servers.MinIO(t, servers.MinIOOptions{}), "versitygw": servers.VersityGW(t, servers.VersityGWOptions{}),
		"SeaweedFS": servers.SeaweedFS(t, servers.SeaweedFSOptions{Args: []string{"-s3.autoCreateBucket=false"}}),
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, options(server, "never-made"))
			_, getErr := s.Get(t.Context(), "a/b")
			_, listErr := s.List(t.Context(), "", "", 10)
			_, residueErr := s.Residue(t.Context(), backends.Scope{Prefix: "a/"}, 10)
			_, eraseErr := s.Erase(t.Context(), backends.Scope{Names: []string{"a/b"}})
			for op, err := range map[string]error{
				"get": getErr, "list": listErr, "residue": residueErr, "erase": eraseErr, "check": s.Check(t.Context()),
			} {
				if !errors.Is(err, blobd.ErrUnavailable) || errors.Is(err, blobd.ErrNotFound) {
					t.Errorf("%s: %v", op, err)
				}
			}
		})
	}
}

func TestABodyThatIsCutIsReadAgainAndNeverReturned(t *testing.T) {
	s, b, _, _ := strange(t)
	text := strings.Repeat("text ", 10_000)
	put(t, s, "a/b", text)
	b.with(to("GET", "", once(b.cuts)))
	has(t, s, "a/b", text)
	b.with(to("GET", "", b.cuts))
	if got, err := s.Get(soon(t), "a/b"); got != nil || !errors.Is(err, blobd.ErrUnavailable) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

func TestAnObjectAboveTheBoundIsTooLargeWithOrWithoutALength(t *testing.T) {
	_, b, server, bucket := strange(t)
	put(t, open(t, options(server, bucket)), "large", strings.Repeat("x", 1001))
	o := options(server, bucket)
	o.Endpoint, o.MaxObject = b.URL, 1000
	s := open(t, o)
	unsized := func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
		_ = http.NewResponseController(w).Flush()
		_, _ = w.Write(make([]byte, 1001))
		return true
	}
	for name, answer := range map[string]odd{"with": nil, "without": to("GET", "", unsized)} {
		b.with(answer)
		if got, err := s.Get(t.Context(), "large"); got != nil || !errors.Is(err, blobd.ErrTooLarge) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
	if err := s.Put(t.Context(), "larger", make([]byte, 1001)); !errors.Is(err, blobd.ErrTooLarge) {
		t.Errorf("put: %v", err)
	}
}

// The leak check of all tests sees what this one leaves.
func TestReadsThatAreGivenUpLeaveNothing(t *testing.T) {
	s, b, _, _ := strange(t)
	put(t, s, "a/b", strings.Repeat("text", 1000))
	b.with(to("GET", "", func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Content-Length", "4000")
		w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
		_, _ = w.Write(make([]byte, 100))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		return true
	}))
	for range 50 {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		if got, err := s.Get(ctx, "a/b"); got != nil || !errors.Is(err, blobd.ErrUnavailable) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		cancel()
	}
	b.with(nil)
	has(t, s, "a/b", strings.Repeat("text", 1000))
}

func TestAPageThatIsNoListingIsNeverAnEmptyOne(t *testing.T) {
	s, b, _, _ := strange(t)
	put(t, s, "a/b", "text")
	for name, answer := range map[string]odd{
		"a page":                   gives(200, "<html><body>welcome</body></html>"),
		"nothing":                  gives(200, ""),
		"text":                     gives(200, "ok"),
		"another answer":           gives(200, "<LocationConstraint></LocationConstraint>"),
		"a listing that is cut":    gives(200, "<ListBucketResult><Name>x</Name>"),
		"an error as a success":    gives(200, xmlError("InternalError")),
		"an answer that is cut":    b.cuts,
		"denied":                   gives(403, xmlError("AccessDenied")),
		"404 of a default backend": gives(404, "default backend - 404"),
	} {
		t.Run(name, func(t *testing.T) {
			b.with(to("GET", "prefix", answer))
			if l, err := s.List(soon(t), "a/", "", 10); err == nil || l != nil {
				t.Errorf("list: %v, %v", l, err)
			}
			for _, scope := range []backends.Scope{{Prefix: "a/"}, {Names: []string{"a/b"}}} {
				if l, err := s.Residue(soon(t), scope, 10); err == nil || l != nil {
					t.Errorf("residue: %v, %v", l, err)
				}
				if e, err := s.Erase(soon(t), scope); err == nil {
					t.Errorf("erase: %+v", e)
				}
			}
		})
	}
	b.with(nil)
	has(t, s, "a/b", "text")
}

func TestAListingWhoseSecondPageFailsIsAnError(t *testing.T) {
	s, b, _, _ := strange(t)
	for i := range 5 {
		put(t, s, fmt.Sprintf("a/b%d", i), "text")
	}
	// MinIO's own pages are too long to fill here, so the first is made up.
	b.with(to("GET", "versions", func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Has("key-marker") {
			return gives(403, xmlError("AccessDenied"))(w, r)
		}
		return gives(200, `<ListVersionsResult><IsTruncated>true</IsTruncated><NextKeyMarker>a/b0</NextKeyMarker>`+
			`<NextVersionIdMarker>null</NextVersionIdMarker></ListVersionsResult>`)(w, r)
	}))
	if left, err := s.Residue(t.Context(), backends.Scope{Prefix: "a/"}, 10); !errors.Is(err, blobd.ErrUnavailable) {
		t.Errorf("residue: %v, %v", left, err)
	}
	if e, err := s.Erase(t.Context(), backends.Scope{Prefix: "a/"}); !errors.Is(err, blobd.ErrUnavailable) {
		t.Errorf("erase: %+v, %v", e, err)
	}
}

// MinIO takes an object where a folder is, and lists nothing below it any more.
func TestAnObjectWhereAFolderIsHidesNothingUnnoticed(t *testing.T) {
	_, _, server, bucket := strange(t)
	o := options(server, bucket)
	o.Prefix = "deployment"
	s := open(t, o)
	put(t, s, "a/b/c", "text")
	for _, key := range []string{"deployment/a/b", "deployment/a", "deployment"} {
		if _, err := server.Client().PutObject(t.Context(), &s3.PutObjectInput{Bucket: &bucket, Key: &key, Body: bytes.NewReader(nil)}); err != nil {
			t.Fatal(err)
		}
		for _, scope := range []backends.Scope{{Prefix: "a/b/"}, {Names: []string{"a/b/c"}}} {
			if left, err := s.Residue(t.Context(), scope, 10); !errors.Is(err, blobd.ErrUnavailable) {
				t.Errorf("%s: residue of %+v: %v, %v", key, scope, left, err)
			}
			if e, err := s.Erase(t.Context(), scope); !errors.Is(err, blobd.ErrUnavailable) {
				t.Errorf("%s: erase of %+v: %+v, %v", key, scope, e, err)
			}
		}
		if _, err := server.Client().DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: &bucket, Key: &key}); err != nil {
			t.Fatal(err)
		}
	}
	if e, err := s.Erase(t.Context(), backends.Scope{Prefix: "a/b/"}); err != nil || e.Objects != 1 {
		t.Errorf("%+v, %v", e, err)
	}
	lacks(t, s, "a/b/c")
}
