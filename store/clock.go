package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/retention/clock"
)

// ClockRequest tells an event of an erasure's clock.
type ClockRequest struct {
	Tenant    string
	ErasureID string
	Actor     string // token id
	Kind      ledger.ClockEventKind
	Reason    string    // free text: of the event's row, and of its evidence
	At        time.Time // when it happened; zero: now
	DueAt     time.Time // of an extension, where the due date is not the regime's; zero: none
}

// ErasureClock is an erasure's clock as it stands, and its events.
type ErasureClock struct {
	clock.Clock
	Events []ledger.ClockEvent
}

// clockTries bounds how often an event is added again after another came first.
const clockTries = 3

// ClockEvent adds an event to an erasure's clock: the event, its evidence and the
// new due date are one transaction. What may not be added is a *clock.Refusal; an
// unknown erasure is ErrNotFound. After ErrUnavailable the event may be there:
// repeating it is then a conflict.
func (s *Store) ClockEvent(ctx context.Context, r ClockRequest) (ErasureClock, error) {
	ctx, cancel := context.WithTimeout(ctx, DependencyTimeout)
	defer cancel()
	for try := 1; ; try++ {
		c, err := s.clockEvent(ctx, r)
		if err == nil {
			return c, nil
		}
		var refused *clock.Refusal
		if try == clockTries || errors.As(err, &refused) || !errors.Is(err, blobd.ErrConflict) {
			return ErasureClock{}, fmt.Errorf("clock event: %w", err)
		}
	}
}

func (s *Store) clockEvent(ctx context.Context, r ClockRequest) (ErasureClock, error) {
	if err := s.serving(); err != nil {
		return ErasureClock{}, err
	}
	t, err := s.Tenant(ctx, r.Tenant)
	if err != nil {
		return ErasureClock{}, err
	}
	e, err := s.Ledger.Erasure(ctx, t.ID, r.ErasureID)
	if err != nil {
		return ErasureClock{}, err
	}
	events, err := s.Ledger.ClockEvents(ctx, t.ID, r.ErasureID)
	if err != nil {
		return ErasureClock{}, err
	}
	now := micro(s.Now())
	event := ledger.ClockEvent{
		N: len(events) + 1, Kind: r.Kind, At: micro(r.At), RecordedAt: now, By: r.Actor, Reason: r.Reason, DueAt: micro(r.DueAt),
	}
	if r.At.IsZero() {
		event.At = now
	}
	if len(events) == 0 {
		event.StatedAt = e.DueAt
	}
	c, err := clock.Add(clockRequest(&e, events), events, event, s.Calendars.Of(e.Regime), now)
	if err != nil {
		return ErasureClock{}, err
	}
	m := ledger.ClockMove{Tenant: t.ID, ErasureID: e.ID, Event: event, DueAt: c.Stored()}
	entry, err := s.scribe(t).Clock(m)
	if err != nil {
		return ErasureClock{}, err
	}
	if err := s.Ledger.AddClockEvent(ctx, m, entry); err != nil {
		return ErasureClock{}, err
	}
	return ErasureClock{c, append(events, event)}, nil
}

// Clock returns the clock of an erasure that the ledger told.
func (s *Store) Clock(ctx context.Context, e ledger.Erasure) (ErasureClock, error) {
	ctx, cancel := context.WithTimeout(ctx, DependencyTimeout)
	defer cancel()
	events, err := s.Ledger.ClockEvents(ctx, e.Scope.Tenant, e.ID)
	if err != nil {
		return ErasureClock{}, fmt.Errorf("clock: %w", err)
	}
	return ErasureClock{clock.Read(clockRequest(&e, events), events, s.Calendars.Of(e.Regime), s.Now()), events}, nil
}

// clockRequest is what an erasure's clock starts from. The due date that it began
// with is its row's until the first event moves that, and then that event's. Where
// it is not what the regime gives, it was stated: a due date that was told once does
// not change with a list of holidays.
func clockRequest(e *ledger.Erasure, events []ledger.ClockEvent) clock.Request {
	r := clock.Request{Regime: e.Regime, ReceivedAt: e.ReceivedAt, StatedAt: e.DueAt, Ended: e.State.Ended(), EndedAt: e.EndedAt()}
	if len(events) > 0 {
		r.StatedAt = events[0].StatedAt
	}
	return r
}

// firstDue is the due date that an erasure begins with: the one that was stated, or
// the regime's; zero: none.
func (s *Store) firstDue(regime string, received, stated time.Time) time.Time {
	if !stated.IsZero() {
		return stated
	}
	r := clock.Request{Regime: regime, ReceivedAt: received}
	c := clock.Read(r, nil, s.Calendars.Of(regime), received)
	return c.DueAt
}
