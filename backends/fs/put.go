package fs

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
)

// The bounds of one batch of puts.
const (
	maxBatchItems = 512
	maxBatchBytes = 16 << 20
	// gather is about half of what a sync takes on a local disk: with 16 callers the
	// wait takes a quarter off the time of a put, and far longer ones gain nothing.
	gather = 400 * time.Microsecond
)

// maxPooled bounds the buffers that are kept for the next record.
const maxPooled = 256 << 10

// put is one object on its way to a segment.
type put struct {
	name   string
	buffer *[]byte // the encoded record; the batch gives it back
	dataAt int
	size   int    // of the data
	moves  uint64 // of the index, before the name was looked up
	offset int64
	err    error
	// barrier writes nothing: it only waits for its turn.
	barrier bool
}

func (p *put) weight() int  { return len(*p.buffer) }
func (p *put) data() []byte { return (*p.buffer)[p.dataAt : p.dataAt+p.size] }

// Put implements backends.Store. The write order is: the records of all who wait
// are appended by one write, one fdatasync, the index in memory, the answers. A
// caller whose ctx ends while it leads a batch returns after the batch.
func (s *Store) Put(ctx context.Context, name string, data []byte) error {
	if err := s.enter(ctx); err != nil {
		return classify("put", err)
	}
	defer s.life.RUnlock()
	return classify("put", s.put(ctx, name, data))
}

func (s *Store) put(ctx context.Context, name string, data []byte) error {
	if err := backends.CheckName(name); err != nil {
		return err
	}
	if len(data) > maxData {
		return fmt.Errorf("%d bytes: %w", len(data), blobd.ErrTooLarge)
	}
	_, moves := s.index.waiting()
	if there, err := s.holds(name, data); err != nil || there {
		return err
	}
	p := s.newPut(name, data)
	p.moves = moves
	if err := s.puts.Do(ctx, p); err != nil {
		return err // the batch may still use p
	}
	if p.err == nil {
		s.moveIfFull()
	}
	return p.err
}

// awaitWrites returns when no write is under way that began before: a put whose
// caller left still ends, and what it wrote is in the index only then.
func (s *Store) awaitWrites(ctx context.Context) error {
	return s.puts.Do(ctx, &put{buffer: new([]byte), barrier: true})
}

// newPut copies data, since a caller that leaves early may reuse it.
func (s *Store) newPut(name string, data []byte) *put {
	p := &put{name: name, dataAt: headerSize + len(name), size: len(data)}
	n := int(recordSize(len(name), int64(len(data))))
	b, ok := s.buffers.Get().(*[]byte)
	if !ok {
		b = new([]byte)
	}
	if cap(*b) < n {
		*b = make([]byte, n)
	}
	*b = (*b)[:n]
	encodeBody(*b, name, data, s.options.Now().UnixMicro())
	p.buffer = b
	return p
}

// holds reports whether the store has a name with these very bytes. Other bytes
// are ErrCorrupt. A record that is damaged does not count if data is proved to
// be what it held: a put then repairs it.
func (s *Store) holds(name string, data []byte) (bool, error) {
	l, ok, err := s.index.newest(name)
	if err != nil || !ok {
		return false, err
	}
	found, err := s.newestLive(name, l)
	if err != nil || found.fate == dead {
		return false, err
	}
	switch {
	case found.fate == live && bytes.Equal(found.data, data):
		return true, nil
	case found.fate == damaged && (provesItself(name, data) || found.wasFor(data)):
		return false, nil
	}
	return false, fmt.Errorf("%s: other bytes are there: %w", name, blobd.ErrCorrupt)
}

// wasFor reports whether a damaged record was written for data, as far as its
// header can tell.
func (f found) wasFor(data []byte) bool {
	return f.header.live && f.header.dataLen == int64(len(data)) && f.header.dataSum == checksum(data)
}

// write runs one batch. Only one runs at a time.
func (s *Store) write(batch []*put) {
	fresh, again := s.distinct(batch)
	if len(fresh) > 0 {
		if err := s.append(fresh); err != nil {
			for _, p := range fresh {
				p.err = err
			}
		}
	}
	for p, first := range again {
		p.err = first.err
		if first.err == nil && !bytes.Equal(first.data(), p.data()) {
			p.err = fmt.Errorf("%s: other bytes are there: %w", p.name, blobd.ErrCorrupt)
		}
	}
	for _, p := range batch {
		s.recycle(p.buffer)
	}
}

func (s *Store) recycle(b *[]byte) {
	if cap(*b) <= maxPooled {
		s.buffers.Put(b)
	}
}

// distinct returns the puts to write, and those that repeat one of them. A name
// that an earlier batch brought after its put had looked is in memory, or the
// index was moved since.
func (s *Store) distinct(batch []*put) (fresh []*put, again map[*put]*put) {
	mine := make(map[string]*put, len(batch))
	for _, p := range batch {
		if p.barrier {
			continue
		}
		if first, ok := mine[p.name]; ok {
			if again == nil {
				again = make(map[*put]*put)
			}
			again[p] = first
			continue
		}
		_, inMemory := s.index.inMemory(p.name)
		if _, moves := s.index.waiting(); inMemory || moves != p.moves {
			there, err := s.holds(p.name, p.data())
			if err != nil || there {
				p.err = err
				continue
			}
		}
		mine[p.name] = p
		fresh = append(fresh, p)
	}
	return fresh, again
}

// append makes records durable and then known. After an error none of them is.
func (s *Store) append(fresh []*put) error {
	if names, _ := s.index.waiting(); names > indexSlack*s.options.IndexBatch {
		if err := s.moveIndex(); err != nil {
			return fmt.Errorf("the index cannot be written: %w: %w", blobd.ErrUnavailable, err)
		}
	}
	w, err := s.writerFor(fresh)
	if err != nil {
		return err
	}
	if err := w.append(fresh); err != nil {
		s.afterFailure(w)
		return err
	}
	records := make([]named, len(fresh))
	for i, p := range fresh {
		records[i] = named{p.name, location{w.id, p.offset, int64(p.size)}}
	}
	s.index.add(w.id, w.end, records...)
	return nil
}

// indexSlack is how many batches of names memory holds before puts wait for the
// index.
const indexSlack = 4

// moveIfFull moves the index to disk when enough names have gathered. The caller
// whose put was the last straw does it; others go on meanwhile.
func (s *Store) moveIfFull() {
	if names, _ := s.index.waiting(); names < s.options.IndexBatch {
		return
	}
	if !s.index.moving.TryLock() {
		return
	}
	defer s.index.moving.Unlock()
	if names, _ := s.index.waiting(); names >= s.options.IndexBatch {
		_ = s.index.move() // its names stay in memory; append sees that they pile up
	}
}

func (s *Store) moveIndex() error {
	s.index.moving.Lock()
	defer s.index.moving.Unlock()
	return s.index.move()
}

// writerFor returns the segment for the next records: a new one at the first put
// after an open, when the last one is full, and after a failure.
func (s *Store) writerFor(fresh []*put) (*writer, error) {
	if s.writer != nil {
		size := int64(0)
		for _, p := range fresh {
			size += int64(len(*p.buffer))
		}
		if s.writer.end == segmentStart || s.writer.end+size <= s.options.SegmentSize {
			return s.writer, nil
		}
		if err := s.retire(); err != nil {
			return nil, err
		}
	}
	id, err := s.nextSegment()
	if err != nil {
		return nil, err
	}
	f, err := createSegment(s.root, id, s.wrap)
	if err != nil {
		return nil, err
	}
	s.writer = &writer{
		id: id, file: f, end: segmentStart, allocated: segmentStart, limit: s.options.SegmentSize, zeros: s.zeros,
	}
	s.currentMu.Lock()
	s.current, s.last = id, id.number()
	s.currentMu.Unlock()
	return s.writer, nil
}

func (s *Store) nextSegment() (segmentID, error) {
	var random [4]byte
	if _, err := s.options.Rand.Read(random[:]); err != nil {
		return 0, err
	}
	s.currentMu.Lock()
	defer s.currentMu.Unlock()
	return segmentID(uint64(s.last+1)<<32 | uint64(binary.BigEndian.Uint32(random[:]))), nil
}

// afterFailure goes on with a segment whose failed write could be taken back,
// and leaves one that cannot be trusted: after a failed fsync the kernel may
// have forgotten what it did not write.
func (s *Store) afterFailure(w *writer) {
	if w.takeBack() {
		return
	}
	_ = s.retire() // what was acknowledged in it was synced before
}

// retire ends the segment being written. Its preallocated tail is cut off.
func (s *Store) retire() error {
	w := s.writer
	if w == nil {
		return nil
	}
	s.writer = nil
	s.currentMu.Lock()
	s.current = 0
	s.currentMu.Unlock()
	err := w.close()
	if s.index.seemsEmpty(w.id) || w.end == segmentStart {
		if dropErr := s.dropIfEmpty(w.id); err == nil {
			err = dropErr
		}
	}
	return err
}
