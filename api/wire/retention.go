package wire

import "time"

// PolicyRequest sets or simulates the policy of a class. Periods are ISO 8601
// durations of whole numbers, by the calendar of UTC.
type PolicyRequest struct {
	Period     string `json:"period" doc:"how long a blob may be kept from its start event, such as P30D, P6M or PT2S"`
	StartEvent string `json:"startEvent,omitempty" enum:"captured,executionEnded" doc:"default captured"`
	Floor      string `json:"floor,omitempty" doc:"how long it must be kept from its start event; with legalBasis"`
	LegalBasis string `json:"legalBasis,omitempty" maxLength:"1024" doc:"why there is a floor"`
	OnExpiry   string `json:"onExpiry,omitempty" enum:"erase,review" doc:"default erase; reads are null either way"`
	Existing   *bool  `json:"existing" doc:"whether blobs captured before the change follow it; without, they keep the version of their capture"`
	Slack      string `json:"slack,omitempty" doc:"how long after its end a blob may wait for a sweep before it is overdue; default P1D"`
}

// Policy is the policy of a class as it stands.
type Policy struct {
	Class      string     `json:"class"`
	Default    bool       `json:"default" doc:"the class has no policy of its own and follows the bounded default"`
	Version    int64      `json:"version" doc:"rises with every change of any policy; 0: the default"`
	Since      *time.Time `json:"since"`
	Period     string     `json:"period"`
	StartEvent string     `json:"startEvent" enum:"captured,executionEnded"`
	Floor      *string    `json:"floor"`
	LegalBasis *string    `json:"legalBasis"`
	OnExpiry   string     `json:"onExpiry" enum:"erase,review"`
	Existing   bool       `json:"existing"`
	Slack      *string    `json:"slack"`
	SetBy      *string    `json:"setBy" doc:"id of the token"`
	// Earlier are versions that still govern what was captured before.
	Earlier    []EarlierPolicy   `json:"earlier" doc:"versions that still govern what was captured before, newest first"`
	Simulation *PolicySimulation `json:"simulation,omitempty" doc:"of the change, made just before it"`
}

// EarlierPolicy is a version that governs what was captured before another.
type EarlierPolicy struct {
	Version        int64      `json:"version" doc:"0: the default"`
	CapturedFrom   *time.Time `json:"capturedFrom"`
	CapturedBefore *time.Time `json:"capturedBefore"`
	Period         string     `json:"period"`
	StartEvent     string     `json:"startEvent" enum:"captured,executionEnded"`
	OnExpiry       string     `json:"onExpiry" enum:"erase,review"`
}

// Policies is one page of the policies of all classes, by class.
type Policies struct {
	Items []Policy `json:"items"`
	Next  *string  `json:"next"`
}

// PolicySimulation says what a policy would make of its class at once: the next
// sweep would do exactly this.
type PolicySimulation struct {
	Class     string    `json:"class"`
	At        time.Time `json:"at"`
	Due       int64     `json:"due" doc:"past their maximum under the policy"`
	DueBefore int64     `json:"dueBefore" doc:"past their maximum under what stands"`
	Erased    int64     `json:"erased" doc:"what the next sweep would erase"`
	Bytes     int64     `json:"bytes" doc:"readable bytes of that"`
	Held      int64     `json:"held"`
	Floor     int64     `json:"floor"`
	Review    int64     `json:"review"`
	Waiting   int64     `json:"waiting" doc:"older than the period, and the start event has not come"`
}

// Ended is the end of an execution.
type Ended struct {
	ExecutionID string    `json:"executionId"`
	EndedAt     time.Time `json:"endedAt" doc:"of the first time that it was said"`
}

// SweepRequest starts a sweep, or asks what one would do.
type SweepRequest struct {
	DryRun  bool   `json:"dryRun,omitzero"`
	Confirm *int64 `json:"confirm,omitempty" minimum:"0" doc:"how many blobs may be erased though the breaker would stop the sweep"`
}

// Sweep is a sweep, or what one would do: then without id, state and times.
type Sweep struct {
	ID         string         `json:"id,omitempty"`
	State      string         `json:"state,omitempty" enum:"running,done,stopped"`
	Scanned    int64          `json:"scanned" doc:"rows looked at"`
	Due        int64          `json:"due" doc:"past their maximum, whatever becomes of them"`
	Erased     int64          `json:"erased" doc:"keys destroyed, objects read back as absent"`
	Held       int64          `json:"held"`
	Floor      int64          `json:"floor"`
	Review     int64          `json:"review" doc:"a person decides"`
	Waiting    int64          `json:"waiting" doc:"not due: older than the period, and the execution has not ended"`
	Failed     int64          `json:"failed" doc:"keys destroyed, objects still there; the next sweep tries again"`
	Bytes      int64          `json:"bytes" doc:"readable bytes of what is erased"`
	StoppedBy  string         `json:"stoppedBy,omitempty" enum:"breaker"`
	LastError  string         `json:"lastError,omitempty"`
	Refused    []SweepRefused `json:"refused,omitzero" doc:"objects that the store kept, the first 100"`
	StartedAt  *time.Time     `json:"startedAt"`
	FinishedAt *time.Time     `json:"finishedAt"`
	Trigger    string         `json:"trigger,omitempty" enum:"manual,schedule"`
	NextRun    *time.Time     `json:"nextRun" doc:"the schedule's next sweep of the tenant; null: none"`
}

// SweepRefused is an object, or a version of one, that the store kept.
type SweepRefused struct {
	Ref     string     `json:"ref,omitempty"`
	Version string     `json:"version,omitempty"`
	Reason  string     `json:"reason"`
	Until   *time.Time `json:"until,omitempty"`
}

// Sweeps is one page of sweeps, newest first.
type Sweeps struct {
	Items []Sweep `json:"items"`
	Next  *string `json:"next"`
}

// Debt is a blob that is past its maximum and still there.
type Debt struct {
	Ref           string     `json:"ref"`
	ExecutionID   *string    `json:"executionId"`
	Class         string     `json:"class"`
	CreatedAt     time.Time  `json:"createdAt"`
	ExpiredAt     *time.Time `json:"expiredAt" doc:"null where its key is gone already"`
	OverdueAt     *time.Time `json:"overdueAt"`
	Until         *time.Time `json:"until,omitempty" doc:"when its floor ends"`
	Reason        string     `json:"reason" enum:"sweep,overdue,held,floor,review,object" doc:"sweep: the next sweep takes it; overdue: likewise, past its slack; object: its key is gone, the object store keeps it"`
	PolicyVersion int64      `json:"policyVersion" doc:"0: the default"`
}

// Debts is one page of what is past its maximum and still there.
type Debts struct {
	Items []Debt  `json:"items"`
	Next  *string `json:"next"`
}
