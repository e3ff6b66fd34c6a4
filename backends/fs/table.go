package fs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/blobd/blobd"
)

const (
	tableFile = "index.db"
	cleanFile = "index.clean"
	// suspectFile marks a table that failed while it was used.
	suspectFile = "index.suspect"
)

var errTable = fmt.Errorf("index is damaged: %w", blobd.ErrCorrupt)

// table is the index on disk, in two buckets:
//
//	records   name, 0, segment and offset inverted → length of the data
//	segments  segment → extent
//
// A name holds no zero byte and zero sorts before all that it holds, so keys are
// in the order of names, and records of one name are in order, newest first.
type table struct {
	db      *bolt.DB
	root    *os.Root
	clean   bool // closed whole by the last run
	created bool // the file was new
}

const (
	recordsBucket  = "records"
	segmentsBucket = "segments"
	placeSize      = 16
)

// openTable opens the table, or makes an empty one. One that cannot be opened or
// walked from end to end is replaced by an empty one: everything in it is in the
// segments too.
func openTable(root *os.Root) (*table, error) {
	if _, err := root.Lstat(suspectFile); err == nil {
		return freshTable(root)
	}
	t, err := tryTable(root)
	if err == nil {
		return t, nil
	}
	if !replaceable(err) {
		return nil, err
	}
	return freshTable(root)
}

// replaceable says whether an error is the file's own fault and not the
// system's: no index is thrown away because a file could not be opened.
func replaceable(err error) bool {
	var no *os.PathError
	return !errors.As(err, &no) && !errors.Is(err, bolterrors.ErrTimeout)
}

func freshTable(root *os.Root) (*table, error) {
	for _, name := range []string{tableFile, cleanFile, suspectFile} {
		if err := root.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
	return tryTable(root)
}

func tryTable(root *os.Root) (*table, error) {
	if info, err := root.Lstat(tableFile); err == nil && !info.Mode().IsRegular() {
		return nil, &os.PathError{Op: "open", Path: tableFile, Err: blobd.ErrCorrupt}
	}
	t := &table{root: root}
	err := t.guard(func() error { return t.open() })
	if err == nil {
		err = t.guard(t.examine)
	}
	if err != nil && t.db != nil {
		_ = t.guard(t.db.Close)
	}
	return t, err
}

func (t *table) open() (err error) {
	t.db, err = bolt.Open(tableFile, 0o600, &bolt.Options{
		Timeout:      time.Second,
		FreelistType: bolt.FreelistMapType,
		OpenFile: func(name string, flag int, mode os.FileMode) (*os.File, error) {
			return t.root.OpenFile(name, flag|noFollow, mode)
		},
	})
	return err
}

// examine makes the buckets of a new table and checks an old one. A table that
// this run did not see closed may be a copy made while it was written: then
// every page is visited, which costs about a second for a million records.
func (t *table) examine() error {
	var id int
	err := t.db.View(func(tx *bolt.Tx) error {
		id = tx.ID()
		t.created = tx.Bucket([]byte(recordsBucket)) == nil || tx.Bucket([]byte(segmentsBucket)) == nil
		info, err := t.root.Stat(tableFile)
		if err == nil && info.Size() < tx.Size() {
			err = errTable // shorter than its pages; touching them would fault
		}
		return err
	})
	if err != nil {
		return err
	}
	if t.created {
		return t.db.Update(func(tx *bolt.Tx) error {
			for _, b := range []string{recordsBucket, segmentsBucket} {
				if _, err := tx.CreateBucketIfNotExists([]byte(b)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	mark, err := t.root.ReadFile(cleanFile)
	if err == nil && string(mark) == cleanMark(id) {
		t.clean = true
		return nil
	}
	return t.db.View(visitPages)
}

func cleanMark(id int) string { return strconv.Itoa(id) + "\n" }

// visitPages reads every page.
func visitPages(tx *bolt.Tx) error {
	var last []byte
	c := tx.Bucket([]byte(recordsBucket)).Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		if _, err := decodeEntry(k, v); err != nil || bytes.Compare(last, k) >= 0 {
			return errTable
		}
		last = k
	}
	return tx.Bucket([]byte(segmentsBucket)).ForEach(func(k, v []byte) error {
		_, _, err := decodeExtent(k, v)
		return err
	})
}

// guard turns what a damaged page does to the table's library, a panic or a
// memory fault, into errTable, and has the next open rebuild the table.
func (t *table) guard(f func() error) (err error) {
	old := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(old)
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errTable, p)
			t.suspect()
		}
	}()
	return f()
}

func (t *table) suspect() {
	if f, err := t.root.OpenFile(suspectFile, os.O_CREATE|os.O_WRONLY|noFollow, 0o600); err == nil {
		_ = f.Close() // without the mark, the next open still walks the table
	}
}

func (t *table) view(f func(records, segments *bolt.Bucket) error) error {
	return t.guard(func() error {
		return t.db.View(func(tx *bolt.Tx) error {
			return f(tx.Bucket([]byte(recordsBucket)), tx.Bucket([]byte(segmentsBucket)))
		})
	})
}

func (t *table) update(f func(records, segments *bolt.Bucket) error) error {
	return t.guard(func() error {
		return t.db.Update(func(tx *bolt.Tx) error {
			return f(tx.Bucket([]byte(recordsBucket)), tx.Bucket([]byte(segmentsBucket)))
		})
	})
}

// close marks the table as whole, so that the next open need not walk it.
func (t *table) close(whole bool) error {
	if !whole {
		return t.guard(t.db.Close)
	}
	var id int
	err := t.guard(func() error {
		return t.db.View(func(tx *bolt.Tx) error { id = tx.ID(); return nil })
	})
	if err == nil {
		err = t.mark(cleanMark(id))
	}
	return errors.Join(err, t.guard(t.db.Close))
}

func (t *table) mark(s string) error {
	f, err := t.root.OpenFile(cleanFile, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|noFollow, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(s)
	return errors.Join(err, f.Close())
}

// lookup returns the locations of a name, the newest first, at most limit; 0 is
// all.
func (t *table) lookup(name string, limit int) (found []location, err error) {
	err = t.view(func(records, _ *bolt.Bucket) error {
		prefix := make([]byte, 0, len(name)+1+placeSize)
		prefix = append(append(prefix, name...), 0)
		c := records.Cursor()
		for k, v := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, v = c.Next() {
			n, err := decodePlace(k[len(prefix):], v)
			if err != nil {
				return err
			}
			if found = append(found, n); len(found) == limit {
				break
			}
		}
		return nil
	})
	return found, err
}

// page returns the records of up to limit names, in order.
func (t *table) page(prefix, after string, limit int) (found []named, err error) {
	err = t.view(func(records, _ *bolt.Bucket) error {
		from := []byte(prefix)
		if after >= prefix {
			from = append([]byte(after), 1) // behind all records of after
		}
		names := 0
		c := records.Cursor()
		for k, v := c.Seek(from); k != nil && bytes.HasPrefix(k, []byte(prefix)); k, v = c.Next() {
			n, err := decodeEntry(k, v)
			if err != nil {
				return err
			}
			if len(found) == 0 || found[len(found)-1].name != n.name {
				if names++; names > limit {
					break
				}
			}
			found = append(found, n)
		}
		return nil
	})
	return found, err
}

// add makes records and extents durable.
func (t *table) add(entries map[string][]location, extents map[segmentID]extent) error {
	return t.update(func(records, segments *bolt.Bucket) error {
		for _, name := range slices.Sorted(maps.Keys(entries)) {
			for _, l := range entries[name] {
				if err := records.Put(encodeKey(named{name, l}), encodeLength(l)); err != nil {
					return err
				}
			}
		}
		for id, e := range extents {
			if err := putIfChanged(segments, encodeID(id), encodeExtent(e)); err != nil {
				return err
			}
		}
		return nil
	})
}

func putIfChanged(b *bolt.Bucket, k, v []byte) error {
	if bytes.Equal(b.Get(k), v) {
		return nil
	}
	return b.Put(k, v)
}

// remove forgets records and takes over the new numbers of erasures. Ends stay:
// the table may lack records that memory has. A segment that the table does not
// know stays unknown.
func (t *table) remove(gone []named, died map[segmentID]int64, extents map[segmentID]extent) error {
	if len(gone) == 0 {
		return nil // the next move brings the counts; until then an open scans
	}
	return t.update(func(records, segments *bolt.Bucket) error {
		for _, n := range gone {
			if err := records.Delete(encodeKey(n)); err != nil {
				return err
			}
		}
		for id, e := range extents {
			k := encodeID(id)
			v := segments.Get(k)
			if v == nil {
				continue
			}
			_, old, err := decodeExtent(k, v)
			if err != nil {
				return err
			}
			if err := segments.Put(k, encodeExtent(extent{old.end, e.erasures, old.live - died[id]})); err != nil {
				return err
			}
		}
		return nil
	})
}

func (t *table) dropSegment(id segmentID) error {
	return t.update(func(_, segments *bolt.Bucket) error { return segments.Delete(encodeID(id)) })
}

// extents returns what the table knows of segments.
func (t *table) extents() (map[segmentID]extent, error) {
	found := make(map[segmentID]extent)
	err := t.view(func(_, segments *bolt.Bucket) error {
		return segments.ForEach(func(k, v []byte) error {
			id, e, err := decodeExtent(k, v)
			found[id] = e
			return err
		})
	})
	return found, err
}

func encodeKey(n named) []byte {
	b := make([]byte, 0, len(n.name)+1+placeSize)
	b = append(append(b, n.name...), 0)
	b = binary.BigEndian.AppendUint64(b, ^uint64(n.segment))
	return binary.BigEndian.AppendUint64(b, ^uint64(n.offset))
}

func encodeLength(l location) []byte { return binary.AppendUvarint(nil, uint64(l.dataLen)) }

func decodeEntry(k, v []byte) (named, error) {
	i := bytes.IndexByte(k, 0)
	if i < 1 || i > maxName {
		return named{}, errTable
	}
	l, err := decodePlace(k[i+1:], v)
	return named{strings.Clone(string(k[:i])), l}, err
}

func decodePlace(b, v []byte) (location, error) {
	if len(b) != placeSize {
		return location{}, errTable
	}
	n, size := binary.Uvarint(v)
	l := location{
		segmentID(^binary.BigEndian.Uint64(b)), int64(^binary.BigEndian.Uint64(b[8:])), int64(n),
	}
	if size != len(v) || n > maxData || l.offset < segmentStart || l.offset%recordAlign != 0 {
		return location{}, errTable
	}
	return l, nil
}

func encodeID(id segmentID) []byte { return binary.BigEndian.AppendUint64(nil, uint64(id)) }

func encodeExtent(e extent) []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(e.end))
	b = binary.BigEndian.AppendUint64(b, e.erasures)
	return binary.BigEndian.AppendUint64(b, uint64(e.live))
}

func decodeExtent(k, v []byte) (segmentID, extent, error) {
	if len(k) != 8 || len(v) != 24 {
		return 0, extent{}, errTable
	}
	return segmentID(binary.BigEndian.Uint64(k)), extent{
		int64(binary.BigEndian.Uint64(v)), binary.BigEndian.Uint64(v[8:]), int64(binary.BigEndian.Uint64(v[16:])),
	}, nil
}
