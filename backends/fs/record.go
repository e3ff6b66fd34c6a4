package fs

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
)

// A record starts at a multiple of 64 bytes and is padded with zeros to one:
//
//	 0  "BLOBDREC" while live, "BLOBDDEL" once erased
//	 8  segment id, u64
//	16  offset of the record in the segment, u64
//	24  batch, u32: records of one batch became durable together
//	28  length of the name, u16
//	30  format, u16: 1
//	32  length of the data, u64
//	40  time of writing, microseconds since 1970 UTC, i64
//	48  CRC-32C of the name, u32
//	52  CRC-32C of the data, u32
//	56  CRC-32C of bytes 8 to 47, u32
//	60  zeros
//	64  name, data, padding
//
// Integers are big-endian. Segment id and offset make a header valid in its own
// place only, so that no bytes of an object can pose as one. The first word lies
// in one sector and changes as a whole: erasing a record first makes that change
// durable and then overwrites bytes 48 to 55 and everything from 64 on. The
// lengths stay, and with them the way to the next record.
const (
	headerSize  = 64
	recordAlign = 64
	maxName     = 255
	// maxData bounds an object, in bytes.
	maxData = 1 << 30

	sumsAt    = 48
	sumsSize  = 8
	liveWord  = "BLOBDREC"
	deadWord  = "BLOBDDEL"
	wordSize  = 8
	formatOne = 1
)

// header is a record's header.
type header struct {
	live    bool
	segment segmentID
	offset  int64
	batch   uint32
	nameLen int
	dataLen int64
	written int64 // microseconds since 1970 UTC
	nameSum uint32
	dataSum uint32
}

// size is the length of the whole record in its segment.
func (h header) size() int64 { return recordSize(h.nameLen, h.dataLen) }

func (h header) modified() time.Time { return time.UnixMicro(h.written).UTC() }

func recordSize(nameLen int, dataLen int64) int64 {
	return alignUp(headerSize + int64(nameLen) + dataLen)
}

func alignUp(n int64) int64 { return (n + recordAlign - 1) &^ (recordAlign - 1) }

var errHeader = fmt.Errorf("record header is damaged: %w", blobd.ErrCorrupt)

// encodeBody fills a record of recordSize bytes except for what place fills. b
// may hold anything before.
func encodeBody(b []byte, name string, data []byte, written int64) {
	clear(b[:headerSize])
	copy(b, liveWord)
	binary.BigEndian.PutUint16(b[28:], uint16(len(name)))
	binary.BigEndian.PutUint16(b[30:], formatOne)
	binary.BigEndian.PutUint64(b[32:], uint64(len(data)))
	binary.BigEndian.PutUint64(b[40:], uint64(written))
	n := headerSize + copy(b[headerSize:], name)
	binary.BigEndian.PutUint32(b[48:], checksum(b[headerSize:n]))
	binary.BigEndian.PutUint32(b[52:], checksum(data))
	clear(b[n+copy(b[n:], data):])
}

// place gives an encoded record its place, the last thing that its header says.
func placeRecord(b []byte, segment segmentID, offset int64, batch uint32) {
	binary.BigEndian.PutUint64(b[8:], uint64(segment))
	binary.BigEndian.PutUint64(b[16:], uint64(offset))
	binary.BigEndian.PutUint32(b[24:], batch)
	binary.BigEndian.PutUint32(b[56:], checksum(b[wordSize:sumsAt]))
}

// parseHeader reads the header of a record at a place. Anything but a header
// that was written for that place is errHeader.
func parseHeader(b []byte, segment segmentID, offset int64) (header, error) {
	if len(b) < headerSize {
		return header{}, errHeader
	}
	word := string(b[:wordSize])
	h := header{
		live:    word == liveWord,
		segment: segmentID(binary.BigEndian.Uint64(b[8:])),
		offset:  int64(binary.BigEndian.Uint64(b[16:])),
		batch:   binary.BigEndian.Uint32(b[24:]),
		nameLen: int(binary.BigEndian.Uint16(b[28:])),
		dataLen: int64(binary.BigEndian.Uint64(b[32:])),
		written: int64(binary.BigEndian.Uint64(b[40:])),
		nameSum: binary.BigEndian.Uint32(b[48:]),
		dataSum: binary.BigEndian.Uint32(b[52:]),
	}
	ok := (h.live || word == deadWord) &&
		binary.BigEndian.Uint32(b[56:]) == checksum(b[wordSize:sumsAt]) &&
		binary.BigEndian.Uint16(b[30:]) == formatOne &&
		binary.BigEndian.Uint32(b[60:]) == 0 &&
		h.segment == segment && h.offset == offset &&
		h.nameLen >= 1 && h.nameLen <= maxName && h.dataLen >= 0 && h.dataLen <= maxData
	if !ok {
		return header{}, errHeader
	}
	return h, nil
}

// checksum is CRC-32C, which the processor computes.
func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// provesItself reports whether name is a sealed blob's and data is what it names.
func provesItself(name string, data []byte) bool {
	parts, ok := backends.ParseBlobName(name)
	return ok && parts.Ref == sha256.Sum256(data)
}
