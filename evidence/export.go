package evidence

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/blobd/blobd"
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

// Export brings a place up to the newest checkpoint of a log, in the layout of
// the tiled log, and returns the checkpoint. Whatever it writes it has checked:
// the signature, that the tree continues the place's, and every leaf against
// the tree. The checkpoint is written last, so that a place is whole after a
// kill too; a log that does not continue it is ErrOtherHistory.
func Export(ctx context.Context, from Source, v note.Verifier, to Place) (Checkpoint, error) {
	old, err := placeCheckpoint(ctx, to, v)
	if err != nil && !errors.Is(err, blobd.ErrNotFound) {
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
		return Checkpoint{}, fmt.Errorf("export: the log has %d entries, the export %d: %w", c.Size, old.Size, ErrOtherHistory)
	case bytes.Equal(signed, old.Note):
		return c, nil
	}
	x := exporter{proven: newProven(ctx, from), to: to}
	if err := x.copyTiles(old, c); err != nil {
		return Checkpoint{}, fmt.Errorf("export: %w", err)
	}
	if err := to.Write(ctx, checkpointFile, signed); err != nil {
		return Checkpoint{}, fmt.Errorf("export: %w", err)
	}
	return c, x.dropPartial(old.Size, c.Size)
}

// exporter copies tiles that it has proved.
type exporter struct {
	proven
	to Place
}

func (x exporter) copyTiles(old, c Checkpoint) error {
	hashes := x.of(c)
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
	b, _, err := x.bundle(t, hashes)
	if err != nil {
		return err
	}
	t.L = -1
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

func (x exporter) write(tile string, b []byte) error {
	return x.to.Write(x.ctx, tileFolder+"/"+tile, b)
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
			if err := x.to.Remove(x.ctx, tileFolder+"/"+tilePath(t)); err != nil {
				return fmt.Errorf("export: %w", err)
			}
		}
	}
	return nil
}
