package wire

import "time"

// ClockRequest tells an event of an erasure's clock.
type ClockRequest struct {
	Event  string     `json:"event" enum:"acknowledged,paused,resumed,extended"`
	Reason string     `json:"reason,omitempty" maxLength:"1024" doc:"free text; a pause and an extension need one"`
	At     *time.Time `json:"at,omitempty" doc:"when it happened: not in the future, not before the receipt or the last event; default now"`
	DueAt  *time.Time `json:"dueAt,omitempty" doc:"of an extension, where the due date is not the regime's: the new one"`
}

// ClockEvents lists the words of ClockRequest.Event.
func ClockEvents() []string { return []string{"acknowledged", "paused", "resumed", "extended"} }

// Clock is how an erasure stands to the time that its regime gives. A date of
// whole days ends with the last second of its last day, in UTC.
type Clock struct {
	Regime         *string      `json:"regime"`
	State          string       `json:"state" enum:"on_track,approaching,overdue,paused,done" doc:"approaching: less than a quarter of the time is left"`
	ReceivedAt     *time.Time   `json:"receivedAt"`
	AcknowledgeBy  *time.Time   `json:"acknowledgeBy" doc:"null: the regime sets none"`
	AcknowledgedAt *time.Time   `json:"acknowledgedAt"`
	DueAt          *time.Time   `json:"dueAt" doc:"the date that counts; while paused, what it would be if the clock went on now"`
	ComputedDueAt  *time.Time   `json:"computedDueAt" doc:"what the regime gives, whether it counts or not"`
	StatedDueAt    *time.Time   `json:"statedDueAt" doc:"the due date that came with the request, where it is not the regime's: it counts"`
	ExtendableBy   *time.Time   `json:"extendableBy" doc:"end of the first period: an extension must be told until then; null: none is possible any more, or there is no such date"`
	ExtendedAt     *time.Time   `json:"extendedAt"`
	PausedAt       *time.Time   `json:"pausedAt" doc:"of the pause that has not ended"`
	PausedDays     int          `json:"pausedDays"`
	Remaining      *string      `json:"remaining" doc:"time left, as an ISO 8601 duration of days and less; PT0S once the date has passed"`
	Late           bool         `json:"late" doc:"the due date passed before the end, or before now"`
	EndedAt        *time.Time   `json:"endedAt"`
	Events         []ClockEvent `json:"events" doc:"in their order; none is ever changed"`
}

// ClockEvent is one event of an erasure's clock.
type ClockEvent struct {
	Event      string     `json:"event" enum:"acknowledged,paused,resumed,extended"`
	At         time.Time  `json:"at"`
	RecordedAt time.Time  `json:"recordedAt"`
	RecordedBy string     `json:"recordedBy" doc:"token id"`
	Reason     *string    `json:"reason"`
	DueAt      *time.Time `json:"dueAt,omitempty"`
}
