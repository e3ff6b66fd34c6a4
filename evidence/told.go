package evidence

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// lastStep is the step that a certificate of an erasure in a state is about; "": there
// is none.
func lastStep(s ledger.ErasureState) string {
	switch s {
	case ledger.ErasureErased:
		return StepErased
	case ledger.ErasureDeferred:
		return StepDeferred
	case ledger.ErasureDenied:
		return StepDenied
	}
	return ""
}

// outcome is what a last step came to.
func outcome(last ErasureStep) string {
	switch {
	case last.Step == StepErased:
		return OutcomeErased
	case last.Step == StepDenied:
		return OutcomeDenied
	case last.KeysDestroyed > 0:
		return OutcomePartial
	}
	return OutcomeDeferred
}

// told is what the log says of an erasure.
type told struct {
	last        ledger.LoggedEntry
	step        ErasureStep // last's
	requestedBy string
	approvedBy  []string
	closedAt    time.Time // zero: it fenced at once, or not yet
	fencedAt    time.Time
	// What was protected once, at most, and since when.
	held, floor protection
}

type protection struct {
	count int64
	from  time.Time
}

func (p *protection) see(count int64, at time.Time) {
	if count > 0 && p.count == 0 {
		p.from = at
	}
	p.count = max(p.count, count)
}

// told reads the log. After a rollback an erasure may have run again: the last time
// counts.
func (c Certifier) told(ctx context.Context, e ledger.Erasure, last string) (told, error) {
	t := told{approvedBy: []string{}}
	es, err := c.Log.ledger.Logged(ctx, ledger.LogQuery{Object: e.ID})
	if err != nil {
		return t, fmt.Errorf("certificate: %w", err)
	}
	found := false
	for _, entry := range es {
		var step ErasureStep
		if entry.Kind != ledger.EntryErasure || entry.Tenant != e.Scope.Tenant || json.Unmarshal(entry.Body, &step) != nil {
			continue
		}
		t.hear(entry, step)
		if step.Step == last {
			t.last, t.step, found = entry, step, true
		}
	}
	if !found {
		return t, fmt.Errorf("certificate: the log does not have the erasure yet: %w", blobd.ErrConflict)
	}
	return t, nil
}

func (t *told) hear(entry ledger.LoggedEntry, step ErasureStep) {
	switch step.Step {
	case StepRequested: // what was approved before was another plan
		t.requestedBy, t.approvedBy = step.Actor, []string{}
	case StepApproved:
		t.approvedBy = append(t.approvedBy, step.Actor)
	case StepClosed:
		t.closedAt = entry.At
		t.ask(step)
		t.held.see(step.Held, entry.At)
		t.floor.see(step.Floor, entry.At)
	case StepFenced:
		t.fencedAt = entry.At
		t.ask(step)
	case StepDeferred:
		t.held.see(step.Held, entry.At)
		t.floor.see(step.Floor, entry.At)
	}
}

// ask takes the actor of the step that began it. What follows by itself is nobody's.
func (t *told) ask(step ErasureStep) {
	if t.requestedBy == "" || step.Actor != (Scribe{}).actor("") {
		t.requestedBy = step.Actor
	}
}

// nullSince is from when on every read in scope was null. Of what was replayed from
// the journal the row tells it.
func (t *told) nullSince(e ledger.Erasure) time.Time {
	switch {
	case !t.closedAt.IsZero():
		return t.closedAt
	case !t.fencedAt.IsZero():
		return t.fencedAt
	}
	return e.FencedAt
}

// exceptions are what is not simply erased by this erasure, by code.
func (t *told) exceptions(e ledger.Erasure) (all []Exception) {
	found := e.Found()
	add := func(code string, count int64, from, until time.Time) {
		if count > 0 {
			all = append(all, Exception{code, count, dated(from), dated(until)})
		}
	}
	never := time.Time{}
	if t.step.Step == StepDenied {
		all = append(all, Exception{Code: cmp.Or(t.step.Code, CodeDenied), From: dated(t.last.At)})
	}
	add(CodeAlreadyErased, found.AlreadyErased, never, never)
	add(CodeNoMatch, found.NotFound, never, never)
	switch outcome(t.step) {
	case OutcomeErased: // what was protected once went in the end
		add(CodeLegalHold, t.held.count, t.held.from, t.last.At)
		add(CodeLegalFloor, t.floor.count, t.floor.from, t.last.At)
	case OutcomePartial, OutcomeDeferred:
		add(CodeLegalHold, t.step.Held, t.held.from, never)
		add(CodeLegalFloor, t.step.Floor, t.floor.from, never)
	}
	add(CodeSharedSubject, e.Plan.Shared, never, never)
	add(CodeStoreRefused, t.step.Failed, never, never)
	return all
}
