package api

import (
	"context"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/ledger"
)

// checkHeld refuses a policy that would end the maximum of something held earlier
// than what stands. A hold keeps it from being deleted all the same: this is for
// the person who would be surprised that it cannot be read any more.
func (a *API) checkHeld(ctx context.Context, p ledger.Policy) error {
	if !p.Existing {
		return nil // what is there keeps the version of its capture
	}
	now := a.Now().UTC()
	p.At = now
	p = p.Stored()
	class, err := a.Store.Class(ctx, p.Tenant, p.Class)
	if err != nil || onlyLengthens(&p, class.Policies) {
		return err
	}
	read := a.readOrders(ctx, ledger.OrderQuery{Tenant: p.Tenant, Kind: ledger.OrderHold, Open: true})
	for after := (*ledger.Order)(nil); ; {
		page, err := read(wire.MaxList, after)
		if err != nil {
			return err
		}
		for i := range page {
			shortens, err := a.shortens(ctx, page[i].Scope, &p, class.Policies, now)
			if err != nil {
				return err
			}
			if shortens {
				return blobd.ErrHeld
			}
		}
		if len(page) < wire.MaxList {
			return nil
		}
		after = &page[len(page)-1]
	}
}

// onlyLengthens reports whether a policy ends no maximum earlier than any version
// that governs something, whatever was captured when: then no row need be looked at.
func onlyLengthens(p *ledger.Policy, versions []ledger.Policy) bool {
	for _, s := range ledger.Segments(versions) {
		old := s.Policy
		later := p.Start == old.Start || old.Start == ledger.StartCaptured
		longer := p.Maximum.Months >= old.Maximum.Months && p.Maximum.Days >= old.Maximum.Days && p.Maximum.Time >= old.Maximum.Time
		if !later || !longer {
			return false
		}
	}
	return true
}

// shortens reports whether a policy ends the maximum of something in a scope
// earlier than its versions do. What is past its maximum either way is not cut
// short.
func (a *API) shortens(ctx context.Context, scope ledger.Scope, p *ledger.Policy, versions []ledger.Policy, now time.Time) (bool, error) {
	switch scope.Form() {
	case ledger.ScopeClass:
		if scope.Class != p.Class {
			return false, nil
		}
	case ledger.ScopeTenant:
		scope = ledger.Scope{Tenant: p.Tenant, Class: p.Class}
	}
	for after := (ledger.ScopeCursor{}); ; {
		rows, next, err := a.Ledger.ScopeRows(ctx, scope, after, wire.MaxList)
		if err != nil {
			return false, err
		}
		for i := range rows {
			r := &rows[i]
			if r.Class != p.Class || r.Erased {
				continue
			}
			before, then := ledger.EndOf(versions, r.CreatedAt, r.EndedAt), p.End(r.CreatedAt, r.EndedAt)
			open := before.IsZero() || now.Before(before)
			if open && !then.IsZero() && (before.IsZero() || then.Before(before)) {
				return true, nil
			}
		}
		if next == (ledger.ScopeCursor{}) {
			return false, nil
		}
		after = next
	}
}
