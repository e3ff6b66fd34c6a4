package minio_test

import (
	"bytes"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
	"github.com/blobd/blobd/internal/servers"
)

func TestAPutThatTheServerNeverAnsweredIsMadeAgain(t *testing.T) {
	s, b, _, _ := strange(t)
	for name, answer := range map[string]odd{
		"lost":         once(to("PUT", "", b.loses)),
		"failed":       once(to("PUT", "", gives(500, xmlError("InternalError")))),
		"slowed":       once(to("PUT", "", gives(503, xmlError("SlowDown")))),
		"raced":        once(to("PUT", "", gives(409, xmlError("ConditionalRequestConflict")))),
		"raced-barely": once(to("PUT", "", gives(409, xmlError("OperationAborted")))),
		"digest":       once(to("PUT", "", gives(400, xmlError("BadDigest")))),
	} {
		b.with(answer)
		put(t, s, "a/"+name, "text "+name)
		b.with(nil)
		has(t, s, "a/"+name, "text "+name)
	}
}

func TestAPutIsAcknowledgedOnlyByAnAnswerThatProvesIt(t *testing.T) {
	s, b, _, _ := strange(t)
	for name, answer := range map[string]odd{
		"a success of nobody":    gives(200, ""),
		"a page":                 gives(200, "<html>welcome</html>"),
		"another ETag":           withETag("00000000000000000000000000000000"),
		"there already, it says": gives(412, xmlError("PreconditionFailed")),
		"412 without a body":     gives(412, ""),
		"a conflict for ever":    gives(409, xmlError("ConditionalRequestConflict")),
		"no content":             gives(204, ""),
	} {
		t.Run(name, func(t *testing.T) {
			b.with(to("PUT", "", answer))
			if err := s.Put(soon(t), "a/b", []byte("text")); !errors.Is(err, blobd.ErrUnavailable) {
				t.Errorf("acknowledged, or %v", err)
			}
			b.with(nil)
			lacks(t, s, "a/b")
		})
	}
}

func withETag(tag string) odd {
	return func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("ETag", `"`+tag+`"`)
		return true
	}
}

// Under some kinds of encryption the ETag is no MD5.
func TestAPutWhoseETagProvesNothingIsReadBack(t *testing.T) {
	s, b, _, _ := strange(t)
	b.with(to("PUT", "", func(w http.ResponseWriter, r *http.Request) bool {
		b.server.ServeHTTP(httptest.NewRecorder(), r)
		return withETag("of-another-kind")(w, r)
	}))
	put(t, s, "a/b", "text")
	has(t, s, "a/b", "text")
}

func TestATakenNameIsComparedAndNeverBelieved(t *testing.T) {
	s, b, server, bucket := strange(t)
	put(t, s, "a/b", "text")
	put(t, s, "a/b", "text")
	if err := s.Put(t.Context(), "a/b", []byte("other")); !errors.Is(err, blobd.ErrCorrupt) {
		t.Errorf("other bytes: %v", err)
	}
	// What cannot be compared is no success.
	b.with(to("GET", "", gives(403, xmlError("AccessDenied"))))
	if err := s.Put(soon(t), "a/b", []byte("text")); !errors.Is(err, blobd.ErrUnavailable) {
		t.Errorf("no comparison: %v", err)
	}
	b.with(nil)
	// Damaged bytes under their own hash are put right.
	sum := sha256.Sum256([]byte("sealed"))
	key := hex.EncodeToString(sum[:])
	if _, err := server.Client().PutObject(t.Context(), &s3.PutObjectInput{Bucket: &bucket, Key: &key, Body: strings.NewReader("damage")}); err != nil {
		t.Fatal(err)
	}
	put(t, s, key, "sealed")
	has(t, s, key, "sealed")
}

func TestAServerThatKnowsNoConditionsStillTakesPuts(t *testing.T) {
	s, b, server, bucket := strange(t)
	r := raw{t, server.Client(), bucket}
	for name, answer := range map[string]odd{
		"refuses": gives(501, xmlError("NotImplemented")),
		"ignores": func(w http.ResponseWriter, q *http.Request) bool {
			sent, err := io.ReadAll(q.Body)
			if err != nil {
				t.Error(err)
			}
			r.put(strings.TrimPrefix(q.URL.Path, "/"+bucket+"/"), string(sent))
			sum := md5.Sum(sent)
			return withETag(hex.EncodeToString(sum[:]))(w, q)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b.with(func(w http.ResponseWriter, r *http.Request) bool {
				return r.Header.Get("If-None-Match") != "" && answer(w, r)
			})
			data := "sealed " + name
			sum := sha256.Sum256([]byte(data))
			hash := name + "/" + hex.EncodeToString(sum[:])
			var wg sync.WaitGroup
			for range 2 {
				wg.Go(func() { put(t, s, hash, data) })
			}
			wg.Wait()
			has(t, s, hash, data)
			put(t, s, name+"/plain", "text")
			put(t, s, name+"/plain", "text")
			has(t, s, name+"/plain", "text")
			if name == "ignores" {
				return // nobody tells other bytes apart there
			}
			if err := s.Put(t.Context(), name+"/plain", []byte("other")); !errors.Is(err, blobd.ErrCorrupt) {
				t.Errorf("other bytes: %v", err)
			}
			has(t, s, name+"/plain", "text")
		})
	}
}

// What a put and a delete send is known to servers of any age.
func TestRequestsCarryChecksumsThatEveryServerKnows(t *testing.T) {
	s, b, _, _ := strange(t)
	var puts, deletes atomic.Int64
	b.with(func(w http.ResponseWriter, r *http.Request) bool {
		for name := range r.Header {
			if strings.HasPrefix(strings.ToLower(name), "x-amz-checksum-") || name == "X-Amz-Trailer" || name == "X-Amz-Sdk-Checksum-Algorithm" {
				return gives(501, xmlError("NotImplemented"))(w, r)
			}
		}
		body := r.Method == http.MethodPut || r.Method == http.MethodPost && r.URL.Query().Has("delete")
		if !body {
			return false
		}
		sent, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		r.Body = io.NopCloser(bytes.NewReader(sent))
		sum := sha256.Sum256(sent)
		switch {
		case r.Header.Get("Content-Md5") == "":
			return gives(400, xmlError("MissingContentMD5"))(w, r)
		case r.Header.Get("X-Amz-Content-Sha256") != hex.EncodeToString(sum[:]), r.Header.Get("Content-Encoding") != "":
			return gives(400, xmlError("InvalidArgument"))(w, r)
		case r.Method == http.MethodPut:
			puts.Add(1)
		default:
			deletes.Add(1)
		}
		return false
	})
	put(t, s, "a/b", "text")
	put(t, s, "a/empty", "")
	has(t, s, "a/b", "text")
	if e, err := s.Erase(t.Context(), backends.Scope{Prefix: "a/"}); err != nil || e.Objects != 2 {
		t.Errorf("%+v, %v", e, err)
	}
	if puts.Load() != 2 || deletes.Load() != 1 {
		t.Errorf("%d puts and %d deletes passed", puts.Load(), deletes.Load())
	}
}

// A prefix keeps deployments apart.
func TestEverythingStaysUnderThePrefix(t *testing.T) {
	server := servers.MinIO(t, servers.MinIOOptions{})
	bucket := unique()
	server.Bucket(t, bucket, servers.Bucket{})
	o := options(server, bucket)
	whole := open(t, o)
	o.Prefix = "one"
	one := open(t, o)
	o.Prefix = "one-more"
	other := open(t, o)
	put(t, whole, "a/b", "of the bucket")
	put(t, one, "a/b", "of one")
	put(t, other, "a/b", "of the other")
	if l, err := one.List(t.Context(), "", "", 10); err != nil || len(l) != 1 || l[0].Name != "a/b" {
		t.Errorf("%+v, %v", l, err)
	}
	if e, err := one.Erase(t.Context(), backends.Scope{Prefix: "a/"}); err != nil || e.Objects != 1 {
		t.Errorf("%+v, %v", e, err)
	}
	lacks(t, one, "a/b")
	has(t, whole, "a/b", "of the bucket")
	has(t, other, "a/b", "of the other")
}
