package evidence

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// Times of the sequencer. A node that died gives the log up after a lease.
const (
	SequencerLeaseTime = 30 * time.Second
	SequencerPoll      = time.Second
	sequenceBatch      = 1024 // entries
)

// Sequencer gives committed entries their place in the log. Every node runs one;
// the one with the lease works.
//
// A step reads what was published, sees that the log continues it, signs the
// next tree, commits it with the indexes in one transaction, and publishes it. A
// kill between any two of these leaves a log that the next step goes on with; a
// checkpoint is told to nobody before it was published.
type Sequencer struct {
	log   *Log
	owner string
	now   func() time.Time
	slog  *slog.Logger

	lease   ledger.SequencerLease
	settled bool // the newest checkpoint was published, as far as this node knows
	full    bool // the last step took as many entries as one takes
}

// NewSequencer builds a sequencer of a log. owner names this process.
func NewSequencer(l *Log, owner string, now func() time.Time, log *slog.Logger) *Sequencer {
	return &Sequencer{log: l, owner: owner, now: now, slog: log}
}

// Run works until ctx ends, and returns its cause. While serving is an error it
// waits: a ledger that was rolled back is replayed first.
func (s *Sequencer) Run(ctx context.Context, serving func() error) error {
	tick := time.NewTicker(SequencerPoll)
	defer tick.Stop()
	for {
		if serving() == nil {
			s.drain(ctx)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// drain steps until a batch is not full, and tells when the log stops and goes on.
// What came in the meantime waits for the next tick: each step signs, commits and
// publishes, which under a steady load of puts would be a third of all that the disk
// syncs.
func (s *Sequencer) drain(ctx context.Context) {
	for ctx.Err() == nil {
		worked, err := s.Step(ctx)
		other := errors.Is(err, ErrOtherHistory)
		switch was := s.log.stopped.Swap(other); {
		case other && !was:
			s.slog.Error("the evidence log is stopped: nothing more is signed", "error", err)
		case err != nil && !other && ctx.Err() == nil:
			s.slog.Warn("the evidence log waits", "error", err)
		case was && !other:
			s.slog.Info("the evidence log goes on")
		}
		if err != nil || !worked || !s.full {
			return
		}
	}
}

// Step gives indexes to at most one batch of entries; false: there was nothing
// to do, or another node has the log.
func (s *Sequencer) Step(ctx context.Context) (bool, error) {
	entries, err := s.log.ledger.Unsequenced(ctx, 0, sequenceBatch)
	if err != nil {
		return false, fmt.Errorf("evidence: %w", err)
	}
	if len(entries) == 0 && s.settled {
		return false, nil
	}
	held, err := s.claim(ctx)
	if err != nil || !held {
		return false, err
	}
	s.settled = false
	state, err := s.log.settle(ctx)
	if errors.Is(err, ErrOtherHistory) {
		s.release(ctx) // to whoever can mend that
	}
	if err != nil {
		return false, err
	}
	// Read again: another node may have had the lease until now.
	entries, err = s.log.ledger.Unsequenced(ctx, 0, sequenceBatch)
	if err != nil {
		return false, fmt.Errorf("evidence: %w", err)
	}
	if len(entries) == 0 {
		s.settled = true
		return false, nil
	}
	if err := s.append(ctx, state, entries); err != nil {
		s.lease = ledger.SequencerLease{} // whatever failed, begin anew
		return false, err
	}
	if _, err := s.log.settle(ctx); err != nil {
		return false, err
	}
	s.settled, s.full = true, len(entries) == sequenceBatch
	return true, nil
}

// claim gets or keeps the lease. false: another node has it.
func (s *Sequencer) claim(ctx context.Context) (bool, error) {
	now := s.now().UTC()
	if s.lease.Until.Sub(now) > SequencerLeaseTime/2 {
		return true, nil
	}
	lease, err := s.log.ledger.ClaimSequencer(ctx, s.owner, now, now.Add(SequencerLeaseTime))
	if errors.Is(err, blobd.ErrConflict) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("evidence: %w", err)
	}
	s.lease = lease
	return true, nil
}

// release gives the lease up. Where that fails it ends by itself.
func (s *Sequencer) release(ctx context.Context) {
	if s.lease.Until.IsZero() {
		return
	}
	now := s.now().UTC()
	_, _ = s.log.ledger.ClaimSequencer(ctx, s.owner, now, now)
	s.lease = ledger.SequencerLease{}
}

// append signs and commits the tree after the entries. Those that got an index
// since they were read make the commit a conflict.
func (s *Sequencer) append(ctx context.Context, state ledger.LogState, entries []ledger.StoredEntry) error {
	key := state.Key
	if key == nil {
		var err error
		if key, err = s.makeKey(ctx); err != nil {
			return err
		}
	}
	a, root, err := s.grow(ctx, state, entries)
	if err != nil {
		return err
	}
	sign, err := openSigner(ctx, s.log.keys, s.log.origin, *key)
	if err != nil {
		return err
	}
	defer sign.wipe()
	if a.Checkpoint, err = sign.checkpoint(state.Size+int64(len(entries)), root); err != nil {
		return err
	}
	if err := s.log.ledger.AppendToLog(ctx, s.lease, a); err != nil {
		return fmt.Errorf("evidence: %w", err)
	}
	return nil
}

// makeKey makes the log's key and commits it before anything is signed with it.
func (s *Sequencer) makeKey(ctx context.Context) (*ledger.LogKey, error) {
	key, err := newLogKey(ctx, s.log.keys, s.log.origin)
	if err != nil {
		return nil, err
	}
	if err := s.log.ledger.AppendToLog(ctx, s.lease, ledger.LogAppend{Key: key}); err != nil {
		return nil, fmt.Errorf("evidence: keep the log's key: %w", err)
	}
	return key, nil
}

// grow makes the hashes of the entries on top of the tree, which must be the
// signed one.
func (s *Sequencer) grow(ctx context.Context, state ledger.LogState, entries []ledger.StoredEntry) (ledger.LogAppend, tlog.Hash, error) {
	t := tree{ctx: ctx, ledger: s.log.ledger, known: make(map[int64]tlog.Hash)}
	if state.Size > 0 {
		c, err := openState(state)
		if err != nil {
			return ledger.LogAppend{}, tlog.Hash{}, err
		}
		root, err := t.root(state.Size)
		if err != nil {
			return ledger.LogAppend{}, tlog.Hash{}, fmt.Errorf("evidence: %w", err)
		}
		if root != c.Root {
			return ledger.LogAppend{}, tlog.Hash{}, fmt.Errorf("evidence: the ledger's tree of %d is not the signed one: %w", c.Size, blobd.ErrCorrupt)
		}
	}
	a := ledger.LogAppend{Size: state.Size}
	for i, e := range entries {
		hashes, err := t.add(state.Size+int64(i), leafHash(e.Entry))
		if err != nil {
			return ledger.LogAppend{}, tlog.Hash{}, fmt.Errorf("evidence: %w", err)
		}
		a.Entries = append(a.Entries, ledger.NewLogEntry{ID: e.ID, Object: objectOf(e.Entry), Hashes: hashes})
	}
	root, err := t.root(state.Size + int64(len(entries)))
	if err != nil {
		return ledger.LogAppend{}, tlog.Hash{}, fmt.Errorf("evidence: %w", err)
	}
	return a, root, nil
}
