package fs_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
	blobfs "github.com/blobd/blobd/backends/fs"
)

func TestATailTornAtAnyOffsetIsNeverVisible(t *testing.T) {
	folder := memoryDir(t)
	first, firstData := blob(1, "first, acknowledged before")
	last, lastData := blob(1, "last, which the crash tears")
	s := open(t, folder, blobfs.Options{})
	put(t, s, first, firstData)
	put(t, s, last, lastData)
	s.Crash()
	segment := onlySegment(t, folder)
	b := read(t, segment)
	from := bytes.Index(b, []byte(last)) - 64
	end := bytes.Index(b, lastData) + len(lastData)
	whole := b[:(end+63)/64*64]
	for cut := from; cut <= len(whole); cut++ {
		for kind, torn := range map[string][]byte{
			"ends there":       whole[:cut],
			"zeros from there": append(bytes.Clone(whole[:cut]), make([]byte, 640)...),
			"other from there": append(bytes.Clone(whole[:cut]), bytes.Repeat([]byte{0xa5}, 640)...),
		} {
			_ = os.Remove(filepath.Join(folder, "index.db"))
			write(t, segment, torn)
			s, err := tryOpen(folder, blobfs.Options{})
			if err != nil {
				t.Fatalf("%s, %d: %v", kind, cut, err)
			}
			has(t, s, first, firstData)
			// Only what is there to its last byte may be seen.
			there := cut == len(whole) || cut >= end && kind == "zeros from there"
			got, err := s.Get(t.Context(), last)
			switch {
			case err == nil && bytes.Equal(got, lastData) && cut >= end:
			case errors.Is(err, blobd.ErrNotFound) && !there:
				if contains(t, folder, lastData[:10]) != "" || contains(t, folder, []byte(last)) != "" {
					t.Fatalf("%s, %d: torn bytes are still there", kind, cut)
				}
			default:
				t.Fatalf("%s, %d of %d to %d: %d bytes, %v", kind, cut, from, end, len(got), err)
			}
			closeStore(t, s)
		}
	}
	s = open(t, folder, blobfs.Options{})
	put(t, s, last, lastData)
	has(t, s, last, lastData)
}

// stocked returns a closed folder with some objects in several segments, one
// execution of which was erased.
func stocked(t *testing.T) (folder string, kept map[string][]byte, gone []string) {
	t.Helper()
	folder = t.TempDir()
	s := open(t, folder, blobfs.Options{SegmentSize: 2048, IndexBatch: 7})
	kept = make(map[string][]byte)
	for i := range 40 {
		execution := byte(i % 3)
		name, data := blob(execution, fmt.Sprintf("text %d %s", i, strings.Repeat(fmt.Sprint(i)+",", 80)))
		put(t, s, name, data)
		if execution == 2 {
			gone = append(gone, name)
		} else {
			kept[name] = data
		}
	}
	erase(t, s, backends.Scope{Prefix: prefix(2)})
	closeStore(t, s)
	return folder, kept, gone
}

func verify(t *testing.T, s *blobfs.Store, kept map[string][]byte, gone []string) {
	t.Helper()
	for name, data := range kept {
		has(t, s, name, data)
	}
	for _, name := range gone {
		lacks(t, s, name)
	}
	listed, err := s.List(t.Context(), "", "", 1000)
	if err != nil || len(listed) != len(kept) {
		t.Fatalf("listed %d of %d, %v", len(listed), len(kept), err)
	}
	for _, o := range listed {
		if data, ok := kept[o.Name]; !ok || o.Size != int64(len(data)) || o.Modified.IsZero() {
			t.Errorf("listed %+v", o)
		}
	}
	clean(t, s, backends.Scope{Prefix: prefix(2)})
}

func TestTheIndexIsOnlyACache(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, folder, older string){
		"whole":   func(*testing.T, string, string) {},
		"deleted": func(t *testing.T, folder, _ string) { _ = os.Remove(filepath.Join(folder, "index.db")) },
		"empty":   func(t *testing.T, folder, _ string) { write(t, filepath.Join(folder, "index.db"), nil) },
		"garbage": func(t *testing.T, folder, _ string) {
			write(t, filepath.Join(folder, "index.db"), bytes.Repeat([]byte("garbage!"), 4096))
		},
		"cut in half": func(t *testing.T, folder, _ string) {
			b := read(t, filepath.Join(folder, "index.db"))
			write(t, filepath.Join(folder, "index.db"), b[:len(b)/2])
		},
		"damaged in every page but the first two, and not marked clean": func(t *testing.T, folder, _ string) {
			b := read(t, filepath.Join(folder, "index.db"))
			for at := 2 * 4096; at < len(b); at += 97 {
				b[at] ^= 0x55
			}
			write(t, filepath.Join(folder, "index.db"), b)
			_ = os.Remove(filepath.Join(folder, "index.clean"))
		},
		"an older one": func(t *testing.T, folder, older string) {
			write(t, filepath.Join(folder, "index.db"), read(t, filepath.Join(older, "index.db")))
		},
		"without its clean mark": func(t *testing.T, folder, _ string) { _ = os.Remove(filepath.Join(folder, "index.clean")) },
		"of another folder": func(t *testing.T, folder, _ string) {
			other, _, _ := stocked(t)
			write(t, filepath.Join(folder, "index.db"), read(t, filepath.Join(other, "index.db")))
			write(t, filepath.Join(folder, "index.clean"), read(t, filepath.Join(other, "index.clean")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			folder, kept, gone := stocked(t)
			older := t.TempDir()
			copyOver(t, older, folder)
			s := open(t, folder, blobfs.Options{SegmentSize: 4096})
			late, lateData := blob(0, "put after the copy")
			put(t, s, late, lateData)
			kept[late] = lateData
			early := ""
			for n := range kept {
				if n != late && strings.HasPrefix(n, prefix(1)) {
					early = n
					break
				}
			}
			erase(t, s, backends.Scope{Names: []string{early}})
			delete(kept, early)
			closeStore(t, s)

			spoil(t, folder, older)
			s = open(t, folder, blobfs.Options{})
			verify(t, s, kept, append(gone, early))
			clean(t, s, backends.Scope{Names: []string{early}})
			closeStore(t, s)
			s = open(t, folder, blobfs.Options{})
			verify(t, s, kept, append(gone, early))
		})
	}
}

func TestAnOlderCopyLaidOverTheFolder(t *testing.T) {
	folder := t.TempDir()
	s := open(t, folder, blobfs.Options{})
	early, earlyData := blob(1, "before the copy")
	erased, erasedData := blob(2, "erased after the copy")
	put(t, s, early, earlyData)
	put(t, s, erased, erasedData)
	closeStore(t, s)
	older := t.TempDir()
	copyOver(t, older, folder)

	s = open(t, folder, blobfs.Options{})
	late, lateData := blob(3, "after the copy")
	put(t, s, late, lateData)
	erase(t, s, backends.Scope{Names: []string{erased}})
	put(t, s, erased, erasedData) // used again: now there are two records of it
	erase(t, s, backends.Scope{Names: []string{erased}})
	closeStore(t, s)

	copyOver(t, folder, older)
	s = open(t, folder, blobfs.Options{})
	has(t, s, early, earlyData)
	has(t, s, late, lateData) // the newer segment survived

	// The copy brought the erased object back. That is seen, and can be repeated.
	left, err := s.Residue(t.Context(), backends.Scope{Prefix: prefix(2)}, 10)
	if err != nil || len(left) != 1 {
		t.Fatalf("residue %+v, %v", left, err)
	}
	put(t, s, erased, erasedData)
	if e := erase(t, s, backends.Scope{Prefix: prefix(2)}); e.Objects != 1 {
		t.Errorf("%+v", e)
	}
	clean(t, s, backends.Scope{Prefix: prefix(2)})
	if where := contains(t, folder, erasedData); where != "" {
		t.Errorf("still in %s", where)
	}
}

func TestOnlyOlderSegmentsLaidOverTheFolder(t *testing.T) {
	folder := t.TempDir()
	s := open(t, folder, blobfs.Options{})
	name, data := blob(1, "erased after the copy")
	other, otherData := blob(2, "keeps the segment")
	put(t, s, name, data)
	put(t, s, other, otherData)
	closeStore(t, s)
	older := t.TempDir()
	copyOver(t, older, folder)
	s = open(t, folder, blobfs.Options{})
	erase(t, s, backends.Scope{Names: []string{name}})
	closeStore(t, s)

	copyOver(t, filepath.Join(folder, "segments"), filepath.Join(older, "segments"))
	s = open(t, folder, blobfs.Options{}) // its index does not know the name any more
	left, err := s.Residue(t.Context(), backends.Scope{Names: []string{name}}, 10)
	if err != nil || len(left) != 1 {
		t.Fatalf("residue %+v, %v", left, err)
	}
	if e := erase(t, s, backends.Scope{Names: []string{name}}); e.Objects != 1 {
		t.Errorf("%+v", e)
	}
	clean(t, s, backends.Scope{Names: []string{name}})
	has(t, s, other, otherData)
}

func TestTwoRunsFromOneFolderNeverWriteTheSameSegment(t *testing.T) {
	folder := t.TempDir()
	twin := t.TempDir()
	a, aData := blob(1, "of the first run")
	b, bData := blob(1, "of its twin")
	s := open(t, folder, blobfs.Options{})
	put(t, s, a, aData)
	closeStore(t, s)
	s = open(t, twin, blobfs.Options{})
	put(t, s, b, bData)
	closeStore(t, s)
	copyOver(t, folder, twin)
	s = open(t, folder, blobfs.Options{})
	has(t, s, a, aData)
	has(t, s, b, bData)
}

// damageHeader flips a byte in the header of the record that holds data.
func damageHeader(t *testing.T, folder, name string) {
	t.Helper()
	for _, p := range segments(t, folder) {
		b := read(t, p)
		if i := bytes.Index(b, []byte(name)); i >= 0 {
			b[i-20] ^= 1
			write(t, p, b)
			return
		}
	}
	t.Fatalf("%s is nowhere", name)
}

func TestADamagedHeaderIsCorruptAndNeverAbsent(t *testing.T) {
	_, kept, _ := stocked(t)
	for _, victim := range slices.Sorted(maps.Keys(kept))[:8] { // some end their segment
		t.Run(victim[len(victim)-6:], func(t *testing.T) { testDamagedHeader(t, victim) })
	}
}

func testDamagedHeader(t *testing.T, victim string) {
	folder, kept, gone := stocked(t)
	damageHeader(t, folder, victim)
	s := open(t, folder, blobfs.Options{})
	if _, err := s.Get(t.Context(), victim); !errors.Is(err, blobd.ErrCorrupt) {
		t.Fatalf("with the index: %v", err)
	}
	lacks(t, s, gone[0])
	if l, err := s.List(t.Context(), "", "", 1000); err != nil || len(l) != len(kept) {
		t.Fatalf("listed %d of %d, %v", len(l), len(kept), err)
	}
	closeStore(t, s)

	// Without the index nobody knows what lay there: no absence is proved.
	_ = os.Remove(filepath.Join(folder, "index.db"))
	for range 2 {
		s = open(t, folder, blobfs.Options{})
		for _, name := range []string{victim, gone[0]} {
			if _, err := s.Get(t.Context(), name); !errors.Is(err, blobd.ErrCorrupt) || errors.Is(err, blobd.ErrNotFound) {
				t.Fatalf("without the index: %v", err)
			}
		}
		if left, err := s.Residue(t.Context(), backends.Scope{Prefix: prefix(2)}, 1); !errors.Is(err, blobd.ErrCorrupt) {
			t.Fatalf("residue %+v, %v", left, err)
		}
		for name, data := range kept {
			if name != victim {
				has(t, s, name, data)
			}
		}
		closeStore(t, s)
	}

	// An operator gives the range up.
	s = open(t, folder, blobfs.Options{AcceptDamage: true})
	lacks(t, s, victim)
	clean(t, s, backends.Scope{Prefix: prefix(2)})
	closeStore(t, s)
	if where := contains(t, folder, kept[victim]); where != "" {
		t.Errorf("still in %s", where)
	}
	delete(kept, victim)
	s = open(t, folder, blobfs.Options{})
	verify(t, s, kept, gone)
}

func TestADamagedRecordCanBeErasedAndRepaired(t *testing.T) {
	for _, how := range []string{"header", "data"} {
		t.Run(how, func(t *testing.T) {
			folder, kept, _ := stocked(t)
			var victim string
			for victim = range kept {
				break
			}
			if how == "header" {
				damageHeader(t, folder, victim)
			} else {
				for _, p := range segments(t, folder) {
					b := read(t, p)
					if i := bytes.Index(b, kept[victim]); i >= 0 {
						b[i+3] ^= 1
						write(t, p, b)
					}
				}
			}
			s := open(t, folder, blobfs.Options{})
			if _, err := s.Get(t.Context(), victim); !errors.Is(err, blobd.ErrCorrupt) {
				t.Fatal(err)
			}
			if err := s.Put(t.Context(), victim, []byte("other bytes")); !errors.Is(err, blobd.ErrCorrupt) {
				t.Fatalf("other bytes: %v", err)
			}
			put(t, s, victim, kept[victim])
			has(t, s, victim, kept[victim])
			closeStore(t, s)
			s = open(t, folder, blobfs.Options{})
			has(t, s, victim, kept[victim])
			if e := erase(t, s, backends.Scope{Names: []string{victim}}); e.Objects != 1 || e.Versions != 2 {
				t.Errorf("%+v", e)
			}
			lacks(t, s, victim)
			clean(t, s, backends.Scope{Names: []string{victim}})
			if where := contains(t, folder, kept[victim][10:60]); where != "" {
				t.Errorf("still in %s", where)
			}
			delete(kept, victim)
			for name, data := range kept {
				has(t, s, name, data) // the neighbours
			}
		})
	}
}

func TestALostSegmentIsNoAbsenceWhileTheStoreRuns(t *testing.T) {
	folder, kept, _ := stocked(t)
	s := open(t, folder, blobfs.Options{})
	for _, p := range segments(t, folder) {
		if err := os.Remove(p); err != nil {
			t.Fatal(err)
		}
	}
	for name := range kept {
		if _, err := s.Get(t.Context(), name); !errors.Is(err, blobd.ErrCorrupt) {
			t.Fatal(err)
		}
	}
	if _, err := s.Erase(t.Context(), backends.Scope{Prefix: prefix(1)}); !errors.Is(err, blobd.ErrCorrupt) {
		t.Errorf("erase: %v", err)
	}
	if left, err := s.Residue(t.Context(), backends.Scope{Prefix: prefix(1)}, 10); err == nil && len(left) == 0 {
		t.Error("residue: proved absent")
	}
}

func TestErasedBytesAreNowhereInTheFolder(t *testing.T) {
	for _, o := range []blobfs.Options{{}, {SegmentSize: 8192, IndexBatch: 3}} {
		folder := t.TempDir()
		s := open(t, folder, o)
		var secrets [][]byte
		for i := range 50 {
			name, data := blob(byte(i%2), fmt.Sprintf("text %02d %s", i, strings.Repeat("abcdefgh", 60)))
			put(t, s, name, data)
			if i%2 == 1 {
				secrets = append(secrets, data[:100])
			}
		}
		erase(t, s, backends.Scope{Prefix: prefix(1)})
		for _, running := range []bool{true, false} {
			if !running {
				closeStore(t, s)
			}
			for _, secret := range secrets {
				if where := contains(t, filepath.Join(folder, "segments"), secret); where != "" {
					t.Fatalf("still in %s", where)
				}
			}
			if where := contains(t, filepath.Join(folder, "segments"), []byte(prefix(1))); where != "" {
				t.Fatalf("a name is still in %s", where)
			}
		}
	}
}

func TestSegmentsWithoutALiveRecordAreRemoved(t *testing.T) {
	folder := t.TempDir()
	s := open(t, folder, blobfs.Options{SegmentSize: 2048})
	for i := range 30 {
		name, data := blob(1, fmt.Sprintf("%d %s", i, strings.Repeat("y", 500)))
		put(t, s, name, data)
	}
	if n := len(segments(t, folder)); n < 5 {
		t.Fatalf("%d segments", n)
	}
	erase(t, s, backends.Scope{Prefix: prefix(1)})
	if n := len(segments(t, folder)); n > 1 {
		t.Errorf("%d segments while open", n)
	}
	closeStore(t, s)
	if n := len(segments(t, folder)); n != 0 {
		t.Errorf("%d segments", n)
	}
}

func TestErasedSpaceIsGivenBack(t *testing.T) {
	folder := t.TempDir()
	s := open(t, folder, blobfs.Options{})
	keep, keepData := blob(1, "keeps the segment")
	put(t, s, keep, keepData)
	name, data := blob(2, strings.Repeat("z", 4<<20))
	put(t, s, name, data)
	closeStore(t, s)
	before := blocks(t, onlySegment(t, folder))
	s = open(t, folder, blobfs.Options{})
	erase(t, s, backends.Scope{Names: []string{name}})
	if after := blocks(t, onlySegment(t, folder)); after > before-(3<<20) {
		t.Errorf("%d bytes of %d are still used", after, before)
	}
	has(t, s, keep, keepData)
}

// A process that was killed after it had blanked a record, and before its index forgot
// it: once the segment's last record is erased and its file removed, the name is absent
// and nothing is lost.
func TestAnErasureThatTheIndexDoesNotKnowLeavesNoLoss(t *testing.T) {
	folder := memoryDir(t)
	first, data := blob(1, "first")
	second, more := blob(2, "second")
	s := open(t, folder, blobfs.Options{})
	put(t, s, first, data)
	put(t, s, second, more)
	closeStore(t, s)
	index, mark := read(t, filepath.Join(folder, "index.db")), read(t, filepath.Join(folder, "index.clean"))
	s = open(t, folder, blobfs.Options{})
	erase(t, s, backends.Scope{Names: []string{first}})
	closeStore(t, s)
	write(t, filepath.Join(folder, "index.db"), index)
	write(t, filepath.Join(folder, "index.clean"), mark)
	s = open(t, folder, blobfs.Options{})
	lacks(t, s, first)
	has(t, s, second, more)
	erase(t, s, backends.Scope{Names: []string{second}})
	lacks(t, s, first)
	lacks(t, s, second)
	closeStore(t, s)
	s = open(t, folder, blobfs.Options{})
	lacks(t, s, first)
	clean(t, s, backends.Scope{Names: []string{first, second}})
	closeStore(t, s)
}
