package store_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
	backendmem "github.com/blobd/blobd/backends/mem"
	"github.com/blobd/blobd/ledger"
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
