package evidence

import (
	"encoding/hex"
	"slices"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// The steps of an erasure. One that fences at once has three: fenced, deleted,
// erased.
const (
	StepRequested = "requested" // it awaits approvals of the plan that it names; a later one voids those before it
	StepApproved  = "approved"
	StepDenied    = "denied"
	StepCancelled = "cancelled"
	StepClosed    = "closed"   // reads are null, nothing is dropped yet
	StepFenced    = "fenced"   // reads are null for ever, wrapped keys dropped
	StepDropped   = "dropped"  // wrapped keys of single rows dropped: one entry for each batch
	StepDeleted   = "deleted"  // keys settled, a first deletion seen complete
	StepDeferred  = "deferred" // something protected is left; what was dropped is gone
	StepErased    = "erased"   // objects read back as absent, tombstones written
)

// ErasureStep is one step of an erasure.
type ErasureStep struct {
	Step    string `json:"step"`
	Erasure string `json:"erasure"`
	ScopeStep
	Refs            []string `json:"refs,omitempty"`
	WholeTenant     bool     `json:"wholeTenant,omitempty"`
	Actor           string   `json:"actor"`
	KeysDestroyed   int64    `json:"keysDestroyed"`
	ObjectsDeleted  int64    `json:"objectsDeleted"`
	VersionsDeleted int64    `json:"versionsDeleted"`
	Residuals       []string `json:"residuals,omitempty"`
	// KEKDestroyedAt is when a whole tenant's KEK was destroyed in every version.
	KEKDestroyedAt *time.Time `json:"kekDestroyedAt,omitempty"`

	// PlanDigest, lowercase hex, names the plan of what is asked for and approved.
	PlanDigest string `json:"planDigest,omitempty"`
	// Approvals is how many it awaits.
	Approvals int `json:"approvals,omitempty"`
	// Held and Floor count what is protected, when the step was made.
	Held  int64 `json:"held,omitempty"`
	Floor int64 `json:"floor,omitempty"`
	// Failed counts objects that the store keeps though their keys are gone.
	Failed int64 `json:"failed,omitempty"`
	// Until is when the grace ends, of StepClosed, or when it is tried again, of
	// StepDeferred.
	Until *time.Time `json:"until,omitempty"`
	// Code says why it was denied.
	Code string `json:"code,omitempty"`
	// Delta is what was erased of the scope, or is left in it protected, beyond the plan;
	// absent: it is not known, or nothing was planned. Only of StepDeferred, StepErased and
	// what ends those: StepDenied, StepCancelled.
	Delta *Delta `json:"delta,omitempty"`
	// Executions has the refs of a batch that was dropped, by execution.
	Executions []SweptExecution `json:"executions,omitempty"`
}

// Delta counts what joined a scope after its plan was counted, less what left it: it is
// negative where more left.
type Delta struct {
	Executions int64 `json:"executions"`
	Blobs      int64 `json:"blobs"`
	Bytes      int64 `json:"bytes"` // readable
}

// DeltaOf is an erasure's; nil: it is not known.
func DeltaOf(e ledger.Erasure) *Delta {
	d, known := e.Delta()
	if !known {
		return nil
	}
	return &Delta{d.Executions, d.Blobs, d.Bytes}
}

// ScopeStep says what an erasure or an order covers. A subject is in no entry, nor
// is the hash by which the ledger knows it.
type ScopeStep struct {
	// Form is execution, refs, subjects, class or tenant; absent in entries of
	// erasures that earlier versions made, whose members say it.
	Form string `json:"form,omitempty"`
	// Execution is a keyed tag; absent where the scope is wider than one.
	Execution string `json:"execution,omitempty"`
	// Subjects is how many, SubjectsTag a keyed tag of all of them.
	Subjects       int64      `json:"subjects,omitempty"`
	SubjectsTag    string     `json:"subjectsTag,omitempty"`
	Class          string     `json:"class,omitempty"`
	CapturedBefore *time.Time `json:"capturedBefore,omitempty"`
}

// scope says a scope without a subject, for all but its refs.
func (s Scribe) scope(of ledger.Scope) ScopeStep {
	out := ScopeStep{Form: FormName(of.Form()), Class: of.Class, CapturedBefore: dated(of.CapturedBefore)}
	if of.Form().Bounded() {
		out.Execution = of.Tag.String()
	}
	if len(of.Subjects) > 0 {
		var all []byte
		for _, subject := range of.Subjects {
			all = append(all, subject[:]...)
		}
		tag := Tag(s.NameKey, "blobd/v1/subjects", string(all))
		out.Subjects, out.SubjectsTag = int64(len(of.Subjects)), hex.EncodeToString(tag[:])
	}
	return out
}

// FormName is the word of entries and certificates for a form of scope.
func FormName(f ledger.ScopeForm) string {
	switch f {
	case ledger.ScopeExecution:
		return "execution"
	case ledger.ScopeRefs:
		return "refs"
	case ledger.ScopeSubjects:
		return "subjects"
	case ledger.ScopeClass:
		return "class"
	case ledger.ScopeTenant:
		return "tenant"
	}
	return "unknown"
}

// Progressed adds what a progress counts.
func (e ErasureStep) Progressed(p ledger.Progress) ErasureStep {
	e.KeysDestroyed, e.ObjectsDeleted, e.VersionsDeleted = p.KeysDestroyed, p.ObjectsDeleted, p.VersionsDeleted
	e.Residuals, e.KEKDestroyedAt = p.Residuals, dated(p.KEKDestroyedAt)
	e.Held, e.Floor, e.Failed = p.Held, p.Floor, p.Failed
	return e
}

// Erasure is the entry of one step of an erasure of a scope. What names the scope
// and the actor is filled in, but for a form that the step names.
func (s Scribe) Erasure(at time.Time, of ledger.Scope, step ErasureStep, actor string) (ledger.Entry, error) {
	form := step.Form
	step.ScopeStep, step.WholeTenant, step.Actor = s.scope(of), of.WholeTenant, s.actor(actor)
	if form != "" {
		step.Form = form
	}
	step.Refs = refStrings(of.Refs)
	return s.entry(ledger.EntryErasure, at, step)
}

// Dropped is the entry of a batch of rows whose keys an erasure dropped.
func (s Scribe) Dropped(at time.Time, of ledger.Scope, erasure string, rows []ledger.DueRow) (ledger.Entry, error) {
	of.Refs = nil // the batch names its own
	step := ErasureStep{Step: StepDropped, Erasure: erasure, Executions: byExecution(rows)}
	step.ScopeStep, step.Actor = s.scope(of), s.actor("")
	return s.entry(ledger.EntryErasure, at, step)
}

// byExecution gathers refs by execution, in the order in which they come.
func byExecution(rows []ledger.DueRow) (all []SweptExecution) {
	index := make(map[blobd.ExecutionTag]int, len(rows))
	for _, r := range rows {
		i, seen := index[r.Tag]
		if !seen {
			i = len(all)
			index[r.Tag] = i
			all = append(all, SweptExecution{Execution: r.Tag.String()})
		}
		all[i].Refs = append(all[i].Refs, r.Ref.String())
	}
	return all
}

// The closed list of what became of a part of an erasure, or of all of it.
const (
	CodeAlreadyErased = "ALREADY_ERASED"
	CodeNoMatch       = "NO_MATCH"
	CodeLegalHold     = "LEGAL_HOLD"
	CodeLegalFloor    = "LEGAL_FLOOR"
	CodeSharedSubject = "SHARED_SUBJECT" // erased, and tagged with somebody else too
	CodeStoreRefused  = "STORE_REFUSED"  // the key is gone; the object store keeps the object
	CodeDenied        = "DENIED"         // without a code of DenialCodes
)

// DenialCodes lists why an erasure may be denied.
func DenialCodes() []string {
	return []string{
		"ART17_3_A", "ART17_3_B", "ART17_3_C", "ART17_3_D", "ART17_3_E", "BLOCKED_ES32", "CCPA_105_D", "DUPLICATE",
		"ID_UNVERIFIED", CodeLegalFloor, CodeLegalHold, CodeNoMatch, "OUT_OF_SCOPE", CodeSharedSubject, "UNFOUNDED_12_5",
	}
}

// KnownDenial reports whether a code is one of DenialCodes.
func KnownDenial(code string) bool { return slices.Contains(DenialCodes(), code) }
