package retention_test

import (
	"testing"
	"time"
	_ "time/tzdata" // the zones, whatever the machine has

	"pgregory.net/rapid"

	"github.com/blobd/blobd/retention"
)

// follow lists the times of a schedule from a moment on.
func follow(t *testing.T, spec, from string, n int) (times []string) {
	t.Helper()
	s, err := retention.ParseSchedule(spec)
	if err != nil {
		t.Fatal(err)
	}
	at, err := time.Parse(time.RFC3339, from)
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		at = s.Next(at)
		times = append(times, at.UTC().Format(time.RFC3339))
	}
	return times
}

// Dates of changes are those of the zones' laws; the expected times were worked out
// by hand from them.
func TestChangesOfTheClockNeitherSkipNorDouble(t *testing.T) {
	for name, c := range map[string]struct {
		spec, from string
		want       []string
	}{
		"Berlin, spring: 02:30 does not exist on 2031-03-30": {
			"CRON_TZ=Europe/Berlin 30 2 * * *", "2031-03-28T12:00:00Z",
			[]string{"2031-03-29T01:30:00Z", "2031-03-30T01:00:00Z", "2031-03-31T00:30:00Z"},
		},
		"Berlin, autumn: 02:30 comes twice on 2031-10-26": {
			"CRON_TZ=Europe/Berlin 30 2 * * *", "2031-10-24T12:00:00Z",
			[]string{"2031-10-25T00:30:00Z", "2031-10-26T00:30:00Z", "2031-10-27T01:30:00Z"},
		},
		"Berlin, autumn, asked between the two": {
			"CRON_TZ=Europe/Berlin 30 2 * * *", "2031-10-26T00:45:00Z", []string{"2031-10-27T01:30:00Z"},
		},
		"New York, spring: 02:00 does not exist on 2031-03-09": {
			"TZ=America/New_York 0 2 * * *", "2031-03-08T12:00:00Z",
			[]string{"2031-03-09T07:00:00Z", "2031-03-10T06:00:00Z"},
		},
		"New York, autumn: 01:15 comes twice on 2031-11-02": {
			"CRON_TZ=America/New_York 15 1 * * *", "2031-11-01T12:00:00Z",
			[]string{"2031-11-02T05:15:00Z", "2031-11-03T06:15:00Z"},
		},
		"Lord Howe, half an hour: 02:10 does not exist on 2031-10-05": {
			"CRON_TZ=Australia/Lord_Howe 10 2 * * *", "2031-10-03T20:00:00Z",
			[]string{"2031-10-04T15:30:00Z", "2031-10-05T15:10:00Z"},
		},
		"Beirut, at midnight: 00:00 does not exist on 2031-03-30": {
			"CRON_TZ=Asia/Beirut 0 0 * * *", "2031-03-29T12:00:00Z",
			[]string{"2031-03-29T22:00:00Z", "2031-03-30T21:00:00Z"},
		},
		"Apia leaves out a whole day": {
			"CRON_TZ=Pacific/Apia 0 12 * * *", "2011-12-29T00:00:00Z",
			[]string{"2011-12-29T22:00:00Z", "2011-12-30T10:00:00Z", "2011-12-30T22:00:00Z"},
		},
		"two times in a gap are one": {
			"CRON_TZ=Europe/Berlin 10,20 2 * * *", "2031-03-29T12:00:00Z",
			[]string{"2031-03-30T01:00:00Z", "2031-03-31T00:10:00Z"},
		},
		"every hour over the autumn's change": {
			"CRON_TZ=Europe/Berlin 0 * * * *", "2031-10-25T23:30:00Z",
			[]string{"2031-10-26T00:00:00Z", "2031-10-26T02:00:00Z"},
		},
		"without a zone it is UTC": {"30 2 * * *", "2031-03-29T12:00:00Z", []string{"2031-03-30T02:30:00Z"}},
		"the last of a month":      {"CRON_TZ=Asia/Kolkata 0 0 1 * *", "2031-01-15T00:00:00Z", []string{"2031-01-31T18:30:00Z"}},
	} {
		got := follow(t, c.spec, c.from, len(c.want))
		for i := range c.want {
			if got[i] != c.want[i] {
				t.Errorf("%s: got %v, want %v", name, got, c.want)
				break
			}
		}
	}
}

// In every zone a daily time comes once a day of its calendar, whatever the clock
// does, and times rise.
func TestADailyTimeComesOnceADay(t *testing.T) {
	zones := []string{
		"Europe/Berlin", "Europe/London", "America/New_York", "America/Sao_Paulo", "America/St_Johns", "Australia/Lord_Howe",
		"Africa/Casablanca", "Asia/Tehran", "Asia/Kathmandu", "Pacific/Chatham", "America/Havana", "Antarctica/Troll",
	}
	rapid.Check(t, func(r *rapid.T) {
		zone, err := time.LoadLocation(rapid.SampledFrom(zones).Draw(r, "zone"))
		if err != nil {
			r.Fatal(err)
		}
		hour, minute := rapid.IntRange(0, 23).Draw(r, "hour"), rapid.IntRange(0, 59).Draw(r, "minute")
		year := rapid.IntRange(2000, 2035).Draw(r, "year")
		s, err := retention.ParseSchedule("CRON_TZ=" + zone.String() + " " + itoa(minute) + " " + itoa(hour) + " * * *")
		if err != nil {
			r.Fatal(err)
		}
		// Noon of the first and the last day lie outside every change at night.
		at := time.Date(year, 1, 1, 12, 0, 0, 0, zone)
		end := time.Date(year+1, 1, 1, 12, 0, 0, 0, zone)
		count := 0
		for {
			next := s.Next(at)
			if !next.After(at) {
				r.Fatalf("%v comes after %v", next, at)
			}
			if next.After(end) {
				break
			}
			if gap := next.Sub(at); count > 0 && (gap < 22*time.Hour || gap > 26*time.Hour) {
				r.Fatalf("%v after %v", next, at)
			}
			at = next
			count++
		}
		days := 365
		if time.Date(year, 2, 29, 0, 0, 0, 0, time.UTC).Day() == 29 {
			days = 366
		}
		if count != days {
			r.Fatalf("%d times in %d days of %d", count, days, year)
		}
	})
}

func itoa(n int) string { return string([]byte{byte('0' + n/10), byte('0' + n%10)}) }

func TestSchedulesThatAreNone(t *testing.T) {
	for _, spec := range []string{"nonsense", "CRON_TZ=Nowhere/City 0 0 * * *", "* * * *", "CRON_TZ=UTC", "61 * * * *"} {
		if _, err := retention.ParseSchedule(spec); err == nil {
			t.Errorf("%q is taken", spec)
		}
	}
	if s, err := retention.ParseSchedule(""); s != nil || err != nil {
		t.Errorf("no schedule: %v, %v", s, err)
	}
	if got := follow(t, "@every 90m", "2031-01-01T00:00:00Z", 1); got[0] != "2031-01-01T01:30:00Z" {
		t.Errorf("@every: %v", got)
	}
	if got := follow(t, "CRON_TZ=Europe/Berlin @daily", "2031-07-01T00:00:00Z", 1); got[0] != "2031-07-01T22:00:00Z" {
		t.Errorf("@daily: %v", got)
	}
}
