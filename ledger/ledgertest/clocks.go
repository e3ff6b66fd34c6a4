package ledgertest

import (
	"context"
	"sync"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// pauseOf is the n-th event of an erasure's clock, a pause that leaves no due date.
func pauseOf(id, n int) ledger.ClockMove {
	return ledger.ClockMove{Tenant: tenant, ErasureID: erasureID(id), Event: ledger.ClockEvent{
		N: n, Kind: ledger.ClockPaused, At: at(11), RecordedAt: at(12), By: "token", Reason: "who is it",
	}}
}

// dated fences an execution by an erasure of a regime with a due date; zero: none.
func (e *env) dated(id int, regime string, when time.Time) {
	e.Helper()
	f := fenceOf(id, id)
	f.Regime, f.DueAt = regime, when
	e.fence(f)
}

func (e *env) clockEvents(id int) []ledger.ClockEvent {
	e.Helper()
	events, err := e.ClockEvents(e.ctx, tenant, erasureID(id))
	e.must(err)
	return events
}

func (e *env) dueAt(id int) time.Time {
	e.Helper()
	x, err := e.Erasure(e.ctx, tenant, erasureID(id))
	e.must(err)
	return x.DueAt
}

// unmoved checks that an event is refused and changes nothing.
func (e *env) unmoved(m ledger.ClockMove, want error) {
	e.Helper()
	before, entries := e.dueAt(1), len(e.entries())
	events := e.clockEvents(1)
	e.refused(e.AddClockEvent(e.ctx, m, entry(ledger.EntryErasure)), want)
	e.equal("due", e.dueAt(1), before)
	e.equal("events", e.clockEvents(1), events)
	e.equal("entries", len(e.entries()), entries)
}

func clockSentences() []sentence {
	return []sentence{
		{"an event is kept whole, moves the due date and brings its entry", func(e *env) {
			e.dated(1, "custom", at(100))
			first := pauseOf(1, 1)
			first.Event.StatedAt = at(100)
			entries := len(e.entries())
			e.must(e.AddClockEvent(e.ctx, first, entry(ledger.EntryErasure)))
			e.equal("due", e.dueAt(1), time.Time{})
			second := pauseOf(1, 2)
			second.DueAt, second.Event.Reason, second.Event.Kind, second.Event.At = at(300), "", ledger.ClockResumed, at(13)
			e.must(e.AddClockEvent(e.ctx, second, entry(ledger.EntryErasure)))
			third := pauseOf(1, 3)
			third.DueAt, third.Event.Kind, third.Event.DueAt = at(400), ledger.ClockExtended, at(400)
			withText := entry(ledger.EntryErasure)
			withText.FreeText, withText.Salt = "who is it", []byte("salt")
			e.must(e.AddClockEvent(e.ctx, third, withText))
			e.equal("events", e.clockEvents(1), []ledger.ClockEvent{first.Event, second.Event, third.Event})
			e.equal("due", e.dueAt(1), at(400))
			all := e.entries()[entries:]
			e.equal("entries", len(all), 3)
			e.equal("the text of the last", all[2].FreeText, "who is it")
		}},
		{"times are kept to the microsecond, in UTC", func(e *env) {
			e.dated(1, "gdpr", at(100))
			m := pauseOf(1, 1)
			zone := time.FixedZone("", 3600)
			m.Event.At, m.Event.RecordedAt = at(11).In(zone).Add(999), at(12).In(zone)
			m.Event.StatedAt, m.DueAt = at(100).In(zone), at(200).In(zone)
			e.must(e.AddClockEvent(e.ctx, m, entry(ledger.EntryErasure)))
			want := pauseOf(1, 1).Event
			want.StatedAt = at(100)
			e.equal("events", e.clockEvents(1), []ledger.ClockEvent{want})
			e.equal("due", e.dueAt(1), at(200))
		}},
		{"another number than the next is a conflict", func(e *env) {
			e.dated(1, "gdpr", at(100))
			e.unmoved(pauseOf(1, 2), blobd.ErrConflict)
			e.must(e.AddClockEvent(e.ctx, pauseOf(1, 1), entry(ledger.EntryErasure)))
			e.unmoved(pauseOf(1, 1), blobd.ErrConflict)
			e.unmoved(pauseOf(1, 3), blobd.ErrConflict)
		}},
		{"of two with one number one wins", func(e *env) {
			e.dated(1, "gdpr", at(100))
			var wg sync.WaitGroup
			errs := make([]error, 8)
			for i := range errs {
				wg.Go(func() { errs[i] = e.AddClockEvent(e.ctx, pauseOf(1, 1), entry(ledger.EntryErasure)) })
			}
			wg.Wait()
			won := 0
			for _, err := range errs {
				if err == nil {
					won++
					continue
				}
				e.refused(err, blobd.ErrConflict)
			}
			e.equal("winners", won, 1)
			e.equal("events", len(e.clockEvents(1)), 1)
		}},
		{"what is no event is refused", func(e *env) {
			e.dated(1, "gdpr", at(100))
			for _, change := range []func(*ledger.ClockMove){
				func(m *ledger.ClockMove) { m.Event.N = 0 },
				func(m *ledger.ClockMove) { m.Event.Kind = "stopped" },
				func(m *ledger.ClockMove) { m.Event.At = time.Time{} },
				func(m *ledger.ClockMove) { m.Event.RecordedAt = time.Time{} },
				func(m *ledger.ClockMove) { m.Event.DueAt = at(100) },
				func(m *ledger.ClockMove) { m.Event.N, m.Event.StatedAt = 2, at(100) },
			} {
				m := pauseOf(1, 1)
				change(&m)
				e.unmoved(m, blobd.ErrInvalid)
			}
		}},
		{"a clock is full after its bound", func(e *env) {
			e.dated(1, "gdpr", at(100))
			for n := 1; n <= ledger.MaxClockEvents; n++ {
				e.must(e.AddClockEvent(e.ctx, pauseOf(1, n), entry(ledger.EntryErasure)))
			}
			e.unmoved(pauseOf(1, ledger.MaxClockEvents+1), blobd.ErrTooLarge)
		}},
		{"an erasure that is unknown or another tenant's is not found", func(e *env) {
			e.dated(1, "gdpr", at(100))
			unknown, foreign := pauseOf(2, 1), pauseOf(1, 1)
			foreign.Tenant = "beta"
			e.unmoved(unknown, blobd.ErrNotFound)
			e.unmoved(foreign, blobd.ErrNotFound)
			_, err := e.ClockEvents(e.ctx, tenant, erasureID(2))
			e.refused(err, blobd.ErrNotFound)
			_, err = e.ClockEvents(e.ctx, "beta", erasureID(1))
			e.refused(err, blobd.ErrNotFound)
			e.equal("events", len(e.clockEvents(1)), 0)
		}},
		{"what has ended is a conflict", func(e *env) {
			e.dated(1, "gdpr", at(100))
			e.must(e.AddClockEvent(e.ctx, pauseOf(1, 1), entry(ledger.EntryErasure)))
			e.finish(e.claim())
			e.unmoved(pauseOf(1, 2), blobd.ErrConflict)
		}},
		{"what was cancelled is a conflict", func(e *env) {
			f := fenceOf(1, 1)
			f.Approvals = 1
			e.fence(f)
			_, _, err := e.Decide(e.ctx, ledger.Decision{Tenant: tenant, ID: f.ID, Act: ledger.ActCancel, By: "token", At: at(11)})
			e.must(err)
			e.unmoved(pauseOf(1, 1), blobd.ErrConflict)
		}},
		{"due dates are told by regime, of what has not ended", func(e *env) {
			e.tenant("beta", 0)
			e.equal("none", len(e.dueDates(at(0))), 0)
			e.dated(1, "uk", at(100))
			e.finish(e.claim())
			e.dated(2, "uk", at(200))
			e.dated(3, "gdpr", at(300))
			e.dated(4, "gdpr", at(150))
			e.dated(5, "ccpa", time.Time{})
			e.dated(6, "", at(50))
			foreign := fenceOf(7, 7)
			foreign.Scope.Tenant, foreign.Regime, foreign.DueAt = "beta", "gdpr", at(120)
			e.fence(foreign)
			e.equal("dates", e.dueDates(at(150)), []ledger.DueDate{
				{Regime: "", Next: at(50), Overdue: 1}, {Regime: "gdpr", Next: at(120), Overdue: 1}, {Regime: "uk", Next: at(200)},
			})
			e.must(e.AddClockEvent(e.ctx, pauseOf(6, 1), entry(ledger.EntryErasure)))
			e.equal("dates", e.dueDates(at(301)), []ledger.DueDate{
				{Regime: "gdpr", Next: at(120), Overdue: 3}, {Regime: "uk", Next: at(200), Overdue: 1},
			})
		}},
		{"a moved due date is what erasures are listed by", func(e *env) {
			e.dated(1, "gdpr", at(100))
			e.dated(2, "gdpr", at(100))
			e.must(e.AddClockEvent(e.ctx, pauseOf(1, 1), entry(ledger.EntryErasure)))
			late, err := e.ListErasures(e.ctx, ledger.ErasureQuery{Tenant: tenant, DueBefore: at(101), Limit: 10})
			e.must(err)
			if len(late) != 1 || late[0].ID != erasureID(2) {
				e.Fatalf("overdue are %v", late)
			}
		}},
		{"a cancelled context is unavailable and adds nothing", func(e *env) {
			e.dated(1, "gdpr", at(100))
			cancelled, cancel := context.WithCancel(e.ctx)
			cancel()
			e.refused(e.AddClockEvent(cancelled, pauseOf(1, 1), entry(ledger.EntryErasure)), blobd.ErrUnavailable)
			_, err := e.ClockEvents(cancelled, tenant, erasureID(1))
			e.refused(err, blobd.ErrUnavailable)
			_, err = e.DueDates(cancelled, at(1))
			e.refused(err, blobd.ErrUnavailable)
			e.equal("events", len(e.clockEvents(1)), 0)
		}},
		{"a clock outlives the process", func(e *env) {
			e.dated(1, "gdpr", at(100))
			m := pauseOf(1, 1)
			m.DueAt = at(200)
			e.must(e.AddClockEvent(e.ctx, m, entry(ledger.EntryErasure)))
			if e.h.Reopen != nil {
				e.reopen()
			}
			e.equal("events", e.clockEvents(1), []ledger.ClockEvent{m.Event})
			e.equal("due", e.dueAt(1), at(200))
			e.unmoved(pauseOf(1, 1), blobd.ErrConflict)
		}},
	}
}

func (e *env) dueDates(when time.Time) []ledger.DueDate {
	e.Helper()
	dates, err := e.DueDates(e.ctx, when)
	e.must(err)
	return dates
}
