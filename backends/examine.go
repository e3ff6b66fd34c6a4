package backends

import (
	"context"
	"fmt"
	"time"

	"github.com/blobd/blobd"
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

// Passed is the finding of a check that passed; format and args are its detail.
func Passed(check, format string, args ...any) Finding {
	return Finding{Check: check, Status: Pass, Detail: fmt.Sprintf(format, args...)}
}

// Warned is a finding with something that an operator should know.
func Warned(check, format string, args ...any) Finding {
	return Finding{Check: check, Status: Warn, Detail: fmt.Sprintf(format, args...)}
}

// Failed is the finding of a check that failed.
func Failed(check, format string, args ...any) Finding {
	return Finding{Check: check, Status: Fail, Detail: fmt.Sprintf(format, args...)}
}

// NoErasure is a failure that no certificate could look past; see Finding.NoErasure.
func NoErasure(check, format string, args ...any) Finding {
	f := Failed(check, format, args...)
	f.NoErasure = true
	return f
}

// Check is one check of an examination.
type Check func(ctx context.Context) Finding

// Examined runs checks in order. Where the store cannot be reached the rest are left
// out. That ctx ended is ErrUnavailable: the findings would say so of the store.
func Examined(ctx context.Context, reachable Check, rest ...Check) ([]Finding, error) {
	found := []Finding{reachable(ctx)}
	if found[0].Status == Fail {
		rest = nil
	}
	for _, check := range rest {
		found = append(found, check(ctx))
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", blobd.ErrUnavailable, err)
	}
	return found, nil
}
