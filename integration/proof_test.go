package integration

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/blobd/blobd/internal/servers"
)

// TestFromRequestToProof is the drill of an erasure, on the real PostgreSQL, MinIO
// and Vault: a person asks, the request is previewed, a hold is in the way and is
// released, somebody else approves, and the certificate is verified offline. Then
// everything that was kept is searched for the texts, their digests, the person and
// the wrapped keys: nothing.
func TestFromRequestToProof(t *testing.T) {
	t.Parallel()
	const (
		person = "planted-person-99171@example.org"
		first  = "planted thought 4be1a7: Rosalind asked for a loan"
		second = "planted thought c07d35: Rosalind was refused it"
		other  = "a thought about somebody else"
	)
	w := newProofWorld(t)
	s := start(t, w.dir, w.settings...)
	subject := []string{"Blobd-Subjects", `"` + person + `"`}
	one, err := s.put("agent-1", []byte(first), subject...)
	must(t, err)
	two, err := s.put("agent-2", []byte(second), subject...)
	must(t, err)
	stays, err := s.put("agent-2", []byte(other), "Blobd-Subjects", `"somebody else"`)
	must(t, err)
	secrets := []planted{
		plant("the first text", first, true), plant("the second text", second, true), plant("the person", person, true),
	}
	secrets = append(secrets, w.wrappedKeys(one.Ref, two.Ref)...)

	// The tenant wants four eyes; a second person has the other two.
	if a := s.do(http.MethodPut, "/v1/tenants/default/approvals", []byte(`{"erasures":1}`), "Content-Type", "application/json"); a.status != http.StatusOK {
		t.Fatalf("approvals: %d %s", a.status, a.body)
	}
	_, approver := s.newToken("approver")
	hold := decode[struct{ ID string }](t, s.post("/v1/holds", map[string]any{
		"scope": map[string]any{"executionId": "agent-1"}, "matter": "case 12", "reason": "litigation", "owner": "legal",
	}), http.StatusCreated)

	request := map[string]any{
		"scope": map[string]any{"subjects": []string{person}}, "reason": "asked for by the person", "regime": "gdpr", "dryRun": true,
	}
	preview := decode[struct{ Plan proofPlan }](t, s.post("/v1/erasures", request), http.StatusOK).Plan
	if preview.Blobs != 2 || preview.Held != 1 || preview.Executions != 2 {
		t.Errorf("the preview is %+v", preview)
	}
	s.wantText("agent-1", one.Ref, []byte(first)) // it changed nothing

	delete(request, "dryRun")
	e := decode[proofErasure](t, s.post("/v1/erasures", request), http.StatusAccepted)
	if e.State != "awaiting_approval" {
		t.Fatalf("the request is %+v", e)
	}
	approve := "/v1/erasures/" + e.ID + "/approve"
	if a := s.post(approve, map[string]any{"planDigest": e.Plan.Digest}); a.status != http.StatusForbidden {
		t.Errorf("who asked approves: %d", a.status)
	}
	if a := s.post(approve, map[string]any{"planDigest": e.Plan.Digest}, "Authorization", "Bearer "+approver); a.status != http.StatusOK {
		t.Fatalf("approve: %d %s", a.status, a.body)
	}
	s.wantNull("agent-1", one.Ref)
	s.wantNull("agent-2", two.Ref)
	s.wantText("agent-2", stays.Ref, []byte(other))
	state := func(want string) {
		s.eventually(time.Minute, "the erasure to be "+want, func() bool {
			return decode[proofErasure](t, s.get("/v1/erasures/"+e.ID), http.StatusOK).State == want
		})
	}
	state("partial")
	if a := s.do(http.MethodDelete, "/v1/holds/"+hold.ID, nil); a.status != http.StatusOK {
		t.Fatalf("release: %d %s", a.status, a.body)
	}
	state("erased")

	w.verifyCertificate(s, e.ID)
	s.wantText("agent-2", stays.Ref, []byte(other))
	said := s.stderr.String()
	s.kill()
	search(t, "what blobd said", []byte(said), secrets)
	w.searchAll(secrets)
}

type proofPlan struct {
	Digest                                 string
	Executions, Blobs, Held, Floor, Shared int64
}

type proofErasure struct {
	ID, State string
	Plan      proofPlan
}

// decode reads an answer that must have a status.
func decode[A any](t *testing.T, a answer, status int) (out A) {
	t.Helper()
	if a.status != status {
		t.Fatalf("%d, want %d: %s", a.status, status, a.body)
	}
	must(t, json.Unmarshal(a.body, &out))
	return out
}

// proofWorld is one set of real servers, whose folders can be searched.
type proofWorld struct {
	t        *testing.T
	dir      string
	settings []string
	postgres *servers.Postgres
	minio    *servers.S3
	vault    *servers.VaultServer
	database string
}

func newProofWorld(t *testing.T) *proofWorld {
	t.Helper()
	w := &proofWorld{
		t: t, dir: t.TempDir(),
		// Segments of the log that are done are deleted and not written over.
		postgres: servers.NewPostgres(t, servers.PostgresOptions{Settings: []string{
			"wal_recycle=off", "min_wal_size=32MB", "autovacuum=off",
		}}),
		minio: servers.MinIO(t, servers.MinIOOptions{}),
		vault: servers.Vault(t, servers.VaultOptions{}),
	}
	w.database = w.postgres.Database(t)
	w.minio.Bucket(t, "proof", servers.Bucket{Versioned: true})
	vault, _ := vaultSettings(t, w.vault)
	w.settings = append(vault,
		"BLOBD_LEDGER_DSN="+w.postgres.URL(w.database),
		"BLOBD_BACKEND=minio", "BLOBD_BACKEND_ENDPOINT="+w.minio.Endpoint, "BLOBD_BACKEND_BUCKET=proof",
		"BLOBD_BACKEND_REGION="+w.minio.Region, "BLOBD_BACKEND_ACCESS_KEY="+w.minio.AccessKey, "BLOBD_BACKEND_SECRET_KEY="+w.minio.SecretKey,
		"BLOBD_PUT_MARGIN=1s", "BLOBD_LOG_LEVEL=debug",
	)
	return w
}

// wrappedKeys are the wrapped blob keys of refs, as the ledger has them now.
func (w *proofWorld) wrappedKeys(refs ...string) (keys []planted) {
	w.t.Helper()
	c, err := pgx.Connect(w.t.Context(), w.postgres.URL(w.database))
	must(w.t, err)
	defer func() { _ = c.Close(w.t.Context()) }()
	for _, ref := range refs {
		var wrapped []byte
		must(w.t, c.QueryRow(w.t.Context(), "SELECT wrapped FROM blobs WHERE encode(ref, 'hex') = $1", strings.TrimPrefix(ref, "sha256:")).Scan(&wrapped))
		if len(wrapped) < 32 {
			w.t.Fatalf("the wrapped key of %s has %d bytes", ref, len(wrapped))
		}
		keys = append(keys, plant("the wrapped key of "+ref, string(wrapped), false))
	}
	return keys
}

// verifyCertificate verifies a certificate offline, and again with one byte changed.
func (w *proofWorld) verifyCertificate(s *server, id string) {
	w.t.Helper()
	var certificate []byte
	s.eventually(time.Minute, "the log to include the erasure", func() bool {
		a := s.get("/v1/erasures/" + id + "/certificate")
		certificate = a.body
		return a.status == http.StatusOK
	})
	key := s.get("/v1/evidence/key")
	dir := w.t.TempDir()
	keyFile, good, bad := filepath.Join(dir, "key"), filepath.Join(dir, "good.json"), filepath.Join(dir, "bad.json")
	must(w.t, os.WriteFile(keyFile, key.body, 0o600))
	must(w.t, os.WriteFile(good, certificate, 0o600))
	changed := strings.Replace(string(certificate), id, strings.Repeat("0", len(id)), 1)
	must(w.t, os.WriteFile(bad, []byte(changed), 0o600))
	if code, out := offline(w.t, "evidence", "verify", "--key", keyFile, good); code != 0 {
		w.t.Errorf("the certificate does not verify: %d, %s", code, out)
	}
	if code, _ := offline(w.t, "evidence", "verify", "--key", keyFile, bad); code == 0 {
		w.t.Error("a changed certificate verifies")
	}
	if strings.Contains(string(certificate), "planted") {
		w.t.Error("the certificate names what was planted")
	}
}

// searchAll looks through every file of every part. PostgreSQL first does what
// docs/operations.md tells operators to do where its heap and log must not wait for the
// horizon: rows are written anew, and the log moves on.
func (w *proofWorld) searchAll(secrets []planted) {
	w.t.Helper()
	w.postgres.Exec(w.t, w.database, "VACUUM FULL")
	for range 3 {
		w.postgres.Exec(w.t, w.database, "SELECT pg_switch_wal()", "CHECKPOINT")
	}
	w.postgres.Stop()
	for name, dir := range map[string]string{
		"PostgreSQL": w.postgres.Data(), "MinIO": w.minio.Dir, "Vault": w.vault.Dir(), "blobd's folder": w.dir,
	} {
		files := 0
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			files++
			search(w.t, fmt.Sprintf("%s: %s", name, path), b, secrets)
			return nil
		})
		must(w.t, err)
		if files == 0 {
			w.t.Errorf("%s has no files", name)
		}
	}
}
