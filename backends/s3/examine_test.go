package s3_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/blobd/blobd/backends"
	"github.com/blobd/blobd/backends/s3"
	"github.com/blobd/blobd/internal/servers"
)

func examined(t *testing.T, s *s3.Store, check string) backends.Finding {
	t.Helper()
	found, err := s.Examine(t.Context(), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(found, func(f backends.Finding) bool { return f.Check == check })
	if i < 0 {
		t.Fatalf("no check %q among %+v", check, found)
	}
	return found[i]
}

func TestAnExaminationOfAGoodBucketPassesAndLeavesNothing(t *testing.T) {
	both(t, func(t *testing.T, server *servers.S3) {
		for kind, like := range kinds() {
			server.Bucket(t, kind, like)
			s := open(t, options(server, kind, "d"))
			found, err := s.Examine(t.Context(), time.Now)
			if err != nil || len(found) != 14 || len(backends.ErasureImpossible(found)) != 0 {
				t.Fatalf("%s: %+v, %v", kind, found, err)
			}
			for _, f := range found {
				if f.Status == backends.Fail || f.Detail == "" {
					t.Errorf("%s: %+v", kind, f)
				}
			}
			if left := versionsIn(t, server, kind, ""); len(left) != 0 {
				t.Errorf("%s: left %q", kind, left)
			}
		}
	})
}

func TestAnExaminationNamesTheCause(t *testing.T) {
	s, p, _ := rig(t)
	for _, c := range []struct {
		name      string
		fault     func(*proxy, http.ResponseWriter, *http.Request) bool
		check     string
		status    backends.Status
		noErasure bool
		detail    string
	}{
		{"skew", says(403, "application/xml", errorXML("RequestTimeTooSkewed")), "reachable", backends.Fail, false, "clock"},
		{"region", says(400, "application/xml", errorXML("AuthorizationHeaderMalformed")), "reachable", backends.Fail, false, "region"},
		{"redirect", says(301, "application/xml", errorXML("PermanentRedirect")), "reachable", backends.Fail, false, "endpoint"},
		{"keys", says(403, "application/xml", errorXML("InvalidAccessKeyId")), "reachable", backends.Fail, false, "keys"},
		{"bucket", says(404, "application/xml", errorXML("NoSuchBucket")), "reachable", backends.Fail, false, "not there"},
		{"a page", says(404, "text/html", "<html>nothing here</html>"), "absence", backends.Fail, false, "NoSuchKey"},
		{"denied absence", of("GET", "", says(403, "application/xml", errorXML("AccessDenied"))), "absence", backends.Fail, false, "s3:ListBucket"},
		{"slow clock", atTime(-time.Hour - 30*time.Second), "clock", backends.Fail, false, "-1h0m"},
		{"fast clock", atTime(10*time.Minute + 30*time.Second), "clock", backends.Fail, false, "10m"},
		{"no condition", of("PUT", "", conditional(says(501, "application/xml", errorXML("NotImplemented")))), "conditional", backends.Warn, false, "NotImplemented"},
		{"no versions", of("GET", "versions", says(403, "application/xml", errorXML("AccessDenied"))), "versions", backends.Fail, true, "AccessDenied"},
		{"versions in an outage", of("GET", "versions", says(503, "application/xml", errorXML("SlowDown"))), "versions", backends.Fail, false, "SlowDown"},
		{"MFA", of("GET", "versioning", says(200, "application/xml", `<VersioningConfiguration><Status>Enabled</Status><MfaDelete>Enabled</MfaDelete></VersioningConfiguration>`)),
			"versioning", backends.Fail, true, "MFA"},
		{"unknown versioning", of("GET", "versioning", says(403, "application/xml", errorXML("AccessDenied"))), "versioning", backends.Warn, false, "cannot tell"},
		{"replication", of("GET", "replication", says(200, "application/xml", rules("Enabled"))), "replication", backends.Fail, true, "copies"},
		{"replication that is off", of("GET", "replication", says(200, "application/xml", rules("Disabled"))), "replication", backends.Pass, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p.does(c.fault)
			f := examined(t, s, c.check)
			if f.Status != c.status || f.NoErasure != c.noErasure || !strings.Contains(f.Detail, c.detail) {
				t.Errorf("%+v", f)
			}
		})
	}
}

// atTime lets the server answer with a clock that is off.
func atTime(off time.Duration) func(*proxy, http.ResponseWriter, *http.Request) bool {
	return of("GET", "list-type", func(_ *proxy, w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Date", time.Now().Add(off).UTC().Format(http.TimeFormat))
		_, _ = w.Write([]byte(`<ListBucketResult><Name>bucket</Name></ListBucketResult>`))
		return true
	})
}

func conditional(fault func(*proxy, http.ResponseWriter, *http.Request) bool) func(*proxy, http.ResponseWriter, *http.Request) bool {
	return func(p *proxy, w http.ResponseWriter, r *http.Request) bool {
		return r.Header.Get("If-None-Match") != "" && fault(p, w, r)
	}
}

func rules(status string) string {
	return `<ReplicationConfiguration><Role>r</Role><Rule><ID>copy</ID><Status>` + status + `</Status><Prefix></Prefix>` +
		`<Destination><Bucket>arn:aws:s3:::other</Bucket></Destination></Rule></ReplicationConfiguration>`
}

// TestAnExaminationSeesThatAnObjectHidesThePrefix: what lies below it is then in no
// listing of MinIO's.
func TestAnExaminationSeesThatAnObjectHidesThePrefix(t *testing.T) {
	both(t, func(t *testing.T, server *servers.S3) {
		server.Bucket(t, "bucket", servers.Bucket{})
		s := open(t, options(server, "bucket", "a/deployment"))
		if f := examined(t, s, "list"); f.Status != backends.Pass {
			t.Fatalf("before: %+v", f)
		}
		putRaw(t, server, "bucket", "a", "somebody's")
		if f := examined(t, s, "list"); f.Status != backends.Fail || !strings.Contains(f.Detail, "hidden") {
			t.Errorf("%+v", f)
		}
	})
}
