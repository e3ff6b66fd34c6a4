package evidence

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// tree reads the log's hashes out of the ledger: the hash of a subtree lies with
// the entry that completed it.
type tree struct {
	ctx    context.Context
	ledger ledger.Sequence
	// known are hashes read or made already, by tlog's index; nil: keep none.
	known map[int64]tlog.Hash
}

// ReadHashes implements tlog.HashReader.
func (t tree) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	entries := make([]int64, 0, len(indexes))
	for _, i := range indexes {
		if _, known := t.known[i]; !known {
			entries = append(entries, completedBy(i))
		}
	}
	read, err := t.read(entries)
	if err != nil {
		return nil, err
	}
	out := make([]tlog.Hash, len(indexes))
	for j, i := range indexes {
		if h, known := t.known[i]; known {
			out[j] = h
			continue
		}
		level, _ := tlog.SplitStoredHashIndex(i)
		hashes := read[completedBy(i)]
		if level >= len(hashes) {
			return nil, fmt.Errorf("the log's hash %d is not there: %w", i, blobd.ErrCorrupt)
		}
		out[j] = hashes[level]
		if t.known != nil {
			t.known[i] = out[j]
		}
	}
	return out, nil
}

// completedBy is the index of the entry that completes a stored hash.
func completedBy(stored int64) int64 {
	level, n := tlog.SplitStoredHashIndex(stored)
	return (n+1)<<level - 1
}

func (t tree) read(entries []int64) (map[int64][][32]byte, error) {
	out := make(map[int64][][32]byte, len(entries))
	for page := range slices.Chunk(entries, ledger.MaxLogQuery) {
		es, err := t.ledger.Logged(t.ctx, ledger.LogQuery{Indexes: page, HashesOnly: true})
		if err != nil {
			return nil, err
		}
		for _, e := range es {
			out[e.Index] = e.Hashes
		}
	}
	return out, nil
}

// add makes the hashes of the entry that comes after n others, and knows them
// from then on.
func (t tree) add(n int64, leaf tlog.Hash) ([][32]byte, error) {
	made, err := tlog.StoredHashesForRecordHash(n, leaf, t)
	if err != nil {
		return nil, err
	}
	out := make([][32]byte, len(made))
	first := tlog.StoredHashIndex(0, n)
	for i, h := range made {
		out[i] = h
		t.known[first+int64(i)] = h
	}
	return out, nil
}

// root is the hash of the tree of the first size entries.
func (t tree) root(size int64) (tlog.Hash, error) {
	h, err := tlog.TreeHash(size, t)
	if err != nil {
		return tlog.Hash{}, fmt.Errorf("tree of %d entries: %w", size, err)
	}
	return h, nil
}
