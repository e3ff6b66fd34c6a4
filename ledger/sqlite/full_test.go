package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// smallDisk is a file system of 4 MiB. A run in CI that cannot have one fails.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("a small disk is needed: %v", err)
		}
		t.Skipf("needs the right to mount: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}

// fill takes the disk's last byte, and returns what gives it back.
func fill(t *testing.T, dir string) (free func()) {
	t.Helper()
	path := filepath.Join(dir, "filler")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	block := make([]byte, 4096)
	for err == nil {
		_, err = f.Write(block)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAFullDiskIsUnavailableForWritesOnly(t *testing.T) {
	dir := smallDisk(t)
	l := keyLedger{openTest(t, filepath.Join(dir, "ledger.db"), time.Now), t}
	l.must(l.CreateTenant(t.Context(), ledger.Tenant{ID: "t", CreatedAt: l.now()}, ledger.Entry{}))
	l.put(1, 0, 10)
	l.put(2, 0, 10)
	_, err := l.Stats(t.Context()) // a reader's connection keeps the log in place
	l.must(err)
	free := fill(t, dir)

	// The log may have room left; it ends soon.
	for range 1000 {
		if err = l.Check(t.Context()); err != nil {
			break
		}
	}
	refused(t, err, blobd.ErrUnavailable)
	_, err = l.Commit(t.Context(), ledger.Capture{
		Tenant: "t", Tag: keyTag(1), ExecutionID: "run/1", At: l.now(), Key: ledger.WrappedKey{ID: [16]byte{1}, Version: 1},
		Blobs: []ledger.NewBlob{{Ref: keyRef(1, 99), Class: "c", Repeat: [32]byte{9}}}, Parts: []ledger.Part{{Status: ledger.PartKept}},
	})
	refused(t, err, blobd.ErrUnavailable)
	_, _, err = l.Fence(t.Context(), ledger.Fence{ID: "e", Scope: ledger.Scope{Tenant: "t", Tag: keyTag(1)}, At: l.now()})
	refused(t, err, blobd.ErrUnavailable)

	v, err := l.Lookup(t.Context(), keyTag(1), []blobd.Ref{keyRef(1, 3), keyRef(1, 99)})
	l.must(err)
	if v.Execution.State != ledger.ExecutionOpen || v.Blobs[0].State != ledger.BlobLive || v.Blobs[1] != nil {
		t.Fatalf("view %+v", v)
	}

	free()
	l.put(1, 99, 100)
	l.fence("e", 1)
	l.settle()
	v, err = l.Lookup(t.Context(), keyTag(1), []blobd.Ref{keyRef(1, 99)})
	l.must(err)
	if v.Execution.State != ledger.ExecutionErased {
		t.Fatalf("view %+v", v)
	}
}
