package mem

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// facts are what orders and policies need to know of a row.
func (l *Ledger) facts(at ledger.Position, row *ledger.Blob) ledger.DueRow {
	r := ledger.DueRow{
		Position: at, N: l.numbers[at], Class: row.Class, State: row.State, CreatedAt: row.CreatedAt, Size: row.Size,
	}
	if x := l.executions[at.Tag]; x != nil {
		r.ExecutionID, r.EndedAt = x.ID, x.EndedAt
	}
	return r
}

// covers reports whether a scope covers a row of its tenant, or nobody's row.
func (l *Ledger) covers(s *ledger.Scope, r *ledger.DueRow) bool {
	if l.executions[r.Tag] == nil && !s.Form().Bounded() {
		return false
	}
	return s.Covers(r, func(subject [32]byte) bool { return l.subjects[r.Position][subject] })
}

// held reports whether an open hold covers a row of a tenant.
func (l *Ledger) held(tenant string, r *ledger.DueRow) bool {
	return slices.ContainsFunc(l.open[tenant], func(o *order) bool {
		return o.Kind == ledger.OrderHold && l.covers(&o.Scope, r)
	})
}

// closing is the strongest reason of the open orders of a tenant that match.
func (l *Ledger) closing(tenant string, match func(*ledger.Scope) bool) (why ledger.CloseReason) {
	for _, o := range l.open[tenant] {
		reason := o.Kind.Closes()
		if reason != 0 && (why == 0 || reason < why) && match(&o.Scope) {
			why = reason
		}
	}
	return why
}

// closes says why a row of a tenant is closed; 0: it is not.
func (l *Ledger) closes(tenant string, r *ledger.DueRow) ledger.CloseReason {
	return l.closing(tenant, func(s *ledger.Scope) bool { return l.covers(s, r) })
}

// closesWhole says why a whole execution is closed; 0: it is not.
func (l *Ledger) closesWhole(tenant string, tag blobd.ExecutionTag) ledger.CloseReason {
	return l.closing(tenant, func(s *ledger.Scope) bool {
		return s.Form() == ledger.ScopeTenant || s.Form() == ledger.ScopeExecution && s.Tag == tag
	})
}

// closesCapture says why what a capture brings is closed; 0: it is not.
func (l *Ledger) closesCapture(c *ledger.Capture) ledger.CloseReason {
	tagged := func(subject [32]byte) bool { return slices.Contains(c.Subjects, subject) }
	bare := ledger.NewBlob{} // what no blob adds to: the execution, its tenant and the subjects
	return l.closing(c.Tenant, func(s *ledger.Scope) bool {
		return slices.ContainsFunc(append([]ledger.NewBlob{bare}, c.Blobs...), func(b ledger.NewBlob) bool {
			r := ledger.DueRow{Position: ledger.Position{Tag: c.Tag, Ref: b.Ref}, Class: b.Class, CreatedAt: kept(c.At)}
			return s.Covers(&r, tagged)
		})
	})
}

// suppresses reports whether a suppression refuses a capture.
func (l *Ledger) suppresses(c *ledger.Capture) bool {
	return slices.ContainsFunc(l.open[c.Tenant], func(o *order) bool {
		expired := !o.ExpiresAt.IsZero() && !kept(c.SuppressedAsOf()).Before(o.ExpiresAt)
		return o.Kind == ledger.OrderSuppression && !expired && slices.ContainsFunc(o.Scope.Subjects, func(s [32]byte) bool {
			return slices.Contains(c.Subjects, s)
		})
	})
}

// refusal is the error of a put into what is closed.
func refusal(why ledger.CloseReason) error {
	switch why {
	case ledger.ClosedErasure:
		return blobd.ErrClosed
	case ledger.ClosedRestricted:
		return blobd.ErrRestricted
	}
	return nil
}

// inScope returns a row as an erasure of a scope meets it; false: it is not in it, or
// nothing of it is left.
func (l *Ledger) inScope(s *ledger.Scope, at ledger.Position) (ledger.ScopeRow, bool) {
	row, x := l.blobs[at], l.executions[at.Tag]
	if row == nil || row.State == ledger.BlobCollected || tombstone(row) {
		return ledger.ScopeRow{}, false
	}
	if x != nil && x.Tenant != s.Tenant {
		return ledger.ScopeRow{}, false
	}
	r := ledger.ScopeRow{DueRow: l.facts(at, row)}
	if !l.covers(s, &r.DueRow) {
		return ledger.ScopeRow{}, false
	}
	r.Erased = row.State == ledger.BlobErased || l.fenced(s.Tenant) || x != nil && x.State == ledger.ExecutionErased
	r.Held = l.held(s.Tenant, &r.DueRow)
	if s.Form() == ledger.ScopeSubjects {
		for subject := range l.subjects[at] {
			r.Shared = r.Shared || !slices.Contains(s.Subjects, subject)
		}
	}
	return r, true
}

// tombstone reports whether nothing but a row is left.
func tombstone(row *ledger.Blob) bool {
	return (row.State == ledger.BlobErased || row.State == ledger.BlobExpired) && row.Class == ""
}

// rows returns the rows of a scope after a position, in the order of Positions.
func (l *Ledger) rows(s *ledger.Scope, after ledger.Position) (rows []ledger.ScopeRow) {
	for at := range l.blobs {
		if comparePositions(at, after) <= 0 {
			continue
		}
		if r, is := l.inScope(s, at); is {
			rows = append(rows, r)
		}
	}
	slices.SortFunc(rows, func(a, b ledger.ScopeRow) int { return comparePositions(a.Position, b.Position) })
	return rows
}

// protects is ledger.Protects of a row of a tenant.
func (l *Ledger) protects(tenant string, r *ledger.DueRow, now time.Time) (ledger.Verdict, time.Time) {
	return ledger.Protects(r, l.policies[class{tenant, r.Class}], kept(now))
}

// guarded reports whether something in a scope is protected.
func (l *Ledger) guarded(s *ledger.Scope, now time.Time) bool {
	for at := range l.blobs {
		r, is := l.inScope(s, at)
		if !is || r.Erased {
			continue
		}
		if v, _ := l.protects(s.Tenant, &r.DueRow, now); v != ledger.VerdictErase {
			return true
		}
	}
	return false
}

// ours refuses a scope within an execution of another tenant.
func (l *Ledger) ours(s *ledger.Scope) error {
	if x := l.executions[s.Tag]; s.Form().Bounded() && x != nil && x.Tenant != s.Tenant {
		return fmt.Errorf("the execution is another tenant's: %w", blobd.ErrConflict)
	}
	return nil
}

// ScopeRows implements ledger.Closings.
func (l *Ledger) ScopeRows(
	ctx context.Context, s ledger.Scope, after ledger.ScopeCursor, limit int,
) ([]ledger.ScopeRow, ledger.ScopeCursor, error) {
	if err := s.Check(); err != nil {
		return nil, ledger.ScopeCursor{}, refuse("scope rows", err)
	}
	if err := checkLimit("scope rows", limit); err != nil {
		return nil, ledger.ScopeCursor{}, err
	}
	if err := l.begin(ctx, "scope rows"); err != nil {
		return nil, ledger.ScopeCursor{}, err
	}
	defer l.mu.Unlock()
	s = cloneScope(s)
	rows, next := page(l.rows(&s, after.Position), limit)
	return rows, next, nil
}

// page cuts a page off rows, and says where the next one begins.
func page(rows []ledger.ScopeRow, limit int) ([]ledger.ScopeRow, ledger.ScopeCursor) {
	if len(rows) <= limit {
		return rows, ledger.ScopeCursor{}
	}
	return rows[:limit], ledger.ScopeCursor{Position: rows[limit-1].Position}
}
