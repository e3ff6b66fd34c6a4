package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/api/wire"
)

// scopeFlags say what an erasure, a hold or a restriction covers, in one form.
type scopeFlags struct {
	Execution      string   `arg:"" optional:"" help:"Execution id; it need not have been seen."`
	Ref            []string `help:"Only these refs of the execution." placeholder:"REF"`
	SubjectsFile   string   `help:"What is tagged with any of these people: a file with one identifier per line; - is stdin." type:"path" placeholder:"FILE"`
	Class          string   `help:"What is of this class, up to --captured-before." placeholder:"CLASS"`
	CapturedBefore string   `help:"With --class: what was captured before this time, RFC 3339 or a date." placeholder:"TIME"`
	WholeTenant    bool     `help:"Everything of the tenant."`
}

var errOneScope = fmt.Errorf("name one scope: an execution, --subjects-file, --class or --whole-tenant: %w", blobd.ErrInvalid)

// named reports whether the flags name a scope at all.
func (s scopeFlags) named() bool {
	return s.Execution != "" || len(s.Ref) > 0 || s.SubjectsFile != "" || s.Class != "" || s.CapturedBefore != "" || s.WholeTenant
}

// scope makes the scope that the flags name.
func (s scopeFlags) scope(a *app) (*wire.Scope, error) {
	forms := 0
	for _, used := range []bool{s.Execution != "" || len(s.Ref) > 0, s.SubjectsFile != "", s.Class != "" || s.CapturedBefore != "", s.WholeTenant} {
		if used {
			forms++
		}
	}
	if forms != 1 || len(s.Ref) > 0 && s.Execution == "" || s.CapturedBefore != "" && s.Class == "" {
		return nil, errOneScope
	}
	switch {
	case s.Execution != "":
		return &wire.Scope{ExecutionID: &s.Execution, Refs: s.Ref}, nil
	case s.SubjectsFile != "":
		return a.subjectScope(s.SubjectsFile)
	case s.WholeTenant:
		return &wire.Scope{Tenant: &s.WholeTenant}, nil
	}
	scope := &wire.Scope{Class: &s.Class}
	if s.CapturedBefore != "" {
		before, err := parseTime(s.CapturedBefore)
		if err != nil {
			return nil, fmt.Errorf("--captured-before: %w", err)
		}
		scope.CapturedBefore = &before
	}
	return scope, nil
}

// subjectScope reads people's identifiers from a file: a command line is kept in
// histories and shown to every process.
func (a *app) subjectScope(path string) (*wire.Scope, error) {
	b, err := a.input(path)
	if err != nil {
		return nil, err
	}
	scope := new(wire.Scope)
	for line := range strings.Lines(string(b)) {
		if s := strings.TrimRight(line, "\r\n"); s != "" {
			scope.Subjects = append(scope.Subjects, s)
		}
	}
	if len(scope.Subjects) == 0 {
		return nil, fmt.Errorf("the file of subjects is empty: %w", blobd.ErrInvalid)
	}
	return scope, nil
}

// parseTime reads an RFC 3339 time, or a date, which is its midnight in UTC.
func parseTime(s string) (time.Time, error) {
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("want an RFC 3339 time, or a date: %w", blobd.ErrInvalid)
}

// optionalTime is parseTime for a flag that may be absent.
func optionalTime(flag, s string) (*time.Time, error) {
	if s == "" {
		return nil, nil
	}
	t, err := parseTime(s)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	return &t, nil
}

// coveredText is a scope in one line.
func coveredText(c wire.Covered) string {
	switch c.Form {
	case "execution":
		return "execution " + idText(c.ExecutionID)
	case "refs":
		if len(c.Refs) == 0 {
			return "refs of execution " + idText(c.ExecutionID)
		}
		return fmt.Sprintf("%d refs of execution %s", len(c.Refs), idText(c.ExecutionID))
	case "subjects":
		return fmt.Sprintf("%d subjects (%s)", c.Subjects, strings.Join(c.SubjectTags, ", "))
	case "class":
		text := "class " + idText(c.Class)
		if c.CapturedBefore != nil {
			text += " captured before " + c.CapturedBefore.Format(time.RFC3339)
		}
		return text
	}
	return "the whole tenant"
}

func idText(id *string) string {
	if id == nil {
		return "(not known)"
	}
	return plain(*id)
}
