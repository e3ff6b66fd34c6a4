package api

import (
	"crypto/sha256"
	"fmt"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/store"
)

// erasureOf is an erasure in the contract's words. refs are those of an erasure
// of refs, as far as they are told.
func erasureOf(e ledger.Erasure, refs []blobd.Ref) *wire.Erasure {
	e = asTold(e)
	out := &wire.Erasure{
		ID: e.ID, State: string(e.Stands()), Scope: coveredBy(&e), Plan: planOf(e.Plan, planDigest(&e)), Delta: deltaOf(&e),
		Progress: wire.Progress{
			KeysDestroyed: e.Progress.KeysDestroyed, ObjectsDeleted: e.Progress.ObjectsDeleted,
			VersionsDeleted: e.Progress.VersionsDeleted, Failed: e.Progress.Failed, Remaining: e.Progress.Remaining,
		},
		Outcomes: outcomesOf(&e), RequestedBy: e.RequestedBy, Approvals: e.Approvals, ApprovedBy: e.ApprovedBy,
		DecidedBy: textOrNull(e.DecidedBy), DecidedAt: timeOrNull(e.DecidedAt), Code: textOrNull(e.Code), Regime: textOrNull(e.Regime),
		ExternalRef: textOrNull(e.ExternalRef), RequestedAt: e.FencedAt.UTC(), ReceivedAt: timeOrNull(e.ReceivedAt),
		DueAt: timeOrNull(e.DueAt), GraceUntil: timeOrNull(e.GraceUntil), ErasedAt: timeOrNull(e.ErasedAt),
		Items: itemsOf(&e, refs),
	}
	if out.ApprovedBy == nil {
		out.ApprovedBy = []string{}
	}
	if !e.State.Ended() { // nothing is proved absent before the end
		out.Progress.Remaining = max(out.Progress.Remaining, inScope(&e)-doneOf(&e))
		if e.Scope.WholeTenant { // the plan may not be counted yet
			out.Progress.Remaining = max(out.Progress.Remaining, 1)
		}
	}
	return out
}

// deltaOf is what an erasure took beyond its plan; nil: it is not known.
func deltaOf(e *ledger.Erasure) *wire.Delta {
	d, known := e.Delta()
	if !known {
		return nil
	}
	return &wire.Delta{Executions: d.Executions, Blobs: d.Blobs, Bytes: d.Bytes}
}

// inScope counts the blobs in an erasure's scope: those that were planned, until a fence
// has counted them. That of a whole tenant takes its time.
func inScope(e *ledger.Erasure) int64 {
	n := e.Fenced.Blobs + e.Dropped
	if e.Closing || e.Scope.WholeTenant && !e.State.Ended() {
		return max(n, e.Plan.Blobs)
	}
	return n
}

// asTold is an erasure as people are told it: see store.Waiting.
func asTold(e ledger.Erasure) ledger.Erasure {
	if store.Waiting(&e) {
		e.State = ledger.ErasureDeferred
	}
	return e
}

// doneOf counts the blobs of which both halves are done: a deferred erasure read
// back as absent all that it dropped, and so did one that was denied or cancelled
// after that.
func doneOf(e *ledger.Erasure) int64 {
	switch e.State {
	case ledger.ErasureErased:
		return e.Progress.KeysDestroyed
	case ledger.ErasureDeferred, ledger.ErasureDenied, ledger.ErasureCancelled:
		return e.Dropped
	}
	return 0
}

// coveredBy is the scope of an erasure; its refs are its items.
func coveredBy(e *ledger.Erasure) wire.Covered {
	out := covered(&e.Scope)
	if e.OfRefs {
		out.Form, out.Refs = formWord(ledger.ScopeRefs), nil
	}
	return out
}

// planDigest is the digest of the plan that was previewed. An erasure without one
// has a digest of its scope and counts.
func planDigest(e *ledger.Erasure) [32]byte {
	if e.PlanDigest != ([32]byte{}) {
		return e.PlanDigest
	}
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "blobd/v1/plan\n%s\n%t\n%d\n%d\n%d\n%d\n%d\n",
		e.Scope.Tag, e.OfRefs, e.Plan.Executions, e.Plan.Blobs, e.Plan.Bytes, e.Plan.AlreadyErased, e.Plan.NotFound)
	return [32]byte(h.Sum(nil))
}

// outcomesOf counts what became of the blobs in scope so far.
func outcomesOf(e *ledger.Erasure) map[wire.Outcome]int64 {
	out := make(map[wire.Outcome]int64)
	held, floor := keptBy(e)
	found := e.Found()
	for outcome, n := range map[wire.Outcome]int64{
		wire.OutcomeErased: doneOf(e), wire.OutcomeAlreadyErased: found.AlreadyErased, wire.OutcomeNoMatch: found.NotFound,
		wire.OutcomeLegalHold: held, wire.OutcomeLegalFloor: floor,
		wire.OutcomeShared: sharedBy(e), wire.OutcomeStoreRefused: e.Progress.Failed,
	} {
		if n > 0 {
			out[outcome] = n
		}
	}
	return out
}

// keptBy counts what is protected: what the last pass left, or, where everything
// was found protected when it was asked for, what was found then.
func keptBy(e *ledger.Erasure) (held, floor int64) {
	if e.State == ledger.ErasureDeferred && e.Progress.Held+e.Progress.Floor == 0 {
		return e.Plan.Held, e.Plan.Floor
	}
	return e.Progress.Held, e.Progress.Floor
}

// keptBasis says what keeps most gravely: a hold, a floor, or the store.
func keptBasis(e *ledger.Erasure) wire.Outcome {
	held, floor := keptBy(e)
	switch {
	case held > 0:
		return wire.OutcomeLegalHold
	case floor > 0:
		return wire.OutcomeLegalFloor
	case e.Progress.Failed > 0:
		return wire.OutcomeStoreRefused
	}
	return ""
}

// itemsOf tells the scope, or its refs, and then what stays of it.
func itemsOf(e *ledger.Erasure, refs []blobd.Ref) []wire.ErasureItem {
	whole := wire.ErasureItem{State: string(e.Stands()), Tenant: e.Scope.WholeTenant, Outcome: endOf(e)}
	if e.Scope.ExecutionID != "" {
		whole.ExecutionID = &e.Scope.ExecutionID
	}
	var items []wire.ErasureItem
	if !e.OfRefs || len(refs) == 0 {
		items = append(items, whole)
	}
	kept := make(map[blobd.Ref]bool, len(e.Progress.Kept))
	for _, k := range e.Progress.Kept {
		kept[k.Ref] = true
	}
	for _, ref := range refs {
		if kept[ref] {
			continue // told below, with the reason
		}
		item := whole
		item.Ref = ref.String()
		items = append(items, item)
	}
	for _, k := range e.Progress.Kept {
		items = append(items, wire.ErasureItem{
			ExecutionID: textOrNull(k.ExecutionID), Ref: k.Ref.String(), State: string(ledger.ErasureDeferred),
			Outcome: keptOutcome(k), Until: timeOrNull(k.Until),
		})
	}
	for _, r := range e.Progress.Refused {
		items = append(items, refusedItem(whole.ExecutionID, r))
	}
	return append(items, countedItems(e, len(refs))...)
}

// countedItems tells outcomes of blobs that are not told one by one: of refs, which
// of them were erased before is not known, and one that names nothing is no blob.
func countedItems(e *ledger.Erasure, refs int) (items []wire.ErasureItem) {
	add := func(outcome wire.Outcome, n int64) {
		if n > 0 {
			items = append(items, wire.ErasureItem{State: string(e.Stands()), Outcome: outcome, Count: n})
		}
	}
	add(wire.OutcomeShared, sharedBy(e))
	if found := e.Found(); e.State == ledger.ErasureErased && refs > 0 {
		if found.AlreadyErased < int64(refs) {
			add(wire.OutcomeAlreadyErased, found.AlreadyErased)
		}
		add(wire.OutcomeNoMatch, found.NotFound)
	}
	return items
}

// sharedBy counts the blobs that went although they named another subject too.
func sharedBy(e *ledger.Erasure) int64 { return min(e.Plan.Shared, doneOf(e)) }

// endOf is the outcome of the scope as a whole, "" while it is open or was erased in
// part.
func endOf(e *ledger.Erasure) wire.Outcome {
	found := e.Found()
	switch {
	case e.Stands() == ledger.ErasureDeferred:
		return keptBasis(e)
	case e.State != ledger.ErasureErased:
		return ""
	case doneOf(e) > 0, e.Scope.WholeTenant && found.AlreadyErased == 0:
		return wire.OutcomeErased
	case found.AlreadyErased > 0:
		return wire.OutcomeAlreadyErased
	case found.Executions > 0: // an execution without a blob was fenced
		return wire.OutcomeErased
	}
	return wire.OutcomeNoMatch
}

func keptOutcome(k ledger.Kept) wire.Outcome {
	if k.Verdict == ledger.VerdictFloor {
		return wire.OutcomeLegalFloor
	}
	return wire.OutcomeLegalHold
}

// refusedItem is an object that the store keeps although its key is gone.
func refusedItem(executionID *string, r ledger.Refused) wire.ErasureItem {
	item := wire.ErasureItem{
		ExecutionID: executionID, State: string(ledger.ErasurePartial), Outcome: wire.OutcomeStoreRefused,
		Reason: r.Reason, Version: r.Version, Until: timeOrNull(r.Until),
	}
	if r.Ref != (blobd.Ref{}) {
		item.Ref = r.Ref.String()
	}
	return item
}
