package api

import (
	"net/url"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/store"
)

// clockSkew is how far a caller's clock may be ahead of ours.
const clockSkew = time.Minute

// eraseRequest checks an erasure: first that it is well-formed (400), then that
// this version has what it asks for (501).
func (c *call) eraseRequest(q *wire.EraseRequest) (store.EraseRequest, error) {
	r := store.EraseRequest{
		Tenant: c.who.tenant, Actor: c.who.token, Reason: q.Reason, LegalBasis: q.LegalBasis,
		Regime: q.Regime, ExternalRef: q.ExternalRef,
	}
	if err := c.checkErasure(q); err != nil {
		return r, err
	}
	missing, err := readScope(q.Scope, &r)
	if err != nil {
		return r, err
	}
	if q.ReceivedAt != nil {
		r.ReceivedAt = q.ReceivedAt.UTC()
	}
	if q.DueAt != nil {
		r.DueAt = q.DueAt.UTC()
	}
	switch {
	case missing != "":
		return r, errNotYet(missing)
	case q.GraceSeconds != nil && *q.GraceSeconds > 0:
		return r, errNotYet("graceSeconds")
	case q.Callback != nil:
		return r, errNotYet("callback")
	}
	return r, nil
}

func errNotYet(field string) error {
	return refuse(wire.CodeNotImplemented, "this version does not have the field %s yet; nothing was done", field)
}

// checkErasure checks everything but the scope.
func (c *call) checkErasure(q *wire.EraseRequest) error {
	for _, f := range []struct{ name, value string }{
		{"reason", q.Reason}, {"legalBasis", q.LegalBasis}, {"externalRef", q.ExternalRef},
	} {
		if len(f.value) > wire.MaxReason || !utf8.ValidString(f.value) {
			return refuse(wire.CodeInvalid, "%s: want at most %d bytes", f.name, wire.MaxReason)
		}
	}
	if q.Reason == "" {
		return refuse(wire.CodeInvalid, "reason: must not be empty")
	}
	if q.Regime != "" && !slices.Contains(wire.Regimes(), q.Regime) {
		return refuse(wire.CodeInvalid, "regime: want one of %v", wire.Regimes())
	}
	if q.GraceSeconds != nil && *q.GraceSeconds < 0 {
		return refuse(wire.CodeInvalid, "graceSeconds: want 0 or more")
	}
	if q.Callback != nil && !isWebURL(*q.Callback) {
		return refuse(wire.CodeInvalid, "callback: want an absolute http or https URL")
	}
	return checkClock(c.rt.api.Now(), q)
}

// checkClock judges the times of an erasure by the server's clock.
func checkClock(now time.Time, q *wire.EraseRequest) error {
	received := now
	if q.ReceivedAt != nil {
		received = *q.ReceivedAt
	}
	switch {
	case received.After(now.Add(clockSkew)):
		return refuse(wire.CodeInvalid, "receivedAt: is in the future")
	case received.Year() < 1970:
		return refuse(wire.CodeInvalid, "receivedAt: is before 1970")
	case q.DueAt != nil && q.DueAt.Before(received):
		return refuse(wire.CodeInvalid, "dueAt: is before receivedAt")
	}
	return nil
}

func isWebURL(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil && len(s) <= 2048
}

// readScope reads the one form that a scope has. missing names the field of a
// well-formed scope that this version does not serve.
func readScope(s *wire.Scope, r *store.EraseRequest) (missing string, err error) {
	if s == nil {
		return "", refuse(wire.CodeInvalid, "scope: is missing")
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
		return "", refuse(wire.CodeInvalid,
			"scope: want executionId, or refs with executionId, or subjects, or class with capturedBefore, or tenant")
	}
	switch {
	case bySubjects:
		if len(s.Subjects) == 0 {
			return "", refuse(wire.CodeInvalid, "scope.subjects: must not be empty")
		}
		return "scope.subjects", checkSubjects(s.Subjects)
	case byClass:
		if s.Class == nil || s.CapturedBefore == nil {
			return "", refuse(wire.CodeInvalid, "scope: want class and capturedBefore together")
		}
		return "scope.class", invalid(blobd.CheckClass(*s.Class))
	case byTenant:
		if !*s.Tenant {
			return "", refuse(wire.CodeInvalid, "scope.tenant: want true")
		}
		r.WholeTenant = true
		return "", nil
	case !byExecution:
		return "", refuse(wire.CodeInvalid, "scope.refs: want executionId with them")
	}
	return "", readExecutionScope(s, r)
}

func readExecutionScope(s *wire.Scope, r *store.EraseRequest) error {
	r.ExecutionID = *s.ExecutionID
	if err := blobd.CheckExecutionID(r.ExecutionID); err != nil {
		return invalid(err)
	}
	if s.Refs == nil {
		return nil
	}
	if len(s.Refs) == 0 {
		// An empty list must not mean the whole execution.
		return refuse(wire.CodeInvalid, "scope.refs: must not be empty")
	}
	seen := make(map[blobd.Ref]bool, len(s.Refs))
	for i, text := range s.Refs {
		ref, err := blobd.ParseRef(text)
		if err != nil {
			return refuse(wire.CodeInvalid, "scope.refs[%d]: %v", i, err)
		}
		if !seen[ref] {
			seen[ref] = true
			r.Refs = append(r.Refs, ref)
		}
	}
	if len(r.Refs) > wire.MaxEraseRefs {
		return refuse(wire.CodeTooLarge, "scope.refs: more than %d", wire.MaxEraseRefs)
	}
	return nil
}
