package fs

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/blobd/blobd"
)

// A segment is a file of records, one after the other:
//
//	 0  magic "BSR1"
//	 4  length of the name, 1 byte; 3 zero bytes
//	 8  length of the data, u64
//	16  time of writing, microseconds since 1970 UTC, u64
//	24  CRC-32C of bytes 0 to 23
//	28  "LIVE", or zeros once erased
//	32  CRC-32C of the name, u32
//	36  CRC-32C of the data, u32
//	40  the name, then the data
//
// Integers are big-endian. To erase a record, first everything from byte 32 on
// is overwritten with zeros and made durable, then the word LIVE: so a record
// that is not live holds nothing, and one that lost its name but is still live
// was being erased. The lengths stay, so that its neighbours can be found.
const (
	headerSize = 40
	liveAt     = 28
	blankFrom  = 32
	maxName    = 255
	// maxData bounds what a header may claim: far above any blob.
	maxData = 1 << 32
)

const (
	recordMagic = "BSR1"
	liveWord    = "LIVE"
)

// header is a record's header.
type header struct {
	nameLen  int
	dataLen  int64
	written  int64 // microseconds since 1970 UTC
	live     bool
	nameHash uint32
	dataHash uint32
}

// size is the length of the whole record.
func (h header) size() int64 { return headerSize + int64(h.nameLen) + h.dataLen }

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encodeRecord makes a live record in memory of its own.
func encodeRecord(name string, data []byte, written int64) []byte {
	b := make([]byte, headerSize+len(name)+len(data))
	copy(b, recordMagic)
	b[4] = byte(len(name))
	binary.BigEndian.PutUint64(b[8:], uint64(len(data)))
	binary.BigEndian.PutUint64(b[16:], uint64(written))
	binary.BigEndian.PutUint32(b[24:], checksum(b[:24]))
	copy(b[liveAt:], liveWord)
	binary.BigEndian.PutUint32(b[32:], checksum([]byte(name)))
	binary.BigEndian.PutUint32(b[36:], checksum(data))
	copy(b[headerSize:], name)
	copy(b[headerSize+len(name):], data)
	return b
}

// parseHeader reads a header, or is ErrCorrupt.
func parseHeader(b []byte) (header, error) {
	if len(b) < headerSize || string(b[:4]) != recordMagic {
		return header{}, errHeader
	}
	h := header{
		nameLen:  int(b[4]),
		dataLen:  int64(binary.BigEndian.Uint64(b[8:])),
		written:  int64(binary.BigEndian.Uint64(b[16:])),
		live:     string(b[liveAt:blankFrom]) == liveWord,
		nameHash: binary.BigEndian.Uint32(b[32:]),
		dataHash: binary.BigEndian.Uint32(b[36:]),
	}
	switch {
	case binary.BigEndian.Uint32(b[24:]) != checksum(b[:24]),
		b[5]|b[6]|b[7] != 0, h.nameLen == 0, h.dataLen < 0, h.dataLen > maxData:
		return header{}, errHeader
	}
	return h, nil
}

var errHeader = fmt.Errorf("record header: %w", blobd.ErrCorrupt)

// headerWritten returns the time of writing of an encoded record.
func headerWritten(record []byte) int64 { return int64(binary.BigEndian.Uint64(record[16:])) }
