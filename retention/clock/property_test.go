package clock_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/retention/clock"
)

const day = 24 * time.Hour

func regimes() []string { return []string{"gdpr", "uk", "ccpa", "lgpd", "hipaa", "custom", ""} }

func instants() *rapid.Generator[time.Time] {
	return rapid.Map(rapid.Int64Range(946_684_800, 4_102_444_799), func(s int64) time.Time { return time.Unix(s, 0) })
}

func calendars() *rapid.Generator[clock.Calendar] {
	return rapid.Custom(func(t *rapid.T) clock.Calendar {
		return clock.NewCalendar(rapid.SliceOfN(instants(), 0, 40).Draw(t, "holidays")...)
	})
}

func requests() *rapid.Generator[clock.Request] {
	return rapid.Custom(func(t *rapid.T) clock.Request {
		r := clock.Request{Regime: rapid.SampledFrom(regimes()).Draw(t, "regime"), ReceivedAt: instants().Draw(t, "received")}
		if rapid.Bool().Draw(t, "has a date") {
			r.StatedAt = r.ReceivedAt.Add(time.Duration(rapid.Int64Range(0, 100*86_400).Draw(t, "date")) * time.Second)
		}
		return r
	})
}

// history draws events that Add takes, with the time after the last one.
func history(t *rapid.T, r clock.Request, cal clock.Calendar) (events []ledger.ClockEvent, now time.Time) {
	now = r.ReceivedAt
	kinds := []ledger.ClockEventKind{ledger.ClockAcknowledged, ledger.ClockPaused, ledger.ClockResumed, ledger.ClockExtended}
	for range rapid.IntRange(0, 8).Draw(t, "events") {
		now = now.Add(time.Duration(rapid.Int64Range(0, 12*86_400).Draw(t, "later")) * time.Second)
		e := ledger.ClockEvent{Kind: rapid.SampledFrom(kinds).Draw(t, "kind"), At: now, Reason: "because"}
		if _, err := clock.Add(r, events, e, cal, now); err == nil {
			events = append(events, e)
		}
	}
	return events, now
}

func TestNothingIsDueBeforeItsReceipt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, cal := requests().Draw(t, "request"), calendars().Draw(t, "calendar")
		events, now := history(t, r, cal)
		c := clock.Read(r, events, cal, now)
		for what, at := range map[string]time.Time{"due": c.DueAt, "computed": c.ComputedAt, "first": c.FirstDueAt, "acknowledge by": c.AcknowledgeBy} {
			if !at.IsZero() && at.Before(r.ReceivedAt) {
				t.Errorf("%s is %v, received %v", what, at, r.ReceivedAt)
			}
		}
	})
}

func TestAPauseGivesBackItsDays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, cal := requests().Draw(t, "request"), calendars().Draw(t, "calendar")
		events, now := history(t, r, cal)
		pause := ledger.ClockEvent{Kind: ledger.ClockPaused, At: now, Reason: "because"}
		if _, err := clock.Add(r, events, pause, cal, now); err != nil {
			return // this clock cannot be paused now
		}
		before := clock.Read(r, events, cal, now)
		length := time.Duration(rapid.Int64Range(0, 60*86_400).Draw(t, "length")) * time.Second
		resume := ledger.ClockEvent{Kind: ledger.ClockResumed, At: now.Add(length)}
		after, err := clock.Add(r, append(events, pause), resume, cal, resume.At)
		if err != nil {
			t.Fatal(err)
		}
		if before.DueAt.IsZero() {
			return
		}
		if moved := after.DueAt.Sub(before.DueAt); moved < length/day*day {
			t.Errorf("paused for %v, moved by %v", length, moved)
		}
		if after.State == clock.Overdue {
			t.Errorf("overdue by the pause: %v left before, %v after", before.Remaining, after.Remaining)
		}
	})
}

func TestLaterIsNeverDueEarlier(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cal := calendars().Draw(t, "calendar")
		r := clock.Request{Regime: rapid.SampledFrom(regimes()).Draw(t, "regime"), ReceivedAt: instants().Draw(t, "received")}
		later := r
		later.ReceivedAt = r.ReceivedAt.Add(time.Duration(rapid.Int64Range(0, 90*86_400).Draw(t, "later")) * time.Second)
		a, b := clock.Read(r, nil, cal, r.ReceivedAt), clock.Read(later, nil, cal, r.ReceivedAt)
		if b.DueAt.Before(a.DueAt) || b.AcknowledgeBy.Before(a.AcknowledgeBy) {
			t.Errorf("received %v: %v, %v; received %v: %v, %v",
				r.ReceivedAt, a.DueAt, a.AcknowledgeBy, later.ReceivedAt, b.DueAt, b.AcknowledgeBy)
		}
	})
}

func TestAnExtensionNeverShortens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, cal := requests().Draw(t, "request"), calendars().Draw(t, "calendar")
		events, now := history(t, r, cal)
		extension := ledger.ClockEvent{Kind: ledger.ClockExtended, At: now, Reason: "because"}
		after, err := clock.Add(r, events, extension, cal, now)
		if err != nil {
			return
		}
		if before := clock.Read(r, events, cal, now); !after.DueAt.After(before.DueAt) {
			t.Errorf("due %v before, %v after", before.DueAt, after.DueAt)
		}
	})
}

func TestWorkingDays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cal, at := calendars().Draw(t, "calendar"), instants().Draw(t, "at")
		n := rapid.IntRange(1, 30).Draw(t, "n")
		end, count := cal.After(at, n), 0
		for d := at.AddDate(0, 0, 1); !d.After(end); d = d.AddDate(0, 0, 1) {
			if cal.Working(d) {
				count++
			}
		}
		if count != n || !cal.Working(end) || !cal.Roll(end).Equal(end) {
			t.Errorf("%d working days after %v is %v, with %d between", n, at, end, count)
		}
	})
}

// Whatever events a row may hold, a clock can be read.
func FuzzRead(f *testing.F) {
	f.Add("gdpr", int64(1_780_000_000), int64(0), []byte{1, 10, 2, 30, 3, 40})
	f.Add("ccpa", int64(1_780_000_000), int64(1_790_000_000), []byte{0, 1, 3, 2, 3, 3})
	f.Add("custom", int64(-62_135_596_800), int64(253_402_300_799), []byte{1, 255, 2, 255})
	kinds := []ledger.ClockEventKind{ledger.ClockAcknowledged, ledger.ClockPaused, ledger.ClockResumed, ledger.ClockExtended, ""}
	f.Fuzz(func(t *testing.T, regime string, received, stated int64, script []byte) {
		const year0, year9999 = -62_135_596_800, 253_402_300_799
		if received < year0 || received > year9999 || stated < year0 || stated > year9999 || len(script) > 400 {
			return
		}
		r := clock.Request{Regime: regime, ReceivedAt: time.Unix(received, 0)}
		if stated != 0 {
			r.StatedAt = time.Unix(stated, 0)
		}
		now := r.ReceivedAt
		var wild, legal []ledger.ClockEvent
		for i := 0; i+1 < len(script); i += 2 {
			now = now.Add(time.Duration(script[i+1]) * 7 * time.Hour)
			e := ledger.ClockEvent{Kind: kinds[int(script[i])%len(kinds)], At: now, Reason: "because"}
			wild = append(wild, e)
			if _, err := clock.Add(r, legal, e, clock.Calendar{}, now); err == nil {
				legal = append(legal, e)
			}
		}
		for _, events := range [][]ledger.ClockEvent{wild, legal} {
			c := clock.Read(r, events, clock.Calendar{}, now)
			if c.PausedDays < 0 || c.DueAt.Year() > 9999 || c.State == "" || c.State == clock.Done {
				t.Fatalf("%+v", c)
			}
			if c.State == clock.Paused != c.Stored().IsZero() && !c.DueAt.IsZero() {
				t.Fatalf("%s is stored as due %v", c.State, c.Stored())
			}
		}
	})
}

func TestExtendableSaysWhatAddTakes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, cal := requests().Draw(t, "request"), calendars().Draw(t, "calendar")
		events, now := history(t, r, cal)
		c := clock.Read(r, events, cal, now)
		extension := ledger.ClockEvent{Kind: ledger.ClockExtended, At: now, Reason: "because"}
		if c.ComputedAt.IsZero() || !c.StatedAt.IsZero() { // not the regime's date: one of its own
			extension.DueAt = c.DueAt.Add(day)
			if c.DueAt.Before(now) {
				extension.DueAt = now.Add(day)
			}
		}
		if _, err := clock.Add(r, events, extension, cal, now); (err == nil) != c.Extendable() {
			t.Errorf("extendable is %t, Add says %v", c.Extendable(), err)
		}
	})
}
