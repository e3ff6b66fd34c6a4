package evidence

import (
	"fmt"
	"io"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// PolicyStep is a change of a class policy. Periods are ISO 8601.
type PolicyStep struct {
	Act        string `json:"act"` // set or removed
	Class      string `json:"class"`
	Actor      string `json:"actor"`
	Existing   bool   `json:"existing"`
	StartEvent string `json:"startEvent,omitempty"`
	Period     string `json:"period,omitempty"`
	Floor      string `json:"floor,omitempty"`
	LegalBasis string `json:"legalBasisCommitment,omitempty"`
	Slack      string `json:"slack,omitempty"`
	OnExpiry   string `json:"onExpiry,omitempty"`
	// Due is how many blobs of the class the simulation before the change found
	// past their maximum under it, DueBefore how many were under what stood.
	Due       int64 `json:"due"`
	DueBefore int64 `json:"dueBefore"`
}

// Policy is the entry of a change of a policy. The legal basis is what a person
// wrote: the body holds a commitment to it.
func (s Scribe) Policy(p ledger.Policy, before, after ledger.Tally) (ledger.Entry, error) {
	body := PolicyStep{
		Act: "removed", Class: p.Class, Actor: s.actor(p.By), Existing: p.Existing, Due: after.Due(), DueBefore: before.Due(),
	}
	if !p.Removed {
		body.Act, body.StartEvent, body.OnExpiry = "set", p.Start.String(), p.OnExpiry.String()
		body.Period, body.Floor, body.Slack = p.Maximum.String(), p.Floor.String(), p.Slack.String()
	}
	if p.LegalBasis == "" {
		return s.entry(ledger.EntryPolicy, p.At, body)
	}
	salt := make([]byte, saltSize)
	if _, err := io.ReadFull(s.Random, salt); err != nil {
		return ledger.Entry{}, fmt.Errorf("evidence: salt: %w", err)
	}
	body.LegalBasis = Commitment(salt, p.LegalBasis)
	e, err := s.entry(ledger.EntryPolicy, p.At, body)
	e.FreeText, e.Salt = p.LegalBasis, salt
	return e, err
}

// End is the entry of the end of an execution.
func (s Scribe) End(at time.Time, execution blobd.ExecutionTag, actor string) (ledger.Entry, error) {
	return s.entry(ledger.EntryEnd, at, struct {
		Execution string `json:"execution"`
		Actor     string `json:"actor"`
	}{execution.String(), s.actor(actor)})
}

// The steps of a sweep, in order. There is one entry of StepSweepExpired for each
// batch.
const (
	StepSweepStarted = "started"
	StepSweepPlanned = "planned" // what is due was counted
	StepSweepExpired = "expired" // the keys of a batch were dropped
	StepSweepDone    = "done"    // objects read back as absent, but for those that failed
	StepSweepStopped = "stopped" // the breaker: nothing was deleted
)

// SweepStep is one step of a sweep.
type SweepStep struct {
	Step    string `json:"step"`
	Sweep   string `json:"sweep"`
	Trigger string `json:"trigger,omitempty"`
	Actor   string `json:"actor,omitempty"`
	// The plan's figures, of StepSweepPlanned and the steps that end a sweep.
	Due    int64 `json:"due,omitempty"`
	Held   int64 `json:"held,omitempty"`
	Floor  int64 `json:"floor,omitempty"`
	Review int64 `json:"review,omitempty"`
	Erased int64 `json:"erased,omitempty"` // objects read back as absent
	Failed int64 `json:"failed,omitempty"` // keys dropped, objects still there
	// Executions has the refs of a batch, by execution.
	Executions []SweptExecution `json:"executions,omitempty"`
}

// SweptExecution is what a batch expired of one execution.
type SweptExecution struct {
	Execution string   `json:"execution"`
	Refs      []string `json:"refs"`
}

// SweepStarted is the entry of a sweep's start. It is made before the ledger knows
// the sweep.
func (s Scribe) SweepStarted(at time.Time, id, trigger, actor string) (ledger.Entry, error) {
	return s.entry(ledger.EntrySweep, at, SweepStep{Step: StepSweepStarted, Sweep: id, Trigger: trigger, Actor: s.actor(actor)})
}

// Sweep is the entry of a step of a sweep as it stands.
func (s Scribe) Sweep(at time.Time, step string, w ledger.Sweep) (ledger.Entry, error) {
	return s.entry(ledger.EntrySweep, at, SweepStep{
		Step: step, Sweep: w.ID, Due: w.Plan.Due(), Held: w.Plan.Held, Floor: w.Plan.Floor, Review: w.Plan.Review,
		Erased: w.Erased, Failed: w.Failed,
	})
}

// SweepBatch is the entry of one batch of a sweep.
func (s Scribe) SweepBatch(at time.Time, id string, rows []ledger.DueRow) (ledger.Entry, error) {
	return s.entry(ledger.EntrySweep, at, SweepStep{Step: StepSweepExpired, Sweep: id, Executions: byExecution(rows)})
}
