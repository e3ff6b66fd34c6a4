package wire

import "time"

// LedgerClock is how the ledger's clock stands.
type LedgerClock struct {
	Now     time.Time `json:"now" doc:"by the ledger's clock"`
	Watched bool      `json:"watched" doc:"false: no bound is set, and it is never suspect"`
	Suspect bool      `json:"suspect" doc:"it may have jumped: what only time would make null is 503, and no scheduled sweep runs"`
	// Since and Trusted are null while it is not suspect.
	Since   *time.Time `json:"since" doc:"when it became suspect, by the time that was trusted"`
	Trusted *time.Time `json:"trusted" doc:"what the time should be about, by what was seen before"`
	Why     string     `json:"why,omitempty"`
}
