package local

import (
	"io"
	"os"
)

const (
	dirMode  = 0o700
	fileMode = 0o600
)

// disk is every operation on the keyring's files whose failure matters.
type disk interface {
	// Create makes a file that must not exist yet, with mode 0600.
	Create(path string) (file, error)
	Rename(from, to string) error
	Remove(path string) error
	// SyncDir makes the names in a directory durable.
	SyncDir(path string) error
	Read(path string) ([]byte, error)
}

type file interface {
	io.WriteCloser
	// Sync makes the content durable.
	Sync() error
}

type osDisk struct{}

func (osDisk) Create(path string) (file, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
}

func (osDisk) Rename(from, to string) error     { return os.Rename(from, to) }
func (osDisk) Remove(path string) error         { return os.Remove(path) }
func (osDisk) Read(path string) ([]byte, error) { return os.ReadFile(path) }

func (osDisk) SyncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	if err := d.Sync(); err != nil {
		_ = d.Close()
		return err
	}
	return d.Close()
}
