package clock_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/retention/clock"
)

func TestParseHolidays(t *testing.T) {
	cs, err := clock.ParseHolidays("# holidays\n2026-12-25\n\n2026-12-28 uk # substitute\r\n 2026-11-26  ccpa custom\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		regime, date string
		working      bool
	}{
		{"gdpr", "2026-12-25", false},
		{"lgpd", "2026-12-25", false},
		{"gdpr", "2026-12-28", true},
		{"uk", "2026-12-28", false},
		{"ccpa", "2026-11-26", false},
		{"custom", "2026-11-26", false},
		{"uk", "2026-11-26", true},
		{"gdpr", "2026-12-26", false}, // a Saturday
		{"", "2026-12-25", true},
	} {
		if got := cs.Of(c.regime).Working(moment(t, c.date)); got != c.working {
			t.Errorf("%s %s: working is %t", c.regime, c.date, got)
		}
	}
}

func TestParseHolidaysRefuses(t *testing.T) {
	for _, text := range []string{"25.12.2026", "2026-02-29", "2026-12-25 france", "2026-12-25 gdpr\nuk 2026-12-28"} {
		_, err := clock.ParseHolidays(text)
		if !errors.Is(err, blobd.ErrInvalid) || !strings.Contains(err.Error(), "line ") {
			t.Errorf("%q: error is %v", text, err)
		}
	}
}

func TestNoCalendarAtAll(t *testing.T) {
	var cs clock.Calendars
	if c := cs.Of("gdpr"); !c.Working(moment(t, "2026-12-25")) || c.Working(moment(t, "2026-12-26")) {
		t.Error("want Friday to be a working day and Saturday not")
	}
}
