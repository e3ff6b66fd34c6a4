package webhooks

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/blobd/blobd/evidence"
	"github.com/blobd/blobd/ledger"
)

// CloudEvent is the body of a delivery: a CloudEvent of version 1.0 in JSON. It
// holds no text, no digest of one, no subject, no execution and nothing that a
// person wrote.
type CloudEvent struct {
	SpecVersion     string    `json:"specversion"` // 1.0
	ID              string    `json:"id"`          // the same for the same event, in every try and for every webhook
	Source          string    `json:"source"`      // /blobd/DEPLOYMENT/TENANT
	Type            string    `json:"type"`        // one of ledger.EventTypes
	Subject         string    `json:"subject"`     // id of the erasure, the order or the sweep
	Time            time.Time `json:"time"`        // of the act
	DataContentType string    `json:"datacontenttype"`
	Data            Data      `json:"data"`
}

// Data says what became of what the event is about.
type Data struct {
	Erasure     string `json:"erasure,omitempty"`
	Hold        string `json:"hold,omitempty"`
	Restriction string `json:"restriction,omitempty"`
	Sweep       string `json:"sweep,omitempty"`
	State       string `json:"state"`
	Scope       string `json:"scope,omitempty"` // execution, refs, subjects, class or tenant
	Code        string `json:"code,omitempty"`  // of a denial: why, of a closed list
	// Counts has the figures of the act as the evidence log has them, by their names
	// there.
	Counts map[string]int64 `json:"counts,omitempty"`
	// LogIndex is the place of the act in the evidence log: events of one tenant
	// happened in the order of theirs.
	LogIndex int64 `json:"logIndex"`
}

// states of data that are no state of an erasure or a sweep.
const (
	statePlaced = "placed"
	stateLifted = "lifted"
)

// reader turns entries of the log into events.
type reader struct {
	log        Log
	deployment string
}

// Log is what is asked of the evidence log.
type Log interface {
	Logged(ctx context.Context, q ledger.LogQuery) ([]ledger.LoggedEntry, error)
}

// events returns the events of entries, in their order: none or one of each.
func (r reader) events(ctx context.Context, entries []ledger.LoggedEntry) ([]ledger.Event, error) {
	var all []ledger.Event
	for i := range entries {
		e := &entries[i]
		what, data, err := r.read(ctx, e)
		if err != nil {
			return nil, err
		}
		if what == "" || e.Tenant == "" {
			continue
		}
		event, err := r.event(e, what, data)
		if err != nil {
			return nil, err
		}
		all = append(all, event)
	}
	return all, nil
}

// read says what an entry tells webhooks, "" for nothing. What it cannot read is
// nothing too: one entry never keeps the others back.
func (r reader) read(ctx context.Context, e *ledger.LoggedEntry) (what string, d Data, err error) {
	switch e.Kind {
	case ledger.EntryErasure:
		var step evidence.ErasureStep
		if json.Unmarshal(e.Body, &step) != nil || step.Erasure == "" {
			return "", d, nil
		}
		return r.erasure(ctx, e, &step)
	case ledger.EntryOrder:
		var step evidence.OrderStep
		if json.Unmarshal(e.Body, &step) != nil || step.Order == "" {
			return "", d, nil
		}
		what, d = order(&step)
	case ledger.EntrySweep:
		var step evidence.SweepStep
		if json.Unmarshal(e.Body, &step) != nil || step.Sweep == "" {
			return "", d, nil
		}
		what, d = sweep(&step)
	}
	return what, d, nil
}

func (r reader) erasure(ctx context.Context, e *ledger.LoggedEntry, step *evidence.ErasureStep) (what string, d Data, err error) {
	d = Data{Erasure: step.Erasure, Scope: step.Form, Code: step.Code}
	switch step.Step {
	case evidence.StepRequested, evidence.StepClosed, evidence.StepFenced:
		d.State = began(step)
		what, err = r.beginning(ctx, e, step)
		return what, d, err
	case evidence.StepDenied:
		what, d.State = ledger.EventErasureDenied, string(ledger.ErasureDenied)
	case evidence.StepCancelled:
		what, d.State = ledger.EventErasureCancelled, string(ledger.ErasureCancelled)
	case evidence.StepDeferred:
		what, d.State = ledger.EventErasureDeferred, string(ledger.ErasureDeferred)
		if step.KeysDestroyed > 0 {
			what, d.State = ledger.EventErasurePartial, string(ledger.ErasurePartial)
		}
	case evidence.StepErased:
		what, d.State = ledger.EventErasureErased, string(ledger.ErasureErased)
	}
	d.Counts = map[string]int64{
		"keysDestroyed": step.KeysDestroyed, "objectsDeleted": step.ObjectsDeleted, "versionsDeleted": step.VersionsDeleted,
		"held": step.Held, "floor": step.Floor, "failed": step.Failed,
	}
	return what, d, nil
}

// began is the state of an erasure at a step with which it may begin.
func began(step *evidence.ErasureStep) string {
	switch {
	case step.Step == evidence.StepRequested:
		return string(ledger.ErasureAwaiting)
	case step.Step == evidence.StepClosed && step.Until != nil:
		return string(ledger.ErasureGrace)
	}
	return string(ledger.ErasureRunning)
}

// beginning tells the first step of an erasure, and the one that its last approval
// made: the first that closes or fences of one that had waited.
func (r reader) beginning(ctx context.Context, e *ledger.LoggedEntry, step *evidence.ErasureStep) (string, error) {
	steps, err := r.log.Logged(ctx, ledger.LogQuery{Object: step.Erasure})
	if err != nil {
		return "", err
	}
	first := true
	for i := range steps {
		var s evidence.ErasureStep
		if steps[i].Index >= e.Index || steps[i].Tenant != e.Tenant || json.Unmarshal(steps[i].Body, &s) != nil {
			continue
		}
		first = false
		if s.Step == evidence.StepClosed || s.Step == evidence.StepFenced {
			return "", nil
		}
	}
	switch {
	case first:
		return ledger.EventErasureRequested, nil
	case step.Step == evidence.StepRequested: // asked for again, with another plan
		return "", nil
	}
	return ledger.EventErasureApproved, nil
}

func order(step *evidence.OrderStep) (what string, d Data) {
	placed := step.Act == evidence.ActPlaced
	if !placed && step.Act != evidence.ActLifted {
		return "", d
	}
	d = Data{State: stateLifted, Scope: step.Form}
	if placed {
		d.State = statePlaced
	}
	switch step.Kind {
	case ledger.OrderHold.String():
		d.Hold = step.Order
		if placed {
			return ledger.EventHoldPlaced, d
		}
		return ledger.EventHoldReleased, d
	case ledger.OrderRestriction.String():
		d.Restriction = step.Order
		if placed {
			return ledger.EventRestrictionPlaced, d
		}
		return ledger.EventRestrictionLifted, d
	}
	return "", d
}

func sweep(step *evidence.SweepStep) (what string, d Data) {
	switch step.Step {
	case evidence.StepSweepDone:
		d.State = string(ledger.SweepDone)
	case evidence.StepSweepStopped:
		d.State = string(ledger.SweepStopped)
	default:
		return "", d
	}
	d.Sweep = step.Sweep
	d.Counts = map[string]int64{
		"due": step.Due, "held": step.Held, "floor": step.Floor, "review": step.Review, "erased": step.Erased, "failed": step.Failed,
	}
	return ledger.EventSweepFinished, d
}

// event makes the event of an entry.
func (r reader) event(e *ledger.LoggedEntry, what string, d Data) (ledger.Event, error) {
	d.LogIndex = e.Index
	body := CloudEvent{
		SpecVersion: "1.0", ID: r.id(e, what), Source: "/blobd/" + r.deployment + "/" + e.Tenant, Type: what,
		Subject: strings.Join([]string{d.Erasure, d.Hold, d.Restriction, d.Sweep}, ""), // one of them is set
		Time:    e.At.UTC(), DataContentType: "application/json", Data: d,
	}
	b, err := json.Marshal(body)
	if err != nil {
		return ledger.Event{}, fmt.Errorf("event %s: %w", what, err)
	}
	return ledger.Event{Tenant: e.Tenant, ID: body.ID, Type: what, Subject: body.Subject, Body: b}, nil
}

// id names an event by its entry's place and hash in the log, which never change.
func (r reader) id(e *ledger.LoggedEntry, what string) string {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "blobd/v1/event\n%s\n%s\n%d\n", r.deployment, what, e.Index)
	if len(e.Hashes) > 0 {
		_, _ = h.Write(e.Hashes[0][:])
	}
	return "evt_" + hex.EncodeToString(h.Sum(nil)[:16])
}
