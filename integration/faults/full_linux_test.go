package faults

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/blobd/blobd/internal/servers"
)

const diskSize = "size=200m"

// The server's disk fills up: puts are errors that say so and leave nothing,
// what was acknowledged stays, and with room again puts go through again.
func TestADiskThatIsFullRefusesPutsAndLosesNothing(t *testing.T) {
	for _, d := range drivers() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			dir := smallDisk(t)
			server := servers.MinIO(t, servers.MinIOOptions{Dir: dir})
			w := newWorld(t, d, server)
			l := newLoad(w, patience, 50<<10)
			l.run(patience, 0, 2)
			filler := fill(t, dir)
			l.run(3*time.Second, 100, 2)
			if l.failed.Load() != 2*writers {
				t.Errorf("%d of %d puts failed on a full disk", l.failed.Load(), 2*writers)
			}
			if l.refused.Load() > 0 {
				t.Errorf("%d resolves failed, which need no room", l.refused.Load())
			}
			if err := os.Remove(filler); err != nil {
				t.Fatal(err)
			}
			l.judge()
			w.close()
		})
	}
}

// smallDisk mounts a filesystem of its own, which only root may. Without it
// there is no test, and that is a failure.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, diskSize); err != nil {
		t.Fatalf("a small disk cannot be mounted, so a full one cannot be tested: run as root (%v)", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir
}

// fill takes all the room that a disk has, and returns the file that does.
func fill(t *testing.T, dir string) string {
	t.Helper()
	name := filepath.Join(dir, "filler")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for block := bytes.Repeat([]byte("x"), 1<<16); len(block) > 0; block = block[:len(block)/2] {
		for err = nil; err == nil; {
			_, err = f.Write(block)
		}
		if !errors.Is(err, unix.ENOSPC) {
			t.Fatal(err)
		}
	}
	return name
}
