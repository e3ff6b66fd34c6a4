package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/blobd/blobd"
)

// Closings is the way of erasures that cannot fence at once: those that wait for
// approvals, for their grace, or for what a hold or a legal floor protects, and
// those whose scope is wider than one execution and is no whole tenant.
//
// Such an erasure has a closing over its scope (Erasure.Closing): everything in it
// reads as closed from the commit on, whatever its size. Its job then either fences
// the scope in one transaction (FenceClosed), or passes over its rows, drops what nothing
// protects (Drop), deletes the objects of what it dropped, and waits (Defer) or
// ends (Jobs.Finish).
type Closings interface {
	// Decide approves, denies or cancels an erasure; see Decision. The erasure is
	// returned as it stands after it.
	Decide(ctx context.Context, d Decision) (Erasure, Record, error)
	// Replan replaces the plan of an erasure that awaits approval and forgets its
	// approvals. In any other state it is ErrConflict; an unknown one is ErrNotFound.
	Replan(ctx context.Context, tenant, id string, p Plan, digest [32]byte, e Entry) error
	// FenceClosed fences the scope of a claimed erasure that only closed it, as Fence does,
	// and lifts its closing. Where something in scope is protected, or the form is not
	// Fenceable, it is ErrHeld; one that has fenced, or whose lease is stale, is
	// ErrConflict. Both change nothing. What it took is counted in Fenced: a plan that
	// was counted before (Planned) stays.
	FenceClosed(ctx context.Context, l Lease, at time.Time, es []Entry) (Erasure, Record, error)
	// Drop visits rows of the scope of a claimed erasure that only closed it, and drops
	// the keys of those that nothing protects. What it took, and the executions that it
	// met first, it counts in the same transaction: a page that is visited again counts
	// nothing. A stale lease is ErrConflict, and so is
	// an erasure that has fenced.
	Drop(ctx context.Context, l Lease, d Drop) (Dropped, error)
	// Defer postpones a claimed erasure that only closed its scope until due, or until
	// a hold or policy of its tenant changes, and ends the lease. If a hold was lifted
	// or a policy set since it was claimed, it is due from then on: what the worker saw
	// may protect nothing any more. A stale lease is ErrConflict, and so is an erasure
	// that has fenced.
	Defer(ctx context.Context, l Lease, due time.Time, p Progress, es []Entry) error
	// DroppedRows returns the rows that Drop dropped or found erased, until Tombstone
	// of the same erasure turned them into tombstones, in the order of Positions after
	// one. An unknown erasure is ErrNotFound.
	DroppedRows(ctx context.Context, erasureID string, after Position, limit int) ([]Position, error)
	// ScopeRows returns rows of a scope after a place, in the engine's own order, and
	// the next place. It tells of no tombstones and of no collected rows. The time
	// that a page takes does not grow with what is stored outside the scope.
	ScopeRows(ctx context.Context, s Scope, after ScopeCursor, limit int) (rows []ScopeRow, next ScopeCursor, err error)
	// Coverage counts what is live in a tenant, and what of it is tagged. Its time
	// grows with what is stored.
	Coverage(ctx context.Context, tenant string) (Coverage, error)
	// FindRef returns the executions of a tenant in which a ref has a row, at most
	// limit. Its time may grow with what is stored.
	FindRef(ctx context.Context, tenant string, ref blobd.Ref, limit int) ([]blobd.ExecutionTag, error)
	// SetApprovals sets how many people must approve an erasure of the tenant; it
	// touches none that was asked for before. An unknown tenant is ErrNotFound, a
	// fenced one ErrTenantErased.
	SetApprovals(ctx context.Context, tenant string, approvals int, e Entry) error
}

// Act is what a decision does.
type Act uint8

// The acts.
const (
	// ActApprove: awaiting_approval → itself with one approval more, or, with the
	// last one that it needs, on as Fence would have gone: see Fence.Approvals.
	ActApprove Act = 1
	// ActDeny and ActCancel: awaiting_approval, grace or deferred → denied or
	// cancelled; its closing is lifted, and what it dropped stays erased.
	ActDeny   Act = 2
	ActCancel Act = 3
)

// Decision is one decision about an erasure.
//
// An unknown erasure, or another tenant's, is ErrNotFound. A second approval by the
// same token changes nothing, whatever became of the erasure, as does a denial or a
// cancellation that was made before: the erasure comes with the zero record. Any
// other state that the act does not start from is ErrConflict. Of an approval, in
// this order: another plan than the erasure's is ErrPlanDrift; by who asked for the
// erasure it is ErrDenied.
//
// With the last approval the erasure goes on as if Fence had been called at At
// without approvals, and comes with that record; its plan stays the one that was
// approved. A denial or a cancellation of one
// that closed its scope comes with the record of the lift.
type Decision struct {
	Tenant, ID string
	Act        Act
	By         string // token id
	At         time.Time
	PlanDigest [32]byte // of an approval
	Code       string   // of a denial: why, of a closed list
	Reason     string   // free text: of the erasure's row alone
	// Of the last approval, as in Fence.
	RunAt, GraceUntil, DeferUntil time.Time
	Entries                       []Entry // always inserted, unless nothing changes
	Fenced, Closed                []Entry // inserted too, with the last approval: see Fence
}

// Check refuses what no engine takes, as ErrInvalid.
func (d *Decision) Check() error {
	if d.Act < ActApprove || d.Act > ActCancel || d.By == "" {
		return fmt.Errorf("a decision %d by %q: %w", d.Act, d.By, blobd.ErrInvalid)
	}
	return nil
}

// Drop asks for one page of a pass over a scope.
type Drop struct {
	After ScopeCursor
	At    time.Time
	Limit int // rows looked at: 1 to MaxExpiry, else ErrInvalid
	// Entry makes the entry of what was dropped. It is called in the transaction,
	// maybe more than once, and must do nothing else. Of nothing there is no entry.
	Entry func(dropped []DueRow) (Entry, error)
}

// Dropped is what Drop did with a page.
type Dropped struct {
	// Dropped lost their keys now. Their state becomes erased, and their repeat tags
	// stay, as those of named refs do.
	Dropped []DueRow
	// Kept is what is protected.
	Kept []Kept
	// Next is where the pass goes on; zero: it is over.
	Next ScopeCursor
}

// Kept is a row that an erasure left, and why.
type Kept struct {
	Position
	ExecutionID string
	Verdict     Verdict   // VerdictHeld or VerdictFloor
	Until       time.Time // of a floor: its end; zero: not known yet
	// Extent is the row's, as Drop tells it: a progress does not keep it.
	Extent Extent
}

// Protects says what keeps a row from an erasure at a time: VerdictHeld,
// VerdictFloor with its end (zero while the floor's start event has not come), or
// VerdictErase. It is the one place that decides so: every deleting transaction of
// erasures asks it with the row that it has locked. Versions are those of the row's
// class, newest first.
func Protects(r *DueRow, versions []Policy, now time.Time) (v Verdict, until time.Time) {
	if r.Held {
		return VerdictHeld, time.Time{}
	}
	p := Governing(versions, r.CreatedAt)
	if p.Floor.IsZero() {
		return VerdictErase, time.Time{}
	}
	until = p.FloorEnd(r.CreatedAt, r.EndedAt)
	if until.IsZero() || now.Before(until) {
		return VerdictFloor, until
	}
	return VerdictErase, until
}

// Floors reports whether any version has a floor: without one, and without an open
// hold, nothing in a tenant is protected and an erasure need not look at rows.
func Floors(versions []Policy) bool {
	for i := range versions {
		if !versions[i].Floor.IsZero() {
			return true
		}
	}
	return false
}
