package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/blobd/blobd"
)

// Policies holds the retention policies of classes and what they are about: the
// classes, the start events, and the rows that are past a date.
//
// No change of a policy rewrites a row. A row keeps when it was captured; which
// version governs it, and when its maximum ends, is decided when it is read (see
// Governing and Rule.End).
type Policies interface {
	// SetPolicy adds a version to the policy of a class; the ledger gives its
	// number. What Policy.Check refuses is ErrInvalid, an unknown tenant is
	// ErrNotFound, a fenced one ErrTenantErased. The tenant's deferred erasures become
	// due at p.At, unless they are due before.
	SetPolicy(ctx context.Context, p Policy, e Entry) error
	// Classes returns the classes of a tenant with name > after in byte order:
	// those that have a policy and those that were ever put, with the versions of
	// their policies, newest first. A fenced tenant has none.
	Classes(ctx context.Context, tenant, after string, limit int) ([]Class, error)
	// EndExecution sets when an execution ended, once: one that ended before stays
	// as it is, without an entry. One that was erased is ErrErased, an unknown one and
	// one of another tenant is ErrNotFound.
	EndExecution(ctx context.Context, tenant string, tag blobd.ExecutionTag, at time.Time, e Entry) (Execution, error)
	// Due returns rows of a class that hold content, or whose objects are not
	// known to be gone, by the time of their capture; see DueQuery. The time that
	// it takes grows with what it returns and not with what is stored.
	Due(ctx context.Context, q DueQuery) ([]DueRow, error)
	// CountStored counts the rows that Due could return for a tenant, and stops at
	// atMost (1 or more, else ErrInvalid).
	CountStored(ctx context.Context, tenant string, atMost int64) (int64, error)
}

// StartEvent says what starts a blob's period.
type StartEvent uint8

// The start events. Values are stored: never renumber.
const (
	// StartCaptured: the first capture of the bytes.
	StartCaptured StartEvent = 0
	// StartEnded: the end of the execution, or the capture if that came later. An
	// execution that has not ended has started nothing.
	StartEnded StartEvent = 1
)

// String returns the contract's word.
func (s StartEvent) String() string {
	if s == StartEnded {
		return "executionEnded"
	}
	return "captured"
}

// OnExpiry says what a sweep does with what is past its maximum. Reads are null
// either way.
type OnExpiry uint8

// What follows the end of a period. Values are stored: never renumber.
const (
	ExpiryErase  OnExpiry = 0
	ExpiryReview OnExpiry = 1 // a person decides
)

// String returns the contract's word.
func (o OnExpiry) String() string {
	if o == ExpiryReview {
		return "review"
	}
	return "erase"
}

// Rule is what a policy says of the blobs that it governs.
type Rule struct {
	Start StartEvent
	// Maximum is how long a blob may be kept from its start; from its end on reads
	// are null.
	Maximum Period
	// Floor is how long a blob must be kept from its start, and LegalBasis why.
	// A floor past the maximum blocks: nobody can read, nothing deletes.
	Floor      Period
	LegalBasis string
	// Slack is how long after the maximum a sweep may take; zero: DefaultSlack. It
	// moves no date: what is past both and still there is overdue.
	Slack    Period
	OnExpiry OnExpiry
}

// DefaultMaximum bounds what has no policy: a year.
const DefaultMaximum = 12 // months

// DefaultRule is the rule of a class without a policy.
func DefaultRule() Rule { return Rule{Maximum: Period{Months: DefaultMaximum}} }

// DefaultSlack is the slack of a rule that names none: a day.
func DefaultSlack() Period { return Period{Days: 1} }

// begins returns when the period starts, zero while the start event has not come.
func (r *Rule) begins(captured, ended time.Time) time.Time {
	if r.Start == StartCaptured || !ended.IsZero() && ended.Before(captured) {
		return captured
	}
	return ended
}

// End returns the end of a blob's maximum; zero while its start event has not
// come. ended is when its execution ended, zero if it has not.
func (r *Rule) End(captured, ended time.Time) time.Time {
	start := r.begins(captured, ended)
	if start.IsZero() {
		return time.Time{}
	}
	return r.Maximum.After(start)
}

// FloorEnd returns the end of a blob's floor; zero where there is none, or its start
// event has not come.
func (r *Rule) FloorEnd(captured, ended time.Time) time.Time {
	start := r.begins(captured, ended)
	if r.Floor.IsZero() || start.IsZero() {
		return time.Time{}
	}
	return r.Floor.After(start)
}

// Policy is one version of the policy of a class.
type Policy struct {
	Tenant string
	Class  string
	// Version is given by the ledger and rises with every policy of every tenant,
	// with gaps; 0 is the default, which is no version.
	Version int64
	At      time.Time // when it was set
	// Existing says that it governs blobs captured before At too. Without, they
	// keep the version of their capture.
	Existing bool
	// Removed says that the class goes back to the default; Rule is then that.
	Removed bool
	By      string // token id
	Rule
}

// Check refuses what no engine takes, as ErrInvalid.
func (p *Policy) Check() error {
	for what, period := range map[string]Period{"period": p.Maximum, "floor": p.Floor, "slack": p.Slack} {
		if err := period.Check(); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	switch {
	case p.Class == "":
		return fmt.Errorf("no class: %w", blobd.ErrInvalid)
	case p.Maximum.IsZero() && !p.Removed:
		return fmt.Errorf("no maximum period: %w", blobd.ErrInvalid)
	case p.Floor.IsZero() != (p.LegalBasis == ""):
		return fmt.Errorf("a floor and its legal basis come together: %w", blobd.ErrInvalid)
	case p.Start > StartEnded, p.OnExpiry > ExpiryReview:
		return fmt.Errorf("start event %d, on expiry %d: %w", p.Start, p.OnExpiry, blobd.ErrInvalid)
	}
	return nil
}

// Stored returns the policy as every engine keeps it: a removed one has the rule
// of the default.
func (p Policy) Stored() Policy {
	if p.Removed {
		p.Rule = DefaultRule()
	}
	p.At = time.UnixMicro(p.At.UnixMicro()).UTC()
	return p
}

// Class is a class of a tenant.
type Class struct {
	Name     string
	Policies []Policy // newest first
}

// Governing returns the version that governs what was captured at a time: the
// newest that was set no later, or that touches what existed. It is the default
// where there is none. Versions are newest first, of one class.
func Governing(versions []Policy, captured time.Time) Policy {
	for i := range versions {
		if versions[i].governs(captured) {
			return versions[i]
		}
	}
	return Policy{Rule: DefaultRule()}
}

func (p *Policy) governs(captured time.Time) bool { return p.Existing || !captured.Before(p.At) }

// EndOf is the end of the maximum of a blob under the versions of its class.
func EndOf(versions []Policy, captured, ended time.Time) time.Time {
	for i := range versions { // without a copy: every read comes by here
		if versions[i].governs(captured) {
			return versions[i].End(captured, ended)
		}
	}
	rule := DefaultRule()
	return rule.End(captured, ended)
}

// UpTo returns the versions up to a number, as they stood when it was the newest.
func UpTo(versions []Policy, version int64) []Policy {
	for len(versions) > 0 && versions[0].Version > version {
		versions = versions[1:]
	}
	return versions
}

// Segment is a span of captures that one version governs.
type Segment struct {
	Policy Policy
	From   time.Time // zero: from the first
	To     time.Time // not included; zero: without an end
}

// Segments returns what each version of a class governs, newest first. Together
// they are all of time.
func Segments(versions []Policy) []Segment {
	var segments []Segment
	to := time.Time{}
	for _, p := range versions {
		switch {
		case p.Existing:
			return append(segments, Segment{Policy: p, To: to})
		case to.IsZero() || p.At.Before(to):
			segments = append(segments, Segment{Policy: p, From: p.At, To: to})
			to = p.At
		}
	}
	return append(segments, Segment{Policy: Policy{Rule: DefaultRule()}, To: to})
}

// DueQuery selects rows of one class of a tenant by capture time, oldest first.
// Rows of executions that are erased are left out: they are an erasure's.
type DueQuery struct {
	Tenant string
	Class  string
	From   time.Time // captured at or after; zero: from the first
	To     time.Time // captured before; zero: to the last
	// Expired selects, in place of a class and a span, the rows of every class that
	// were expired and not buried, by their numbers: After.N is the last one told.
	Expired bool
	After   DueCursor
	Limit   int
}

// DueCursor is a position in the order of a DueQuery; zero is the start.
type DueCursor struct {
	CreatedAt time.Time
	N         int64
}

// DueRow is what retention needs to know of a row.
type DueRow struct {
	Position
	N int64 // the ledger's own number, for the cursor
	// ExecutionID is that of its execution.
	ExecutionID string
	Class       string
	State       BlobState // live, superseded, lost, or expired
	CreatedAt   time.Time
	EndedAt     time.Time // of its execution; zero: not ended
	Size        int64     // readable bytes
	Held        bool      // a hold covers it
}

// Cursor is the row's place.
func (r *DueRow) Cursor() DueCursor { return DueCursor{r.CreatedAt, r.N} }

// Verdict is what retention says of a row.
type Verdict uint8

// The verdicts, and what they mean for a sweep.
const (
	VerdictKeep    Verdict = iota // not past its maximum
	VerdictWaiting                // the period would be over, but its start event has not come
	VerdictErase                  // past its maximum: goes
	VerdictHeld                   // past it, and a hold keeps it
	VerdictFloor                  // past it, and a legal floor keeps it
	VerdictReview                 // past it, and a person decides
)

// Sweepable reports whether rows in a state are retention's at all. Expired rows
// lost their keys to a sweep that has not seen their objects gone yet.
func (s BlobState) Sweepable() bool {
	return s == BlobLive || s == BlobSuperseded || s == BlobLost || s == BlobExpired
}

// Judge is the one place that decides what retention does with a row: a pure
// function of the row, the versions of its class (newest first) and a time. Every
// deleting transaction of retention asks it again with the row that it has locked,
// so what protects a row, a hold too, protects it here. end is the end of its
// maximum, zero where it has none.
//
// The order is: hold, floor, review, maximum.
func Judge(r *DueRow, versions []Policy, now time.Time) (v Verdict, end time.Time) {
	if r.State == BlobExpired { // decided before; only its object may be left
		return VerdictErase, time.Time{}
	}
	p := Governing(versions, r.CreatedAt)
	start := p.begins(r.CreatedAt, r.EndedAt)
	if start.IsZero() {
		if now.Before(p.Maximum.After(r.CreatedAt)) {
			return VerdictKeep, time.Time{}
		}
		return VerdictWaiting, time.Time{}
	}
	end = p.Maximum.After(start)
	switch {
	case now.Before(end):
		return VerdictKeep, end
	case r.Held:
		return VerdictHeld, end
	case !p.Floor.IsZero() && now.Before(p.Floor.After(start)):
		return VerdictFloor, end
	case p.OnExpiry == ExpiryReview:
		return VerdictReview, end
	}
	return VerdictErase, end
}
