package fs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/blobd/blobd"
)

// index finds records by name, in order. It is a cache of the segments: what it
// lacks is found by scanning them from its frontier on, and without it all are
// scanned. It is durable when it says so, and never ahead of the segments.
type index struct{ db *bolt.DB }

// frontier is up to where the index knows the segments.
type frontier struct {
	segment uint64
	offset  int64
}

const indexFile = "index.db"

var (
	bucketObjects  = []byte("objects")  // name → place
	bucketSegments = []byte("segments") // segment → number of objects
	bucketMeta     = []byte("meta")
	keyFrontier    = []byte("frontier")
)

// openIndex opens the index, or makes an empty one where there is none or it
// cannot be read.
func openIndex(path string) (*index, error) {
	db, err := openBolt(path)
	if err != nil {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		if db, err = openBolt(path); err != nil {
			return nil, err
		}
	}
	return &index{db}, nil
}

func openBolt(path string) (db *bolt.DB, err error) {
	defer func() { // a damaged page makes bbolt panic
		if p := recover(); p != nil {
			err = fmt.Errorf("index: %v: %w", p, blobd.ErrCorrupt)
		}
	}()
	db, err = bolt.Open(path, 0o600, &bolt.Options{
		Timeout: time.Second, NoFreelistSync: true, FreelistType: bolt.FreelistMapType,
	})
	if err != nil {
		return nil, err
	}
	err = db.Update(func(tx *bolt.Tx) error {
		for _, b := range [][]byte{bucketObjects, bucketSegments, bucketMeta} {
			if _, err := tx.CreateBucketIfNotExists(b); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		_ = db.Close()
		return nil, err
	}
	return db, nil
}

func (x *index) close() error { return x.db.Close() }

func (x *index) frontier() (at frontier, err error) {
	err = x.db.View(func(tx *bolt.Tx) error {
		if b := tx.Bucket(bucketMeta).Get(keyFrontier); len(b) == 16 {
			at = frontier{binary.BigEndian.Uint64(b), int64(binary.BigEndian.Uint64(b[8:]))}
		}
		return nil
	})
	return at, err
}

// get returns a name's place.
func (x *index) get(name string) (p place, ok bool, err error) {
	err = x.db.View(func(tx *bolt.Tx) error {
		if b := tx.Bucket(bucketObjects).Get([]byte(name)); b != nil {
			ok = true
			p, err = decodePlace(b)
		}
		return err
	})
	return p, ok, err
}

// named is a name with its place.
type named struct {
	name string
	place
}

// page returns up to limit names with a prefix after a name, in order.
func (x *index) page(prefix, after string, limit int) (found []named, err error) {
	err = x.db.View(func(tx *bolt.Tx) error {
		c := tx.Bucket(bucketObjects).Cursor()
		k, v := c.Seek([]byte(max(prefix, after)))
		for ; k != nil && bytes.HasPrefix(k, []byte(prefix)) && len(found) < limit; k, v = c.Next() {
			if string(k) <= after && after != "" {
				continue
			}
			p, err := decodePlace(v)
			if err != nil {
				return err
			}
			found = append(found, named{string(k), p})
		}
		return nil
	})
	return found, err
}

// add makes entries and the new frontier durable.
func (x *index) add(entries []named, to frontier) error {
	slices.SortFunc(entries, func(a, b named) int { return strings.Compare(a.name, b.name) })
	return x.db.Update(func(tx *bolt.Tx) error {
		objects, segments := tx.Bucket(bucketObjects), tx.Bucket(bucketSegments)
		more := make(map[uint64]int64)
		for _, e := range entries {
			if b := objects.Get([]byte(e.name)); b != nil {
				old, err := decodePlace(b)
				if err != nil {
					return err
				}
				more[old.segment]--
			}
			if err := objects.Put([]byte(e.name), encodePlace(e.place)); err != nil {
				return err
			}
			more[e.segment]++
		}
		if err := count(segments, more); err != nil {
			return err
		}
		var b [16]byte
		binary.BigEndian.PutUint64(b[:], to.segment)
		binary.BigEndian.PutUint64(b[8:], uint64(to.offset))
		return tx.Bucket(bucketMeta).Put(keyFrontier, b[:])
	})
}

// remove forgets entries, durably, and returns the segments that hold no object
// of the index any more.
func (x *index) remove(entries []named) (empty []uint64, err error) {
	err = x.db.Update(func(tx *bolt.Tx) error {
		objects, segments := tx.Bucket(bucketObjects), tx.Bucket(bucketSegments)
		less := make(map[uint64]int64)
		for _, e := range entries {
			b := objects.Get([]byte(e.name))
			if b == nil {
				continue
			}
			p, err := decodePlace(b)
			if err != nil {
				return err
			}
			if p != e.place { // put again meanwhile
				continue
			}
			if err := objects.Delete([]byte(e.name)); err != nil {
				return err
			}
			less[p.segment]--
		}
		if err := count(segments, less); err != nil {
			return err
		}
		for n := range less {
			if segments.Get(segmentKey(n)) == nil {
				empty = append(empty, n)
			}
		}
		return nil
	})
	return empty, err
}

// count changes how many objects segments hold; none is no entry.
func count(segments *bolt.Bucket, change map[uint64]int64) error {
	for n, by := range change {
		var old int64
		if b := segments.Get(segmentKey(n)); len(b) == 8 {
			old = int64(binary.BigEndian.Uint64(b))
		}
		if old+by <= 0 {
			if err := segments.Delete(segmentKey(n)); err != nil {
				return err
			}
			continue
		}
		var b [8]byte
		binary.BigEndian.PutUint64(b[:], uint64(old+by))
		if err := segments.Put(segmentKey(n), b[:]); err != nil {
			return err
		}
	}
	return nil
}

func segmentKey(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

func encodePlace(p place) []byte {
	b := make([]byte, 0, 32)
	b = binary.BigEndian.AppendUint64(b, p.segment)
	b = binary.BigEndian.AppendUint64(b, uint64(p.offset))
	b = binary.BigEndian.AppendUint64(b, uint64(p.dataLen))
	return binary.BigEndian.AppendUint64(b, uint64(p.written))
}

func decodePlace(b []byte) (place, error) {
	if len(b) != 32 {
		return place{}, fmt.Errorf("index entry: %w", blobd.ErrCorrupt)
	}
	p := place{
		binary.BigEndian.Uint64(b), int64(binary.BigEndian.Uint64(b[8:])),
		int64(binary.BigEndian.Uint64(b[16:])), int64(binary.BigEndian.Uint64(b[24:])),
	}
	if p.offset < 0 || p.dataLen < 0 || p.dataLen > maxData {
		return place{}, fmt.Errorf("index entry: %w", blobd.ErrCorrupt)
	}
	return p, nil
}

// counts reports whether the index has objects in a segment.
func (x *index) counts(segment uint64) (has bool, err error) {
	err = x.db.View(func(tx *bolt.Tx) error {
		has = tx.Bucket(bucketSegments).Get(segmentKey(segment)) != nil
		return nil
	})
	return has, err
}
