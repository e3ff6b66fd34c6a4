package wire

import "time"

// HoldRequest places a hold: nothing in its scope is erased while it is open,
// whoever asks and whatever the policy says.
type HoldRequest struct {
	Scope    *Scope     `json:"scope"`
	Matter   string     `json:"matter" minLength:"1" maxLength:"1024" doc:"what it is for: a case, a request, a file number"`
	Reason   string     `json:"reason" minLength:"1" maxLength:"1024"`
	Owner    string     `json:"owner" minLength:"1" maxLength:"1024" doc:"who answers for it"`
	ReviewAt *time.Time `json:"reviewAt,omitempty" doc:"in the future; nothing happens then but that the hold is counted as overdue for review"`
}

// Hold is a hold.
type Hold struct {
	ID            string     `json:"id"`
	State         string     `json:"state" enum:"open,released"`
	Scope         Covered    `json:"scope"`
	Matter        string     `json:"matter"`
	Reason        string     `json:"reason"`
	Owner         string     `json:"owner"`
	ReviewAt      *time.Time `json:"reviewAt"`
	ReviewOverdue bool       `json:"reviewOverdue" doc:"open, and reviewAt is over"`
	PlacedAt      time.Time  `json:"placedAt"`
	PlacedBy      string     `json:"placedBy" doc:"token id"`
	ReleasedAt    *time.Time `json:"releasedAt"`
	ReleasedBy    *string    `json:"releasedBy" doc:"token id"`
	ReleaseReason *string    `json:"releaseReason"`
	Held          Held       `json:"held"`
}

// Held counts what an open order covers and still has content.
type Held struct {
	Blobs   int64 `json:"blobs"`
	Bytes   int64 `json:"bytes" doc:"readable"`
	AtLeast bool  `json:"atLeast,omitzero" doc:"there are more: the count stopped at its bound"`
}

// Holds is one page of holds, newest first.
type Holds struct {
	Items []Hold  `json:"items"`
	Next  *string `json:"next"`
}

// RestrictionRequest restricts processing: reads in its scope are null and puts
// are refused, and a person may read for the purposes that it names.
type RestrictionRequest struct {
	Scope    *Scope   `json:"scope"`
	Reason   string   `json:"reason" minLength:"1" maxLength:"1024"`
	Purposes []string `json:"purposes,omitempty" maxItems:"32" doc:"for which a person may read; none: for none"`
}

// Restriction is a restriction.
type Restriction struct {
	ID         string     `json:"id"`
	State      string     `json:"state" enum:"open,lifted"`
	Scope      Covered    `json:"scope"`
	Reason     string     `json:"reason"`
	Purposes   []string   `json:"purposes"`
	PlacedAt   time.Time  `json:"placedAt"`
	PlacedBy   string     `json:"placedBy" doc:"token id"`
	LiftedAt   *time.Time `json:"liftedAt"`
	LiftedBy   *string    `json:"liftedBy" doc:"token id"`
	LiftReason *string    `json:"liftReason"`
	Covers     Held       `json:"covers"`
}

// Restrictions is one page of restrictions, newest first.
type Restrictions struct {
	Items []Restriction `json:"items"`
	Next  *string       `json:"next"`
}

// SuppressionRequest has puts that name one of the subjects refused. Its subjects
// stand in scope or beside it.
type SuppressionRequest struct {
	Scope     *Scope     `json:"scope,omitempty" doc:"of the form subjects"`
	Subjects  []string   `json:"subjects,omitzero" maxItems:"256" doc:"in place of scope"`
	Reason    string     `json:"reason" minLength:"1" maxLength:"1024"`
	ExpiresAt *time.Time `json:"expiresAt,omitempty" doc:"in the future; absent: never"`
}

// Suppression is a suppression. Its subjects are told to nobody.
type Suppression struct {
	ID         string     `json:"id"`
	State      string     `json:"state" enum:"open,expired,lifted"`
	Scope      Covered    `json:"scope"`
	Reason     string     `json:"reason"`
	ErasureID  *string    `json:"erasureId" doc:"the erasure that left it; null: it was placed by itself"`
	ExpiresAt  *time.Time `json:"expiresAt"`
	PlacedAt   time.Time  `json:"placedAt"`
	PlacedBy   string     `json:"placedBy" doc:"token id"`
	LiftedAt   *time.Time `json:"liftedAt"`
	LiftedBy   *string    `json:"liftedBy" doc:"token id"`
	LiftReason *string    `json:"liftReason"`
}

// Suppressions is one page of suppressions, newest first.
type Suppressions struct {
	Items []Suppression `json:"items"`
	Next  *string       `json:"next"`
}

// LiftRequest says why an order is lifted, or an erasure cancelled.
type LiftRequest struct {
	Reason string `json:"reason,omitempty" maxLength:"1024"`
}

// Covered is what an order or an erasure covers. Subjects are told by how many
// they are and by the beginnings of their keyed hashes: the same person gives the
// same beginning within a tenant.
type Covered struct {
	Form           string     `json:"form" enum:"execution,refs,subjects,class,tenant"`
	ExecutionID    *string    `json:"executionId,omitempty"`
	Refs           []string   `json:"refs,omitempty" doc:"of an erasure: absent"`
	Subjects       int        `json:"subjects,omitzero" doc:"how many"`
	SubjectTags    []string   `json:"subjectTags,omitempty" doc:"16 hex digits each"`
	Class          *string    `json:"class,omitempty"`
	CapturedBefore *time.Time `json:"capturedBefore,omitempty"`
	Tenant         bool       `json:"tenant,omitzero"`
}

// Explanation says what keeps a blob, until when, and what happens next.
type Explanation struct {
	Ref          string       `json:"ref"`
	ExecutionID  *string      `json:"executionId" doc:"null for an execution that is known only by its fence"`
	State        string       `json:"state" doc:"live, erased, expired, lost, missing, superseded"`
	Class        string       `json:"class,omitempty"`
	Rule         *Rule        `json:"rule" doc:"null where nothing is left to keep"`
	Start        *time.Time   `json:"start" doc:"null: the start event has not come"`
	Due          *time.Time   `json:"due" doc:"end of the maximum"`
	Floor        *time.Time   `json:"floor" doc:"end of the legal floor"`
	Holds        []string     `json:"holds" doc:"ids of the holds that cover it"`
	Restrictions []string     `json:"restrictions" doc:"ids"`
	Erasures     []string     `json:"erasures" doc:"ids of the erasures whose scope covers it"`
	LastSweep    *SweepOfBlob `json:"lastSweep" doc:"the tenant's newest sweep"`
	Verdict      string       `json:"verdict" doc:"what retention says of it now: keep, waiting, erase, held, floor or review"`
	Next         string       `json:"next" doc:"what happens next, in words"`
}

// Rule is the version of a policy that governs a blob.
type Rule struct {
	Version    int64   `json:"version" doc:"0: the default"`
	Period     string  `json:"period"`
	StartEvent string  `json:"startEvent" enum:"captured,executionEnded"`
	Floor      *string `json:"floor"`
	LegalBasis *string `json:"legalBasis"`
	OnExpiry   string  `json:"onExpiry" enum:"erase,review"`
}

// SweepOfBlob is the sweep that looked last at a blob's tenant.
type SweepOfBlob struct {
	ID         string     `json:"id"`
	State      string     `json:"state" enum:"running,done,stopped"`
	StartedAt  *time.Time `json:"startedAt"`
	FinishedAt *time.Time `json:"finishedAt"`
}

// Explanations says what is known of a ref, once for each execution that has it.
type Explanations struct {
	Items []Explanation `json:"items"`
}
