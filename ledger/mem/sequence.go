package mem

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// sequence is the log.
type sequence struct {
	lease       ledger.SequencerLease
	held        bool
	key         *ledger.LogKey
	logged      []ledger.LoggedEntry // without what the entry's own row has
	indexed     map[int64]bool       // ids of entries that have an index
	checkpoints []ledger.LogState    // without the key
}

// ClaimSequencer implements ledger.Sequence.
func (l *Ledger) ClaimSequencer(ctx context.Context, owner string, at, until time.Time) (ledger.SequencerLease, error) {
	if err := l.begin(ctx, "claim the sequencer"); err != nil {
		return ledger.SequencerLease{}, err
	}
	defer l.mu.Unlock()
	s := &l.sequence
	if s.held && s.lease.Owner != owner && s.lease.Until.After(kept(at)) {
		return ledger.SequencerLease{}, refuse("claim the sequencer", fmt.Errorf("another has it: %w", blobd.ErrConflict))
	}
	s.held = true
	s.lease = ledger.SequencerLease{Owner: owner, Term: s.lease.Term + 1, Until: kept(until)}
	return s.lease, nil
}

// Unsequenced implements ledger.Sequence.
func (l *Ledger) Unsequenced(ctx context.Context, after int64, limit int) ([]ledger.StoredEntry, error) {
	if err := checkLimit("unsequenced", limit); err != nil {
		return nil, err
	}
	if err := l.begin(ctx, "unsequenced"); err != nil {
		return nil, err
	}
	defer l.mu.Unlock()
	var es []ledger.StoredEntry
	for _, e := range l.entries {
		if len(es) == limit {
			break
		}
		if e.ID > after && !l.sequence.indexed[e.ID] {
			es = append(es, bare(e))
		}
	}
	return es, nil
}

// bare is an entry without its free text.
func bare(e ledger.StoredEntry) ledger.StoredEntry {
	e.FreeText, e.Salt, e.Body = "", nil, slices.Clone(e.Body)
	return e
}

// AppendToLog implements ledger.Sequence.
func (l *Ledger) AppendToLog(ctx context.Context, lease ledger.SequencerLease, a ledger.LogAppend) error {
	if err := a.Check(); err != nil {
		return refuse("append to the log", err)
	}
	if err := l.begin(ctx, "append to the log"); err != nil {
		return err
	}
	defer l.mu.Unlock()
	if err := l.appendToLog(lease, a); err != nil {
		return refuse("append to the log", err)
	}
	return nil
}

func (l *Ledger) appendToLog(lease ledger.SequencerLease, a ledger.LogAppend) error {
	s := &l.sequence
	if !s.held || s.lease.Owner != lease.Owner || s.lease.Term != lease.Term {
		return fmt.Errorf("the lease is stale: %w", blobd.ErrConflict)
	}
	if int64(len(s.logged)) != a.Size {
		return fmt.Errorf("the log has %d entries, not %d: %w", len(s.logged), a.Size, blobd.ErrConflict)
	}
	if a.Key != nil && s.key != nil && !a.Key.Same(*s.key) {
		return fmt.Errorf("the log has another key: %w", blobd.ErrConflict)
	}
	given := make(map[int64]bool)
	for _, e := range a.Entries {
		if e.Insert != nil {
			continue
		}
		if e.ID < 1 || e.ID > int64(len(l.entries)) || s.indexed[e.ID] || given[e.ID] {
			return fmt.Errorf("entry %d cannot get an index: %w", e.ID, blobd.ErrConflict)
		}
		given[e.ID] = true
	}
	if s.indexed == nil {
		s.indexed = make(map[int64]bool)
	}
	maps.Copy(s.indexed, given)
	if a.Key != nil && s.key == nil {
		s.key = cloneLogKey(a.Key)
	}
	for _, e := range a.Entries {
		if e.Insert != nil {
			l.append(*e.Insert)
			e.ID = int64(len(l.entries))
			s.indexed[e.ID] = true
		}
		s.logged = append(s.logged, ledger.LoggedEntry{
			Index: int64(len(s.logged)), Object: e.Object, Hashes: slices.Clone(e.Hashes),
			StoredEntry: ledger.StoredEntry{ID: e.ID},
		})
	}
	if len(a.Entries) > 0 {
		s.checkpoints = append(s.checkpoints, ledger.LogState{Size: int64(len(s.logged)), Checkpoint: slices.Clone(a.Checkpoint)})
	}
	return nil
}

func cloneLogKey(k *ledger.LogKey) *ledger.LogKey {
	if k == nil {
		return nil
	}
	c := *k
	c.Ciphertext = slices.Clone(k.Ciphertext)
	return &c
}

// Logged implements ledger.Sequence.
func (l *Ledger) Logged(ctx context.Context, q ledger.LogQuery) ([]ledger.LoggedEntry, error) {
	if err := q.Check(); err != nil {
		return nil, refuse("logged", err)
	}
	if err := l.begin(ctx, "logged"); err != nil {
		return nil, err
	}
	defer l.mu.Unlock()
	var es []ledger.LoggedEntry
	for _, n := range l.selected(q) {
		e := l.sequence.logged[n]
		e.Hashes = slices.Clone(e.Hashes)
		if !q.HashesOnly {
			e.StoredEntry = bare(l.entries[e.ID-1])
		}
		es = append(es, e)
	}
	return es, nil
}

// selected returns the indexes that a query means and the log has.
func (l *Ledger) selected(q ledger.LogQuery) (indexes []int64) {
	logged := l.sequence.logged
	for i := range logged {
		if q.Object != "" && logged[i].Object == q.Object {
			indexes = append(indexes, int64(i))
		}
	}
	for _, n := range q.Indexes {
		if n >= 0 && n < int64(len(logged)) {
			indexes = append(indexes, n)
		}
	}
	slices.Sort(indexes)
	return cut(slices.Compact(indexes), ledger.MaxLogQuery)
}

// LogState implements ledger.Sequence.
func (l *Ledger) LogState(ctx context.Context, size int64) (ledger.LogState, error) {
	if err := l.begin(ctx, "log state"); err != nil {
		return ledger.LogState{}, err
	}
	defer l.mu.Unlock()
	s := &l.sequence
	state := ledger.LogState{}
	if size <= 0 && len(s.checkpoints) > 0 {
		state = s.checkpoints[len(s.checkpoints)-1]
	}
	if size > 0 {
		i := slices.IndexFunc(s.checkpoints, func(c ledger.LogState) bool { return c.Size >= size })
		if i < 0 {
			return ledger.LogState{}, refuse("log state", blobd.ErrNotFound)
		}
		state = s.checkpoints[i]
	}
	state.Checkpoint, state.Key = slices.Clone(state.Checkpoint), cloneLogKey(s.key)
	return state, nil
}
