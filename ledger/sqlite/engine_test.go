package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

func refused(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error is %v, want %v", err, want)
	}
}

// raw is a connection that is not the ledger's.
func raw(t *testing.T, path string) *conn {
	t.Helper()
	c, err := openConn(t.Context(), path, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.close() })
	return c
}

func (c *conn) do(t *testing.T, query string) {
	t.Helper()
	if _, err := c.exec(t.Context(), query); err != nil {
		t.Fatal(err)
	}
}

func TestOpenRefusesASecondUser(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	l := openTest(t, path, time.Now)
	_, err := Open(path, Options{Now: time.Now})
	refused(t, err, blobd.ErrConflict)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	openTest(t, path, time.Now)
}

func TestOpenRefusesANewerSchema(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	if err := openTest(t, path, time.Now).Close(); err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector{dsn(path, pragmas(false))})
	if _, err := db.Exec("INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, 1)"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := Open(path, Options{Now: time.Now})
	refused(t, err, blobd.ErrConflict)
	if !strings.Contains(err.Error(), "newer") {
		t.Fatalf("the error does not say why: %v", err)
	}
}

func TestOpenRefusesWhatIsNoDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	if err := os.WriteFile(path, bytes.Repeat([]byte("no database "), 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(path, Options{Now: time.Now})
	refused(t, err, blobd.ErrCorrupt)
	_, err = Open(filepath.Join(path, "under a file"), Options{Now: time.Now})
	refused(t, err, blobd.ErrUnavailable)
	_, err = Open(filepath.Join(t.TempDir(), "x.db"), Options{})
	refused(t, err, blobd.ErrInvalid)
}

func TestFilesAreTheOwnersOnly(t *testing.T) {
	l := newKeyLedger(t)
	for _, suffix := range []string{"", "-wal", "-shm", ".lock"} {
		info, err := os.Stat(l.path + suffix)
		l.must(err)
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", info.Name(), info.Mode())
		}
	}
}

func TestAnyPathIsOneFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a b?mode=memory&x#y%20.db")
	openTest(t, path, time.Now)
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
}

// Every connection of the pools is asked, the writer's too.
func TestEveryConnectionHasItsPragmas(t *testing.T) {
	l := newKeyLedger(t)
	var conns []*conn
	for range cap(l.readers) {
		c, err := l.take(t.Context(), l.readers, true)
		l.must(err)
		conns = append(conns, c)
		defer func() { l.readers <- c }()
	}
	w, err := l.take(t.Context(), l.writer, false)
	l.must(err)
	defer func() { l.writer <- w }()
	want := map[string]string{
		"journal_mode": "wal", "synchronous": "2", "secure_delete": "1", "foreign_keys": "1",
		"busy_timeout": "2000", "temp_store": "2",
	}
	for i, c := range append(conns, w) {
		for name, value := range want {
			l.must(c.query(t.Context(), "PRAGMA "+name, func(r *row) {
				if got := fmt.Sprint(r.values[0]); got != value {
					t.Errorf("connection %d: %s is %s", i, name, got)
				}
			}))
		}
	}
	for _, c := range conns {
		if _, err := c.exec(t.Context(), "DELETE FROM tenants"); err == nil {
			t.Error("a reader can write")
		}
	}
}

func TestAPragmaThatDoesNotTakeIsRefused(t *testing.T) {
	c := raw(t, filepath.Join(t.TempDir(), "x.db"))
	if err := c.checkPragmas(t.Context(), []pragma{{"synchronous", "full", "3"}}); err == nil {
		t.Fatal("a mismatch went unnoticed")
	}
	if err := c.checkPragmas(t.Context(), []pragma{{"no_such_pragma", "1", "1"}}); err == nil {
		t.Fatal("a pragma that the engine does not know went unnoticed")
	}
}

func TestEvidenceIsAppendOnly(t *testing.T) {
	l := newKeyLedger(t)
	c := raw(t, l.path)
	for _, query := range []string{"UPDATE evidence SET at = 1", "DELETE FROM evidence"} {
		if _, err := c.exec(t.Context(), query); err == nil {
			t.Errorf("%s went through", query)
		}
	}
}

func TestABatchIsOneTransactionAndOneEntryPerTenant(t *testing.T) {
	l := newKeyLedger(t)
	l.must(l.CreateTenant(t.Context(), ledger.Tenant{ID: "u", CreatedAt: l.now()}, ledger.Entry{}))
	before, err := l.Entries(t.Context(), 0, 100)
	l.must(err)
	var items []*commit
	for x := range 6 {
		c := ledger.Capture{
			Tenant: []string{"t", "u"}[x%2], Tag: keyTag(x), ExecutionID: fmt.Sprint(x), At: l.now(),
			Key:   ledger.WrappedKey{ID: [16]byte{byte(x)}, Ciphertext: []byte("k")},
			Blobs: []ledger.NewBlob{{Ref: keyRef(x, 0), Class: "c", Repeat: [32]byte{1}, WrappedKey: []byte("w")}},
			Parts: []ledger.Part{{Status: ledger.PartKept}},
		}
		c.Entry = ledger.Entry{Tenant: c.Tenant, Kind: ledger.EntryPut, At: l.now(), Body: fmt.Append(nil, x)}
		if x == 3 {
			c.Tenant = "nobody"
		}
		items = append(items, &commit{capture: c})
	}
	l.commitBatch(items)
	for x, item := range items {
		if (item.err != nil) != (x == 3) {
			t.Errorf("capture %d: %v", x, item.err)
		}
	}
	refused(t, items[3].err, blobd.ErrNotFound)
	after, err := l.Entries(t.Context(), 0, 100)
	l.must(err)
	var bodies []string
	for _, e := range after[len(before):] {
		bodies = append(bodies, e.Tenant+string(e.Body))
	}
	if want := []string{`t{"puts":[0,2,4]}`, `u{"puts":[1,5]}`}; !slices.Equal(bodies, want) {
		t.Fatalf("entries %q, want %q", bodies, want)
	}
}

// A fence changes as many rows for 2,000 blobs as for one.
func TestAFenceDoesNotGrowWithTheBlobs(t *testing.T) {
	l := newKeyLedger(t)
	l.put(1, 0, 1)
	for n := 0; n < 2000; n += 250 {
		l.put(2, n, n+250)
	}
	changed := func(x int) (n int64) {
		count := func() (n int64) {
			l.must(l.withWriter(t.Context(), func(w *conn) (bool, error) {
				_, err := w.one(t.Context(), "SELECT total_changes()", func(r *row) { n = r.int(0) })
				return false, err
			}))
			return n
		}
		before := count()
		l.fence(fmt.Sprint("e", x), x)
		return count() - before
	}
	if one, many := changed(1), changed(2); one != many {
		t.Fatalf("a fence of one blob changed %d rows, of 2,000 blobs %d", one, many)
	}
}

func TestAPanicInATransactionLeavesTheLedgerWorking(t *testing.T) {
	l := newKeyLedger(t)
	func() {
		defer func() { _ = recover() }()
		_ = l.write(t.Context(), "panic", func(w *conn) error {
			w.do(t, "DELETE FROM tenants")
			panic("in a transaction")
		})
	}()
	l.put(1, 0, 1)
}

func TestSettleIsUnavailableWhileAForeignReaderHoldsTheLog(t *testing.T) {
	l := newKeyLedger(t)
	l.put(1, 0, 1)
	foreign := raw(t, l.path)
	foreign.do(t, "BEGIN")
	l.must(foreign.query(t.Context(), "SELECT count(*) FROM blobs", func(*row) {}))
	l.put(1, 1, 2)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := l.Settle(ctx)
	refused(t, err, blobd.ErrUnavailable)
	foreign.do(t, "ROLLBACK")
	l.settle()
	if size := walBytes(l.path); size != 0 {
		t.Fatalf("the log has %d bytes", size)
	}
}

func TestABusyFileIsUnavailable(t *testing.T) {
	l := newKeyLedger(t)
	foreign := raw(t, l.path)
	foreign.do(t, "BEGIN IMMEDIATE")
	refused(t, l.Check(t.Context()), blobd.ErrUnavailable)
	foreign.do(t, "ROLLBACK")
	l.must(l.Check(t.Context()))
}

// Readers that overlap without end keep SQLite's own checkpoint from emptying
// the log; the ledger's bound does not care.
func TestTheLogIsBoundedUnderReaders(t *testing.T) {
	l := newKeyLedger(t)
	l.maxWAL = 1 << 20
	l.put(0, 0, 1)
	ctx, cancel := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for ctx.Err() == nil {
				_, _ = l.ScanBlobs(ctx, ledger.Position{}, 1000)
			}
		})
	}
	largest := int64(0)
	const puts = 4 * walEvery
	for x := range puts {
		l.put(x%100, 3*(x/100), 3*(x/100)+3)
		largest = max(largest, walBytes(l.path))
	}
	cancel()
	readers.Wait()
	// One look in walEvery transactions of at most 40 pages each.
	if bound := l.maxWAL + walEvery*40*4120; largest < l.maxWAL || largest > bound {
		t.Fatalf("the log grew to %d bytes, and was to pass %d but not %d", largest, l.maxWAL, bound)
	}
}

func TestDamageIsCorruptAndNeverAnAbsence(t *testing.T) {
	l := newKeyLedger(t)
	for x := range 20 {
		l.put(x, 0, 20)
	}
	l.must(l.Close())
	f, err := os.OpenFile(l.path, os.O_RDWR, 0)
	l.must(err)
	info, err := f.Stat()
	l.must(err)
	// All pages but the first, which holds the schema.
	for at := int64(4096); at < info.Size(); at += 4096 {
		_, err := f.WriteAt(bytes.Repeat([]byte{0x5a}, 4096), at)
		l.must(err)
	}
	l.must(f.Close())
	damaged, err := Open(l.path, Options{Now: time.Now})
	if err == nil {
		defer damaged.Close()
		_, err = damaged.Lookup(t.Context(), keyTag(1), []blobd.Ref{keyRef(1, 1)})
	}
	refused(t, err, blobd.ErrCorrupt)
}

func TestARowOfTheWrongShapeIsCorrupt(t *testing.T) {
	l := newKeyLedger(t)
	l.put(1, 0, 1)
	l.must(l.Close())
	raw(t, l.path).do(t, "UPDATE blobs SET repeat = x'00'")
	_, err := openTest(t, l.path, time.Now).Lookup(t.Context(), keyTag(1), []blobd.Ref{keyRef(1, 0)})
	refused(t, err, blobd.ErrCorrupt)
}

func TestAMissingKeyRowIsCorruptAndNotErased(t *testing.T) {
	l := newKeyLedger(t)
	l.put(1, 0, 1)
	l.must(l.Close())
	raw(t, l.path).do(t, "DELETE FROM execution_keys")
	_, err := openTest(t, l.path, time.Now).Lookup(t.Context(), keyTag(1), []blobd.Ref{keyRef(1, 0)})
	refused(t, err, blobd.ErrCorrupt)
}

func TestCommitsAreSharedByConcurrentCallers(t *testing.T) {
	l := newKeyLedger(t)
	entries := func() int {
		es, err := l.Entries(t.Context(), 0, 1000)
		l.must(err)
		return len(es)
	}
	before := entries()
	w, err := l.take(t.Context(), l.writer, false) // the first commit waits for it, the others queue
	l.must(err)
	var puts sync.WaitGroup
	for x := range 20 {
		puts.Go(func() { l.put(x, 0, 1) })
	}
	for l.commits.Queued() < 19 {
		runtime.Gosched()
	}
	l.writer <- w
	puts.Wait()
	if n := entries() - before; n != 2 {
		t.Fatalf("20 puts made %d batches, want the first alone and the rest together", n)
	}
}
