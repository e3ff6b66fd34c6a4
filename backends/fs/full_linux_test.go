package fs_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
	blobfs "github.com/blobd/blobd/backends/fs"
)

// smallDisk mounts a filesystem of a size in bytes. Where it may not, the test
// is skipped, and fails in continuous integration.
func smallDisk(t *testing.T, size int) string {
	t.Helper()
	folder := t.TempDir()
	if err := syscall.Mount("tmpfs", folder, "tmpfs", 0, fmt.Sprintf("size=%d", size)); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("this test needs to mount a tmpfs: %v", err)
		}
		t.Skipf("this test needs to mount a tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(folder, 0); err != nil {
			t.Error(err)
		}
	})
	return folder
}

func TestAFullDiskIsUnavailableAndHealsWhenSpaceComesBack(t *testing.T) {
	folder := smallDisk(t, 2<<20)
	s, err := tryOpen(folder, blobfs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	kept := make(map[string][]byte)
	var full string
	var fullData []byte
	for i := 0; full == ""; i++ {
		name, data := blob(byte(i%2+1), fmt.Sprintf("%d %s", i, strings.Repeat("x", 50_000)))
		err := s.Put(t.Context(), name, data)
		switch {
		case err == nil:
			kept[name] = data
		case errors.Is(err, blobd.ErrUnavailable) && errors.Is(err, syscall.ENOSPC):
			full, fullData = name, data
		default:
			t.Fatal(err)
		}
		if i > 100 {
			t.Fatal("the disk never filled up")
		}
	}
	if len(kept) < 10 {
		t.Fatalf("%d objects fit", len(kept))
	}
	lacks(t, s, full)
	for name, data := range kept {
		has(t, s, name, data)
	}
	// Erasing needs no space, and makes some.
	if _, err := s.Erase(t.Context(), backends.Scope{Prefix: prefix(1)}); err != nil {
		t.Fatal(err)
	}
	clean(t, s, backends.Scope{Prefix: prefix(1)})
	put(t, s, full, fullData)
	has(t, s, full, fullData)
	closeStore(t, s)
	s, err = tryOpen(folder, blobfs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	has(t, s, full, fullData)
	for name, data := range kept {
		if strings.HasPrefix(name, prefix(1)) {
			lacks(t, s, name)
		} else {
			has(t, s, name, data)
		}
	}
}

func TestAnObjectLargerThanTheDiskLeavesNothing(t *testing.T) {
	folder := smallDisk(t, 2<<20)
	s, err := tryOpen(folder, blobfs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	small, smallData := blob(1, "small")
	put(t, s, small, smallData)
	large, largeData := blob(1, strings.Repeat("y", 4<<20))
	for range 3 {
		if err := s.Put(t.Context(), large, largeData); !errors.Is(err, blobd.ErrUnavailable) {
			t.Fatal(err)
		}
		lacks(t, s, large)
	}
	after, afterData := blob(1, "after")
	put(t, s, after, afterData)
	has(t, s, small, smallData)
	if where := contains(t, folder, largeData[:1000]); where != "" {
		t.Errorf("parts of it are in %s", where)
	}
}
