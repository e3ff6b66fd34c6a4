package s3_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
	"github.com/blobd/blobd/internal/servers"
)

func TestARefusedConditionNeverMeansAlreadyMine(t *testing.T) {
	s, p, server := rig(t)
	for _, code := range []string{"PreconditionFailed", "ConditionalRequestConflict", "OperationAborted"} {
		status := 409
		if code == "PreconditionFailed" {
			status = 412
		}
		name := strings.ToLower(code)
		p.does(of("PUT", "", says(status, "application/xml", errorXML(code))))
		if err := s.Put(t.Context(), name, []byte("mine")); !errors.Is(err, blobd.ErrUnavailable) {
			t.Errorf("%s of a name that nobody used: %v", code, err)
		}
		p.does(of("PUT", "", first(1, says(status, "application/xml", errorXML(code)))))
		put(t, s, name, []byte("mine"))
		p.does(nil)
		has(t, s, name, []byte("mine"))
	}
	_, err := server.Client().PutObject(t.Context(), &awss3.PutObjectInput{
		Bucket: aws.String("bucket"), Key: aws.String("d/used"), Body: strings.NewReader("theirs"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Put(t.Context(), "used", []byte("mine")); !errors.Is(err, blobd.ErrCorrupt) {
		t.Errorf("of a used name: %v", err)
	}
}

func TestPutsAreRightWhereConditionsAreIgnoredOrUnknown(t *testing.T) {
	for name, fault := range map[string]func(*proxy, http.ResponseWriter, *http.Request) bool{
		"ignored": func(p *proxy, w http.ResponseWriter, r *http.Request) bool {
			r.Header.Del("If-None-Match")
			return false
		},
		"unknown": func(p *proxy, w http.ResponseWriter, r *http.Request) bool {
			return r.Header.Get("If-None-Match") != "" && says(501, "application/xml", errorXML("NotImplemented"))(p, w, r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, p, server := rig(t)
			p.does(fault)
			if name == "ignored" { // the header is signed: let the proxy's own client write
				p.does(rewritten(server))
			}
			var wg sync.WaitGroup
			for range 2 {
				wg.Go(func() {
					if err := s.Put(t.Context(), "same", []byte("bytes")); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			put(t, s, "same", []byte("bytes"))
			has(t, s, "same", []byte("bytes"))
			if name == "unknown" {
				if err := s.Put(t.Context(), "same", []byte("other")); !errors.Is(err, blobd.ErrCorrupt) {
					t.Error(err)
				}
				has(t, s, "same", []byte("bytes"))
			}
		})
	}
}

// rewritten stores puts without their condition, as a gateway that does not pass
// it on.
func rewritten(server *servers.S3) func(*proxy, http.ResponseWriter, *http.Request) bool {
	return of("PUT", "", func(_ *proxy, w http.ResponseWriter, r *http.Request) bool {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		bucket, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		out, err := server.Client().PutObject(r.Context(), &awss3.PutObjectInput{
			Bucket: &bucket, Key: &key, Body: strings.NewReader(string(body)),
		})
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("ETag", aws.ToString(out.ETag))
		return true
	})
}

func TestPutAndEraseWorkWithoutNewChecksums(t *testing.T) {
	s, p, _ := rig(t)
	var strange atomic.Int64
	p.does(func(p *proxy, w http.ResponseWriter, r *http.Request) bool {
		for name := range r.Header {
			name = strings.ToLower(name)
			if strings.HasPrefix(name, "x-amz-checksum-") || name == "x-amz-trailer" || name == "x-amz-sdk-checksum-algorithm" {
				strange.Add(1)
				return says(501, "application/xml", errorXML("NotImplemented"))(p, w, r)
			}
		}
		if r.Method == "POST" && r.URL.Query().Has("delete") && r.Header.Get("Content-Md5") == "" {
			return says(400, "application/xml", errorXML("MissingContentMD5"))(p, w, r)
		}
		if strings.Contains(r.Header.Get("Content-Encoding"), "aws-chunked") {
			return says(400, "application/xml", errorXML("InvalidRequest"))(p, w, r)
		}
		return false
	})
	put(t, s, "a/b", []byte("x"))
	has(t, s, "a/b", []byte("x"))
	if e, err := s.Erase(t.Context(), backends.Scope{Prefix: "a/"}); err != nil || e.Objects != 1 {
		t.Errorf("%+v, %v", e, err)
	}
	lacks(t, s, "a/b")
	if n := strange.Load(); n != 0 {
		t.Errorf("%d requests with headers that small servers do not know", n)
	}
}

func TestAPutIsSentAgainWhole(t *testing.T) {
	data := []byte(strings.Repeat("sealed", 5000))
	for name, fault := range map[string]func(*proxy, http.ResponseWriter, *http.Request) bool{
		"after a 500":                   says(500, "application/xml", errorXML("InternalError")),
		"after a 503 without a body":    says(503, "text/plain", ""),
		"after an answer that was lost": dropped,
		"after a reset":                 func(*proxy, http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) },
		"after damage on its way":       says(400, "application/xml", errorXML("BadDigest")),
	} {
		t.Run(name, func(t *testing.T) {
			s, p, _ := rig(t)
			p.does(of("PUT", "", first(1, fault)))
			put(t, s, "a/b", data)
			has(t, s, "a/b", data)
			if left, err := s.Residue(t.Context(), backends.Scope{Prefix: "a/"}, 10); err != nil || len(left) != 1 {
				t.Errorf("%v, %v", left, err)
			}
		})
	}
}

func TestAPutIsBelievedOnlyWithProof(t *testing.T) {
	s, p, _ := rig(t)
	p.does(of("PUT", "", says(200, "text/html", "<html><body>Welcome</body></html>")))
	if err := s.Put(t.Context(), "page", []byte("x")); !errors.Is(err, blobd.ErrUnavailable) {
		t.Errorf("a page of a proxy: %v", err)
	}
	p.does(of("PUT", "", func(p *proxy, w http.ResponseWriter, r *http.Request) bool {
		answer := httptest.NewRecorder()
		p.forward.ServeHTTP(answer, r)
		w.Header().Set("ETag", `"an-etag-of-an-encrypting-store"`)
		w.WriteHeader(answer.Code)
		return true
	}))
	put(t, s, "encrypted", []byte("x"))
	p.does(nil)
	lacks(t, s, "page")
	has(t, s, "encrypted", []byte("x"))
}

// A server that keeps the framing of a signed stream as content.
func TestAStoreThatKeepsOtherBytesIsFound(t *testing.T) {
	s, p, server := rig(t)
	keep := rewritten(server)
	p.does(of("PUT", "", func(p *proxy, w http.ResponseWriter, r *http.Request) bool {
		r.Body = io.NopCloser(io.MultiReader(strings.NewReader("5;chunk-signature=0\r\n"), r.Body))
		return keep(p, w, r)
	}))
	if err := s.Put(t.Context(), "framed", []byte("x")); !errors.Is(err, blobd.ErrCorrupt) {
		t.Error(err)
	}
	if err := s.Check(t.Context()); err == nil {
		t.Error("the check passes")
	}
}

func TestAFullStoreIsAnOutage(t *testing.T) {
	s, p, _ := rig(t)
	for _, code := range []string{"XMinioStorageFull", "QuotaExceeded", "InsufficientStorage"} {
		p.does(of("PUT", "", says(507, "application/xml", errorXML(code))))
		if err := s.Put(t.Context(), "full", []byte("x")); !errors.Is(err, blobd.ErrUnavailable) {
			t.Errorf("%s: %v", code, err)
		}
	}
	p.does(nil)
	lacks(t, s, "full")
}

func TestACheckLeavesNothingAndPilesUpNothingWhereDeletesAreRefused(t *testing.T) {
	s, _, server := rig(t)
	if err := s.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(versionsIn(t, server, "bucket", "")); n != 0 {
		t.Errorf("left %d", n)
	}
	server.Bucket(t, "locked", servers.Bucket{ObjectLock: true})
	lockByDefault(t, server, "locked")
	locked := open(t, options(server, "locked", ""))
	for range 3 {
		if err := locked.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(versionsIn(t, server, "locked", "")); n != 1 {
		t.Errorf("left %d versions of three checks", n)
	}
}
