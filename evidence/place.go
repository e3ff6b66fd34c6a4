package evidence

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/mod/sumdb/note"

	"github.com/blobd/blobd"
)

// Names in an exported log, those of the tiled log.
const (
	checkpointFile = "checkpoint"
	tileFolder     = "tile"
)

// Place is where an exported log lies, in the layout of the tiled log: a folder
// (Folder) or a bucket (package evidence/bucket). Names are paths with slashes
// between their parts. Objects have at most 16 MiB.
type Place interface {
	// Read returns an object whole. ErrNotFound: the place itself says that it is
	// absent, which no outage does.
	Read(ctx context.Context, name string) ([]byte, error)
	// Write puts an object, in place of what has its name. On nil it is durable;
	// a reader sees it whole or not at all.
	Write(ctx context.Context, name string, b []byte) error
	// Remove deletes an object. An absent one is no error.
	Remove(ctx context.Context, name string) error
}

// SourceOf reads an exported log as a log that is served.
func SourceOf(p Place) Source { return placeSource{p} }

type placeSource struct{ place Place }

// Signed implements Source.
func (s placeSource) Signed(ctx context.Context) ([]byte, error) {
	return s.place.Read(ctx, checkpointFile)
}

// Tile implements Source.
func (s placeSource) Tile(ctx context.Context, path string) ([]byte, error) {
	return s.place.Read(ctx, tileFolder+"/"+path)
}

// placeCheckpoint reads a place's checkpoint; ErrNotFound: it has none.
func placeCheckpoint(ctx context.Context, p Place, v note.Verifier) (Checkpoint, error) {
	b, err := p.Read(ctx, checkpointFile)
	if err != nil {
		return Checkpoint{}, fmt.Errorf("the export's checkpoint: %w", err)
	}
	return OpenCheckpoint(b, v)
}

// Folder is a place in a folder, which is made (0700, its files 0600) when
// something is written.
type Folder string

func (f Folder) path(name string) string { return filepath.Join(string(f), filepath.FromSlash(name)) }

// Read implements Place.
func (f Folder) Read(_ context.Context, name string) ([]byte, error) {
	b, err := os.ReadFile(f.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w", blobd.ErrNotFound, err)
	}
	return b, err
}

// Write implements Place.
func (f Folder) Write(_ context.Context, name string, b []byte) error {
	return writeFile(f.path(name), b)
}

// Remove implements Place.
func (f Folder) Remove(_ context.Context, name string) error {
	if err := os.Remove(f.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// writeFile makes a file durable and whole.
func writeFile(name string, b []byte) (err error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".new-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), name); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(name))
}

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
