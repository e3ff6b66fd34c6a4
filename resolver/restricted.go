package resolver

import (
	"context"
	"slices"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// restriction is an open restriction of the reader's tenant.
type restriction struct {
	ledger.Order
	allows bool // the reader's purpose is one of its
	// rows are what of the execution it covers, where it is of subjects and does not
	// allow the purpose; nil: not asked for yet.
	rows map[blobd.Ref]bool
}

const restrictionPage = 500

// permitted reports whether each restriction that covers a row names the reader's
// purpose. It asks the ledger only once something is restricted.
func (s *reading) permitted(ctx context.Context, row *ledger.Blob) (bool, error) {
	if s.restrictions == nil {
		if err := s.listRestrictions(ctx); err != nil {
			return false, err
		}
	}
	named := false
	for i := range s.restrictions {
		r := &s.restrictions[i]
		if r.allows {
			named = true
			continue
		}
		covers, err := s.restricts(ctx, r, row)
		if err != nil || covers {
			return false, err
		}
	}
	return named, nil
}

func (s *reading) listRestrictions(ctx context.Context) error {
	s.restrictions = []restriction{}
	q := ledger.OrderQuery{Tenant: s.tenant.ID, Kind: ledger.OrderRestriction, Open: true, Limit: restrictionPage}
	for {
		page, err := s.ledger.ListOrders(ctx, q)
		if err != nil {
			return err
		}
		for _, o := range page {
			s.restrictions = append(s.restrictions, restriction{Order: o, allows: slices.Contains(o.Purposes, s.q.Purpose)})
			q.Before = ledger.OrderCursor{PlacedAt: o.PlacedAt, ID: o.ID}
		}
		if len(page) < restrictionPage {
			return nil
		}
	}
}

// restricts reports whether a restriction covers a row of the execution; row is nil
// where there is none.
func (s *reading) restricts(ctx context.Context, r *restriction, row *ledger.Blob) (bool, error) {
	at := ledger.DueRow{Position: ledger.Position{Tag: s.tag}}
	if row != nil {
		at.Ref, at.Class, at.CreatedAt = row.Ref, row.Class, row.CreatedAt
	}
	if r.Scope.Form() != ledger.ScopeSubjects {
		return r.Scope.Covers(&at, nil), nil
	}
	if row == nil {
		return false, nil
	}
	if r.rows == nil {
		if err := s.rowsOf(ctx, r); err != nil {
			return false, err
		}
	}
	return r.rows[row.Ref], nil
}

// rowsOf asks which rows of the execution a restriction of subjects covers: a row does
// not tell with whom it is tagged.
func (s *reading) rowsOf(ctx context.Context, r *restriction) error {
	found := make(map[blobd.Ref]bool)
	for after := (ledger.ScopeCursor{}); ; {
		page, next, err := s.ledger.ScopeRows(ctx, r.Scope, after, restrictionPage)
		if err != nil {
			return err
		}
		for i := range page {
			if page[i].Tag == s.tag {
				found[page[i].Ref] = true
			}
		}
		if next == (ledger.ScopeCursor{}) {
			r.rows = found
			return nil
		}
		after = next
	}
}
