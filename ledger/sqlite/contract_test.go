package sqlite

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/ledger/ledgertest"
)

func openTest(t *testing.T, path string, now func() time.Time) *Ledger {
	t.Helper()
	l, err := Open(path, Options{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return l
}

// emptyLedger is the file of a ledger that was opened and closed: migrating each
// test's own takes longer than most tests.
func emptyLedger(t *testing.T) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ledger.db")
	l, err := Open(path, Options{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for _, beside := range []string{"-wal", "-journal"} {
		if info, err := os.Stat(path + beside); err == nil && info.Size() > 0 {
			t.Fatalf("%s is left", beside)
		}
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func TestContract(t *testing.T) {
	empty := emptyLedger(t)
	ledgertest.Run(t, ledgertest.Harness{
		New: func(t *testing.T, now func() time.Time) ledger.Ledger {
			path := filepath.Join(t.TempDir(), "ledger.db")
			if err := os.WriteFile(path, empty, 0o600); err != nil {
				t.Fatal(err)
			}
			return openTest(t, path, now)
		},
		Reopen: func(t *testing.T, l ledger.Ledger, now func() time.Time) ledger.Ledger {
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			return openTest(t, l.(*Ledger).path, now)
		},
		Subjects: func(t *testing.T, l ledger.Ledger, p ledger.Position) (hs [][32]byte) {
			err := l.(*Ledger).read(t.Context(), "subjects", func(c *conn) error {
				return c.query(context.Background(),
					"SELECT subject FROM subjects WHERE execution_tag = ? AND ref = ? ORDER BY subject",
					func(r *row) { hs = append(hs, r.hash(0)) }, p.Tag[:], p.Ref[:])
			})
			if err != nil {
				t.Fatal(err)
			}
			return hs
		},
	})
}
