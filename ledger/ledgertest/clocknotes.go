package ledgertest

import (
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// note notes what is known of the clock.
func (e *env) note(seen, since time.Time, version int64, entries ...ledger.Entry) {
	e.Helper()
	e.must(e.NoteClock(e.ctx, ledger.ClockNote{Seen: seen, Since: since, Version: version}, entries))
}

func (e *env) noted() ledger.ClockNote {
	e.Helper()
	n, err := e.ClockNote(e.ctx)
	e.must(err)
	return n
}

func clockNoteSentences() []sentence {
	never := time.Time{}
	return []sentence{
		{"a new ledger noted nothing, and tells its time", func(e *env) {
			e.equal("note", e.noted(), ledger.ClockNote{Now: start})
		}},
		{"what was noted is told with the time of now", func(e *env) {
			e.note(at(1), never, 0)
			e.clock.set(at(5))
			e.equal("trusted", e.noted(), ledger.ClockNote{Now: at(5), Seen: at(1), Version: 1})
			e.note(at(2), at(3), 1)
			e.equal("suspect", e.noted(), ledger.ClockNote{Now: at(5), Seen: at(2), Since: at(3), Version: 2})
			e.note(at(4), never, 2)
			e.equal("trusted again", e.noted(), ledger.ClockNote{Now: at(5), Seen: at(4), Version: 3})
		}},
		{"a note on another version than the newest is a conflict and changes nothing", func(e *env) {
			e.note(at(1), never, 0)
			before := len(e.entries())
			for _, version := range []int64{0, 2} {
				n := ledger.ClockNote{Seen: at(9), Since: at(9), Version: version}
				e.refused(e.NoteClock(e.ctx, n, []ledger.Entry{entry(ledger.EntryClock)}), blobd.ErrConflict)
			}
			e.equal("note", e.noted(), ledger.ClockNote{Now: start, Seen: at(1), Version: 1})
			e.equal("entries", len(e.entries()), before)
		}},
		{"a note is no write to be marked, its evidence is", func(e *env) {
			e.equal("mark", e.mark(1).Seq, int64(1))
			e.note(at(1), never, 0)
			e.equal("mark of a note", e.mark(2), ledger.Record{})
			before := len(e.entries())
			e.note(at(2), never, 1, entry(ledger.EntryClock))
			e.equal("entries", len(e.entries()), before+1)
			e.equal("mark of its evidence", e.mark(3).Seq, int64(2))
		}},
	}
}

func clockNoteDurable() sentence {
	return sentence{"what was noted of the clock outlives the process", func(e *env) {
		e.note(at(1), at(2), 0)
		e.reopen()
		e.equal("note", e.noted(), ledger.ClockNote{Now: start, Seen: at(1), Since: at(2), Version: 1})
	}}
}
