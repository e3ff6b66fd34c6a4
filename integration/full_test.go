package integration

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// smallDisk mounts a small disk. Where that is impossible the test is skipped,
// and fails in CI.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "small")
	must(t, os.Mkdir(dir, 0o700))
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=24m,mode=0700", "tmpfs", dir).CombinedOutput(); err != nil {
		message := fmt.Sprintf("no small disk: %v: %s", err, bytes.TrimSpace(out))
		if os.Getenv("CI") == "true" {
			t.Fatal(message)
		}
		t.Skip(message)
	}
	t.Cleanup(func() { run(t, "umount", dir) })
	return dir
}

// TestFullDisk: puts are 503 and nothing half is kept, reads stay right,
// erasures are 202 or 503, and once there is space all of it goes on.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t)
	dir := filepath.Join(disk, "data")
	s := start(t, dir)
	random := rand.NewChaCha8([32]byte{2})
	next := func(size int) []byte {
		b := make([]byte, size)
		_, _ = random.Read(b)
		return b
	}
	octets := []string{"Content-Type", "application/octet-stream"}
	kept := make(map[string][]byte)
	erasable, err := s.put("gone", next(4096), octets...)
	must(t, err)
	var refusal error
	for i := 0; refusal == nil && i < 400; i++ {
		b := next(256 << 10)
		out, err := s.put("full", b, octets...)
		if err != nil {
			refusal = err
			continue
		}
		kept[out.Ref] = b
	}
	if refusal != (refused{http.StatusServiceUnavailable, "unavailable"}) {
		t.Fatalf("on a full disk: %v, want 503 unavailable", refusal)
	}
	fill(t, filepath.Join(disk, "filler"))
	for range 5 {
		if _, err := s.put("full", next(64<<10), octets...); err != (refused{http.StatusServiceUnavailable, "unavailable"}) {
			t.Errorf("on a full disk: %v, want 503 unavailable", err)
		}
	}
	for ref, b := range kept {
		s.wantText("full", ref, b)
	}
	s.wantNull("full", erasable.Ref)
	if a := s.get("/livez"); a.status != http.StatusOK {
		t.Errorf("livez: %d", a.status)
	}
	_, erasing := s.erase("gone")
	switch erasing {
	case nil:
		s.wantNull("gone", erasable.Ref)
	default:
		if erasing != (refused{http.StatusServiceUnavailable, "unavailable"}) {
			t.Errorf("an erasure on a full disk: %v, want 202 or 503", erasing)
		}
	}
	t.Logf("%d texts fit; the erasure was answered with %v", len(kept), erasing)

	must(t, os.Remove(filepath.Join(disk, "filler")))
	run(t, "mount", "-o", "remount,size=96m", disk)
	more := next(256 << 10)
	s.eventually(20*time.Second, "puts to go on", func() bool {
		out, err := s.put("full", more, octets...)
		if err == nil {
			kept[out.Ref] = more
		}
		return err == nil
	})
	e := s.mustErase("gone")
	s.wantNull("gone", erasable.Ref)
	s.waitErased(e.ID)
	s.waitAllErased()
	s.stop()
	wantVerified(t, dir)
	s = start(t, dir)
	for ref, b := range kept {
		s.wantText("full", ref, b)
	}
	s.stop()
}

// fill takes what is left of a disk.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	must(t, err)
	defer func() { _ = f.Close() }()
	for size := 1 << 20; size > 0; size /= 2 {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, size))
		}
	}
}
