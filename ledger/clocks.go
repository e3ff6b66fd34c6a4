package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/blobd/blobd"
)

// Clocks keeps what moves the due dates of erasures. It keeps events in their
// order and never changes one; what they mean is package retention/clock's.
type Clocks interface {
	// AddClockEvent appends an event to an erasure's clock, with its entry, and sets
	// the erasure's DueAt. An unknown erasure, or another tenant's, is ErrNotFound.
	// One that has ended (erased, denied, cancelled) is ErrConflict, and so is one that
	// has another number of events than N-1: another event came first. What
	// ClockMove.Check refuses is ErrInvalid or ErrTooLarge. An error changes nothing.
	AddClockEvent(ctx context.Context, m ClockMove, e Entry) error
	// ClockEvents returns the events of an erasure's clock in their order, none where
	// there are none; an unknown erasure, or another tenant's, is ErrNotFound.
	ClockEvents(ctx context.Context, tenant, erasureID string) ([]ClockEvent, error)
	// DueDates returns, for each regime in byte order ("" too), the due dates of all
	// tenants' erasures that have not ended and whose DueAt is set. Its time grows with
	// their number and not with what has ended.
	DueDates(ctx context.Context, at time.Time) ([]DueDate, error)
}

// MaxClockEvents bounds the events of one erasure's clock.
const MaxClockEvents = 100

// ClockEventKind is what happened; its text is the contract's.
type ClockEventKind string

// The kinds of events.
const (
	ClockAcknowledged ClockEventKind = "acknowledged" // receipt was confirmed
	ClockPaused       ClockEventKind = "paused"       // time stopped counting
	ClockResumed      ClockEventKind = "resumed"      // time counts again
	ClockExtended     ClockEventKind = "extended"     // notice of a longer period was given
)

// ClockEvent is one event of an erasure's clock.
type ClockEvent struct {
	N          int // 1 is the first
	Kind       ClockEventKind
	At         time.Time // when it happened
	RecordedAt time.Time // when it was told
	By         string    // token id
	Reason     string    // free text, of this row alone
	// DueAt is the new due date that an extension came with; zero: the regime's.
	DueAt time.Time
	// StatedAt is the erasure's DueAt before its first event; zero: none. Only the
	// first event has it.
	StatedAt time.Time
}

// ClockMove asks for one event.
type ClockMove struct {
	Tenant    string
	ErasureID string
	Event     ClockEvent
	// DueAt becomes the erasure's; zero: none, which a clock that stands still has.
	DueAt time.Time
}

// Check refuses what no engine takes.
func (m *ClockMove) Check() error {
	e := &m.Event
	switch {
	case e.N < 1, e.At.IsZero(), e.RecordedAt.IsZero(), !e.Kind.known():
		return fmt.Errorf("event %d %q of a clock: %w", e.N, e.Kind, blobd.ErrInvalid)
	case e.N > 1 && !e.StatedAt.IsZero(), e.Kind != ClockExtended && !e.DueAt.IsZero():
		return fmt.Errorf("event %d %q of a clock comes with a date that it has not: %w", e.N, e.Kind, blobd.ErrInvalid)
	case e.N > MaxClockEvents:
		return fmt.Errorf("more than %d events of a clock: %w", MaxClockEvents, blobd.ErrTooLarge)
	}
	return nil
}

func (k ClockEventKind) known() bool {
	return k == ClockAcknowledged || k == ClockPaused || k == ClockResumed || k == ClockExtended
}

// Ended reports whether an erasure's state is its last: nothing is due any more.
func (s ErasureState) Ended() bool {
	return s == ErasureErased || s == ErasureDenied || s == ErasureCancelled
}

// DueDate is how the erasures of one regime stand that have not ended.
type DueDate struct {
	Regime  string
	Next    time.Time // the earliest; it may be past
	Overdue int64     // those whose DueAt is before the moment asked for
}
