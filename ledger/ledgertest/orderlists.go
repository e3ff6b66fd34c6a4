package ledgertest

import (
	"fmt"
	"slices"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

func (e *env) listOrders(q ledger.OrderQuery) (ids []string) {
	e.Helper()
	q.Tenant = tenant
	for {
		page, err := e.ListOrders(e.ctx, q)
		e.must(err)
		if len(page) > q.Limit {
			e.Fatalf("a page of %d", len(page))
		}
		for _, o := range page {
			ids = append(ids, o.ID)
			q.Before = ledger.OrderCursor{PlacedAt: o.PlacedAt, ID: o.ID}
		}
		if len(page) < q.Limit {
			return ids
		}
	}
}

func orderListSentences() []sentence {
	return []sentence{
		{"a tenant's orders of a kind are listed newest first, then by id downwards", func(e *env) {
			e.tenant("beta", 0)
			var want []string
			for i := range 9 {
				o := orderOf(i, ledger.OrderHold, executionScope(i))
				o.PlacedAt = at(i / 3)
				e.place(o)
				want = append(want, o.ID)
			}
			foreign := classScope("notes", time.Time{})
			foreign.Tenant = "beta"
			e.hold(50, foreign)
			e.place(orderOf(51, ledger.OrderRestriction, executionScope(1)))
			slices.Reverse(want)
			for _, limit := range []int{1, 2, 4, 9, 100} {
				e.equal(fmt.Sprintf("order in pages of %d", limit), e.listOrders(ledger.OrderQuery{Kind: ledger.OrderHold, Limit: limit}), want)
			}
			e.equal("restrictions", e.listOrders(ledger.OrderQuery{Kind: ledger.OrderRestriction, Limit: 9}), []string{orderID(51)})
			e.equal("suppressions", len(e.listOrders(ledger.OrderQuery{Kind: ledger.OrderSuppression, Limit: 9})), 0)
		}},
		{"an order is listed as it reads", func(e *env) {
			want := fullOrder(1, ledger.OrderRestriction, refScope(1, 1))
			e.place(want)
			got, err := e.ListOrders(e.ctx, ledger.OrderQuery{Tenant: tenant, Kind: ledger.OrderRestriction, Limit: 9})
			e.must(err)
			e.equal("listed", got, []ledger.Order{want})
		}},
		{"those that were not lifted are selected, expired ones too", func(e *env) {
			for i := range 3 {
				o := orderOf(i, ledger.OrderSuppression, subjectScope(i))
				o.ExpiresAt = at(5)
				e.place(o)
			}
			e.lift(1, ledger.OrderSuppression)
			e.clock.set(at(50))
			q := ledger.OrderQuery{Kind: ledger.OrderSuppression, Limit: 2}
			e.equal("all", e.listOrders(q), []string{orderID(2), orderID(1), orderID(0)})
			q.Open = true
			e.equal("open", e.listOrders(q), []string{orderID(2), orderID(0)})
		}},
		{"a listing without a limit, or of closings, is invalid", func(e *env) {
			_, err := e.ListOrders(e.ctx, ledger.OrderQuery{Tenant: tenant, Kind: ledger.OrderHold})
			e.refused(err, blobd.ErrInvalid)
			_, err = e.ListOrders(e.ctx, ledger.OrderQuery{Tenant: tenant, Kind: ledger.OrderClosing, Limit: 1})
			e.refused(err, blobd.ErrInvalid)
		}},
	}
}

// counted is what CountHeld says of an order.
func (e *env) counted(id int, atMost int64) []int64 {
	e.Helper()
	rows, bytes, err := e.CountHeld(e.ctx, tenant, orderID(id), atMost)
	e.must(err)
	return []int64{rows, bytes}
}

func countHeldSentences() []sentence {
	return []sentence{
		{"the rows that an order covers are counted, and their bytes", func(e *env) {
			e.scene()
			for i, c := range sceneScopes() {
				e.hold(i, c.scope)
				bytes := int64(0)
				for _, n := range c.covered {
					bytes += size(n)
				}
				e.equal(c.form, e.counted(i, 100), []int64{int64(len(c.covered)), bytes})
				e.lift(i, ledger.OrderHold)
				e.equal(c.form+", lifted", e.counted(i, 100), []int64{int64(len(c.covered)), bytes})
			}
		}},
		{"counting stops at a bound, which is at least 1", func(e *env) {
			for n := range 5 {
				b := again(0, n)
				b.Repeat = repeatOf(n)
				e.commit(capture(1, start, b)) // all of one size
			}
			e.hold(1, executionScope(1))
			e.equal("bound", e.counted(1, 3), []int64{3, 3 * size(0)})
			_, _, err := e.CountHeld(e.ctx, tenant, orderID(1), 0)
			e.refused(err, blobd.ErrInvalid)
		}},
		{"what holds no content is not counted", func(e *env) {
			e.maximum("reasoning", 5*second)
			for n := 1; n < 6; n++ {
				e.put(1, n)
			}
			e.put(2, 8)
			e.commit(capture(1, at(6), again(1, 9))) // supersedes
			e.must(e.AcceptLoss(e.ctx, tagOf(1), refOf(2), at(6), entry(ledger.EntryRecovery)))
			e.fence(fenceOf(1, 1, refOf(3)))
			e.fence(fenceOf(2, 2))
			e.clock.set(at(7))
			e.expire(e.sweep(1), 1, position(1, 4))
			_, err := e.EnterMissing(e.ctx, []ledger.Position{position(1, 20)}, at(7))
			e.must(err)
			e.must(e.Collect(e.ctx, position(1, 21), at(7)))
			e.hold(1, tenantScope())
			// superseded 1, its successor 9, lost 2 and live 5
			e.equal("counted", e.counted(1, 100), []int64{4, 2*size(1) + size(2) + size(5)})
		}},
		{"an unknown order or another tenant's is not found", func(e *env) {
			e.tenant("beta", 0)
			e.hold(1, executionScope(1))
			_, _, err := e.CountHeld(e.ctx, "beta", orderID(1), 9)
			e.refused(err, blobd.ErrNotFound)
			_, _, err = e.CountHeld(e.ctx, tenant, orderID(2), 9)
			e.refused(err, blobd.ErrNotFound)
		}},
	}
}
