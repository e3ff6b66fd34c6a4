package mem

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// FeedState implements ledger.Deliveries.
func (l *Ledger) FeedState(ctx context.Context) (ledger.FeedState, error) {
	if err := l.begin(ctx, "feed state"); err != nil {
		return ledger.FeedState{}, err
	}
	defer l.mu.Unlock()
	s := ledger.FeedState{
		Next: l.hooks.next, Size: int64(len(l.sequence.logged)), Webhooks: len(l.hooks.rows) > 0,
	}
	for _, d := range l.hooks.deliveries {
		if d.State == ledger.DeliveryPending && (s.DueAt.IsZero() || d.DueAt.Before(s.DueAt)) {
			s.DueAt = d.DueAt
		}
	}
	return s, nil
}

// Feed implements ledger.Deliveries.
func (l *Ledger) Feed(ctx context.Context, f ledger.Feed) error {
	if err := f.Check(); err != nil {
		return refuse("feed", err)
	}
	if err := l.begin(ctx, "feed"); err != nil {
		return err
	}
	defer l.mu.Unlock()
	if l.hooks.next != f.From {
		return refuse("feed", fmt.Errorf("the place is %d, not %d: %w", l.hooks.next, f.From, blobd.ErrConflict))
	}
	l.hooks.next = f.To
	for _, e := range f.Events {
		for _, w := range l.hooksOf(e.Tenant) {
			l.feed(w, e, kept(f.At))
		}
	}
	return nil
}

func (l *Ledger) hooksOf(tenant string) (all []*webhook) {
	for _, w := range l.hooks.rows {
		if w.Tenant == tenant {
			all = append(all, w)
		}
	}
	return all
}

// feed inserts a delivery, unless there is one or nobody wants it.
func (l *Ledger) feed(w *webhook, e ledger.Event, at time.Time) {
	t := l.tenants[w.Tenant]
	if t.Fenced() {
		l.removeWebhook(w)
		return
	}
	has := slices.ContainsFunc(l.hooks.deliveries, func(d *ledger.Delivery) bool {
		return d.WebhookID == w.ID && d.EventID == e.ID
	})
	disabled := !w.DisabledAt.IsZero()
	if has || !w.Wants(&e) || disabled && w.Erasure == "" {
		return
	}
	l.hooks.last++
	d := &ledger.Delivery{
		N: l.hooks.last, WebhookID: w.ID, EventID: e.ID, Type: e.Type, Subject: e.Subject, Body: slices.Clone(e.Body),
		State: ledger.DeliveryPending, CreatedAt: at, DueAt: at,
	}
	if disabled {
		d.State, d.LastError, d.DueAt, d.EndedAt = ledger.DeliveryDead, ledger.DeliveryDisabled, time.Time{}, at
	}
	l.hooks.deliveries = append(l.hooks.deliveries, d)
}

// dueFirst returns the delivery of a webhook that is due first, nil if there is
// none.
func (l *Ledger) dueFirst(w *webhook) (first *ledger.Delivery) {
	for _, d := range l.hooks.deliveries {
		if d.WebhookID == w.ID && d.State == ledger.DeliveryPending && (first == nil || d.DueAt.Before(first.DueAt)) {
			first = d
		}
	}
	return first
}

// ClaimDelivery implements ledger.Deliveries.
func (l *Ledger) ClaimDelivery(ctx context.Context, owner string, at, until time.Time) (ledger.DeliveryJob, error) {
	if err := l.begin(ctx, "claim a delivery"); err != nil {
		return ledger.DeliveryJob{}, err
	}
	defer l.mu.Unlock()
	at = kept(at)
	var hook *webhook
	var first *ledger.Delivery
	for _, w := range l.hooks.rows {
		d := l.dueFirst(w)
		switch {
		case d == nil, d.DueAt.After(at), w.held && w.lease.Until.After(at):
		case first == nil, d.DueAt.Before(first.DueAt), d.DueAt.Equal(first.DueAt) && w.ID < hook.ID:
			hook, first = w, d
		}
	}
	if first == nil {
		return ledger.DeliveryJob{}, refuse("claim a delivery", blobd.ErrNotFound)
	}
	hook.held = true
	hook.lease = ledger.DeliveryLease{
		WebhookID: hook.ID, N: first.N, Owner: owner, Term: hook.lease.Term + 1, Until: kept(until),
	}
	return ledger.DeliveryJob{Webhook: hook.shown(), Delivery: shownDelivery(first), Lease: hook.lease}, nil
}

// MoveDelivery implements ledger.Deliveries.
func (l *Ledger) MoveDelivery(ctx context.Context, lease ledger.DeliveryLease, m ledger.DeliveryMove) error {
	const op = "move a delivery"
	if err := m.Check(); err != nil {
		return refuse(op, err)
	}
	if err := l.begin(ctx, op); err != nil {
		return err
	}
	defer l.mu.Unlock()
	w, d := l.hooks.rows[lease.WebhookID], l.delivery(lease.N)
	if w == nil || d == nil || !w.held || w.lease.Owner != lease.Owner || w.lease.Term != lease.Term || w.lease.N != lease.N {
		return refuse(op, fmt.Errorf("the lease is stale: %w", blobd.ErrConflict))
	}
	w.held = false
	d.State, d.Attempts, d.Status, d.LastError = m.To, m.Attempts, m.Status, m.LastError
	if m.To == ledger.DeliveryPending {
		d.DueAt, d.EndedAt = kept(m.Due), time.Time{}
	} else {
		d.DueAt, d.EndedAt = time.Time{}, kept(m.At)
	}
	if m.Disable != "" {
		l.disable(w, kept(m.At), m.Disable)
	}
	if l.wasTold(w) {
		l.removeWebhook(w)
	}
	return nil
}

// wasTold reports whether a callback was told the end of its erasure, and all else
// that it had to be told.
func (l *Ledger) wasTold(w *webhook) bool {
	final := false
	for _, d := range l.hooks.deliveries {
		if d.WebhookID != w.ID {
			continue
		}
		if d.State != ledger.DeliveryDelivered {
			return false
		}
		final = final || slices.Contains(ledger.FinalTypes(), d.Type)
	}
	return final && w.Erasure != ""
}

func (l *Ledger) delivery(n int64) *ledger.Delivery {
	i := slices.IndexFunc(l.hooks.deliveries, func(d *ledger.Delivery) bool { return d.N == n })
	if i < 0 {
		return nil
	}
	return l.hooks.deliveries[i]
}

func (l *Ledger) disable(w *webhook, at time.Time, reason string) {
	w.DisabledAt, w.DisabledFor = at, reason
	for _, d := range l.hooks.deliveries {
		if d.WebhookID == w.ID && d.State == ledger.DeliveryPending {
			d.State, d.LastError, d.DueAt, d.EndedAt = ledger.DeliveryDead, ledger.DeliveryDisabled, time.Time{}, at
		}
	}
}

// ListDeliveries implements ledger.Deliveries.
func (l *Ledger) ListDeliveries(ctx context.Context, q ledger.DeliveryQuery) ([]ledger.Delivery, error) {
	if err := checkLimit("list deliveries", q.Limit); err != nil {
		return nil, err
	}
	if err := l.begin(ctx, "list deliveries"); err != nil {
		return nil, err
	}
	defer l.mu.Unlock()
	w := l.hooks.rows[q.WebhookID]
	if w == nil || w.Tenant != q.Tenant {
		return nil, nil
	}
	var all []ledger.Delivery
	for _, d := range slices.Backward(l.hooks.deliveries) {
		switch {
		case d.WebhookID != w.ID, q.State != "" && d.State != q.State, q.Before > 0 && d.N >= q.Before:
		default:
			all = append(all, shownDelivery(d))
		}
	}
	return cut(all, q.Limit), nil
}

// Redeliver implements ledger.Deliveries.
func (l *Ledger) Redeliver(ctx context.Context, r ledger.Redelivery, e ledger.Entry) (int64, error) {
	w, err := l.hook(ctx, "redeliver", r.Tenant, r.WebhookID)
	if err != nil {
		return 0, err
	}
	defer l.mu.Unlock()
	w.DisabledAt, w.DisabledFor = time.Time{}, ""
	n, since := int64(0), kept(r.Since)
	for _, d := range l.hooks.deliveries {
		again := d.State != ledger.DeliveryDelivered || !since.IsZero() && !d.CreatedAt.Before(since)
		if d.WebhookID != w.ID || !again {
			continue
		}
		d.State, d.Attempts, d.DueAt, d.EndedAt = ledger.DeliveryPending, 0, kept(r.At), time.Time{}
		n++
	}
	l.append(e)
	return n, nil
}

// TrimDeliveries implements ledger.Deliveries.
func (l *Ledger) TrimDeliveries(ctx context.Context, before time.Time, limit int) (removed int, dead int64, err error) {
	if err := checkLimit("trim deliveries", limit); err != nil {
		return 0, 0, err
	}
	if err := l.begin(ctx, "trim deliveries"); err != nil {
		return 0, 0, err
	}
	defer l.mu.Unlock()
	before = kept(before)
	l.hooks.deliveries = slices.DeleteFunc(l.hooks.deliveries, func(d *ledger.Delivery) bool {
		if removed == limit || d.State == ledger.DeliveryPending || !d.EndedAt.Before(before) {
			return false
		}
		removed++
		return true
	})
	for _, d := range l.hooks.deliveries {
		if d.State == ledger.DeliveryDead {
			dead++
		}
	}
	for i, w := range l.callbacksOver(before) {
		if i < limit {
			l.removeWebhook(w)
		}
	}
	return removed, dead, nil
}

// callbacksOver are the callbacks without deliveries whose erasures ended before a
// time.
func (l *Ledger) callbacksOver(before time.Time) (all []*webhook) {
	for _, w := range l.hooks.rows {
		if w.Erasure == "" || slices.ContainsFunc(l.hooks.deliveries, func(d *ledger.Delivery) bool { return d.WebhookID == w.ID }) {
			continue
		}
		if e := l.erasure(w.Erasure); e != nil && !e.EndedAt().IsZero() && e.EndedAt().Before(before) {
			all = append(all, w)
		}
	}
	return all
}
