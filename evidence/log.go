package evidence

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/keys"
	"github.com/blobd/blobd/ledger"
)

// ErrOtherHistory says that the ledger's log does not continue what was
// published: the ledger was rolled back, or is another one. Nothing is signed
// from then on. It is no definite answer to whoever asks the log.
var ErrOtherHistory = fmt.Errorf("the log does not continue what was published: %w", blobd.ErrUnavailable)

// Log is the evidence log as it is read: checkpoints, tiles, entries, proofs.
// It is safe for concurrent use. It tells only of what a published checkpoint
// covers: one that every place of the journal holds a copy of.
type Log struct {
	ledger  ledger.Sequence
	journal *Journal
	keys    *keys.Core
	origin  string

	turn    chan struct{}              // holds one item while nobody publishes
	last    atomic.Pointer[Checkpoint] // the newest that was seen published; stored by who has the turn
	stopped atomic.Bool
}

// NewLog returns the log of a deployment. It starts nothing: see Sequencer.
func NewLog(l ledger.Sequence, j *Journal, k *keys.Core, deploymentID string) *Log {
	log := &Log{ledger: l, journal: j, keys: k, origin: Origin(deploymentID), turn: make(chan struct{}, 1)}
	log.last.Store(&Checkpoint{})
	log.turn <- struct{}{}
	return log
}

// LogStats are figures for metrics.
type LogStats struct {
	Published int64 // entries that the newest published checkpoint covers, as far as this node knows
	Stopped   bool  // the sequencer signs nothing: see ErrOtherHistory
}

// Stats returns figures from memory.
func (l *Log) Stats() LogStats { return LogStats{l.last.Load().Size, l.stopped.Load()} }

// Verifier returns the log's public key, "name+hash+base64", or ErrNotFound
// before the first checkpoint.
func (l *Log) Verifier(ctx context.Context) (string, error) {
	s, err := l.ledger.LogState(ctx, 0)
	if err != nil {
		return "", fmt.Errorf("evidence: %w", err)
	}
	if s.Key == nil {
		return "", fmt.Errorf("evidence: the log has no key yet: %w", blobd.ErrNotFound)
	}
	return s.Key.Verifier, nil
}

// Checkpoint returns the newest checkpoint, published; ErrNotFound: there is
// none yet. It waits for a place of the journal only while the newest is not
// published yet, and no longer than ctx lasts.
func (l *Log) Checkpoint(ctx context.Context) (Checkpoint, error) {
	s, err := l.ledger.LogState(ctx, 0)
	if err != nil {
		return Checkpoint{}, fmt.Errorf("evidence: %w", err)
	}
	if s.Size == 0 {
		return Checkpoint{}, fmt.Errorf("evidence: no checkpoint yet: %w", blobd.ErrNotFound)
	}
	if last := l.last.Load(); bytes.Equal(s.Checkpoint, last.Note) {
		return *last, nil
	}
	if err := l.takeTurn(ctx); err != nil {
		return Checkpoint{}, err
	}
	defer l.giveTurn()
	if last := l.last.Load(); bytes.Equal(s.Checkpoint, last.Note) { // by who had the turn
		return *last, nil
	}
	if _, err := l.publish(ctx); err != nil {
		return Checkpoint{}, err
	}
	return *l.last.Load(), nil
}

// takeTurn waits until nobody publishes. A context that ends first is
// ErrUnavailable.
func (l *Log) takeTurn(ctx context.Context) error {
	select {
	case <-l.turn:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("evidence: another checkpoint is being published: %w: %w", blobd.ErrUnavailable, ctx.Err())
	}
}

func (l *Log) giveTurn() { l.turn <- struct{}{} }

// settle compares the log with what was published, and publishes its newest
// checkpoint where a copy is missing.
func (l *Log) settle(ctx context.Context) (ledger.LogState, error) {
	if err := l.takeTurn(ctx); err != nil {
		return ledger.LogState{}, err
	}
	defer l.giveTurn()
	return l.publish(ctx)
}

// publish reads what was published first and the ledger after it: a copy is
// made after its commit, so the ledger knows of every copy, or lost it. The
// caller has the turn.
func (l *Log) publish(ctx context.Context) (ledger.LogState, error) {
	copies, err := l.journal.published(ctx)
	if err != nil {
		return ledger.LogState{}, err
	}
	s, err := l.ledger.LogState(ctx, 0)
	if err != nil {
		return ledger.LogState{}, fmt.Errorf("evidence: %w", err)
	}
	whole := true
	for _, signed := range copies {
		if bytes.Equal(signed, s.Checkpoint) {
			continue
		}
		whole = false
		if err := l.continues(ctx, s, signed); err != nil {
			return s, err
		}
	}
	if s.Size == 0 {
		return s, nil
	}
	c, err := openState(s)
	if err != nil {
		return s, err
	}
	if !whole {
		if err := l.journal.publishCheckpoint(ctx, c); errors.Is(err, blobd.ErrCorrupt) {
			return s, fmt.Errorf("evidence: %w: %w", ErrOtherHistory, err)
		} else if err != nil {
			return s, err
		}
	}
	l.last.Store(&c)
	return s, nil
}

// continues checks that the log contains a published tree.
func (l *Log) continues(ctx context.Context, s ledger.LogState, signed []byte) error {
	if signed == nil {
		return nil
	}
	if s.Key == nil {
		return fmt.Errorf("evidence: the ledger has no log: %w", ErrOtherHistory)
	}
	v, err := ParseVerifier(s.Key.Verifier)
	if err != nil {
		return fmt.Errorf("evidence: %w: %w", blobd.ErrCorrupt, err)
	}
	c, err := OpenCheckpoint(signed, v)
	if err != nil {
		return fmt.Errorf("evidence: %w: %w", ErrOtherHistory, err)
	}
	if c.Size > s.Size {
		return fmt.Errorf("evidence: %d entries were published, the ledger has %d: %w", c.Size, s.Size, ErrOtherHistory)
	}
	root, err := tree{ctx: ctx, ledger: l.ledger}.root(c.Size)
	if err != nil {
		return fmt.Errorf("evidence: %w", err)
	}
	if root != c.Root {
		return fmt.Errorf("evidence: another tree of %d entries was published: %w", c.Size, ErrOtherHistory)
	}
	return nil
}

// openState reads the ledger's own checkpoint. One that does not verify is
// damage.
func openState(s ledger.LogState) (Checkpoint, error) {
	if s.Key == nil {
		return Checkpoint{}, fmt.Errorf("evidence: a checkpoint without a key: %w", blobd.ErrCorrupt)
	}
	v, err := ParseVerifier(s.Key.Verifier)
	if err != nil {
		return Checkpoint{}, fmt.Errorf("evidence: %w: %w", blobd.ErrCorrupt, err)
	}
	c, err := OpenCheckpoint(s.Checkpoint, v)
	if err != nil || c.Size != s.Size {
		return Checkpoint{}, fmt.Errorf("evidence: the ledger's checkpoint of %d: %w", s.Size, blobd.ErrCorrupt)
	}
	return c, nil
}

// The tiled log: tiles are 256 hashes wide.
const (
	tileHeight = 8
	tileWidth  = 1 << tileHeight
)

// Tile returns what the tiled log has under tile/<path>: "<L>/<N>[.p/<W>]" a tile
// of hashes, "entries/<N>[.p/<W>]" a bundle of leaves. IsBundle tells a path of the
// second form. A path that is none, and one past the newest checkpoint, is
// ErrNotFound.
func (l *Log) Tile(ctx context.Context, path string) ([]byte, error) {
	t, err := parseTile(path)
	if err != nil {
		return nil, err
	}
	c, err := l.Checkpoint(ctx)
	if err != nil {
		return nil, err
	}
	if !within(t, c.Size) {
		return nil, fmt.Errorf("evidence: no such tile yet: %w", blobd.ErrNotFound)
	}
	if t.L < 0 {
		return l.bundle(ctx, t)
	}
	b, err := tlog.ReadTileData(t, tree{ctx: ctx, ledger: l.ledger})
	if err != nil {
		return nil, fmt.Errorf("evidence: tile: %w", err)
	}
	return b, nil
}

// IsBundle reports whether a path of Tile names whole entries.
func IsBundle(path string) bool { return strings.HasPrefix(path, "entries/") }

// parseTile reads a path by package tlog's reader, whose own form has the height
// in it and calls bundles data.
func parseTile(path string) (tlog.Tile, error) {
	level, rest, _ := strings.Cut(path, "/")
	switch level {
	case "entries":
		level = "data"
	case "data":
		level = "none"
	}
	t, err := tlog.ParseTilePath(fmt.Sprintf("tile/%d/%s/%s", tileHeight, level, rest))
	if err != nil || t.L >= 64/tileHeight {
		return tlog.Tile{}, fmt.Errorf("evidence: not a path of a tile: %w", blobd.ErrNotFound)
	}
	return t, nil
}

// within reports whether a tree of size entries has the tile.
func within(t tlog.Tile, size int64) bool {
	have := size >> (tileHeight * max(t.L, 0)) // hashes on the level
	return t.N < have>>tileHeight || t.N == have>>tileHeight && int64(t.W) <= have&(tileWidth-1)
}

func (l *Log) bundle(ctx context.Context, t tlog.Tile) ([]byte, error) {
	es, err := l.logged(ctx, t.N*tileWidth, int64(t.W))
	if err != nil {
		return nil, err
	}
	var b []byte
	for _, e := range es {
		leaf := LeafOf(e.Entry)
		b = binary.BigEndian.AppendUint16(b, uint16(len(leaf)))
		b = append(b, leaf...)
	}
	return b, nil
}

// logged reads n entries from an index on, all of which are there.
func (l *Log) logged(ctx context.Context, from, n int64) ([]ledger.LoggedEntry, error) {
	var out []ledger.LoggedEntry
	for at := from; at < from+n; at += ledger.MaxLogQuery {
		var indexes []int64
		for i := at; i < min(at+ledger.MaxLogQuery, from+n); i++ {
			indexes = append(indexes, i)
		}
		es, err := l.ledger.Logged(ctx, ledger.LogQuery{Indexes: indexes})
		if err != nil {
			return nil, fmt.Errorf("evidence: entries: %w", err)
		}
		if len(es) != len(indexes) {
			return nil, fmt.Errorf("evidence: entries from %d on are missing: %w", at, blobd.ErrCorrupt)
		}
		out = append(out, es...)
	}
	return out, nil
}

// Entries returns the log's entries from an index on to before another, as far
// as the newest checkpoint goes.
func (l *Log) Entries(ctx context.Context, from, to int64) ([]ledger.LoggedEntry, error) {
	c, err := l.Checkpoint(ctx)
	if errors.Is(err, blobd.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return l.logged(ctx, from, max(0, min(to, c.Size)-from))
}

// Proof is a proof and the checkpoint that it leads to.
type Proof struct {
	Checkpoint
	Hashes []tlog.Hash
	Leaf   tlog.Hash // of an inclusion proof
}

// Inclusion proves that the newest checkpoint covers an entry. An index past it
// is ErrNotFound.
func (l *Log) Inclusion(ctx context.Context, index int64) (Proof, error) {
	c, err := l.Checkpoint(ctx)
	if err != nil {
		return Proof{}, err
	}
	return l.include(ctx, c, index)
}

func (l *Log) include(ctx context.Context, c Checkpoint, index int64) (Proof, error) {
	if index < 0 || index >= c.Size {
		return Proof{}, fmt.Errorf("evidence: the log has no entry %d yet: %w", index, blobd.ErrNotFound)
	}
	t := tree{ctx: ctx, ledger: l.ledger}
	hashes, err := tlog.ProveRecord(c.Size, index, t)
	if err != nil {
		return Proof{}, fmt.Errorf("evidence: prove entry %d: %w", index, err)
	}
	leaf, err := t.ReadHashes([]int64{tlog.StoredHashIndex(0, index)})
	if err != nil {
		return Proof{}, fmt.Errorf("evidence: prove entry %d: %w", index, err)
	}
	return Proof{c, hashes, leaf[0]}, nil
}

// Consistency proves that the newest checkpoint continues the tree of the first
// size entries (1 or more). A size past it is ErrNotFound.
func (l *Log) Consistency(ctx context.Context, size int64) (Proof, error) {
	c, err := l.Checkpoint(ctx)
	if err != nil {
		return Proof{}, err
	}
	if size < 1 || size > c.Size {
		return Proof{}, fmt.Errorf("evidence: the log has no tree of %d entries yet: %w", size, blobd.ErrNotFound)
	}
	hashes, err := tlog.ProveTree(c.Size, size, tree{ctx: ctx, ledger: l.ledger})
	if err != nil {
		return Proof{}, fmt.Errorf("evidence: prove the tree of %d: %w", size, err)
	}
	return Proof{Checkpoint: c, Hashes: hashes}, nil
}
