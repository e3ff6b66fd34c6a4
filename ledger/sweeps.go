package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/blobd/blobd"
)

// Sweeps holds the runs of retention: leased rows like erasures, of one tenant
// each, of which no two run at once.
//
// A sweep has a plan: what Judge says of every row at the sweep's moment (At)
// under the policies up to its version. It never deletes what is not in the plan,
// nor what the policies of now protect.
type Sweeps interface {
	// StartSweep inserts a sweep that runs, with the ledger's own time as its
	// moment and the newest policy as its version. While another one of the tenant
	// runs it is ErrConflict; an unknown tenant is ErrNotFound, a fenced one
	// ErrTenantErased. The same id again changes nothing and returns the sweep as
	// it stands; with another tenant it is ErrConflict.
	StartSweep(ctx context.Context, n NewSweep) (Sweep, error)
	// ClaimSweep leases the sweep that is due first, or ErrNotFound when none is
	// due at at. The term rises with each claim. An engine that knows that a
	// lease's owner ended may end the lease.
	ClaimSweep(ctx context.Context, owner string, at, until time.Time) (SweepJob, error)
	// MoveSweep makes one step of a sweep, or its end, and renews or ends the
	// lease. A stale lease is ErrConflict and changes nothing, and so is a second
	// plan.
	MoveSweep(ctx context.Context, l SweepLease, m SweepMove) error
	// Expire is the first half for a batch: rows that Judge lets go, by the plan of
	// the sweep and by the policies of now, become expired: their wrapped keys and
	// repeat tags are dropped, and their executions are marked as having lost a
	// blob. Others, and rows that are expired already, stay as they are. It returns
	// what became expired, in the order of Positions, each once. The entry that
	// Expiry makes of them is inserted with it; of none there is no entry. A stale
	// lease is ErrConflict.
	Expire(ctx context.Context, l SweepLease, x Expiry) ([]DueRow, error)
	// Bury turns expired rows, whose objects were read back as absent, into
	// tombstones without content facts and subjects, adds them to what the sweep
	// has erased, and returns how many there were. Rows in another state stay. A
	// stale lease is ErrConflict. 1 to MaxExpiry positions, else ErrInvalid.
	Bury(ctx context.Context, l SweepLease, rows []Position) (int, error)
	// Sweep returns one of the tenant's, or ErrNotFound.
	Sweep(ctx context.Context, tenant, id string) (Sweep, error)
	// ListSweeps returns a tenant's sweeps, newest first.
	ListSweeps(ctx context.Context, q SweepQuery) ([]Sweep, error)
}

// MaxExpiry bounds the rows of one batch.
const MaxExpiry = 1000

// SweepState is where a sweep stands; its text is the contract's.
type SweepState string

// The states of a sweep.
const (
	SweepRunning SweepState = "running"
	SweepDone    SweepState = "done"
	SweepStopped SweepState = "stopped" // the breaker: nothing was deleted
)

// The triggers of a sweep.
const (
	TriggerManual   = "manual"
	TriggerSchedule = "schedule"
)

// NewSweep asks for a sweep.
type NewSweep struct {
	ID          string // made by the caller, unique for ever
	Tenant      string
	Trigger     string
	RequestedBy string // token id; "" for blobd itself
	// Confirm is how many blobs it may erase though the breaker would stop it.
	Confirm int64
	RunAt   time.Time // when it is first due
	Entry   Entry
}

// Tally counts the verdicts of a plan.
type Tally struct {
	Scanned int64 // rows looked at
	Erase   int64
	Held    int64
	Floor   int64
	Review  int64
	Waiting int64
	Bytes   int64 // readable bytes of what is to be erased
}

// Due is what is past its maximum, whatever becomes of it.
func (t Tally) Due() int64 { return t.Erase + t.Held + t.Floor + t.Review }

// Add counts a verdict.
func (t *Tally) Add(r *DueRow, v Verdict) {
	t.Scanned++
	switch v {
	case VerdictErase:
		t.Erase++
		t.Bytes += r.Size
	case VerdictHeld:
		t.Held++
	case VerdictFloor:
		t.Floor++
	case VerdictReview:
		t.Review++
	case VerdictWaiting:
		t.Waiting++
	}
}

// AddAll counts the verdicts of rows.
func (t *Tally) AddAll(rows []DueRow, versions []Policy, at time.Time) {
	for i := range rows {
		verdict, _ := Judge(&rows[i], versions, at)
		t.Add(&rows[i], verdict)
	}
}

// Sweep is a sweep's row.
type Sweep struct {
	ID          string
	Tenant      string
	State       SweepState
	Trigger     string
	RequestedBy string
	Confirm     int64
	At          time.Time // the moment that its plan is of, by the ledger's clock
	Version     int64     // the newest policy version of its plan
	Planned     bool      // Plan was made
	Plan        Tally
	Erased      int64 // objects read back as absent
	Failed      int64 // keys dropped, objects still there, in the last pass
	// LateUntil is until when a put that began before may still write an object of
	// what this sweep expired; zero: none can.
	LateUntil time.Time
	// Refused are objects that the store would not delete in the last pass, at most
	// MaxRefused of them.
	Refused []Refused
	// LastError is the closed-set word of the last failure, never free text.
	LastError  string
	Attempts   int64
	StartedAt  time.Time
	FinishedAt time.Time // zero: it runs
	RunAt      time.Time // when it is due
}

// SweepLease is the right to work on one sweep for a while.
type SweepLease struct {
	SweepID string
	Owner   string
	Term    int64
	Until   time.Time
}

// SweepJob is a claimed sweep.
type SweepJob struct {
	Sweep Sweep
	Lease SweepLease
}

// SweepMove is one step of a sweep.
type SweepMove struct {
	To      SweepState // SweepRunning: it stays
	At      time.Time  // becomes FinishedAt of an end
	Plan    *Tally     // set once
	Failed  int64      // replaces the row's
	Refused []Refused  // replaces the row's
	// Until renews the lease; zero ends it, and the sweep is due at Due. An ended
	// sweep has no lease and is never due.
	Until     time.Time
	Due       time.Time
	LastError string // replaces the row's
	Entries   []Entry
}

// Check refuses what no engine takes, as ErrInvalid.
func (m SweepMove) Check() error {
	if m.To != SweepRunning && m.To != SweepDone && m.To != SweepStopped {
		return fmt.Errorf("a sweep cannot become %q: %w", m.To, blobd.ErrInvalid)
	}
	return nil
}

// Expiry is a batch of rows to expire.
type Expiry struct {
	Rows []Position // 1 to MaxExpiry, else ErrInvalid
	// Margin is how long a put that found a row live may still write its object:
	// the sweep's LateUntil becomes the newest end of what was expired and this, if
	// that is later.
	Margin time.Duration
	// Entry makes the entry of what was expired. It is called in the transaction,
	// maybe more than once, and must do nothing else.
	Entry func(expired []DueRow) (Entry, error)
}

// CheckBatch refuses a batch that no engine takes, as ErrInvalid.
func CheckBatch(rows []Position) error {
	if len(rows) < 1 || len(rows) > MaxExpiry {
		return fmt.Errorf("%d rows: %w", len(rows), blobd.ErrInvalid)
	}
	return nil
}

// MayExpire is what Expire asks of a row that it has locked: the plan lets it go,
// and so do the policies of now. late is the end of its maximum.
func (s *Sweep) MayExpire(r *DueRow, versions []Policy) (late time.Time, ok bool) {
	if r.State == BlobExpired || !r.State.Sweepable() {
		return time.Time{}, false
	}
	planned, end := Judge(r, UpTo(versions, s.Version), s.At)
	now, endNow := Judge(r, versions, s.At)
	if endNow.After(end) {
		end = endNow
	}
	return end, planned == VerdictErase && now == VerdictErase
}

// SweepQuery selects sweeps.
type SweepQuery struct {
	Tenant string
	State  SweepState // "": any
	Before SweepCursor
	Limit  int
}

// SweepCursor is a position in the order newest first; zero is the start.
type SweepCursor struct {
	StartedAt time.Time
	ID        string
}
