package wire

import "time"

// Report is what every report says about itself.
type Report struct {
	Report string     `json:"report" enum:"erasures,retention,holds,sweeps"`
	Tenant string     `json:"tenant"`
	At     time.Time  `json:"at" doc:"when it was made"`
	From   *time.Time `json:"from" doc:"null: from the first"`
	To     *time.Time `json:"to" doc:"not included; null: to the last"`
}

// ErasuresReport lists the erasures that were received in a span, newest first.
type ErasuresReport struct {
	Report
	Items   []ErasureLine  `json:"items"`
	Summary ErasureSummary `json:"summary"`
}

// ErasureLine is one erasure of a report.
type ErasureLine struct {
	ID          string     `json:"id"`
	Type        string     `json:"type" enum:"erasure"`
	Scope       string     `json:"scope" enum:"execution,refs,subjects,class,tenant"`
	Regime      string     `json:"regime"`
	ExternalRef string     `json:"externalRef"`
	Received    time.Time  `json:"received"`
	Due         *time.Time `json:"due"`
	Completed   *time.Time `json:"completed" doc:"when it was erased, denied or cancelled"`
	State       string     `json:"state"`
	Outcome     string     `json:"outcome" enum:"complied,partial,denied,cancelled,open"`
	Basis       string     `json:"basis" doc:"of a denial: its code; of what is kept: LEGAL_HOLD, LEGAL_FLOOR or STORE_REFUSED"`
	Days        *int64     `json:"days" doc:"from the day of receipt to the day of completion, in UTC"`
	Overdue     bool       `json:"overdue" doc:"open past its due date, or completed after it"`
	Blobs       int64      `json:"blobs"`
	Erased      int64      `json:"erased"`
	Kept        int64      `json:"kept"`
	RequestedBy string     `json:"requestedBy" doc:"token id"`
	ApprovedBy  []string   `json:"approvedBy" doc:"token ids"`
	DeltaBlobs  *int64     `json:"deltaBlobs" doc:"blobs beyond the plan, negative: fewer; null: not known, or nothing was planned before"`
}

// ErasureSummary counts the erasures of a report.
type ErasureSummary struct {
	Received   int64            `json:"received"`
	States     map[string]int64 `json:"states"`
	Outcomes   map[string]int64 `json:"outcomes"`
	Denials    map[string]int64 `json:"denials" doc:"per code"`
	Overdue    int64            `json:"overdue"`
	MeanDays   *float64         `json:"meanDays" doc:"of those erased or denied; null: none is"`
	MedianDays *float64         `json:"medianDays"`
}

// RetentionReport lists the retention rules of all classes: the time limits of a
// register of processing.
type RetentionReport struct {
	Report
	Items []RetentionLine `json:"items"`
}

// RetentionLine is the rule of one class.
type RetentionLine struct {
	Class      string     `json:"class"`
	Default    bool       `json:"default" doc:"no policy is set"`
	StartEvent string     `json:"startEvent" enum:"captured,executionEnded"`
	Period     string     `json:"period"`
	Floor      string     `json:"floor"`
	LegalBasis string     `json:"legalBasis"`
	OnExpiry   string     `json:"onExpiry" enum:"erase,review"`
	Since      *time.Time `json:"since"`
	Blobs      int64      `json:"blobs" doc:"captured in the span, and with content"`
	AtLeast    bool       `json:"atLeast" doc:"there are more: the count stopped at its bound"`
}

// HoldsReport is the register of the holds that were open in a span.
type HoldsReport struct {
	Report
	Items []Hold `json:"items"`
}

// SweepsReport is the history of the sweeps that started in a span.
type SweepsReport struct {
	Report
	Items []Sweep `json:"items"`
}
