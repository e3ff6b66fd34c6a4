package store_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/evidence"
	"github.com/blobd/blobd/ledger"
	ledgerfaulty "github.com/blobd/blobd/ledger/faulty"
	deadlines "github.com/blobd/blobd/retention/clock"
	"github.com/blobd/blobd/store"
)

// dueBy asks for the erasure of an execution at noon of 30 November 2026, a Monday.
func (n *node) dueBy(t *testing.T, regime string, stated time.Time) ledger.Erasure {
	t.Helper()
	e, err := n.store.Erase(t.Context(), store.EraseRequest{
		Tenant: tenant, ExecutionID: "run-" + regime, Actor: "token", Regime: regime, DueAt: stated,
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func clockEvent(e ledger.Erasure, kind ledger.ClockEventKind) store.ClockRequest {
	return store.ClockRequest{Tenant: tenant, ErasureID: e.ID, Actor: "token", Kind: kind, Reason: "canary reason of a person"}
}

func (n *node) clockEvent(t *testing.T, e ledger.Erasure, kind ledger.ClockEventKind) store.ErasureClock {
	t.Helper()
	c, err := n.store.ClockEvent(t.Context(), clockEvent(e, kind))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (n *node) dueOf(t *testing.T, e ledger.Erasure) time.Time {
	t.Helper()
	e, err := n.ledger.Erasure(t.Context(), tenant, e.ID)
	if err != nil {
		t.Fatal(err)
	}
	return e.DueAt
}

func lastSecond(year int, month time.Month, day int) time.Time {
	return time.Date(year, month, day, 23, 59, 59, 0, time.UTC)
}

func TestAnErasureIsDueByItsRegime(t *testing.T) {
	n := memParts(t).start(t)
	for regime, want := range map[string]time.Time{
		"gdpr": lastSecond(2026, 12, 30), "uk": lastSecond(2026, 12, 30), "ccpa": lastSecond(2027, 1, 14),
		"lgpd": lastSecond(2026, 12, 15), "custom": {}, "": {},
	} {
		if got := n.dueBy(t, regime, time.Time{}).DueAt; !got.Equal(want) {
			t.Errorf("%q: due %v, want %v", regime, got, want)
		}
	}
	stated := time.Date(2026, 12, 5, 8, 0, 0, 0, time.UTC)
	e, err := n.store.Erase(t.Context(), store.EraseRequest{Tenant: tenant, ExecutionID: "stated", Actor: "token", Regime: "gdpr", DueAt: stated})
	if err != nil || !e.DueAt.Equal(stated) {
		t.Errorf("due %v, want what was stated; %v", e.DueAt, err)
	}
}

func TestAPauseMovesTheStoredDueDate(t *testing.T) {
	p := memParts(t)
	n := p.start(t)
	e := n.dueBy(t, "gdpr", time.Time{})
	c := n.clockEvent(t, e, ledger.ClockPaused)
	if c.State != deadlines.Paused || !n.dueOf(t, e).IsZero() {
		t.Fatalf("%s, stored as due %v", c.State, n.dueOf(t, e))
	}
	p.clock.advance(3 * 24 * time.Hour)
	c = n.clockEvent(t, e, ledger.ClockResumed)
	want := lastSecond(2027, 1, 4) // 2 January is a Saturday
	if !c.DueAt.Equal(want) || !n.dueOf(t, e).Equal(want) || len(c.Events) != 2 {
		t.Errorf("due %v, stored %v, want %v", c.DueAt, n.dueOf(t, e), want)
	}
	again, err := p.start(t).store.Clock(t.Context(), e)
	if err != nil || !again.DueAt.Equal(want) || again.PausedDays != 3 || len(again.Events) != 2 {
		t.Errorf("read back: due %v after %d days, %v", again.DueAt, again.PausedDays, err)
	}
}

func TestAStatedDueDateStaysTheStart(t *testing.T) {
	p := memParts(t)
	n := p.start(t)
	stated := time.Date(2026, 12, 5, 8, 0, 0, 0, time.UTC)
	e := n.dueBy(t, "custom", stated)
	n.clockEvent(t, e, ledger.ClockPaused)
	p.clock.advance(36 * time.Hour)
	c := n.clockEvent(t, e, ledger.ClockResumed)
	if !c.StatedAt.Equal(stated) || !c.DueAt.Equal(stated.Add(48*time.Hour)) {
		t.Errorf("stated %v, due %v", c.StatedAt, c.DueAt)
	}
}

func TestHolidaysOfTheConfiguration(t *testing.T) {
	p := memParts(t)
	n := p.boot()
	holidays, err := deadlines.ParseHolidays("2026-12-30 gdpr\n2026-12-31 gdpr\n2027-01-01 gdpr\n")
	if err != nil {
		t.Fatal(err)
	}
	n.store.Calendars = holidays
	if err := n.store.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	e := n.dueBy(t, "gdpr", time.Time{})
	c, err := n.store.Clock(t.Context(), e)
	if want := lastSecond(2027, 1, 4); err != nil || !c.DueAt.Equal(want) || !c.StatedAt.IsZero() {
		t.Errorf("due %v, stated %v, want %v; %v", c.DueAt, c.StatedAt, want, err)
	}
}

// An event and its evidence are one; the reason is in no body.
func TestAClockEventIsOnRecord(t *testing.T) {
	n := memParts(t).start(t)
	e := n.dueBy(t, "uk", time.Time{})
	n.clockEvent(t, e, ledger.ClockPaused)
	es, err := n.ledger.Entries(t.Context(), 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	last := es[len(es)-1]
	var step evidence.ClockStep
	if err := json.Unmarshal(last.Body, &step); err != nil {
		t.Fatal(err)
	}
	if last.Kind != ledger.EntryErasure || step.Step != "clock.paused" || step.Erasure != e.ID || step.DueAt != nil {
		t.Errorf("%s %s", last.Kind, last.Body)
	}
	if last.FreeText != "canary reason of a person" || step.Reason != evidence.Commitment(last.Salt, last.FreeText) {
		t.Errorf("the commitment is of something else")
	}
	for _, entry := range es {
		if bytes.Contains(entry.Body, []byte("canary")) || bytes.Contains(entry.Body, []byte(`"token"`)) {
			t.Errorf("%s", entry.Body)
		}
	}
}

func TestARefusedEventLeavesNothing(t *testing.T) {
	p := memParts(t)
	n := p.start(t)
	e := n.dueBy(t, "ccpa", time.Time{})
	es, err := n.ledger.Entries(t.Context(), 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []ledger.ClockEventKind{ledger.ClockPaused, ledger.ClockResumed, "stopped"} {
		_, err := n.store.ClockEvent(t.Context(), clockEvent(e, kind))
		var refused *deadlines.Refusal
		if !errors.As(err, &refused) {
			t.Errorf("%s: %v", kind, err)
		}
	}
	p.clock.advance(46 * 24 * time.Hour)
	if _, err := n.store.ClockEvent(t.Context(), clockEvent(e, ledger.ClockExtended)); !errors.Is(err, blobd.ErrConflict) {
		t.Errorf("extended after 45 days: %v", err)
	}
	after, err := n.ledger.Entries(t.Context(), 0, 1000)
	if err != nil || len(after) != len(es) {
		t.Errorf("%d entries, want %d; %v", len(after), len(es), err)
	}
}

func TestAnErasureThatEndedHasNoEvents(t *testing.T) {
	p := memParts(t)
	n := p.start(t)
	e := n.dueBy(t, "gdpr", time.Time{})
	n.runJobs(t)
	_, err := n.store.ClockEvent(t.Context(), clockEvent(e, ledger.ClockAcknowledged))
	if !errors.Is(err, blobd.ErrConflict) {
		t.Errorf("error is %v, want ErrConflict", err)
	}
	e, err = n.ledger.Erasure(t.Context(), tenant, e.ID)
	if err != nil {
		t.Fatal(err)
	}
	c, err := n.store.Clock(t.Context(), e)
	if err != nil || c.State != deadlines.Done || c.Late() || !c.EndedAt.Equal(e.ErasedAt) {
		t.Errorf("%s, late %t, ended %v; %v", c.State, c.Late(), c.EndedAt, err)
	}
}

func TestAClockOfNobody(t *testing.T) {
	n := memParts(t).start(t)
	n.createTenant(t, "other")
	e := n.dueBy(t, "gdpr", time.Time{})
	foreign, unknown := clockEvent(e, ledger.ClockAcknowledged), clockEvent(e, ledger.ClockAcknowledged)
	foreign.Tenant, unknown.ErasureID = "other", "unknown"
	for _, r := range []store.ClockRequest{foreign, unknown} {
		if _, err := n.store.ClockEvent(t.Context(), r); !errors.Is(err, blobd.ErrNotFound) {
			t.Errorf("error is %v, want ErrNotFound", err)
		}
	}
}

// Another event that comes first is taken in.
func TestTwoEventsAtOnce(t *testing.T) {
	p := memParts(t)
	n, other := p.start(t), p.start(t)
	e := n.dueBy(t, "gdpr", time.Time{})
	first := true
	n.ledger.OnCall(func(op string) {
		if op == "addclockevent" && first {
			first = false
			other.clockEvent(t, e, ledger.ClockAcknowledged)
		}
	})
	c := n.clockEvent(t, e, ledger.ClockPaused)
	if len(c.Events) != 2 || c.Events[0].Kind != ledger.ClockAcknowledged || c.AcknowledgedAt.IsZero() || c.State != deadlines.Paused {
		t.Errorf("%s with %v", c.State, c.Events)
	}
}

func TestAnEventOfWhichNobodyKnows(t *testing.T) {
	n := memParts(t).start(t)
	e := n.dueBy(t, "gdpr", time.Time{})
	for _, c := range []struct {
		when ledgerfaulty.When
		want error // of the repeat
	}{{ledgerfaulty.Before, nil}, {ledgerfaulty.After, blobd.ErrConflict}} {
		kind := ledger.ClockAcknowledged
		if c.when == ledgerfaulty.After {
			kind = ledger.ClockPaused
		}
		n.ledger.Fail("addclockevent", 1, c.when, blobd.ErrUnavailable)
		if _, err := n.store.ClockEvent(t.Context(), clockEvent(e, kind)); !errors.Is(err, blobd.ErrUnavailable) {
			t.Fatalf("error is %v, want ErrUnavailable", err)
		}
		if _, err := n.store.ClockEvent(t.Context(), clockEvent(e, kind)); !errors.Is(err, c.want) {
			t.Errorf("the repeat: %v, want %v", err, c.want)
		}
	}
}
