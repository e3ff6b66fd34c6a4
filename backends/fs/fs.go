package fs

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
	"github.com/blobd/blobd/internal/groupcommit"
)

// Options tune a Store. Now is required; zero fields take the defaults.
type Options struct {
	// Now is the store's clock, for Object.Modified.
	Now func() time.Time
	// Rand is where the names of segments come from; crypto/rand by default.
	Rand io.Reader
	// SegmentSize is the length in bytes at which a new segment is begun; 64 MiB
	// by default. One batch of puts may pass it.
	SegmentSize int64
	// OpenFiles bounds the segments kept open for reading; 128 by default.
	OpenFiles int
	// IndexBatch is how many names are collected in memory before they are moved
	// to the index on disk, about 250 bytes each; 8,192 by default.
	IndexBatch int
	// AcceptDamage overwrites ranges of segments that hold nothing that can be
	// read, and so gives up what they held. Without it, such a store answers
	// ErrCorrupt where it would answer ErrNotFound, and Residue fails. It is an
	// operator's decision and not a default.
	AcceptDamage bool
}

// The defaults of Options.
const (
	DefaultSegmentSize = 64 << 20
	DefaultOpenFiles   = 128
	DefaultIndexBatch  = 8 << 10
)

const lockFile, probeFile = "lock", "probe"

// Store is a store in a folder. Make it with Open. It is safe for concurrent
// use.
type Store struct {
	options Options
	root    *os.Root
	lock    *flock.Flock
	index   *index
	handles *handles
	puts    *groupcommit.Group[*put]
	buffers sync.Pool // of *[]byte, for records on their way to a segment
	zeros   []byte    // never written
	wrap    func(segmentID, file) file

	// writer is the segment being written; owned by whoever leads the puts.
	writer *writer
	// erasing has room for the one who erases a page of records.
	erasing chan struct{}

	// life is held for reading by every call, for writing by Close.
	life   sync.RWMutex
	closed bool // guarded by life
	// current is the segment being written, 0 if none; it is never removed.
	currentMu sync.Mutex
	current   segmentID // guarded by currentMu
	last      uint32    // guarded by currentMu; the highest number of a segment
}

var _ backends.Store = (*Store)(nil)

// Open opens the store in a folder, or makes one with mode 0700, and puts in
// order what a crash left. It starts no goroutine. A folder that is open already
// is ErrConflict. After a clean Close it takes milliseconds; after a crash it
// reads what the index lacks and visits every page of the index; without an
// index it reads everything.
func Open(folder string, o Options) (*Store, error) {
	s, err := open(folder, o, func(_ segmentID, f file) file { return f })
	if err != nil {
		return nil, classify("open", err)
	}
	return s, nil
}

func open(folder string, o Options, wrap func(segmentID, file) file) (_ *Store, err error) {
	if o.Now == nil {
		return nil, fmt.Errorf("options: no clock: %w", blobd.ErrInvalid)
	}
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	o.SegmentSize = cmp.Or(o.SegmentSize, DefaultSegmentSize)
	o.OpenFiles = cmp.Or(o.OpenFiles, DefaultOpenFiles)
	o.IndexBatch = cmp.Or(o.IndexBatch, DefaultIndexBatch)
	s := &Store{options: o, wrap: wrap, zeros: newZeros(), erasing: make(chan struct{}, 1)}
	s.handles = newHandles(o.OpenFiles, s.openSegment)
	s.puts = groupcommit.New(groupcommit.Limits{Items: maxBatchItems, Weight: maxBatchBytes, Gather: gather}, (*put).weight, s.write)
	defer func() {
		if err != nil {
			_ = s.release(false)
		}
	}()
	if err := s.openFolder(folder); err != nil {
		return nil, err
	}
	return s, s.recover()
}

func (s *Store) openFolder(folder string) (err error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	if s.root, err = os.OpenRoot(folder); err != nil {
		return err
	}
	// Made through the root first: the lock is then a regular file of ours.
	f, err := openRegular(s.root, lockFile, os.O_CREATE|os.O_RDWR)
	if err != nil {
		return err
	}
	_ = f.Close()
	s.lock = flock.New(filepath.Join(folder, lockFile))
	switch got, err := s.lock.TryLock(); {
	case err != nil:
		return err
	case !got:
		return fmt.Errorf("the folder is open already: %w", blobd.ErrConflict)
	}
	if err := s.root.Mkdir(segmentFolder, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return syncFolder(s.root, ".")
}

// Close waits for calls under way, completes the index and gives the folder
// free. Later calls are ErrUnavailable. It may be called again.
func (s *Store) Close() error {
	s.life.Lock()
	defer s.life.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	err := s.retire()
	if moveErr := s.moveIndex(); err == nil {
		err = moveErr
	}
	return classify("close", errors.Join(err, s.release(err == nil)))
}

func (s *Store) release(whole bool) error {
	s.handles.closeAll()
	var errs []error
	if s.index != nil {
		errs = append(errs, s.index.table.close(whole))
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
	}
	if s.root != nil {
		errs = append(errs, s.root.Close())
	}
	return errors.Join(errs...)
}

// Check implements backends.Store: it writes a byte to a file of its own and
// reads it back.
func (s *Store) Check(ctx context.Context) error {
	err := s.enter(ctx)
	if err == nil {
		defer s.life.RUnlock()
		err = s.probe()
	}
	return classify("check", err)
}

func (s *Store) probe() error {
	f, err := openRegular(s.root, probeFile, os.O_CREATE|os.O_RDWR)
	if err != nil {
		return err
	}
	b := []byte{1}
	if _, err = f.WriteAt(b, 0); err == nil {
		_, err = f.ReadAt(b, 0)
	}
	return errors.Join(err, f.Close())
}

// enter begins a call. After nil the caller holds life for reading.
func (s *Store) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.life.RLock()
	if s.closed {
		s.life.RUnlock()
		return fmt.Errorf("the store is closed: %w", blobd.ErrUnavailable)
	}
	return nil
}

// openSegment opens a segment that exists.
func (s *Store) openSegment(id segmentID, flag int) (file, error) {
	f, err := openRegular(s.root, id.path(), flag)
	if err != nil {
		return nil, err
	}
	return s.wrap(id, diskFile{f}), nil
}

func (s *Store) currentSegment() segmentID {
	s.currentMu.Lock()
	defer s.currentMu.Unlock()
	return s.current
}
