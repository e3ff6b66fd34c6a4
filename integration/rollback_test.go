package integration

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// copyOf copies a folder as an operator does.
func copyOf(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	run(t, "cp", "-a", dir, to)
	return to
}

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

// restoreLedger puts the ledger of an older copy back.
func restoreLedger(t *testing.T, dir, old string) {
	t.Helper()
	for _, pattern := range []struct{ dir, act string }{{dir, "remove"}, {old, "copy"}} {
		names, err := filepath.Glob(filepath.Join(pattern.dir, "ledger.db*"))
		must(t, err)
		if len(names) == 0 {
			t.Fatalf("no ledger in %s", pattern.dir)
		}
		for _, name := range names {
			if pattern.act == "remove" {
				must(t, os.Remove(name))
				continue
			}
			run(t, "cp", "-a", name, dir)
		}
	}
}

// past is a deployment of which an old copy was taken, and what happened since.
type past struct {
	dir, old string
	// texts: kept before the copy, since, and since in a new execution; erased
	// since; erased alone since, beside one that stays.
	before, since, elsewhere, erased, alone, beside stored
	token, tokenID                                  string
}

var pastText = map[string][]byte{
	"before": []byte("kept before the copy"), "since": []byte("kept since"), "elsewhere": []byte("kept since, elsewhere"),
	"erased": []byte("to be erased"), "alone": []byte("to be erased alone"), "beside": []byte("stays beside it"),
}

func newPast(t *testing.T, settings ...string) *past {
	t.Helper()
	p := &past{dir: filepath.Join(t.TempDir(), "data")}
	s := start(t, p.dir, settings...)
	p.before = s.mustPut("old", pastText["before"])
	p.erased = s.mustPut("gone", pastText["erased"])
	p.alone, p.beside = s.mustPut("partly", pastText["alone"]), s.mustPut("partly", pastText["beside"])
	p.tokenID, p.token = s.newToken("runtime")
	s.stop()
	p.old = copyOf(t, p.dir)

	s = start(t, p.dir, settings...)
	p.since = s.mustPut("old", pastText["since"])
	p.elsewhere = s.mustPut("new", pastText["elsewhere"])
	s.mustErase("gone")
	s.mustErase("partly", p.alone.Ref)
	if a := s.do(http.MethodDelete, "/v1/tokens/"+p.tokenID, nil); a.status/100 != 2 {
		t.Fatalf("revoke: %d %s", a.status, a.problem().Code)
	}
	s.stop() // the last mark of the journal is written here
	return p
}

// wantRecovered: what was decided since the copy holds, and what was kept since
// is an error and no null.
func (p *past) wantRecovered(s *server) {
	s.t.Helper()
	s.wantText("old", p.before.Ref, pastText["before"])
	s.wantText("partly", p.beside.Ref, pastText["beside"])
	s.wantNull("gone", p.erased.Ref)
	s.wantNull("partly", p.alone.Ref)
	p.wantMissing(s, "old", p.since.Ref)
	p.wantMissing(s, "new", p.elsewhere.Ref)
	if _, err := s.put("gone", []byte("again")); err != (refused{http.StatusGone, "execution_erased"}) {
		s.t.Errorf("a put after the erasure: %v", err)
	}
	p.wantRevoked(s)
}

func (p *past) wantMissing(s *server, run, ref string) {
	s.t.Helper()
	a := s.resolve(run, ref)
	if about := a.problem(); a.status != http.StatusInternalServerError || about.Code != "blob_missing" || len(about.Refs) != 1 || about.Refs[0] != ref {
		s.t.Errorf("resolve: %d %+v, want 500 blob_missing about the ref", a.status, about)
	}
	if _, a := s.batch(run, ref); a.status != http.StatusInternalServerError || a.problem().Code != "blob_missing" {
		s.t.Errorf("batch: %d %s, want 500 blob_missing", a.status, a.problem().Code)
	}
}

func (p *past) wantRevoked(s *server) {
	s.t.Helper()
	a := s.get(execution("old")+"/blobs/"+p.before.Ref, "Authorization", "Bearer "+p.token)
	if a.status != http.StatusUnauthorized {
		s.t.Errorf("the revoked token: %d, want 401", a.status)
	}
}

// wantUnreadyFirst: until the journal was replayed nothing is answered with a
// null or a text. The server may be through with it by the time we ask.
func (p *past) wantUnreadyFirst(s *server) {
	s.t.Helper()
	s.eventually(30*time.Second, "the replay", func() bool {
		r := s.resolve("old", p.since.Ref)
		ready := s.get("/readyz")
		if r.isNull() || r.status == http.StatusOK {
			s.t.Fatalf("during the recovery: %d, null %v", r.status, r.isNull())
		}
		if ready.status == http.StatusServiceUnavailable && len(ready.body) == 0 {
			s.t.Fatal("not ready, and no reason")
		}
		return ready.status == http.StatusOK
	})
}

func TestLedgerRolledBack(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	restoreLedger(t, p.dir, p.old)
	s := listen(t, p.dir)
	p.wantUnreadyFirst(s)
	p.wantRecovered(s)
	s.wantNull("old", "sha256:"+zeros)
	s.waitAllErased()
	s.stop()
	wantVerified(t, p.dir)

	s = start(t, p.dir)
	p.wantRecovered(s)
	s.stop()
	for run, ref := range map[string]string{"old": p.since.Ref, "new": p.elsewhere.Ref} {
		args := []string{"verify", "--data-dir", p.dir, "--execution", run, "--accept-loss", ref, "--yes"}
		if code, out := offline(t, args...); code != 0 {
			t.Fatalf("accept the loss: %d\n%s", code, out)
		}
	}
	s = start(t, p.dir)
	s.wantNull("old", p.since.Ref)
	s.wantNull("new", p.elsewhere.Ref)
	again := s.mustPut("old", pastText["since"])
	s.wantText("old", again.Ref, pastText["since"])
	s.stop()
	wantVerified(t, p.dir)
}

const zeros = "0000000000000000000000000000000000000000000000000000000000000000"

// TestFolderRolledBack: the whole folder comes back old; only the journal's
// second place knows, so an unknown ref may be a put that nobody remembers.
func TestFolderRolledBack(t *testing.T) {
	t.Parallel()
	second := "BLOBD_JOURNAL_DIR=" + filepath.Join(t.TempDir(), "journal")
	p := newPast(t, second)
	must(t, os.RemoveAll(p.dir))
	run(t, "cp", "-a", p.old, p.dir)
	s := listen(t, p.dir, second)
	p.wantUnreadyFirst(s)
	p.wantRecovered(s)
	p.wantMissing(s, "old", "sha256:"+zeros)
	s.stop()
	s = start(t, p.dir, second)
	p.wantMissing(s, "old", "sha256:"+zeros)
	s.stop()
	if code, out := offlineWith(t, []string{second}, "verify", "--data-dir", p.dir, "--accept-gap", "--yes"); code != 0 {
		t.Fatalf("accept the gap: %d\n%s", code, out)
	}
	s = start(t, p.dir, second)
	s.wantNull("old", "sha256:"+zeros)
	s.wantNull("old", p.since.Ref)
	s.wantText("old", p.before.Ref, pastText["before"])
	s.wantNull("gone", p.erased.Ref)
	p.wantRevoked(s)
	s.waitAllErased()
	s.stop()
	wantVerified(t, p.dir, second)
	// What told of the rollback must stay: without it nothing is answered.
	s = listen(t, p.dir)
	if a := s.resolve("old", p.before.Ref); a.status != http.StatusServiceUnavailable {
		t.Errorf("without the journal's second place: %d, want 503", a.status)
	}
	s.stop()
}

// TestOldFolderLaidOverTheNew: files of the copy replace those of the same
// name, newer files stay.
func TestOldFolderLaidOverTheNew(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	run(t, "cp", "-a", p.old+"/.", p.dir+"/")
	s := listen(t, p.dir)
	p.wantUnreadyFirst(s)
	p.wantRecovered(s)
	s.waitAllErased()
	s.stop()
	wantVerified(t, p.dir)
}

// TestStoreSwapped: a store that is not the ledger's is never served from.
func TestStoreSwapped(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	other := filepath.Join(t.TempDir(), "other")
	s := start(t, other)
	s.mustPut("old", []byte("another deployment's"))
	s.stop()
	for name, swap := range map[string]func(t *testing.T, blobs string){
		"another deployment's": func(t *testing.T, blobs string) { run(t, "cp", "-a", filepath.Join(other, "blobs"), blobs) },
		"empty":                func(t *testing.T, blobs string) { must(t, os.Mkdir(blobs, 0o700)) },
		"absent":               func(*testing.T, string) {},
	} {
		dir := copyOf(t, p.dir)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			blobs := filepath.Join(dir, "blobs")
			must(t, os.Rename(blobs, blobs+".mine"))
			swap(t, blobs)
			s := listen(t, dir)
			seen := 0
			s.eventually(20*time.Second, "a few refusals", func() bool {
				r := s.resolve("old", p.before.Ref)
				if r.isNull() || r.status < 500 {
					t.Fatalf("resolve: %d %s", r.status, r.problem().Code)
				}
				if s.get("/readyz").status == http.StatusServiceUnavailable && s.get("/livez").status == http.StatusOK {
					seen++
				}
				return seen > 5
			})
			s.stop()
			must(t, os.RemoveAll(blobs))
			must(t, os.Rename(blobs+".mine", blobs))
			s = start(t, dir)
			s.wantText("old", p.before.Ref, pastText["before"])
			s.stop()
		})
	}
}

// TestNewLedgerBesideOldData: a lost ledger never turns what is stored into
// nulls: the program does not start.
func TestNewLedgerBesideOldData(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	names, err := filepath.Glob(filepath.Join(p.dir, "ledger.db*"))
	must(t, err)
	for _, name := range names {
		must(t, os.Remove(name))
	}
	if code, out := offline(t, "serve", "--data-dir", p.dir, "--listen", "127.0.0.1:0"); code != 1 {
		t.Errorf("serve exits with %d\n%s", code, out)
	}
	restoreLedgerInto(t, p.dir, p.old)
	s := start(t, p.dir)
	p.wantRecovered(s)
	s.stop()
}

func restoreLedgerInto(t *testing.T, dir, old string) {
	t.Helper()
	must(t, os.WriteFile(filepath.Join(dir, "ledger.db"), nil, 0o600)) // so that there is one to remove
	restoreLedger(t, dir, old)
}
