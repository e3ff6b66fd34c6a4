package evidence_test

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"
	"time"

	"github.com/blobd/blobd/evidence"
	"github.com/blobd/blobd/ledger"
)

func clockMove() ledger.ClockMove {
	return ledger.ClockMove{
		Tenant: "acme", ErasureID: "an-erasure", DueAt: at.Add(time.Hour),
		Event: ledger.ClockEvent{
			N: 1, Kind: ledger.ClockExtended, At: at.Add(-time.Hour), RecordedAt: at, By: "the-actor", Reason: "a person's reason",
		},
	}
}

func TestAClockEventIsCommittedTo(t *testing.T) {
	m := clockMove()
	e, err := scribe().Clock(m)
	if err != nil {
		t.Fatal(err)
	}
	body := decode(t, e)
	if e.Kind != ledger.EntryErasure || !e.At.Equal(at) || body["step"] != "clock.extended" || body["erasure"] != "an-erasure" {
		t.Errorf("%s at %v: %s", e.Kind, e.At, e.Body)
	}
	if body["happenedAt"] != "2026-11-30T10:00:00Z" || body["dueAt"] != "2026-11-30T12:00:00Z" {
		t.Errorf("times: %s", e.Body)
	}
	if e.FreeText != m.Event.Reason || len(e.Salt) != 32 || body["reasonCommitment"] != evidence.Commitment(e.Salt, m.Event.Reason) {
		t.Errorf("free text %q, body %s", e.FreeText, e.Body)
	}
	for _, hidden := range []string{m.Event.Reason, m.Event.By} {
		if bytes.Contains(e.Body, []byte(hidden)) {
			t.Errorf("the body tells %q", hidden)
		}
	}
}

func TestAClockEventWithoutReasonAndDate(t *testing.T) {
	m := clockMove()
	m.Event.Reason, m.DueAt = "", time.Time{}
	e, err := scribe().Clock(m)
	body := decode(t, e)
	_, committed := body["reasonCommitment"]
	_, dated := body["dueAt"]
	if err != nil || committed || dated || e.FreeText != "" || e.Salt != nil {
		t.Errorf("%s, free text %q, %v", e.Body, e.FreeText, err)
	}
}

func TestAClockEventNeedsRandomness(t *testing.T) {
	s := scribe()
	s.Random = iotest.ErrReader(io.ErrUnexpectedEOF)
	if _, err := s.Clock(clockMove()); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("error is %v", err)
	}
}
