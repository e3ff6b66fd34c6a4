package ledgertest

import (
	"context"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// calls is every method that changes something, on a ledger that prepare made.
func calls(e *env, j ledger.Job) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"CreateTenant": func(ctx context.Context) error {
			return e.CreateTenant(ctx, ledger.Tenant{ID: "beta", CreatedAt: start}, entry(ledger.EntryTenant))
		},
		"SetPolicy": func(ctx context.Context) error {
			return e.SetPolicy(ctx, policyOf("reasoning", second), entry(ledger.EntryPolicy))
		},
		"CreateToken": func(ctx context.Context) error { return e.CreateToken(ctx, tokenOf(2), entry(ledger.EntryToken)) },
		"RevokeToken": func(ctx context.Context) error {
			_, err := e.RevokeToken(ctx, tenant, "token-1", at(1), entry(ledger.EntryToken))
			return err
		},
		"Commit": func(ctx context.Context) error {
			_, err := e.Commit(ctx, capture(1, start, newBlob(9)))
			return err
		},
		"PlaceOrder": func(ctx context.Context) error {
			_, _, err := e.PlaceOrder(ctx, orderOf(9, ledger.OrderHold, executionScope(1)), entry(ledger.EntryOrder))
			return err
		},
		"LiftOrder": func(ctx context.Context) error {
			_, _, err := e.LiftOrder(ctx, liftOf(802, ledger.OrderRestriction), entry(ledger.EntryOrder))
			return err
		},
		"NoteClock": func(ctx context.Context) error {
			return e.NoteClock(ctx, ledger.ClockNote{Seen: start}, []ledger.Entry{entry(ledger.EntryClock)})
		},
		"SetApprovals": func(ctx context.Context) error {
			return e.SetApprovals(ctx, tenant, 2, entry(ledger.EntryTenant))
		},
		"Decide": func(ctx context.Context) error {
			_, _, err := e.Decide(ctx, decisionOf(6, ledger.ActApprove, "ann"))
			return err
		},
		"Replan": func(ctx context.Context) error {
			return e.Replan(ctx, tenant, erasureID(6), ledger.Plan{}, hash("plan", 7), entry(ledger.EntryErasure))
		},
		"FenceClosed": func(ctx context.Context) error {
			_, _, err := e.FenceClosed(ctx, closingLease, at(31), nil)
			return err
		},
		"Drop": func(ctx context.Context) error {
			_, err := e.Drop(ctx, closingLease, dropOf(9))
			return err
		},
		"Defer": func(ctx context.Context) error {
			return e.Defer(ctx, closingLease, at(90), ledger.Progress{Held: 1}, nil)
		},
		"Fence": func(ctx context.Context) error {
			_, _, err := e.Fence(ctx, fenceOf(9, 1))
			return err
		},
		"Fence of the tenant": func(ctx context.Context) error {
			_, _, err := e.Fence(ctx, offboard(8))
			return err
		},
		"DropKeys": func(ctx context.Context) error {
			_, _, err := e.DropKeys(ctx, j.Lease, 10)
			return err
		},
		"Claim": func(ctx context.Context) error {
			_, err := e.Claim(ctx, "other", at(40), at(50))
			return err
		},
		"Postpone": func(ctx context.Context) error {
			return e.Postpone(ctx, j.Lease, at(90), ledger.Progress{Failed: 1}, []ledger.Entry{entry(ledger.EntryErasure)})
		},
		"Renew": func(ctx context.Context) error { return e.Renew(ctx, j.Lease, at(90)) },
		"Tombstone": func(ctx context.Context) error {
			_, err := e.Tombstone(ctx, j.Lease, 10)
			return err
		},
		"Finish": func(ctx context.Context) error { return e.Finish(ctx, j.Lease, ledger.Progress{}, at(90), nil) },
		"Mark": func(ctx context.Context) error {
			_, err := e.Mark(ctx, at(1))
			return err
		},
		"Published": func(ctx context.Context) error { return e.Published(ctx, []int64{1}) },
		"Replay": func(ctx context.Context) error {
			return e.Replay(ctx, []ledger.Record{{
				Seq: 99, Kind: ledger.RecordFence, At: at(1), Tenant: tenant, Tag: tagOf(1), ErasureID: erasureID(99),
			}})
		},
		"Identity": func(ctx context.Context) error {
			_, err := e.Identity(ctx, deployment)
			return err
		},
		"ConfirmIdentity": e.ConfirmIdentity,
		"SetRecovery": func(ctx context.Context) error {
			return e.SetRecovery(ctx, ledger.RecoveryGap, entry(ledger.EntryRecovery))
		},
		"Check": e.Check,
		"Begin": func(ctx context.Context) error {
			_, _, err := e.Begin(ctx, request(1), start)
			return err
		},
		"Complete": func(ctx context.Context) error {
			r := request(2)
			r.Status = 200
			return e.Complete(ctx, r)
		},
		"Abandon": func(ctx context.Context) error { return e.Abandon(ctx, request(2)) },
		"Append":  func(ctx context.Context) error { return e.Append(ctx, entry(ledger.EntryRead)) },
		"ClaimSequencer": func(ctx context.Context) error {
			_, err := e.ClaimSequencer(ctx, "sequencer", at(1), at(90))
			return err
		},
		"AppendToLog": func(ctx context.Context) error {
			return e.AppendToLog(ctx, ledger.SequencerLease{}, ledger.LogAppend{Key: &ledger.LogKey{Verifier: "v"}})
		},
		"EnterMissing": func(ctx context.Context) error {
			_, err := e.EnterMissing(ctx, []ledger.Position{position(1, 20)}, at(1))
			return err
		},
		"AcceptLoss": func(ctx context.Context) error {
			return e.AcceptLoss(ctx, tagOf(1), refOf(1), at(1), entry(ledger.EntryRecovery))
		},
		"Collect": func(ctx context.Context) error { return e.Collect(ctx, position(1, 21), at(1)) },
		"Settle": func(ctx context.Context) error {
			_, err := e.Settle(ctx)
			return err
		},
		"StartEpoch": func(ctx context.Context) error {
			_, err := e.StartEpoch(ctx, newEpoch(9))
			return err
		},
		"ClaimEpoch": func(ctx context.Context) error {
			_, err := e.ClaimEpoch(ctx, "other", at(400), at(500))
			return err
		},
		"MoveEpoch": func(ctx context.Context) error {
			return e.MoveEpoch(ctx, epochLease, ledger.EpochMove{To: ledger.EpochRewrapping, LastError: "moved"})
		},
		"Rewrap": func(ctx context.Context) error {
			_, err := e.Rewrap(ctx, epochLease, []ledger.Rewrap{indexRewrap(2)})
			return err
		},
	}
}

// reads is every method that changes nothing.
func reads(e *env) map[string]func(context.Context) error {
	drop := func(_ any, err error) error { return err }
	return map[string]func(context.Context) error{
		"Tenant":        func(ctx context.Context) error { return drop(e.Tenant(ctx, tenant)) },
		"ListTenants":   func(ctx context.Context) error { return drop(e.ListTenants(ctx, "", 1)) },
		"TokenByHash":   func(ctx context.Context) error { return drop(e.TokenByHash(ctx, tokenOf(1).Hash)) },
		"ListTokens":    func(ctx context.Context) error { return drop(e.ListTokens(ctx, tenant, "", 1)) },
		"Lookup":        func(ctx context.Context) error { return drop(e.Lookup(ctx, tagOf(1), refsOf(1, 2))) },
		"LookupRepeats": func(ctx context.Context) error { return drop(e.LookupRepeats(ctx, tagOf(1), nil)) },
		"Execution":     func(ctx context.Context) error { return drop(e.Execution(ctx, tenant, tagOf(1))) },
		"ListExecutions": func(ctx context.Context) error {
			return drop(e.ListExecutions(ctx, ledger.ExecutionQuery{Tenant: tenant, Limit: 1}))
		},
		"Records": func(ctx context.Context) error {
			return drop(e.Records(ctx, ledger.RecordQuery{Tag: tagOf(1), Limit: 1}))
		},
		"Plan":    func(ctx context.Context) error { return drop(e.Plan(ctx, fenceOf(1, 1).Scope)) },
		"Erasure": func(ctx context.Context) error { return drop(e.Erasure(ctx, tenant, erasureID(3))) },
		"ListErasures": func(ctx context.Context) error {
			return drop(e.ListErasures(ctx, ledger.ErasureQuery{Tenant: tenant, Limit: 1}))
		},
		"ListEpochs": func(ctx context.Context) error {
			return drop(e.ListEpochs(ctx, ledger.EpochQuery{Tenant: tenant, Limit: 1}))
		},
		"Wraps": func(ctx context.Context) error {
			return drop(e.Wraps(ctx, ledger.WrapQuery{Tenant: tenant, Below: 9, Limit: 1}))
		},
		"ErasedRefs": func(ctx context.Context) error { return drop(e.ErasedRefs(ctx, erasureID(3))) },
		"Order":      func(ctx context.Context) error { return drop(e.Order(ctx, tenant, orderID(802))) },
		"ListOrders": func(ctx context.Context) error {
			return drop(e.ListOrders(ctx, ledger.OrderQuery{Tenant: tenant, Kind: ledger.OrderHold, Limit: 1}))
		},
		"CountHeld": func(ctx context.Context) error {
			_, _, err := e.CountHeld(ctx, tenant, orderID(802), 1)
			return err
		},
		"DroppedRows": func(ctx context.Context) error { return drop(e.DroppedRows(ctx, erasureID(5), ledger.Position{}, 1)) },
		"ScopeRows": func(ctx context.Context) error {
			_, _, err := e.ScopeRows(ctx, executionScope(1), ledger.ScopeCursor{}, 1)
			return err
		},
		"Coverage":    func(ctx context.Context) error { return drop(e.Coverage(ctx, tenant)) },
		"FindRef":     func(ctx context.Context) error { return drop(e.FindRef(ctx, tenant, refOf(1), 1)) },
		"Unpublished": func(ctx context.Context) error { return drop(e.Unpublished(ctx, 1)) },
		"Head":        func(ctx context.Context) error { return drop(e.Head(ctx)) },
		"HasRecord":   func(ctx context.Context) error { return drop(e.HasRecord(ctx, ledger.Record{Seq: 1})) },
		"Entries":     func(ctx context.Context) error { return drop(e.Entries(ctx, 0, 1)) },
		"Unsequenced": func(ctx context.Context) error { return drop(e.Unsequenced(ctx, 0, 1)) },
		"Logged": func(ctx context.Context) error {
			return drop(e.Logged(ctx, ledger.LogQuery{Indexes: []int64{0}}))
		},
		"LogState":  func(ctx context.Context) error { return drop(e.LogState(ctx, 0)) },
		"ScanBlobs": func(ctx context.Context) error { return drop(e.ScanBlobs(ctx, ledger.Position{}, 1)) },
		"Stats":     func(ctx context.Context) error { return drop(e.Stats(ctx)) },
	}
}

// prepare makes a ledger on which every call of calls would change something.
func (e *env) prepare() ledger.Job {
	e.Helper()
	e.token(tokenOf(1))
	e.put(1, 1)
	e.put(2, 2)
	e.put(3, 3)
	e.put(4, 4)
	e.put(4, 14)
	e.restrict(2)
	e.begin(request(2), 0)
	e.fence(fenceOf(3, 3))
	e.raised(1, 2)
	e.asked(6, 1, executionScope(1))
	j := e.claim()
	e.hold(803, refScope(4, 14))
	e.fence(eraseOf(5, executionScope(4)))
	closing := e.claim()
	e.equal("lease", closing.Lease, closingLease)
	_, err := e.Drop(e.ctx, closing.Lease, dropOf(9))
	e.must(err)
	return j
}

// closingLease is the lease of the erasure that only closed its scope.
var closingLease = ledger.Lease{ErasureID: erasureID(5), Owner: "worker", Term: 1, Until: at(30)}

// whole is a picture of all that calls change.
type whole struct {
	Picture  picture
	Tokens   []ledger.Token
	Tenants  []ledger.Tenant
	Erasures []ledger.Erasure
	Epochs   []ledger.Epoch
	Wraps    []ledger.Wrap
	Journal  []ledger.Record
	View     ledger.View
	Orders   map[ledger.OrderKind][]ledger.Order
	Closings map[string]ledger.Order
	Dropped  map[string][]ledger.Position
}

func (e *env) whole() whole {
	e.Helper()
	w := whole{Picture: e.picture(), Journal: e.unpublished(), View: e.lookup(1, refOf(1))}
	var err error
	w.Tokens, err = e.ListTokens(e.ctx, tenant, "", 100)
	e.must(err)
	w.Tenants, err = e.ListTenants(e.ctx, "", 100)
	e.must(err)
	w.Epochs, err = e.ListEpochs(e.ctx, ledger.EpochQuery{Tenant: tenant, Limit: 100})
	e.must(err)
	w.Wraps = e.wraps(9)
	w.Erasures, err = e.ListErasures(e.ctx, ledger.ErasureQuery{Tenant: tenant, Limit: 100})
	e.must(err)
	w.Orders, w.Closings, w.Dropped = map[ledger.OrderKind][]ledger.Order{}, map[string]ledger.Order{}, map[string][]ledger.Position{}
	for _, kind := range []ledger.OrderKind{ledger.OrderHold, ledger.OrderRestriction, ledger.OrderSuppression} {
		w.Orders[kind], err = e.ListOrders(e.ctx, ledger.OrderQuery{Tenant: tenant, Kind: kind, Limit: 100})
		e.must(err)
	}
	for _, x := range w.Erasures {
		w.Dropped[x.ID], err = e.DroppedRows(e.ctx, x.ID, ledger.Position{}, 100)
		e.must(err)
		if o, err := e.Order(e.ctx, tenant, x.ID); err == nil {
			w.Closings[x.ID] = o
		} else {
			e.refused(err, blobd.ErrNotFound)
		}
	}
	return w
}

func contextSentences() []sentence {
	return []sentence{
		{"a cancelled context is unavailable and changes nothing", func(e *env) {
			j := e.prepare()
			before := e.whole()
			cancelled, cancel := context.WithCancel(e.ctx)
			cancel()
			for name, call := range calls(e, j) {
				if err := call(cancelled); err == nil {
					e.Errorf("%s took a cancelled context", name)
				} else {
					e.refused(err, blobd.ErrUnavailable)
					e.refused(err, context.Canceled)
				}
				e.equal("the ledger after "+name, e.whole(), before)
			}
			_, found := e.begin(request(2), 0)
			e.equal("the running request", found, true)
		}},
		{"a read with a cancelled context is unavailable", func(e *env) {
			e.prepare()
			cancelled, cancel := context.WithCancel(e.ctx)
			cancel()
			for name, read := range reads(e) {
				if err := read(cancelled); err == nil {
					e.Errorf("%s took a cancelled context", name)
				} else {
					e.refused(err, blobd.ErrUnavailable)
				}
			}
		}},
	}
}
