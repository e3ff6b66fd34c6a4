package store

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// maxHeldRows bounds the held rows that are remembered to find out which holds of
// subjects keep them. Past it such holds count as keeping something.
const maxHeldRows = 100_000

// keepers finds out which open holds keep rows of a scope. A row says that it is
// held and not by what; of a hold of subjects only its own rows tell.
type keepers struct {
	byTag    map[blobd.ExecutionTag][]*keeper // of an execution, or of refs in it
	wide     []*keeper                        // of a class or the tenant
	subjects []*keeper
	rows     map[ledger.Position]bool // held rows, and whether they were captured by then
	overflow bool
}

// keeper is an open hold.
type keeper struct {
	ledger.Order
	placedSince bool // after the plan was made that is compared
	keeps       bool // some row
	keepsThen   bool // one that was captured by then
}

// counts reports whether the hold is part of the digest.
func (k *keeper) counts() bool { return k.keepsThen || k.placedSince && k.keeps }

// openHolds lists the open holds of a tenant.
func (s *Store) openHolds(ctx context.Context, tenant string, asOf time.Time) (*keepers, error) {
	all := &keepers{byTag: make(map[blobd.ExecutionTag][]*keeper), rows: make(map[ledger.Position]bool)}
	return all, s.eachOpenOrder(ctx, tenant, ledger.OrderHold, func(o *ledger.Order) error {
		k := &keeper{Order: *o, placedSince: o.PlacedAt.After(asOf)}
		switch form := o.Scope.Form(); {
		case form.Bounded():
			all.byTag[o.Scope.Tag] = append(all.byTag[o.Scope.Tag], k)
		case form == ledger.ScopeSubjects:
			all.subjects = append(all.subjects, k)
		default:
			all.wide = append(all.wide, k)
		}
		return nil
	})
}

// held notes a row that is held.
func (k *keepers) held(r *ledger.ScopeRow, then bool) {
	if k == nil {
		return
	}
	for _, some := range [][]*keeper{k.byTag[r.Tag], k.wide} {
		for _, hold := range some {
			if !(hold.keeps && (hold.keepsThen || !then)) && hold.Scope.Covers(&r.DueRow, nil) {
				hold.keeps, hold.keepsThen = true, hold.keepsThen || then
			}
		}
	}
	switch {
	case len(k.subjects) == 0:
	case len(k.rows) < maxHeldRows:
		k.rows[r.Position] = then
	default:
		k.overflow = true
	}
}

// findKeepers asks the holds of subjects for their rows.
func (s *Store) findKeepers(ctx context.Context, k *keepers) error {
	for _, hold := range k.subjects {
		if k.overflow {
			hold.keeps, hold.keepsThen = true, true
			continue
		}
		if len(k.rows) == 0 {
			return nil
		}
		err := s.eachScopeRow(ctx, hold.Scope, func(r *ledger.ScopeRow) error {
			if then, held := k.rows[r.Position]; held {
				hold.keeps, hold.keepsThen = true, hold.keepsThen || then
			}
			if hold.keepsThen {
				return errEnough
			}
			return nil
		})
		if err != nil && !errors.Is(err, errEnough) {
			return err
		}
	}
	return nil
}

// ids are the ids of some holds, sorted.
func (k *keepers) ids(which func(*keeper) bool) (ids []string) {
	add := func(some []*keeper) {
		for _, hold := range some {
			if which(hold) {
				ids = append(ids, hold.ID)
			}
		}
	}
	for _, some := range k.byTag {
		add(some)
	}
	add(k.wide)
	add(k.subjects)
	slices.Sort(ids)
	return ids
}
