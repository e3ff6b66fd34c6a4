package fs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/blobd/blobd"
)

func timeOf(micros int64) time.Time { return time.UnixMicro(micros).UTC() }

// recover scans the segments that the index does not know yet. A record whose
// bytes do not agree with its own checksums was never acknowledged, or was being
// erased when the process ended: it is erased. The next put begins a new
// segment.
func (s *Store) recover() error {
	segments, err := s.segments()
	if err != nil {
		return err
	}
	from, err := s.index.frontier()
	if err != nil {
		return err
	}
	s.current = from
	for _, n := range segments {
		if n < from.segment {
			continue
		}
		offset := int64(0)
		if n == from.segment {
			offset = from.offset
		}
		end, err := s.scan(n, offset)
		if err != nil {
			return fmt.Errorf("recover segment %d: %w", n, err)
		}
		s.current = frontier{n, end}
		if len(s.pending) >= s.options.Pending {
			if err := s.flush(); err != nil {
				return err
			}
		}
	}
	return s.flush()
}

// segments lists the segment files, oldest first. What is not a segment is left
// alone.
func (s *Store) segments() ([]uint64, error) {
	entries, err := fs.ReadDir(s.root.FS(), ".")
	if err != nil {
		return nil, err
	}
	var found []uint64
	for _, e := range entries {
		if n, ok := parseSegmentName(e.Name()); ok {
			found = append(found, n)
		}
	}
	slices.Sort(found)
	return found, nil
}

// scan takes a segment's records from an offset on into pending, and returns
// where the segment ends.
func (s *Store) scan(n uint64, offset int64) (int64, error) {
	f, err := s.open(segmentName(n), os.O_RDWR)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	size, err := f.Size()
	if err != nil {
		return 0, err
	}
	for offset < size {
		h, err := readHeader(f, offset)
		if errors.Is(err, blobd.ErrCorrupt) || err == nil && offset+h.size() > size {
			// Torn, or damaged: the next record is where its header says so.
			if offset, err = nextHeader(f, offset+1, size); err != nil {
				return 0, err
			}
			continue
		}
		if err != nil {
			return 0, err
		}
		if err := s.scanRecord(f, n, offset, h); err != nil {
			return 0, err
		}
		offset += h.size()
	}
	return size, nil
}

func (s *Store) scanRecord(f file, segment uint64, offset int64, h header) error {
	if !h.live {
		return nil
	}
	body := make([]byte, int64(h.nameLen)+h.dataLen)
	if _, err := f.ReadAt(body, offset+headerSize); err != nil {
		return err
	}
	name, data := body[:h.nameLen], body[h.nameLen:]
	e := named{string(name), place{segment, offset, h.dataLen, h.written}}
	if checksum(name) != h.nameHash || checksum(data) != h.dataHash {
		_, err := blank(f, []named{e})
		return err
	}
	s.pending[e.name] = e.place
	return nil
}

func readHeader(f file, offset int64) (header, error) {
	var b [headerSize]byte
	if _, err := f.ReadAt(b[:], offset); err != nil {
		if kindOf(err) == blobd.ErrCorrupt { // the file ends within
			return header{}, errHeader
		}
		return header{}, err
	}
	return parseHeader(b[:])
}

// nextHeader finds the next record whose header holds and that fits, or the
// segment's end.
func nextHeader(f file, from, size int64) (int64, error) {
	const window = 1 << 20
	buffer := make([]byte, window+headerSize)
	for ; from < size; from += window {
		n, err := f.ReadAt(buffer[:min(int64(len(buffer)), size-from)], from)
		if err != nil {
			return 0, err
		}
		b := buffer[:n]
		for at := 0; ; at++ {
			i := bytes.Index(b[at:], []byte(recordMagic))
			if i < 0 {
				break
			}
			at += i
			if h, err := parseHeader(b[at:]); err == nil && at < window && from+int64(at)+h.size() <= size {
				return from + int64(at), nil
			}
		}
	}
	return size, nil
}
