package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// deliveryColumns are scanned by deliveryTo, from webhook_deliveries d.
const deliveryColumns = `d.n, d.webhook, d.event, d.type, d.subject, d.body, d.state, d.attempts, d.status, d.last_error,
	d.created_at, d.due_at, d.ended_at`

func deliveryTo(d *ledger.Delivery) []any {
	return []any{
		&d.N, &d.WebhookID, &d.EventID, &d.Type, &d.Subject, &d.Body, &d.State, &d.Attempts, &d.Status, &d.LastError,
		moment{&d.CreatedAt}, moment{&d.DueAt}, moment{&d.EndedAt},
	}
}

// FeedState implements ledger.Deliveries: one statement, and so one state.
func (l *Ledger) FeedState(ctx context.Context) (ledger.FeedState, error) {
	s, _, err := one(ctx, l, "feed state", func(r pgx.CollectableRow) (s ledger.FeedState, err error) {
		err = r.Scan(&s.Next, &s.Size, &s.Webhooks, moment{&s.DueAt})
		return s, err
	}, `SELECT f.next, l.size, EXISTS (SELECT 1 FROM webhooks), (SELECT min(due_at) FROM webhooks WHERE due_at IS NOT NULL)
		FROM webhook_feed f, evidence_log l`)
	return s, err
}

// Feed implements ledger.Deliveries. A webhook that is to be told of an act was
// committed before it, or a callback with it, and the act before it had an index: the
// statements here see both.
func (l *Ledger) Feed(ctx context.Context, f ledger.Feed) error {
	const op = "feed"
	if err := f.Check(); err != nil {
		return classify(op, err)
	}
	return l.write(ctx, op, func(ctx context.Context, x *tx) error {
		var n int64
		x.count(&n, "UPDATE webhook_feed SET next = $1 WHERE next = $2", f.To, f.From)
		if err := x.flush(ctx); err != nil {
			return err
		}
		if n == 0 {
			return fmt.Errorf("the place is not %d: %w", f.From, blobd.ErrConflict)
		}
		if len(f.Events) == 0 {
			return nil
		}
		tenants, erasures := make([]string, len(f.Events)), []string{""}
		for i := range f.Events {
			tenants[i] = f.Events[i].Tenant
			erasures = append(erasures, f.Events[i].Subject)
		}
		x.exec("SELECT 1 FROM webhooks WHERE tenant = ANY($1::text[]) AND erasure = ANY($2::text[]) ORDER BY id FOR UPDATE", tenants, erasures)
		x.exec(`DELETE FROM webhooks h USING tenants t
			WHERE t.id = h.tenant AND t.fenced_at IS NOT NULL AND h.tenant = ANY($1::text[])`, tenants)
		for i := range f.Events {
			e := &f.Events[i]
			// Of a row that came since the rows were locked the key is shared.
			x.exec(`INSERT INTO webhook_deliveries (webhook, event, type, subject, body, created_at, state, last_error, due_at, ended_at)
				SELECT h.id, $2::text, $3::text, $4::text, $5::bytea, $6::bigint,
					CASE WHEN h.disabled_at IS NULL THEN 'pending' ELSE 'dead' END, CASE WHEN h.disabled_at IS NULL THEN '' ELSE $7::text END,
					CASE WHEN h.disabled_at IS NULL THEN $6::bigint END, CASE WHEN h.disabled_at IS NOT NULL THEN $6::bigint END
				FROM webhooks h
				WHERE h.tenant = $1 AND h.erasure IN ('', $4) AND (h.disabled_at IS NULL OR h.erasure <> '')
					AND (cardinality(h.types) = 0 OR $3::text = ANY(h.types))
				ORDER BY h.id ON CONFLICT DO NOTHING`,
				e.Tenant, e.ID, e.Type, e.Subject, notNull(e.Body), f.At.UnixMicro(), ledger.DeliveryDisabled)
		}
		x.exec("UPDATE webhooks h SET due_at = "+firstDue+" WHERE h.tenant = ANY($1::text[]) AND h.erasure = ANY($2::text[])", tenants, erasures)
		return nil
	})
}

// firstDue is when the first delivery of a row of webhooks h is due.
const firstDue = "(SELECT min(d.due_at) FROM webhook_deliveries d WHERE d.webhook = h.id AND d.state = 'pending')"

// ClaimDelivery implements ledger.Deliveries.
func (l *Ledger) ClaimDelivery(ctx context.Context, owner string, at, until time.Time) (j ledger.DeliveryJob, err error) {
	const op = "claim a delivery"
	found := false
	err = l.write(ctx, op, func(ctx context.Context, x *tx) error {
		j, found = ledger.DeliveryJob{}, false
		x.scan(&found, append(webhookTo(&j.Webhook), &j.Lease.Term),
			`UPDATE webhooks h SET term = term + 1, lease_owner = $1, lease_until = $2
			WHERE id = (SELECT id FROM webhooks WHERE due_at <= $3
				AND (lease_owner IS NULL OR lease_until <= $3) ORDER BY due_at, id LIMIT 1 FOR UPDATE SKIP LOCKED)
			RETURNING `+webhookColumns+", h.term", owner, until.UnixMicro(), at.UnixMicro())
		if err := x.flush(ctx); err != nil || !found {
			return err
		}
		first := false
		x.scan(&first, deliveryTo(&j.Delivery), "SELECT "+deliveryColumns+` FROM webhook_deliveries d
			WHERE d.webhook = $1 AND d.state = 'pending' ORDER BY d.due_at, d.n LIMIT 1`, j.Webhook.ID)
		if err := x.flush(ctx); err != nil {
			return err
		}
		if !first {
			return fmt.Errorf("a webhook is due and has no delivery: %w", blobd.ErrCorrupt)
		}
		x.exec("UPDATE webhooks SET lease_n = $2 WHERE id = $1", j.Webhook.ID, j.Delivery.N)
		return nil
	})
	if err := classifyFound(op, found, err); err != nil {
		return ledger.DeliveryJob{}, err
	}
	j.Lease.WebhookID, j.Lease.N, j.Lease.Owner, j.Lease.Until = j.Webhook.ID, j.Delivery.N, owner, stored(until)
	return j, nil
}

// MoveDelivery implements ledger.Deliveries.
func (l *Ledger) MoveDelivery(ctx context.Context, lease ledger.DeliveryLease, m ledger.DeliveryMove) error {
	const op = "move a delivery"
	if err := m.Check(); err != nil {
		return classify(op, err)
	}
	return l.write(ctx, op, func(ctx context.Context, x *tx) error {
		var held int64
		x.count(&held, `UPDATE webhooks SET lease_owner = NULL, lease_until = NULL, lease_n = NULL
			WHERE id = $1 AND lease_owner = $2 AND term = $3 AND lease_n = $4
				AND EXISTS (SELECT 1 FROM webhook_deliveries WHERE n = $4)`,
			lease.WebhookID, lease.Owner, lease.Term, lease.N)
		if err := x.flush(ctx); err != nil {
			return err
		}
		if held == 0 {
			return fmt.Errorf("the lease is stale: %w", blobd.ErrConflict)
		}
		due, ended := any(nil), any(m.At.UnixMicro())
		if m.To == ledger.DeliveryPending {
			due, ended = m.Due.UnixMicro(), nil
		}
		x.exec(`UPDATE webhook_deliveries SET state = $2, attempts = $3, status = $4, last_error = $5, due_at = $6, ended_at = $7
			WHERE n = $1`, lease.N, string(m.To), m.Attempts, m.Status, m.LastError, due, ended)
		if m.Disable != "" {
			x.exec("UPDATE webhooks SET disabled_at = $2, disabled_for = $3 WHERE id = $1", lease.WebhookID, m.At.UnixMicro(), m.Disable)
			x.exec(`UPDATE webhook_deliveries SET state = 'dead', last_error = $2, due_at = NULL, ended_at = $3
				WHERE webhook = $1 AND state = 'pending'`, lease.WebhookID, ledger.DeliveryDisabled, m.At.UnixMicro())
		}
		x.exec(wasTold, lease.WebhookID)
		x.exec("UPDATE webhooks h SET due_at = "+firstDue+" WHERE h.id = $1", lease.WebhookID)
		return nil
	})
}

// wasTold deletes a callback that was told the end of its erasure, and all else that it
// had to be told.
const wasTold = `DELETE FROM webhooks h WHERE h.id = $1 AND h.erasure <> ''
	AND NOT EXISTS (SELECT 1 FROM webhook_deliveries d WHERE d.webhook = h.id AND d.state <> 'delivered')
	AND EXISTS (SELECT 1 FROM webhook_deliveries d WHERE d.webhook = h.id
		AND d.type IN ('erasure.erased', 'erasure.denied', 'erasure.cancelled'))`

// ListDeliveries implements ledger.Deliveries.
func (l *Ledger) ListDeliveries(ctx context.Context, q ledger.DeliveryQuery) ([]ledger.Delivery, error) {
	const op = "list deliveries"
	if err := checkLimit(op, q.Limit); err != nil {
		return nil, err
	}
	return list(ctx, l, op, func(r pgx.CollectableRow) (d ledger.Delivery, err error) {
		err = r.Scan(deliveryTo(&d)...)
		return d, err
	}, "SELECT "+deliveryColumns+` FROM webhook_deliveries d JOIN webhooks h ON h.id = d.webhook
		WHERE d.webhook = $1 AND h.tenant = $2 AND ($3::text = '' OR d.state = $3::text) AND ($4::bigint = 0 OR d.n < $4::bigint) ORDER BY d.n DESC LIMIT $5`,
		q.WebhookID, q.Tenant, string(q.State), q.Before, q.Limit)
}

// Redeliver implements ledger.Deliveries.
func (l *Ledger) Redeliver(ctx context.Context, r ledger.Redelivery, e ledger.Entry) (n int64, err error) {
	err = l.write(ctx, "redeliver", func(ctx context.Context, x *tx) error {
		var found int64
		n = 0
		x.count(&found, "UPDATE webhooks SET disabled_at = NULL, disabled_for = '' WHERE id = $1 AND tenant = $2", r.WebhookID, r.Tenant)
		err := x.flush(ctx)
		if err := orNotFound(found > 0, err); err != nil {
			return err
		}
		x.count(&n, `UPDATE webhook_deliveries SET state = 'pending', attempts = 0, due_at = $2, ended_at = NULL
			WHERE webhook = $1 AND (state <> 'delivered' OR created_at >= $3::bigint)`, r.WebhookID, r.At.UnixMicro(), micros(r.Since))
		x.exec("UPDATE webhooks h SET due_at = "+firstDue+" WHERE h.id = $1", r.WebhookID)
		x.append(e)
		x.move(counts{entries: 1})
		return nil
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// TrimDeliveries implements ledger.Deliveries. What ended is locked by nobody but
// whoever replays it, and then it is left.
func (l *Ledger) TrimDeliveries(ctx context.Context, before time.Time, limit int) (removed int, dead int64, err error) {
	const op = "trim deliveries"
	if err := checkLimit(op, limit); err != nil {
		return 0, 0, err
	}
	var n int64
	err = l.write(ctx, op, func(_ context.Context, x *tx) error {
		x.count(&n, `DELETE FROM webhook_deliveries WHERE n IN (SELECT n FROM webhook_deliveries
			WHERE ended_at < $1 ORDER BY ended_at LIMIT $2 FOR UPDATE SKIP LOCKED)`, before.UnixMicro(), limit)
		x.exec(`DELETE FROM webhooks WHERE id IN (SELECT h.id FROM webhooks h JOIN erasures e ON e.id = h.erasure
			WHERE h.erasure <> '' AND coalesce(e.erased_at, e.decided_at) < $1
				AND NOT EXISTS (SELECT 1 FROM webhook_deliveries d WHERE d.webhook = h.id)
			LIMIT $2 FOR UPDATE OF h SKIP LOCKED)`, before.UnixMicro(), limit)
		x.scan(nil, []any{&dead}, "SELECT count(*) FROM webhook_deliveries WHERE state = 'dead'")
		return nil
	})
	if err != nil {
		return 0, 0, err
	}
	return int(n), dead, nil
}
