package fs_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/blobd/blobd"
	blobfs "github.com/blobd/blobd/backends/fs"
)

func blocks(t *testing.T, path string) int64 {
	t.Helper()
	var st syscall.Stat_t
	if err := syscall.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	return st.Blocks * 512
}

func TestAFolderIsOpenedOnce(t *testing.T) {
	folder := t.TempDir()
	s := open(t, folder, blobfs.Options{})
	if _, err := tryOpen(folder, blobfs.Options{}); !errors.Is(err, blobd.ErrConflict) {
		t.Fatalf("second open: %v", err)
	}
	name, data := blob(1, "x")
	put(t, s, name, data) // the refused open did no harm
	closeStore(t, s)
	has(t, open(t, folder, blobfs.Options{}), name, data)
}

func TestAClosedStoreIsUnavailable(t *testing.T) {
	s := open(t, t.TempDir(), blobfs.Options{})
	closeStore(t, s)
	closeStore(t, s)
	if err := s.Put(t.Context(), "a", nil); !errors.Is(err, blobd.ErrUnavailable) {
		t.Error(err)
	}
	if _, err := s.Get(t.Context(), "a"); !errors.Is(err, blobd.ErrUnavailable) || errors.Is(err, blobd.ErrNotFound) {
		t.Error(err)
	}
	if err := s.Check(t.Context()); !errors.Is(err, blobd.ErrUnavailable) {
		t.Error(err)
	}
}

func TestModesAreTheOwnersOnly(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	folder := filepath.Join(t.TempDir(), "made", "here")
	s := open(t, folder, blobfs.Options{})
	put(t, s, "a/b", []byte("x"))
	if err := s.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	seen := 0
	err := filepath.Walk(folder, func(p string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		seen++
		want := os.FileMode(0o600)
		if info.IsDir() {
			want = 0o700
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %v", p, info.Mode())
		}
		return nil
	})
	if err != nil || seen < 6 {
		t.Fatalf("%d entries, %v", seen, err)
	}
}

func TestLinksAreRefused(t *testing.T) {
	for _, name := range []string{"lock", "index.db", "segments", "probe", "segments/0000000100000001.seg"} {
		t.Run(name, func(t *testing.T) {
			folder, outside := t.TempDir(), t.TempDir()
			victim := filepath.Join(outside, "victim")
			write(t, victim, []byte("outside"))
			target := victim
			if name == "segments" {
				target = outside
			} else if filepath.Dir(name) != "." {
				if err := os.Mkdir(filepath.Join(folder, "segments"), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Symlink(target, filepath.Join(folder, name)); err != nil {
				t.Fatal(err)
			}
			s, err := tryOpen(folder, blobfs.Options{})
			if err == nil {
				defer func() { _ = s.Close() }()
				err = s.Check(t.Context())
			}
			if err == nil || errors.Is(err, blobd.ErrNotFound) {
				t.Errorf("accepted: %v", err)
			}
			if string(read(t, victim)) != "outside" {
				t.Error("written through the link")
			}
		})
	}
}

func TestALinkInPlaceOfASegmentIsAnErrorAndNoAbsence(t *testing.T) {
	folder, kept, _ := stocked(t)
	s := open(t, folder, blobfs.Options{})
	outside := filepath.Join(t.TempDir(), "copy")
	for _, p := range segments(t, folder) {
		write(t, outside, read(t, p))
		if err := errors.Join(os.Remove(p), os.Symlink(outside, p)); err != nil {
			t.Fatal(err)
		}
	}
	for name := range kept {
		if got, err := s.Get(t.Context(), name); err == nil || errors.Is(err, blobd.ErrNotFound) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
	}
}

func TestOpenFilesAreBounded(t *testing.T) {
	folder, kept, _ := stocked(t)
	s := open(t, folder, blobfs.Options{OpenFiles: 3})
	if n := len(segments(t, folder)); n < 4 {
		t.Fatalf("%d segments", n)
	}
	for name, data := range kept {
		has(t, s, name, data)
		if n := s.OpenSegments(); n > 3 {
			t.Fatalf("%d open", n)
		}
	}
}

func TestTooFewFileDescriptorsAreNoAbsence(t *testing.T) {
	folder, kept, _ := stocked(t)
	s := open(t, folder, blobfs.Options{OpenFiles: 1})
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	low := limit
	low.Cur = 3 // below what is open already
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	failed := 0
	var wrong []error
	for name := range kept {
		if _, err := s.Get(t.Context(), name); err != nil {
			failed++
			if errors.Is(err, blobd.ErrNotFound) || !errors.Is(err, blobd.ErrUnavailable) {
				wrong = append(wrong, err)
			}
		}
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if failed == 0 || len(wrong) > 0 {
		t.Fatalf("%d failed; %v", failed, wrong)
	}
	for name, data := range kept {
		has(t, s, name, data)
	}
}

func TestAFileInPlaceOfTheSegmentFolderIsNoAbsence(t *testing.T) {
	folder, kept, _ := stocked(t)
	s := open(t, folder, blobfs.Options{})
	dir := filepath.Join(folder, "segments")
	if err := os.Rename(dir, dir+"-aside"); err != nil {
		t.Fatal(err)
	}
	write(t, dir, nil)
	for name := range kept {
		if _, err := s.Get(t.Context(), name); err == nil || errors.Is(err, blobd.ErrNotFound) {
			t.Fatalf("ENOTDIR: %v", err)
		}
	}
	if err := errors.Join(os.Remove(dir), os.Rename(dir+"-aside", dir)); err != nil {
		t.Fatal(err)
	}
	for name, data := range kept {
		has(t, s, name, data)
	}
}

func TestNamesCannotLeaveTheFolder(t *testing.T) {
	outer := t.TempDir()
	folder := filepath.Join(outer, "store")
	s := open(t, folder, blobfs.Options{})
	for _, name := range []string{"../x", "segments/../../x", "/tmp/x", "a/../../x", "..", "a\x00b", "A"} {
		if err := s.Put(t.Context(), name, []byte("x")); !errors.Is(err, blobd.ErrInvalid) {
			t.Errorf("put %q: %v", name, err)
		}
	}
	entries, err := os.ReadDir(outer)
	if err != nil || len(entries) != 1 {
		t.Fatalf("%v, %v", entries, err)
	}
	// Names of the store's own files are names like any other.
	for i, name := range []string{"lock", "probe", "segments", "index"} {
		data := []byte(fmt.Sprint("object ", i))
		put(t, s, name, data)
		has(t, s, name, data)
	}
}
