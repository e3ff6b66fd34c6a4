package evidence_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/evidence"
)

// files reads a folder whole, by path.
func files(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	out := make(map[string][]byte)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		out[filepath.ToSlash(name)] = b
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func export(t *testing.T, from evidence.Source, v note.Verifier, dir string) evidence.Checkpoint {
	t.Helper()
	c, err := evidence.Export(t.Context(), from, v, evidence.Folder(dir))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := evidence.VerifyExport(t.Context(), evidence.Folder(dir), v, evidence.VerifyOptions{}); err != nil || got.Size != c.Size || got.Root != c.Root {
		t.Fatalf("the folder verifies as %d, %v, not %d", got.Size, err, c.Size)
	}
	return c
}

// TestAnExportIsTheSameHoweverOften it was brought up to date.
func TestAnExportIsTheSameHoweverOften(t *testing.T) {
	r := newRig(t, t, 1)
	p := r.process()
	often, once := t.TempDir(), t.TempDir()
	var told []evidence.Checkpoint
	for _, n := range []int{1, 6, 249, 44, 212, 300} { // 1, 7, 256, 300, 512, 812
		r.append(n)
		r.drain(p)
		told = append(told, export(t, p.Log, r.verifier(p), often))
		export(t, p.Log, r.verifier(p), often) // nothing new
	}
	export(t, p.Log, r.verifier(p), once)
	a, b := files(t, often), files(t, once)
	if len(a) != len(b) || len(b) != 1+4+4+1 {
		t.Errorf("%d and %d files", len(a), len(b))
	}
	for name := range b {
		if !bytes.Equal(a[name], b[name]) {
			t.Errorf("%s differs", name)
		}
	}
	var seen int64
	leaves := r.leaves()
	_, err := evidence.VerifyExport(t.Context(), evidence.Folder(once), r.verifier(p), evidence.VerifyOptions{
		Since: told,
		Leaf: func(index int64, leaf []byte) error {
			if index != seen || !bytes.Equal(leaf, leaves[index]) {
				t.Errorf("leaf %d after %d", index, seen)
			}
			seen++
			return nil
		},
	})
	if err != nil || seen != 812 {
		t.Errorf("%d leaves, %v", seen, err)
	}
}

// failing is a source that fails once at some call.
type failing struct {
	evidence.Source
	left *int
}

func (f failing) Tile(ctx context.Context, path string) ([]byte, error) {
	if *f.left--; *f.left == 0 {
		return nil, errFault
	}
	return f.Source.Tile(ctx, path)
}

// TestAnExportThatBrokeOffGoesOn, and what was there before stays whole.
func TestAnExportThatBrokeOffGoesOn(t *testing.T) {
	r := newRig(t, t, 1)
	p := r.process()
	r.append(300)
	r.drain(p)
	v := r.verifier(p)
	for nth := 1; ; nth++ {
		dir, left := t.TempDir(), nth
		_, err := evidence.Export(t.Context(), failing{p.Log, &left}, v, evidence.Folder(dir))
		if err == nil {
			if nth < 5 {
				t.Errorf("only %d tiles were asked for", nth-1)
			}
			return
		}
		if !errors.Is(err, errFault) {
			t.Fatal(err)
		}
		if _, err := evidence.VerifyExport(t.Context(), evidence.Folder(dir), v, evidence.VerifyOptions{}); err == nil {
			t.Fatal("half an export verifies")
		}
		export(t, p.Log, v, dir)
	}
}

// lying is a source that answers other bytes for one path.
type lying struct {
	evidence.Source
	path string
}

func (l lying) Tile(ctx context.Context, path string) ([]byte, error) {
	b, err := l.Source.Tile(ctx, path)
	if path == l.path && len(b) > 0 {
		b = bytes.Clone(b)
		b[len(b)-1] ^= 1
	}
	return b, err
}

// TestNothingWrongIsExported.
func TestNothingWrongIsExported(t *testing.T) {
	r := newRig(t, t, 1)
	p := r.process()
	r.append(300)
	r.drain(p)
	v := r.verifier(p)
	for _, path := range []string{"0/000", "0/001.p/44", "1/000.p/1", "entries/000", "entries/001.p/44"} {
		dir := t.TempDir()
		if _, err := evidence.Export(t.Context(), lying{p.Log, path}, v, evidence.Folder(dir)); err == nil {
			t.Errorf("%s: a wrong tile was taken", path)
		}
		if _, err := os.Stat(filepath.Join(dir, "checkpoint")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: there is a checkpoint, %v", path, err)
		}
	}
}

// TestAnExportTakesNoOtherHistory of the same log.
func TestAnExportTakesNoOtherHistory(t *testing.T) {
	for name, after := range map[string]struct{ logged, more int64 }{
		"shorter": {3, 0}, "as long": {5, 3}, "longer": {5, 9},
	} {
		r := grown(t, 1)
		p := r.process()
		v, dir := r.verifier(p), t.TempDir()
		export(t, p.Log, v, dir)
		before := files(t, dir)
		r.rollBack(after.logged, after.logged)
		erase(r, 0) // nobody but the folder remembers
		r.append(int(after.more))
		r.clock.add(evidence.SequencerLeaseTime)
		p = r.process()
		r.drain(p)
		if _, err := evidence.Export(t.Context(), p.Log, v, evidence.Folder(dir)); !errors.Is(err, evidence.ErrOtherHistory) {
			t.Errorf("%s: %v, want ErrOtherHistory", name, err)
		}
		if now := files(t, dir); len(now) != len(before) || !bytes.Equal(now["checkpoint"], before["checkpoint"]) {
			t.Errorf("%s: the folder was changed", name)
		}
		other := t.TempDir()
		export(t, p.Log, v, other)
		old, err := evidence.OpenCheckpoint(before["checkpoint"], v)
		if err != nil {
			t.Fatal(err)
		}
		_, err = evidence.VerifyExport(t.Context(), evidence.Folder(other), v, evidence.VerifyOptions{Since: []evidence.Checkpoint{old}})
		if !errors.Is(err, blobd.ErrCorrupt) {
			t.Errorf("%s: verified since the kept checkpoint: %v, want corrupt", name, err)
		}
	}
}

// TestEveryChangeOfAFolderIsFound: a flipped byte in any file, and leaves that
// are removed, added or moved.
func TestEveryChangeOfAFolderIsFound(t *testing.T) {
	r := newRig(t, t, 1)
	p := r.process()
	r.append(260)
	r.drain(p)
	v, dir := r.verifier(p), t.TempDir()
	export(t, p.Log, v, dir)
	wrong := func(what string) {
		t.Helper()
		_, err := evidence.VerifyExport(t.Context(), evidence.Folder(dir), v, evidence.VerifyOptions{})
		if err == nil || !errors.Is(err, blobd.ErrCorrupt) && !strings.HasPrefix(what, "checkpoint") {
			t.Errorf("%s: %v, want corrupt", what, err)
		}
	}
	all := files(t, dir)
	for name, b := range all {
		step := max(1, len(b)/97)
		for i := 0; i < len(b); i += step {
			changed := bytes.Clone(b)
			changed[i] ^= 0x10
			write(t, dir, name, changed)
			wrong(name)
		}
		write(t, dir, name, b[:len(b)-1])
		wrong(name + " cut short")
		write(t, dir, name, append(bytes.Clone(b), 0))
		wrong(name + " with a byte more")
		if err := os.Remove(filepath.Join(dir, filepath.FromSlash(name))); err != nil {
			t.Fatal(err)
		}
		wrong(name + " removed")
		write(t, dir, name, b)
	}
	leaves := r.leaves()
	const first, last = "tile/entries/000", "tile/entries/001.p/4"
	for what, order := range map[string][][]byte{
		"a removed entry":   slices.Delete(slices.Clone(leaves), 100, 101),
		"a repeated entry":  slices.Insert(slices.Clone(leaves), 100, leaves[100]),
		"reordered entries": append(append(slices.Clone(leaves[:10]), leaves[11], leaves[10]), leaves[12:]...),
	} {
		write(t, dir, first, bundle(order[:256]))
		write(t, dir, last, bundle(order[256:]))
		wrong(what)
	}
	write(t, dir, first, all[first])
	write(t, dir, last, all[last])
	if _, err := evidence.VerifyExport(t.Context(), evidence.Folder(dir), v, evidence.VerifyOptions{}); err != nil {
		t.Errorf("the folder as it was: %v", err)
	}
}

func write(t *testing.T, dir, name string, b []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(name)), b, 0o600); err != nil {
		t.Fatal(err)
	}
}
