package seal

import (
	"bytes"
	"encoding/binary"
)

const (
	magic      = "BLOBSEAL"
	version1   = 1
	suite1     = 1 // AES-256-GCM, HKDF-SHA-256
	prefixSize = 12
	headerSize = 72
	nonceSize  = 12
	tagSize    = 16
)

// MaxContent is the greatest content, in bytes: 1 GiB.
const MaxContent = 1 << 30

// Header is the clear part of a sealed blob. Parse vouches for its form only;
// who may trust its values is what Open decides.
type Header struct {
	Version, Suite uint8
	KeyID          [16]byte
	MetadataLength uint32 // bytes
	ContentLength  uint64 // bytes
	Commitment     [32]byte
}

// Parse reads the header of sealed bytes, which must be one whole blob: the
// lengths in the header account for every byte. It needs no key. Every failure
// is a *CorruptError.
func Parse(sealed []byte) (Header, error) { return parse("parse", sealed) }

func parse(op string, sealed []byte) (Header, error) {
	n := min(len(sealed), len(magic))
	switch {
	case !bytes.Equal(sealed[:n], []byte(magic)[:n]):
		return Header{}, corrupt(op, ReasonMagic)
	case len(sealed) < prefixSize:
		return Header{}, corrupt(op, ReasonTruncated)
	case sealed[8] != version1:
		return Header{}, corrupt(op, ReasonVersion)
	case sealed[9] != suite1:
		return Header{}, corrupt(op, ReasonSuite)
	case sealed[10] != 0 || sealed[11] != 0:
		return Header{}, corrupt(op, ReasonReserved)
	case len(sealed) < headerSize:
		return Header{}, corrupt(op, ReasonTruncated)
	}
	h := Header{
		Version:        sealed[8],
		Suite:          sealed[9],
		KeyID:          [16]byte(sealed[12:28]),
		MetadataLength: binary.BigEndian.Uint32(sealed[28:32]),
		ContentLength:  binary.BigEndian.Uint64(sealed[32:40]),
		Commitment:     [32]byte(sealed[40:72]),
	}
	switch {
	case h.MetadataLength < minMetadata || h.MetadataLength > maxMetadata || h.ContentLength > MaxContent:
		return Header{}, corrupt(op, ReasonLengths)
	case len(sealed) < h.sealedLen():
		return Header{}, corrupt(op, ReasonTruncated)
	case len(sealed) > h.sealedLen():
		return Header{}, corrupt(op, ReasonTrailing)
	}
	return h, nil
}

// sealedLen cannot overflow: both lengths are within their limits.
func (h Header) sealedLen() int {
	return headerSize + int(h.MetadataLength) + int(h.ContentLength) + tagSize
}

func (h Header) append(b []byte) []byte {
	b = append(b, magic...)
	b = append(b, h.Version, h.Suite, 0, 0)
	b = append(b, h.KeyID[:]...)
	b = binary.BigEndian.AppendUint32(b, h.MetadataLength)
	b = binary.BigEndian.AppendUint64(b, h.ContentLength)
	return append(b, h.Commitment[:]...)
}
