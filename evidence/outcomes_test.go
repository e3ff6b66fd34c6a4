package evidence_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/evidence"
	"github.com/blobd/blobd/ledger"
)

// closing is an erasure that goes the closing way through a rig.
type closing struct {
	*erasing
	job ledger.Job
}

func (c *closing) step(s evidence.ErasureStep, actor string, p ledger.Progress) []ledger.Entry {
	c.Helper()
	s.Erasure = c.id
	e, err := scribe().Erasure(c.clock.now(), *c.form, s.Progressed(p), actor)
	if err != nil {
		c.Fatal(err)
	}
	return []ledger.Entry{e}
}

// newClosing asks for the erasure of a person or a class, approved by two.
func newClosing(t *testing.T, scope ledger.Scope, p ledger.Plan, approvals int) *closing {
	c := &closing{erasing: newErasing(t)}
	scope.Tenant = "acme"
	c.form = &scope
	held := evidence.ErasureStep{Step: evidence.StepClosed}
	digest := [32]byte{0xab}
	_, _, err := c.inner.Fence(t.Context(), ledger.Fence{
		ID: c.id, At: c.clock.now(), RunAt: c.clock.now(), Scope: scope, RequestedBy: "the-actor", Reason: "free text of a person",
		Plan: p, PlanDigest: digest, Approvals: approvals,
		Asked:  c.step(evidence.ErasureStep{Step: evidence.StepRequested, Approvals: approvals}, "the-actor", ledger.Progress{}),
		Closed: c.step(held, "the-actor", ledger.Progress{Held: p.Held, Floor: p.Floor}),
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range approvals {
		c.clock.add(time.Minute)
		by := []string{"one", "two"}[i]
		_, _, err := c.inner.Decide(t.Context(), ledger.Decision{
			Tenant: "acme", ID: c.id, Act: ledger.ActApprove, By: by, At: c.clock.now(), PlanDigest: digest, RunAt: c.clock.now(),
			Entries: c.step(evidence.ErasureStep{Step: evidence.StepApproved}, by, ledger.Progress{}),
			Closed:  c.step(held, "", ledger.Progress{Held: p.Held, Floor: p.Floor}),
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func (c *closing) claim() {
	c.Helper()
	c.clock.add(90 * time.Second)
	var err error
	if c.job, err = c.inner.Claim(c.t.Context(), "worker", c.clock.now(), c.clock.now().Add(time.Minute)); err != nil {
		c.Fatal(err)
	}
}

func (c *closing) put(off ledger.Progress) {
	c.Helper()
	c.claim()
	es := c.step(evidence.ErasureStep{Step: evidence.StepDeferred}, "", off)
	if err := c.inner.Defer(c.t.Context(), c.job.Lease, c.clock.now(), off, es); err != nil {
		c.Fatal(err)
	}
}

func (c *closing) end(p ledger.Progress) {
	c.Helper()
	c.claim()
	es := c.step(evidence.ErasureStep{Step: evidence.StepErased}, "", p)
	if err := c.inner.Finish(c.t.Context(), c.job.Lease, p, c.clock.now(), es); err != nil {
		c.Fatal(err)
	}
}

func (c *closing) verified() evidence.Statement {
	c.Helper()
	c.drain(c.process)
	b := c.certificate()
	cert, err := evidence.VerifyCertificate(b, c.key())
	if err != nil {
		c.Fatal(err)
	}
	if _, err := evidence.PDF(b); err != nil {
		c.Fatal(err)
	}
	return cert.Statement
}

var aPerson = ledger.Scope{Subjects: [][32]byte{{1, 2, 3}, {4, 5, 6}}}

// TestACertificateOfAPerson: who approved it, how many identifiers and no identifier,
// what was held for a time, and what it does not say.
func TestACertificateOfAPerson(t *testing.T) {
	c := newClosing(t, aPerson, ledger.Plan{Executions: 3, Blobs: 4, Held: 1, Shared: 2}, 2)
	closedAt := c.clock.now()
	c.put(ledger.Progress{KeysDestroyed: 3, ObjectsDeleted: 3, VersionsDeleted: 3, Held: 1})
	c.end(ledger.Progress{KeysDestroyed: 4, ObjectsDeleted: 4, VersionsDeleted: 4, Settled: true})
	erasedAt := c.clock.now()
	s := c.verified()
	if s.Version != 2 || s.Outcome != evidence.OutcomeErased || !s.FencedAt.Equal(closedAt) || !s.ErasedAt.Equal(erasedAt) {
		t.Errorf("%+v", s)
	}
	if s.Scope.Form != "subjects" || s.Scope.Subjects != 2 || len(s.Scope.SubjectsTag) != 32 || s.Scope.Execution != "" {
		t.Errorf("scope %+v", s.Scope)
	}
	if s.RequestedBy != theActor || len(s.ApprovedBy) != 2 || s.ApprovedBy[0] == s.ApprovedBy[1] || slices.Contains(s.ApprovedBy, theActor) {
		t.Errorf("requested by %s, approved by %v", s.RequestedBy, s.ApprovedBy)
	}
	if s.Plan.Digest != "ab"+strings.Repeat("0", 62) || s.Plan.Held != 1 || s.Plan.Shared != 2 {
		t.Errorf("plan %+v", s.Plan)
	}
	if !slices.Equal(s.Exceptions, []string{"LEGAL_HOLD", "SHARED_SUBJECT"}) ||
		s.Details[0].Count != 1 || !s.Details[0].From.Equal(closedAt) || !s.Details[0].Until.Equal(erasedAt) || s.Details[1].Count != 2 {
		t.Errorf("exceptions %v, %+v", s.Exceptions, s.Details)
	}
	limits := strings.Join(s.Limits, "\n")
	if !strings.Contains(limits, "were not tagged") || !strings.Contains(limits, "does not say that all data of a person was erased") {
		t.Errorf("limits %s", limits)
	}
	b := c.certificate()
	for _, never := range []string{"free text", "the-actor", "0102030000", "AQIDAAAA"} {
		if bytes.Contains(b, []byte(never)) {
			t.Errorf("the certificate holds %q", never)
		}
	}
}

// TestACertificateOfWhatIsHeld counts what was erased and what is kept, and calls it
// partial; while nothing went, deferred.
func TestACertificateOfWhatIsHeld(t *testing.T) {
	c := newClosing(t, ledger.Scope{Class: "notes", CapturedBefore: now()}, ledger.Plan{Blobs: 3, Held: 2, Floor: 1}, 0)
	if _, err := c.certifier.Certificate(t.Context(), "acme", c.id, ""); !errors.Is(err, blobd.ErrConflict) {
		t.Errorf("before its job ran: %v", err)
	}
	c.put(ledger.Progress{Held: 2, Floor: 1})
	s := c.verified()
	if s.Outcome != evidence.OutcomeDeferred || len(s.Method) != 0 || s.Keys.Destroyed != 0 || s.Scope.Class != "notes" ||
		!s.Scope.CapturedBefore.Equal(now()) || !slices.Equal(s.Exceptions, []string{"LEGAL_HOLD", "LEGAL_FLOOR"}) {
		t.Errorf("%+v", s)
	}
	c.put(ledger.Progress{KeysDestroyed: 1, ObjectsDeleted: 1, VersionsDeleted: 1, Held: 2, Failed: 1})
	s = c.verified()
	if s.Outcome != evidence.OutcomePartial || s.Keys.Destroyed != 1 || !slices.Equal(s.Exceptions, []string{"LEGAL_HOLD", "STORE_REFUSED"}) ||
		s.Details[0].Count != 2 || s.Details[0].Until != nil {
		t.Errorf("%+v", s)
	}
	if !strings.Contains(strings.Join(s.Verification, "\n"), "still stored") {
		t.Errorf("verification %v", s.Verification)
	}
}

// TestACertificateTellsWhatJoinedThePlan: the erasure's last entry counts it, and the
// certificate has version 3. A plan without a figure of that has version 2.
func TestACertificateTellsWhatJoinedThePlan(t *testing.T) {
	c := newClosing(t, aPerson, ledger.Plan{Executions: 1, Blobs: 2, Bytes: 20, NotFound: 0}, 2)
	c.claim()
	joined := evidence.Delta{Executions: 1, Blobs: 2, Bytes: 16}
	p := ledger.Progress{KeysDestroyed: 4, ObjectsDeleted: 4, VersionsDeleted: 4, Settled: true}
	es := c.step(evidence.ErasureStep{Step: evidence.StepErased, Delta: &joined}, "", p)
	if err := c.inner.Finish(t.Context(), c.job.Lease, p, c.clock.now(), es); err != nil {
		t.Fatal(err)
	}
	s := c.verified()
	if s.Version != 3 || s.Delta == nil || *s.Delta != joined || s.Plan.Blobs != 2 || s.Keys.Destroyed != 4 {
		t.Errorf("%+v", s)
	}
	text, err := evidence.PDF(c.certificate())
	if err != nil || len(text) == 0 {
		t.Errorf("as a PDF: %v", err)
	}
}

// TestACertificateOfADenial has its code, and claims nothing.
func TestACertificateOfADenial(t *testing.T) {
	c := newClosing(t, aPerson, ledger.Plan{NotFound: 1}, 0)
	c.put(ledger.Progress{Held: 1})
	_, _, err := c.inner.Decide(t.Context(), ledger.Decision{
		Tenant: "acme", ID: c.id, Act: ledger.ActDeny, By: "one", At: c.clock.now(), Code: "ID_UNVERIFIED", Reason: "free text",
		Entries: c.step(evidence.ErasureStep{Step: evidence.StepDenied, Code: "ID_UNVERIFIED"}, "one", ledger.Progress{}),
	})
	if err != nil {
		t.Fatal(err)
	}
	s := c.verified()
	if s.Outcome != evidence.OutcomeDenied || len(s.Method) != 0 || !slices.Equal(s.Exceptions, []string{"ID_UNVERIFIED", "NO_MATCH"}) {
		t.Errorf("%+v", s)
	}
}

// TestUnknownMembersOfVersionTwoAreRefused before anything else is asked.
func TestUnknownMembersOfVersionTwoAreRefused(t *testing.T) {
	c := newClosing(t, aPerson, ledger.Plan{Blobs: 2, Held: 1}, 0)
	c.put(ledger.Progress{KeysDestroyed: 1, ObjectsDeleted: 1, VersionsDeleted: 1, Held: 1})
	c.drain(c.process)
	b := c.certificate()
	for what, to := range map[string][2]string{
		"an unknown member":  {`"outcome":`, `"outcomf":"x","outcome":`},
		"an unknown detail":  {`{"code":"LEGAL_HOLD"`, `{"c":1,"code":"LEGAL_HOLD"`},
		"null for details":   {`"exceptionDetails":[`, `"exceptionDetails":null,"x":[`},
		"an absent subject":  {`"subjects":2`, `"subjects":0`},
		"an unknown scope":   {`"form":"subjects"`, `"form":"subjects","forn":"x"`},
		"a subject in clear": {`"subjectsTag":"`, `"subject":"anna","subjectsTag":"`},
	} {
		changed := bytes.Replace(b, []byte(to[0]), []byte(to[1]), 1)
		if bytes.Equal(changed, b) {
			t.Errorf("%s: the test changes nothing: %s", what, b)
		}
		if _, err := evidence.ParseCertificate(changed); !errors.Is(err, blobd.ErrInvalid) {
			t.Errorf("%s is read: %v", what, err)
		}
	}
}

// TestOrderEntries commit to what people wrote, and hold none of it.
func TestOrderEntries(t *testing.T) {
	o := ledger.Order{
		ID: "id", Kind: ledger.OrderHold, Scope: ledger.Scope{Tenant: "acme", Subjects: [][32]byte{{1}}},
		Matter: "a matter", Reason: "a reason", Owner: "an owner", PlacedAt: at, PlacedBy: "the-actor",
	}
	e, err := scribe().Placed(o)
	if err != nil {
		t.Fatal(err)
	}
	var step evidence.OrderStep
	var text evidence.OrderText
	if err := errors.Join(json.Unmarshal(e.Body, &step), json.Unmarshal([]byte(e.FreeText), &text)); err != nil {
		t.Fatal(err)
	}
	if e.Kind != ledger.EntryOrder || step.Act != "placed" || step.Kind != "hold" || step.Order != "id" || step.Actor != theActor ||
		step.Matter != evidence.Commitment(e.Salt, "a matter") || step.Reason != evidence.Commitment(e.Salt, "a reason") ||
		text != (evidence.OrderText{Matter: "a matter", Reason: "a reason"}) || len(e.Salt) != 32 {
		t.Errorf("%s, %s", e.Body, e.FreeText)
	}
	for _, never := range []string{"a matter", "a reason", "an owner", "0100000000"} {
		if bytes.Contains(e.Body, []byte(never)) {
			t.Errorf("the entry holds %q", never)
		}
	}
	e, err = scribe().Lifted(ledger.Lift{Kind: ledger.OrderHold, ID: "id", At: at}, o.Scope)
	if err != nil || e.FreeText != "" || e.Salt != nil || !bytes.Contains(e.Body, []byte(`"act":"lifted"`)) {
		t.Errorf("%s, %v", e.Body, err)
	}
}
