package fs

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// syncData makes a file's bytes durable, and of its metadata what is needed to
// read them.
func syncData(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// giveBack returns the blocks of an overwritten range to the filesystem, which
// reads as zeros from then on. A filesystem that cannot keeps the zeros.
func giveBack(f *os.File, from, size int64) error {
	err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, from, size)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return nil
	}
	return err
}

// notThroughLinks is the open flag that refuses a symbolic link.
const notThroughLinks = unix.O_NOFOLLOW
