package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/blobd/blobd/ledger"
)

// DebtReason says why something is past its maximum and still there.
type DebtReason string

// The reasons.
const (
	DebtSweep   DebtReason = "sweep"   // the next sweep takes it
	DebtOverdue DebtReason = "overdue" // likewise, and its slack is over
	DebtHeld    DebtReason = "held"
	DebtFloor   DebtReason = "floor"
	DebtReview  DebtReason = "review"
	DebtObject  DebtReason = "object" // its key is gone; the object store still has it
)

// DebtReasons lists them all.
func DebtReasons() []DebtReason {
	return []DebtReason{DebtSweep, DebtOverdue, DebtHeld, DebtFloor, DebtReview, DebtObject}
}

// Debt is a blob that is past its maximum and still there.
type Debt struct {
	ledger.DueRow
	ExpiredAt time.Time  // the end of its maximum; zero where its key is gone
	OverdueAt time.Time  // that and the slack; zero likewise
	Until     time.Time  // when its floor ends; zero: no floor keeps it
	Policy    int64      // the version that governs it; 0: the default
	Reason    DebtReason // why
}

// DebtCursor is a position in the order of ListDebt; zero is the start.
type DebtCursor struct {
	Class string // "": among what lost its key
	ledger.DueCursor
}

// ListDebt returns what of a tenant is past its maximum and still there, at most
// limit (1 or more) from a position on: first what lost its key, then class by class
// in byte order by the time of capture. next is the position to go on from; nil: that
// was all.
func (s *Store) ListDebt(ctx context.Context, tenant string, after DebtCursor, limit int) (all []Debt, next *DebtCursor, err error) {
	if err := s.serving(); err != nil {
		return nil, nil, fmt.Errorf("debt: %w", err)
	}
	err = s.eachDebt(ctx, tenant, after, func(d Debt) error {
		if len(all) == limit {
			return errEnough
		}
		all = append(all, d)
		at := DebtCursor{DueCursor: d.Cursor()}
		if d.Reason != DebtObject {
			at.Class = d.Class
		}
		next = &at
		return nil
	})
	switch {
	case errors.Is(err, errEnough):
		return all, next, nil
	case err != nil:
		return nil, nil, fmt.Errorf("debt: %w", err)
	}
	return all, nil, nil
}

// errEnough ends a walk early. It never leaves who walks.
var errEnough = errors.New("enough")

// CountDebt counts what of a tenant is past its maximum and still there, by reason.
func (s *Store) CountDebt(ctx context.Context, tenant string) (map[DebtReason]int64, error) {
	counts := make(map[DebtReason]int64)
	err := s.eachDebt(ctx, tenant, DebtCursor{}, func(d Debt) error {
		counts[d.Reason]++
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("debt: %w", err)
	}
	return counts, nil
}

func (s *Store) eachDebt(ctx context.Context, tenant string, after DebtCursor, visit func(Debt) error) error {
	now := s.Now().UTC()
	classes, err := s.classes(ctx, tenant)
	if err != nil {
		return err
	}
	if after.Class == "" {
		q := ledger.DueQuery{Tenant: tenant, Expired: true, After: after.DueCursor}
		err := s.eachDue(ctx, q, func(page []ledger.DueRow) error {
			for i := range page {
				if err := visit(Debt{DueRow: page[i], Reason: DebtObject}); err != nil {
					return err
				}
			}
			return ctx.Err()
		})
		if err != nil {
			return err
		}
		after.DueCursor = ledger.DueCursor{}
	}
	for _, c := range classes {
		from := ledger.DueCursor{}
		switch {
		case c.Name < after.Class:
			continue
		case c.Name == after.Class:
			from = after.DueCursor
		}
		err := s.walkClass(ctx, tenant, c, now, from, func(page []ledger.DueRow) error {
			for i := range page {
				if d, is := debtOf(&page[i], c.Policies, now); is {
					if err := visit(d); err != nil {
						return err
					}
				}
			}
			return ctx.Err()
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func debtOf(r *ledger.DueRow, versions []ledger.Policy, now time.Time) (d Debt, is bool) {
	verdict, end := ledger.Judge(r, versions, now)
	p := ledger.Governing(versions, r.CreatedAt)
	slack := p.Slack
	if slack.IsZero() {
		slack = ledger.DefaultSlack()
	}
	d = Debt{DueRow: *r, ExpiredAt: end, Policy: p.Version, OverdueAt: slack.After(end)}
	switch verdict {
	case ledger.VerdictErase:
		d.Reason = DebtSweep
		if !now.Before(d.OverdueAt) {
			d.Reason = DebtOverdue
		}
	case ledger.VerdictHeld:
		d.Reason = DebtHeld
	case ledger.VerdictFloor:
		d.Reason, d.Until = DebtFloor, p.FloorEnd(r.CreatedAt, r.EndedAt)
	case ledger.VerdictReview:
		d.Reason = DebtReview
	default:
		return d, false
	}
	return d, true
}
