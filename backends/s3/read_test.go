package s3_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
	"github.com/blobd/blobd/backends/s3"
	"github.com/blobd/blobd/internal/servers"
)

// hasty gives up soon, so that a test of an outage ends.
func hasty(o s3.Options) s3.Options {
	o.RetryFor, o.TryFor = 300*time.Millisecond, 5*time.Second
	return o
}

// rig is a store that talks to MinIO through a proxy.
func rig(t *testing.T) (*s3.Store, *proxy, *servers.S3) {
	t.Helper()
	server := servers.MinIO(t, servers.MinIOOptions{})
	server.Bucket(t, "bucket", servers.Bucket{})
	p := newProxy(t, server)
	return open(t, hasty(through(p, options(server, "bucket", "d")))), p, server
}

func put(t *testing.T, s backends.Store, name string, data []byte) {
	t.Helper()
	if err := s.Put(t.Context(), name, data); err != nil {
		t.Fatalf("put %s: %v", name, err)
	}
}

func has(t *testing.T, s backends.Store, name string, want []byte) {
	t.Helper()
	if got, err := s.Get(t.Context(), name); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("get %s: %d bytes, %v", name, len(got), err)
	}
}

func lacks(t *testing.T, s backends.Store, name string) {
	t.Helper()
	if got, err := s.Get(t.Context(), name); !errors.Is(err, blobd.ErrNotFound) {
		t.Fatalf("get %s: %d bytes, %v", name, len(got), err)
	}
}

func TestANotFoundThatIsNotTheStoresIsNoAbsence(t *testing.T) {
	s, p, _ := rig(t)
	put(t, s, "there", []byte("x"))
	for name, fault := range map[string]func(*proxy, http.ResponseWriter, *http.Request) bool{
		"empty":         says(404, "text/plain", ""),
		"text":          says(404, "text/plain", "default backend - 404"),
		"html":          says(404, "text/html", "<html><body><h1>Not Found</h1></body></html>"),
		"json":          says(404, "application/json", `{"code":"NoSuchKey"}`),
		"xml, no code":  says(404, "application/xml", `<Error></Error>`),
		"200 with html": says(200, "text/html", "<html><body>Sign in</body></html>"),
		"cut xml":       says(404, "application/xml", `<?xml version="1.0"?><Error><Code>NoSuch`),
	} {
		p.does(fault)
		for _, object := range []string{"there", "absent"} {
			if got, err := s.Get(t.Context(), object); errors.Is(err, blobd.ErrNotFound) || err == nil && string(got) == "x" {
				t.Errorf("%s, %s: %q, %v", name, object, got, err)
			}
		}
	}
	p.does(nil)
	has(t, s, "there", []byte("x"))
	lacks(t, s, "absent")
}

func TestOnlyNoSuchKeyIsAnAbsence(t *testing.T) {
	s, p, _ := rig(t)
	for _, c := range []struct {
		status      int
		code        string
		absent      bool
		unavailable bool
	}{
		{404, "NoSuchKey", true, false},
		{500, "NoSuchKey", false, true},
		{403, "NoSuchKey", false, false},
		{404, "NoSuchBucket", false, true},
		{404, "NoSuchVersion", false, true},
		{404, "NotFound", false, false},
		{404, "", false, false},
		{404, "XNewCode", false, false},
		{405, "MethodNotAllowed", false, false},
		{403, "InvalidObjectState", false, true},
		{403, "AccessDenied", false, true},
		{403, "SignatureDoesNotMatch", false, true},
		{403, "RequestTimeTooSkewed", false, true},
		{400, "ExpiredToken", false, true},
		{400, "AuthorizationHeaderMalformed", false, true},
		{301, "PermanentRedirect", false, true},
		{307, "TemporaryRedirect", false, true},
		{400, "RequestTimeout", false, true},
		{429, "TooManyRequests", false, true},
		{500, "InternalError", false, true},
		{502, "", false, true},
		{503, "SlowDown", false, true},
		{503, "XMinioServerNotInitialized", false, true},
		{507, "XMinioStorageFull", false, true},
	} {
		p.does(says(c.status, "application/xml", errorXML(c.code)))
		_, err := s.Get(t.Context(), "name")
		if errors.Is(err, blobd.ErrNotFound) != c.absent || errors.Is(err, blobd.ErrUnavailable) != c.unavailable || err == nil {
			t.Errorf("%d %s: %v", c.status, c.code, err)
		}
	}
}

func TestARedirectIsNotFollowed(t *testing.T) {
	s, p, _ := rig(t)
	put(t, s, "there", []byte("x"))
	p.does(func(_ *proxy, w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/elsewhere" {
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		}
		return true
	})
	if got, err := s.Get(t.Context(), "there"); err == nil || errors.Is(err, blobd.ErrNotFound) {
		t.Errorf("%q, %v", got, err)
	}
}

func TestAMissingBucketIsAnOutage(t *testing.T) {
	for name, server := range map[string]*servers.S3{
		"minio": servers.MinIO(t, servers.MinIOOptions{}), "versitygw": servers.VersityGW(t, servers.VersityGWOptions{}),
		"seaweedfs": servers.SeaweedFS(t, servers.SeaweedFSOptions{Args: []string{"-s3.autoCreateBucket=false"}}),
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, hasty(options(server, "absent", "")))
			scope := backends.Scope{Prefix: "a/"}
			for op, call := range map[string]func() error{
				"put":     func() error { return s.Put(t.Context(), "a/b", nil) },
				"get":     func() error { _, err := s.Get(t.Context(), "a/b"); return err },
				"list":    func() error { _, err := s.List(t.Context(), "a/", "", 1); return err },
				"erase":   func() error { _, err := s.Erase(t.Context(), scope); return err },
				"residue": func() error { _, err := s.Residue(t.Context(), scope, 1); return err },
				"check":   func() error { return s.Check(t.Context()) },
			} {
				if err := call(); !errors.Is(err, blobd.ErrUnavailable) || errors.Is(err, blobd.ErrNotFound) {
					t.Errorf("%s: %v", op, err)
				}
			}
		})
	}
}

func TestWrongCredentialsAreAnOutage(t *testing.T) {
	server := servers.MinIO(t, servers.MinIOOptions{})
	server.Bucket(t, "bucket", servers.Bucket{})
	o := hasty(options(server, "bucket", ""))
	o.SecretKey = blobd.TextOf([]byte("wrong-secret"))
	s := open(t, o)
	if _, err := s.Get(t.Context(), "absent"); !errors.Is(err, blobd.ErrUnavailable) || errors.Is(err, blobd.ErrNotFound) {
		t.Error(err)
	}
	if err := s.Check(t.Context()); !errors.Is(err, blobd.ErrUnavailable) {
		t.Error(err)
	}
}

func TestARefusedAbsenceFailsTheCheck(t *testing.T) {
	s, p, _ := rig(t)
	if err := s.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.does(of("GET", "", says(403, "application/xml", errorXML("AccessDenied"))))
	if err := s.Check(t.Context()); !errors.Is(err, blobd.ErrUnavailable) {
		t.Error(err)
	}
}

func TestAnAnswerThatBreaksOffIsReadAgain(t *testing.T) {
	s, p, _ := rig(t)
	data := bytes.Repeat([]byte("0123456789"), 1000)
	put(t, s, "long", data)
	p.does(of("GET", "", first(2, cut(50))))
	has(t, s, "long", data)
	p.does(of("GET", "", cut(50)))
	if got, err := s.Get(t.Context(), "long"); !errors.Is(err, blobd.ErrUnavailable) || got != nil {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

func TestAnObjectPastTheBoundIsRefused(t *testing.T) {
	_, p, server := rig(t)
	o := options(server, "bucket", "d")
	o.MaxObject = 1000
	bounded := open(t, through(p, o))
	put(t, bounded, "just", make([]byte, 1000))
	has(t, bounded, "just", make([]byte, 1000))
	put(t, bounded, "more", make([]byte, 1001))
	if _, err := bounded.Get(t.Context(), "more"); !errors.Is(err, blobd.ErrTooLarge) {
		t.Error(err)
	}
}

func TestAnOutageEndsAtTheDeadlineAndIsNeverAnAbsence(t *testing.T) {
	s, p, _ := rig(t)
	put(t, s, "there", []byte("x"))
	p.does(says(503, "application/xml", errorXML("SlowDown")))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for range 200 {
		wg.Go(func() {
			if _, err := s.Get(ctx, "there"); !errors.Is(err, blobd.ErrUnavailable) || errors.Is(err, blobd.ErrNotFound) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	p.does(nil)
	has(t, s, "there", []byte("x")) // no budget of retries is used up
}

func TestAServerThatSaysNothingIsLeftAtTheDeadline(t *testing.T) {
	s, p, _ := rig(t)
	silent := make(chan struct{})
	p.does(func(_ *proxy, _ http.ResponseWriter, r *http.Request) bool {
		select {
		case <-silent:
		case <-r.Context().Done():
		}
		return true
	})
	defer close(silent)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := s.Get(ctx, "there"); !errors.Is(err, blobd.ErrUnavailable) {
		t.Error(err)
	}
}

func TestAWellFormedPageIsNoListing(t *testing.T) {
	s, p, _ := rig(t)
	put(t, s, "a/b", []byte("x"))
	p.does(of("GET", "", says(200, "text/html", "<html><body>Sign in</body></html>")))
	if l, err := s.List(t.Context(), "a/", "", 10); !errors.Is(err, blobd.ErrUnavailable) {
		t.Errorf("%v, %v", l, err)
	}
	if l, err := s.Residue(t.Context(), backends.Scope{Prefix: "a/"}, 10); !errors.Is(err, blobd.ErrUnavailable) {
		t.Errorf("%v, %v", l, err)
	}
	if _, err := s.Erase(t.Context(), backends.Scope{Prefix: "a/"}); !errors.Is(err, blobd.ErrUnavailable) {
		t.Error(err)
	}
}

func TestADeletedObjectIsAbsentAndAnErrorNowhereElse(t *testing.T) {
	s, _, server := rig(t)
	put(t, s, "a/b", []byte("x"))
	_, err := server.Client().DeleteObject(t.Context(), &awss3.DeleteObjectInput{Bucket: aws.String("bucket"), Key: aws.String("d/a/b")})
	if err != nil {
		t.Fatal(err)
	}
	lacks(t, s, "a/b")
	put(t, s, "a/b", []byte("x"))
	has(t, s, "a/b", []byte("x"))
}

func TestDeploymentsShareABucketAndSeeNothingOfEachOther(t *testing.T) {
	_, _, server := rig(t)
	one, two := open(t, options(server, "bucket", "team/one")), open(t, options(server, "bucket", "team/one-more"))
	put(t, one, "a/b", []byte("one"))
	lacks(t, two, "a/b")
	put(t, two, "a/b", []byte("two"))
	if l, err := one.List(t.Context(), "", "", 10); err != nil || len(l) != 1 || l[0].Name != "a/b" {
		t.Errorf("%v, %v", l, err)
	}
	if e, err := one.Erase(t.Context(), backends.Scope{Prefix: "a/"}); err != nil || e.Objects != 1 {
		t.Errorf("%+v, %v", e, err)
	}
	has(t, two, "a/b", []byte("two"))
	all, err := server.Client().ListObjectsV2(t.Context(), &awss3.ListObjectsV2Input{Bucket: aws.String("bucket")})
	if err != nil || len(all.Contents) != 1 || *all.Contents[0].Key != "team/one-more/a/b" {
		t.Errorf("%v, %v", all.Contents, err)
	}
}

func TestOptionsThatCannotBeRightAreInvalid(t *testing.T) {
	for name, change := range map[string]func(*s3.Options){
		"no bucket":     func(o *s3.Options) { o.Bucket = "" },
		"half of keys":  func(o *s3.Options) { o.AccessKey = "" },
		"bare host":     func(o *s3.Options) { o.Endpoint = "minio:9000" },
		"climbing":      func(o *s3.Options) { o.Prefix = "a/../b" },
		"empty segment": func(o *s3.Options) { o.Prefix = "a//b" },
		"slash at end":  func(o *s3.Options) { o.Prefix = "a/" },
		"no PEM":        func(o *s3.Options) { o.RootCAs = []byte("none") },
		"no randomness": func(o *s3.Options) { o.Random = nil },
	} {
		o := options(&servers.S3{Endpoint: "http://127.0.0.1:1", AccessKey: "a", SecretKey: "b"}, "bucket", "p")
		change(&o)
		if _, err := s3.Open(t.Context(), o); !errors.Is(err, blobd.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
