package ledgertest

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// event is the n-th event, an erasure that was erased.
func event(n int) ledger.Event {
	return ledger.Event{
		Tenant: tenant, ID: fmt.Sprintf("event-%03d", n), Type: ledger.EventErasureErased, Subject: erasureID(n),
		Body: fmt.Appendf(nil, `{"n":%d}`, n),
	}
}

func typed(n int, eventType string) ledger.Event {
	x := event(n)
	x.Type = eventType
	return x
}

func (e *env) feedState() ledger.FeedState {
	e.Helper()
	s, err := e.FeedState(e.ctx)
	e.must(err)
	return s
}

// feed moves the place on by one entry for each event, at the time of the clock.
func (e *env) feed(events ...ledger.Event) {
	e.Helper()
	from := e.feedState().Next
	e.must(e.Feed(e.ctx, ledger.Feed{From: from, To: from + int64(len(events)), At: e.clock.Now(), Events: events}))
}

// deliveries are those of the n-th webhook, newest first.
func (e *env) deliveries(n int) []ledger.Delivery {
	e.Helper()
	ds, err := e.ListDeliveries(e.ctx, ledger.DeliveryQuery{Tenant: tenant, WebhookID: webhookID(n), Limit: 1000})
	e.must(err)
	return ds
}

func subjectsOf(ds []ledger.Delivery) (all []string) {
	for _, d := range ds {
		all = append(all, d.Subject)
	}
	return all
}

func (e *env) claimDelivery() ledger.DeliveryJob {
	e.Helper()
	j, err := e.ClaimDelivery(e.ctx, "worker", at(20), at(30))
	e.must(err)
	return j
}

func (e *env) nothingDue(when time.Time) {
	e.Helper()
	_, err := e.ClaimDelivery(e.ctx, "other", when, when.Add(10*second))
	e.refused(err, blobd.ErrNotFound)
}

func (e *env) moveDelivery(j ledger.DeliveryJob, m ledger.DeliveryMove) {
	e.Helper()
	e.must(e.MoveDelivery(e.ctx, j.Lease, m))
}

func (e *env) endDelivery(j ledger.DeliveryJob, to ledger.DeliveryState, when int) {
	e.Helper()
	e.moveDelivery(j, ledger.DeliveryMove{To: to, At: at(when), Attempts: j.Delivery.Attempts, Status: 200})
}

func (e *env) staleDelivery(j ledger.DeliveryJob) {
	e.Helper()
	e.refused(e.MoveDelivery(e.ctx, j.Lease, ledger.DeliveryMove{To: ledger.DeliveryDead, At: at(90)}), blobd.ErrConflict)
}

func deliverySentences() []sentence {
	return append(feedSentences(), slices.Concat(claimSentences(), redeliverySentences())...)
}

func feedSentences() []sentence {
	return []sentence{
		{"an event becomes one delivery of each webhook that wants it", func(e *env) {
			e.tenant("beta", 0)
			e.webhook(1)
			e.webhook(2, ledger.EventErasureErased, ledger.EventHoldPlaced)
			e.webhook(3, ledger.EventHoldPlaced, ledger.EventSweepFinished)
			other := newWebhook(4)
			other.Tenant = "beta"
			e.must(e.CreateWebhook(e.ctx, other, entry(ledger.EntryWebhook)))
			disabled := newWebhook(5)
			disabled.DisabledAt, disabled.DisabledFor = start, "gone"
			e.must(e.CreateWebhook(e.ctx, disabled, entry(ledger.EntryWebhook)))
			e.clock.set(at(3))
			e.feed(event(1), typed(2, ledger.EventSweepFinished), typed(3, "erasure"))
			ds := e.deliveries(2)
			e.equal("wanted", ds, []ledger.Delivery{{
				N: ds[0].N, WebhookID: webhookID(2), EventID: "event-001", Type: ledger.EventErasureErased, Subject: erasureID(1),
				Body: []byte(`{"n":1}`), State: ledger.DeliveryPending, CreatedAt: at(3), DueAt: at(3),
			}})
			e.equal("all", subjectsOf(e.deliveries(1)), []string{erasureID(3), erasureID(2), erasureID(1)})
			e.equal("another type", subjectsOf(e.deliveries(3)), []string{erasureID(2)})
			ds, err := e.ListDeliveries(e.ctx, ledger.DeliveryQuery{Tenant: "beta", WebhookID: webhookID(4), Limit: 9})
			e.must(err)
			e.equal("of another tenant", len(ds), 0)
			e.equal("disabled", len(e.deliveries(5)), 0)
		}},
		{"an event that a webhook has is passed over", func(e *env) {
			e.webhook(1)
			e.feed(event(1))
			e.webhook(2)
			e.feed(event(1), event(2))
			e.equal("once", subjectsOf(e.deliveries(1)), []string{erasureID(2), erasureID(1)})
			e.equal("the newer webhook", subjectsOf(e.deliveries(2)), []string{erasureID(2), erasureID(1)})
			e.endDelivery(e.claimDelivery(), ledger.DeliveryDelivered, 40)
			e.feed(event(1))
			e.equal("delivered", len(e.deliveries(1)), 2)
		}},
		{"the place in the log moves on by one step at a time", func(e *env) {
			e.webhook(1)
			e.must(e.Feed(e.ctx, ledger.Feed{From: 0, To: 5, At: start, Events: []ledger.Event{event(1)}}))
			e.equal("next", e.feedState().Next, int64(5))
			for _, from := range []int64{0, 4, 6} {
				e.refused(e.Feed(e.ctx, ledger.Feed{From: from, To: from + 9, At: start, Events: []ledger.Event{event(2)}}), blobd.ErrConflict)
			}
			e.refused(e.Feed(e.ctx, ledger.Feed{From: 5, To: 4, At: start, Events: []ledger.Event{event(2)}}), blobd.ErrInvalid)
			e.refused(e.Feed(e.ctx, ledger.Feed{From: -1, To: 4, At: start, Events: []ledger.Event{event(2)}}), blobd.ErrInvalid)
			e.equal("next", e.feedState().Next, int64(5))
			e.equal("deliveries", subjectsOf(e.deliveries(1)), []string{erasureID(1)})
		}},
		{"of two steps from one place one is made", func(e *env) {
			e.webhook(1)
			var wg sync.WaitGroup
			errs := make([]error, 4)
			for i := range errs {
				wg.Go(func() {
					errs[i] = e.Feed(e.ctx, ledger.Feed{From: 0, To: 1, At: start, Events: []ledger.Event{event(i)}})
				})
			}
			wg.Wait()
			made := 0
			for _, err := range errs {
				if err == nil {
					made++
					continue
				}
				e.refused(err, blobd.ErrConflict)
			}
			e.equal("made", made, 1)
			e.equal("deliveries", len(e.deliveries(1)), 1)
		}},
		{"the state tells the place, the size of the log and when something is due", func(e *env) {
			e.equal("at first", e.feedState(), ledger.FeedState{})
			w := e.webhook(1)
			waiting := e.unsequenced(10)
			e.must(e.AppendToLog(e.ctx, e.sequencer("a", 0, 10), logStep(0, ids(waiting)...)))
			size := int64(len(waiting))
			e.equal("a webhook", e.feedState(), ledger.FeedState{Size: size, Webhooks: true})
			e.clock.set(at(4))
			e.feed(event(1))
			e.equal("fed", e.feedState(), ledger.FeedState{Next: 1, Size: size, Webhooks: true, DueAt: at(4)})
			j := e.claimDelivery()
			e.equal("leased", e.feedState().DueAt, at(4))
			e.moveDelivery(j, ledger.DeliveryMove{To: ledger.DeliveryPending, Due: at(70)})
			e.equal("later", e.feedState().DueAt, at(70))
			e.clock.set(at(5))
			e.feed(event(2))
			e.equal("another", e.feedState().DueAt, at(5))
			e.endDelivery(e.claimDelivery(), ledger.DeliveryDelivered, 6)
			e.equal("the first again", e.feedState().DueAt, at(70))
			e.must(e.DeleteWebhook(e.ctx, tenant, w.ID, entry(ledger.EntryWebhook)))
			e.equal("at last", e.feedState(), ledger.FeedState{Next: 2, Size: size})
		}},
		{"the webhooks of a fenced tenant go with the next event", func(e *env) {
			e.tenant("beta", 0)
			e.webhook(1)
			other := newWebhook(2)
			other.Tenant = "beta"
			e.must(e.CreateWebhook(e.ctx, other, entry(ledger.EntryWebhook)))
			theirs := event(1)
			theirs.Tenant = "beta"
			e.feed(event(1), theirs)
			e.fence(offboard(1))
			e.feed(theirs)
			e.equal("another tenant's event", len(e.webhooks("", 9)), 1)
			e.feed(event(2))
			e.equal("webhooks", len(e.webhooks("", 9)), 0)
			e.equal("due", e.claimDelivery().Webhook.ID, webhookID(2))
			e.nothingDue(at(29))
		}},
		{"deliveries are listed newest first, page by page", func(e *env) {
			e.webhook(1)
			e.webhook(2)
			e.feed(event(1), event(2), event(3), event(4))
			e.endDelivery(e.claimDelivery(), ledger.DeliveryDead, 40)
			e.endDelivery(e.claimDelivery(), ledger.DeliveryDelivered, 41)
			list := func(q ledger.DeliveryQuery) []ledger.Delivery {
				e.Helper()
				q.Tenant, q.WebhookID = tenant, webhookID(1)
				ds, err := e.ListDeliveries(e.ctx, q)
				e.must(err)
				return ds
			}
			page := list(ledger.DeliveryQuery{Limit: 2})
			e.equal("first", subjectsOf(page), []string{erasureID(4), erasureID(3)})
			e.equal("rest", subjectsOf(list(ledger.DeliveryQuery{Limit: 9, Before: page[1].N})), []string{erasureID(2), erasureID(1)})
			for state, want := range map[ledger.DeliveryState]int{ledger.DeliveryDead: 1, ledger.DeliveryDelivered: 1, ledger.DeliveryPending: 2} {
				e.equal(string(state), len(list(ledger.DeliveryQuery{Limit: 9, State: state})), want)
			}
			q := ledger.DeliveryQuery{Tenant: "beta", WebhookID: webhookID(1), Limit: 9}
			ds, err := e.ListDeliveries(e.ctx, q)
			e.must(err)
			e.equal("by another tenant", len(ds), 0)
			q.Limit = 0
			_, err = e.ListDeliveries(e.ctx, q)
			e.refused(err, blobd.ErrInvalid)
		}},
	}
}

func claimSentences() []sentence {
	return []sentence{
		{"what has waited longest is leased first, with its webhook", func(e *env) {
			w := e.webhook(1)
			e.feed(event(1), event(2))
			j := e.claimDelivery()
			e.equal("webhook", j.Webhook, w)
			e.equal("delivery", j.Delivery, e.deliveries(1)[1])
			e.equal("lease", j.Lease, ledger.DeliveryLease{WebhookID: w.ID, N: j.Delivery.N, Owner: "worker", Term: 1, Until: at(30)})
			e.moveDelivery(j, ledger.DeliveryMove{To: ledger.DeliveryPending, Due: at(19), Attempts: 1})
			second := e.claimDelivery()
			e.equal("second", second.Delivery.Subject, erasureID(2))
			e.endDelivery(second, ledger.DeliveryDelivered, 40)
			third := e.claimDelivery()
			e.equal("the first again", third.Delivery.Subject, erasureID(1))
			e.equal("term", third.Lease.Term, int64(3))
			e.equal("attempts", third.Delivery.Attempts, int64(1))
		}},
		{"no two deliveries of one webhook are leased at once", func(e *env) {
			e.webhook(1)
			e.webhook(2)
			e.feed(event(1), event(2))
			first, other := e.claimDelivery(), e.claimDelivery()
			e.equal("webhooks", []string{first.Webhook.ID, other.Webhook.ID}, []string{webhookID(1), webhookID(2)})
			e.nothingDue(at(29))
			again, err := e.ClaimDelivery(e.ctx, "worker", at(30), at(60))
			e.must(err)
			e.equal("the same", again.Delivery, first.Delivery)
			e.equal("term", again.Lease.Term, int64(2))
			e.staleDelivery(first)
			for _, wrong := range []func(*ledger.DeliveryLease){
				func(l *ledger.DeliveryLease) { l.Owner = "thief" },
				func(l *ledger.DeliveryLease) { l.N++ },
				func(l *ledger.DeliveryLease) { l.WebhookID = webhookID(2) },
			} {
				stolen := again
				wrong(&stolen.Lease)
				e.staleDelivery(stolen)
			}
			e.equal("as it was", e.deliveries(1)[1], first.Delivery)
			e.endDelivery(again, ledger.DeliveryDelivered, 31)
			e.staleDelivery(again)
		}},
		{"claims at once never get the same delivery", func(e *env) {
			for n := range 6 {
				e.webhook(n)
			}
			e.feed(event(1))
			var mu sync.Mutex
			got := map[int64]int{}
			var wg sync.WaitGroup
			for i := range 6 {
				wg.Go(func() {
					for range 2 {
						j, err := e.ClaimDelivery(e.ctx, fmt.Sprint(i), at(20), at(30))
						if err == nil {
							mu.Lock()
							got[j.Delivery.N]++
							mu.Unlock()
						}
					}
				})
			}
			wg.Wait()
			for n, times := range got {
				e.equal(fmt.Sprint("delivery ", n), times, 1)
			}
			for {
				if _, err := e.ClaimDelivery(e.ctx, "last", at(20), at(30)); err != nil {
					e.refused(err, blobd.ErrNotFound)
					break
				}
				got[-int64(len(got))-1]++
			}
			e.equal("leased", len(got), 6)
		}},
		{"a delivery is not leased before it is due, and never once it ended", func(e *env) {
			e.webhook(1)
			e.clock.set(at(10))
			e.feed(event(1))
			e.nothingDue(at(9))
			j := e.claimDelivery()
			e.moveDelivery(j, ledger.DeliveryMove{To: ledger.DeliveryPending, Due: at(50), Attempts: 1, Status: 503, LastError: "status"})
			d := e.deliveries(1)[0]
			e.equal("postponed", []any{d.State, d.Attempts, d.Status, d.LastError, d.DueAt, d.EndedAt},
				[]any{ledger.DeliveryPending, int64(1), int64(503), "status", at(50), time.Time{}})
			e.nothingDue(at(49))
			for _, to := range []ledger.DeliveryState{ledger.DeliveryDelivered, ledger.DeliveryDead} {
				j, err := e.ClaimDelivery(e.ctx, "worker", at(50), at(60))
				e.must(err)
				e.moveDelivery(j, ledger.DeliveryMove{To: to, At: at(51), Attempts: 2, Status: 200})
				d = e.deliveries(1)[0]
				e.equal("ended", []any{d.State, d.Attempts, d.Status, d.LastError, d.DueAt, d.EndedAt},
					[]any{to, int64(2), int64(200), "", time.Time{}, at(51)})
				e.nothingDue(at(9000))
				e.feed(event(2))
			}
		}},
		{"what a delivery cannot become is invalid", func(e *env) {
			e.webhook(1)
			e.feed(event(1))
			j := e.claimDelivery()
			for _, m := range []ledger.DeliveryMove{{To: "sent"}, {}, {To: ledger.DeliveryPending, Due: at(1), Disable: "gone"}} {
				e.refused(e.MoveDelivery(e.ctx, j.Lease, m), blobd.ErrInvalid)
			}
			e.endDelivery(j, ledger.DeliveryDelivered, 21)
		}},
		{"a disabled webhook is told nothing: what is pending becomes dead", func(e *env) {
			e.webhook(1)
			e.webhook(2)
			e.feed(event(1), event(2))
			j := e.claimDelivery()
			e.moveDelivery(j, ledger.DeliveryMove{To: ledger.DeliveryDead, At: at(21), Attempts: 1, Status: 410, LastError: "gone", Disable: "gone"})
			w := e.webhookRow(1)
			e.equal("disabled", []any{w.DisabledAt, w.DisabledFor}, []any{at(21), "gone"})
			ds := e.deliveries(1)
			e.equal("the one that said so", []any{ds[1].State, ds[1].LastError, ds[1].EndedAt}, []any{ledger.DeliveryDead, "gone", at(21)})
			e.equal("another", []any{ds[0].State, ds[0].LastError, ds[0].EndedAt, ds[0].DueAt},
				[]any{ledger.DeliveryDead, ledger.DeliveryDisabled, at(21), time.Time{}})
			e.feed(event(3))
			e.equal("nothing more", len(e.deliveries(1)), 2)
			e.equal("of another webhook", len(e.deliveries(2)), 3)
			e.equal("claimed", e.claimDelivery().Webhook.ID, webhookID(2))
			e.nothingDue(at(21))
		}},
	}
}
