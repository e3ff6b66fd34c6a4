package drill

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
	backendfs "github.com/blobd/blobd/backends/fs"
	"github.com/blobd/blobd/evidence"
	"github.com/blobd/blobd/internal/servers"
	"github.com/blobd/blobd/keys"
	"github.com/blobd/blobd/keys/local"
	"github.com/blobd/blobd/keys/transit"
	"github.com/blobd/blobd/ledger"
	ledgerfaulty "github.com/blobd/blobd/ledger/faulty"
	"github.com/blobd/blobd/ledger/sqlite"
	"github.com/blobd/blobd/resolver"
	"github.com/blobd/blobd/retention"
	"github.com/blobd/blobd/store"
)

const (
	drillTenant  = "acme"
	drillHorizon = 30 * 24 * time.Hour
	drillMargin  = 30 * time.Second
)

// TestRestoreDrill takes a backup of the ledger, erases, rotates and trims, and
// looks at what backup and ledger together could open, before and after.
func TestRestoreDrill(t *testing.T) {
	t.Parallel()
	t.Run("local keyring", func(t *testing.T) {
		t.Parallel()
		drill(t, func(t *testing.T) keys.Keyring {
			ring, err := local.Open(filepath.Join(t.TempDir(), "keyring", "keyring.json"), local.Options{Create: true})
			ok(t, err)
			t.Cleanup(func() { ok(t, ring.Close()) })
			return ring
		})
	})
	t.Run("Vault", func(t *testing.T) {
		t.Parallel()
		drill(t, func(t *testing.T) keys.Keyring {
			v := servers.Vault(t, servers.VaultOptions{})
			v.FreshTransit("transit")
			policy, err := os.ReadFile("../../deploy/vault/blobd-policy.hcl")
			ok(t, err)
			v.Policy("blobd", string(policy))
			ring, err := transit.New(transit.Options{Address: v.Address, Login: transit.Token(v.NewToken("blobd", "1h"))})
			ok(t, err)
			t.Cleanup(func() { ok(t, ring.Close()) })
			return ring
		})
	})
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// site is a place where a deployment runs: files in a folder, and a key service.
type site struct {
	dir  string
	ring keys.Keyring
	now  *time.Time
}

// process is one process of a deployment.
type process struct {
	t        *testing.T
	site     site
	sqlite   *sqlite.Ledger
	ledger   *ledgerfaulty.Ledger
	journal  *evidence.Journal
	store    *store.Store
	resolver *resolver.Resolver
	erasures *retention.Erasures
	epochs   *retention.Epochs
	closers  []io.Closer
}

// boot builds a process that has not started yet.
func (s site) boot(t *testing.T) *process {
	t.Helper()
	now, log := func() time.Time { return *s.now }, slog.New(slog.DiscardHandler)
	l, err := sqlite.Open(filepath.Join(s.dir, "ledger.db"), sqlite.Options{Now: now})
	ok(t, err)
	p := &process{t: t, site: s, sqlite: l, ledger: ledgerfaulty.New(l), closers: []io.Closer{l}}
	var places []backends.Store
	for _, name := range []string{"blobs", "journal"} {
		f, err := backendfs.Open(filepath.Join(s.dir, name), backendfs.Options{Now: now})
		ok(t, err)
		places, p.closers = append(places, f), append(p.closers, f)
	}
	p.journal = evidence.NewJournal(p.ledger, places...)
	p.store = store.New(store.Config{
		Ledger: p.ledger, Objects: places[0], Keys: keys.NewCore(s.ring, keys.Options{Now: now}), Journal: p.journal,
		Now: now, Random: rand.Reader, PutMargin: drillMargin, Log: log,
	})
	p.resolver = resolver.New(p.store, p.ledger, resolver.Options{Now: now, Random: rand.Reader, Log: log})
	p.erasures = retention.NewErasures(p.store, p.ledger, "node", now, log)
	p.epochs = retention.NewEpochs(p.store, p.ledger, "node", retention.EpochOptions{Horizon: drillHorizon}, now, log)
	return p
}

func (s site) start(t *testing.T) *process {
	t.Helper()
	p := s.boot(t)
	ok(t, p.store.Start(t.Context()))
	return p
}

func (p *process) stop() {
	p.t.Helper()
	for _, c := range p.closers {
		ok(p.t, c.Close())
	}
}

func (p *process) put(execution, text string) blobd.Ref {
	p.t.Helper()
	stored, err := p.store.Put(p.t.Context(), store.PutRequest{
		Attempt: store.Attempt{Tenant: drillTenant, ExecutionID: execution, StepID: "step", Number: 1},
		Content: store.Content{Class: "reasoning", Kind: blobd.KindText, ContentType: "text/plain", Text: blobd.TextOf([]byte(text))},
	})
	ok(p.t, err)
	return stored.Ref
}

func (p *process) erase(execution string, refs ...blobd.Ref) ledger.Erasure {
	p.t.Helper()
	e, err := p.store.Erase(p.t.Context(), store.EraseRequest{Tenant: drillTenant, ExecutionID: execution, Refs: refs})
	ok(p.t, err)
	return e
}

// resolve returns the text, or "" for a null.
func (p *process) resolve(execution string, ref blobd.Ref) (string, error) {
	a, err := p.resolver.Resolve(p.t.Context(), resolver.Request{
		Tenant: drillTenant, ExecutionID: execution, Wants: []resolver.Want{{Ref: ref}},
	})
	if err != nil || a.Parts[0].Null {
		return "", err
	}
	return string(a.Parts[0].Text.Bytes()), nil
}

func (p *process) want(execution string, ref blobd.Ref, text string) {
	p.t.Helper()
	got, err := p.resolve(execution, ref)
	if err != nil || got != text {
		p.t.Errorf("%s resolves to %q, %v, want %q", execution, got, err, text)
	}
}

func (p *process) wantErr(execution string, ref blobd.Ref, want error) {
	p.t.Helper()
	if got, err := p.resolve(execution, ref); !errors.Is(err, want) {
		p.t.Errorf("%s resolves to %q, %v, want %v", execution, got, err, want)
	}
}

// work runs every job that is due.
func (p *process) work() {
	p.t.Helper()
	for _, one := range []func(context.Context) (bool, error){p.erasures.RunOne, p.epochs.RunOne} {
		for worked := true; worked; {
			var err error
			worked, err = one(p.t.Context())
			ok(p.t, err)
		}
	}
}

// elsewhere copies a site's files to another place, with the ledger of a backup.
func (s site) elsewhere(t *testing.T, backup string) site {
	t.Helper()
	dir := t.TempDir()
	ok(t, os.CopyFS(dir, os.DirFS(s.dir)))
	for _, suffix := range []string{"", "-wal", "-shm", ".lock"} {
		err := os.Remove(filepath.Join(dir, "ledger.db"+suffix))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	copyTo(t, filepath.Join(dir, "ledger.db"), backup)
	return site{dir, s.ring, s.now}
}

func copyTo(t *testing.T, to, from string) {
	t.Helper()
	b, err := os.ReadFile(from)
	ok(t, err)
	ok(t, os.WriteFile(to, b, 0o600))
}

// drilled is what was kept and erased around the backup.
type drilled struct {
	old, gone, alone, stays, newer blobd.Ref
	whole, single                  ledger.Erasure
	backup                         string
}

func drill(t *testing.T, open func(*testing.T) keys.Keyring) {
	now := time.Date(2031, 2, 3, 4, 5, 6, 0, time.UTC)
	s := site{t.TempDir(), open(t), &now}
	d := s.happen(t)

	p := s.start(t)
	b := openBackup(t, d.backup)
	d.attack(t, p, b, true)
	wantReport(t, p, b, 1, 1)
	if h, err := p.store.Horizon(t.Context(), d.whole); err != nil || h != (store.Horizon{}) {
		t.Errorf("a date before the rotation: %+v, %v", h, err)
	}

	_, err := p.store.StartEpoch(t.Context(), drillTenant, "", "operator")
	ok(t, err)
	p.work()
	d.attack(t, p, b, true) // backup and key service together: until the trim
	for _, e := range []ledger.Erasure{d.whole, d.single} {
		if h, err := p.store.Horizon(t.Context(), e); err != nil || h != (store.Horizon{At: now.Add(drillHorizon)}) {
			t.Errorf("horizon %+v, %v, want %v", h, err, now.Add(drillHorizon))
		}
	}
	p.stop()
	d.restoreBeforeTrim(t, s)

	now = now.Add(drillHorizon)
	p = s.start(t)
	p.work()
	for _, e := range []ledger.Erasure{d.whole, d.single} {
		if h, err := p.store.Horizon(t.Context(), e); err != nil || !h.Reached {
			t.Errorf("horizon %+v, %v, want reached", h, err)
		}
	}
	d.attack(t, p, b, false)
	wantReport(t, p, b, 0, 0)
	d.judge(p)
	p.want("old", d.newer, "newer")
	if r, err := p.store.Verify(t.Context(), store.VerifyOptions{}); err != nil || !r.OK() {
		t.Errorf("verify: %v, %+v", err, r.Faults)
	}
	p.stop()
	d.restoreAfterTrim(t, s)
}

// happen keeps texts, takes the backup, keeps one more and erases.
func (s site) happen(t *testing.T) (d drilled) {
	t.Helper()
	for _, name := range []string{"blobs", "journal"} {
		ok(t, os.Mkdir(filepath.Join(s.dir, name), 0o700))
	}
	p := s.start(t)
	_, err := p.store.CreateTenant(t.Context(), drillTenant, "")
	ok(t, err)
	d.old, d.gone = p.put("old", "old"), p.put("gone", "erased as a whole")
	d.alone, d.stays = p.put("other", "erased alone"), p.put("other", "stays")
	ok(t, p.journal.Mark(t.Context(), *s.now))
	p.stop()
	d.backup = filepath.Join(t.TempDir(), "ledger.db")
	copyTo(t, d.backup, filepath.Join(s.dir, "ledger.db"))

	p = s.start(t)
	d.newer = p.put("old", "newer")
	d.whole, d.single = p.erase("gone"), p.erase("other", d.alone)
	p.work()
	*s.now = s.now.Add(2 * drillMargin)
	p.work()
	d.judge(p)
	ok(t, p.journal.Mark(t.Context(), *s.now))
	p.stop()
	return d
}

// judge is what holds in every site that serves.
func (d drilled) judge(p *process) {
	p.t.Helper()
	p.want("old", d.old, "old")
	p.want("other", d.stays, "stays")
	p.want("gone", d.gone, "")
	p.want("other", d.alone, "")
}

// restoreBeforeTrim: the backup is put back while its keys still open. The node
// serves nothing until the journal was replayed; then what was erased is null,
// and what was put since is an error until its loss is accepted.
func (d drilled) restoreBeforeTrim(t *testing.T, s site) {
	p := s.elsewhere(t, d.backup).boot(t)
	defer p.stop()
	unready := func() {
		t.Helper()
		for _, ref := range []blobd.Ref{d.old, d.newer} {
			p.wantErr("old", ref, blobd.ErrUnavailable)
		}
		p.wantErr("gone", d.gone, blobd.ErrUnavailable)
		p.wantErr("other", d.alone, blobd.ErrUnavailable)
		if ready := p.store.Ready(t.Context()); ready[0].Err == nil {
			t.Errorf("ready: %+v", ready)
		}
	}
	unready()
	p.ledger.Fail("replay", 1, ledgerfaulty.Before, blobd.ErrUnavailable)
	if err := p.store.Start(t.Context()); err == nil {
		t.Fatal("started without the replay")
	}
	unready()
	ok(t, p.store.Start(t.Context()))
	d.judge(p)
	p.wantErr("old", d.newer, blobd.ErrMissing)
	ok(t, p.store.AcceptLoss(t.Context(), drillTenant, "old", []blobd.Ref{d.newer}, "operator"))
	p.want("old", d.newer, "")
	d.judge(p)
}

// restoreAfterTrim: a backup that nothing opens any more is not served.
func (d drilled) restoreAfterTrim(t *testing.T, s site) {
	p := s.elsewhere(t, d.backup).boot(t)
	defer p.stop()
	if err := p.store.Start(t.Context()); !errors.Is(err, blobd.ErrKeyMissing) {
		t.Errorf("the start of a dead backup: %v, want %v", err, blobd.ErrKeyMissing)
	}
	p.wantErr("old", d.old, blobd.ErrUnavailable)
	p.wantErr("gone", d.gone, blobd.ErrUnavailable)
}

func wantReport(t *testing.T, p *process, b *sqlite.Ledger, executions, blobs int64) {
	t.Helper()
	r, err := p.store.CompareBackup(t.Context(), b)
	if err != nil || r.Executions != 3 || r.ErasedExecutions != executions || r.ErasedBlobs != blobs {
		t.Errorf("the backup is said to open %+v, %v, want %d erased executions and %d blobs", r, err, executions, blobs)
	}
}
