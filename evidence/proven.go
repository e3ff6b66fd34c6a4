package evidence

import (
	"bytes"
	"context"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/blobd/blobd"
)

// proven reads a log tile by tile and takes what a signed tree proves alone. It is
// a tlog.TileReader.
type proven struct {
	ctx  context.Context
	from Source
	kept map[tlog.Tile][]byte // tiles above level 0, each of which proves 256 below it
}

func newProven(ctx context.Context, from Source) proven {
	return proven{ctx: ctx, from: from, kept: make(map[tlog.Tile][]byte)}
}

// of reads the hashes of a signed tree: one that the tree does not prove is an error.
func (p proven) of(c Checkpoint) tlog.HashReader {
	return tlog.TileHashReader(tlog.Tree{N: c.Size, Hash: c.Root}, p)
}

// bundle returns the leaves behind a tile of level 0 whose hashes are proved, and
// the bundle's bytes.
func (p proven) bundle(t tlog.Tile, hashes []byte) (b []byte, leaves [][]byte, err error) {
	t.L = -1
	if b, err = p.from.Tile(p.ctx, tilePath(t)); err != nil {
		return nil, nil, err
	}
	if leaves, err = splitBundle(b); err != nil {
		return nil, nil, err
	}
	if len(leaves) != t.W {
		return nil, nil, fmt.Errorf("a bundle of %d leaves where %d are: %w", len(leaves), t.W, blobd.ErrCorrupt)
	}
	for i, leaf := range leaves {
		if h := tlog.RecordHash(leaf); !bytes.Equal(h[:], hashes[i*tlog.HashSize:(i+1)*tlog.HashSize]) {
			return nil, nil, fmt.Errorf("leaf %d is not the tree's: %w", t.N*tileWidth+int64(i), blobd.ErrCorrupt)
		}
	}
	return b, leaves, nil
}

// Height implements tlog.TileReader.
func (p proven) Height() int { return tileHeight }

// ReadTiles implements tlog.TileReader.
func (p proven) ReadTiles(tiles []tlog.Tile) ([][]byte, error) {
	out := make([][]byte, len(tiles))
	for i, t := range tiles {
		if b, known := p.kept[t]; known {
			out[i] = b
			continue
		}
		b, err := p.from.Tile(p.ctx, tilePath(t))
		if err != nil {
			return nil, err
		}
		out[i] = b
	}
	return out, nil
}

// SaveTiles implements tlog.TileReader: it is told of tiles that are proved.
func (p proven) SaveTiles(tiles []tlog.Tile, data [][]byte) {
	for i, t := range tiles {
		if t.L > 0 {
			p.kept[t] = data[i]
		}
	}
}
