package clock_test

import (
	"testing"
	"time"

	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/retention/clock"
)

func moment(t testing.TB, s string) time.Time {
	t.Helper()
	if s == "" {
		return time.Time{}
	}
	if len(s) == len(time.DateOnly) {
		s += "T09:30:00Z"
	}
	m, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func calendar(t testing.TB, holidays ...string) clock.Calendar {
	t.Helper()
	var days []time.Time
	for _, h := range holidays {
		days = append(days, moment(t, h))
	}
	return clock.NewCalendar(days...)
}

// Each row was worked out by hand, with a printed calendar. A due date is the last
// second of the day.
func TestDueDates(t *testing.T) {
	for _, c := range []struct {
		name, regime, received string
		holidays               []string
		due, extended, ack     string // "": there is none
	}{
		{"gdpr, the event's day does not count", "gdpr", "2026-06-10", nil, "2026-07-10", "2026-09-10", ""},
		{"gdpr, 28 February is a Saturday", "gdpr", "2026-01-31", nil, "2026-03-02", "2026-04-30", ""},
		{"gdpr, 28 February is a Sunday", "gdpr", "2027-01-29", nil, "2027-03-01", "2027-04-29", ""},
		{"gdpr, 31 to 30", "gdpr", "2026-03-31", nil, "2026-04-30", "2026-06-30", ""},
		{"gdpr, a leap year's last day", "gdpr", "2024-01-31", nil, "2024-02-29", "2024-04-30", ""},
		{"gdpr, from a leap day", "gdpr", "2028-02-29", nil, "2028-03-29", "2028-05-29", ""},
		{"gdpr, 2100 is no leap year", "gdpr", "2100-01-31", nil, "2100-03-01", "2100-04-30", ""},
		{"gdpr, over the year", "gdpr", "2026-12-15", nil, "2027-01-15", "2027-03-15", ""},
		{"gdpr, the extension ends on a Saturday", "gdpr", "2025-11-30", nil, "2025-12-30", "2026-03-02", ""},
		{"gdpr, Christmas and the weekend", "gdpr", "2026-11-25", []string{"2026-12-25", "2026-12-26"}, "2026-12-28", "2027-02-25", ""},
		{"gdpr, a holiday on the Monday after", "gdpr", "2026-03-05", []string{"2026-04-06"}, "2026-04-07", "2026-06-05", ""},
		{"gdpr, the day is that of UTC", "gdpr", "2026-04-14T23:30:00-05:00", nil, "2026-05-15", "2026-07-15", ""},
		{"gdpr, the first second of a day", "gdpr", "2026-06-10T00:00:00Z", nil, "2026-07-10", "2026-09-10", ""},
		{"gdpr, the last second of a day", "gdpr", "2026-06-10T23:59:59Z", nil, "2026-07-10", "2026-09-10", ""},
		{"uk, as gdpr", "uk", "2026-01-31", nil, "2026-03-02", "2026-04-30", ""},
		{"uk, a substitute day", "uk", "2026-11-25", []string{"2026-12-25", "2026-12-26", "2026-12-28"}, "2026-12-29", "2027-02-25", ""},
		{"ccpa, ten business days, 45 and 90 days", "ccpa", "2026-01-02", nil, "2026-02-16", "2026-04-02", "2026-01-16"},
		{"ccpa, a holiday is no business day and moves no due date", "ccpa", "2026-01-12", []string{"2026-01-19", "2026-02-26"}, "2026-02-26", "2026-04-12", "2026-01-27"},
		{"ccpa, a Sunday stays", "ccpa", "2026-01-01", nil, "2026-02-15", "2026-04-01", "2026-01-15"},
		{"ccpa, received on a Saturday", "ccpa", "2026-01-03", nil, "2026-02-17", "2026-04-03", "2026-01-16"},
		{"ccpa, over a leap day", "ccpa", "2024-01-20", nil, "2024-03-05", "2024-04-19", "2024-02-02"},
		{"ccpa, without a leap day", "ccpa", "2026-01-20", nil, "2026-03-06", "2026-04-20", "2026-02-03"},
		{"lgpd, a Saturday stays", "lgpd", "2026-02-13", nil, "2026-02-28", "", "2026-02-13"},
		{"lgpd, over a month's end", "lgpd", "2026-04-20", nil, "2026-05-05", "", "2026-04-20"},
		{"hipaa, 30 and 60 days, a Sunday stays", "hipaa", "2026-01-30", nil, "2026-03-01", "2026-03-31", ""},
		{"custom has no date of its own", "custom", "2026-01-30", nil, "", "", ""},
		{"no regime has no date of its own", "", "2026-01-30", nil, "", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := clock.Request{Regime: c.regime, ReceivedAt: moment(t, c.received)}
			cal := calendar(t, c.holidays...)
			got := clock.Read(r, nil, cal, r.ReceivedAt)
			dated(t, "due", got.DueAt, c.due)
			dated(t, "computed", got.ComputedAt, c.due)
			dated(t, "acknowledge by", got.AcknowledgeBy, c.ack)
			if c.extended == "" {
				return
			}
			notice := ledger.ClockEvent{Kind: ledger.ClockExtended, At: r.ReceivedAt.Add(time.Hour), Reason: "many requests"}
			got, err := clock.Add(r, nil, notice, cal, r.ReceivedAt.Add(time.Hour))
			if err != nil {
				t.Fatal(err)
			}
			dated(t, "extended due", got.DueAt, c.extended)
			dated(t, "first due", got.FirstDueAt, c.due)
		})
	}
}

// dated checks that a time is the last second of a date; "" is none.
func dated(t *testing.T, what string, got time.Time, date string) {
	t.Helper()
	want := time.Time{}
	if date != "" {
		want = moment(t, date+"T23:59:59Z")
	}
	if !got.Equal(want) {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

func TestAStatedDateWins(t *testing.T) {
	for _, c := range []struct{ name, regime, stated, computed, kept string }{
		{"earlier than the regime's", "gdpr", "2026-07-01T12:00:00Z", "2026-07-10T23:59:59Z", "2026-07-01T12:00:00Z"},
		{"later than the regime's", "gdpr", "2026-08-01T12:00:00Z", "2026-07-10T23:59:59Z", "2026-08-01T12:00:00Z"},
		{"on a Sunday, unmoved", "uk", "2026-07-05T12:00:00Z", "2026-07-10T23:59:59Z", "2026-07-05T12:00:00Z"},
		{"what the regime gives is none", "gdpr", "2026-07-10T23:59:59Z", "2026-07-10T23:59:59Z", ""},
		{"of custom", "custom", "2026-07-04T12:00:00Z", "", "2026-07-04T12:00:00Z"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := clock.Request{Regime: c.regime, ReceivedAt: moment(t, "2026-06-10"), StatedAt: moment(t, c.stated)}
			got := clock.Read(r, nil, clock.Calendar{}, r.ReceivedAt)
			if !got.DueAt.Equal(r.StatedAt) || !got.ComputedAt.Equal(moment(t, c.computed)) || !got.StatedAt.Equal(moment(t, c.kept)) {
				t.Errorf("due %v, computed %v, stated %v", got.DueAt, got.ComputedAt, got.StatedAt)
			}
		})
	}
}

// Received at the start of 10 June, due at the end of 10 July: 2,678,399 seconds,
// of which a quarter is 7 days, 17:59:59.75.
func TestStates(t *testing.T) {
	r := clock.Request{Regime: "gdpr", ReceivedAt: moment(t, "2026-06-10T00:00:00Z")}
	for _, c := range []struct {
		at    string
		state clock.State
		left  time.Duration
	}{
		{"2026-06-10T00:00:00Z", clock.OnTrack, 2_678_399 * time.Second},
		{"2026-07-03T05:59:59Z", clock.OnTrack, 669_600 * time.Second},
		{"2026-07-03T06:00:00Z", clock.Approaching, 669_599 * time.Second},
		{"2026-07-10T23:59:59Z", clock.Approaching, 0},
		{"2026-07-11T00:00:00Z", clock.Overdue, -time.Second},
	} {
		got := clock.Read(r, nil, clock.Calendar{}, moment(t, c.at))
		if got.State != c.state || got.Remaining != c.left || got.Late() != (c.state == clock.Overdue) {
			t.Errorf("at %s: %s with %v left, want %s with %v", c.at, got.State, got.Remaining, c.state, c.left)
		}
	}
}

func TestAnAnsweredRequestStandsStill(t *testing.T) {
	r := clock.Request{Regime: "gdpr", ReceivedAt: moment(t, "2026-06-10")}
	for ended, late := range map[string]bool{"2026-07-10T23:59:59Z": false, "2026-07-11T00:00:00Z": true} {
		r.Ended, r.EndedAt = true, moment(t, ended)
		got := clock.Read(r, nil, clock.Calendar{}, moment(t, "2030-01-01"))
		if got.State != clock.Done || got.Late() != late || !got.EndedAt.Equal(r.EndedAt) {
			t.Errorf("ended %s: %s, late %t", ended, got.State, got.Late())
		}
		_, err := clock.Add(r, nil, ledger.ClockEvent{Kind: ledger.ClockAcknowledged, At: r.EndedAt}, clock.Calendar{}, moment(t, "2030-01-01"))
		conflict(t, err)
	}
}

func TestAnEndThatNobodyNoted(t *testing.T) {
	r := clock.Request{Regime: "gdpr", ReceivedAt: moment(t, "2026-06-10"), Ended: true}
	got := clock.Read(r, nil, clock.Calendar{}, moment(t, "2030-01-01"))
	if got.State != clock.Done || got.Late() || !got.EndedAt.IsZero() || got.Remaining != 0 {
		t.Errorf("%s, late %t, ended %v, %v left", got.State, got.Late(), got.EndedAt, got.Remaining)
	}
	dated(t, "due", got.DueAt, "2026-07-10")
}
