// Package ledger is the contract of the ledger: the one place that decides what
// is live, erased, closed, expired or lost.
//
// It promises that each method is one transaction and one legal move (see
// states.go), that a wrong prior state changes nothing and is an error, that
// every commit is durable before a method returns, that listings have a limit
// and one order on every engine, and that what it says about an absence is
// definite. It never sees a text, a digest of a text, an unwrapped key or a
// subject in clear. Evidence entries and journal records are inserted in the
// transaction of the change that they speak of. Times are kept to the microsecond
// and come back in UTC. A listing with a limit below 1 is ErrInvalid.
//
// Package ledgertest holds every sentence of this contract as a named subtest;
// each engine passes it.
package ledger

import (
	"context"
	"time"

	"github.com/blobd/blobd"
)

// Ledger is a whole ledger: the parts below, over one database. All methods are
// safe for concurrent use. An engine that is down, full, busy past the caller's
// deadline or read-only answers ErrUnavailable, never an absence; a caller that
// sees ErrUnavailable from a change does not know whether it happened.
type Ledger interface {
	Tenants
	Policies
	Sweeps
	Tokens
	Blobs
	Executions
	Erasures
	Closings
	Orders
	Jobs
	Epochs
	Journal
	Deployment
	Requests
	Audit
	Sequence
	Webhooks
	Deliveries
	Clocks
	ClockNotes
	Maintenance
}

// Tenants holds tenants.
type Tenants interface {
	// CreateTenant adds a tenant; an id in use is ErrConflict, that of an
	// off-boarded tenant too, for ever.
	CreateTenant(ctx context.Context, t Tenant, e Entry) error
	// Tenant returns one, or ErrNotFound.
	Tenant(ctx context.Context, id string) (Tenant, error)
	// ListTenants returns tenants with id > after in byte order.
	ListTenants(ctx context.Context, after string, limit int) ([]Tenant, error)
}

// Tokens holds hashed API tokens.
type Tokens interface {
	// CreateToken adds a token; an id or hash in use is ErrConflict, an unknown
	// tenant ErrNotFound, a fenced one ErrTenantErased.
	CreateToken(ctx context.Context, t Token, e Entry) error
	// TokenByHash returns a token that was not revoked and is not past its end
	// by the ledger's clock, or ErrNotFound.
	TokenByHash(ctx context.Context, hash [32]byte) (Token, error)
	// ListTokens returns a tenant's tokens with id > after, revoked ones too.
	ListTokens(ctx context.Context, tenant, after string, limit int) ([]Token, error)
	// RevokeToken revokes at and returns the journal record; a token of another
	// tenant or an unknown one is ErrNotFound; a revoked one stays as it is and
	// returns the zero record.
	RevokeToken(ctx context.Context, tenant, id string, at time.Time, e Entry) (Record, error)
}

// Blobs is the hot path.
type Blobs interface {
	// Lookup answers what a read needs to decide, for 1 to 256 refs of one
	// execution, in one statement: View.Blobs has one element per ref, in the
	// order asked for, nil where there is no row.
	Lookup(ctx context.Context, tag blobd.ExecutionTag, refs []blobd.Ref) (View, error)
	// LookupRepeats answers what a put needs to decide: the execution, and for
	// each repeat tag (0 to 256) the row that has it (live, or erased in a
	// living execution), in order, nil where there is none.
	LookupRepeats(ctx context.Context, tag blobd.ExecutionTag, repeats [][32]byte) (View, error)
	// Commit inserts one capture, all or nothing. See Capture and Committed.
	Commit(ctx context.Context, c Capture) (Committed, error)
}

// Executions reads and moves executions.
type Executions interface {
	// Execution returns what is known of one, or ErrNotFound.
	Execution(ctx context.Context, tenant string, tag blobd.ExecutionTag) (Summary, error)
	// ListExecutions returns a tenant's executions, newest first.
	ListExecutions(ctx context.Context, q ExecutionQuery) ([]Execution, error)
	// Records returns an execution's attempt records in log order with the rows
	// that they name, after a sequence number. Numbers rise, with gaps.
	Records(ctx context.Context, q RecordQuery) ([]RecordedPart, error)
}

// Erasures is the first half of an erasure, and what is known of one.
type Erasures interface {
	// Fence is the first half: in one transaction it fences the execution (or
	// erases the named refs), drops their wrapped keys, inserts the erasure row
	// (which is the job), the evidence entries and the journal record. For an
	// execution never seen it inserts the fenced row. Its time does not grow
	// with the number of blobs. The same id again changes nothing and returns the
	// erasure, as it stands, with its first record; with another scope it is
	// ErrConflict, and so is an execution of another tenant. The record names the
	// refs that ErasedRefs tells, which may be none. Erasure and record tell the
	// newest KEK version that can open what was dropped (see Erasure.Wrap), and an
	// execution that lost refs is marked so, for its next key epoch.
	//
	// Where it cannot fence (Approvals, GraceUntil, a form that is not Fenceable, or
	// something in scope that Protects keeps) it makes the erasure's row and, unless
	// approvals are missing, a closing over its scope with a record of that: see
	// Closings. The record of an erasure that awaits approvals is the zero one. Neither
	// looks at more rows than it takes to find one that is protected, and at none in a
	// tenant without an open hold or a policy with a floor. With Strict, a scope with
	// something protected in it is ErrHeld, whatever else would come first, and nothing
	// changes. Of a tenant without a row nothing is closed or awaited: ErrNotFound.
	//
	// A whole tenant is fenced by its row: see Tenant.FencedAt and offboard.go. Its
	// open key epochs end and its index key is dropped. One that is unknown is
	// ErrNotFound. Every fence in a fenced tenant finds everything erased.
	Fence(ctx context.Context, f Fence) (Erasure, Record, error)
	// Plan counts what a fence of this scope would erase, and changes nothing. A form
	// that is not Fenceable is ErrInvalid.
	Plan(ctx context.Context, s Scope) (Plan, error)
	// Erasure returns one of the tenant's, or ErrNotFound.
	Erasure(ctx context.Context, tenant, id string) (Erasure, error)
	// ListErasures returns a tenant's erasures, newest first.
	ListErasures(ctx context.Context, q ErasureQuery) ([]Erasure, error)
	// ErasedRefs returns the refs whose rows an erasure of refs erased, or found
	// erased; never one without a row, whose object may belong to a put on its way.
	// Of one that has not fenced (Erasure.Closing) they are those that its scope names.
	// They come in byte order, each once; an unknown erasure is ErrNotFound.
	ErasedRefs(ctx context.Context, erasureID string) ([]blobd.Ref, error)
}

// Jobs runs the second half of erasures: leased rows, never discarded.
type Jobs interface {
	// Claim leases the erasure that is due first, or ErrNotFound when none is
	// due at at: of those that run, and of those whose grace is over or that were
	// deferred until then, which run from now on. The term rises with each claim. An engine that knows that a
	// lease's owner ended may end the lease.
	Claim(ctx context.Context, owner string, at, until time.Time) (Job, error)
	// Postpone gives a claimed job a new due time and its progress so far, and
	// ends the lease. A stale lease is ErrConflict and changes nothing.
	Postpone(ctx context.Context, l Lease, due time.Time, p Progress, e []Entry) error
	// Renew extends a lease; a stale one is ErrConflict.
	Renew(ctx context.Context, l Lease, until time.Time) error
	// DropKeys drops the wrapped keys of up to limit executions of a whole tenant
	// that still have theirs, oldest first, takes what was live in them off the
	// counts, and adds it to what the erasure has Fenced, which it returns, and to its
	// plan, unless it is Planned. more: some are left. Any other erasure's fence dropped them: there is nothing to do.
	DropKeys(ctx context.Context, l Lease, limit int) (p Plan, more bool, err error)
	// Tombstone turns up to limit rows of the erasure's scope into tombstones
	// without content facts and subjects, and reports how many rows are left, of which
	// it counts no more than limit: its time does not grow with what is left. A
	// whole execution's tombstones release their repeat tags; refs erased in a
	// living execution keep theirs, and so does what Drop dropped or found erased: there
	// the fence of the execution releases them. Collected rows are no blobs and stay.
	Tombstone(ctx context.Context, l Lease, limit int) (left int, err error)
	// Finish moves the job to erased at at. Of one that only closed its scope it lifts
	// the closing, or, of subjects, makes a suppression of it; while a row in such a
	// scope is neither erased nor expired it is ErrConflict, and of a Fenceable form
	// always. It is ErrConflict when the lease is
	// stale, when rows (or, of a whole tenant, keys) are left, or while an earlier
	// erasure of the whole execution, of its whole tenant, or of a ref that this one
	// names too, has not finished.
	Finish(ctx context.Context, l Lease, p Progress, at time.Time, e []Entry) error
}

// Journal is the outbox of records that must also lie outside the ledger.
type Journal interface {
	// Mark inserts a high-water record if anything was written since the last
	// record of any kind, else it returns the zero record. Written is what has
	// evidence: leases, published records and remembered requests do not count.
	Mark(ctx context.Context, at time.Time) (Record, error)
	// Unpublished returns records not yet published, oldest first.
	Unpublished(ctx context.Context, limit int) ([]Record, error)
	// Published notes that records lie in the journal; an unknown number is
	// ErrNotFound, and then none is noted.
	Published(ctx context.Context, seqs []int64) error
	// Head returns the newest record, or the zero record.
	Head(ctx context.Context) (Record, error)
	// HasRecord reports whether the ledger holds exactly this record.
	HasRecord(ctx context.Context, r Record) (bool, error)
	// Replay applies records that this ledger lost, in order, each once, under
	// their own sequence numbers; new records come after them. A closing comes back with its
	// erasure, which runs again when its grace is over; one that was lifted as a closing
	// comes back lifted, and its erasure cancelled; of one that was lifted as the
	// suppression that it became, the erasure runs again and leaves no suppression. A
	// fence whose erasure is there and has not fenced fences it, and keeps a plan that
	// it has. An erasure whose row was lost comes back without a plan (Planned): what its
	// fence finds now is its plan. A record of this
	// ledger that was never published and has one of their numbers gets a new
	// one behind them. What is lifted or revoked and has no row any
	// more is left out; fences, of tenants too, and erased refs need no row, and
	// their erasures run again, due at once. It is all or nothing: ErrInvalid for records out of
	// order or of an unknown kind, ErrConflict where the ledger published another
	// record under a number.
	Replay(ctx context.Context, rs []Record) error
}

// Deployment is the ledger's own identity and whether it may be trusted.
type Deployment interface {
	// Identity returns the deployment's row; on an empty ledger it inserts one
	// with id (16 random bytes, lowercase hex) first.
	Identity(ctx context.Context, id string) (Identity, error)
	// ConfirmIdentity notes that the store holds the identity object; without an
	// identity it is ErrNotFound.
	ConfirmIdentity(ctx context.Context) error
	// SetRecovery moves the recovery state.
	SetRecovery(ctx context.Context, s RecoveryState, e Entry) error
	// Check reports whether the ledger can write; it is what readiness asks.
	Check(ctx context.Context) error
}

// Requests remembers answers under an idempotency key.
type Requests interface {
	// Begin claims a key, or returns what is there. Entries older than notBefore
	// are as if absent, and so may be running ones whose process ended.
	Begin(ctx context.Context, r Request, notBefore time.Time) (existing Request, found bool, err error)
	// Complete stores the answer, with a status, of a claimed key that still runs
	// with the same body; anything else there is ErrConflict.
	Complete(ctx context.Context, r Request) error
	// Abandon forgets a claimed key whose request failed before it acted;
	// ErrConflict as for Complete.
	Abandon(ctx context.Context, r Request) error
}

// Audit is the append-only evidence table.
type Audit interface {
	// Append inserts an entry of its own, for an act that changes nothing else.
	Append(ctx context.Context, e Entry) error
	// Entries returns entries with id > after, oldest first.
	Entries(ctx context.Context, after int64, limit int) ([]StoredEntry, error)
}

// Maintenance serves verify, recovery and the collector.
type Maintenance interface {
	// ScanBlobs returns all rows in (execution tag, ref) order after a position.
	ScanBlobs(ctx context.Context, after Position, limit int) ([]ScannedBlob, error)
	// EnterMissing inserts a row in state missing for objects that have no row;
	// a ref that has a row, in any state, is left as it is. It returns how many
	// rows were inserted.
	EnterMissing(ctx context.Context, objects []Position, at time.Time) (int, error)
	// AcceptLoss moves missing or live → lost and releases the repeat tag; any
	// other state and an erased execution are ErrConflict, no row is ErrNotFound.
	AcceptLoss(ctx context.Context, tag blobd.ExecutionTag, ref blobd.Ref, at time.Time, e Entry) error
	// Collect inserts a row in state collected for an object without a row, so
	// that a late commit of that ref conflicts. A row in any state is ErrConflict.
	Collect(ctx context.Context, p Position, at time.Time) error
	// Settle makes dropped keys unreadable in the ledger's own files, as far as
	// the engine can, and names what it cannot reach (residuals). SQLite: secure
	// delete and a checked TRUNCATE checkpoint.
	Settle(ctx context.Context) (residuals []string, err error)
	// Stats returns counts for metrics, cheap enough for every scrape.
	Stats(ctx context.Context) (Stats, error)
	// Close ends all use.
	Close() error
}
