// Package fs is an object store in a folder, made of packed segments: objects
// are appended to files of many, and concurrent puts share one fsync.
//
// It promises the contract of package backends, and that erased bytes are
// overwritten in place and read back as zeros before they count as erased. It
// never appends to a segment of an earlier run, so that an older copy of the
// folder laid over a newer one destroys no newer segment.
//
// What it cannot reach: a copy-on-write or journalling filesystem, a snapshot
// or a disk's spare blocks may keep older bytes of an overwritten range.
//
// record.go is the format, put.go and erase.go are the two write orders,
// recover.go is what happens at open, index.go is the cache that finds names.
package fs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gofrs/flock"
	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
	"github.com/blobd/blobd/internal/groupcommit"
)

// Options tune a Store. Zero fields take the defaults.
type Options struct {
	Now func() time.Time // the store's clock; required
	// SegmentSize is when a new segment is begun, in bytes.
	SegmentSize int64
	// Pending is how many objects the index may lack before they are added.
	Pending int
	// OpenFiles bounds how many segments are kept open for reading.
	OpenFiles int
}

// The defaults of Options.
const (
	DefaultSegmentSize = 64 << 20
	DefaultPending     = 4096
	DefaultOpenFiles   = 256
)

// The bounds of one shared write.
const (
	maxBatch      = 512
	maxBatchBytes = 32 << 20
)

// Store is a store in a folder. It is safe for concurrent use.
type Store struct {
	options Options
	root    *os.Root
	lock    *flock.Flock
	index   *index
	puts    *groupcommit.Group[*put]
	// open opens a file of the root; tests put faults in between.
	open func(name string, flag int) (file, error)

	mu      sync.RWMutex
	pending map[string]place // guarded by mu; not in the index yet
	current frontier         // guarded by mu; where the next record goes
	closed  bool             // guarded by mu

	indexing sync.Mutex // held while the index is changed
	flushing sync.WaitGroup

	// active is the segment being written; owned by the leader of a put.
	active file

	files *openFiles
}

var _ backends.Store = (*Store)(nil)

// Open opens a store in a folder, or makes one, and takes what a crash left in
// order. A folder that another process has open is ErrConflict.
func Open(folder string, o Options) (*Store, error) {
	s, err := open(folder, o, nil)
	return s, classify("open", err)
}

func open(folder string, o Options, wrap func(file) file) (_ *Store, err error) {
	o = o.withDefaults()
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	lock := flock.New(filepath.Join(folder, "lock"), flock.SetPermissions(0o600))
	if got, err := lock.TryLock(); err != nil || !got {
		return nil, errors.Join(err, fmt.Errorf("another process has the folder open: %w", blobd.ErrConflict))
	}
	s := &Store{options: o, lock: lock, pending: make(map[string]place)}
	defer func() {
		if err != nil {
			s.release()
		}
	}()
	if s.root, err = os.OpenRoot(folder); err != nil {
		return nil, err
	}
	s.open = func(name string, flag int) (file, error) {
		f, err := openRegular(s.root, name, flag)
		if err == nil && wrap != nil {
			f = wrap(f)
		}
		return f, err
	}
	s.files = newOpenFiles(o.OpenFiles, s.open)
	s.puts = groupcommit.New(groupcommit.Limits{Items: maxBatch, Weight: maxBatchBytes},
		func(p *put) int { return len(p.record) }, s.write)
	if s.index, err = openIndex(filepath.Join(folder, indexFile)); err != nil {
		return nil, err
	}
	return s, s.recover()
}

func (o Options) withDefaults() Options {
	if o.SegmentSize == 0 {
		o.SegmentSize = DefaultSegmentSize
	}
	if o.Pending == 0 {
		o.Pending = DefaultPending
	}
	if o.OpenFiles == 0 {
		o.OpenFiles = DefaultOpenFiles
	}
	return o
}

// Close makes the index whole and gives the folder free. No call may be under
// way.
func (s *Store) Close() error {
	s.mu.Lock()
	closed := s.closed
	s.closed = true
	s.mu.Unlock()
	if closed {
		return nil
	}
	s.flushing.Wait()
	err := s.flush()
	return classify("close", errors.Join(err, s.release()))
}

func (s *Store) release() error {
	var errs []error
	if s.active != nil {
		errs = append(errs, s.active.Close())
	}
	if s.files != nil {
		s.files.closeAll()
	}
	if s.index != nil {
		errs = append(errs, s.index.close())
	}
	if s.root != nil {
		errs = append(errs, s.root.Close())
	}
	return errors.Join(append(errs, s.lock.Unlock())...)
}

// Get implements backends.Store.
func (s *Store) Get(ctx context.Context, name string) ([]byte, error) {
	if err := check(ctx, name); err != nil {
		return nil, classify("get", err)
	}
	p, ok, err := s.find(name)
	if err != nil {
		return nil, classify("get", err)
	}
	if !ok {
		return nil, classify("get", fmt.Errorf("%s: %w", name, blobd.ErrNotFound))
	}
	data, err := s.read(p, name)
	return data, classify("get", err)
}

func (s *Store) read(p place, name string) (data []byte, err error) {
	err = s.files.use(p.segment, func(f file) error {
		data, err = readRecord(f, p, name)
		return err
	})
	return data, err
}

// find returns where a name's record lies: what the index lacks is in pending.
func (s *Store) find(name string) (place, bool, error) {
	s.mu.RLock()
	p, ok := s.pending[name]
	closed := s.closed
	s.mu.RUnlock()
	if closed {
		return place{}, false, errClosed
	}
	if ok {
		return p, true, nil
	}
	p, ok, err := s.index.get(name)
	if err != nil || ok {
		return p, ok, err
	}
	return s.findAgain(name)
}

// findAgain looks at pending once more: an entry leaves it only after it is in
// the index, so one that was in neither is in one of them now or nowhere.
func (s *Store) findAgain(name string) (place, bool, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	p, ok := s.pending[name]
	return p, ok, nil
}

// Check implements backends.Store.
func (s *Store) Check(ctx context.Context) error {
	if err := ended(ctx); err != nil {
		return classify("check", err)
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return classify("check", errClosed)
	}
	_, err := s.root.Stat(".")
	return classify("check", err)
}

var errClosed = fmt.Errorf("the store is closed: %w", blobd.ErrUnavailable)

func check(ctx context.Context, name string) error {
	if err := ended(ctx); err != nil {
		return err
	}
	return backends.CheckName(name)
}

func ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", blobd.ErrUnavailable, err)
	}
	return nil
}

// openFiles keeps segments open for reading, the least used closed first.
type openFiles struct {
	open func(name string, flag int) (file, error)

	mu  sync.Mutex
	lru *simplelru.LRU[uint64, *openFile] // guarded by mu
}

// openFile is closed by the last who uses it.
type openFile struct {
	file
	users int // guarded by openFiles.mu; the list counts as one
}

func newOpenFiles(limit int, open func(string, int) (file, error)) *openFiles {
	o := &openFiles{open: open}
	// The only error of NewLRU is a size below 1.
	o.lru, _ = simplelru.NewLRU(max(1, limit), func(_ uint64, f *openFile) { o.drop(f) })
	return o
}

// drop ends one use; the caller holds mu.
func (o *openFiles) drop(f *openFile) {
	if f.users--; f.users == 0 {
		_ = f.Close() // it was only read
	}
}

// use calls f with a segment's open file.
func (o *openFiles) use(segment uint64, do func(file) error) error {
	f, err := o.take(segment)
	if err != nil {
		return err
	}
	defer func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.drop(f)
	}()
	return do(f.file)
}

func (o *openFiles) take(segment uint64) (*openFile, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if f, ok := o.lru.Get(segment); ok {
		f.users++
		return f, nil
	}
	opened, err := o.open(segmentName(segment), os.O_RDWR)
	if err != nil {
		return nil, err
	}
	f := &openFile{opened, 2}
	o.lru.Add(segment, f)
	return f, nil
}

func (o *openFiles) forget(segment uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lru.Remove(segment)
}

func (o *openFiles) closeAll() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lru.Purge()
}
