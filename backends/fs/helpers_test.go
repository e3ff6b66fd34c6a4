package fs_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
	blobfs "github.com/blobd/blobd/backends/fs"
)

func open(t *testing.T, folder string, o blobfs.Options) *blobfs.Store {
	t.Helper()
	s, err := tryOpen(folder, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func tryOpen(folder string, o blobfs.Options) (*blobfs.Store, error) {
	o.Now = time.Now
	return blobfs.Open(folder, o)
}

func closeStore(t *testing.T, s *blobfs.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// blob returns bytes and the name of a sealed blob that has them.
func blob(execution byte, text string) (string, []byte) {
	data := []byte(text)
	return backends.BlobName("tenant", blobd.ExecutionTag{execution}, blobd.RefOf(data)), data
}

func prefix(execution byte) string {
	return backends.ExecutionPrefix("tenant", blobd.ExecutionTag{execution})
}

func put(t *testing.T, s backends.Store, name string, data []byte) {
	t.Helper()
	if err := s.Put(t.Context(), name, data); err != nil {
		t.Fatalf("put %s: %v", name, err)
	}
}

func has(t *testing.T, s backends.Store, name string, want []byte) {
	t.Helper()
	got, err := s.Get(t.Context(), name)
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("get %s: %d bytes, %v; want %d", name, len(got), err, len(want))
	}
}

func lacks(t *testing.T, s backends.Store, name string) {
	t.Helper()
	if got, err := s.Get(t.Context(), name); !errors.Is(err, blobd.ErrNotFound) {
		t.Fatalf("get %s: %d bytes, %v; want ErrNotFound", name, len(got), err)
	}
}

func erase(t *testing.T, s backends.Store, scope backends.Scope) backends.Erased {
	t.Helper()
	e, err := s.Erase(t.Context(), scope)
	if err != nil {
		t.Fatalf("erase: %v", err)
	}
	return e
}

func clean(t *testing.T, s backends.Store, scope backends.Scope) {
	t.Helper()
	left, err := s.Residue(t.Context(), scope, 10)
	if err != nil || len(left) != 0 {
		t.Fatalf("residue: %+v, %v", left, err)
	}
}

// segments returns the segment files, oldest first.
func segments(t *testing.T, folder string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(folder, "segments", "*.seg"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// onlySegment returns the one segment file.
func onlySegment(t *testing.T, folder string) string {
	t.Helper()
	found := segments(t, folder)
	if len(found) != 1 {
		t.Fatalf("segments: %q", found)
	}
	return found[0]
}

// copyOver lays a copy of one folder over another, as a restore does that
// deletes nothing.
func copyOver(t *testing.T, to, from string) {
	t.Helper()
	err := filepath.WalkDir(from, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, p)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o700)
		}
		b, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), b, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// contains reports which file of a folder holds some bytes.
func contains(t *testing.T, folder string, what []byte) string {
	t.Helper()
	where := ""
	err := filepath.WalkDir(folder, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(p)
		if bytes.Contains(b, what) {
			where = p
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return where
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func write(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// memoryDir returns a folder that syncs at no cost where the system has one, for
// tests that open a store many times.
func memoryDir(t *testing.T) string {
	t.Helper()
	folder, err := os.MkdirTemp("/dev/shm", "blobd-test-*")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	return folder
}
