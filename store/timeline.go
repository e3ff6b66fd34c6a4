package store

import (
	"context"
	"fmt"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// TimelinePoll is how often Watch asks for the ledger's timeline.
const TimelinePoll = time.Second

// errTimeline is why nothing is served until the journal was compared again.
var errTimeline = fmt.Errorf("the ledger's database has a new timeline: %w", blobd.ErrUnavailable)

// Watch waits until the ledger's database has another timeline than the one on
// which the journal was compared, and returns nil: the store serves nothing any
// more, and Start is to be called again. It returns the cause when ctx ends. A
// ledger without timelines never has another.
//
// Between the change and its notice nothing wrong is said: the ledger itself
// refuses what is asked on a timeline that it was not told to trust.
func (s *Store) Watch(ctx context.Context) error {
	tick := time.NewTicker(TimelinePoll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
		at, err := s.timeline(ctx)
		if err != nil {
			continue // readiness says it
		}
		if compared := s.compared.Load(); compared == nil || at != *compared {
			s.ready.Store(&notReady{errTimeline})
			return nil
		}
	}
}

// timeline returns the ledger's timeline, "" where it has none.
func (s *Store) timeline(ctx context.Context) (string, error) {
	l, ok := s.Ledger.(ledger.Timelines)
	if !ok {
		return "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, DependencyTimeout)
	defer cancel()
	at, err := l.Timeline(ctx)
	if err != nil {
		return "", fmt.Errorf("timeline: %w", err)
	}
	return at, nil
}

// trust says that the journal was compared on a timeline that was read before.
func (s *Store) trust(at string) {
	if l, ok := s.Ledger.(ledger.Timelines); ok {
		l.Trust(at)
	}
	s.compared.Store(&at)
}
