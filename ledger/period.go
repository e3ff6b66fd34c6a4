package ledger

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/blobd/blobd"
)

// Period is a length of time as ISO 8601 writes it, by the calendar of UTC: a
// year is twelve months, a month ends on the day of the same number or on the
// month's last, a week is seven days, and a day has 24 hours, since UTC has no
// summer time. The zero period is none.
type Period struct {
	Months int
	Days   int
	Time   time.Duration // whole seconds
}

// Bounds of a period. Together they are below 2,000 years, so that no time in
// reach of the ledger leaves the years of four digits by much.
const (
	maxMonths = 12 * 1000
	maxDays   = 366 * 500
	maxTime   = 100_000 * time.Hour
)

// The designators in their order. Weeks may stand beside the others.
var isoPeriod = regexp.MustCompile(`^P(?:(\d{1,4})Y)?(?:(\d{1,5})M)?(?:(\d{1,5})W)?(?:(\d{1,6})D)?` +
	`(T(?:(\d{1,6})H)?(?:(\d{1,7})M)?(?:(\d{1,9})S)?)?$`)

// ParsePeriod reads an ISO 8601 duration of whole numbers, like P30D, P1Y6M or
// PT2S. A period that is no time at all, a fraction and what is past the bounds
// are ErrInvalid.
func ParsePeriod(s string) (Period, error) {
	m := isoPeriod.FindStringSubmatch(s)
	if m == nil || strings.HasSuffix(s, "T") {
		return Period{}, fmt.Errorf("want an ISO 8601 duration of whole numbers, such as P30D, P6M or PT2S: %w", blobd.ErrInvalid)
	}
	n := func(i int) int {
		v, _ := strconv.Atoi(m[i]) // "" is 0, and no more than nine digits match
		return v
	}
	p := Period{
		Months: 12*n(1) + n(2), Days: 7*n(3) + n(4),
		Time: time.Duration(n(6))*time.Hour + time.Duration(n(7))*time.Minute + time.Duration(n(8))*time.Second,
	}
	if p.IsZero() {
		return Period{}, fmt.Errorf("a duration of no time: %w", blobd.ErrInvalid)
	}
	return p, p.Check()
}

// Check refuses what no engine takes, as ErrInvalid.
func (p Period) Check() error {
	switch {
	case p.Months < 0, p.Days < 0, p.Time < 0, p.Time%time.Second != 0:
		return fmt.Errorf("a duration that is negative or not of whole seconds: %w", blobd.ErrInvalid)
	case p.Months > maxMonths, p.Days > maxDays, p.Time > maxTime:
		return fmt.Errorf("a duration past %d months, %d days or %v: %w", maxMonths, maxDays, maxTime, blobd.ErrInvalid)
	}
	return nil
}

// IsZero reports whether there is no period.
func (p Period) IsZero() bool { return p == Period{} }

// String writes the period as ISO 8601, "" if there is none.
func (p Period) String() string {
	if p.IsZero() {
		return ""
	}
	b := []byte{'P'}
	add := func(n int, designator byte) {
		if n != 0 {
			b = append(strconv.AppendInt(b, int64(n), 10), designator)
		}
	}
	add(p.Months/12, 'Y')
	add(p.Months%12, 'M')
	add(p.Days, 'D')
	if p.Time != 0 {
		b = append(b, 'T')
		add(int(p.Time/time.Hour), 'H')
		add(int(p.Time%time.Hour/time.Minute), 'M')
		add(int(p.Time%time.Minute/time.Second), 'S')
	}
	return string(b)
}

// After returns the end of the period that starts at t: months first, then days,
// then hours, minutes and seconds.
func (p Period) After(t time.Time) time.Time {
	t = t.UTC()
	if p.Months != 0 {
		t = addMonths(t, p.Months)
	}
	return t.Add(time.Duration(p.Days)*24*time.Hour + p.Time)
}

// Latest returns the newest start whose end is not past t. Where months have
// different lengths an older start may have a later end, by less than four days:
// what is not past Latest may be due, what is past it is not.
func (p Period) Latest(t time.Time) time.Time {
	t = t.UTC().Add(-time.Duration(p.Days)*24*time.Hour - p.Time)
	if p.Months == 0 {
		return t
	}
	year, month, day := t.Date()
	from := addMonths(t.AddDate(0, 0, 1-day), -p.Months) // the first day of the month that it starts in
	length := daysIn(from.Year(), from.Month())
	switch {
	case length < day: // every time of its last day ends before t
		first := time.Date(from.Year(), from.Month()+1, 1, 0, 0, 0, 0, time.UTC)
		return first.Add(-time.Microsecond)
	case day == daysIn(year, month): // the last day is where later days end too
		return from.AddDate(0, 0, length-1)
	}
	return from.AddDate(0, 0, day-1)
}

// addMonths keeps the day's number, or takes the month's last.
func addMonths(t time.Time, months int) time.Time {
	year, month, day := t.Date()
	hour, minute, second := t.Clock()
	total := year*12 + int(month) - 1 + months
	year, month = total/12, time.Month(total%12+1)
	return time.Date(year, month, min(day, daysIn(year, month)), hour, minute, second, t.Nanosecond(), time.UTC)
}

func daysIn(year int, month time.Month) int {
	switch month {
	case time.April, time.June, time.September, time.November:
		return 30
	case time.February:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	}
	return 31
}
