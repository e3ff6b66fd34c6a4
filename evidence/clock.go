package evidence

import (
	"fmt"
	"io"
	"time"

	"github.com/blobd/blobd/ledger"
)

// StepClock begins the steps of an erasure's clock; what happened follows, such as
// "clock.paused".
const StepClock = "clock."

// ClockStep is one event of an erasure's clock.
type ClockStep struct {
	Step       string    `json:"step"`
	Erasure    string    `json:"erasure"`
	Actor      string    `json:"actor"`
	HappenedAt time.Time `json:"happenedAt"`
	// DueAt is the due date from then on; absent: the clock stands still, or has none.
	DueAt  *time.Time `json:"dueAt,omitempty"`
	Reason string     `json:"reasonCommitment,omitempty"`
}

// Clock is the entry of an event of an erasure's clock. The reason is free text:
// the body holds a commitment to it.
func (s Scribe) Clock(m ledger.ClockMove) (ledger.Entry, error) {
	body := ClockStep{
		Step: StepClock + string(m.Event.Kind), Erasure: m.ErasureID, Actor: s.actor(m.Event.By),
		HappenedAt: m.Event.At.UTC(), DueAt: dated(m.DueAt),
	}
	if m.Event.Reason == "" {
		return s.entry(ledger.EntryErasure, m.Event.RecordedAt, body)
	}
	salt := make([]byte, saltSize)
	if _, err := io.ReadFull(s.Random, salt); err != nil {
		return ledger.Entry{}, fmt.Errorf("evidence: salt: %w", err)
	}
	body.Reason = Commitment(salt, m.Event.Reason)
	e, err := s.entry(ledger.EntryErasure, m.Event.RecordedAt, body)
	e.FreeText, e.Salt = m.Event.Reason, salt
	return e, err
}
