package clock_test

import (
	"errors"
	"testing"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/retention/clock"
)

func conflict(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, blobd.ErrConflict) {
		t.Errorf("error is %v, want ErrConflict", err)
	}
}

// step is an event of a test: its kind, when it was, and the date it came with.
type step struct {
	kind    ledger.ClockEventKind
	at, due string
}

func (s step) event(t testing.TB) ledger.ClockEvent {
	return ledger.ClockEvent{Kind: s.kind, At: moment(t, s.at), Reason: "because", DueAt: moment(t, s.due)}
}

// Received on Wednesday 10 June 2026; without events due on Friday 10 July.
func TestEventsMoveTheDueDate(t *testing.T) {
	paused, resumed, extended := ledger.ClockPaused, ledger.ClockResumed, ledger.ClockExtended
	for _, c := range []struct {
		name, regime, stated string
		steps                []step
		due                  string
		days                 int
	}{
		{"three days", "uk", "", []step{{paused, "2026-06-15T10:00:00Z", ""}, {resumed, "2026-06-18T09:00:00Z", ""}}, "2026-07-13T23:59:59Z", 3},
		{"one day, to a Saturday", "gdpr", "", []step{{paused, "2026-06-15", ""}, {resumed, "2026-06-16", ""}}, "2026-07-13T23:59:59Z", 1},
		{"within a day", "gdpr", "", []step{{paused, "2026-06-15T00:00:00Z", ""}, {resumed, "2026-06-15T23:59:59Z", ""}}, "2026-07-10T23:59:59Z", 0},
		{"over midnight", "gdpr", "", []step{{paused, "2026-06-15T23:59:59Z", ""}, {resumed, "2026-06-16T00:00:00Z", ""}}, "2026-07-13T23:59:59Z", 1},
		{"inside the last day", "gdpr", "", []step{{paused, "2026-07-10T10:00:00Z", ""}, {resumed, "2026-07-14T09:00:00Z", ""}}, "2026-07-14T23:59:59Z", 4},
		{"in the last second", "gdpr", "", []step{{paused, "2026-07-10T23:59:59Z", ""}, {resumed, "2026-07-14T23:00:00Z", ""}}, "2026-07-14T23:59:59Z", 4},
		{"twice", "uk", "", []step{
			{paused, "2026-06-11", ""}, {resumed, "2026-06-14", ""}, // to Monday the 13th
			{paused, "2026-06-20", ""}, {resumed, "2026-06-22", ""},
		}, "2026-07-15T23:59:59Z", 5},
		{"from the receipt, until the person is known", "gdpr", "", []step{{paused, "2026-06-10T09:30:00Z", ""}, {resumed, "2026-06-24", ""}}, "2026-07-24T23:59:59Z", 14},
		{"extended", "gdpr", "", []step{{extended, "2026-07-10T23:59:59Z", ""}}, "2026-09-10T23:59:59Z", 0},
		{"paused, then extended", "gdpr", "", []step{
			{paused, "2026-06-15", ""}, {resumed, "2026-06-18", ""}, {extended, "2026-07-13", ""},
		}, "2026-09-14T23:59:59Z", 3}, // 13 September is a Sunday
		{"extended, then paused", "gdpr", "", []step{
			{extended, "2026-06-11", ""}, {paused, "2026-08-03", ""}, {resumed, "2026-08-07", ""},
		}, "2026-09-14T23:59:59Z", 4},
		{"extended while paused, past the first date", "uk", "", []step{
			{paused, "2026-07-09", ""}, {extended, "2026-07-20", ""}, {resumed, "2026-07-21", ""},
		}, "2026-09-22T23:59:59Z", 12},
		{"a stated date moves by the pause", "custom", "2026-07-01T12:00:00Z", []step{
			{paused, "2026-06-20T10:00:00Z", ""}, {resumed, "2026-06-22T16:00:00Z", ""},
		}, "2026-07-03T18:00:00Z", 2},
		{"a stated date by whole days at least", "custom", "2026-07-01T12:00:00Z", []step{
			{paused, "2026-06-20T20:00:00Z", ""}, {resumed, "2026-06-22T04:00:00Z", ""},
		}, "2026-07-03T12:00:00Z", 2},
		{"a stated date is extended from itself", "gdpr", "2026-07-01T12:00:00Z", []step{{extended, "2026-06-20", ""}}, "2026-09-01T12:00:00Z", 0},
		{"extended after a stated date that a pause moved", "custom", "2026-07-01T12:00:00Z", []step{
			{paused, "2026-06-20T09:30:00Z", ""}, {resumed, "2026-06-24T09:30:00Z", ""}, {extended, "2026-07-05T12:00:00Z", "2026-08-05T08:00:00Z"},
		}, "2026-08-05T08:00:00Z", 4},
		{"another tool's extension", "custom", "2026-07-01T12:00:00Z", []step{{extended, "2026-06-20", "2026-08-05T08:00:00Z"}}, "2026-08-05T08:00:00Z", 0},
		{"custom without a date gets one", "custom", "", []step{{extended, "2026-06-20", "2026-08-05T08:00:00Z"}}, "2026-08-05T08:00:00Z", 0},
		{"an acknowledgement moves nothing", "ccpa", "", []step{{ledger.ClockAcknowledged, "2026-06-12", ""}}, "2026-07-25T23:59:59Z", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := clock.Request{Regime: c.regime, ReceivedAt: moment(t, "2026-06-10T09:30:00Z"), StatedAt: moment(t, c.stated)}
			var events []ledger.ClockEvent
			var got clock.Clock
			for _, s := range c.steps {
				var err error
				if got, err = clock.Add(r, events, s.event(t), clock.Calendar{}, moment(t, s.at)); err != nil {
					t.Fatalf("%s at %s: %v", s.kind, s.at, err)
				}
				events = append(events, s.event(t))
			}
			if !got.DueAt.Equal(moment(t, c.due)) || got.PausedDays != c.days || !got.Stored().Equal(got.DueAt) {
				t.Errorf("due %v after %d days, stored %v; want %s after %d", got.DueAt, got.PausedDays, got.Stored(), c.due, c.days)
			}
		})
	}
}

func TestAPausedClockIsNeverOverdue(t *testing.T) {
	r := clock.Request{Regime: "gdpr", ReceivedAt: moment(t, "2026-06-10T09:30:00Z")}
	pause := step{ledger.ClockPaused, "2026-07-10T10:00:00Z", ""}.event(t)
	got, err := clock.Add(r, nil, pause, clock.Calendar{}, pause.At)
	if err != nil {
		t.Fatal(err)
	}
	if got.State != clock.Paused || !got.PausedAt.Equal(pause.At) || !got.Stored().IsZero() {
		t.Errorf("%s since %v, stored %v", got.State, got.PausedAt, got.Stored())
	}
	got = clock.Read(r, []ledger.ClockEvent{pause}, clock.Calendar{}, moment(t, "2026-09-01T08:00:00Z"))
	dated(t, "due if it went on now", got.DueAt, "2026-09-01") // 53 days: 10 July to 1 September
	if got.State != clock.Paused || got.PausedDays != 53 {
		t.Errorf("%s after %d days", got.State, got.PausedDays)
	}
}

func TestWhatIsNotAllowed(t *testing.T) {
	ack, paused, resumed, extended := ledger.ClockAcknowledged, ledger.ClockPaused, ledger.ClockResumed, ledger.ClockExtended
	in := "2026-06-20T10:00:00Z"
	for _, c := range []struct {
		name, regime, stated string
		before               []step
		step                 step
		want                 error
	}{
		{"extended after the first period", "gdpr", "", nil, step{extended, "2026-07-11T00:00:00Z", ""}, blobd.ErrConflict},
		{"extended after the first period, uk", "uk", "", nil, step{extended, "2026-07-11T00:00:00Z", ""}, blobd.ErrConflict},
		{"extended after the first period, ccpa", "ccpa", "", nil, step{extended, "2026-07-26T00:00:00Z", ""}, blobd.ErrConflict},
		{"extended after a stated date", "gdpr", "2026-06-19T12:00:00Z", nil, step{extended, in, ""}, blobd.ErrConflict},
		{"extended twice", "gdpr", "", []step{{extended, "2026-06-19", ""}}, step{extended, in, ""}, blobd.ErrConflict},
		{"lgpd extended", "lgpd", "", nil, step{extended, in, ""}, blobd.ErrConflict},
		{"ccpa paused", "ccpa", "", nil, step{paused, in, ""}, blobd.ErrConflict},
		{"lgpd paused", "lgpd", "", nil, step{paused, in, ""}, blobd.ErrConflict},
		{"hipaa paused", "hipaa", "", nil, step{paused, in, ""}, blobd.ErrConflict},
		{"paused twice", "uk", "", []step{{paused, "2026-06-19", ""}}, step{paused, in, ""}, blobd.ErrConflict},
		{"paused when overdue", "gdpr", "", nil, step{paused, "2026-07-11T00:00:00Z", ""}, blobd.ErrConflict},
		{"resumed, not paused", "gdpr", "", nil, step{resumed, in, ""}, blobd.ErrConflict},
		{"acknowledged twice", "ccpa", "", []step{{ack, "2026-06-19", ""}}, step{ack, in, ""}, blobd.ErrConflict},
		{"before the last event", "uk", "", []step{{paused, "2026-06-21", ""}}, step{resumed, in, ""}, blobd.ErrConflict},
		{"before the receipt", "uk", "", nil, step{ack, "2026-06-10T09:29:59Z", ""}, blobd.ErrInvalid},
		{"another word", "uk", "", nil, step{"stopped", in, ""}, blobd.ErrInvalid},
		{"a date of one's own", "gdpr", "", nil, step{extended, in, "2026-08-01"}, blobd.ErrInvalid},
		{"a date that is not later", "custom", "2026-07-01T12:00:00Z", nil, step{extended, in, "2026-07-01T12:00:00Z"}, blobd.ErrInvalid},
		{"a date that is past", "custom", "", nil, step{extended, in, in}, blobd.ErrInvalid},
		{"custom without a date", "custom", "2026-07-01T12:00:00Z", nil, step{extended, in, ""}, blobd.ErrInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := clock.Request{Regime: c.regime, ReceivedAt: moment(t, "2026-06-10T09:30:00Z"), StatedAt: moment(t, c.stated)}
			var events []ledger.ClockEvent
			for _, s := range c.before {
				events = append(events, s.event(t))
			}
			_, err := clock.Add(r, events, c.step.event(t), clock.Calendar{}, moment(t, "2026-12-01"))
			if !errors.Is(err, c.want) {
				t.Errorf("error is %v, want %v", err, c.want)
			}
		})
	}
}

func TestPausesAndExtensionsHaveReasons(t *testing.T) {
	r := clock.Request{Regime: "gdpr", ReceivedAt: moment(t, "2026-06-10")}
	for kind, want := range map[ledger.ClockEventKind]error{
		ledger.ClockAcknowledged: nil, ledger.ClockPaused: blobd.ErrInvalid, ledger.ClockExtended: blobd.ErrInvalid,
	} {
		e := ledger.ClockEvent{Kind: kind, At: moment(t, "2026-06-11")}
		if _, err := clock.Add(r, nil, e, clock.Calendar{}, e.At); !errors.Is(err, want) {
			t.Errorf("%s without a reason: %v, want %v", kind, err, want)
		}
	}
}

func TestNoEventIsInTheFuture(t *testing.T) {
	r := clock.Request{Regime: "gdpr", ReceivedAt: moment(t, "2026-06-10")}
	e := ledger.ClockEvent{Kind: ledger.ClockAcknowledged, At: moment(t, "2026-06-11")}
	if _, err := clock.Add(r, nil, e, clock.Calendar{}, e.At.Add(-time.Microsecond)); !errors.Is(err, blobd.ErrInvalid) {
		t.Errorf("error is %v, want ErrInvalid", err)
	}
}

// A receipt may be told by a clock that is a little ahead.
func TestAReceiptThatIsAhead(t *testing.T) {
	r := clock.Request{Regime: "gdpr", ReceivedAt: moment(t, "2026-06-10T09:31:00Z")}
	e := ledger.ClockEvent{Kind: ledger.ClockPaused, At: moment(t, "2026-06-10T09:30:00Z"), Reason: "because"}
	got, err := clock.Add(r, nil, e, clock.Calendar{}, e.At)
	if err != nil || got.State != clock.Paused {
		t.Errorf("%s, %v", got.State, err)
	}
}

// Rows that Add would refuse are read all the same: the first of a kind counts.
func TestAHistoryThatShouldNotBe(t *testing.T) {
	r := clock.Request{Regime: "gdpr", ReceivedAt: moment(t, "2026-06-10T09:30:00Z")}
	var events []ledger.ClockEvent
	for _, s := range []step{
		{ledger.ClockResumed, "2026-06-11", ""},
		{ledger.ClockAcknowledged, "2026-06-12", ""}, {ledger.ClockAcknowledged, "2026-06-13", ""},
		{ledger.ClockPaused, "2026-06-15", ""}, {ledger.ClockPaused, "2026-06-17", ""}, {ledger.ClockResumed, "2026-06-18", ""},
		{ledger.ClockExtended, "2026-06-19", ""}, {ledger.ClockExtended, "2026-06-20", ""},
	} {
		events = append(events, s.event(t))
	}
	got := clock.Read(r, events, clock.Calendar{}, moment(t, "2026-06-21"))
	dated(t, "due", got.DueAt, "2026-09-14") // 10 September and three days is a Sunday
	if got.PausedDays != 3 || !got.AcknowledgedAt.Equal(moment(t, "2026-06-12")) || !got.ExtendedAt.Equal(moment(t, "2026-06-19")) {
		t.Errorf("%+v", got)
	}
}

func TestNoDatePastTheLastYear(t *testing.T) {
	r := clock.Request{Regime: "custom", ReceivedAt: moment(t, "2026-06-10")}
	e := ledger.ClockEvent{Kind: ledger.ClockExtended, At: moment(t, "2026-06-11"), Reason: "because", DueAt: moment(t, "9999-12-31T23:59:59Z").Add(time.Second)}
	if _, err := clock.Add(r, nil, e, clock.Calendar{}, e.At); !errors.Is(err, blobd.ErrInvalid) {
		t.Errorf("error is %v, want ErrInvalid", err)
	}
}
