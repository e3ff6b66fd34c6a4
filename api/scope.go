package api

import (
	"encoding/hex"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/ledger"
)

// scope is a scope as a request spelled it, in one form.
type scope struct {
	executionID    string
	refs           []blobd.Ref
	subjects       []string
	class          string
	capturedBefore time.Time
	wholeTenant    bool
}

// readScope reads the one form that a scope has. dated: a class comes with its
// date.
func readScope(s *wire.Scope, dated bool) (scope, error) {
	if s == nil {
		return scope{}, refuse(wire.CodeInvalid, "scope: is missing")
	}
	byExecution := s.ExecutionID != nil
	bySubjects := s.Subjects != nil
	byClass := s.Class != nil || s.CapturedBefore != nil
	byTenant := s.Tenant != nil
	forms := 0
	for _, used := range []bool{byExecution || s.Refs != nil, bySubjects, byClass, byTenant} {
		if used {
			forms++
		}
	}
	if forms != 1 {
		return scope{}, refuse(wire.CodeInvalid,
			"scope: want executionId, or refs with executionId, or subjects, or class with capturedBefore, or tenant")
	}
	switch {
	case bySubjects:
		return readSubjectScope(s.Subjects)
	case byClass:
		return readClassScope(s, dated)
	case byTenant:
		if !*s.Tenant {
			return scope{}, refuse(wire.CodeInvalid, "scope.tenant: want true")
		}
		return scope{wholeTenant: true}, nil
	case !byExecution:
		return scope{}, refuse(wire.CodeInvalid, "scope.refs: want executionId with them")
	}
	return readExecutionScope(s)
}

func readSubjectScope(subjects []string) (scope, error) {
	if len(subjects) == 0 {
		return scope{}, refuse(wire.CodeInvalid, "scope.subjects: must not be empty")
	}
	return scope{subjects: subjects}, checkSubjects(subjects)
}

func readClassScope(s *wire.Scope, dated bool) (scope, error) {
	if s.Class == nil || dated && s.CapturedBefore == nil {
		return scope{}, refuse(wire.CodeInvalid, "scope: want class and capturedBefore together")
	}
	out := scope{class: *s.Class}
	if s.CapturedBefore != nil {
		out.capturedBefore = s.CapturedBefore.UTC()
		if out.capturedBefore.Year() < 1970 || out.capturedBefore.Year() > maxYear {
			return scope{}, refuse(wire.CodeInvalid, "scope.capturedBefore: want a year from 1970 to %d", maxYear)
		}
	}
	return out, invalid(blobd.CheckClass(out.class))
}

// maxYear bounds times in requests: every engine keeps them to the microsecond.
const maxYear = 9999

func readExecutionScope(s *wire.Scope) (scope, error) {
	out := scope{executionID: *s.ExecutionID}
	if err := blobd.CheckExecutionID(out.executionID); err != nil {
		return scope{}, invalid(err)
	}
	if s.Refs == nil {
		return out, nil
	}
	if len(s.Refs) == 0 {
		// An empty list must not mean the whole execution.
		return scope{}, refuse(wire.CodeInvalid, "scope.refs: must not be empty")
	}
	seen := make(map[blobd.Ref]bool, len(s.Refs))
	for i, text := range s.Refs {
		ref, err := blobd.ParseRef(text)
		if err != nil {
			return scope{}, refuse(wire.CodeInvalid, "scope.refs[%d]: %v", i, err)
		}
		if !seen[ref] {
			seen[ref] = true
			out.refs = append(out.refs, ref)
		}
	}
	if len(out.refs) > wire.MaxEraseRefs {
		return scope{}, refuse(wire.CodeTooLarge, "scope.refs: more than %d", wire.MaxEraseRefs)
	}
	return out, nil
}

// noNulls refuses a null where its reading as "absent" would reach further than
// was meant: a list that a client had not filled in would be the whole execution,
// a dryRun that it had not would be no dry run. It looks at the members of scope
// and at those that are named.
func noNulls(body []byte, names ...string) error {
	var q map[string]jsontext.Value
	if err := json.Unmarshal(body, &q); err != nil {
		return refuse(wire.CodeInvalid, "body: not the JSON of the contract")
	}
	for _, name := range names {
		if v := q[name]; v.Kind() == 'n' {
			return refuse(wire.CodeInvalid, "%s: must not be null", name)
		}
	}
	if v := q["scope"]; v.Kind() != '{' {
		return nil
	}
	var members map[string]jsontext.Value
	if err := json.Unmarshal(q["scope"], &members); err != nil {
		return refuse(wire.CodeInvalid, "scope: not the JSON of the contract")
	}
	for name, v := range members {
		if v.Kind() == 'n' {
			return refuse(wire.CodeInvalid, "scope.%s: must not be null", name)
		}
	}
	return nil
}

// covered is a scope in the contract's words.
func covered(s *ledger.Scope) wire.Covered {
	out := wire.Covered{Form: formWord(s.Form()), Tenant: s.WholeTenant, CapturedBefore: timeOrNull(s.CapturedBefore)}
	if s.ExecutionID != "" {
		out.ExecutionID = &s.ExecutionID
	}
	if s.Class != "" {
		out.Class = &s.Class
	}
	if len(s.Refs) > 0 {
		out.Refs = refStrings(s.Refs)
	}
	out.Subjects = len(s.Subjects)
	for _, subject := range s.Subjects {
		out.SubjectTags = append(out.SubjectTags, hex.EncodeToString(subject[:subjectTagBytes]))
	}
	return out
}

// subjectTagBytes is how much of a subject's keyed hash is told: enough to see
// that two are of one person, and of no use to anyone without the key.
const subjectTagBytes = 8

func formWord(f ledger.ScopeForm) string {
	switch f {
	case ledger.ScopeRefs:
		return "refs"
	case ledger.ScopeSubjects:
		return "subjects"
	case ledger.ScopeClass:
		return "class"
	case ledger.ScopeTenant:
		return "tenant"
	}
	return "execution"
}
