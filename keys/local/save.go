package local

import (
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/blobd/blobd/keys/internal/kek"
)

// keyfile is the keyring's file and the steps of replacing it.
type keyfile struct {
	path string
	disk disk
}

func (k keyfile) temp() string { return k.path + ".tmp" }

// save replaces the file: a temporary file, synced, renamed over it, and the
// directory synced. A crash at any step leaves the old file or the new one,
// whole. On nil the new one is durable; on an error either may be there, and no
// key that only the new one holds was used.
func (k keyfile) save(set kek.Set) error {
	content, err := encode(set)
	if err != nil {
		return err
	}
	defer clear(content)
	if err := k.removeTemp(); err != nil {
		return err
	}
	if err := k.writeTemp(content); err != nil {
		// What is left of it is removed by the next save or open.
		_ = k.removeTemp()
		return err
	}
	if err := k.disk.Rename(k.temp(), k.path); err != nil {
		_ = k.removeTemp()
		return classify("replace keyring", err)
	}
	return k.syncDir()
}

func (k keyfile) syncDir() error {
	return classify("sync keyring's directory", k.disk.SyncDir(filepath.Dir(k.path)))
}

func (k keyfile) writeTemp(content []byte) error {
	f, err := k.disk.Create(k.temp())
	if err != nil {
		return classify("create keyring", err)
	}
	if _, err := f.Write(content); err != nil {
		_ = f.Close()
		return classify("write keyring", err)
	}
	if err := f.Sync(); err != nil {
		_ = f.Close()
		return classify("sync keyring", err)
	}
	return classify("close keyring", f.Close())
}

// removeTemp removes what a crash or a failed save has left.
func (k keyfile) removeTemp() error {
	err := k.disk.Remove(k.temp())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return classify("remove an unfinished keyring", err)
}

func (k keyfile) load() (kek.Set, error) {
	content, err := k.disk.Read(k.path)
	if err != nil {
		return kek.Set{}, classify("read keyring", err)
	}
	defer clear(content)
	return decode(content)
}
