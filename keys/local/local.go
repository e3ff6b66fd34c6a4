// Package local is a key service in one file on this machine, for a single
// process.
//
// It promises that a KEK is durable before anything is wrapped by it, that a
// crash leaves the old file or the new one whole, that two processes never
// share a keyring, and that a missing, damaged or unknown keyring is an error
// and never an empty one.
//
// It does not promise what a file system cannot: after Trim and Destroy the
// file no longer holds the key, but the blocks of the file before it may stay
// on the disk until they are used again, and so may copies that a snapshot or a
// backup took. Where that matters, keep the keyring on an encrypted volume, out
// of the backups of the data that it protects, or use another key service.
// Encoding the file also leaves copies of keys in this process's memory that Go
// cannot wipe.
package local

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/keys/internal/kek"
)

// Options tune Open. The zero value opens a keyring that must exist.
type Options struct {
	// Create makes the directory and an empty keyring where there is none. Set
	// it only when the ledger is new too: to a ledger in use, a new keyring is
	// the loss of every key.
	Create bool
	// Random is a cryptographic source for KEKs; nil: crypto/rand.
	Random io.Reader
	// Now stamps new versions; nil: time.Now.
	Now func() time.Time
}

// Keyring is a keys.Keyring. Close it.
type Keyring struct {
	*kek.Ring
	path string
	lock *flock.Flock
}

// Open opens the keyring at path, and locks it by the file path + ".lock"
// beside it, which stays there. Without a keyring and without Create it is
// ErrKeyMissing. A directory or file that group or others may use, a link, or
// a special file is ErrDenied; a keyring that another process (or another
// Keyring of this one) has open is ErrConflict; a damaged one is ErrCorrupt; an
// unknown version of the format is ErrInvalid.
func Open(path string, o Options) (*Keyring, error) {
	k, err := open(path, o, osDisk{})
	if err != nil {
		return nil, fmt.Errorf("keyring %s: %w", path, err)
	}
	return k, nil
}

func open(path string, o Options, d disk) (*Keyring, error) {
	if o.Random == nil {
		o.Random = rand.Reader
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if err := prepareDir(filepath.Dir(path), o.Create, d); err != nil {
		return nil, err
	}
	lock, err := acquire(path + ".lock")
	if err != nil {
		return nil, err
	}
	f := keyfile{path, d}
	set, err := f.open(o.Create)
	if err != nil {
		_ = lock.Close()
		return nil, err
	}
	return &Keyring{kek.NewRing(set, o.Random, o.Now, f.save), path, lock}, nil
}

// open wants the lock held. It syncs the directory before it trusts what it
// read: a process that died between a rename and its sync may have left a file
// that a power failure would still take back.
func (k keyfile) open(create bool) (kek.Set, error) {
	if err := k.removeTemp(); err != nil {
		return kek.Set{}, err
	}
	err := checkFile(k.path)
	if create && errors.Is(err, fs.ErrNotExist) {
		return kek.Set{}, k.save(kek.Set{})
	}
	if err != nil {
		return kek.Set{}, err
	}
	if err := k.syncDir(); err != nil {
		return kek.Set{}, err
	}
	return k.load()
}

// Close wipes the keys and releases the lock; the keyring is of no use then.
func (k *Keyring) Close() error {
	k.Ring.Close()
	return classify("unlock", k.lock.Close())
}

// Check is keys.Wrapper's: it also reports a keyring whose file has gone or
// whose permissions were widened while it was open.
func (k *Keyring) Check(ctx context.Context) error {
	if err := k.Ring.Check(ctx); err != nil {
		return err
	}
	if err := checkDir(filepath.Dir(k.path)); err != nil {
		return fmt.Errorf("check: %w", err)
	}
	if err := checkFile(k.path); err != nil {
		return fmt.Errorf("check: %w", err)
	}
	return nil
}

// Format hides the keys from every verb of package fmt.
func (k *Keyring) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("[keyring]")) }

// LogValue hides the keys from package log/slog.
func (k *Keyring) LogValue() slog.Value { return slog.StringValue("[keyring]") }

func acquire(path string) (*flock.Flock, error) {
	lock := flock.New(path, flock.SetPermissions(fileMode))
	got, err := lock.TryLock()
	if err != nil {
		return nil, classify("lock", err)
	}
	if !got {
		return nil, fmt.Errorf("in use by another process: %w", blobd.ErrConflict)
	}
	return lock, nil
}

// prepareDir makes the last element of the directory if it may. It syncs one
// that is there too: the process that made it may have died before.
func prepareDir(dir string, create bool, d disk) error {
	if !create {
		return checkDir(dir)
	}
	if err := os.Mkdir(dir, dirMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return classify("create directory", err)
	}
	if err := checkDir(dir); err != nil {
		return err
	}
	return classify("sync parent directory", d.SyncDir(filepath.Dir(dir)))
}

func checkDir(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return classify("directory", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a directory: %w", dir, blobd.ErrDenied)
	}
	return checkMode(dir, info.Mode(), dirMode)
}

func checkFile(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return classify("file", err)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("not a regular file: %w", blobd.ErrDenied)
	}
	return checkMode(path, info.Mode(), fileMode)
}

func checkMode(path string, mode fs.FileMode, widest fs.FileMode) error {
	if mode.Perm()&^widest == 0 {
		return nil
	}
	return fmt.Errorf("%s has mode %04o and holds keys, run chmod %04o on it: %w", path, mode.Perm(), widest, blobd.ErrDenied)
}
