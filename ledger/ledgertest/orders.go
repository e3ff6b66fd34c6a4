package ledgertest

import (
	"slices"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// fullOrder is an order with something in every field that a caller gives.
func fullOrder(id int, kind ledger.OrderKind, s ledger.Scope) ledger.Order {
	o := orderOf(id, kind, s)
	o.Matter, o.Reason, o.Owner = "matter 7", "a reason", "an owner"
	o.Purposes, o.ReviewAt = []string{"defence", "audit"}, at(500)
	if kind == ledger.OrderSuppression {
		o.ExpiresAt = at(700)
	}
	return o
}

func orderSentences() []sentence {
	return slices.Concat(placeSentences(), liftSentences(), orderListSentences(), countHeldSentences())
}

func placeSentences() []sentence {
	return []sentence{
		{"an order reads back as it was placed, in each form", func(e *env) {
			for i, s := range []ledger.Scope{
				executionScope(1), refScope(1, 3, 1, 2, 1), subjectScope(2, 1), classScope("notes", at(9)), classScope("notes", time.Time{}),
				tenantScope(),
			} {
				for _, kind := range []ledger.OrderKind{ledger.OrderHold, ledger.OrderRestriction} {
					want := fullOrder(10*i+int(kind), kind, s)
					got, _ := e.place(want)
					if len(s.Refs) > 0 {
						want.Scope.Refs = sortedRefs(refOf(1), refOf(2), refOf(3))
					}
					e.equal("answer", got, want)
					e.equal("read", e.order(want.ID), want)
				}
			}
			want := fullOrder(99, ledger.OrderSuppression, subjectScope(1, 2))
			got, _ := e.place(want)
			e.equal("suppression", got, want)
			e.equal("read", e.order(want.ID), want)
		}},
		{"placing returns its journal record, without free text", func(e *env) {
			e.put(1, 1)
			_, r := e.place(fullOrder(1, ledger.OrderHold, refScope(1, 2, 1)))
			want := ledger.Record{
				Seq: 1, Kind: ledger.RecordOrder, At: at(1), Tenant: tenant, Tag: tagOf(1), Refs: sortedRefs(refOf(1), refOf(2)),
				Writes: 1, OrderID: orderID(1), OrderKind: ledger.OrderHold, Form: ledger.ScopeRefs, Purposes: []string{"defence", "audit"},
			}
			e.equal("of refs", r, want)
			e.equal("head", e.head(), want)
			_, r = e.place(orderOf(2, ledger.OrderRestriction, classScope("notes", at(9))))
			e.equal("of a class", r, ledger.Record{
				Seq: 2, Kind: ledger.RecordOrder, At: at(1), Tenant: tenant, Writes: 1, OrderID: orderID(2),
				OrderKind: ledger.OrderRestriction, Form: ledger.ScopeClass, Class: "notes", Before: at(9),
			})
			_, r = e.place(fullOrder(3, ledger.OrderSuppression, subjectScope(1)))
			e.equal("of subjects", r, ledger.Record{
				Seq: 3, Kind: ledger.RecordOrder, At: at(1), Tenant: tenant, Writes: 1, OrderID: orderID(3),
				OrderKind: ledger.OrderSuppression, Form: ledger.ScopeSubjects, Subjects: [][32]byte{subjectOf(1)},
				Purposes: []string{"defence", "audit"}, Until: at(700),
			})
			_, r = e.place(orderOf(4, ledger.OrderHold, tenantScope()))
			e.equal("of a tenant", r, ledger.Record{
				Seq: 4, Kind: ledger.RecordOrder, At: at(1), Tenant: tenant, Tag: tenantTag, Writes: 1, OrderID: orderID(4),
				OrderKind: ledger.OrderHold, Form: ledger.ScopeTenant,
			})
		}},
		{"the evidence of an order is inserted with it, exactly as given", func(e *env) {
			before := len(e.entries())
			x := ledger.Entry{Tenant: tenant, Kind: ledger.EntryOrder, At: at(4), Body: []byte(`{"placed":1}`), FreeText: "why", Salt: []byte("salt")}
			_, _, err := e.PlaceOrder(e.ctx, orderOf(1, ledger.OrderHold, executionScope(1)), x)
			e.must(err)
			es := e.entries()
			e.equal("entries", len(es), before+1)
			e.equal("entry", es[before].Entry, x)
		}},
		{"the same id again changes nothing and returns the order as it stands, with its first record", func(e *env) {
			want, first := e.place(fullOrder(1, ledger.OrderHold, refScope(1, 1, 2)))
			entries := len(e.entries())
			again := orderOf(1, ledger.OrderHold, refScope(1, 2, 1))
			again.PlacedAt, again.Matter = at(9), "another"
			got, r := e.place(again)
			e.equal("order", got, want)
			e.equal("record", r, first)
			e.lift(1, ledger.OrderHold)
			got, r = e.place(again)
			e.equal("once lifted", []any{got.LiftedAt, got.Open()}, []any{at(2), false})
			e.equal("record", r, first)
			e.equal("entries", len(e.entries()), entries+1) // of the lift
			e.equal("head", e.head().Kind, ledger.RecordLift)
		}},
		{"the same id with another kind, tenant or scope is a conflict", func(e *env) {
			e.tenant("beta", 0)
			e.place(orderOf(1, ledger.OrderHold, refScope(1, 1)))
			e.place(orderOf(2, ledger.OrderHold, subjectScope(1)))
			e.place(orderOf(3, ledger.OrderHold, classScope("notes", at(9))))
			head, entries := e.head(), len(e.entries())
			foreign := subjectScope(1)
			foreign.Tenant = "beta"
			for i, o := range []ledger.Order{
				orderOf(1, ledger.OrderRestriction, refScope(1, 1)), orderOf(1, ledger.OrderHold, refScope(1, 1, 2)),
				orderOf(1, ledger.OrderHold, refScope(2, 1)), orderOf(1, ledger.OrderHold, executionScope(1)),
				orderOf(2, ledger.OrderHold, subjectScope(2)), orderOf(2, ledger.OrderHold, foreign),
				orderOf(2, ledger.OrderSuppression, subjectScope(1)), orderOf(2, ledger.OrderHold, tenantScope()),
				orderOf(3, ledger.OrderHold, classScope("notes", at(8))), orderOf(3, ledger.OrderHold, classScope("notes", time.Time{})),
				orderOf(3, ledger.OrderHold, classScope("other", at(9))),
			} {
				if _, _, err := e.PlaceOrder(e.ctx, o, entry(ledger.EntryOrder)); err == nil {
					e.Errorf("order %d was taken", i)
				} else {
					e.refused(err, blobd.ErrConflict)
				}
			}
			e.equal("head", e.head(), head)
			e.equal("entries", len(e.entries()), entries)
		}},
		{"an order that no engine takes is invalid", func(e *env) {
			for i, change := range []func(*ledger.Order){
				func(o *ledger.Order) { o.ID = "" },
				func(o *ledger.Order) { o.Kind = 0 },
				func(o *ledger.Order) { o.Kind = 5 },
				func(o *ledger.Order) { o.Kind = ledger.OrderClosing },
				func(o *ledger.Order) { o.Kind = ledger.OrderSuppression },
				func(o *ledger.Order) { o.ExpiresAt = at(9) },
				func(o *ledger.Order) { o.Scope = ledger.Scope{Tenant: tenant} },
				func(o *ledger.Order) { o.Scope.Tenant = "" },
				func(o *ledger.Order) { o.Scope.Class = "notes" },
				func(o *ledger.Order) { o.Scope.CapturedBefore = at(9) },
				func(o *ledger.Order) { o.Scope.WholeTenant = true },
				func(o *ledger.Order) { o.Scope.Subjects = [][32]byte{subjectOf(1)} },
			} {
				o := orderOf(1, ledger.OrderHold, executionScope(1))
				change(&o)
				if _, _, err := e.PlaceOrder(e.ctx, o, entry(ledger.EntryOrder)); err == nil {
					e.Errorf("change %d was taken", i)
				} else {
					e.refused(err, blobd.ErrInvalid)
				}
			}
			e.equal("head", e.head(), ledger.Record{})
		}},
		{"an order in an unknown tenant is not found, in a fenced one the tenant is erased", func(e *env) {
			s := classScope("notes", time.Time{})
			s.Tenant = "nobody"
			_, _, err := e.PlaceOrder(e.ctx, orderOf(1, ledger.OrderHold, s), entry(ledger.EntryOrder))
			e.refused(err, blobd.ErrNotFound)
			e.fence(offboard(1))
			for i, s := range []ledger.Scope{executionScope(1), refScope(1, 1), subjectScope(1), classScope("notes", at(1)), tenantScope()} {
				_, _, err := e.PlaceOrder(e.ctx, orderOf(i, ledger.OrderHold, s), entry(ledger.EntryOrder))
				e.refused(err, blobd.ErrTenantErased)
			}
		}},
		{"an order over another tenant's execution is a conflict", func(e *env) {
			e.tenant("beta", 0)
			e.beta(1, 1)
			for _, s := range []ledger.Scope{executionScope(1), refScope(1, 1)} {
				_, _, err := e.PlaceOrder(e.ctx, orderOf(1, ledger.OrderRestriction, s), entry(ledger.EntryOrder))
				e.refused(err, blobd.ErrConflict)
			}
			e.equal("state", e.lookup(1, refOf(1)).Execution.State, ledger.ExecutionOpen)
			e.equal("head", e.head(), ledger.Record{})
		}},
		{"an unknown order or another tenant's is not found", func(e *env) {
			e.tenant("beta", 0)
			e.hold(1, executionScope(1))
			for tenantID, id := range map[string]string{"beta": orderID(1), tenant: orderID(2)} {
				_, err := e.Order(e.ctx, tenantID, id)
				e.refused(err, blobd.ErrNotFound)
			}
		}},
	}
}

func liftSentences() []sentence {
	return []sentence{
		{"lifting ends an order, and returns its record", func(e *env) {
			e.put(1, 1)
			for i, kind := range []ledger.OrderKind{ledger.OrderHold, ledger.OrderRestriction, ledger.OrderSuppression} {
				want, _ := e.place(fullOrder(i, kind, subjectScope(1)))
				lift := liftOf(i, kind)
				lift.Reason = "it is over"
				got, r, err := e.LiftOrder(e.ctx, lift, entry(ledger.EntryOrder))
				e.must(err)
				want.LiftedAt, want.LiftedBy, want.LiftReason = at(2), "lifter", "it is over"
				e.equal("answer", got, want)
				e.equal("read", e.order(want.ID), want)
				e.equal("record", r, ledger.Record{
					Seq: int64(2*i + 2), Kind: ledger.RecordLift, At: at(2), Tenant: tenant, OrderID: want.ID, OrderKind: kind, Writes: 1,
				})
			}
		}},
		{"an order that was lifted stays as it is, without a record and evidence", func(e *env) {
			e.hold(1, executionScope(1))
			e.lift(1, ledger.OrderHold)
			entries, head := len(e.entries()), e.head()
			later := liftOf(1, ledger.OrderHold)
			later.At, later.By = at(9), "another"
			got, r, err := e.LiftOrder(e.ctx, later, entry(ledger.EntryOrder))
			e.must(err)
			e.equal("order", []any{got.LiftedAt, got.LiftedBy}, []any{at(2), "lifter"})
			e.equal("record", r, ledger.Record{})
			e.equal("entries", len(e.entries()), entries)
			e.equal("head", e.head(), head)
		}},
		{"the evidence of a lift is inserted with it, exactly as given", func(e *env) {
			e.hold(1, executionScope(1))
			before := len(e.entries())
			x := ledger.Entry{Tenant: tenant, Kind: ledger.EntryOrder, At: at(4), Body: []byte(`{"lifted":1}`), FreeText: "why", Salt: []byte("salt")}
			_, _, err := e.LiftOrder(e.ctx, liftOf(1, ledger.OrderHold), x)
			e.must(err)
			es := e.entries()
			e.equal("entries", len(es), before+1)
			e.equal("entry", es[before].Entry, x)
		}},
		{"an order of another tenant or kind, or an unknown one, is not found", func(e *env) {
			e.tenant("beta", 0)
			e.hold(1, executionScope(1))
			foreign := liftOf(1, ledger.OrderHold)
			foreign.Tenant = "beta"
			for _, lift := range []ledger.Lift{
				foreign, liftOf(1, ledger.OrderRestriction), liftOf(1, ledger.OrderSuppression), liftOf(2, ledger.OrderHold),
			} {
				_, _, err := e.LiftOrder(e.ctx, lift, entry(ledger.EntryOrder))
				e.refused(err, blobd.ErrNotFound)
			}
			e.equal("open", e.order(orderID(1)).LiftedAt, time.Time{})
		}},
		{"a closing is lifted by its erasure alone", func(e *env) {
			e.put(1, 1)
			e.grace(1)
			_, _, err := e.LiftOrder(e.ctx, ledger.Lift{Tenant: tenant, Kind: ledger.OrderClosing, ID: erasureID(801), At: at(2)}, entry(ledger.EntryOrder))
			e.refused(err, blobd.ErrInvalid)
			e.equal("state", e.summary(1).State, ledger.ExecutionClosed)
		}},
		{"an order can be lifted in a fenced tenant", func(e *env) {
			e.place(orderOf(1, ledger.OrderRestriction, subjectScope(1)))
			e.fence(offboard(1))
			e.equal("record", e.lift(1, ledger.OrderRestriction).Kind, ledger.RecordLift)
		}},
	}
}
