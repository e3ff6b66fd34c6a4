package fs

import (
	"bytes"
	"slices"
	"testing"
)

func encoded(name string, data []byte, id segmentID, offset int64) []byte {
	b := bytes.Repeat([]byte{0xee}, int(recordSize(len(name), int64(len(data))))) // a used buffer
	encodeBody(b, name, data, 1234567)
	placeRecord(b, id, offset, 9)
	return b
}

func TestARecordSaysWhatWasEncoded(t *testing.T) {
	for _, n := range []int{0, 1, 55, 56, 57, 64, 8192} {
		data := bytes.Repeat([]byte{7}, n)
		b := encoded("tenant/name", data, 42, 640)
		if len(b)%recordAlign != 0 {
			t.Fatalf("%d bytes", len(b))
		}
		h, err := parseHeader(b, 42, 640)
		want := header{
			live: true, segment: 42, offset: 640, batch: 9, nameLen: 11, dataLen: int64(n), written: 1234567,
			nameSum: checksum([]byte("tenant/name")), dataSum: checksum(data),
		}
		if err != nil || h != want {
			t.Fatalf("%+v, %v", h, err)
		}
		body := headerSize + 11 + n
		if !bytes.Equal(b[headerSize+11:body], data) || !isZero(b[body:]) {
			t.Fatal("data and padding")
		}
	}
}

func TestAHeaderHoldsInItsOwnPlaceOnly(t *testing.T) {
	b := encoded("a/b", []byte("data"), 42, 640)
	for name, c := range map[string]struct {
		id     segmentID
		offset int64
	}{"another segment": {43, 640}, "another offset": {42, 704}} {
		if _, err := parseHeader(b, c.id, c.offset); err == nil {
			t.Error(name)
		}
	}
}

func TestEveryFlippedBitOfAHeaderIsSeen(t *testing.T) {
	good := encoded("a/b", []byte("data"), 42, 640)
	want, err := parseHeader(good, 42, 640)
	if err != nil {
		t.Fatal(err)
	}
	for bit := range headerSize * 8 {
		b := slices.Clone(good)
		b[bit/8] ^= 1 << (bit % 8)
		h, err := parseHeader(b, 42, 640)
		if err != nil {
			continue
		}
		// Only the sums of name and data may differ: they are checked against those.
		if at := bit / 8; at < sumsAt || at >= sumsAt+sumsSize || h == want {
			t.Errorf("bit %d: %+v", bit, h)
		}
	}
}

// FuzzRecord: what parses re-encodes to itself, and no input reads beyond it.
func FuzzRecord(f *testing.F) {
	f.Add(encoded("a/b", []byte("data"), 42, 640))
	f.Add(deadHeader(named{"a/b", location{42, 640, 9}}))
	f.Add(make([]byte, 63))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := parseHeader(b, 42, 640)
		if err != nil {
			return
		}
		if h.size() < headerSize+1 || h.size() > alignUp(headerSize+maxName+maxData) || h.size()%recordAlign != 0 {
			t.Fatalf("size %d", h.size())
		}
		again := slices.Clone(b[:headerSize])
		placeRecord(again, h.segment, h.offset, h.batch)
		if !bytes.Equal(again, b[:headerSize]) {
			t.Fatal("re-encodes to something else")
		}
	})
}

func FuzzIndexEntry(f *testing.F) {
	n := named{"a/b", location{42, 640, 9}}
	f.Add(encodeKey(n), encodeLength(n.location))
	f.Fuzz(func(t *testing.T, k, v []byte) {
		n, err := decodeEntry(k, v)
		if err == nil && !bytes.Equal(encodeKey(n), k) {
			t.Fatalf("%+v re-encodes to something else", n)
		}
	})
}
