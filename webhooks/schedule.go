package webhooks

import (
	"math/rand/v2"
	"time"
)

// MaxAttempts is how often a delivery is tried before it is dead.
const MaxAttempts = 10

// Delay is how long a delivery waits after so many attempts that failed, 1 to
// MaxAttempts - 1, before its jitter: from five seconds to a day, 75 hours and a
// half in all.
func Delay(attempts int64) time.Duration {
	delays := [MaxAttempts - 1]time.Duration{
		5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour,
		14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
	}
	return delays[min(max(attempts, 1), int64(len(delays)))-1]
}

// jittered adds up to a tenth, so that what failed together is not tried together.
func jittered(d time.Duration, r *rand.Rand) time.Duration {
	return d + time.Duration(r.Int64N(int64(d/10)+1))
}
