package evidence

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/blobd/blobd"
)

// VerifyOptions say what else to ask of an export.
type VerifyOptions struct {
	// Since are checkpoints that the tree must continue.
	Since []Checkpoint
	// Leaf is called with each leaf in order; nil: nobody asks.
	Leaf func(index int64, leaf []byte) error
	// Progress is called now and then with how many entries were checked.
	Progress func(done, all int64)
}

// VerifyExport checks an exported log without a server: it makes the tree anew
// out of the leaves and compares it with every tile and with the signed
// checkpoint. A changed, removed, added or reordered leaf is ErrCorrupt, and so is
// a tile that is changed or missing; a checkpoint that does not verify is
// ErrInvalid.
func VerifyExport(ctx context.Context, from Place, v note.Verifier, o VerifyOptions) (Checkpoint, error) {
	c, err := placeCheckpoint(ctx, from, v)
	if err != nil {
		return Checkpoint{}, err
	}
	w := walker{ctx: ctx, from: SourceOf(from), size: c.Size, options: o}
	root, err := w.walk()
	if err != nil {
		return Checkpoint{}, fmt.Errorf("log: %w", err)
	}
	if root != c.Root {
		return Checkpoint{}, fmt.Errorf("log: the leaves are not those of the signed tree: %w", blobd.ErrCorrupt)
	}
	return c, nil
}

// walker makes a tree out of leaves, one after the other.
type walker struct {
	ctx     context.Context
	from    Source
	size    int64
	options VerifyOptions
	edge    []node           // roots of whole subtrees, largest first
	tiles   map[int]tileMade // by level of tiles
}

type node struct {
	level int
	hash  tlog.Hash
}

type tileMade struct {
	n     int64 // its number
	bytes []byte
}

func (w *walker) walk() (tlog.Hash, error) {
	w.tiles = make(map[int]tileMade)
	for first := int64(0); first < w.size; first += tileWidth {
		t := tlog.Tile{H: tileHeight, L: -1, N: first / tileWidth, W: int(min(tileWidth, w.size-first))}
		if err := w.bundle(t); err != nil {
			return tlog.Hash{}, err
		}
		if w.options.Progress != nil {
			w.options.Progress(first+int64(t.W), w.size)
		}
	}
	for level, made := range w.tiles {
		if len(made.bytes) > 0 {
			if err := w.compare(level, made); err != nil {
				return tlog.Hash{}, err
			}
		}
	}
	for _, c := range w.options.Since {
		if c.Size > w.size {
			return tlog.Hash{}, fmt.Errorf("the log has %d entries, fewer than the %d signed before: %w", w.size, c.Size, blobd.ErrCorrupt)
		}
	}
	return w.root(), nil
}

func (w *walker) bundle(t tlog.Tile) error {
	b, err := w.read(t)
	if err != nil {
		return err
	}
	leaves, err := splitBundle(b)
	if err != nil {
		return err
	}
	if len(leaves) != t.W {
		return fmt.Errorf("%s has %d leaves, not %d: %w", tilePath(t), len(leaves), t.W, blobd.ErrCorrupt)
	}
	for i, leaf := range leaves {
		index := t.N*tileWidth + int64(i)
		if w.options.Leaf != nil {
			if err := w.options.Leaf(index, leaf); err != nil {
				return err
			}
		}
		if err := w.add(tlog.RecordHash(leaf)); err != nil {
			return err
		}
		if err := w.since(index + 1); err != nil {
			return err
		}
	}
	return nil
}

// read returns a tile or bundle that the signed tree has: without it the export
// is not that of the tree.
func (w *walker) read(t tlog.Tile) ([]byte, error) {
	b, err := w.from.Tile(w.ctx, tilePath(t))
	if errors.Is(err, blobd.ErrNotFound) {
		return nil, fmt.Errorf("%s is missing: %w: %w", tilePath(t), blobd.ErrCorrupt, err)
	}
	return b, err
}

// add puts a leaf's hash at the right edge and joins what became whole.
func (w *walker) add(h tlog.Hash) error {
	n := node{0, h}
	for {
		if n.level%tileHeight == 0 {
			if err := w.keep(n); err != nil {
				return err
			}
		}
		last := len(w.edge) - 1
		if last < 0 || w.edge[last].level != n.level {
			w.edge = append(w.edge, n)
			return nil
		}
		n = node{n.level + 1, tlog.NodeHash(w.edge[last].hash, n.hash)}
		w.edge = w.edge[:last]
	}
}

// keep adds a hash to its tile, and compares the tile once it is full.
func (w *walker) keep(n node) error {
	level := n.level / tileHeight
	made := w.tiles[level]
	made.bytes = append(made.bytes, n.hash[:]...)
	if len(made.bytes) == tileWidth*tlog.HashSize {
		if err := w.compare(level, made); err != nil {
			return err
		}
		made = tileMade{n: made.n + 1}
	}
	w.tiles[level] = made
	return nil
}

func (w *walker) compare(level int, made tileMade) error {
	t := tlog.Tile{H: tileHeight, L: level, N: made.n, W: len(made.bytes) / tlog.HashSize}
	b, err := w.read(t)
	if err != nil {
		return err
	}
	if !bytes.Equal(b, made.bytes) {
		return fmt.Errorf("tile %s is not that of the leaves: %w", tilePath(t), blobd.ErrCorrupt)
	}
	return nil
}

// since compares the tree of the first size leaves with what was signed before.
func (w *walker) since(size int64) error {
	for _, c := range w.options.Since {
		if c.Size == size && c.Root != w.root() {
			return fmt.Errorf("another tree of %d entries was signed before: %w", size, blobd.ErrCorrupt)
		}
	}
	return nil
}

func (w *walker) root() tlog.Hash {
	if len(w.edge) == 0 {
		empty, _ := tlog.TreeHash(0, nil) // of no leaves: always there
		return empty
	}
	h := w.edge[len(w.edge)-1].hash
	for i := len(w.edge) - 2; i >= 0; i-- {
		h = tlog.NodeHash(w.edge[i].hash, h)
	}
	return h
}
