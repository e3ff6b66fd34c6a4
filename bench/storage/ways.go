package main

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"golang.org/x/sys/unix"
	_ "modernc.org/sqlite"

	"github.com/blobd/blobd/backends"
	packed "github.com/blobd/blobd/backends/fs"
	"github.com/blobd/blobd/internal/groupcommit"
)

func contenders() []contender {
	return []contender{
		{"rows in SQLite, group commit", openSQLite},
		{"Pebble, values separated", openPebble},
		{"one file each", openFiles},
		{"packed segments (backends/fs)", openPacked},
		{"prototype: plain append", func(f string) (way, error) { return openSegment(f, appendOnly) }},
		{"prototype: fallocate", func(f string) (way, error) { return openSegment(f, allocated) }},
		{"prototype: zeros written ahead", func(f string) (way, error) { return openSegment(f, zeroed) }},
	}
}

// write is one put on its way through a shared commit.
type write struct {
	name string
	data []byte
	err  error
}

func through(g *groupcommit.Group[*write], name string, data []byte) error {
	w := &write{name: name, data: data}
	return errors.Join(g.Do(context.Background(), w), w.err)
}

// inSQLite keeps objects as rows.
type inSQLite struct {
	db     *sql.DB
	commit *groupcommit.Group[*write]
}

func openSQLite(folder string) (way, error) {
	q := url.Values{"_pragma": {"journal_mode(WAL)", "synchronous(FULL)", "secure_delete(ON)", "busy_timeout(5000)"}, "_txlock": {"immediate"}}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(folder, "objects.db")+"?"+q.Encode())
	if err != nil {
		return nil, err
	}
	if _, err := db.Exec("CREATE TABLE objects (name TEXT PRIMARY KEY, data BLOB NOT NULL)"); err != nil {
		return nil, err
	}
	s := &inSQLite{db: db}
	s.commit = groupcommit.New(groupcommit.Limits{Items: 64}, nil, s.write)
	return s, nil
}

func (s *inSQLite) write(batch []*write) {
	err := func() error {
		tx, err := s.db.Begin()
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		insert, err := tx.Prepare("INSERT INTO objects (name, data) VALUES (?, ?)")
		if err != nil {
			return err
		}
		for _, w := range batch {
			if _, err := insert.Exec(w.name, w.data); err != nil {
				return err
			}
		}
		return tx.Commit()
	}()
	for _, w := range batch {
		w.err = err
	}
}

func (s *inSQLite) put(name string, data []byte) error { return through(s.commit, name, data) }
func (s *inSQLite) get(name string) (data []byte, err error) {
	err = s.db.QueryRow("SELECT data FROM objects WHERE name = ?", name).Scan(&data)
	return data, err
}
func (s *inSQLite) erase(name string) error {
	_, err := s.db.Exec("DELETE FROM objects WHERE name = ?", name)
	return err
}
func (s *inSQLite) close() error { return s.db.Close() }

// inPebble keeps objects in a log-structured merge tree. Pebble groups commits
// itself.
type inPebble struct{ db *pebble.DB }

func openPebble(folder string) (way, error) {
	o := &pebble.Options{
		MemTableSize: 64 << 20, FormatMajorVersion: pebble.FormatNewest, Logger: quiet{},
	}
	o.Experimental.ValueSeparationPolicy = func() pebble.ValueSeparationPolicy {
		return pebble.ValueSeparationPolicy{
			Enabled: true, MinimumSize: 1024, MaxBlobReferenceDepth: 10, RewriteMinimumAge: time.Minute, TargetGarbageRatio: 0.2,
		}
	}
	o.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionNone })
	db, err := pebble.Open(folder, o)
	return &inPebble{db}, err
}

type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(f string, a ...any) {
	panic(f)
}

func (p *inPebble) put(name string, data []byte) error {
	return p.db.Set([]byte(name), data, pebble.Sync)
}
func (p *inPebble) get(name string) ([]byte, error) {
	v, closer, err := p.db.Get([]byte(name))
	if err != nil {
		return nil, err
	}
	data := append([]byte(nil), v...)
	return data, closer.Close()
}
func (p *inPebble) erase(name string) error { return p.db.Delete([]byte(name), pebble.Sync) }
func (p *inPebble) close() error            { return p.db.Close() }

// inFiles keeps one file for each object: written beside, synced, renamed, and
// the folder synced.
type inFiles struct{ folder string }

func openFiles(folder string) (way, error) { return &inFiles{folder}, nil }

func (f *inFiles) path(name string) string {
	return filepath.Join(f.folder, strings.ReplaceAll(name, "/", "_"))
}

func (f *inFiles) put(name string, data []byte) error {
	tmp, err := os.CreateTemp(f.folder, "tmp-*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(data)
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp.Name(), f.path(name)); err != nil {
		return err
	}
	d, err := os.Open(f.folder)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
func (f *inFiles) get(name string) ([]byte, error) { return os.ReadFile(f.path(name)) }
func (f *inFiles) erase(name string) error         { return os.Remove(f.path(name)) }
func (f *inFiles) close() error                    { return nil }

// inPacked is the store that blobd uses.
type inPacked struct{ *packed.Store }

func openPacked(folder string) (way, error) {
	s, err := packed.Open(folder, packed.Options{Now: time.Now})
	return inPacked{s}, err
}

func (p inPacked) put(name string, data []byte) error {
	return p.Put(context.Background(), name, data)
}
func (p inPacked) get(name string) ([]byte, error) { return p.Get(context.Background(), name) }
func (p inPacked) erase(name string) error {
	_, err := p.Erase(context.Background(), backends.Scope{Names: []string{name}})
	return err
}
func (p inPacked) close() error { return p.Close() }

// allocation says how a segment's space is made ready.
type allocation int

const (
	appendOnly allocation = iota
	allocated             // fallocate of all of it, when it is begun
	zeroed                // 1 MiB of zeros written ahead, with the batch that needs it
)

// segment is a prototype of packed segments that only measures: its index is a
// map and it has no format.
type segment struct {
	how    allocation
	folder string
	commit *groupcommit.Group[*write]
	zeros  []byte

	mu    sync.RWMutex
	index map[string]spot // guarded by mu

	file       *os.File // of the leader
	end, ready int64
}

type spot struct {
	file *os.File
	at   int64
	size int
}

const segmentSize = 64 << 20

func openSegment(folder string, how allocation) (way, error) {
	s := &segment{how: how, folder: folder, index: make(map[string]spot), zeros: make([]byte, 1<<20)}
	s.commit = groupcommit.New(groupcommit.Limits{Items: 512}, nil, s.write)
	return s, nil
}

func (s *segment) write(batch []*write) {
	if err := s.append(batch); err != nil {
		for _, w := range batch {
			w.err = err
		}
	}
}

func (s *segment) append(batch []*write) (err error) {
	if s.file == nil || s.end > segmentSize-4<<20 {
		if s.file, err = os.CreateTemp(s.folder, "segment-*"); err != nil {
			return err
		}
		s.end, s.ready = 0, 0
		if s.how == allocated {
			if err := unix.Fallocate(int(s.file.Fd()), 0, 0, segmentSize); err != nil {
				return err
			}
		}
		if err := s.file.Sync(); err != nil {
			return err
		}
	}
	end := s.end
	buffers := make([][]byte, 0, len(batch)+1)
	for _, w := range batch {
		buffers = append(buffers, w.data)
		end += int64(len(w.data))
	}
	if s.how == zeroed && end > s.ready {
		buffers = append(buffers, s.zeros)
		s.ready = end + int64(len(s.zeros))
	}
	if _, err := unix.Pwritev(int(s.file.Fd()), buffers, s.end); err != nil {
		return err
	}
	if err := unix.Fdatasync(int(s.file.Fd())); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range batch {
		s.index[w.name] = spot{s.file, s.end, len(w.data)}
		s.end += int64(len(w.data))
	}
	return nil
}

func (s *segment) put(name string, data []byte) error { return through(s.commit, name, data) }

func (s *segment) get(name string) ([]byte, error) {
	s.mu.RLock()
	p := s.index[name]
	s.mu.RUnlock()
	b := make([]byte, p.size)
	_, err := p.file.ReadAt(b, p.at)
	return b, err
}

func (s *segment) erase(name string) error {
	p := s.index[name]
	if _, err := p.file.WriteAt(s.zeros[:p.size], p.at); err != nil {
		return err
	}
	return unix.Fdatasync(int(p.file.Fd()))
}

func (s *segment) close() error { return nil }
