package ledgertest

import (
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

func redeliverySentences() []sentence {
	redeliver := func(e *env, since time.Time) int64 {
		e.Helper()
		n, err := e.Redeliver(e.ctx, ledger.Redelivery{Tenant: tenant, WebhookID: webhookID(1), At: at(60), Since: since}, entry(ledger.EntryWebhook))
		e.must(err)
		return n
	}
	return []sentence{
		{"a replay makes what is dead or waits due at once, and enables the webhook", func(e *env) {
			e.webhook(1)
			e.webhook(2)
			e.feed(event(1), event(2), event(3))
			e.endDelivery(e.claimDelivery(), ledger.DeliveryDelivered, 21)
			waits, other := e.claimDelivery(), e.claimDelivery()
			e.equal("webhooks", []string{waits.Webhook.ID, other.Webhook.ID}, []string{webhookID(1), webhookID(2)})
			e.endDelivery(other, ledger.DeliveryDead, 22)
			e.moveDelivery(waits, ledger.DeliveryMove{To: ledger.DeliveryPending, Due: at(9000), Attempts: 7, LastError: "timeout"})
			last := e.claimDelivery()
			e.moveDelivery(last, ledger.DeliveryMove{To: ledger.DeliveryDead, At: at(23), Attempts: 10, LastError: "gone", Disable: "gone"})
			before := len(e.entries())
			e.equal("how many", redeliver(e, time.Time{}), int64(2))
			e.equal("entries", len(e.entries()), before+1)
			e.equal("enabled", e.webhookRow(1), newWebhook(1))
			ds := e.deliveries(1)
			for _, d := range ds[:2] {
				e.equal("again", []any{d.State, d.Attempts, d.DueAt, d.EndedAt}, []any{ledger.DeliveryPending, int64(0), at(60), time.Time{}})
			}
			e.equal("delivered", ds[2].State, ledger.DeliveryDelivered)
			e.equal("of another webhook", e.deliveries(2)[2].State, ledger.DeliveryDead)
			j, err := e.ClaimDelivery(e.ctx, "worker", at(60), at(70))
			e.must(err)
			e.equal("claimed", j.Delivery.EventID, "event-002")
		}},
		{"a replay since a time takes what was delivered too", func(e *env) {
			e.webhook(1)
			for n := range 3 {
				e.clock.set(at(n))
				e.feed(event(n))
				e.endDelivery(e.claimDelivery(), ledger.DeliveryDelivered, 30)
			}
			e.equal("since", redeliver(e, at(1)), int64(2))
			var states []ledger.DeliveryState
			for _, d := range e.deliveries(1) {
				states = append(states, d.State)
			}
			e.equal("states", states, []ledger.DeliveryState{ledger.DeliveryPending, ledger.DeliveryPending, ledger.DeliveryDelivered})
		}},
		{"a replay of nothing is none", func(e *env) {
			e.webhook(1)
			e.equal("how many", redeliver(e, time.Time{}), int64(0))
			e.nothingDue(at(9000))
		}},
		{"what ended long ago is removed, so many at a time", func(e *env) {
			e.webhook(1)
			e.feed(event(1), event(2), event(3), event(4))
			e.endDelivery(e.claimDelivery(), ledger.DeliveryDelivered, 40)
			e.endDelivery(e.claimDelivery(), ledger.DeliveryDead, 41)
			e.endDelivery(e.claimDelivery(), ledger.DeliveryDead, 42)
			trim := func(before, limit, removed int, dead int64) {
				e.Helper()
				n, left, err := e.TrimDeliveries(e.ctx, at(before), limit)
				e.must(err)
				e.equal("removed", n, removed)
				e.equal("dead", left, dead)
			}
			trim(40, 9, 0, 2)
			trim(9000, 1, 1, 2)
			trim(42, 9, 1, 1)
			trim(9000, 9, 1, 0)
			e.equal("pending", subjectsOf(e.deliveries(1)), []string{erasureID(4)})
			_, _, err := e.TrimDeliveries(e.ctx, at(1), 0)
			e.refused(err, blobd.ErrInvalid)
			e.feed(event(5))
			ds := e.deliveries(1)
			if ds[0].N <= ds[1].N {
				e.Fatalf("numbers %d, %d", ds[0].N, ds[1].N)
			}
		}},
	}
}

func webhooksDurable() sentence {
	return sentence{"webhooks, deliveries and the place in the log outlive the process", func(e *env) {
		w := e.webhook(1, ledger.EventErasureErased)
		e.feed(event(1), event(2), event(3))
		e.endDelivery(e.claimDelivery(), ledger.DeliveryDelivered, 21)
		e.moveDelivery(e.claimDelivery(), ledger.DeliveryMove{To: ledger.DeliveryPending, Due: at(70), Attempts: 3, Status: 500, LastError: "status"})
		j := e.claimDelivery()
		before, state := e.deliveries(1), e.feedState()
		e.reopen()
		e.equal("webhook", e.webhookRow(1), w)
		e.equal("deliveries", e.deliveries(1), before)
		e.equal("state", e.feedState(), state)
		again, err := e.ClaimDelivery(e.ctx, "another", at(30), at(40)) // the lease may be over sooner
		e.must(err)
		e.equal("claimed", again.Delivery, j.Delivery)
		if again.Lease.Term <= j.Lease.Term {
			e.Fatalf("terms %d, %d", j.Lease.Term, again.Lease.Term)
		}
		e.must(e.Feed(e.ctx, ledger.Feed{From: 3, To: 4, At: at(31), Events: []ledger.Event{event(4)}}))
		if ds := e.deliveries(1); ds[0].N <= before[0].N {
			e.Fatalf("numbers %d, %d", before[0].N, ds[0].N)
		}
	}}
}
