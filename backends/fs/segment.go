package fs

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/blobd/blobd"
)

// place is where a record lies.
type place struct {
	segment uint64
	offset  int64
	dataLen int64
	written int64 // microseconds since 1970 UTC
}

// file is what a segment needs of an open file; tests put faults in between.
type file interface {
	io.ReaderAt
	io.WriterAt
	Truncate(size int64) error
	Sync() error
	GiveBack(from, size int64) error
	Size() (int64, error)
	Close() error
}

// osFile is a file of the operating system.
type osFile struct{ *os.File }

func (f osFile) Sync() error                     { return syncData(f.File) }
func (f osFile) GiveBack(from, size int64) error { return giveBack(f.File, from, size) }
func (f osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

const segmentSuffix = ".seg"

func segmentName(n uint64) string { return fmt.Sprintf("%016x%s", n, segmentSuffix) }

// parseSegmentName accepts exactly what segmentName makes.
func parseSegmentName(name string) (uint64, bool) {
	digits, ok := strings.CutSuffix(name, segmentSuffix)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 16, 64)
	return n, err == nil && segmentName(n) == name
}

// openRegular opens a file of the root that is neither a link nor a device.
func openRegular(root *os.Root, name string, flag int) (file, error) {
	f, err := root.OpenFile(name, flag|notThroughLinks, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file: %w", name, blobd.ErrCorrupt)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return osFile{f}, nil
}

// readRecord returns the data of the live record of a name. A record that was
// erased is ErrNotFound; one that is not what the index says is ErrCorrupt.
func readRecord(f file, p place, name string) ([]byte, error) {
	b := make([]byte, headerSize+int64(len(name))+p.dataLen)
	if _, err := f.ReadAt(b, p.offset); err != nil {
		return nil, err
	}
	h, err := parseHeader(b)
	switch {
	case err != nil:
		return nil, err
	case h.dataLen != p.dataLen || h.nameLen != len(name):
		return nil, fmt.Errorf("another record lies there: %w", blobd.ErrCorrupt)
	case !h.live:
		return nil, fmt.Errorf("erased: %w", blobd.ErrNotFound)
	case string(b[headerSize:headerSize+len(name)]) != name:
		return nil, fmt.Errorf("another name lies there: %w", blobd.ErrCorrupt)
	}
	return b[headerSize+len(name):], nil
}

// isLive reports whether a record's word LIVE still stands.
func isLive(f file, p place) (bool, error) {
	var b [headerSize]byte
	if _, err := f.ReadAt(b[:], p.offset); err != nil {
		return false, err
	}
	h, err := parseHeader(b[:])
	return h.live, err
}

// zeros is what erased bytes are overwritten with. Nobody writes to it.
var zeros [64 << 10]byte

// overwrite fills a range with zeros.
func overwrite(f file, from, size int64) error {
	for size > 0 {
		n, err := f.WriteAt(zeros[:min(size, int64(len(zeros)))], from)
		if err != nil {
			return err
		}
		from, size = from+int64(n), size-int64(n)
	}
	return nil
}

// readsAsZeros reports whether a range was overwritten, by reading it back.
func readsAsZeros(f file, from, size int64, buffer []byte) (bool, error) {
	for size > 0 {
		b := buffer[:min(size, int64(len(buffer)))]
		if _, err := f.ReadAt(b, from); err != nil {
			return false, err
		}
		for _, c := range b {
			if c != 0 {
				return false, nil
			}
		}
		from, size = from+int64(len(b)), size-int64(len(b))
	}
	return true, nil
}
