package fs_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
	blobfs "github.com/blobd/blobd/backends/fs"
)

// disk puts faults between the store and its segments.
type disk struct {
	mu     sync.Mutex
	faults map[string]*fault // guarded by mu
	syncs  atomic.Int64
	onSync func()
}

// fault lets some calls pass and then fails some; below 0 is all.
type fault struct {
	err  error
	skip int
	hits int
}

func (d *disk) fail(op string, err error, hits int) { d.failAfter(op, err, 0, hits) }

func (d *disk) failAfter(op string, err error, skip, hits int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.faults == nil {
		d.faults = make(map[string]*fault)
	}
	d.faults[op] = &fault{err, skip, hits}
}

func (d *disk) check(op string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.faults[op]
	if f == nil || f.hits == 0 {
		return nil
	}
	if f.skip > 0 {
		f.skip--
		return nil
	}
	f.hits--
	return f.err
}

func (d *disk) open(t *testing.T, folder string, o blobfs.Options) *blobfs.Store {
	t.Helper()
	o.Now = time.Now
	s, err := blobfs.OpenWrapped(folder, o, func(f blobfs.File) blobfs.File { return faultyFile{f, d} })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

type faultyFile struct {
	blobfs.File
	disk *disk
}

func (f faultyFile) ReadAt(b []byte, off int64) (int, error) {
	if err := f.disk.check("read"); err != nil {
		return 0, err
	}
	return f.File.ReadAt(b, off)
}

func (f faultyFile) WriteAt(b []byte, off int64) (int, error) {
	if err := f.disk.check("write"); err != nil {
		return 0, err
	}
	return f.File.WriteAt(b, off)
}

// WriteVectors writes the first part of the first buffer before it fails.
func (f faultyFile) WriteVectors(buffers [][]byte, off int64) error {
	if err := f.disk.check("append"); err != nil {
		_ = f.File.WriteVectors([][]byte{buffers[0][:len(buffers[0])-1]}, off)
		return err
	}
	return f.File.WriteVectors(buffers, off)
}

func (f faultyFile) Truncate(size int64) error {
	if err := f.disk.check("truncate"); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

func (f faultyFile) Sync() error {
	f.disk.syncs.Add(1)
	if f.disk.onSync != nil {
		f.disk.onSync()
	}
	if err := f.disk.check("sync"); err != nil {
		return err
	}
	return f.File.Sync()
}

func TestAFailedAppendLeavesNothingAndTheStoreGoesOn(t *testing.T) {
	for name, faults := range map[string]map[string]int{
		"short write":                           {"append": 1},
		"short write that cannot be taken back": {"append": 1, "truncate": 1},
		"fsync":                                 {"sync": 1},
		"fsync, and no truncation":              {"sync": 1, "truncate": -1},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			d := new(disk)
			s := d.open(t, folder, blobfs.Options{})
			before, beforeData := blob(1, "before")
			put(t, s, before, beforeData)
			for op, hits := range faults {
				d.fail(op, syscall.ENOSPC, hits)
			}
			failed, failedData := blob(1, "failed")
			if err := s.Put(t.Context(), failed, failedData); !errors.Is(err, blobd.ErrUnavailable) {
				t.Fatal(err)
			}
			lacks(t, s, failed)
			after, afterData := blob(1, "after")
			put(t, s, after, afterData)
			rolls := len(faults) == 2 || faults["sync"] != 0
			if n := len(segments(t, folder)); rolls != (n == 2) {
				t.Errorf("%d segments", n)
			}
			put(t, s, failed, failedData)
			d.fail("truncate", nil, 0)
			closeStore(t, s)
			s = open(t, folder, blobfs.Options{})
			has(t, s, before, beforeData)
			has(t, s, after, afterData)
			has(t, s, failed, failedData)
		})
	}
}

func TestADiskWithRoomForTheRecordsOnlyIsNotFull(t *testing.T) {
	folder := t.TempDir()
	d := new(disk)
	s := d.open(t, folder, blobfs.Options{})
	d.fail("append", syscall.ENOSPC, 1) // the first put of a segment writes zeros ahead
	first, firstData := blob(1, "first")
	put(t, s, first, firstData)
	second, secondData := blob(1, "second")
	put(t, s, second, secondData)
	s.Crash()
	s = open(t, folder, blobfs.Options{})
	has(t, s, first, firstData)
	has(t, s, second, secondData)
}

func TestAfterAFailedPutAndACrashNothingPartialIsVisible(t *testing.T) {
	for _, op := range []string{"append", "sync"} {
		folder := t.TempDir()
		d := new(disk)
		s := d.open(t, folder, blobfs.Options{})
		before, beforeData := blob(1, "before")
		put(t, s, before, beforeData)
		d.fail(op, syscall.EIO, 1)
		d.fail("truncate", syscall.EIO, -1)
		failed, failedData := blob(1, "failed")
		if err := s.Put(t.Context(), failed, failedData); !errors.Is(err, blobd.ErrUnavailable) {
			t.Fatal(err)
		}
		s.Crash()
		s = open(t, folder, blobfs.Options{})
		has(t, s, before, beforeData)
		if got, err := s.Get(t.Context(), failed); err == nil && string(got) != string(failedData) || err != nil && !errors.Is(err, blobd.ErrNotFound) {
			t.Fatalf("%s: %q, %v", op, got, err)
		}
	}
}

func TestAReadErrorIsNoAbsence(t *testing.T) {
	d := new(disk)
	s := d.open(t, t.TempDir(), blobfs.Options{})
	name, data := blob(1, "text")
	put(t, s, name, data)
	for _, no := range []syscall.Errno{syscall.EIO, syscall.EACCES, syscall.ESTALE, syscall.ENXIO} {
		d.fail("read", no, -1)
		if _, err := s.Get(t.Context(), name); err == nil || errors.Is(err, blobd.ErrNotFound) || !errors.Is(err, no) {
			t.Errorf("get, %v: %v", no, err)
		}
		if l, err := s.List(t.Context(), "", "", 10); err == nil || l != nil {
			t.Errorf("list, %v: %v, %v", no, l, err)
		}
		if l, err := s.Residue(t.Context(), backends.Scope{Names: []string{name}}, 10); err == nil || l != nil {
			t.Errorf("residue, %v: %v, %v", no, l, err)
		}
		if _, err := s.Erase(t.Context(), backends.Scope{Names: []string{name}}); err == nil {
			t.Errorf("erase, %v", no)
		}
	}
	d.fail("read", nil, 0)
	has(t, s, name, data)
}

func TestAnErasureThatFailsAtAnyStepIsRepeatable(t *testing.T) {
	for _, op := range []string{"read", "write", "sync"} {
		for nth := range 8 {
			folder := memoryDir(t)
			d := new(disk)
			s := d.open(t, folder, blobfs.Options{})
			name, data := blob(1, "to be erased")
			other, otherData := blob(2, "its neighbour")
			put(t, s, name, data)
			put(t, s, other, otherData)
			d.failAfter(op, syscall.EIO, nth, -1)
			scope := backends.Scope{Names: []string{name}}
			_, err := s.Erase(t.Context(), scope)
			d.fail(op, nil, 0)
			if err == nil {
				lacks(t, s, name)
				clean(t, s, scope)
				continue
			}
			if nth%2 == 0 { // else the same process goes on
				s.Crash()
				s = open(t, folder, blobfs.Options{})
			}
			if got, err := s.Get(t.Context(), name); err == nil && string(got) != string(data) {
				t.Fatalf("%s %d: partial: %q", op, nth, got)
			}
			erase(t, s, scope)
			lacks(t, s, name)
			clean(t, s, scope)
			has(t, s, other, otherData)
			if where := contains(t, folder, data); where != "" {
				t.Fatalf("%s %d: still in %s", op, nth, where)
			}
		}
	}
}

func TestErasedRecordsNeverComeBackAfterACrash(t *testing.T) {
	folder := t.TempDir()
	s := open(t, folder, blobfs.Options{})
	name, data := blob(1, "erased")
	other, otherData := blob(2, "kept")
	put(t, s, name, data)
	put(t, s, other, otherData)
	closeStore(t, s)
	s = open(t, folder, blobfs.Options{}) // the name is in the index on disk now
	erase(t, s, backends.Scope{Names: []string{name}})
	s.Crash()
	s = open(t, folder, blobfs.Options{})
	lacks(t, s, name)
	clean(t, s, backends.Scope{Names: []string{name}})
	has(t, s, other, otherData)
}

func TestConcurrentPutsShareAnFsync(t *testing.T) {
	d := new(disk)
	s := d.open(t, t.TempDir(), blobfs.Options{})
	first, firstData := blob(1, "makes the segment")
	put(t, s, first, firstData)
	entered, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	d.onSync = func() {
		once.Do(func() {
			close(entered)
			<-release
		})
	}
	d.syncs.Store(0)
	var wg sync.WaitGroup
	wg.Go(func() { put(t, s, "leads", []byte("x")) })
	<-entered
	const followers = 20
	for i := range followers {
		wg.Go(func() {
			name, data := blob(2, string(rune('a'+i)))
			if err := s.Put(t.Context(), name, data); err != nil {
				t.Error(err)
			}
		})
	}
	for s.QueuedPuts() < followers {
		// The queue's own length is the event; no time is assumed.
	}
	close(release)
	wg.Wait()
	if n := d.syncs.Load(); n != 2 {
		t.Errorf("%d syncs for %d puts", n, followers+1)
	}
}

func TestAPutThatIsCancelledWhileItWaitsReturnsAtOnceAndHarmsNobody(t *testing.T) {
	d := new(disk)
	s := d.open(t, t.TempDir(), blobfs.Options{})
	put(t, s, "first", nil)
	entered, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	d.onSync = func() {
		once.Do(func() {
			close(entered)
			<-release
		})
	}
	var wg sync.WaitGroup
	wg.Go(func() { put(t, s, "leads", []byte("x")) })
	<-entered
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error)
	data := []byte("the caller reuses this")
	go func() { left <- s.Put(ctx, "leaves", data) }()
	for s.QueuedPuts() < 1 {
	}
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) || !errors.Is(err, blobd.ErrUnavailable) {
		t.Error(err)
	}
	clear(data)
	close(release)
	wg.Wait()
	lacks(t, s, "leaves")
	put(t, s, "leaves", []byte("again"))
	has(t, s, "leads", []byte("x"))
}

// TestAnErasureWaitsForTheWriteUnderWay: a stalled write may end long after its
// caller left; what it wrote must not escape an erasure that says nothing is left.
func TestAnErasureWaitsForTheWriteUnderWay(t *testing.T) {
	d := new(disk)
	s := d.open(t, t.TempDir(), blobfs.Options{})
	put(t, s, "first", nil)
	entered, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	d.onSync = func() {
		once.Do(func() {
			close(entered)
			<-release
		})
	}
	name, data := blob(1, "late")
	var wg sync.WaitGroup
	wg.Go(func() { put(t, s, name, data) })
	<-entered
	scope := backends.Scope{Names: []string{name}}
	erased := make(chan error)
	go func() {
		_, err := s.Erase(t.Context(), scope)
		erased <- err
	}()
	for s.QueuedPuts() < 1 {
	}
	close(release)
	wg.Wait()
	if err := <-erased; err != nil {
		t.Fatal(err)
	}
	lacks(t, s, name)
	if left, err := s.Residue(t.Context(), scope, 10); err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
}
