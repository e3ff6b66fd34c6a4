package integration

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/blobd/blobd/internal/servers"
)

// backup is how a ledger is backed up and put back.
type backup struct {
	settings []string
	take     func(t *testing.T, dir string)
	putBack  func(t *testing.T, dir string)
}

// TestTheLogGoesOnAfterARollback: a ledger is put back from before an erasure whose
// certificate somebody has. The log is put back out of its export and goes on: old and
// new certificates verify, and the new tree contains the one that was published.
func TestTheLogGoesOnAfterARollback(t *testing.T) {
	t.Parallel()
	var old string
	files := backup{
		take:    func(t *testing.T, dir string) { old = copyOf(t, dir) },
		putBack: func(t *testing.T, dir string) { restoreLedger(t, dir, old) },
	}
	for name, b := range map[string]backup{"sqlite": files, "postgres": postgresBackup(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			goesOnAfterARollback(t, b)
		})
	}
}

// postgresBackup is a copy of the database, which takes its place in the end.
func postgresBackup(t *testing.T) backup {
	t.Helper()
	server := servers.NewPostgres(t, servers.PostgresOptions{})
	name := server.Database(t)
	return backup{
		settings: []string{"BLOBD_LEDGER_DSN=" + server.URL(name)},
		take: func(t *testing.T, _ string) {
			server.Exec(t, "postgres", fmt.Sprintf("CREATE DATABASE older TEMPLATE %q", name))
		},
		putBack: func(t *testing.T, _ string) {
			server.Exec(t, "postgres", fmt.Sprintf("DROP DATABASE %q WITH (FORCE)", name), fmt.Sprintf("ALTER DATABASE older RENAME TO %q", name))
		},
	}
}

func goesOnAfterARollback(t *testing.T, b backup) {
	l := logDrill{t: t, dir: filepath.Join(t.TempDir(), "data"), out: t.TempDir(), settings: b.settings}
	s := start(t, l.dir, b.settings...)
	kept, gone := s.mustPut("kept", []byte("stays")), s.mustPut("gone", []byte("goes"))
	l.keep(s, "key", "/v1/evidence/key")
	s.stop()
	b.take(t, l.dir)

	s = start(t, l.dir, b.settings...)
	id := s.mustErase("gone").ID
	s.waitErased(id)
	l.keep(s, "first.json", "/v1/erasures/"+id+"/certificate")
	l.export(s)
	s.kill()

	b.putBack(t, l.dir)
	s = start(t, l.dir, b.settings...)
	s.wantNull("gone", gone.Ref)
	since := s.mustPut("since", []byte("came after"))
	s.eventually(time.Minute, "the log to stop", func() bool { return l.stopped(s) == "1" })
	s.waitErased(id) // it runs again
	if a := s.get("/v1/evidence/checkpoint"); a.status != http.StatusServiceUnavailable {
		t.Errorf("a checkpoint of a log that was rolled back: %d", a.status)
	}
	if a := s.get("/v1/erasures/" + id + "/certificate"); a.status == http.StatusOK {
		t.Error("a certificate from a log that was rolled back")
	}
	s.stop()

	if out := l.restore("--dry-run"); !strings.Contains(out, "would be put back") {
		t.Errorf("a dry run says %q", out)
	}
	if out := l.restore(); !strings.Contains(out, "were put back") {
		t.Errorf("restore says %q", out)
	}
	if out := l.restore(); !strings.Contains(out, "nothing is missing") {
		t.Errorf("once more it says %q", out)
	}

	s = start(t, l.dir, b.settings...)
	s.wantNull("gone", gone.Ref)
	s.wantText("kept", kept.Ref, []byte("stays"))
	s.wantText("since", since.Ref, []byte("came after"))
	l.keep(s, "second.json", "/v1/erasures/"+id+"/certificate")
	l.export(s) // the old copy goes on
	l.check(s, s.token)
	if got := l.stopped(s); got != "0" {
		t.Errorf("stopped is %s", got)
	}
	s.stop()
	code, out := offline(t, "evidence", "verify", "--key", l.file("key"), "--log", l.file("log"), "--since", l.file("checkpoint-1"),
		l.file("first.json"), l.file("second.json"))
	if code != 0 || strings.Count(out, "ok ") != 3 {
		t.Errorf("verify: %d %s", code, out)
	}
	wantVerified(t, l.dir, b.settings...)
}

// logDrill is a deployment, and what somebody keeps of its log elsewhere.
type logDrill struct {
	t        *testing.T
	dir, out string
	settings []string
	exports  int
}

func (l *logDrill) file(name string) string { return filepath.Join(l.out, name) }

// keep waits until a path is answered and keeps the answer.
func (l *logDrill) keep(s *server, name, path string) {
	l.t.Helper()
	var a answer
	s.eventually(time.Minute, path, func() bool {
		a = s.get(path)
		return a.status == http.StatusOK
	})
	must(l.t, os.WriteFile(l.file(name), a.body, 0o600))
}

// export copies the log until nothing more came meanwhile, and keeps the checkpoint.
func (l *logDrill) export(s *server) {
	l.t.Helper()
	l.exports++
	s.eventually(time.Minute, "the log to be at rest", func() bool {
		settings := []string{"BLOBD_SERVER=" + s.url, "BLOBD_TOKEN=" + s.token}
		if code, out := offlineWith(l.t, settings, "evidence", "export", l.file("log")); code != 0 {
			l.t.Fatalf("export: %d %s", code, out)
		}
		exported, err := os.ReadFile(filepath.Join(l.file("log"), "checkpoint"))
		must(l.t, err)
		must(l.t, os.WriteFile(l.file(fmt.Sprint("checkpoint-", l.exports)), exported, 0o600))
		return string(exported) == string(s.get("/v1/evidence/checkpoint").body)
	})
}

func (l *logDrill) restore(more ...string) string {
	l.t.Helper()
	code, out := offlineWith(l.t, l.settings, append([]string{"evidence", "restore", "--data-dir", l.dir, l.file("log")}, more...)...)
	if code != 0 {
		l.t.Fatalf("restore: %d %s", code, out)
	}
	return out
}

// stopped is the metric.
func (l *logDrill) stopped(s *server) string {
	for line := range strings.Lines(string(s.get("/metrics").body)) {
		if value, ok := strings.CutPrefix(line, "blobd_evidence_stopped "); ok {
			return strings.TrimSpace(value)
		}
	}
	return "absent"
}
