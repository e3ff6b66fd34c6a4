package fs

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// noFollow is the open flag that refuses a symbolic link.
const noFollow = unix.O_NOFOLLOW

// maxVectors is how many buffers one system call takes.
const maxVectors = 1024

// writeVectors writes buffers one after the other from off on. The slice of
// buffers is used up.
func writeVectors(f *os.File, buffers [][]byte, off int64) error {
	for len(buffers) > 0 {
		n, err := unix.Pwritev(int(f.Fd()), buffers[:min(len(buffers), maxVectors)], off)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return &os.PathError{Op: "pwritev", Path: f.Name(), Err: err}
		}
		if n == 0 {
			return io.ErrShortWrite
		}
		off += int64(n)
		buffers = skip(buffers, n)
	}
	return nil
}

// syncData makes a file's bytes durable, and what is needed to read them.
func syncData(f *os.File) error {
	for {
		err := unix.Fdatasync(int(f.Fd()))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return &os.PathError{Op: "fdatasync", Path: f.Name(), Err: err}
		}
		return nil
	}
}

// giveBack returns the blocks of a range to the filesystem; the range reads as
// zeros. A filesystem that cannot do that keeps its blocks.
func giveBack(f *os.File, from, size int64) error {
	err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, from, size)
	if err == nil || errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.ENOSYS) {
		return nil
	}
	return &os.PathError{Op: "fallocate", Path: f.Name(), Err: err}
}

// forget asks that the next read of a range comes from the device. It is only
// advice, so a failure says nothing.
func forget(f *os.File, from, size int64) {
	_ = unix.Fadvise(int(f.Fd()), from, size, unix.FADV_DONTNEED)
}
