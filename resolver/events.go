package resolver

import (
	"context"
	"errors"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// fromEvents joins the caller's log to our rows.
func (s *reading) fromEvents(ctx context.Context) error {
	highest := make(map[string]int64)
	for _, e := range s.q.Events {
		highest[e.StepID] = max(highest[e.StepID], e.Attempt)
	}
	steps := make(map[string]map[blobd.Ref]bool)
	for _, e := range s.q.Events {
		if !s.selects(e.StepID) {
			continue
		}
		for i, p := range e.Parts {
			if err := s.addEvent(ctx, steps, e, i, p); err != nil {
				return err
			}
		}
	}
	s.markSuperseded(highest)
	return nil
}

func (s *reading) addEvent(ctx context.Context, steps map[string]map[blobd.Ref]bool, e Event, index int, p EventPart) error {
	out := ReadPart{
		StepID: e.StepID, Attempt: e.Attempt, Index: index, Kind: p.Kind, Provider: e.Provider, Model: e.Model,
		Ref: p.Ref, Digest: p.Digest, Size: p.Size, Status: StatusRedacted,
	}
	switch {
	case p.Kind == blobd.KindRedacted && p.Ref == nil:
		s.add(out, nil)
		return nil
	case p.Ref == nil: // nothing was kept of it
		return nil
	case len(s.answer.Parts) >= s.limit():
		s.answer.Truncated = true
		return nil
	}
	view, err := s.lookup(ctx, s.tag, []blobd.Ref{*p.Ref})
	if err != nil {
		return err
	}
	view = fenced(s.tenant, view)
	row := view.Blobs[0]
	if out.Status, err = s.status(ctx, view, row); err != nil {
		return err
	}
	if out.Status != StatusOK {
		s.add(out, nil)
		return nil
	}
	if s.view.Execution == nil {
		s.view = view // the execution was made after the first look
	}
	agrees, err := s.agrees(ctx, steps, e, p, row)
	switch {
	case errors.Is(err, blobd.ErrMissing):
		out.Status, row = StatusMissing, nil
	case errors.Is(err, blobd.ErrCorrupt):
		out.Status, row = StatusMismatch, nil
	case err != nil:
		return err
	case !agrees:
		out.Status, row = StatusMismatch, nil
	default:
		out.Size = &row.Size
	}
	s.add(out, row)
	return nil
}

// agrees reports whether the caller's log and our row say the same of a blob:
// kind, size, step, and the digest through the repeat tag.
func (s *reading) agrees(ctx context.Context, steps map[string]map[blobd.Ref]bool, e Event, p EventPart, row *ledger.Blob) (bool, error) {
	if p.Kind != row.Kind || p.Size != nil && *p.Size != row.Size {
		return false, nil
	}
	refs, known := steps[e.StepID]
	if !known {
		var err error
		if refs, err = s.refsOf(ctx, e.StepID); err != nil {
			return false, err
		}
		steps[e.StepID] = refs
	}
	if !refs[row.Ref] {
		return false, nil
	}
	if p.Digest == nil {
		return true, nil
	}
	same, err := s.store.MatchesDigest(ctx, s.tenant, *s.view.Execution, row, *p.Digest)
	return same, err
}

// refsOf returns the refs that our records name under a step.
func (s *reading) refsOf(ctx context.Context, step string) (map[blobd.Ref]bool, error) {
	refs := make(map[blobd.Ref]bool)
	for after := int64(0); ; {
		page, err := s.ledger.Records(ctx, ledger.RecordQuery{Tag: s.tag, StepID: step, After: after, Limit: recordPage})
		if err != nil {
			return nil, err
		}
		for _, p := range page {
			after = p.Seq
			if p.StepID == step { // an empty StepID selects every step
				refs[p.Ref] = true
			}
		}
		if len(page) < recordPage {
			return refs, nil
		}
	}
}
