package fs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"

	"github.com/blobd/blobd"
)

// classify names the operation and, where err is an operating system's, its
// place in the closed set. None is ever ErrNotFound: absence is the index's to
// say, and a segment file that is not there is a loss, not an absence.
func classify(op string, err error) error {
	if err == nil {
		return nil
	}
	if kind := kindOf(err); kind != nil && !errors.Is(err, kind) {
		return fmt.Errorf("fs: %s: %w: %w", op, kind, err)
	}
	return fmt.Errorf("fs: %s: %w", op, err)
}

// kindOf returns nil for what it does not know and for what is classified.
func kindOf(err error) error {
	for _, known := range []error{
		blobd.ErrNotFound, blobd.ErrCorrupt, blobd.ErrInvalid, blobd.ErrTooLarge, blobd.ErrUnavailable, blobd.ErrConflict,
	} {
		if errors.Is(err, known) {
			return nil
		}
	}
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return blobd.ErrCorrupt // a file shorter than what was written to it
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return blobd.ErrUnavailable
	case errors.Is(err, fs.ErrPermission):
		return blobd.ErrUnavailable
	}
	for _, no := range []syscall.Errno{
		syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG, syscall.EIO, syscall.EROFS, syscall.EMFILE, syscall.ENFILE,
		syscall.ENOMEM, syscall.ESTALE, syscall.EAGAIN, syscall.EINTR,
	} {
		if errors.Is(err, no) {
			return blobd.ErrUnavailable
		}
	}
	return nil
}
