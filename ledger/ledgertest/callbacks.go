package ledgertest

import (
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// callbackOf is a fence with a callback, the webhook of the same number.
func callbackOf(f ledger.Fence, n int) ledger.Fence {
	w := newWebhook(n, ledger.CallbackTypes()...)
	w.Erasure = f.ID
	f.Callback = &ledger.Callback{Webhook: w, Entry: entry(ledger.EntryWebhook)}
	return f
}

func ofErasure(n int, eventType string, m int) ledger.Event {
	x := typed(n, eventType)
	x.Subject = erasureID(m)
	return x
}

// callbacks are those of an erasure.
func (e *env) callbacks(id int) []string {
	e.Helper()
	ws, err := e.ListWebhooks(e.ctx, ledger.WebhookQuery{Tenant: tenant, Erasure: erasureID(id), Limit: 9})
	e.must(err)
	return idsOf(ws)
}

// ended fences an execution that was never seen, with a callback of the same number, and ends the erasure.
func (e *env) ended(n, when int) {
	e.Helper()
	e.fence(callbackOf(fenceOf(n, 60+n), n))
	e.must(e.Finish(e.ctx, e.claimAt(20).Lease, ledger.Progress{}, at(when), nil))
}

func (e *env) trim(before int) {
	e.Helper()
	_, _, err := e.TrimDeliveries(e.ctx, at(before), 9)
	e.must(err)
}

func callbackSentences() []sentence {
	return append(callbackRowSentences(), callbackEndSentences()...)
}

func callbackRowSentences() []sentence {
	return []sentence{
		{"a callback comes with its erasure, whatever way that goes", func(e *env) {
			e.scene()
			grace := callbackOf(eraseOf(2, executionScope(2)), 2)
			grace.GraceUntil = at(90)
			awaits := callbackOf(eraseOf(4, executionScope(3)), 4)
			awaits.Approvals = 1
			for n, f := range map[int]ledger.Fence{
				1: callbackOf(eraseOf(1, executionScope(1)), 1), 2: grace, 3: callbackOf(eraseOf(3, subjectScope(1)), 3), 4: awaits,
			} {
				before := len(e.entries())
				e.fence(f)
				e.equal("callback", e.webhookRow(n), f.Callback.Webhook)
				es := e.entries()[before:]
				e.equal("entries", []ledger.EntryKind{es[0].Kind, es[1].Kind}, []ledger.EntryKind{ledger.EntryErasure, ledger.EntryWebhook})
				e.fence(f)
				e.equal("entries, asked again", len(e.entries()), before+2)
			}
			e.equal("state", e.feedState().Webhooks, true)
		}},
		{"a repeat of a fence makes no callback", func(e *env) {
			e.fence(callbackOf(fenceOf(1, 1), 1))
			e.fence(callbackOf(fenceOf(1, 1), 2))
			e.equal("callbacks", e.callbacks(1), []string{webhookID(1)})
		}},
		{"an erasure that is refused makes no callback, and a callback that is refused no erasure", func(e *env) {
			e.scene()
			e.hold(1, executionScope(1))
			held := callbackOf(eraseOf(1, executionScope(1)), 1)
			held.Strict = true
			used := callbackOf(eraseOf(2, executionScope(2)), 7)
			e.webhook(7)
			unknown := callbackOf(fenceOf(3, 60), 3)
			unknown.Scope.Tenant, unknown.Callback.Webhook.Tenant = "nobody", "nobody"
			wrong := func(change func(*ledger.Webhook)) ledger.Fence {
				f := callbackOf(eraseOf(4, executionScope(2)), 4)
				change(&f.Callback.Webhook)
				return f
			}
			before := e.whole()
			for _, c := range []struct {
				f    ledger.Fence
				want error
			}{
				{held, blobd.ErrHeld},
				{used, blobd.ErrConflict},
				{unknown, blobd.ErrNotFound},
				{wrong(func(w *ledger.Webhook) { w.Erasure = "" }), blobd.ErrInvalid},
				{wrong(func(w *ledger.Webhook) { w.Erasure = erasureID(9) }), blobd.ErrInvalid},
				{wrong(func(w *ledger.Webhook) { w.Tenant = "beta" }), blobd.ErrInvalid},
				{wrong(func(w *ledger.Webhook) { w.Secret = nil }), blobd.ErrInvalid},
			} {
				_, _, err := e.Fence(e.ctx, c.f)
				e.refused(err, c.want)
			}
			e.equal("the ledger", e.whole(), before)
			for n := range 5 {
				e.equal("callbacks", len(e.callbacks(n)), 0)
			}
			e.equal("the webhook", e.webhookRow(7), newWebhook(7))
		}},
		{"a callback is made with its erasure and in no other way", func(e *env) {
			w := newWebhook(1)
			w.Erasure = erasureID(1)
			e.refused(e.CreateWebhook(e.ctx, w, entry(ledger.EntryWebhook)), blobd.ErrInvalid)
		}},
		{"callbacks are listed by their erasure, and are not counted", func(e *env) {
			for n := range 32 {
				e.webhook(n)
			}
			e.fence(callbackOf(fenceOf(1, 1), 101))
			e.fence(callbackOf(fenceOf(2, 2), 102))
			e.equal("of one erasure", e.callbacks(2), []string{webhookID(102)})
			e.equal("of another", len(e.callbacks(3)), 0)
			e.equal("of no one", len(e.webhooks("", 99)), 32)
			e.must(e.DeleteWebhook(e.ctx, tenant, webhookID(1), entry(ledger.EntryWebhook)))
			e.webhook(1)
			ws, err := e.ListWebhooks(e.ctx, ledger.WebhookQuery{Tenant: "beta", Erasure: erasureID(2), Limit: 9})
			e.must(err)
			e.equal("of another tenant", len(ws), 0)
		}},
		{"a callback is told of its erasure alone", func(e *env) {
			e.webhook(9)
			e.fence(callbackOf(fenceOf(1, 1), 1))
			e.fence(callbackOf(fenceOf(2, 2), 2))
			e.feed(ofErasure(1, ledger.EventErasureRequested, 1), ofErasure(2, ledger.EventErasureRequested, 2), ofErasure(3, ledger.EventErasureErased, 1),
				ofErasure(4, ledger.EventHoldPlaced, 7))
			e.equal("first", subjectsOf(e.deliveries(1)), []string{erasureID(1), erasureID(1)})
			e.equal("second", subjectsOf(e.deliveries(2)), []string{erasureID(2)})
			e.equal("of all", len(e.deliveries(9)), 4)
		}},
	}
}

func callbackEndSentences() []sentence {
	return []sentence{
		{"a callback goes once it was told everything, up to the end of its erasure", func(e *env) {
			for n, final := range []string{ledger.EventErasureErased, ledger.EventErasureDenied, ledger.EventErasureCancelled} {
				fresh := e.fresh()
				fresh.webhook(9, ledger.EventHoldPlaced)
				fresh.fence(callbackOf(fenceOf(n, 1), 1))
				fresh.feed(ofErasure(1, ledger.EventErasureRequested, n), ofErasure(2, ledger.EventErasureDeferred, n))
				fresh.endDelivery(fresh.claimDelivery(), ledger.DeliveryDelivered, 21)
				late := fresh.claimDelivery()
				fresh.moveDelivery(late, ledger.DeliveryMove{To: ledger.DeliveryPending, Due: at(60), Attempts: 1})
				fresh.feed(ofErasure(3, final, n))
				fresh.endDelivery(fresh.claimDelivery(), ledger.DeliveryDelivered, 22)
				fresh.equal("one waits", fresh.callbacks(n), []string{webhookID(1)})
				last, err := fresh.ClaimDelivery(fresh.ctx, "worker", at(60), at(70))
				fresh.must(err)
				fresh.endDelivery(last, ledger.DeliveryDelivered, 61)
				fresh.equal("all was told", len(fresh.callbacks(n)), 0)
				fresh.staleDelivery(last)
				fresh.equal("deliveries", len(fresh.deliveries(1)), 0)
				fresh.nothingDue(at(9000))
				fresh.equal("of no erasure", idsOf(fresh.webhooks("", 9)), []string{webhookID(9)})
			}
		}},
		{"a callback stays until the end of its erasure was told", func(e *env) {
			e.fence(callbackOf(fenceOf(1, 1), 1))
			e.feed(ofErasure(1, ledger.EventErasureRequested, 1), ofErasure(2, ledger.EventErasurePartial, 1))
			e.endDelivery(e.claimDelivery(), ledger.DeliveryDelivered, 21)
			e.endDelivery(e.claimDelivery(), ledger.DeliveryDelivered, 22)
			e.trim(9000)
			e.equal("callbacks", e.callbacks(1), []string{webhookID(1)})
			e.equal("deliveries", len(e.deliveries(1)), 0)
		}},
		{"a webhook of no erasure stays, whatever it was told", func(e *env) {
			e.webhook(1)
			e.feed(event(1))
			e.endDelivery(e.claimDelivery(), ledger.DeliveryDelivered, 21)
			e.trim(9000)
			e.equal("webhooks", idsOf(e.webhooks("", 9)), []string{webhookID(1)})
		}},
		{"a callback with a dead letter stays, and goes once that was replayed", func(e *env) {
			e.fence(callbackOf(fenceOf(1, 1), 1))
			e.feed(ofErasure(1, ledger.EventErasureRequested, 1), ofErasure(2, ledger.EventErasureErased, 1))
			e.endDelivery(e.claimDelivery(), ledger.DeliveryDead, 21)
			e.endDelivery(e.claimDelivery(), ledger.DeliveryDelivered, 22)
			e.equal("callbacks", e.callbacks(1), []string{webhookID(1)})
			_, err := e.Redeliver(e.ctx, ledger.Redelivery{Tenant: tenant, WebhookID: webhookID(1), At: at(15)}, entry(ledger.EntryWebhook))
			e.must(err)
			e.endDelivery(e.claimDelivery(), ledger.DeliveryDelivered, 23)
			e.equal("replayed", len(e.callbacks(1)), 0)
		}},
		{"a callback whose end is dead goes with its dead letters, once its erasure ended long ago", func(e *env) {
			e.ended(1, 40)
			e.feed(ofErasure(1, ledger.EventErasureErased, 1))
			e.moveDelivery(e.claimDelivery(), ledger.DeliveryMove{To: ledger.DeliveryDead, At: at(50), LastError: "gone", Disable: "gone"})
			e.trim(50)
			e.equal("dead letters are there", e.callbacks(1), []string{webhookID(1)})
			e.trim(51)
			e.equal("they are gone", len(e.callbacks(1)), 0)
		}},
		{"what comes to a disabled callback is dead, and told once it is replayed", func(e *env) {
			e.fence(callbackOf(fenceOf(1, 1), 1))
			e.feed(ofErasure(1, ledger.EventErasureRequested, 1))
			e.moveDelivery(e.claimDelivery(), ledger.DeliveryMove{To: ledger.DeliveryDead, At: at(21), LastError: "gone", Disable: "gone"})
			e.feed(ofErasure(2, ledger.EventErasureErased, 1))
			d := e.deliveries(1)[0]
			e.equal("the end", []any{d.Type, d.State, d.LastError, d.Attempts, d.DueAt, d.EndedAt == d.CreatedAt},
				[]any{ledger.EventErasureErased, ledger.DeliveryDead, ledger.DeliveryDisabled, int64(0), time.Time{}, true})
			e.nothingDue(at(9000))
			n, err := e.Redeliver(e.ctx, ledger.Redelivery{Tenant: tenant, WebhookID: webhookID(1), At: at(30)}, entry(ledger.EntryWebhook))
			e.must(err)
			e.equal("replayed", n, int64(2))
			for range 2 {
				j, err := e.ClaimDelivery(e.ctx, "worker", at(31), at(91))
				e.must(err)
				e.endDelivery(j, ledger.DeliveryDelivered, 32)
			}
			e.equal("callbacks", len(e.callbacks(1)), 0)
		}},
		{"a callback that was told nothing stays while its erasure lasts, and some time after", func(e *env) {
			e.scene()
			e.ended(1, 40)
			denied := callbackOf(eraseOf(2, executionScope(2)), 2)
			denied.GraceUntil = at(90)
			e.fence(denied)
			e.fence(callbackOf(eraseOf(3, executionScope(3)), 3))
			e.trim(40)
			e.equal("just ended", e.callbacks(1), []string{webhookID(1)})
			e.trim(41)
			e.equal("ended", len(e.callbacks(1)), 0)
			e.trim(9000)
			e.equal("in its grace", e.callbacks(2), []string{webhookID(2)})
			d := decisionOf(2, ledger.ActDeny, "dan")
			d.At = at(60)
			e.decide(d)
			e.trim(60)
			e.equal("just denied", e.callbacks(2), []string{webhookID(2)})
			e.trim(61)
			e.equal("denied", len(e.callbacks(2)), 0)
			e.equal("running", e.callbacks(3), []string{webhookID(3)})
		}},
		{"the callbacks of an off-boarded tenant go with its webhooks", func(e *env) {
			e.fence(callbackOf(fenceOf(1, 1), 1))
			e.fence(callbackOf(fenceOf(2, 2), 2))
			e.feed(ofErasure(1, ledger.EventErasureRequested, 1))
			e.fence(offboard(3))
			e.feed(ofErasure(2, ledger.EventErasureErased, 2))
			e.equal("first", len(e.callbacks(1)), 0)
			e.equal("second", len(e.callbacks(2)), 0)
			e.nothingDue(at(9000))
		}},
	}
}

func callbacksDurable() sentence {
	return sentence{"a callback outlives the process with its erasure", func(e *env) {
		f := callbackOf(fenceOf(1, 1), 1)
		e.fence(f)
		e.reopen()
		e.equal("erasure", e.erasure(erasureID(1)).State, ledger.ErasureRunning)
		e.equal("callback", e.webhookRow(1), f.Callback.Webhook)
		e.feed(ofErasure(1, ledger.EventErasureErased, 1))
		j, err := e.ClaimDelivery(e.ctx, "worker", e.clock.Now().Add(time.Minute), e.clock.Now().Add(time.Hour))
		e.must(err)
		e.equal("delivery", j.Delivery.Type, ledger.EventErasureErased)
	}}
}
