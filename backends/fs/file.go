package fs

import (
	"fmt"
	"io"
	"os"

	"github.com/blobd/blobd"
)

// file is what the store needs of an open segment. Tests put faults in between.
type file interface {
	io.ReaderAt
	io.WriterAt
	// WriteVectors writes buffers one after the other from off on. After an
	// error any part of them may be written. The slice of buffers is used up.
	WriteVectors(buffers [][]byte, off int64) error
	Truncate(size int64) error
	// Sync makes everything written to the file durable.
	Sync() error
	// GiveBack frees the space of a range, which reads as zeros from then on.
	GiveBack(from, size int64) error
	// Forget asks that the next read of a range comes from the device.
	Forget(from, size int64)
	Size() (int64, error)
	Close() error
}

// diskFile is a file of the operating system.
type diskFile struct{ *os.File }

func (f diskFile) WriteVectors(buffers [][]byte, off int64) error {
	return writeVectors(f.File, buffers, off)
}
func (f diskFile) Sync() error                     { return syncData(f.File) }
func (f diskFile) GiveBack(from, size int64) error { return giveBack(f.File, from, size) }
func (f diskFile) Forget(from, size int64)         { forget(f.File, from, size) }
func (f diskFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// openRegular opens a file below root that is neither a link nor a device nor a
// folder.
func openRegular(root *os.Root, name string, flag int) (*os.File, error) {
	info, err := root.Lstat(name)
	if err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file: %w", name, blobd.ErrCorrupt)
	}
	f, err := root.OpenFile(name, flag|noFollow, 0o600)
	if err != nil {
		return nil, err
	}
	// What was opened counts, not what lay there a moment before.
	info, err = f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file: %w", name, blobd.ErrCorrupt)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// syncFolder makes the entries of a folder below root durable.
func syncFolder(root *os.Root, name string) error {
	d, err := root.Open(name)
	if err != nil {
		return err
	}
	err = d.Sync()
	if closeErr := d.Close(); err == nil {
		err = closeErr
	}
	return err
}

// skip drops n written bytes from the front of buffers.
func skip(buffers [][]byte, n int) [][]byte {
	for n > 0 && n >= len(buffers[0]) {
		n -= len(buffers[0])
		buffers = buffers[1:]
	}
	if n > 0 {
		buffers[0] = buffers[0][n:]
	}
	return buffers
}

// zeroChunk is how much is overwritten or preallocated by one system call.
const zeroChunk = 1 << 20

// newZeros returns what to overwrite with. Nobody writes to it.
func newZeros() []byte { return make([]byte, zeroChunk) }

// overwrite fills a range with zeros.
func overwrite(f file, from, size int64, zeros []byte) error {
	for size > 0 {
		n, err := f.WriteAt(zeros[:min(size, int64(len(zeros)))], from)
		if err != nil {
			return err
		}
		from, size = from+int64(n), size-int64(n)
	}
	return nil
}

// isZero reports whether b is zeros only.
func isZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}
