package api_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/blobd/blobd/api/wire"
)

// toClock sets the clock of a server that has just begun.
func (e *env) toClock(to time.Time) { e.clock.add(to.Sub(e.clock.now())) }

// heldBack asks for an erasure that will not end by itself.
func (e *env) heldBack(execution, rest string) wire.Erasure {
	e.t.Helper()
	a := e.ask("dpo", "POST", "/v1/erasures", `{"scope":{"executionId":"`+execution+`"},"reason":"asked"`+rest+`}`)
	a.want(e.t, http.StatusAccepted, "")
	var out wire.Erasure
	a.into(e.t, &out)
	return out
}

func (e *env) clockEvent(id, body string) wire.Clock {
	e.t.Helper()
	a := e.ask("dpo", "POST", "/v1/erasures/"+id+"/clock", body)
	a.want(e.t, http.StatusOK, "")
	var c wire.Clock
	a.into(e.t, &c)
	return c
}

func (e *env) clockOf(id string) *wire.Clock {
	e.t.Helper()
	a := e.ask("dpo", "GET", "/v1/erasures/"+id, "")
	a.want(e.t, http.StatusOK, "")
	var out wire.Erasure
	a.into(e.t, &out)
	return out.Clock
}

// same checks a time of the contract against its text; "" is null.
func same(t *testing.T, what string, got *time.Time, want string) {
	t.Helper()
	text := ""
	if got != nil {
		text = got.Format(time.RFC3339)
	}
	if text != want {
		t.Errorf("%s is %q, want %q", what, text, want)
	}
}

func TestTheClockOfAnErasure(t *testing.T) {
	e := newEnv(t)
	e.toClock(time.Date(2031, 6, 10, 9, 0, 0, 0, time.UTC)) // a Tuesday
	x := e.heldBack("run", `,"regime":"gdpr"`)
	same(t, "dueAt", x.DueAt, "2031-07-10T23:59:59Z")

	c := e.clockOf(x.ID)
	if c == nil || *c.Regime != "gdpr" || c.State != "on_track" || *c.Remaining != "P30DT14H59M59S" || c.Late || len(c.Events) != 0 {
		t.Fatalf("clock: %+v", c)
	}
	same(t, "receivedAt", c.ReceivedAt, "2031-06-10T09:00:00Z")
	same(t, "dueAt", c.DueAt, "2031-07-10T23:59:59Z")
	same(t, "computedDueAt", c.ComputedDueAt, "2031-07-10T23:59:59Z")
	same(t, "extendableBy", c.ExtendableBy, "2031-07-10T23:59:59Z")
	same(t, "statedDueAt", c.StatedDueAt, "")
	same(t, "acknowledgeBy", c.AcknowledgeBy, "")

	e.clock.add(time.Hour)
	paused := e.clockEvent(x.ID, `{"event":"paused","reason":"`+canaryPurpose+`","at":"2031-06-10T09:30:00Z"}`)
	same(t, "pausedAt", paused.PausedAt, "2031-06-10T09:30:00Z")
	if paused.State != "paused" || *paused.Events[0].Reason != canaryPurpose || paused.Events[0].RecordedBy == "" {
		t.Errorf("paused: %+v", paused)
	}
	same(t, "recordedAt", &paused.Events[0].RecordedAt, "2031-06-10T10:00:00Z")

	e.clock.add(3 * 24 * time.Hour)
	resumed := e.clockEvent(x.ID, `{"event":"resumed"}`)
	same(t, "dueAt", resumed.DueAt, "2031-07-14T23:59:59Z") // the 13th is a Sunday
	if resumed.State != "on_track" || resumed.PausedDays != 3 || resumed.PausedAt != nil {
		t.Errorf("resumed: %+v", resumed)
	}
	extended := e.clockEvent(x.ID, `{"event":"extended","reason":"many requests"}`)
	same(t, "dueAt", extended.DueAt, "2031-09-15T23:59:59Z") // the 13th is a Saturday
	same(t, "extendableBy", extended.ExtendableBy, "")
	if got := e.clockOf(x.ID); got == nil || len(got.Events) != 3 || !got.DueAt.Equal(*extended.DueAt) {
		t.Errorf("read back: %+v", got)
	}
	if strings.Contains(e.logs.String(), canaryPurpose) {
		t.Error("the reason is in the log")
	}
}

func TestTheClocksOfOtherRegimes(t *testing.T) {
	e := newEnv(t)
	e.toClock(time.Date(2031, 1, 2, 9, 0, 0, 0, time.UTC)) // a Thursday
	if c := e.clockOf(e.heldBack("none", ``).ID); c != nil {
		t.Errorf("a clock without a regime and a due date: %+v", c)
	}
	ccpa := e.heldBack("ccpa", `,"regime":"ccpa"`)
	c := e.clockEvent(ccpa.ID, `{"event":"acknowledged"}`)
	same(t, "acknowledgeBy", c.AcknowledgeBy, "2031-01-16T23:59:59Z")
	same(t, "acknowledgedAt", c.AcknowledgedAt, "2031-01-02T09:00:00Z")
	same(t, "dueAt", c.DueAt, "2031-02-16T23:59:59Z")

	stated := e.clockOf(e.heldBack("stated", `,"regime":"gdpr","dueAt":"2031-01-20T12:00:00Z"`).ID)
	same(t, "dueAt", stated.DueAt, "2031-01-20T12:00:00Z")
	same(t, "statedDueAt", stated.StatedDueAt, "2031-01-20T12:00:00Z")
	same(t, "computedDueAt", stated.ComputedDueAt, "2031-02-03T23:59:59Z") // the 2nd is a Sunday

	custom := e.heldBack("custom", `,"regime":"custom","dueAt":"2031-01-20T12:00:00Z"`)
	c = e.clockEvent(custom.ID, `{"event":"extended","reason":"the other tool says so","dueAt":"2031-03-01T12:00:00Z"}`)
	same(t, "dueAt", c.DueAt, "2031-03-01T12:00:00Z")
	same(t, "computedDueAt", c.ComputedDueAt, "")
}

func TestWhatAClockRefuses(t *testing.T) {
	e := newEnv(t)
	e.toClock(time.Date(2031, 6, 10, 9, 0, 0, 0, time.UTC))
	gdpr, ccpa := e.heldBack("gdpr", `,"regime":"gdpr"`).ID, e.heldBack("ccpa", `,"regime":"ccpa"`).ID
	e.clock.add(time.Hour)
	for _, c := range []struct {
		name, id, body string
		status         int
		code           wire.Code
	}{
		{"another word", gdpr, `{"event":"stopped"}`, 400, wire.CodeInvalid},
		{"no word", gdpr, `{}`, 400, wire.CodeInvalid},
		{"an unknown field", gdpr, `{"event":"resumed","when":"now"}`, 400, wire.CodeUnknownField},
		{"a pause without a reason", gdpr, `{"event":"paused"}`, 400, wire.CodeInvalid},
		{"an extension without a reason", gdpr, `{"event":"extended"}`, 400, wire.CodeInvalid},
		{"a long reason", gdpr, `{"event":"paused","reason":"` + strings.Repeat("x", wire.MaxReason+1) + `"}`, 400, wire.CodeInvalid},
		{"in the future", gdpr, `{"event":"acknowledged","at":"2031-06-10T10:00:01Z"}`, 400, wire.CodeInvalid},
		{"before the receipt", gdpr, `{"event":"acknowledged","at":"2031-06-10T08:59:59Z"}`, 400, wire.CodeInvalid},
		{"before 1970", gdpr, `{"event":"acknowledged","at":"1960-06-10T08:59:59Z"}`, 400, wire.CodeInvalid},
		{"no time", gdpr, `{"event":"acknowledged","at":"yesterday"}`, 400, wire.CodeInvalid},
		{"a date of one's own", gdpr, `{"event":"extended","reason":"r","dueAt":"2031-08-01T00:00:00Z"}`, 400, wire.CodeInvalid},
		{"a date without an extension", gdpr, `{"event":"resumed","dueAt":"2031-08-01T00:00:00Z"}`, 400, wire.CodeInvalid},
		{"not paused", gdpr, `{"event":"resumed"}`, 409, wire.CodeConflict},
		{"never paused", ccpa, `{"event":"paused","reason":"r"}`, 409, wire.CodeConflict},
		{"unknown", "00000000-0000-0000-0000-000000000000", `{"event":"acknowledged"}`, 404, wire.CodeNotFound},
	} {
		t.Run(c.name, func(t *testing.T) {
			e.ask("dpo", "POST", "/v1/erasures/"+c.id+"/clock", c.body).want(t, c.status, c.code)
		})
	}
	if c := e.clockOf(gdpr); len(c.Events) != 0 {
		t.Errorf("events: %+v", c.Events)
	}
	e.clock.add(31 * 24 * time.Hour)
	a := e.ask("dpo", "POST", "/v1/erasures/"+gdpr+"/clock", `{"event":"extended","reason":"too late"}`)
	a.want(t, http.StatusConflict, wire.CodeConflict)
	if p := a.problem(t); p.Detail != "the first period is over" {
		t.Errorf("detail %q", p.Detail)
	}
	if c := e.clockOf(gdpr); c.State != "overdue" || !c.Late || *c.Remaining != "PT0S" || c.ExtendableBy != nil {
		t.Errorf("overdue: %+v", c)
	}
	e.runErasures()
	e.ask("dpo", "POST", "/v1/erasures/"+gdpr+"/clock", `{"event":"acknowledged"}`).want(t, http.StatusConflict, wire.CodeConflict)
	if c := e.clockOf(gdpr); c.State != "done" || !c.Late || c.EndedAt == nil || c.Remaining != nil {
		t.Errorf("done: %+v", c)
	}
}

func TestAClockOfAnotherTenant(t *testing.T) {
	e := newEnv(t)
	must(t, second(e))
	x := e.heldBack("run", `,"regime":"gdpr"`)
	foreign := e.newToken("second", "dpo")
	e.ask(foreign, "POST", "/v1/erasures/"+x.ID+"/clock", `{"event":"acknowledged"}`).want(t, http.StatusNotFound, wire.CodeNotFound)
}

func TestErasuresByTheirDueDate(t *testing.T) {
	e := newEnv(t)
	e.toClock(time.Date(2031, 6, 10, 9, 0, 0, 0, time.UTC))
	first := e.heldBack("first", `,"regime":"custom","dueAt":"2031-06-11T09:00:00Z"`).ID
	e.clock.add(time.Second) // so that newest first is an order
	second := e.heldBack("second", `,"regime":"custom","dueAt":"2031-06-15T09:00:00Z"`).ID
	e.heldBack("third", `,"regime":"gdpr"`)
	e.clock.add(25 * time.Hour)
	for query, want := range map[string][]string{"overdue": {first}, "soon": {second, first}} {
		a := e.ask("dpo", "GET", "/v1/erasures?due="+query, "")
		a.want(t, http.StatusOK, "")
		var out wire.Erasures
		a.into(t, &out)
		var got []string
		for _, x := range out.Items {
			got = append(got, x.ID)
			if x.Clock != nil {
				t.Error("a listing tells clocks")
			}
		}
		if strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
	e.ask("dpo", "GET", "/v1/erasures?due=never", "").want(t, http.StatusBadRequest, wire.CodeInvalid)
	e.ask("dpo", "GET", "/v1/erasures?due=soon&dueBefore=2031-06-11", "").want(t, http.StatusBadRequest, wire.CodeInvalid)
}

func TestMetricsOfClocks(t *testing.T) {
	e := newEnv(t)
	e.toClock(time.Date(2031, 6, 10, 9, 0, 0, 0, time.UTC))
	read := func() string { return string(e.ask("", "GET", "/metrics", "").body) }
	if got := read(); !strings.Contains(got, "\nblobd_erasures_overdue 0\n") || strings.Contains(got, "next_due") {
		t.Errorf("before any erasure: %s", clockLines(got))
	}
	x := e.heldBack("a", `,"regime":"custom","dueAt":"2031-06-11T09:00:00Z"`)
	e.heldBack("b", `,"dueAt":"2031-06-12T09:00:00Z"`)
	e.clock.add(25 * time.Hour)
	got := read()
	for _, want := range []string{
		"\nblobd_erasures_overdue 1\n",
		"\n" + `blobd_erasure_next_due_timestamp_seconds{regime="custom"} 1.9389348e+09` + "\n", // 2031-06-11T09:00:00Z
		"\n" + `blobd_erasure_next_due_timestamp_seconds{regime="none"} 1.9390212e+09` + "\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("want %q in %s", want, clockLines(got))
		}
	}
	e.clockEvent(x.ID, `{"event":"acknowledged"}`) // moves nothing
	e.runErasures()
	if got := read(); !strings.Contains(got, "\nblobd_erasures_overdue 0\n") || strings.Contains(got, "next_due") {
		t.Errorf("after the last one: %s", clockLines(got))
	}
}

// clockLines are the lines of metrics that are about clocks.
func clockLines(metrics string) string {
	var out []string
	for line := range strings.Lines(metrics) {
		if strings.Contains(line, "due") {
			out = append(out, line)
		}
	}
	return strings.Join(out, "")
}
