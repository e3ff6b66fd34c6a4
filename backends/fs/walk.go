package fs

import (
	"crypto/sha256"
	"hash/crc32"
	"io"
	"strings"

	"github.com/blobd/blobd/backends"
)

// item is one step of a walk through a segment: a record's header, or a gap, a
// range in which no record begins.
type item struct {
	header header
	isGap  bool
	from   int64 // of a gap
	to     int64 // of a gap
	zero   bool  // the gap holds zeros only
	tail   bool  // the gap ends the segment
}

// walk calls use for each record and gap from an offset on. Headers say where
// the next record is; where one is damaged, the next whole one is searched.
func walk(f file, id segmentID, from int64, use func(item) error) error {
	size, err := f.Size()
	if err != nil {
		return err
	}
	w := window{file: f, size: size, buffer: make([]byte, 256<<10)}
	for at := from; at < size; {
		h, ok, err := w.headerAt(id, at)
		if err != nil {
			return err
		}
		i := item{header: h}
		next := at + h.size()
		if !ok {
			if i, err = w.gap(id, at); err != nil {
				return err
			}
			next = i.to
		}
		if err := use(i); err != nil {
			return err
		}
		at = next
	}
	return nil
}

// window reads a file forward in large pieces.
type window struct {
	file   file
	size   int64
	buffer []byte
	start  int64
	filled int
}

// at returns up to n bytes at an offset; fewer where the file ends.
func (w *window) at(off int64, n int) ([]byte, error) {
	if off < w.start || off+int64(n) > w.start+int64(w.filled) {
		read, err := w.file.ReadAt(w.buffer[:min(int64(len(w.buffer)), max(0, w.size-off))], off)
		if err != nil && err != io.EOF {
			return nil, err
		}
		w.start, w.filled = off, read
	}
	b := w.buffer[off-w.start : w.filled]
	return b[:min(n, len(b))], nil
}

// headerAt reports whether a whole record begins at an offset.
func (w *window) headerAt(id segmentID, off int64) (header, bool, error) {
	b, err := w.at(off, headerSize)
	if err != nil {
		return header{}, false, err
	}
	h, err := parseHeader(b, id, off)
	return h, err == nil && off+h.size() <= w.size, nil
}

// gap finds where the gap that begins at an offset ends.
func (w *window) gap(id segmentID, from int64) (item, error) {
	i := item{isGap: true, from: from, to: from, zero: true}
	for i.to < w.size {
		b, err := w.at(i.to, headerSize)
		if err != nil {
			return i, err
		}
		if !isZero(b) {
			_, ok, err := w.headerAt(id, i.to)
			if err != nil || ok {
				return i, err
			}
			i.zero = false
		}
		i.to = min(i.to+recordAlign, w.size)
	}
	i.tail = true
	return i, nil
}

// body is what a record holds behind its header.
type body struct {
	name  string
	named bool // the name agrees with its checksum
	whole bool // the data too, and with the hash that a sealed blob's name is
	zero  bool // zeros only
}

// readBody reads a record's name and data and checks them.
func readBody(f file, h header, buffer []byte) (body, error) {
	name := make([]byte, h.nameLen)
	if _, err := f.ReadAt(name, h.offset+headerSize); err != nil {
		return body{}, err
	}
	b := body{name: string(name), named: checksum(name) == h.nameSum, zero: isZero(name) && h.nameSum|h.dataSum == 0}
	b.named = b.named && backends.CheckName(b.name) == nil
	parts, isBlob := backends.ParseBlobName(b.name)
	sum, sha := crc32.New(crc32.MakeTable(crc32.Castagnoli)), sha256.New()
	for at, left := h.offset+headerSize+int64(h.nameLen), h.dataLen; left > 0; {
		piece := buffer[:min(int64(len(buffer)), left)]
		if _, err := f.ReadAt(piece, at); err != nil {
			return body{}, err
		}
		_, _ = sum.Write(piece)
		if isBlob {
			_, _ = sha.Write(piece)
		}
		b.zero = b.zero && isZero(piece)
		at, left = at+int64(len(piece)), left-int64(len(piece))
	}
	b.whole = b.named && sum.Sum32() == h.dataSum && (!isBlob || parts.Ref == [sha256.Size]byte(sha.Sum(nil)))
	b.name = strings.Clone(b.name)
	return b, nil
}
