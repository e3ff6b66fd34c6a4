package fs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/blobd/blobd"
)

// eraser overwrites records of one segment, in the order that record.go gives.
type eraser struct {
	file    file
	segment segmentID
	zeros   []byte
	buffer  []byte // for reading back
}

var errNotErased = fmt.Errorf("erased bytes read back as something else: %w", blobd.ErrUnavailable)

// erase returns the records that were there until now. After nil all of them are
// dead, and their bytes read as zeros from the device. erasures is the new count
// of the segment's header: it becomes durable with the marks, so that an open
// with an index that does not know of them scans the segment.
func (e eraser) erase(records []named, erasures uint64) (died []named, err error) {
	var present []named
	for _, n := range records {
		what, err := e.mark(n)
		if err != nil {
			return nil, err
		}
		if what != nothing {
			present = append(present, n)
		}
		if what == marked {
			died = append(died, n)
		}
	}
	if err := writeUint64(e.file, erasuresAt, erasures); err != nil {
		return nil, err
	}
	if err := e.file.Sync(); err != nil {
		return nil, err
	}
	return died, e.blank(present)
}

// mark is what became of one record.
type mark int

const (
	nothing mark = iota // no bytes there
	marked
	markedBefore
)

// mark marks a record dead.
func (e eraser) mark(n named) (mark, error) {
	b := make([]byte, headerSize)
	if _, err := e.file.ReadAt(b, n.offset); err == io.EOF {
		return nothing, nil
	} else if err != nil {
		return nothing, err
	}
	h, err := parseHeader(b, n.segment, n.offset)
	switch {
	case err != nil:
		return marked, e.replaceHeader(n)
	case h.nameLen != len(n.name) || h.dataLen != n.dataLen,
		h.live && h.nameSum != checksum([]byte(n.name)):
		return nothing, fmt.Errorf("the index is wrong about %s: %w", n.segment.path(), blobd.ErrCorrupt)
	case !h.live:
		return markedBefore, nil
	}
	_, err = e.file.WriteAt([]byte(deadWord), n.offset)
	return marked, err
}

// replaceHeader gives a record whose header is damaged that of a dead record,
// if what the index says of its length touches no other record.
func (e eraser) replaceHeader(n named) error {
	end := n.offset + n.size()
	err := walk(e.file, n.segment, n.offset, func(i item) error {
		if !i.isGap && i.header.offset < end {
			return fmt.Errorf("the index is wrong about %s: %w", n.segment.path(), blobd.ErrCorrupt)
		}
		return errEnough
	})
	if err != nil && !errors.Is(err, errEnough) {
		return err
	}
	size, err := e.file.Size()
	if err != nil || size < end {
		return errors.Join(err, fmt.Errorf("%s ends too early: %w", n.segment.path(), blobd.ErrCorrupt))
	}
	_, err = e.file.WriteAt(deadHeader(n), n.offset)
	return err
}

// deadHeader is the header of an erased record, made anew.
func deadHeader(n named) []byte {
	b := make([]byte, headerSize)
	copy(b, deadWord)
	binary.BigEndian.PutUint16(b[28:], uint16(len(n.name)))
	binary.BigEndian.PutUint16(b[30:], formatOne)
	binary.BigEndian.PutUint64(b[32:], uint64(n.dataLen))
	placeRecord(b, n.segment, n.offset, 0)
	return b
}

// blank overwrites dead records, durably, and proves it.
func (e eraser) blank(records []named) error {
	if len(records) == 0 {
		return nil
	}
	for _, n := range records {
		if err := overwrite(e.file, n.offset+sumsAt, sumsSize, e.zeros); err != nil {
			return err
		}
		if err := overwrite(e.file, n.offset+headerSize, n.size()-headerSize, e.zeros); err != nil {
			return err
		}
	}
	if err := e.file.Sync(); err != nil {
		return err
	}
	for _, n := range records {
		e.file.Forget(n.offset, n.size())
		gone, err := readsAsErased(e.file, n, e.buffer)
		if err != nil {
			return err
		}
		if !gone {
			return errNotErased
		}
		if err := e.file.GiveBack(n.offset+headerSize, n.size()-headerSize); err != nil {
			return err
		}
	}
	return nil
}

// readsAsErased reads the place of a record and reports whether nothing of the
// record is there.
func readsAsErased(f file, n named, buffer []byte) (bool, error) {
	b := buffer[:headerSize]
	if _, err := f.ReadAt(b, n.offset); err == io.EOF {
		return true, nil
	} else if err != nil {
		return false, err
	}
	h, err := parseHeader(b, n.segment, n.offset)
	if err == nil && (h.live || h.nameSum|h.dataSum != 0) || err != nil && !isZero(b) {
		return false, nil
	}
	for from, end := n.offset+headerSize, n.offset+n.size(); from < end; {
		b := buffer[:min(int64(len(buffer)), end-from)]
		read, err := f.ReadAt(b, from)
		if err != nil && err != io.EOF {
			return false, err
		}
		if !isZero(b[:read]) {
			return false, nil
		}
		if err == io.EOF {
			return true, nil
		}
		from += int64(read)
	}
	return true, nil
}
