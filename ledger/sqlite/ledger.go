// Package sqlite is the embedded engine of the ledger: one SQLite file in one
// process, one writer, a few readers.
//
// It promises what package ledger promises. Every connection has its pragmas
// read back before use (write-ahead log, synchronous full, secure delete), a
// second process is kept out by a lock file beside the database, and concurrent
// commits share one transaction and one fsync. It never answers from a replica.
// What it keeps in memory (facts, memo) no other process can change.
package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/internal/groupcommit"
	"github.com/blobd/blobd/ledger"
)

// Options are what a ledger needs from outside. Now is required.
type Options struct {
	// Now is the ledger's clock.
	Now func() time.Time
	// Readers is how many reads run at once; 0 is 4.
	Readers int
	// MaxBatch is how many commits may share a transaction; 0 is 64.
	MaxBatch int
}

// Ledger implements ledger.Ledger. Make one with Open.
type Ledger struct {
	path    string
	now     func() time.Time
	lock    *os.File
	commits *groupcommit.Group[*commit]

	queries       [2]lookupQueries // of byRef, byRepeat
	closedQueries lookupQueries

	// writer and readers hold the connections that are not in use. A nil one is
	// opened by whoever takes it. Whoever holds the writer may wait for readers,
	// never the other way round.
	writer  chan *conn
	readers chan *conn
	done    chan struct{} // closed by Close
	once    sync.Once

	maxWAL    int64 // bytes at which the log is emptied by force
	facts     atomic.Pointer[facts]
	memo      *memo
	classes   map[class]int64 // numbers of classes that were put; owned by the writer's holder
	unchecked int             // transactions since the log's size was looked at; owned by the writer's holder
}

var _ ledger.Ledger = (*Ledger)(nil)

// Open opens the ledger at path, makes it (0600) if there is none, and brings
// an older schema up to date. A ledger in use by another process is
// ErrConflict, and so is a schema newer than this program's; a file that is not
// a database is ErrCorrupt.
func Open(path string, o Options) (*Ledger, error) {
	l, err := open(path, o)
	if err != nil {
		return nil, classify("open", err)
	}
	return l, nil
}

func open(path string, o Options) (*Ledger, error) {
	if o.Now == nil || o.Readers < 0 || o.MaxBatch < 0 {
		return nil, fmt.Errorf("options: %w", blobd.ErrInvalid)
	}
	if o.Readers == 0 {
		o.Readers = 4
	}
	if o.MaxBatch == 0 {
		o.MaxBatch = 64
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	lock, err := lockFile(path + ".lock")
	if err != nil {
		return nil, err
	}
	l := &Ledger{
		path: path, now: o.Now, lock: lock,
		writer: make(chan *conn, 1), readers: make(chan *conn, o.Readers), done: make(chan struct{}),
		maxWAL: maxWAL, memo: newMemo(memoRows), classes: map[class]int64{},
	}
	l.queries[byRef] = makeLookupQueries("b.ref", "")
	l.queries[byRepeat] = makeLookupQueries("b.repeat", " AND b.state IN (1, 2)")
	l.closedQueries = makeClosedQueries()
	l.commits = groupcommit.New(groupcommit.Limits{Items: o.MaxBatch, Gather: gather}, nil, l.commitBatch)
	if err := l.start(); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return l, nil
}

// start checks the file and opens the writer, so that what is wrong shows now.
func (l *Ledger) start() error {
	ctx := context.Background()
	if err := createFile(l.path); err != nil {
		return err
	}
	if err := migrate(ctx, l.path); err != nil {
		return err
	}
	w, err := openConn(ctx, l.path, false)
	if err != nil {
		return err
	}
	if err := endOthers(ctx, w); err != nil {
		return errors.Join(err, w.close())
	}
	if err := l.loadFacts(ctx, w); err != nil {
		return errors.Join(err, w.close())
	}
	l.writer <- w
	for range cap(l.readers) {
		l.readers <- nil
	}
	return nil
}

// endOthers ends the leases and the running requests of processes that ended
// without doing so: the lock says that there is no other now, so none of them is
// worth waiting for.
func endOthers(ctx context.Context, w *conn) error {
	for _, statement := range []string{
		"UPDATE erasures SET lease_owner = NULL, lease_until = NULL WHERE lease_owner IS NOT NULL",
		"UPDATE epochs SET lease_owner = NULL, lease_until = NULL WHERE lease_owner IS NOT NULL",
		"UPDATE evidence_log SET lease_owner = NULL, lease_until = NULL WHERE lease_owner IS NOT NULL",
		"UPDATE evidence_log SET lease_owner = NULL, lease_until = NULL WHERE lease_owner IS NOT NULL",
		"DELETE FROM requests WHERE status = 0",
	} {
		if _, err := w.exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// lockFile keeps other processes out for as long as the file stays open.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, unusable(err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return f, nil
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = fmt.Errorf("another process uses the ledger (is the server running?): %w", blobd.ErrConflict)
	}
	return nil, errors.Join(err, f.Close())
}

// createFile makes the file before SQLite does, so that its mode, which the log
// inherits, is 0600.
func createFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return unusable(err)
	}
	return f.Close()
}

func unusable(err error) error { return fmt.Errorf("%w: %w", blobd.ErrUnavailable, err) }

// Close waits for what runs and ends all use; calls after it are
// ErrUnavailable. Closing again does nothing.
func (l *Ledger) Close() error {
	var errs []error
	l.once.Do(func() {
		close(l.done)
		conns := []*conn{<-l.writer}
		for range cap(l.readers) {
			conns = append(conns, <-l.readers)
		}
		// The writer goes last: the last connection to close empties the log.
		for i := len(conns) - 1; i >= 0; i-- {
			if conns[i] != nil {
				errs = append(errs, conns[i].close())
			}
		}
		errs = append(errs, l.lock.Close())
	})
	return classify("close", errors.Join(errs...))
}
