package clock

import (
	"fmt"
	"strings"
	"time"

	"github.com/blobd/blobd"
)

const day = 24 * time.Hour

// dayOf returns the start of the day of UTC that t lies in.
func dayOf(t time.Time) time.Time {
	y, m, d := t.UTC().Date()
	return time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
}

// endOf returns the last second of the day of UTC that t lies in. A deadline of
// whole days ends there, so that its date reads as the last day.
func endOf(t time.Time) time.Time { return dayOf(t).Add(day - time.Second) }

// daysBetween counts the midnights of UTC after from up to to: what is
// stopped and goes on within one day loses no day.
func daysBetween(from, to time.Time) int {
	if !from.Before(to) {
		return 0
	}
	return int(dayOf(to).Sub(dayOf(from)) / day)
}

// Calendar tells working days: all but Saturdays, Sundays and its holidays. The
// zero calendar has no holidays.
type Calendar struct {
	holidays map[time.Time]bool // starts of days of UTC
}

// NewCalendar returns a calendar with the days that the times lie in as holidays.
func NewCalendar(holidays ...time.Time) Calendar {
	c := Calendar{holidays: make(map[time.Time]bool, len(holidays))}
	for _, h := range holidays {
		c.holidays[dayOf(h)] = true
	}
	return c
}

// Working reports whether t lies in a working day.
func (c Calendar) Working(t time.Time) bool {
	d := dayOf(t)
	return d.Weekday() != time.Saturday && d.Weekday() != time.Sunday && !c.holidays[d]
}

// Roll returns t, or the same time on the next working day if t lies in none.
func (c Calendar) Roll(t time.Time) time.Time {
	for !c.Working(t) { // ends: there are finitely many holidays
		t = t.AddDate(0, 0, 1)
	}
	return t
}

// After returns the same time n working days later; n is 0 or more.
func (c Calendar) After(t time.Time, n int) time.Time {
	for range n {
		t = c.Roll(t.AddDate(0, 0, 1))
	}
	return t
}

// Calendars has a calendar for each regime that has holidays.
type Calendars map[string]Calendar

// Of returns the calendar of a regime.
func (cs Calendars) Of(regime string) Calendar { return cs[regime] }

// ParseHolidays reads a list of holidays, one on a line: a date such as
// 2026-12-25, and the regimes that it is a holiday of, separated by spaces; none
// means all. What follows "#" is a remark. Anything else is ErrInvalid, and the
// error names the line.
func ParseHolidays(text string) (Calendars, error) {
	days := make(map[string][]time.Time)
	for i, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		date, err := time.Parse(time.DateOnly, words[0])
		if err != nil {
			return nil, fmt.Errorf("holidays: line %d: want a date such as 2026-12-25: %w", i+1, blobd.ErrInvalid)
		}
		regimes := words[1:]
		if len(regimes) == 0 {
			regimes = allRegimes()
		}
		for _, r := range regimes {
			if !known(r) {
				return nil, fmt.Errorf("holidays: line %d: no such regime: %w", i+1, blobd.ErrInvalid)
			}
			days[r] = append(days[r], date)
		}
	}
	cs := make(Calendars, len(days))
	for r, of := range days {
		cs[r] = NewCalendar(of...)
	}
	return cs, nil
}

func allRegimes() []string { return []string{GDPR, UK, CCPA, LGPD, HIPAA, Custom} }

func known(regime string) bool {
	for _, r := range allRegimes() {
		if r == regime {
			return true
		}
	}
	return false
}
