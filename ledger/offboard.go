package ledger

import "time"

// A tenant is off-boarded by the fence of an erasure whose scope is the whole
// tenant. From its commit on
//
//   - every execution of the tenant reads as erased at that time, in every method
//     that tells of one, whether or not the erasure's job reached its row yet;
//   - every commit in the tenant is ErrTenantErased or, in a known execution,
//     ErrErased, and nothing new is made under it: no token, policy or epoch;
//   - its id stays in use for ever, its index key is gone, its key epochs have
//     ended, and its tokens work on: what they ask for is null or refused, and
//     someone must be able to read how far the erasure is.
//
// The fence touches the tenant's row alone, so its time grows with nothing; the
// job does the rest, in batches: see Jobs.DropKeys and Jobs.Tombstone.

// Fenced reports whether the tenant was off-boarded.
func (t Tenant) Fenced() bool { return !t.FencedAt.IsZero() }

// EraseAt makes e read as erased at at, unless it was erased before. It is what
// the fence of the tenant does to each execution.
func (e *Execution) EraseAt(at time.Time) {
	if e.State == ExecutionErased {
		return
	}
	e.State, e.CloseReason, e.Key = ExecutionErased, 0, nil
	e.ErasedAt, e.Blobs, e.Bytes = at, 0, 0
}
