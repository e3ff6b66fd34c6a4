package fs

import (
	"bytes"
	"context"
	"fmt"
	"os"

	"github.com/blobd/blobd"
)

// put is one object on its way through a shared write.
type put struct {
	name   string
	record []byte // header, name and data: the caller's bytes are copied once
	place  place
	err    error
}

func (p *put) data() []byte { return p.record[headerSize+len(p.name):] }

// Put implements backends.Store. The write order is: append the records of all
// who wait, one fdatasync, remember their places, answer.
func (s *Store) Put(ctx context.Context, name string, data []byte) error {
	if err := check(ctx, name); err != nil {
		return classify("put", err)
	}
	if int64(len(data)) > maxData {
		return classify("put", fmt.Errorf("%d bytes: %w", len(data), blobd.ErrInvalid))
	}
	if there, err := s.holds(name, data); err != nil || there {
		return classify("put", err)
	}
	p := &put{name: name, record: encodeRecord(name, data, s.options.Now().UnixMicro())}
	err := s.puts.Do(ctx, p)
	if err == nil {
		err = p.err
	}
	return classify("put", err)
}

// holds reports whether a name has these very bytes; other bytes are
// ErrCorrupt.
func (s *Store) holds(name string, data []byte) (bool, error) {
	p, ok, err := s.find(name)
	if err != nil || !ok {
		return false, err
	}
	live, err := s.lives(p)
	if err != nil || !live {
		return false, err // a stale entry: erased, then a crash
	}
	stored, err := s.read(p, name)
	if err != nil {
		return false, err
	}
	if !bytes.Equal(stored, data) {
		return false, fmt.Errorf("%s: other bytes are there: %w", name, blobd.ErrCorrupt)
	}
	return true, nil
}

func (s *Store) lives(p place) (live bool, err error) {
	err = s.files.use(p.segment, func(f file) error {
		live, err = isLive(f, p)
		return err
	})
	return live, err
}

// write is one shared write. Only one runs at a time.
func (s *Store) write(batch []*put) {
	fresh := s.distinct(batch)
	if len(fresh) == 0 {
		return
	}
	if err := s.append(fresh); err != nil {
		for _, p := range fresh {
			p.err = err
		}
		return
	}
	s.mu.Lock()
	for _, p := range fresh {
		s.pending[p.name] = p.place
	}
	last := fresh[len(fresh)-1]
	s.current = frontier{last.place.segment, last.place.offset + int64(len(last.record))}
	full := len(s.pending) >= s.options.Pending && !s.closed
	if full {
		s.flushing.Add(1)
	}
	s.mu.Unlock()
	if full {
		go func() {
			defer s.flushing.Done()
			_ = s.flush() // the next one tries again; until then pending answers
		}()
	}
}

// distinct leaves out puts whose bytes are already there, from an earlier write
// or from this one.
func (s *Store) distinct(batch []*put) []*put {
	var fresh []*put
	mine := make(map[string]*put, len(batch))
	for _, p := range batch {
		p.err = nil
		if first, ok := mine[p.name]; ok {
			if !bytes.Equal(first.data(), p.data()) {
				p.err = fmt.Errorf("%s: other bytes are there: %w", p.name, blobd.ErrCorrupt)
			}
			continue // the same bytes: they are durable when the first is, below
		}
		there, err := s.holds(p.name, p.data())
		if err != nil || there {
			p.err = err
			continue
		}
		mine[p.name] = p
		fresh = append(fresh, p)
	}
	return fresh
}

// append writes records behind each other and makes them durable. On an error
// nothing of them is visible, and the segment is not trusted any more: after a
// failed fsync nobody knows what of it reached the disk.
func (s *Store) append(puts []*put) error {
	at, err := s.segmentFor(puts)
	if err != nil {
		return err
	}
	if err := s.appendAt(at, puts); err != nil {
		_ = s.active.Truncate(at.offset) // else the next open drops it
		_ = s.active.Close()
		s.active = nil
		return err
	}
	return nil
}

func (s *Store) appendAt(at frontier, puts []*put) error {
	var batch []byte
	offset := at.offset
	for _, p := range puts {
		p.place = place{at.segment, offset, int64(len(p.data())), headerWritten(p.record)}
		offset += int64(len(p.record))
	}
	// Small records are joined into one write; large ones are written as they are.
	offset = at.offset
	emit := func(b []byte) error {
		n, err := s.active.WriteAt(b, offset)
		offset += int64(n)
		return err
	}
	for _, p := range puts {
		if len(p.record) > largeRecord || len(batch)+len(p.record) > joinedWrite {
			if len(batch) > 0 {
				if err := emit(batch); err != nil {
					return err
				}
				batch = batch[:0]
			}
		}
		if len(p.record) > largeRecord || len(puts) == 1 {
			if err := emit(p.record); err != nil {
				return err
			}
			continue
		}
		batch = append(batch, p.record...)
	}
	if len(batch) > 0 {
		if err := emit(batch); err != nil {
			return err
		}
	}
	return s.active.Sync()
}

const (
	largeRecord = 64 << 10
	joinedWrite = 1 << 20
)

// segmentFor returns where the next record goes, in a new segment if the
// current one is full, failed, or of an earlier run.
func (s *Store) segmentFor(puts []*put) (frontier, error) {
	s.mu.RLock()
	at := s.current
	s.mu.RUnlock()
	if s.active != nil && at.offset < s.options.SegmentSize {
		return at, nil
	}
	if s.active != nil {
		if err := s.active.Close(); err != nil {
			return at, err
		}
		s.active = nil
	}
	next := frontier{segment: at.segment + 1}
	f, err := s.open(segmentName(next.segment), os.O_RDWR|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return at, err
	}
	if err := s.syncFolder(); err != nil {
		_ = f.Close()
		_ = s.root.Remove(segmentName(next.segment))
		return at, err
	}
	s.active = f
	s.mu.Lock()
	s.current = next
	s.mu.Unlock()
	return next, nil
}

// syncFolder makes the folder's entries durable.
func (s *Store) syncFolder() error {
	d, err := s.root.Open(".")
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	return d.Sync()
}

// flush adds to the index what it lacks. Entries leave pending only after they
// are durable there.
func (s *Store) flush() error {
	s.indexing.Lock()
	defer s.indexing.Unlock()
	s.mu.RLock()
	entries := make([]named, 0, len(s.pending))
	for name, p := range s.pending {
		entries = append(entries, named{name, p})
	}
	to := s.current
	s.mu.RUnlock()
	if len(entries) == 0 {
		return nil
	}
	if err := s.index.add(entries, to); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range entries {
		if s.pending[e.name] == e.place {
			delete(s.pending, e.name)
		}
	}
	return nil
}
