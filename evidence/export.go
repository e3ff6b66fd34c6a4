package evidence

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/blobd/blobd"
)

// Names in an exported log, those of the tiled log.
const (
	checkpointFile = "checkpoint"
	tileFolder     = "tile"
)

// Source is a log as it is served: by Log, or over HTTP.
type Source interface {
	// Signed returns the newest checkpoint, as it is served.
	Signed(ctx context.Context) ([]byte, error)
	// Tile returns what lies under tile/<path>.
	Tile(ctx context.Context, path string) ([]byte, error)
}

// Signed implements Source.
func (l *Log) Signed(ctx context.Context) ([]byte, error) {
	c, err := l.Checkpoint(ctx)
	return c.Note, err
}

// Export brings a folder up to the newest checkpoint of a log, in the layout of
// the tiled log, and returns the checkpoint. Whatever it writes it has checked:
// the signature, that the tree continues the folder's, and every leaf against
// the tree. The checkpoint is written last, so that a folder is whole after a
// kill too; a log that does not continue it is ErrOtherHistory.
func Export(ctx context.Context, from Source, v note.Verifier, dir string) (Checkpoint, error) {
	old, err := folderCheckpoint(os.DirFS(dir), v)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Checkpoint{}, err
	}
	signed, err := from.Signed(ctx)
	if err != nil {
		return Checkpoint{}, fmt.Errorf("export: %w", err)
	}
	c, err := OpenCheckpoint(signed, v)
	switch {
	case err != nil:
		return Checkpoint{}, err
	case c.Size < old.Size:
		return Checkpoint{}, fmt.Errorf("export: the log has %d entries, the folder %d: %w", c.Size, old.Size, ErrOtherHistory)
	case bytes.Equal(signed, old.Note):
		return c, nil
	}
	x := exporter{ctx: ctx, from: from, dir: dir, proved: make(map[tlog.Tile][]byte)}
	if err := x.copyTiles(old, c); err != nil {
		return Checkpoint{}, fmt.Errorf("export: %w", err)
	}
	if err := writeFile(filepath.Join(dir, checkpointFile), signed); err != nil {
		return Checkpoint{}, fmt.Errorf("export: %w", err)
	}
	return c, x.dropPartial(old.Size, c.Size)
}

// folderCheckpoint reads a folder's checkpoint; fs.ErrNotExist: it has none.
func folderCheckpoint(dir fs.FS, v note.Verifier) (Checkpoint, error) {
	b, err := fs.ReadFile(dir, checkpointFile)
	if err != nil {
		return Checkpoint{}, fmt.Errorf("the folder's checkpoint: %w", err)
	}
	return OpenCheckpoint(b, v)
}

type exporter struct {
	ctx    context.Context
	from   Source
	dir    string
	proved map[tlog.Tile][]byte // tiles above level 0, each of which proves 256 below it
}

func (x exporter) copyTiles(old, c Checkpoint) error {
	hashes := tlog.TileHashReader(tlog.Tree{N: c.Size, Hash: c.Root}, x)
	if old.Size > 0 {
		root, err := tlog.TreeHash(old.Size, hashes)
		if err != nil {
			return err
		}
		if root != old.Root {
			return fmt.Errorf("another tree of %d entries: %w", old.Size, ErrOtherHistory)
		}
	}
	for _, t := range tlog.NewTiles(tileHeight, old.Size, c.Size) {
		// Reading a tile's hashes by this reader proves all of it.
		b, err := tlog.ReadTileData(t, hashes)
		if err != nil {
			return err
		}
		if err := x.write(tilePath(t), b); err != nil {
			return err
		}
		if t.L == 0 {
			if err := x.copyBundle(t, b); err != nil {
				return err
			}
		}
	}
	return nil
}

// copyBundle copies the leaves of a tile of level 0 whose hashes are proved.
func (x exporter) copyBundle(t tlog.Tile, hashes []byte) error {
	t.L = -1
	b, err := x.from.Tile(x.ctx, tilePath(t))
	if err != nil {
		return err
	}
	leaves, err := splitBundle(b)
	if err != nil {
		return err
	}
	if len(leaves) != t.W {
		return fmt.Errorf("a bundle of %d leaves where %d are: %w", len(leaves), t.W, blobd.ErrCorrupt)
	}
	for i, leaf := range leaves {
		if h := tlog.RecordHash(leaf); !bytes.Equal(h[:], hashes[i*tlog.HashSize:(i+1)*tlog.HashSize]) {
			return fmt.Errorf("leaf %d is not the tree's: %w", t.N*tileWidth+int64(i), blobd.ErrCorrupt)
		}
	}
	return x.write(tilePath(t), b)
}

// splitBundle reads leaves, each behind its length as a big-endian u16.
func splitBundle(b []byte) (leaves [][]byte, err error) {
	for len(b) > 0 {
		if len(b) < 2 || len(b)-2 < int(binary.BigEndian.Uint16(b)) {
			return nil, fmt.Errorf("a bundle is cut short: %w", blobd.ErrCorrupt)
		}
		n := int(binary.BigEndian.Uint16(b))
		leaves = append(leaves, b[2:2+n])
		b = b[2+n:]
	}
	return leaves, nil
}

// tilePath is the path below tile/, in the form of the tiled log.
func tilePath(t tlog.Tile) string {
	p := strings.TrimPrefix(t.Path(), fmt.Sprintf("tile/%d/", tileHeight))
	if rest, bundle := strings.CutPrefix(p, "data/"); bundle {
		return "entries/" + rest
	}
	return p
}

// Height implements tlog.TileReader.
func (x exporter) Height() int { return tileHeight }

// ReadTiles implements tlog.TileReader.
func (x exporter) ReadTiles(tiles []tlog.Tile) ([][]byte, error) {
	out := make([][]byte, len(tiles))
	for i, t := range tiles {
		if b, known := x.proved[t]; known {
			out[i] = b
			continue
		}
		b, err := x.from.Tile(x.ctx, tilePath(t))
		if err != nil {
			return nil, err
		}
		out[i] = b
	}
	return out, nil
}

// SaveTiles implements tlog.TileReader: it is told of tiles that are proved.
func (x exporter) SaveTiles(tiles []tlog.Tile, data [][]byte) {
	for i, t := range tiles {
		if t.L > 0 {
			x.proved[t] = data[i]
		}
	}
}

func (x exporter) write(tile string, b []byte) error {
	return writeFile(filepath.Join(x.dir, tileFolder, filepath.FromSlash(tile)), b)
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

// dropPartial removes the partial tiles of an older tree, which fuller ones
// replace.
func (x exporter) dropPartial(old, size int64) error {
	for level := 0; old>>(tileHeight*level) > 0; level++ {
		have := old >> (tileHeight * level)
		if have%tileWidth == 0 || have == size>>(tileHeight*level) {
			continue
		}
		t := tlog.Tile{H: tileHeight, L: level, N: have / tileWidth, W: int(have % tileWidth)}
		for _, l := range []int{level, -1} {
			if l < 0 && level > 0 {
				continue
			}
			t.L = l
			name := filepath.Join(x.dir, tileFolder, filepath.FromSlash(tilePath(t)))
			if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("export: %w", err)
			}
		}
	}
	return nil
}
