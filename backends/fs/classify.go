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

// classify says an error of the operating system in the closed set. Only
// ENOENT, met below the opened root, is an absence; what is not named here stays
// unclassified.
func classify(op string, err error) error {
	if err == nil {
		return nil
	}
	for _, known := range []error{
		blobd.ErrNotFound, blobd.ErrCorrupt, blobd.ErrInvalid, blobd.ErrUnavailable, blobd.ErrConflict,
	} {
		if errors.Is(err, known) {
			return fmt.Errorf("fs: %s: %w", op, err)
		}
	}
	kind := kindOf(err)
	if kind == nil {
		return fmt.Errorf("fs: %s: %w", op, err)
	}
	return fmt.Errorf("fs: %s: %w: %w", op, kind, err)
}

func kindOf(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return blobd.ErrNotFound
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return blobd.ErrCorrupt // shorter than its own header says
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return blobd.ErrUnavailable
	case errors.Is(err, fs.ErrPermission):
		return blobd.ErrDenied
	}
	for _, no := range []syscall.Errno{
		syscall.ENOSPC, syscall.EDQUOT, syscall.EIO, syscall.EROFS, syscall.EMFILE, syscall.ENFILE,
		syscall.ENOMEM, syscall.ESTALE, syscall.EAGAIN, syscall.EINTR, syscall.ENOTDIR, syscall.ELOOP,
	} {
		if errors.Is(err, no) {
			return blobd.ErrUnavailable
		}
	}
	return nil
}
