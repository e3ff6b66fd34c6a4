package ledger

import (
	"fmt"
	"time"

	"github.com/blobd/blobd"
)

// Scope is what an erasure, a hold, a restriction or a suppression covers, in one
// of five forms:
//
//   - an execution, seen or not: Tag and ExecutionID;
//   - refs within one: Refs too;
//   - what is tagged with a person: Subjects, any of them;
//   - a class, or what was captured of it before a time: Class, CapturedBefore;
//   - the whole tenant: WholeTenant.
//
// It covers the rows that are there and those that come later. A row whose execution
// has no row is nobody's: only the scope of its execution, and of its ref, covers it.
type Scope struct {
	Tenant      string
	Tag         blobd.ExecutionTag // of a whole tenant: the tag that names it in object names
	ExecutionID string
	Refs        []blobd.Ref
	// Subjects are keyed hashes, sorted, each once.
	Subjects [][32]byte
	Class    string
	// CapturedBefore is not included; zero: without an end.
	CapturedBefore time.Time
	WholeTenant    bool
}

// ScopeForm is one of the forms of a scope.
type ScopeForm uint8

// The forms. Values are stored: never renumber.
const (
	ScopeExecution ScopeForm = 1
	ScopeRefs      ScopeForm = 2
	ScopeSubjects  ScopeForm = 3
	ScopeClass     ScopeForm = 4
	ScopeTenant    ScopeForm = 5
)

// Form returns the form of a scope that Check takes.
func (s *Scope) Form() ScopeForm {
	switch {
	case s.WholeTenant:
		return ScopeTenant
	case len(s.Subjects) > 0:
		return ScopeSubjects
	case s.Class != "":
		return ScopeClass
	case len(s.Refs) > 0:
		return ScopeRefs
	}
	return ScopeExecution
}

// Bounded reports whether the scope lies within one execution.
func (f ScopeForm) Bounded() bool { return f == ScopeExecution || f == ScopeRefs }

// Fenceable reports whether an erasure of the form ends in a fence. The others
// drop the rows that they find, and what they closed stays closed until then.
func (f ScopeForm) Fenceable() bool { return f.Bounded() || f == ScopeTenant }

// Check refuses what no engine takes, as ErrInvalid: more than one form, or none.
func (s Scope) Check() error {
	forms := 0
	for _, used := range []bool{
		s.WholeTenant, len(s.Subjects) > 0, s.Class != "", s.ExecutionID != "" || len(s.Refs) > 0,
	} {
		if used {
			forms++
		}
	}
	bare := forms == 0 && s.Tag == (blobd.ExecutionTag{})
	switch {
	case s.Tenant == "" && s.Form() != ScopeExecution && s.Form() != ScopeRefs:
		return fmt.Errorf("a scope without a tenant: %w", blobd.ErrInvalid)
	case forms > 1 || bare:
		return fmt.Errorf("a scope of %d forms: %w", forms, blobd.ErrInvalid)
	case !s.CapturedBefore.IsZero() && s.Class == "":
		return fmt.Errorf("a date without a class: %w", blobd.ErrInvalid)
	}
	return nil
}

// ScopeCursor is a place among the rows of a scope; the zero one is the start, and
// as a next place the end. Only the engine that gave it can read it.
type ScopeCursor struct {
	Part      int // which subject or class
	CreatedAt time.Time
	N         int64
	Position
}

// ScopeRow is a row as an erasure of a scope meets it.
type ScopeRow struct {
	DueRow
	// Erased: it, or its execution, was erased before, and its object may not be
	// known to be gone yet.
	Erased bool
	// Shared: it is tagged with a subject that the scope does not name. Told for the
	// form ScopeSubjects only.
	Shared bool
}

// Coverage says how much of what is live a search by subject can find.
type Coverage struct {
	Blobs  int64 // live rows of the tenant
	Tagged int64 // among them, with a subject
}
