package backends

import (
	"context"
	"time"
)

// Status is how a check of an examination ended.
type Status string

// The ways in which a check ends.
const (
	Pass Status = "pass"
	Warn Status = "warn" // works, with something that an operator should know
	Fail Status = "fail" // blobd cannot work here as it promises
)

// Finding is what one check of an examination found.
type Finding struct {
	Check  string `json:"check"` // a short, stable name such as "versioning"
	Status Status `json:"status"`
	Detail string `json:"detail"` // for people; holds no secret and no object's name of a tenant
	// NoErasure: what was found makes it impossible to delete every version of an
	// object when its erasure is due, so the promise behind "erased" cannot be kept
	// here. Only findings that did not pass have it.
	NoErasure bool `json:"noErasure"`
}

// Examiner is a store that can be examined before trust is placed in it.
type Examiner interface {
	// Examine tries what blobd needs, for real, on a scratch prefix of its own
	// that it leaves empty if the store permits. It returns a finding for every
	// check, in a fixed order, also for those that failed; an error means that
	// the examination itself could not go on (ctx ended). now is this machine's
	// clock, which the store's is compared with.
	Examine(ctx context.Context, now func() time.Time) ([]Finding, error)
}

// ErasureImpossible returns the findings that make the promised erasure
// impossible.
func ErasureImpossible(findings []Finding) []Finding {
	var found []Finding
	for _, f := range findings {
		if f.NoErasure {
			found = append(found, f)
		}
	}
	return found
}
