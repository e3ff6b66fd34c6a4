package api

import (
	"context"

	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/ledger"
)

// maxTagged bounds the rows of a subject that are looked at to find an execution
// among them. Past it the hold is told: it may protect the execution.
const maxTagged = 10 * wire.MaxList

// holdsOver returns the ids of the open holds that protect something in an
// execution, newest first. A hold of a class is told where the execution has a
// live blob of it.
func (a *API) holdsOver(ctx context.Context, s ledger.Summary) ([]string, error) {
	ids := []string{}
	read := a.readOrders(ctx, ledger.OrderQuery{Tenant: s.Tenant, Kind: ledger.OrderHold, Open: true})
	for after := (*ledger.Order)(nil); ; {
		page, err := read(wire.MaxList, after)
		if err != nil {
			return nil, err
		}
		for i := range page {
			over, err := a.covers(ctx, &page[i].Scope, &s)
			if err != nil {
				return nil, err
			}
			if over {
				ids = append(ids, page[i].ID)
			}
		}
		if len(page) < wire.MaxList {
			return ids, nil
		}
		after = &page[len(page)-1]
	}
}

// covers reports whether a scope of the tenant reaches into an execution.
func (a *API) covers(ctx context.Context, scope *ledger.Scope, x *ledger.Summary) (bool, error) {
	switch scope.Form() {
	case ledger.ScopeTenant:
		return true, nil
	case ledger.ScopeClass:
		before := scope.CapturedBefore
		return x.Classes[scope.Class] > 0 && (before.IsZero() || x.CreatedAt.Before(before)), nil
	case ledger.ScopeSubjects:
		return a.tagged(ctx, scope, x)
	}
	return scope.Tag == x.Tag, nil
}

func (a *API) tagged(ctx context.Context, scope *ledger.Scope, x *ledger.Summary) (bool, error) {
	looked := 0
	for after := (ledger.ScopeCursor{}); looked < maxTagged; {
		rows, next, err := a.Ledger.ScopeRows(ctx, *scope, after, wire.MaxList)
		if err != nil {
			return false, err
		}
		for i := range rows {
			if rows[i].Tag == x.Tag && !rows[i].Erased {
				return true, nil
			}
		}
		if next == (ledger.ScopeCursor{}) {
			return false, nil
		}
		looked += len(rows)
		after = next
	}
	return true, nil
}
