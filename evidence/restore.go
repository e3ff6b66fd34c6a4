package evidence

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// RestoreOptions say how Restore works. Owner and Now must be set.
type RestoreOptions struct {
	Owner  string // names this process to the other sequencers
	Now    func() time.Time
	DryRun bool // compare only: nothing is changed
	// Progress is called now and then with how many entries were put back; nil:
	// nobody asks.
	Progress func(done, all int64)
}

// Restored is what Restore found and did.
type Restored struct {
	Had       int64 // entries in the ledger's log
	Export    int64 // in the exported log
	Published int64 // covered by the newest published copy of a checkpoint
	PutBack   int64 // entries put back now; of a dry run, those that would be
	Waited    int64 // of PutBack, those that waited in the ledger: they keep their free texts
	HashOnly  int64 // of PutBack, those whose body nobody has any more: its hash is known
}

// Restore puts back what the log lost when its ledger was rolled back, out of an
// exported log, so that it goes on from the published head.
//
// It checks before it changes anything: that the export is whole and signed by
// this log's key, that the ledger's own log and every published checkpoint are
// parts of it (else ErrOtherHistory), and that with it nothing that was published
// is missing (else ErrConflict). An export that has nothing more than the ledger is
// nothing to do. What it signs are trees that the export's checkpoint contains.
//
// It may be killed anywhere and called again. It holds the sequencer's lease, for
// which it waits a minute; while it is not done, no sequencer signs anything,
// because less than was published is there.
func (l *Log) Restore(ctx context.Context, from Place, o RestoreOptions) (Restored, error) {
	out, err := l.restore(ctx, from, o)
	if err != nil {
		return out, fmt.Errorf("restore the log: %w", err)
	}
	return out, nil
}

func (l *Log) restore(ctx context.Context, from Place, o RestoreOptions) (Restored, error) {
	state, err := l.ledger.LogState(ctx, 0)
	if err != nil {
		return Restored{}, err
	}
	if state.Key == nil {
		return Restored{}, fmt.Errorf("the ledger is from before the log's key was made, and nothing can be signed in its place: %w", blobd.ErrConflict)
	}
	v, err := ParseVerifier(state.Key.Verifier)
	if err != nil {
		return Restored{}, err
	}
	r := restorer{log: l, options: o, verifier: v, proven: newProven(ctx, SourceOf(from))}
	r.export, err = VerifyExport(ctx, from, v, VerifyOptions{Leaf: func(index int64, leaf []byte) error {
		if index < state.Size {
			return nil
		}
		r.see(index, leaf)
		return nil
	}})
	if err = cmp.Or(err, r.unreadable); err != nil { // that the tree is right is said first
		return Restored{}, err
	}
	out, err := r.compare(ctx)
	if err != nil || out.PutBack == 0 || o.DryRun {
		return out, err
	}
	return r.run(ctx)
}

// restorer works on one export.
type restorer struct {
	proven
	log      *Log
	options  RestoreOptions
	verifier note.Verifier
	export   Checkpoint
	newest   time.Time // of the entries that the ledger's log lacks
	// unreadable is what is the matter with the first leaf that makes no entry.
	unreadable error

	lease   *Sequencer           // for its lease alone
	waiting map[tlog.Hash][]kept // by leaf, the oldest first
}

// kept is an entry that waits in the ledger and is in the log already.
type kept struct {
	id     int64
	object string
}

// see reads an entry that is to be put back: one that cannot be is found before
// anything is changed.
func (r *restorer) see(index int64, leaf []byte) {
	e, err := entryOf(leaf)
	if err != nil && r.unreadable == nil {
		r.unreadable = fmt.Errorf("entry %d: %w", index, err)
	}
	if e.At.After(r.newest) {
		r.newest = e.At
	}
}

// compare finds what is missing. It reads what was published before the ledger: see
// publish.
func (r *restorer) compare(ctx context.Context) (Restored, error) {
	out := Restored{Export: r.export.Size}
	copies, err := r.log.journal.published(ctx)
	if err != nil {
		return out, err
	}
	state, err := r.log.ledger.LogState(ctx, 0)
	if err != nil {
		return out, err
	}
	out.Had = state.Size
	if err := r.contains(ctx, state); err != nil {
		return out, err
	}
	for _, signed := range copies {
		if err := r.covers(ctx, state, signed, &out); err != nil {
			return out, err
		}
	}
	if have := max(out.Had, out.Export); out.Published > have {
		return out, fmt.Errorf("%d entries were published, the export has %d and the ledger %d: the last %d are missing, and without them nothing continues the log: %w",
			out.Published, out.Export, out.Had, out.Published-have, blobd.ErrConflict)
	}
	out.PutBack = max(0, out.Export-out.Had)
	return out, nil
}

// contains checks that of the ledger's log and the export one is the beginning of
// the other.
func (r *restorer) contains(ctx context.Context, state ledger.LogState) error {
	if state.Size == 0 {
		return nil
	}
	own, err := openState(state)
	if err != nil {
		return err
	}
	t := tree{ctx: ctx, ledger: r.log.ledger}
	if root, err := t.root(own.Size); err != nil {
		return err
	} else if root != own.Root {
		return fmt.Errorf("the ledger's tree of %d is not the signed one: %w", own.Size, blobd.ErrCorrupt)
	}
	size := min(own.Size, r.export.Size)
	ours, err := t.root(size)
	if err != nil {
		return err
	}
	return r.hasTree(Checkpoint{Size: size, Root: ours}, "the ledger has another tree of %d entries")
}

// hasTree checks that the export continues a tree that is no larger.
func (r *restorer) hasTree(c Checkpoint, otherwise string) error {
	root, err := r.rootAt(c.Size)
	if err != nil {
		return err
	}
	if root != c.Root {
		return fmt.Errorf(otherwise+": %w", c.Size, ErrOtherHistory)
	}
	return nil
}

func (r *restorer) rootAt(size int64) (tlog.Hash, error) {
	if size == 0 {
		return tlog.TreeHash(0, nil)
	}
	return tlog.TreeHash(size, r.of(r.export))
}

// covers checks that a published checkpoint is one of the export's log, or of the
// ledger's where that is longer.
func (r *restorer) covers(ctx context.Context, state ledger.LogState, signed []byte, out *Restored) error {
	if signed == nil {
		return nil
	}
	c, err := OpenCheckpoint(signed, r.verifier)
	if err != nil {
		return fmt.Errorf("what was published: %w: %w", ErrOtherHistory, err)
	}
	out.Published = max(out.Published, c.Size)
	switch {
	case c.Size <= r.export.Size:
		return r.hasTree(c, "another tree of %d entries was published")
	case c.Size <= state.Size:
		return r.log.continues(ctx, state, signed)
	}
	return nil // missing: compare says so
}
