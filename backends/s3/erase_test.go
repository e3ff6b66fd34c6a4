package s3_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
	"github.com/blobd/blobd/internal/servers"
)

func TestEraseReachesEveryVersionMarkerAndTheNullVersion(t *testing.T) {
	both(t, func(t *testing.T, server *servers.S3) {
		server.Bucket(t, "bucket", servers.Bucket{})
		s := open(t, options(server, "bucket", "d"))
		write := func() {
			putRaw(t, server, "bucket", "d/a/b", "without versions")
			setVersioning(t, server, "bucket", types.BucketVersioningStatusEnabled)
			putRaw(t, server, "bucket", "d/a/b", "first version")
			deleteRaw(t, server, "bucket", "d/a/b")
			putRaw(t, server, "bucket", "d/a/b", "second version")
			putRaw(t, server, "bucket", "d/a/hidden", "hidden")
			deleteRaw(t, server, "bucket", "d/a/hidden")
			setVersioning(t, server, "bucket", types.BucketVersioningStatusSuspended)
			putRaw(t, server, "bucket", "d/a/b", "null again")
			putRaw(t, server, "bucket", "d/ab", "neighbour")
			if n := len(versionsIn(t, server, "bucket", "d/a/")); n != 6 {
				t.Fatalf("%d versions and markers, want 6", n)
			}
		}
		for _, scope := range []backends.Scope{{Prefix: "a/"}, {Names: []string{"a/b", "a/hidden"}}} {
			write()
			left, err := s.Residue(t.Context(), scope, 100)
			if err != nil || len(left) != 6 {
				t.Errorf("residue before: %v, %v", left, err)
			}
			e, err := s.Erase(t.Context(), scope)
			if err != nil || e.Objects != 2 || e.Versions != 6 || len(e.Refused) != 0 {
				t.Errorf("%+v, %v", e, err)
			}
			if found := versionsIn(t, server, "bucket", "d/a/"); len(found) != 0 {
				t.Errorf("left %q", found)
			}
			if left, err := s.Residue(t.Context(), scope, 100); err != nil || len(left) != 0 {
				t.Errorf("residue after: %v, %v", left, err)
			}
			has(t, s, "ab", []byte("neighbour"))
			deleteRaw(t, server, "bucket", "d/ab")
		}
	})
}

func TestVersionsOfOneNameThatSpanPagesAreErased(t *testing.T) {
	both(t, func(t *testing.T, server *servers.S3) {
		server.Bucket(t, "bucket", servers.Bucket{Versioned: true})
		s := open(t, options(server, "bucket", ""))
		const versions = 1200
		client := awss3.New(server.Client().Options(), func(o *awss3.Options) { o.HTTPClient = http.DefaultClient })
		defer http.DefaultClient.CloseIdleConnections()
		var wg sync.WaitGroup
		for w := range 16 {
			wg.Go(func() {
				for i := w; i < versions; i += 16 {
					_, err := client.PutObject(t.Context(), &awss3.PutObjectInput{
						Bucket: aws.String("bucket"), Key: aws.String("x/ab"), Body: strings.NewReader(fmt.Sprint(i)),
					})
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		putRaw(t, server, "bucket", "x/abc", "neighbour")
		if left, err := s.Residue(t.Context(), backends.Scope{Names: []string{"x/ab"}}, 10_000); err != nil || len(left) != versions {
			t.Errorf("residue %d, %v", len(left), err)
		}
		e, err := s.Erase(t.Context(), backends.Scope{Names: []string{"x/ab"}})
		if err != nil || e.Objects != 1 || e.Versions != versions {
			t.Errorf("%+v, %v", e, err)
		}
		if found := versionsIn(t, server, "bucket", "x/"); len(found) != 1 || !strings.HasPrefix(found[0], "x/abc ") {
			t.Errorf("left %d", len(found))
		}
		lacks(t, s, "x/ab")
		has(t, s, "x/abc", []byte("neighbour"))
	})
}

func TestALockedVersionIsARefusalWithItsDate(t *testing.T) {
	both(t, func(t *testing.T, server *servers.S3) {
		server.Bucket(t, "bucket", servers.Bucket{ObjectLock: true})
		s := open(t, options(server, "bucket", ""))
		until := time.Now().Add(24 * time.Hour).UTC().Truncate(time.Second)
		for name, lock := range map[string]func(key, version string) error{
			"a/compliance": func(key, version string) error { return retain(t, server, key, version, "COMPLIANCE", until) },
			"a/governance": func(key, version string) error { return retain(t, server, key, version, "GOVERNANCE", until) },
			"a/held":       func(key, version string) error { return hold(t, server, key, version, "ON") },
			"a/free":       func(string, string) error { return nil },
		} {
			if err := lock(name, putRaw(t, server, "bucket", name, name)); err != nil {
				t.Fatal(err)
			}
		}
		e, err := s.Erase(t.Context(), backends.Scope{Prefix: "a/"})
		if err != nil || e.Objects != 1 || len(e.Refused) != 3 {
			t.Fatalf("%+v, %v", e, err)
		}
		for i, want := range []backends.Refusal{
			{Name: "a/compliance", Reason: "COMPLIANCE", Until: until},
			{Name: "a/governance", Reason: "GOVERNANCE", Until: until},
			{Name: "a/held", Reason: "LEGAL_HOLD"},
		} {
			got := e.Refused[i]
			if got.Name != want.Name || got.Reason != want.Reason || !got.Until.Equal(want.Until) || got.Version == "" {
				t.Errorf("%+v, want %+v", got, want)
			}
		}
		if left, err := s.Residue(t.Context(), backends.Scope{Prefix: "a/"}, 10); err != nil || len(left) != 3 {
			t.Errorf("%v, %v", left, err)
		}
		held := e.Refused[2]
		has(t, s, held.Name, []byte(held.Name)) // no delete marker hides it
		if err := hold(t, server, held.Name, held.Version, "OFF"); err != nil {
			t.Fatal(err)
		}
		e, err = s.Erase(t.Context(), backends.Scope{Names: []string{"a/held"}})
		if err != nil || e.Objects != 1 || len(e.Refused) != 0 {
			t.Errorf("after the release: %+v, %v", e, err)
		}
	})
}

func TestUnfinishedUploadsAreErased(t *testing.T) {
	both(t, func(t *testing.T, server *servers.S3) {
		server.Bucket(t, "bucket", servers.Bucket{})
		s := open(t, options(server, "bucket", "d"))
		for _, scope := range []backends.Scope{{Prefix: "a/"}, {Names: []string{"a/both", "a/alone"}}} {
			put(t, s, "a/both", []byte("x"))
			for _, key := range []string{"d/a/both", "d/a/alone", "d/ab"} {
				beginUpload(t, server, "bucket", key)
			}
			left, err := s.Residue(t.Context(), scope, 10)
			if err != nil || len(left) != 3 {
				t.Errorf("residue before: %v, %v", left, err)
			}
			e, err := s.Erase(t.Context(), scope)
			if err != nil || e.Objects != 2 || e.Versions != 3 {
				t.Errorf("%+v, %v", e, err)
			}
			if n := uploadsOf(t, server, "bucket", "d/a/both") + uploadsOf(t, server, "bucket", "d/a/alone"); n != 0 {
				t.Errorf("left %d uploads", n)
			}
			if left, err := s.Residue(t.Context(), scope, 10); err != nil || len(left) != 0 {
				t.Errorf("residue after: %v, %v", left, err)
			}
		}
		if n := uploadsOf(t, server, "bucket", "d/ab"); n != 2 {
			t.Errorf("the neighbour has %d uploads", n)
		}
	})
}

// TestAProbeOfUploadsThatFailsLeavesNone: the upload that it began is aborted
// though its listing failed.
func TestAProbeOfUploadsThatFailsLeavesNone(t *testing.T) {
	s, p, server := rig(t)
	var probe atomic.Value
	p.does(func(p *proxy, w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost && r.URL.Query().Has("uploads") {
			probe.Store(strings.TrimPrefix(r.URL.Path, "/bucket/"))
		}
		return of(http.MethodGet, "uploads", says(403, "application/xml", errorXML("AccessDenied")))(p, w, r)
	})
	if e, err := s.Erase(t.Context(), backends.Scope{Prefix: "a/"}); !errors.Is(err, blobd.ErrUnavailable) {
		t.Fatalf("%+v, %v, want unavailable", e, err)
	}
	key, ok := probe.Load().(string)
	if !ok {
		t.Fatal("no upload was begun")
	}
	if n := uploadsOf(t, server, "bucket", key); n != 0 {
		t.Errorf("%d uploads are left of the probe", n)
	}
}

// TestHowUploadsAreListedIsAskedOnce, also where it cannot be found out.
func TestHowUploadsAreListedIsAskedOnce(t *testing.T) {
	s, p, _ := rig(t)
	var asked atomic.Int64
	p.does(of(http.MethodPost, "uploads", func(p *proxy, w http.ResponseWriter, r *http.Request) bool {
		asked.Add(1)
		return says(403, "application/xml", errorXML("AccessDenied"))(p, w, r)
	}))
	for range 3 {
		if _, err := s.Erase(t.Context(), backends.Scope{Names: []string{"a/b"}}); err != nil {
			t.Fatal(err)
		}
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

// After a restart MinIO lists an upload by its whole name only.
func TestAnUploadBesideAnObjectIsErasedAfterTheServerStartedAgain(t *testing.T) {
	both(t, func(t *testing.T, server *servers.S3) {
		server.Bucket(t, "bucket", servers.Bucket{})
		s := open(t, options(server, "bucket", "d"))
		put(t, s, "a/both", []byte("x"))
		beginUpload(t, server, "bucket", "d/a/both")
		beginUpload(t, server, "bucket", "d/b/alone")
		server.Kill()
		server.Start()
		if e, err := s.Erase(t.Context(), backends.Scope{Prefix: "a/"}); err != nil || e.Objects != 1 || e.Versions != 2 {
			t.Errorf("%+v, %v", e, err)
		}
		if e, err := s.Erase(t.Context(), backends.Scope{Names: []string{"b/alone"}}); err != nil || e.Versions != 1 {
			t.Errorf("%+v, %v", e, err)
		}
		if n := uploadsOf(t, server, "bucket", "d/a/both") + uploadsOf(t, server, "bucket", "d/b/alone"); n != 0 {
			t.Errorf("left %d uploads", n)
		}
	})
}

func TestDeletesGoInBatchesOfAtMostAThousand(t *testing.T) {
	both(t, func(t *testing.T, server *servers.S3) {
		server.Bucket(t, "bucket", servers.Bucket{})
		p := newProxy(t, server)
		s := open(t, through(p, options(server, "bucket", "")))
		const n = 1001
		var wg sync.WaitGroup
		for w := range 16 {
			wg.Go(func() {
				for i := w; i < n; i += 16 {
					put(t, s, fmt.Sprintf("e/n%05d", i), []byte("x"))
				}
			})
		}
		wg.Wait()
		var batches, single atomic.Int64
		p.does(func(_ *proxy, _ http.ResponseWriter, r *http.Request) bool {
			switch {
			case r.Method == "POST" && r.URL.Query().Has("delete"):
				batches.Add(1)
			case r.Method == "DELETE" && r.URL.Query().Has("versionId"):
				single.Add(1)
			}
			return false
		})
		e, err := s.Erase(t.Context(), backends.Scope{Prefix: "e/"})
		if err != nil || e.Objects != n || e.Versions != n {
			t.Errorf("%+v, %v", e, err)
		}
		if batches.Load() != 2 || single.Load() != 0 {
			t.Errorf("%d batches and %d single deletes", batches.Load(), single.Load())
		}
		if found := versionsIn(t, server, "bucket", ""); len(found) != 0 {
			t.Errorf("left %d", len(found))
		}
	})
}

// failing answers a delete of many with a failure of every key and does nothing.
func failing(code string) func(*proxy, http.ResponseWriter, *http.Request) bool {
	return of("POST", "delete", says(200, "application/xml", `<?xml version="1.0"?><DeleteResult>`+
		`<Error><Key>d/a/b</Key><VersionId>null</VersionId><Code>`+code+`</Code></Error></DeleteResult>`))
}

func TestAKeyThatFailsInAGoodAnswerIsNotErased(t *testing.T) {
	s, p, _ := rig(t)
	put(t, s, "a/b", []byte("x"))
	scope := backends.Scope{Prefix: "a/"}
	for _, code := range []string{"InternalError", "InvalidArgument", "AccessDenied", "SomethingNew", ""} {
		p.does(failing(code))
		if e, err := s.Erase(t.Context(), scope); err == nil || e.Objects != 0 {
			t.Errorf("%q: %+v, %v", code, e, err)
		}
	}
	p.does(of("POST", "delete", says(200, "application/xml", `<?xml version="1.0"?><DeleteResult></DeleteResult>`)))
	if e, err := s.Erase(t.Context(), scope); err == nil || e.Objects != 0 {
		t.Errorf("not mentioned: %+v, %v", e, err)
	}
	p.does(of("POST", "delete", says(200, "application/xml", `<?xml version="1.0"?><DeleteResult>`+
		`<Deleted><Key>d/a/b</Key><VersionId>null</VersionId></Deleted></DeleteResult>`)))
	if _, err := s.Erase(t.Context(), scope); !errors.Is(err, blobd.ErrUnavailable) {
		t.Errorf("said and not done: %v", err)
	}
	p.does(nil)
	has(t, s, "a/b", []byte("x"))
	p.does(first(1, failing("InternalError")))
	if e, err := s.Erase(t.Context(), scope); err != nil || e.Objects != 1 {
		t.Errorf("failed for a while: %+v, %v", e, err)
	}
	p.does(nil)
	lacks(t, s, "a/b")
}

func TestEraseWorksWhereManyCannotBeDeletedAtOnce(t *testing.T) {
	s, p, server := rig(t)
	setVersioning(t, server, "bucket", types.BucketVersioningStatusEnabled)
	for i := range 20 {
		put(t, s, fmt.Sprintf("a/n%d", i), []byte("x"))
	}
	p.does(of("POST", "delete", says(501, "application/xml", errorXML("NotImplemented"))))
	if e, err := s.Erase(t.Context(), backends.Scope{Prefix: "a/"}); err != nil || e.Objects != 20 {
		t.Errorf("%+v, %v", e, err)
	}
	if found := versionsIn(t, server, "bucket", ""); len(found) != 0 {
		t.Errorf("left %q", found)
	}
}

func TestWithoutThePermissionToDeleteVersionsNothingIsHidden(t *testing.T) {
	server := servers.MinIO(t, servers.MinIOOptions{})
	server.Bucket(t, "bucket", servers.Bucket{Versioned: true})
	session := server.Session(t, `{"Version":"2012-10-17","Statement":[
		{"Effect":"Allow","Action":["s3:*"],"Resource":["arn:aws:s3:::*"]},
		{"Effect":"Deny","Action":["s3:DeleteObjectVersion"],"Resource":["arn:aws:s3:::*"]}]}`)
	for name, value := range session.Environ() {
		t.Setenv(name, value)
	}
	o := hasty(options(server, "bucket", ""))
	o.AccessKey, o.SecretKey = "", blobd.Text{} // the chain of the SDK finds the session
	s := open(t, o)
	put(t, s, "a/b", []byte("x"))
	before := versionsIn(t, server, "bucket", "")
	if e, err := s.Erase(t.Context(), backends.Scope{Prefix: "a/"}); !errors.Is(err, blobd.ErrUnavailable) || len(e.Refused) != 0 {
		t.Errorf("%+v, %v", e, err)
	}
	if after := versionsIn(t, server, "bucket", ""); !slices.Equal(before, after) {
		t.Errorf("before %q, after %q", before, after)
	}
	has(t, s, "a/b", []byte("x"))
}

func TestAListingThatFailsOnItsSecondPageIsAnError(t *testing.T) {
	s, p, server := rig(t)
	setVersioning(t, server, "bucket", types.BucketVersioningStatusEnabled)
	for range 3 {
		putRaw(t, server, "bucket", "d/a/b", "x")
	}
	p.does(of("GET", "versions", func(p *proxy, w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Has("key-marker") {
			return says(403, "application/xml", errorXML("AccessDenied"))(p, w, r)
		}
		return says(200, "application/xml", `<?xml version="1.0"?><ListVersionsResult><Name>bucket</Name><IsTruncated>true</IsTruncated>`+
			`<NextKeyMarker>d/a/b</NextKeyMarker><NextVersionIdMarker>v</NextVersionIdMarker></ListVersionsResult>`)(p, w, r)
	}))
	if left, err := s.Residue(t.Context(), backends.Scope{Prefix: "a/"}, 10); !errors.Is(err, blobd.ErrUnavailable) || left != nil {
		t.Errorf("%v, %v", left, err)
	}
	if _, err := s.Erase(t.Context(), backends.Scope{Prefix: "a/"}); !errors.Is(err, blobd.ErrUnavailable) {
		t.Error(err)
	}
}

func TestEraseGoesOnAfterTheServerWasKilled(t *testing.T) {
	both(t, func(t *testing.T, server *servers.S3) {
		server.Bucket(t, "bucket", servers.Bucket{Versioned: true})
		s := open(t, options(server, "bucket", ""))
		data := bytes.Repeat([]byte("x"), 100)
		var wg sync.WaitGroup
		for w := range 16 {
			wg.Go(func() {
				for i := w; i < 400; i += 16 {
					put(t, s, fmt.Sprintf("e/n%05d", i), data)
				}
			})
		}
		wg.Wait()
		ended := make(chan error, 1)
		go func() {
			_, err := s.Erase(t.Context(), backends.Scope{Prefix: "e/"})
			ended <- err
		}()
		server.Kill()
		server.Start()
		<-ended // it may have failed: it is repeatable
		if _, err := s.Erase(t.Context(), backends.Scope{Prefix: "e/"}); err != nil {
			t.Error(err)
		}
		if found := versionsIn(t, server, "bucket", ""); len(found) != 0 {
			t.Errorf("left %d", len(found))
		}
	})
}

// MinIO takes an object where a folder is, and from then on lists nothing below.
func TestAnObjectWhereAFolderIsHidesNothingUnnoticed(t *testing.T) {
	s, _, server := rig(t)
	put(t, s, "a/b/c", []byte("text"))
	for _, key := range []string{"d/a/b", "d/a", "d"} {
		putRaw(t, server, "bucket", key, "")
		for _, scope := range []backends.Scope{{Prefix: "a/b/"}, {Names: []string{"a/b/c"}}} {
			if left, err := s.Residue(t.Context(), scope, 10); !errors.Is(err, blobd.ErrUnavailable) {
				t.Errorf("%s: residue of %+v: %v, %v", key, scope, left, err)
			}
			if e, err := s.Erase(t.Context(), scope); !errors.Is(err, blobd.ErrUnavailable) {
				t.Errorf("%s: erase of %+v: %+v, %v", key, scope, e, err)
			}
		}
		deleteRaw(t, server, "bucket", key)
	}
	if e, err := s.Erase(t.Context(), backends.Scope{Prefix: "a/b/"}); err != nil || e.Objects != 1 {
		t.Errorf("%+v, %v", e, err)
	}
	lacks(t, s, "a/b/c")
}
