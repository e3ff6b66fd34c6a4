package local

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/blobd/blobd"
)

// classify gives a file operation's error its place in the closed set. A
// missing keyring is a missing key and never an empty keyring. What is not
// listed stays unclassified.
func classify(what string, err error) error {
	if err == nil {
		return nil
	}
	if kind := kindOf(err); kind != nil {
		return fmt.Errorf("%s: %w: %w", what, kind, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

func kindOf(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return blobd.ErrKeyMissing
	case errors.Is(err, fs.ErrPermission):
		return blobd.ErrDenied
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT),
		errors.Is(err, syscall.EROFS), errors.Is(err, syscall.EIO),
		errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return blobd.ErrUnavailable
	}
	return nil
}
