package minio_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
	"github.com/blobd/blobd/backends/minio"
	"github.com/blobd/blobd/internal/servers"
)

// raw does things behind the driver's back.
type raw struct {
	t      *testing.T
	c      *s3.Client
	bucket string
}

func (r raw) put(key, data string) (version string) {
	r.t.Helper()
	out, err := r.c.PutObject(r.t.Context(), &s3.PutObjectInput{Bucket: &r.bucket, Key: &key, Body: strings.NewReader(data)})
	if err != nil {
		r.t.Error(err)
		return ""
	}
	return aws.ToString(out.VersionId)
}

func (r raw) hide(key string) {
	r.t.Helper()
	if _, err := r.c.DeleteObject(r.t.Context(), &s3.DeleteObjectInput{Bucket: &r.bucket, Key: &key}); err != nil {
		r.t.Fatal(err)
	}
}

func (r raw) versioning(status types.BucketVersioningStatus) {
	r.t.Helper()
	_, err := r.c.PutBucketVersioning(r.t.Context(), &s3.PutBucketVersioningInput{
		Bucket: &r.bucket, VersioningConfiguration: &types.VersioningConfiguration{Status: status},
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// upload begins an upload of a key and leaves it with a part.
func (r raw) upload(key string) {
	r.t.Helper()
	out, err := r.c.CreateMultipartUpload(r.t.Context(), &s3.CreateMultipartUploadInput{Bucket: &r.bucket, Key: &key})
	if err != nil {
		r.t.Fatal(err)
	}
	_, err = r.c.UploadPart(r.t.Context(), &s3.UploadPartInput{
		Bucket: &r.bucket, Key: &key, UploadId: out.UploadId, PartNumber: aws.Int32(1), Body: strings.NewReader("part"),
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r raw) uploads(key string) int {
	r.t.Helper()
	out, err := r.c.ListMultipartUploads(r.t.Context(), &s3.ListMultipartUploadsInput{Bucket: &r.bucket, Prefix: &key})
	if err != nil {
		r.t.Fatal(err)
	}
	return len(out.Uploads)
}

func (r raw) versions(prefix string) (n int) {
	r.t.Helper()
	pages := s3.NewListObjectVersionsPaginator(r.c, &s3.ListObjectVersionsInput{Bucket: &r.bucket, Prefix: &prefix})
	for pages.HasMorePages() {
		out, err := pages.NextPage(r.t.Context())
		if err != nil {
			r.t.Fatal(err)
		}
		n += len(out.Versions) + len(out.DeleteMarkers)
	}
	return n
}

// inParallel does n things, some at a time.
func inParallel(n int, do func(i int)) {
	var all sync.WaitGroup
	for w := range 16 {
		all.Go(func() {
			for i := w; i < n; i += 16 {
				do(i)
			}
		})
	}
	all.Wait()
}

// onBoth runs a test on a bucket of each server.
func onBoth(t *testing.T, like servers.Bucket, test func(t *testing.T, server *servers.S3, r raw, s *minio.Store)) {
	for _, c := range []struct {
		name  string
		start func(t *testing.T) *servers.S3
	}{
		{"minio", func(t *testing.T) *servers.S3 { return servers.MinIO(t, servers.MinIOOptions{}) }},
		{"versitygw", func(t *testing.T) *servers.S3 { return servers.VersityGW(t, servers.VersityGWOptions{}) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			server, bucket := c.start(t), unique()
			server.Bucket(t, bucket, like)
			test(t, server, raw{t, server.Client(), bucket}, open(t, options(server, bucket)))
		})
	}
}

func TestAnErasureReachesEveryVersionMarkerAndTheNullVersion(t *testing.T) {
	onBoth(t, servers.Bucket{}, func(t *testing.T, _ *servers.S3, r raw, s *minio.Store) {
		for _, scope := range []backends.Scope{{Prefix: "a/"}, {Names: []string{"a/b", "a/hidden"}}} {
			r.put("a/b", "before versions")
			r.versioning(types.BucketVersioningStatusEnabled)
			for _, data := range []string{"one", "two", "three"} {
				r.put("a/b", data)
				r.put("a/hidden", data)
			}
			r.hide("a/hidden")
			r.versioning(types.BucketVersioningStatusSuspended)
			r.put("a/hidden", "null again")
			r.hide("a/hidden")
			r.put("ab", "neighbour")
			all := r.versions("a/")
			if left, err := s.Residue(t.Context(), scope, 100); err != nil || len(left) != all || all < 8 {
				t.Errorf("residue %+v of %d, %v", left, all, err)
			}
			if e, err := s.Erase(t.Context(), scope); err != nil || e.Objects != 2 || e.Versions != all || len(e.Refused) > 0 {
				t.Errorf("%+v of %d, %v", e, all, err)
			}
			if left, err := s.Residue(t.Context(), scope, 100); err != nil || len(left) > 0 || r.versions("a/") > 0 {
				t.Errorf("left %+v, %v", left, err)
			}
			has(t, s, "ab", "neighbour")
		}
	})
}

func TestVersionsOfOneNameThatSpanPagesAreAllErased(t *testing.T) {
	onBoth(t, servers.Bucket{Versioned: true}, func(t *testing.T, _ *servers.S3, r raw, s *minio.Store) {
		const n = 1010
		keeping := &http.Transport{MaxIdleConnsPerHost: 16}
		defer keeping.CloseIdleConnections()
		fast := raw{t, s3.New(r.c.Options(), func(o *s3.Options) { o.HTTPClient = &http.Client{Transport: keeping} }), r.bucket}
		inParallel(n, func(i int) { fast.put("a/b", fmt.Sprint(i)) })
		r.put("a/bc", "neighbour")
		scope := backends.Scope{Names: []string{"a/b"}}
		if left, err := s.Residue(t.Context(), scope, 2*n); err != nil || len(left) != n {
			t.Errorf("residue %d, %v", len(left), err)
		}
		if e, err := s.Erase(t.Context(), scope); err != nil || e.Objects != 1 || e.Versions != n {
			t.Errorf("%+v, %v", e, err)
		}
		if r.versions("a/") != 1 {
			t.Errorf("%d left, want the neighbour", r.versions("a/"))
		}
	})
}

func TestUnfinishedUploadsAreErasedByNameAndByPrefix(t *testing.T) {
	onBoth(t, servers.Bucket{}, func(t *testing.T, server *servers.S3, r raw, s *minio.Store) {
		for _, scope := range []backends.Scope{{Names: []string{"a/b", "a/c"}}, {Prefix: "a/"}} {
			r.put("a/b", "text")
			r.upload("a/b")
			r.upload("a/b")
			r.upload("a/c") // a name without an object
			r.upload("ab")
			if left, err := s.Residue(t.Context(), scope, 100); err != nil || len(left) != 4 {
				t.Errorf("residue %+v, %v", left, err)
			}
			if e, err := s.Erase(t.Context(), scope); err != nil || e.Versions != 4 {
				t.Errorf("%+v, %v", e, err)
			}
			if n := r.uploads("a/b") + r.uploads("a/c"); n != 0 {
				t.Errorf("%d uploads left", n)
			}
			if r.uploads("ab") == 0 {
				t.Error("the neighbour's upload is gone")
			}
		}
		// MinIO forgets, in the list of the whole bucket, what was begun before.
		r.put("a/b", "text")
		r.upload("a/b")
		server.Kill()
		server.Start()
		if e, err := s.Erase(t.Context(), backends.Scope{Prefix: "a/"}); err != nil || e.Versions != 2 {
			t.Errorf("after a restart: %+v, %v", e, err)
		}
		if r.uploads("a/b") != 0 {
			t.Error("an upload begun before a restart is left")
		}
	})
}

func TestWhatIsLockedIsRefusedWithItsDateAndTheRestIsErased(t *testing.T) {
	onBoth(t, servers.Bucket{ObjectLock: true}, func(t *testing.T, _ *servers.S3, r raw, s *minio.Store) {
		until := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
		want := map[string]time.Time{"a/compliance": until, "a/governance": until, "a/held": {}}
		for name, mode := range map[string]types.ObjectLockRetentionMode{
			"a/compliance": types.ObjectLockRetentionModeCompliance, "a/governance": types.ObjectLockRetentionModeGovernance,
		} {
			version := r.put(name, "text")
			_, err := r.c.PutObjectRetention(t.Context(), &s3.PutObjectRetentionInput{
				Bucket: &r.bucket, Key: &name, VersionId: &version,
				Retention: &types.ObjectLockRetention{Mode: mode, RetainUntilDate: &until},
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		version := r.put("a/held", "text")
		hold := func(status types.ObjectLockLegalHoldStatus) {
			_, err := r.c.PutObjectLegalHold(t.Context(), &s3.PutObjectLegalHoldInput{
				Bucket: &r.bucket, Key: aws.String("a/held"), VersionId: &version, LegalHold: &types.ObjectLockLegalHold{Status: status},
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		hold(types.ObjectLockLegalHoldStatusOn)
		r.put("a/free", "text")
		for _, scope := range []backends.Scope{{Prefix: "a/"}, {Names: []string{"a/compliance", "a/free", "a/governance", "a/held"}}} {
			e, err := s.Erase(t.Context(), scope)
			if err != nil || len(e.Refused) != 3 {
				t.Fatalf("%+v, %v", e, err)
			}
			for _, no := range e.Refused {
				if date, ok := want[no.Name]; !ok || !no.Until.Equal(date) || no.Reason == "" || no.Version == "" {
					t.Errorf("%+v, want until %v", no, date)
				}
			}
			if left, err := s.Residue(t.Context(), scope, 10); err != nil || len(left) != 3 {
				t.Errorf("residue %+v, %v", left, err)
			}
		}
		lacks(t, s, "a/free")
		has(t, s, "a/held", "text")
		hold(types.ObjectLockLegalHoldStatusOff)
		if e, err := s.Erase(t.Context(), backends.Scope{Prefix: "a/"}); err != nil || e.Objects != 1 || len(e.Refused) != 2 {
			t.Errorf("after the hold: %+v, %v", e, err)
		}
		lacks(t, s, "a/held")
	})
}

// deleteResult answers a delete of many with a code for every key.
func deleteResult(code string) odd {
	return func(w http.ResponseWriter, r *http.Request) bool {
		body, _ := io.ReadAll(r.Body)
		var b strings.Builder
		for _, part := range strings.Split(string(body), "<Key>")[1:] {
			key, _, _ := strings.Cut(part, "</Key>")
			fmt.Fprintf(&b, "<Error><Key>%s</Key><VersionId>null</VersionId><Code>%s</Code><Message>m</Message></Error>", key, code)
		}
		return gives(200, "<DeleteResult>"+b.String()+"</DeleteResult>")(w, r)
	}
}

func TestASuccessWithErrorsInsideIsNoSuccess(t *testing.T) {
	s, b, _, _ := strange(t)
	for _, c := range []string{"InternalError", "SlowDown", "AccessDenied", "InvalidArgument", "NoSuchVersion", "Unknown"} {
		t.Run(c, func(t *testing.T) {
			put(t, s, "a/b", "text")
			put(t, s, "a/c", "text")
			many, single := deleteResult(c), gives(403, xmlError("AccessDenied"))
			b.with(func(w http.ResponseWriter, r *http.Request) bool {
				return to("POST", "delete", many)(w, r) || to("DELETE", "versionId", single)(w, r)
			})
			for _, scope := range []backends.Scope{{Prefix: "a/"}, {Names: []string{"a/b", "a/c"}}} {
				if e, err := s.Erase(t.Context(), scope); !errors.Is(err, blobd.ErrUnavailable) || e.Objects > 0 || len(e.Refused) > 0 {
					t.Errorf("%+v, %v", e, err)
				}
			}
			has(t, s, "a/b", "text")
			b.with(to("POST", "delete", once(many))) // one by one it goes
			if e, err := s.Erase(t.Context(), backends.Scope{Prefix: "a/"}); err != nil || e.Objects != 2 {
				t.Errorf("%+v, %v", e, err)
			}
			lacks(t, s, "a/b")
		})
	}
}

func TestAnAnswerToADeleteThatNamesNothingIsNoSuccess(t *testing.T) {
	s, b, _, _ := strange(t)
	for name, answer := range map[string]odd{
		"empty":    gives(200, "<DeleteResult></DeleteResult>"),
		"a page":   gives(200, "<html>welcome</html>"),
		"cut":      gives(200, "<DeleteResult><Deleted><Key>a/b</Key>"),
		"nothing":  gives(200, ""),
		"an error": gives(200, xmlError("InternalError")),
	} {
		t.Run(name, func(t *testing.T) {
			put(t, s, "a/b", "text")
			b.with(func(w http.ResponseWriter, r *http.Request) bool {
				return to("POST", "delete", answer)(w, r) || to("DELETE", "", gives(503, xmlError("SlowDown")))(w, r)
			})
			if e, err := s.Erase(soon(t), backends.Scope{Prefix: "a/"}); !errors.Is(err, blobd.ErrUnavailable) || e.Objects > 0 {
				t.Errorf("%+v, %v", e, err)
			}
			b.with(nil)
			has(t, s, "a/b", "text")
		})
	}
}

func TestAStoreThatListsWhatItDeletedIsNotBelieved(t *testing.T) {
	s, b, _, _ := strange(t)
	put(t, s, "a/b", "text")
	b.with(to("POST", "delete", func(w http.ResponseWriter, r *http.Request) bool {
		return gives(200, "<DeleteResult><Deleted><Key>a/b</Key><VersionId>null</VersionId></Deleted></DeleteResult>")(w, r)
	}))
	if e, err := s.Erase(t.Context(), backends.Scope{Prefix: "a/"}); !errors.Is(err, blobd.ErrUnavailable) {
		t.Errorf("%+v, %v", e, err)
	}
	if left, err := s.Residue(t.Context(), backends.Scope{Names: []string{"a/b"}}, 1); err != nil || len(left) != 1 {
		t.Errorf("%+v, %v", left, err)
	}
}

func TestAServerThatDeletesOneByOneOnlyIsErasedFrom(t *testing.T) {
	s, b, _, _ := strange(t)
	for i := range 20 {
		put(t, s, fmt.Sprintf("a/b%d", i), "text")
	}
	b.with(to("POST", "delete", gives(501, xmlError("NotImplemented"))))
	if e, err := s.Erase(t.Context(), backends.Scope{Prefix: "a/"}); err != nil || e.Objects != 20 || e.Versions != 20 {
		t.Errorf("%+v, %v", e, err)
	}
	if left, err := s.Residue(t.Context(), backends.Scope{Prefix: "a/"}, 10); err != nil || len(left) > 0 {
		t.Errorf("%+v, %v", left, err)
	}
}

func TestDeletesGoInBatchesOfAtMostAThousandAndNeverWithoutAVersion(t *testing.T) {
	s, b, server, bucket := strange(t)
	direct := open(t, options(server, bucket))
	inParallel(1001, func(i int) { put(t, direct, fmt.Sprintf("a/b%04d", i), "") })
	var batches []int
	var plain atomic.Int64
	b.with(func(_ http.ResponseWriter, r *http.Request) bool {
		switch {
		case r.Method == http.MethodPost && r.URL.Query().Has("delete"):
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(strings.NewReader(string(body)))
			batches = append(batches, strings.Count(string(body), "<VersionId>")) // one at a time
		case r.Method == http.MethodDelete && !r.URL.Query().Has("versionId") && !r.URL.Query().Has("uploadId"):
			plain.Add(1)
		}
		return false
	})
	if e, err := s.Erase(t.Context(), backends.Scope{Prefix: "a/"}); err != nil || e.Objects != 1001 {
		t.Errorf("%+v, %v", e, err)
	}
	if !slices.Equal(batches, []int{1000, 1}) || plain.Load() > 0 {
		t.Errorf("batches %v, %d plain deletes", batches, plain.Load())
	}
}
