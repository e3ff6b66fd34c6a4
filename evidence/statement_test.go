package evidence

import (
	"testing"
	"time"

	"github.com/blobd/blobd/ledger"
)

// TestAStatementIsHeldToItsEntry, whoever signed it.
func TestAStatementIsHeldToItsEntry(t *testing.T) {
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	of := ledger.Scope{Tenant: "acme", Subjects: [][32]byte{{1}, {2}}}
	make := func(step ErasureStep) Certificate {
		step.Erasure = "id"
		e, err := (Scribe{Tenant: "acme"}).Erasure(at, of, step, "")
		if err != nil {
			t.Fatal(err)
		}
		told := (Scribe{}).scope(of)
		return Certificate{Log: Inclusion{Leaf: LeafOf(e)}, Statement: Statement{
			Type: CertificateType, Version: 2, Erasure: "id", Tenant: "acme", Outcome: outcome(step), Scope: CertifiedScope{ScopeStep: told},
			ErasedAt: at, Keys: ErasedKeys{Destroyed: step.KeysDestroyed, KEK: "acme"},
			Exceptions: []string{"LEGAL_HOLD"}, Details: []Exception{{Code: "LEGAL_HOLD", Count: 1}},
		}}
	}
	partial := ErasureStep{Step: StepDeferred, KeysDestroyed: 1, Held: 1}
	if err := checkStatement(make(partial), ""); err != nil {
		t.Fatalf("what the entry says: %v", err)
	}
	for what, change := range map[string]func(*Statement){
		"the outcome":       func(s *Statement) { s.Outcome = OutcomeErased },
		"no outcome":        func(s *Statement) { s.Outcome = "" },
		"another version":   func(s *Statement) { s.Version = 1 },
		"a later version":   func(s *Statement) { s.Version = 3 },
		"the first version": func(s *Statement) { s.Version, s.Outcome, s.Details = 1, "", nil },
		"more keys":         func(s *Statement) { s.Keys.Destroyed = 2 },
		"nothing held":      func(s *Statement) { s.Exceptions, s.Details = nil, nil },
		"fewer held":        func(s *Statement) { s.Details[0].Count = 0 },
		"a code less":       func(s *Statement) { s.Exceptions = nil },
		"another code":      func(s *Statement) { s.Exceptions = []string{"NO_MATCH"} },
		"a code twice": func(s *Statement) {
			s.Exceptions, s.Details = append(s.Exceptions, "LEGAL_HOLD"), append(s.Details, s.Details[0])
		},
		"a refusal": func(s *Statement) {
			s.Exceptions, s.Details = append(s.Exceptions, "STORE_REFUSED"), append(s.Details, Exception{Code: "STORE_REFUSED", Count: 1})
		},
		"another form":        func(s *Statement) { s.Scope.Form = "class" },
		"no form":             func(s *Statement) { s.Scope.Form = "" },
		"fewer people":        func(s *Statement) { s.Scope.Subjects = 1 },
		"other people":        func(s *Statement) { s.Scope.SubjectsTag = "00" },
		"a class":             func(s *Statement) { s.Scope.Class = "notes" },
		"a date":              func(s *Statement) { s.Scope.CapturedBefore = &at },
		"an execution":        func(s *Statement) { s.Scope.Execution = "00" },
		"the whole tenant":    func(s *Statement) { s.Scope.WholeTenant = true },
		"another time":        func(s *Statement) { s.ErasedAt = at.Add(1) },
		"another tenant":      func(s *Statement) { s.Tenant, s.Keys.KEK = "other", "other" },
		"another erasure":     func(s *Statement) { s.Erasure = "other" },
		"another destruction": func(s *Statement) { s.Keys.KEKDestroyedAt = &at },
	} {
		c := make(partial)
		change(&c.Statement)
		if err := checkStatement(c, ""); err == nil {
			t.Errorf("%s is taken", what)
		}
	}
	for _, step := range []string{StepRequested, StepApproved, StepClosed, StepFenced, StepDropped, StepDeleted, StepCancelled} {
		c := make(ErasureStep{Step: step, Held: 1})
		if err := checkStatement(c, ""); err == nil {
			t.Errorf("the step %s is taken for an end", step)
		}
	}
	// What was taken beyond the plan is the entry's, and makes the version.
	counted := ErasureStep{Step: StepDeferred, KeysDestroyed: 1, Held: 1, Delta: &Delta{Executions: 1, Blobs: -2, Bytes: 3}}
	told := func(change func(*Statement)) error {
		c := make(counted)
		c.Statement.Version, c.Statement.Delta = 3, &Delta{1, -2, 3}
		change(&c.Statement)
		return checkStatement(c, "")
	}
	if err := told(func(*Statement) {}); err != nil {
		t.Errorf("a delta as the entry has it: %v", err)
	}
	for what, change := range map[string]func(*Statement){
		"more executions":      func(s *Statement) { s.Delta.Executions = 2 },
		"more blobs":           func(s *Statement) { s.Delta.Blobs = 2 },
		"more bytes":           func(s *Statement) { s.Delta.Bytes = 4 },
		"no delta":             func(s *Statement) { s.Delta = nil },
		"no delta, version 2":  func(s *Statement) { s.Version, s.Delta = 2, nil },
		"a delta in version 2": func(s *Statement) { s.Version = 2 },
		"a later version":      func(s *Statement) { s.Version = 4 },
	} {
		if err := told(change); err == nil {
			t.Errorf("%s is taken", what)
		}
	}
	c := make(partial)
	for _, version := range []int{2, 3} {
		if c.Statement.Version, c.Statement.Delta = version, new(Delta); checkStatement(c, "") == nil {
			t.Errorf("version %d with a delta that no entry tells is taken", version)
		}
	}
	denied := make(ErasureStep{Step: StepDenied, Code: "ID_UNVERIFIED"})
	if err := checkStatement(denied, ""); err == nil {
		t.Error("a denial without its code is taken")
	}
}
