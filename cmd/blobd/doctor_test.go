package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
	"github.com/blobd/blobd/internal/servers"
)

// inBucket are the settings of a bucket of a server.
func inBucket(server *servers.S3, bucket string) map[string]string {
	return map[string]string{
		"backend.driver": "s3", "backend.endpoint": server.Endpoint, "backend.bucket": bucket,
		"backend.accessKey": server.AccessKey, "backend.secretKey": server.SecretKey, "backend.prefix": "deployment",
	}
}

// doctor runs the command and returns what it found.
func doctor(t *testing.T, settings map[string]string) (diagnosis, int) {
	t.Helper()
	var out, errs bytes.Buffer
	code := run(t.Context(), []string{"doctor", "--json"}, environOf(settings), strings.NewReader(""), &out, &errs)
	var d diagnosis
	if err := json.Unmarshal(out.Bytes(), &d); err != nil {
		t.Fatalf("doctor ended with %d, printed %q and %q: %v", code, &out, &errs, err)
	}
	if secret := settings["backend.secretKey"]; secret != "" && strings.Contains(out.String()+errs.String(), secret) {
		t.Error("the secret key was printed")
	}
	return d, code
}

// environOf writes settings as variables.
func environOf(given map[string]string) []string {
	var environ []string
	for _, s := range settings() {
		if value, ok := given[s.Key]; ok {
			environ = append(environ, s.Env+"="+value)
		}
	}
	return environ
}

// result returns the finding of a check.
func (d diagnosis) result(t *testing.T, check string) backends.Finding {
	t.Helper()
	i := slices.IndexFunc(d.Findings, func(f backends.Finding) bool { return f.Check == check })
	if i < 0 {
		t.Fatalf("no check %q among %+v", check, d.Findings)
	}
	return d.Findings[i]
}

func (d diagnosis) wants(t *testing.T, check string, want backends.Status, noErasure bool, detail string) {
	t.Helper()
	f := d.result(t, check)
	if f.Status != want || f.NoErasure != noErasure || !strings.Contains(f.Detail, detail) {
		t.Errorf("%+v, want %s, no erasure %v, about %q", f, want, noErasure, detail)
	}
}

func isClean(t *testing.T, server *servers.S3, bucket string) {
	t.Helper()
	left, err := server.Client().ListObjectVersions(t.Context(), &awss3.ListObjectVersionsInput{Bucket: &bucket})
	if err != nil || len(left.Versions)+len(left.DeleteMarkers) > 0 {
		t.Errorf("left %d versions and %d markers, %v", len(left.Versions), len(left.DeleteMarkers), err)
	}
	uploads, err := server.Client().ListMultipartUploads(t.Context(), &awss3.ListMultipartUploadsInput{Bucket: &bucket})
	if err != nil || len(uploads.Uploads) > 0 {
		t.Errorf("left %d uploads, %v", len(uploads.Uploads), err)
	}
}

func TestDoctorPassesBucketsThatKeepThePromises(t *testing.T) {
	for name, server := range map[string]*servers.S3{
		"minio": servers.MinIO(t, servers.MinIOOptions{}), "versitygw": servers.VersityGW(t, servers.VersityGWOptions{}),
	} {
		for bucket, c := range map[string]struct {
			like servers.Bucket
			want string
		}{
			"plain":     {servers.Bucket{}, "off"},
			"versioned": {servers.Bucket{Versioned: true}, "enabled"},
			"suspended": {servers.Bucket{Suspended: true}, "suspended"},
		} {
			t.Run(name+" "+bucket, func(t *testing.T) {
				server.Bucket(t, bucket, c.like)
				d, code := doctor(t, inBucket(server, bucket))
				if code != exitOK || !d.OK || !d.Erasure {
					t.Errorf("ended with %d: %+v", code, d)
				}
				for _, check := range []string{"reachable", "clock", "write", "absence", "list", "conditional", "versions", "delete"} {
					d.wants(t, check, backends.Pass, false, "")
				}
				d.wants(t, "versioning", backends.Pass, false, c.want)
				d.wants(t, "identity", backends.Warn, false, "no identity object")
				d.wants(t, "lock", backends.Pass, false, "off")
				isClean(t, server, bucket)
			})
		}
	}
}

func TestDoctorNamesWhatIsWrongWithABucket(t *testing.T) {
	server := servers.MinIO(t, servers.MinIOOptions{})
	client := server.Client()
	t.Run("objects can be locked", func(t *testing.T) {
		server.Bucket(t, "lockable", servers.Bucket{ObjectLock: true})
		d, code := doctor(t, inBucket(server, "lockable"))
		d.wants(t, "lock", backends.Warn, false, "none is by default")
		if code != exitOK || !d.Erasure {
			t.Errorf("ended with %d: %+v", code, d)
		}
	})
	t.Run("every object is locked", func(t *testing.T) {
		lockedBucket(t, server, "locked")
		d, code := doctor(t, inBucket(server, "locked"))
		d.wants(t, "lock", backends.Fail, true, "GOVERNANCE, 1 days")
		d.wants(t, "delete", backends.Fail, true, "GOVERNANCE")
		if code != exitError || d.OK || d.Erasure {
			t.Errorf("ended with %d: %+v", code, d)
		}
	})
	t.Run("a lifecycle rule deletes", func(t *testing.T) {
		server.Bucket(t, "expiring", servers.Bucket{})
		expire(t, client, "expiring", "dep")
		d, code := doctor(t, inBucket(server, "expiring"))
		d.wants(t, "lifecycle", backends.Fail, false, `"gone-soon" deletes`)
		if code != exitError || d.OK || !d.Erasure {
			t.Errorf("ended with %d: %+v", code, d)
		}
	})
	t.Run("a lifecycle rule for others deletes", func(t *testing.T) {
		server.Bucket(t, "others", servers.Bucket{})
		expire(t, client, "others", "logs/")
		d, _ := doctor(t, inBucket(server, "others"))
		d.wants(t, "lifecycle", backends.Pass, false, "")
	})
	t.Run("no such bucket", func(t *testing.T) {
		d, code := doctor(t, inBucket(server, "absent"))
		d.wants(t, "reachable", backends.Fail, false, "NoSuchBucket")
		if code != exitUnsure || d.Erasure {
			t.Errorf("ended with %d: %+v", code, d)
		}
	})
	t.Run("a wrong secret", func(t *testing.T) {
		server.Bucket(t, "secret", servers.Bucket{})
		settings := inBucket(server, "secret")
		settings["backend.secretKey"] = "another-secret"
		d, code := doctor(t, settings)
		d.wants(t, "reachable", backends.Fail, false, "SignatureDoesNotMatch")
		if code != exitUnsure {
			t.Errorf("ended with %d: %+v", code, d)
		}
	})
}

func lockedBucket(t *testing.T, server *servers.S3, bucket string) {
	t.Helper()
	server.Bucket(t, bucket, servers.Bucket{ObjectLock: true})
	_, err := server.Client().PutObjectLockConfiguration(t.Context(), &awss3.PutObjectLockConfigurationInput{
		Bucket: &bucket, ObjectLockConfiguration: &types.ObjectLockConfiguration{
			ObjectLockEnabled: types.ObjectLockEnabledEnabled,
			Rule: &types.ObjectLockRule{DefaultRetention: &types.DefaultRetention{
				Mode: types.ObjectLockRetentionModeGovernance, Days: aws.Int32(1),
			}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
}

func expire(t *testing.T, client *awss3.Client, bucket, prefix string) {
	t.Helper()
	_, err := client.PutBucketLifecycleConfiguration(t.Context(), &awss3.PutBucketLifecycleConfigurationInput{
		Bucket: &bucket, LifecycleConfiguration: &types.BucketLifecycleConfiguration{Rules: []types.LifecycleRule{{
			ID: aws.String("gone-soon"), Status: types.ExpirationStatusEnabled,
			Filter:     &types.LifecycleRuleFilter{Prefix: &prefix},
			Expiration: &types.LifecycleExpiration{Days: aws.Int32(30)},
		}}},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Each permission that blobd needs is taken away in turn; MinIO takes the one to
// list objects for the one to list versions.
func TestDoctorNamesTheMissingPermission(t *testing.T) {
	server := servers.MinIO(t, servers.MinIOOptions{})
	for _, c := range []struct {
		denied    string // of the bucket and all in it
		check     string
		noErasure bool
	}{
		{"s3:PutObject", "write", false},
		{"s3:GetObject", "absence", false},
		{"s3:ListBucket", "list", false},
		{"s3:DeleteObject", "delete", true},
		{"s3:DeleteObjectVersion", "delete", true},
		{"s3:ListBucketMultipartUploads", "uploads", true},
		{"s3:AbortMultipartUpload", "uploads", true},
	} {
		t.Run(c.denied, func(t *testing.T) {
			bucket := strings.ToLower(strings.ReplaceAll(c.denied, ":", "-"))
			server.Bucket(t, bucket, servers.Bucket{Versioned: true})
			session := server.Session(t, `{"Version":"2012-10-17","Statement":[
				{"Effect":"Allow","Action":["s3:*"],"Resource":["arn:aws:s3:::*"]},
				{"Effect":"Deny","Action":["`+c.denied+`"],"Resource":["arn:aws:s3:::*"]}]}`)
			for name, value := range session.Environ() {
				t.Setenv(name, value)
			}
			settings := inBucket(server, bucket)
			delete(settings, "backend.accessKey")
			delete(settings, "backend.secretKey")
			d, code := doctor(t, settings)
			d.wants(t, c.check, backends.Fail, c.noErasure, "AccessDenied")
			if code != exitError || d.OK {
				t.Errorf("ended with %d: %+v", code, d)
			}
		})
	}
}

func TestDoctorPrintsATable(t *testing.T) {
	server := servers.VersityGW(t, servers.VersityGWOptions{})
	server.Bucket(t, "bucket", servers.Bucket{})
	var out, errs bytes.Buffer
	code := run(t.Context(), []string{"doctor"}, environOf(inBucket(server, "bucket")), strings.NewReader(""), &out, &errs)
	if code != exitOK || !strings.Contains(out.String(), "\nwrite ") || !strings.HasSuffix(out.String(), "keep its promises here.\n") {
		t.Errorf("ended with %d: %s%s", code, &out, &errs)
	}
}

func TestDoctorOfAFolder(t *testing.T) {
	folder := t.TempDir()
	settings := map[string]string{"dataDir": folder + "/data"}
	d, code := doctor(t, settings)
	d.wants(t, "reachable", backends.Warn, false, "first start")
	if code != exitOK {
		t.Error(code)
	}
	r := start(t, testConfig(t, folder+"/data", nil))
	d, _ = doctor(t, settings)
	d.wants(t, "reachable", backends.Warn, false, "running process")
	r.end(t)
	d, code = doctor(t, settings)
	d.wants(t, "reachable", backends.Pass, false, "")
	if code != exitOK {
		t.Error(code)
	}
}

func TestServeOverABucket(t *testing.T) {
	for name, server := range map[string]*servers.S3{
		"minio": servers.MinIO(t, servers.MinIOOptions{}), "versitygw": servers.VersityGW(t, servers.VersityGWOptions{}),
	} {
		for _, driver := range []string{"s3", "minio"} {
			t.Run(name+" by "+driver, func(t *testing.T) {
				bucket := "by-" + driver
				server.Bucket(t, bucket, servers.Bucket{Versioned: true})
				settings := inBucket(server, bucket)
				settings["backend.driver"] = driver
				settings["putMargin"] = "30s" // a put's deadline is a part of it, and a real server needs more than a test's 75 ms
				folder := t.TempDir()
				r := start(t, testConfig(t, folder, settings))
				status, answer := r.ask(t, "POST", putPath, strings.NewReader("a thought"))
				if status/100 != 2 {
					t.Errorf("put: %d %s", status, answer)
				}
				r.end(t)
				d, _ := doctor(t, settings)
				if driver == "s3" {
					d.wants(t, "identity", backends.Pass, false, "deployment ")
				}
				start(t, testConfig(t, folder, settings)).end(t)
			})
		}
	}
}

func TestServeRefusesABucketWhereErasureIsImpossible(t *testing.T) {
	server := servers.MinIO(t, servers.MinIOOptions{})
	lockedBucket(t, server, "locked")
	settings := inBucket(server, "locked")
	cfg := testConfig(t, t.TempDir(), settings)
	err := serve(t.Context(), cfg, quiet(), func(string) { t.Error("served") })
	if !errors.Is(err, errNoErasure) || !errors.Is(err, blobd.ErrPolicy) {
		t.Fatalf("ended with %v", err)
	}
	settings = maps.Clone(settings)
	settings["backend.allowResidue"] = "true"
	start(t, testConfig(t, t.TempDir(), settings)).end(t)
}

// SeaweedFS keeps the marker of a suspended bucket, whoever deletes it.
func TestASuspendedBucketOfSeaweedFSIsRefused(t *testing.T) {
	server := servers.SeaweedFS(t, servers.SeaweedFSOptions{})
	server.Bucket(t, "bucket", servers.Bucket{Suspended: true})
	settings := inBucket(server, "bucket")
	d, code := doctor(t, settings)
	d.wants(t, "delete", backends.Fail, true, "still lists what it said was deleted")
	if code != exitError || d.OK || d.Erasure {
		t.Errorf("ended with %d: %+v", code, d)
	}
	err := serve(t.Context(), testConfig(t, t.TempDir(), settings), quiet(), func(string) { t.Error("served") })
	if !errors.Is(err, errNoErasure) {
		t.Errorf("ended with %v", err)
	}
	settings["backend.allowResidue"] = "true"
	start(t, testConfig(t, t.TempDir(), settings)).end(t)
}

// A bucket that became impossible while nobody looked ends a later start too.
func TestServeRefusesALaterStartAsWell(t *testing.T) {
	server := servers.MinIO(t, servers.MinIOOptions{})
	server.Bucket(t, "bucket", servers.Bucket{ObjectLock: true})
	folder := t.TempDir()
	cfg := testConfig(t, folder, inBucket(server, "bucket"))
	start(t, cfg).end(t)
	_, err := server.Client().PutObjectLockConfiguration(t.Context(), &awss3.PutObjectLockConfigurationInput{
		Bucket: aws.String("bucket"), ObjectLockConfiguration: &types.ObjectLockConfiguration{
			ObjectLockEnabled: types.ObjectLockEnabledEnabled,
			Rule: &types.ObjectLockRule{DefaultRetention: &types.DefaultRetention{
				Mode: types.ObjectLockRetentionModeCompliance, Days: aws.Int32(1),
			}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := serve(context.WithoutCancel(t.Context()), cfg, quiet(), func(string) { t.Error("served") }); !errors.Is(err, errNoErasure) {
		t.Fatalf("ended with %v", err)
	}
}

func TestBucketSettingsOfAnotherDriverAreErrors(t *testing.T) {
	for name, given := range map[string]map[string]string{
		"a bucket for fs":   {"backend.bucket": "b"},
		"no bucket":         {"backend.driver": "s3"},
		"half of the keys":  {"backend.driver": "s3", "backend.bucket": "b", "backend.accessKey": "a"},
		"no endpoint":       {"backend.driver": "minio", "backend.bucket": "b"},
		"a bare host":       {"backend.driver": "s3", "backend.bucket": "b", "backend.endpoint": "minio:9000"},
		"a wrong flag":      {"backend.driver": "s3", "backend.bucket": "b", "backend.pathStyle": "perhaps"},
		"an unknown driver": {"backend.driver": "gcs"},
	} {
		if _, err := loadConfig(layers{Environ: environOf(given)}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	cfg, err := loadConfig(layers{Environ: environOf(map[string]string{
		"backend.driver": "s3", "backend.bucket": "b", "backend.endpoint": "http://minio:9000", "backend.prefix": "/team/blobd/",
	})})
	if err != nil || !cfg.Bucket.PathStyle || cfg.Bucket.Prefix != "team/blobd" {
		t.Errorf("%+v, %v", cfg.Bucket, err)
	}
}
