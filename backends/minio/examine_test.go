package minio_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/blobd/blobd/backends"
	"github.com/blobd/blobd/backends/minio"
	"github.com/blobd/blobd/internal/servers"
)

// finding is one finding of an examination.
func finding(t *testing.T, s *minio.Store, check string) backends.Finding {
	t.Helper()
	found, err := s.Examine(t.Context(), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(found, func(f backends.Finding) bool { return f.Check == check })
	if i < 0 {
		t.Fatalf("no %s in %+v", check, found)
	}
	return found[i]
}

func TestAGoodBucketIsFoundGoodAndLeftEmpty(t *testing.T) {
	for _, like := range []servers.Bucket{{}, {Versioned: true}, {Suspended: true}} {
		onBoth(t, like, func(t *testing.T, _ *servers.S3, r raw, s *minio.Store) {
			found, err := s.Examine(t.Context(), time.Now)
			if err != nil || len(found) != 14 || len(backends.ErasureImpossible(found)) > 0 {
				t.Fatalf("%+v, %v", found, err)
			}
			for _, f := range found {
				if f.Status == backends.Fail || f.Detail == "" {
					t.Errorf("%+v", f)
				}
			}
			if n := r.versions(""); n > 0 {
				t.Errorf("%d versions are left", n)
			}
		})
	}
}

func TestABucketThatLocksByDefaultCannotBeErasedFrom(t *testing.T) {
	onBoth(t, servers.Bucket{ObjectLock: true}, func(t *testing.T, _ *servers.S3, r raw, s *minio.Store) {
		if f := finding(t, s, "lock"); f.Status != backends.Warn {
			t.Errorf("without a default: %+v", f)
		}
		_, err := r.c.PutObjectLockConfiguration(t.Context(), &s3.PutObjectLockConfigurationInput{
			Bucket: &r.bucket, ObjectLockConfiguration: &types.ObjectLockConfiguration{
				ObjectLockEnabled: types.ObjectLockEnabledEnabled,
				Rule: &types.ObjectLockRule{DefaultRetention: &types.DefaultRetention{
					Mode: types.ObjectLockRetentionModeCompliance, Days: aws.Int32(1),
				}},
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, check := range []string{"lock", "delete"} {
			if f := finding(t, s, check); f.Status != backends.Fail || !f.NoErasure {
				t.Errorf("%+v", f)
			}
		}
		version := r.put("a/b", "text")
		e, err := s.Erase(t.Context(), backends.Scope{Prefix: "a/"})
		if err != nil || len(e.Refused) != 1 || e.Refused[0].Version != version || time.Until(e.Refused[0].Until).Round(time.Hour) != 24*time.Hour {
			t.Errorf("%+v, %v", e, err)
		}
		// A check that runs every few seconds does not fill such a bucket.
		before := r.versions("")
		for range 3 {
			if err := s.Check(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if n := r.versions("") - before; n > 1 {
			t.Errorf("checks left %d objects", n)
		}
	})
}

func TestALifecycleThatDeletesIsFound(t *testing.T) {
	server := servers.MinIO(t, servers.MinIOOptions{})
	bucket := unique()
	server.Bucket(t, bucket, servers.Bucket{})
	o := options(server, bucket)
	o.Prefix = "ours"
	s := open(t, o)
	for prefix, want := range map[string]backends.Status{"theirs/": backends.Pass, "ours/": backends.Fail, "": backends.Fail, "ours/a/": backends.Fail} {
		_, err := server.Client().PutBucketLifecycleConfiguration(t.Context(), &s3.PutBucketLifecycleConfigurationInput{
			Bucket: &bucket, LifecycleConfiguration: &types.BucketLifecycleConfiguration{Rules: []types.LifecycleRule{{
				ID: aws.String("rule"), Status: types.ExpirationStatusEnabled, Filter: &types.LifecycleRuleFilter{Prefix: &prefix},
				Expiration: &types.LifecycleExpiration{Days: aws.Int32(30)},
			}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if f := finding(t, s, "lifecycle"); f.Status != want {
			t.Errorf("%q: %+v", prefix, f)
		}
	}
}

func TestAnExaminationTellsTheCause(t *testing.T) {
	s, b, _, _ := strange(t)
	replicates := `<ReplicationConfiguration><Role>r</Role><Rule><ID>copy</ID><Status>Enabled</Status><Priority>1</Priority>` +
		`<Filter><Prefix></Prefix></Filter><Destination><Bucket>arn:aws:s3:::other</Bucket></Destination></Rule></ReplicationConfiguration>`
	for _, c := range []struct {
		name      string
		answer    odd
		check     string
		status    backends.Status
		noErasure bool
		says      string
	}{
		{"a clock that is far off", gives(403, xmlError("RequestTimeTooSkewed")), "reachable", backends.Fail, false, "clock"},
		{"an unknown key", gives(403, xmlError("InvalidAccessKeyId")), "reachable", backends.Fail, false, "keys"},
		{"a wrong secret", gives(403, xmlError("SignatureDoesNotMatch")), "reachable", backends.Fail, false, "keys"},
		{"another region", gives(301, xmlError("PermanentRedirect")), "reachable", backends.Fail, false, "region"},
		{"no bucket", gives(404, xmlError("NoSuchBucket")), "reachable", backends.Fail, false, "not there"},
		{"a page instead of an absence", to("GET", "", gives(404, "<html>?</html>")), "absence", backends.Fail, false, "404"},
		{"no permission to list", to("GET", "", gives(403, xmlError("AccessDenied"))), "absence", backends.Fail, false, "s3:ListBucket"},
		{"no permission to put", to("PUT", "", gives(403, xmlError("AccessDenied"))), "write", backends.Fail, false, "permission"},
		{"a slow clock", dated(-5 * time.Minute), "clock", backends.Fail, false, "-5m"},
		{"a fast clock", dated(150 * time.Minute), "clock", backends.Fail, false, "2h"},
		{"no list of versions", to("GET", "versions", gives(403, xmlError("AccessDenied"))), "versions", backends.Fail, true, "AccessDenied"},
		{"an outage of the list of versions", to("GET", "versions", gives(503, xmlError("SlowDown"))), "versions", backends.Fail, false, "SlowDown"},
		{"no permission to delete", func(w http.ResponseWriter, r *http.Request) bool {
			return to("POST", "delete", deleteResult("AccessDenied"))(w, r) ||
				to("DELETE", "versionId", gives(403, xmlError("AccessDenied")))(w, r)
		}, "delete", backends.Fail, true, "permission"},
		{"no list of uploads", to("GET", "uploads", gives(403, xmlError("AccessDenied"))), "uploads", backends.Fail, true, "permission"},
		{"a second factor", to("GET", "versioning", gives(200,
			"<VersioningConfiguration><Status>Enabled</Status><MfaDelete>Enabled</MfaDelete></VersioningConfiguration>")),
			"versioning", backends.Fail, true, "MFA"},
		{"replication", to("GET", "replication", gives(200, replicates)), "replication", backends.Fail, true, "copy"},
		{"replication that is off", to("GET", "replication", gives(200, strings.Replace(replicates, "Enabled", "Disabled", 1))),
			"replication", backends.Pass, false, ""},
		{"no conditions", func(w http.ResponseWriter, r *http.Request) bool {
			return r.Header.Get("If-None-Match") != "" && gives(501, xmlError("NotImplemented"))(w, r)
		}, "conditional", backends.Warn, false, "NotImplemented"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b.with(c.answer)
			f := finding(t, s, c.check)
			if f.Status != c.status || f.NoErasure != c.noErasure || !strings.Contains(f.Detail, c.says) {
				t.Errorf("%+v", f)
			}
		})
	}
}

// dated lets a listing come from a server whose clock is off.
func dated(off time.Duration) odd {
	return to("GET", "list-type", func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Date", time.Now().Add(off).UTC().Format(http.TimeFormat))
		return gives(200, "<ListBucketResult></ListBucketResult>")(w, r)
	})
}
