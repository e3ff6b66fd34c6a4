package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// ClockState is how the ledger's clock stands.
type ClockState struct {
	Watched bool      // false: no bound is set, and nothing is ever suspect
	Now     time.Time // by the ledger's clock
	// Trusted is the time that it should be about and Since the trusted time when it
	// became suspect; zero: it is not.
	Trusted, Since time.Time
}

// Suspect reports whether the clock is suspect.
func (c ClockState) Suspect() bool { return !c.Since.IsZero() }

// Off is how far the clock is ahead of the trusted time; below zero: behind.
func (c ClockState) Off() time.Duration { return c.Now.Sub(c.Trusted) }

// confirmTries bounds how often a confirmation is repeated after another node noted
// something.
const confirmTries = 5

// LookAtClock asks the ledger for its time and judges it. It writes nothing.
func (s *Store) LookAtClock(ctx context.Context) (ClockState, error) {
	c, _, err := s.lookAtClock(ctx)
	if err != nil {
		return ClockState{}, fmt.Errorf("look at the clock: %w", err)
	}
	return c, nil
}

// BeatClock looks at the clock, and notes in the ledger what it found: for the next
// start, and for the other nodes.
func (s *Store) BeatClock(ctx context.Context) error {
	if s.ClockWatch == nil {
		return nil
	}
	_, note, err := s.lookAtClock(ctx)
	if err == nil {
		err = s.Ledger.NoteClock(ctx, note, nil)
	}
	if err != nil && !errors.Is(err, blobd.ErrConflict) { // another node noted: it knows as much
		return fmt.Errorf("note the clock: %w", err)
	}
	return nil
}

// ConfirmClock is an operator's word, for the whole deployment, that the ledger's clock
// is right. It is on record in tenant's name; other nodes learn of it with their next
// BeatClock. Where the clock is not suspect nothing happens.
func (s *Store) ConfirmClock(ctx context.Context, tenant, actor string) (ClockState, error) {
	ctx, cancel := context.WithTimeout(ctx, DependencyTimeout)
	defer cancel()
	for try := 1; ; try++ {
		c, err := s.confirmClock(ctx, tenant, actor)
		if err == nil {
			return c, nil
		}
		if try == confirmTries || !errors.Is(err, blobd.ErrConflict) {
			return ClockState{}, fmt.Errorf("confirm the clock: %w", err)
		}
	}
}

func (s *Store) confirmClock(ctx context.Context, tenant, actor string) (ClockState, error) {
	if err := s.serving(); err != nil {
		return ClockState{}, err
	}
	t, err := s.Tenant(ctx, tenant)
	if err != nil {
		return ClockState{}, err
	}
	c, note, err := s.lookAtClock(ctx)
	if err != nil || !c.Suspect() {
		return c, err
	}
	entry, err := s.scribe(t).ClockConfirmed(c.Now, c.Trusted, actor)
	if err != nil {
		return ClockState{}, err
	}
	note.Seen, note.Since = c.Now, time.Time{}
	if err := s.Ledger.NoteClock(ctx, note, []ledger.Entry{entry}); err != nil {
		return ClockState{}, err
	}
	s.ClockWatch.Trust(c.Now)
	c.Trusted, c.Since = time.Time{}, time.Time{}
	s.tellClock(c)
	return c, nil
}

// lookAtClock reads and judges; note is what to note.
func (s *Store) lookAtClock(ctx context.Context) (c ClockState, note ledger.ClockNote, err error) {
	ctx, cancel := context.WithTimeout(ctx, DependencyTimeout)
	defer cancel()
	if note, err = s.Ledger.ClockNote(ctx); err != nil || s.ClockWatch == nil {
		return ClockState{Now: note.Now}, note, err
	}
	note = s.ClockWatch.Beat(note)
	c = ClockState{Watched: true, Now: note.Now, Since: note.Since}
	if note.Suspect() {
		c.Trusted = note.Seen
	}
	s.tellClock(c)
	return c, note, nil
}

// tellClock remembers what was found, and tells when it begins and when it ends.
func (s *Store) tellClock(c ClockState) {
	switch was := s.suspect.Swap(c.Suspect()); {
	case c.Suspect() && !was:
		s.Log.Error("the clock is suspect: what only time would make null is 503, and no scheduled sweep runs, until it is right again or an operator confirms it",
			"now", c.Now, "trusted", c.Trusted, "off", c.Off())
	case was && !c.Suspect():
		s.Log.Error("the clock is not suspect any more", "now", c.Now)
	}
}

// ClockSuspect reports whether the ledger's clock was suspect at the last look. It asks
// nobody.
func (s *Store) ClockSuspect() bool { return s.suspect.Load() }

// beginsAt is when a maximum or a grace begins that begins now; now is the ledger's time.
// While the clock is suspect nobody knows whether that is right or the time that was
// trusted: it is the later of both, so that nothing ends early whichever it was. What
// began while the clock was ahead ends as much later.
func (s *Store) beginsAt(now time.Time) time.Time {
	steady := s.Now().UTC()
	if !s.ClockWatch.Judge(now).IsZero() && now.After(steady) {
		return now.UTC()
	}
	return steady
}

// begins is beginsAt the ledger's time.
func (s *Store) begins(ctx context.Context) (time.Time, error) {
	note, err := s.Ledger.ClockNote(ctx)
	return s.beginsAt(note.Now), err
}

// lookupRepeats is the ledger's, with its clock judged.
func (s *Store) lookupRepeats(ctx context.Context, tag blobd.ExecutionTag, repeats [][32]byte) (ledger.View, error) {
	view, err := s.Ledger.LookupRepeats(ctx, tag, repeats)
	view.Trusted = s.ClockWatch.Judge(view.Now)
	return view, err
}
