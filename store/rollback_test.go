package store_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
	backendmem "github.com/blobd/blobd/backends/mem"
	keysmem "github.com/blobd/blobd/keys/mem"
	"github.com/blobd/blobd/ledger"
	ledgermem "github.com/blobd/blobd/ledger/mem"
	"github.com/blobd/blobd/ledger/sqlite"
	"github.com/blobd/blobd/store"
)

// diskParts are parts whose ledger is a file that can be copied.
type diskParts struct {
	*parts
	dir  string
	open *sqlite.Ledger
}

func newDiskParts(t *testing.T, second bool) *diskParts {
	t.Helper()
	d := &diskParts{dir: t.TempDir(), parts: bareParts()}
	if !second {
		d.parts.second = nil
	}
	d.openLedger(t)
	t.Cleanup(func() { _ = d.open.Close() })
	d.start(t).createTenant(t, tenant)
	return d
}

func (d *diskParts) openLedger(t *testing.T) {
	t.Helper()
	l, err := sqlite.Open(filepath.Join(d.dir, "ledger.db"), sqlite.Options{Now: d.clock.Now, Readers: 1})
	if err != nil {
		t.Fatal(err)
	}
	d.open, d.parts.ledger = l, l
}

// copyLedger returns a copy of the ledger's files.
func (d *diskParts) copyLedger(t *testing.T) map[string][]byte {
	t.Helper()
	if err := d.open.Close(); err != nil {
		t.Fatal(err)
	}
	files := make(map[string][]byte)
	names, err := filepath.Glob(filepath.Join(d.dir, "ledger.db*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if files[name], err = os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	d.openLedger(t)
	return files
}

// restoreLedger puts a copy back.
func (d *diskParts) restoreLedger(t *testing.T, files map[string][]byte) {
	t.Helper()
	if err := d.open.Close(); err != nil {
		t.Fatal(err)
	}
	names, _ := filepath.Glob(filepath.Join(d.dir, "ledger.db*"))
	for _, name := range names {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	for name, b := range files {
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d.openLedger(t)
}

// copyStore returns a copy of a store.
func copyStore(t *testing.T, s backends.Store, now func() time.Time) backends.Store {
	t.Helper()
	c := backendmem.New(now)
	all, err := s.List(t.Context(), "", "", 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range all {
		b, err := s.Get(t.Context(), o.Name)
		if err == nil {
			err = c.Put(t.Context(), o.Name, b)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// history is what happened around the copy: the ledger that comes back knows
// nothing of what was done after it.
type history struct {
	*diskParts
	old, newer, elsewhere store.Stored // kept before, kept after, kept after in a new execution
	erased, erasedRef     store.Stored // of an execution, and alone
	stays                 store.Stored // beside erasedRef
	token                 string
	files                 map[string][]byte // the ledger's, for copies of the history
}

const (
	oldRun   = "kept before the copy"
	newRun   = "made after the copy"
	goneRun  = "erased after the copy"
	refRun   = "lost a ref after the copy"
	neverRun = "fenced after the copy, never seen"
)

// newHistory makes a history; rollStore: the store comes back old, too.
func newHistory(t *testing.T, rollStore bool) *history {
	t.Helper()
	h := &history{diskParts: newDiskParts(t, true)}
	h.happen(t, rollStore)
	return h
}

func (h *history) happen(t *testing.T, rollStore bool) {
	t.Helper()
	n := h.start(t)
	h.old = n.mustPut(t, oldRun, "old")
	h.erased = n.mustPut(t, goneRun, "to be erased")
	h.erasedRef, h.stays = n.mustPut(t, refRun, "to be erased alone"), n.mustPut(t, refRun, "stays")
	var row ledger.Token
	var err error
	if h.token, row, err = n.store.CreateToken(t.Context(), store.NewToken{Tenant: tenant, Name: "t", Roles: []string{"runtime"}}); err != nil {
		t.Fatal(err)
	}
	h.mark(t, n)

	files := h.copyLedger(t)
	objects := copyStore(t, h.parts.objects, h.clock.Now)
	n = h.start(t)
	h.newer = n.mustPut(t, oldRun, "newer")
	h.elsewhere = n.mustPut(t, newRun, "elsewhere")
	n.mustErase(t, goneRun)
	n.mustErase(t, refRun, h.erasedRef.Ref)
	n.mustErase(t, neverRun)
	if err := n.store.RevokeToken(t.Context(), tenant, row.ID, "token"); err != nil {
		t.Fatal(err)
	}
	h.mark(t, n)

	h.restoreLedger(t, files)
	if rollStore {
		h.parts.objects = objects
	}
}

// again returns a copy of the history with parts of its own.
func (h *history) again(t *testing.T) *history {
	t.Helper()
	if h.files == nil {
		h.files = h.copyLedger(t)
	}
	c := *h
	now := &clock{now: h.clock.Now()}
	c.diskParts = &diskParts{dir: t.TempDir(), parts: &parts{
		clock: now, keys: h.parts.keys,
		objects: copyStore(t, h.parts.objects, now.Now), second: copyStore(t, h.parts.second, now.Now),
	}}
	for name, b := range h.files {
		if err := os.WriteFile(filepath.Join(c.dir, filepath.Base(name)), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c.openLedger(t)
	t.Cleanup(func() { _ = c.open.Close() })
	return &c
}

// mark does what retention.Marks does every few seconds.
func (h *history) mark(t *testing.T, n *node) {
	t.Helper()
	if err := n.journal.Mark(t.Context(), h.clock.Now()); err != nil {
		t.Fatal(err)
	}
}

// judge is what must hold once the node serves again.
func (h *history) judge(t *testing.T, n *node) {
	t.Helper()
	n.wantText(t, oldRun, h.old.Ref, "old")
	n.wantText(t, refRun, h.stays.Ref, "stays")
	n.wantNull(t, goneRun, h.erased.Ref)
	n.wantNull(t, refRun, h.erasedRef.Ref)
	for _, lost := range []struct {
		run string
		ref blobd.Ref
	}{{oldRun, h.newer.Ref}, {newRun, h.elsewhere.Ref}} {
		_, err := n.resolve(t.Context(), lost.run, lost.ref)
		wantErr(t, err, blobd.ErrMissing)
	}
	for _, run := range []string{goneRun, neverRun} {
		_, err := n.putText(t.Context(), run, "again")
		wantErr(t, err, blobd.ErrErased)
	}
	_, err := n.parts.ledger.TokenByHash(t.Context(), store.HashToken(h.token))
	wantErr(t, err, blobd.ErrNotFound)
}

// judgeLater is what must hold once the jobs ran and the loss was accepted.
func (h *history) judgeLater(t *testing.T, n *node) {
	t.Helper()
	n.runJobs(t)
	if left := n.sealedObjects(t, goneRun); len(left) != 0 {
		t.Errorf("%d objects of the erased execution are left", len(left))
	}
	again := n.mustPut(t, oldRun, "newer")
	n.wantText(t, oldRun, again.Ref, "newer")
	n.wantText(t, oldRun, h.old.Ref, "old")
	if r, err := n.store.Verify(t.Context(), store.VerifyOptions{}); err != nil || !r.OK() {
		t.Errorf("verify: %v, %d faults", err, len(r.Faults))
	}
}

func TestRolledBackLedgerIsReplayed(t *testing.T) {
	h := newHistory(t, false)
	n := h.boot()
	if _, err := n.resolve(t.Context(), goneRun, h.erased.Ref); !errors.Is(err, blobd.ErrUnavailable) {
		t.Errorf("before the start: %v, want unavailable", err)
	}
	if err := n.store.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.judge(t, n)
	// The store was not rolled back, so its listing told of every put.
	n.wantNull(t, oldRun, blobd.RefOf([]byte("never stored")))
	n = h.start(t)
	h.judge(t, n)
	if err := n.store.AcceptLoss(t.Context(), tenant, newRun, []blobd.Ref{h.elsewhere.Ref}, "operator"); err != nil {
		t.Fatal(err)
	}
	n.wantNull(t, newRun, h.elsewhere.Ref)
	h.judgeLater(t, n)
}

// TestRolledBackLedgerIsNotServed: until the replay is whole, nothing is
// answered, and nothing is null.
func TestRolledBackLedgerIsNotServed(t *testing.T) {
	h := newHistory(t, false)
	n := h.boot()
	n.fail(call{"ledger", "replay", 1}, false, errDown)
	if err := n.store.Start(t.Context()); err == nil {
		t.Fatal("started without the replay")
	}
	for _, ref := range []blobd.Ref{h.old.Ref, h.newer.Ref, h.erased.Ref} {
		_, err := n.resolve(t.Context(), oldRun, ref)
		wantErr(t, err, blobd.ErrUnavailable)
	}
	_, err := n.putText(t.Context(), oldRun, "a text")
	wantErr(t, err, blobd.ErrUnavailable)
	_, err = n.erase(t.Context(), oldRun)
	wantErr(t, err, blobd.ErrUnavailable)
	if err := n.store.Start(t.Context()); err != nil {
		t.Fatalf("the second try: %v", err)
	}
	h.judge(t, n)
}

// TestRolledBackStoreAndLedger: where the store came back old as well, an
// unknown ref may be a put that nobody remembers: an error until accepted.
func TestRolledBackStoreAndLedger(t *testing.T) {
	h := newHistory(t, true)
	n := h.start(t)
	h.judge(t, n)
	unknown := blobd.RefOf([]byte("nobody remembers"))
	_, err := n.resolve(t.Context(), oldRun, unknown)
	wantErr(t, err, blobd.ErrMissing)
	n = h.start(t) // a restart does not forget it
	_, err = n.resolve(t.Context(), oldRun, unknown)
	wantErr(t, err, blobd.ErrMissing)
	if err := n.store.AcceptGap(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.wantNull(t, oldRun, unknown)
	n.wantNull(t, newRun, h.elsewhere.Ref)
	h.judgeLater(t, n)
	// Both places of the journal know all again.
	n.wantNull(t, goneRun, h.erased.Ref)
	known := make(map[int64]bool)
	for _, r := range journalRecords(t, h.parts.objects) {
		known[r.Seq] = true
	}
	for _, r := range journalRecords(t, h.parts.second) {
		if r.Kind != ledger.RecordMark && !known[r.Seq] {
			t.Errorf("record %d (%s) is in the second place alone", r.Seq, r.Kind)
		}
	}
}

// TestRecoveryCrashMatrix interrupts the recovery at every call: what is
// answered after the next start is the same.
func TestRecoveryCrashMatrix(t *testing.T) {
	for _, rollStore := range []bool{false, true} {
		t.Run(fmt.Sprint("store rolled back ", rollStore), func(t *testing.T) {
			first := newHistory(t, rollStore)
			scene := func(t *testing.T) *history { return first.again(t) }
			n := scene(t).boot()
			var calls []call
			n.onCall(func(c call) { calls = append(calls, c) })
			if err := n.store.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			if len(calls) < 10 {
				t.Fatalf("only %d calls: nothing was recovered", len(calls))
			}
			for _, c := range calls {
				if c.nth > 1 && c.op != "setrecovery" {
					continue // one of a kind is enough
				}
				t.Run(c.String()+" failed after it acted", func(t *testing.T) {
					interruptRecovery(t, scene(t), rollStore, func(n *node) { n.fail(c, true, errDown) })
				})
				t.Run("killed after "+c.String(), func(t *testing.T) {
					interruptRecovery(t, scene(t), rollStore, func(n *node) { n.dieAfter(c) })
				})
			}
		})
	}
}

func interruptRecovery(t *testing.T, h *history, rollStore bool, arm func(*node)) {
	n := h.boot()
	arm(n)
	if err := n.store.Start(t.Context()); err != nil {
		_, err := n.resolve(t.Context(), oldRun, h.newer.Ref)
		wantErr(t, err, blobd.ErrUnavailable)
	}
	n = h.start(t)
	h.judge(t, n)
	if rollStore {
		_, err := n.resolve(t.Context(), oldRun, blobd.RefOf([]byte("nobody remembers")))
		wantErr(t, err, blobd.ErrMissing)
		if err := n.store.AcceptGap(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	h.judgeLater(t, n)
}

// TestStoreAndLedgerMustBelongTogether: where they do not, nothing is served
// and nothing is null.
func TestStoreAndLedgerMustBelongTogether(t *testing.T) {
	for name, swap := range map[string]func(t *testing.T, p *parts){
		"another deployment's store": func(t *testing.T, p *parts) { p.objects = memParts(t).objects },
		"an empty store":             func(t *testing.T, p *parts) { p.objects = backendmem.New(p.clock.Now) },
		"an emptied store": func(t *testing.T, p *parts) {
			for _, scope := range []backends.Scope{{Names: []string{backends.IdentityName}}, {Prefix: backends.JournalPrefix}} {
				if _, err := p.objects.Erase(t.Context(), scope); err != nil {
					t.Fatal(err)
				}
			}
		},
		"a new ledger": func(t *testing.T, p *parts) { p.ledger = ledgermem.New(p.clock.Now) },
		"a new ledger alone": func(t *testing.T, p *parts) {
			p.ledger, p.keys = ledgermem.New(p.clock.Now), keysmem.New(nil)
		},
		"a new ledger and an empty store, keys in use": func(t *testing.T, p *parts) {
			p.ledger, p.objects = ledgermem.New(p.clock.Now), backendmem.New(p.clock.Now)
		},
		"no second place any more":          func(_ *testing.T, p *parts) { p.second = nil },
		"an empty second place":             func(_ *testing.T, p *parts) { p.second = backendmem.New(p.clock.Now) },
		"another deployment's second place": func(t *testing.T, p *parts) { p.second = memParts(t).second },
		"a new ledger and a store that lost its identity": func(t *testing.T, p *parts) {
			p.ledger, p.keys = ledgermem.New(p.clock.Now), keysmem.New(nil)
			if _, err := p.objects.Erase(t.Context(), backends.Scope{Names: []string{backends.IdentityName}}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := memParts(t)
			stored := p.start(t).mustPut(t, run, runText)
			swap(t, p)
			n := p.boot()
			for range 2 { // asking again does not help
				wantErr(t, n.store.Start(t.Context()), blobd.ErrConflict)
				_, err := n.resolve(t.Context(), run, stored.Ref)
				wantErr(t, err, blobd.ErrUnavailable)
				_, err = n.putText(t.Context(), run, runText)
				wantErr(t, err, blobd.ErrUnavailable)
			}
		})
	}
}

// TestFirstStartCrashMatrix interrupts the first start at every call.
func TestFirstStartCrashMatrix(t *testing.T) {
	n := bareParts().boot()
	var calls []call
	n.onCall(func(c call) { calls = append(calls, c) })
	if err := n.store.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, c := range calls {
		for _, arm := range []func(*node){
			func(n *node) { n.fail(c, false, errDown) },
			func(n *node) { n.fail(c, true, errUnclassified) },
			func(n *node) { n.dieAfter(c) },
		} {
			p := bareParts()
			n := p.boot()
			arm(n)
			_ = n.store.Start(t.Context())
			n = p.start(t)
			n.createTenant(t, tenant)
			stored := n.mustPut(t, run, runText)
			p.start(t).wantText(t, run, stored.Ref, runText)
		}
	}
}

// TestJournalInOneStoreOnly: without a second place the store alone tells of a
// rolled-back ledger.
func TestJournalInOneStoreOnly(t *testing.T) {
	h := &history{diskParts: newDiskParts(t, false)}
	h.happen(t, false)
	h.judge(t, h.start(t))
}

// TestSecondPlaceIsFilled: a second place that is new gets the whole journal,
// and from then on tells of a rollback of everything else.
func TestSecondPlaceIsFilled(t *testing.T) {
	p := bareParts()
	p.second = nil
	n := p.start(t)
	n.createTenant(t, tenant)
	n.mustPut(t, run, runText)
	n.mustErase(t, run)
	p.second = backendmem.New(p.clock.Now)
	p.start(t)
	if got, want := len(journalRecords(t, p.second)), len(journalRecords(t, p.objects)); got != want || want == 0 {
		t.Errorf("the second place has %d records, the store %d", got, want)
	}
}
