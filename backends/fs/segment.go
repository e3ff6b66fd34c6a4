package fs

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/blobd/blobd"
)

// segmentID names a segment: its number in the order of creation in the upper 32
// bits, and 32 random bits, so that two runs that start from the same folder
// never write the same file.
type segmentID uint64

func (s segmentID) number() uint32 { return uint32(s >> 32) }

// A segment begins with 64 bytes:
//
//	 0  "BLOBDSEG"
//	 8  segment id, u64
//	16  format, u32: 1
//	20  CRC-32C of bytes 0 to 19, u32
//	24  number of erasures that touched the segment, u64
//	32  length of the segment if it was closed whole, else 0, u64
//	40  zeros
//
// The number of erasures is in the index too. Where the two differ, one of them
// is older than the other, and the segment is scanned anew.
const (
	segmentWord   = "BLOBDSEG"
	segmentStart  = headerSize // offset of the first record
	erasuresAt    = 24
	closedAt      = 32
	segmentFolder = "segments"
	segmentSuffix = ".seg"
)

func (s segmentID) path() string {
	return path.Join(segmentFolder, fmt.Sprintf("%016x%s", uint64(s), segmentSuffix))
}

// parseSegmentName accepts exactly the base of what path makes.
func parseSegmentName(name string) (segmentID, bool) {
	digits, ok := strings.CutSuffix(name, segmentSuffix)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 16, 64)
	id := segmentID(n)
	return id, err == nil && path.Base(id.path()) == name
}

// segmentHeader is what a segment says of itself.
type segmentHeader struct {
	erasures uint64
	closed   int64
	whole    bool // false: the header is damaged, or was never written whole
}

func encodeSegmentHeader(id segmentID) []byte {
	b := make([]byte, segmentStart)
	copy(b, segmentWord)
	binary.BigEndian.PutUint64(b[8:], uint64(id))
	binary.BigEndian.PutUint32(b[16:], formatOne)
	binary.BigEndian.PutUint32(b[20:], checksum(b[:20]))
	return b
}

func readSegmentHeader(f file, id segmentID) (segmentHeader, error) {
	b := make([]byte, segmentStart)
	if _, err := f.ReadAt(b, 0); err == io.EOF {
		return segmentHeader{}, nil
	} else if err != nil {
		return segmentHeader{}, err
	}
	return segmentHeader{
		erasures: binary.BigEndian.Uint64(b[erasuresAt:]),
		closed:   int64(binary.BigEndian.Uint64(b[closedAt:])),
		whole:    string(b[:erasuresAt]) == string(encodeSegmentHeader(id)[:erasuresAt]),
	}, nil
}

// writeUint64 sets one of the numbers that change in a segment's header.
func writeUint64(f file, at int64, n uint64) error {
	_, err := f.WriteAt(binary.BigEndian.AppendUint64(nil, n), at)
	return err
}

// location is where a record lies.
type location struct {
	segment segmentID
	offset  int64
	dataLen int64
}

// named is a record that the index knows.
type named struct {
	name string
	location
}

func (n named) size() int64 { return recordSize(len(n.name), n.dataLen) }

// fate is what became of a record that the index knows.
type fate int

const (
	live    fate = iota
	dead         // erased; its bytes may still have to be overwritten
	damaged      // something else, or half of something, lies there
)

// readRecord reads a whole record with one system call and judges it. data is
// nil unless the fate is live.
func readRecord(f file, n named) (fate, header, []byte, error) {
	b := make([]byte, headerSize+int64(len(n.name))+n.dataLen)
	if _, err := f.ReadAt(b, n.offset); err == io.EOF {
		return damaged, header{}, nil, nil
	} else if err != nil {
		return damaged, header{}, nil, err
	}
	what, h := judge(b, n)
	if what != live {
		return what, h, nil, nil
	}
	data := b[headerSize+len(n.name):]
	if checksum(data) == h.dataSum {
		return live, h, data, nil
	}
	// An erasure may have begun between the copying of the header and of the data.
	what, h, err := readHeader(f, n)
	if what == live {
		what = damaged
	}
	return what, h, nil, err
}

// readHeader reads and judges a record without its data.
func readHeader(f file, n named) (fate, header, error) {
	b := make([]byte, headerSize+len(n.name))
	if _, err := f.ReadAt(b, n.offset); err == io.EOF {
		return damaged, header{}, nil
	} else if err != nil {
		return damaged, header{}, err
	}
	what, h := judge(b, n)
	return what, h, nil
}

// judge compares a header and name as read with what the index says.
func judge(b []byte, n named) (fate, header) {
	h, err := parseHeader(b, n.segment, n.offset)
	switch {
	case err != nil || h.nameLen != len(n.name) || h.dataLen != n.dataLen:
		return damaged, header{}
	case !h.live:
		return dead, h
	case string(b[headerSize:headerSize+len(n.name)]) != n.name:
		return damaged, header{}
	}
	return live, h
}

// createSegment makes a segment and its entry in the folder durable.
func createSegment(root *os.Root, id segmentID, wrap func(segmentID, file) file) (file, error) {
	opened, err := root.OpenFile(id.path(), os.O_CREATE|os.O_EXCL|os.O_RDWR|noFollow, 0o600)
	if err != nil {
		return nil, err
	}
	f := wrap(id, diskFile{opened})
	if _, err = f.WriteAt(encodeSegmentHeader(id), 0); err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = syncFolder(root, segmentFolder)
	}
	if err != nil {
		_ = f.Close()
		_ = root.Remove(id.path()) // it holds nothing; the next open removes it too
		return nil, err
	}
	return f, nil
}

// segmentIDs lists the segments in the order of their creation.
func segmentIDs(root *os.Root) ([]segmentID, error) {
	d, err := root.Open(segmentFolder)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	entries, err := d.ReadDir(-1)
	if err != nil {
		return nil, err
	}
	var ids []segmentID
	for _, e := range entries {
		id, ok := parseSegmentName(e.Name())
		if !ok {
			continue
		}
		if !e.Type().IsRegular() {
			return nil, fmt.Errorf("%s is no regular file: %w", id.path(), blobd.ErrCorrupt)
		}
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids, nil
}
