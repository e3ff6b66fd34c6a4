package ledger_test

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

func date(t *testing.T, s string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// The ends were counted on a calendar.
func TestPeriodsOnTheCalendar(t *testing.T) {
	for _, c := range []struct{ period, start, end string }{
		{"P30D", "2031-03-04T05:06:07Z", "2031-04-03T05:06:07Z"},
		{"P1M", "2031-03-04T05:06:07Z", "2031-04-04T05:06:07Z"},
		{"P1M", "2031-01-31T23:00:00Z", "2031-02-28T23:00:00Z"},
		{"P1M", "2032-01-31T23:00:00Z", "2032-02-29T23:00:00Z"},
		{"P1M", "2031-02-28T00:00:00Z", "2031-03-28T00:00:00Z"},
		{"P1Y", "2032-02-29T12:00:00Z", "2033-02-28T12:00:00Z"},
		{"P4Y", "2032-02-29T12:00:00Z", "2036-02-29T12:00:00Z"},
		{"P6M", "2031-08-31T00:00:00Z", "2032-02-29T00:00:00Z"},
		{"P12M", "2031-12-31T23:59:59.999999Z", "2032-12-31T23:59:59.999999Z"},
		{"P11M", "2031-12-31T23:59:59Z", "2032-11-30T23:59:59Z"},
		{"P1M1D", "2031-01-31T10:00:00Z", "2031-03-01T10:00:00Z"}, // the month first, then the day
		{"P2W", "2031-03-04T05:06:07Z", "2031-03-18T05:06:07Z"},
		{"P1D", "2031-03-29T12:00:00+01:00", "2031-03-30T11:00:00Z"}, // 24 hours, over Berlin's summer time
		{"PT2S", "2031-12-31T23:59:59Z", "2032-01-01T00:00:01Z"},
		{"P1Y2M3DT4H5M6S", "2030-11-30T00:00:00Z", "2032-02-02T04:05:06Z"},
		{"P100Y", "2000-02-29T00:00:00Z", "2100-02-28T00:00:00Z"},
	} {
		p, err := ledger.ParsePeriod(c.period)
		if err != nil {
			t.Fatalf("%s: %v", c.period, err)
		}
		if got := p.After(date(t, c.start)); !got.Equal(date(t, c.end)) {
			t.Errorf("%s after %s ends at %v, want %s", c.period, c.start, got, c.end)
		}
	}
}

func TestPeriodsReadAndWritten(t *testing.T) {
	for in, out := range map[string]string{
		"P30D": "P30D", "P2W": "P14D", "P1Y6M": "P1Y6M", "P18M": "P1Y6M", "PT90M": "PT1H30M", "PT2S": "PT2S",
		"P1Y2M3W4DT5H6M7S": "P1Y2M25DT5H6M7S", "PT86400S": "PT24H", "P0Y1D": "P1D", "P01D": "P1D",
	} {
		p, err := ledger.ParsePeriod(in)
		if err != nil || p.String() != out {
			t.Errorf("%s reads as %s, %v; want %s", in, p, err, out)
		}
		again, err := ledger.ParsePeriod(out)
		if err != nil || again != p {
			t.Errorf("%s reads as %+v, %v; want %+v", out, again, err, p)
		}
	}
	for _, bad := range []string{
		"", "P", "PT", "P0D", "PT0S", "30D", "P30", "P1.5D", "P-1D", "-P1D", "P1DT", "P1D1M", "P1H", "PT1D", "p1d", "P1D ", " P1D",
		"P10000Y", "P9999Y", "P1000Y1M", "P999999D", "PT999999H", "P1M2W3Y", "P1D\n",
	} {
		if p, err := ledger.ParsePeriod(bad); !errors.Is(err, blobd.ErrInvalid) {
			t.Errorf("%q reads as %+v, %v", bad, p, err)
		}
	}
}

func drawTime(r *rapid.T, what string) time.Time {
	// Dense around the ends of months, where lengths differ.
	base := time.Date(rapid.IntRange(2023, 2033).Draw(r, what+" year"), time.Month(rapid.IntRange(1, 12).Draw(r, what+" month")), 1, 0, 0, 0, 0, time.UTC)
	return base.Add(time.Duration(rapid.Int64Range(-5*86400e6, 40*86400e6).Draw(r, what)) * time.Microsecond)
}

func drawPeriod(r *rapid.T) ledger.Period {
	return ledger.Period{
		Months: rapid.IntRange(0, 30).Draw(r, "months"), Days: rapid.IntRange(0, 40).Draw(r, "days"),
		Time: time.Duration(rapid.IntRange(0, 90000).Draw(r, "seconds")) * time.Second,
	}
}

// What may have ended is not past Latest, and Latest itself has.
func TestLatestIsTheNewestStartThatEnded(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		p, start, now := drawPeriod(r), drawTime(r, "start"), drawTime(r, "now")
		latest := p.Latest(now)
		if ended := !p.After(start).After(now); ended && start.After(latest) {
			r.Fatalf("%v from %v ended by %v, and the latest start is %v", p, start, now, latest)
		}
		if p.After(latest).After(now) {
			r.Fatalf("%v from %v ends at %v, after %v", p, latest, p.After(latest), now)
		}
		if !p.After(latest.Add(time.Microsecond)).After(now) {
			r.Fatalf("a microsecond after %v, %v has ended too by %v", latest, p, now)
		}
	})
}

// Segments and Governing say the same of every capture, and segments are all of time.
func TestSegmentsAreWhatGoverns(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		var versions []ledger.Policy
		for n := range rapid.IntRange(0, 6).Draw(r, "versions") {
			p := ledger.Policy{Version: int64(n + 1), At: time.Unix(rapid.Int64Range(0, 9).Draw(r, "at"), 0), Existing: rapid.IntRange(0, 3).Draw(r, "existing") == 0}
			versions = append([]ledger.Policy{p}, versions...)
		}
		captured := time.Unix(rapid.Int64Range(-1, 10).Draw(r, "captured"), 0)
		var found []int64
		for _, s := range ledger.Segments(versions) {
			if (s.From.IsZero() || !captured.Before(s.From)) && (s.To.IsZero() || captured.Before(s.To)) {
				found = append(found, s.Policy.Version)
			}
		}
		if len(found) != 1 || found[0] != ledger.Governing(versions, captured).Version {
			r.Fatalf("segments say %v, governing says %d", found, ledger.Governing(versions, captured).Version)
		}
	})
}

func TestJudgeInItsOrder(t *testing.T) {
	hour := ledger.Period{Time: time.Hour}
	captured := date(t, "2031-01-01T00:00:00Z")
	end := captured.Add(time.Hour)
	floor := ledger.Rule{Maximum: hour, Floor: ledger.Period{Time: 2 * time.Hour}, LegalBasis: "a law", OnExpiry: ledger.ExpiryReview}
	for name, c := range map[string]struct {
		rule       ledger.Rule
		held       bool
		state      ledger.BlobState
		ended, now time.Time
		want       ledger.Verdict
		end        time.Time
	}{
		"before its end":                {rule: ledger.Rule{Maximum: hour}, now: end.Add(-time.Microsecond), want: ledger.VerdictKeep, end: end},
		"at its end":                    {rule: ledger.Rule{Maximum: hour}, now: end, want: ledger.VerdictErase, end: end},
		"held":                          {rule: ledger.Rule{Maximum: hour}, held: true, now: end, want: ledger.VerdictHeld, end: end},
		"held beats a floor":            {rule: floor, held: true, now: end, want: ledger.VerdictHeld, end: end},
		"a floor beats a review":        {rule: floor, now: captured.Add(2*time.Hour - 1), want: ledger.VerdictFloor, end: end},
		"a review after the floor":      {rule: floor, now: captured.Add(2 * time.Hour), want: ledger.VerdictReview, end: end},
		"held, not past its maximum":    {rule: ledger.Rule{Maximum: hour}, held: true, now: captured, want: ledger.VerdictKeep, end: end},
		"not ended, young":              {rule: ledger.Rule{Maximum: hour, Start: ledger.StartEnded}, now: captured, want: ledger.VerdictKeep},
		"not ended, old":                {rule: ledger.Rule{Maximum: hour, Start: ledger.StartEnded}, now: end, want: ledger.VerdictWaiting},
		"ended":                         {rule: ledger.Rule{Maximum: hour, Start: ledger.StartEnded}, ended: end, now: end.Add(time.Hour), want: ledger.VerdictErase, end: end.Add(time.Hour)},
		"captured after the end":        {rule: ledger.Rule{Maximum: hour, Start: ledger.StartEnded}, ended: captured.Add(-time.Hour), now: end.Add(-1), want: ledger.VerdictKeep, end: end},
		"expired before: only its body": {rule: floor, state: ledger.BlobExpired, now: captured, want: ledger.VerdictErase},
	} {
		if c.state == 0 {
			c.state = ledger.BlobLive
		}
		row := ledger.DueRow{State: c.state, CreatedAt: captured, EndedAt: c.ended, Held: c.held}
		got, at := ledger.Judge(&row, []ledger.Policy{{Existing: true, Rule: c.rule}}, c.now)
		if got != c.want || !at.Equal(c.end) {
			t.Errorf("%s: %d at %v, want %d at %v", name, got, at, c.want, c.end)
		}
	}
}
