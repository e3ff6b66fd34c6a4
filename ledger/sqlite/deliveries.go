package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// deliveryColumns are read by row.delivery, from webhook_deliveries.
const deliveryColumns = `n, webhook, event, type, subject, body, state, attempts, status, last_error, created_at, due_at, ended_at`

func (r *row) delivery() ledger.Delivery {
	return ledger.Delivery{
		N: r.int(0), WebhookID: r.text(1), EventID: r.text(2), Type: r.text(3), Subject: r.text(4), Body: r.bytes(5),
		State: ledger.DeliveryState(r.text(6)), Attempts: r.int(7), Status: r.int(8), LastError: r.text(9),
		CreatedAt: r.time(10), DueAt: r.time(11), EndedAt: r.time(12),
	}
}

// FeedState implements ledger.Deliveries.
func (l *Ledger) FeedState(ctx context.Context) (s ledger.FeedState, err error) {
	err = l.read(ctx, "feed state", func(c *conn) error {
		_, err := c.one(ctx, `SELECT f.next, l.size, EXISTS (SELECT 1 FROM webhooks), (SELECT min(due_at) FROM webhooks WHERE due_at IS NOT NULL)
			FROM webhook_feed f, evidence_log l`,
			func(r *row) {
				s = ledger.FeedState{Next: r.int(0), Size: r.int(1), Webhooks: r.bool(2), DueAt: r.time(3)}
			})
		return err
	})
	return s, err
}

// Feed implements ledger.Deliveries.
func (l *Ledger) Feed(ctx context.Context, f ledger.Feed) error {
	if err := f.Check(); err != nil {
		return classify("feed", err)
	}
	return l.write(ctx, "feed", func(w *conn) error {
		n, err := w.exec(ctx, "UPDATE webhook_feed SET next = ? WHERE next = ?", f.To, f.From)
		if err != nil {
			return err
		}
		if n == 0 {
			return fmt.Errorf("the place is not %d: %w", f.From, blobd.ErrConflict)
		}
		for _, e := range f.Events {
			if err := feed(ctx, w, e, f.At); err != nil {
				return err
			}
		}
		return nil
	})
}

func feed(ctx context.Context, w *conn, e ledger.Event, at time.Time) error {
	_, err := w.exec(ctx, `DELETE FROM webhooks WHERE tenant = ?
		AND EXISTS (SELECT 1 FROM tenants WHERE id = ? AND fenced_at IS NOT NULL)`, e.Tenant, e.Tenant)
	if err != nil {
		return err
	}
	_, err = w.exec(ctx, `INSERT INTO webhook_deliveries (webhook, event, type, subject, body, created_at, state, last_error, due_at, ended_at)
		SELECT id, ?, ?, ?, ?, ?, iif(disabled_at IS NULL, 'pending', 'dead'), iif(disabled_at IS NULL, '', ?),
			iif(disabled_at IS NULL, ?, NULL), iif(disabled_at IS NULL, NULL, ?)
		FROM webhooks WHERE tenant = ? AND erasure IN ('', ?) AND (disabled_at IS NULL OR erasure <> '')
			AND (types = '' OR instr(' ' || types || ' ', ' ' || ? || ' ') > 0)
		ORDER BY id ON CONFLICT DO NOTHING`,
		e.ID, e.Type, e.Subject, notNull(e.Body), at.UnixMicro(), ledger.DeliveryDisabled, at.UnixMicro(), at.UnixMicro(),
		e.Tenant, e.Subject, e.Type)
	if err != nil {
		return err
	}
	_, err = w.exec(ctx, "UPDATE webhooks SET due_at = "+firstDue+" WHERE tenant = ? AND erasure IN ('', ?)", e.Tenant, e.Subject)
	return err
}

// firstDue is when the first delivery of a row of webhooks is due.
const firstDue = "(SELECT min(d.due_at) FROM webhook_deliveries d WHERE d.webhook = webhooks.id AND d.state = 'pending')"

// ClaimDelivery implements ledger.Deliveries.
func (l *Ledger) ClaimDelivery(ctx context.Context, owner string, at, until time.Time) (j ledger.DeliveryJob, err error) {
	err = l.write(ctx, "claim a delivery", func(w *conn) error {
		found, err := w.one(ctx, `UPDATE webhooks SET term = term + 1, lease_owner = ?, lease_until = ?
			WHERE seq = (SELECT seq FROM webhooks WHERE due_at <= ?
				AND (lease_owner IS NULL OR lease_until <= ?) ORDER BY due_at, id LIMIT 1)
			RETURNING `+webhookColumns+", term",
			func(r *row) {
				j.Webhook = r.webhook()
				j.Lease = ledger.DeliveryLease{WebhookID: j.Webhook.ID, Owner: owner, Term: r.int(webhookColumnCount), Until: stored(until)}
			}, owner, until.UnixMicro(), at.UnixMicro(), at.UnixMicro())
		if err := orNotFound(found, err); err != nil {
			return err
		}
		found, err = w.one(ctx, "SELECT "+deliveryColumns+` FROM webhook_deliveries
			WHERE webhook = ? AND state = 'pending' ORDER BY due_at, n LIMIT 1`,
			func(r *row) { j.Delivery = r.delivery() }, j.Webhook.ID)
		if err != nil {
			return err
		}
		if !found {
			return fmt.Errorf("a webhook is due and has no delivery: %w", blobd.ErrCorrupt)
		}
		j.Lease.N = j.Delivery.N
		_, err = w.exec(ctx, "UPDATE webhooks SET lease_n = ? WHERE id = ?", j.Lease.N, j.Webhook.ID)
		return err
	})
	if err != nil {
		return ledger.DeliveryJob{}, err
	}
	return j, nil
}

// MoveDelivery implements ledger.Deliveries.
func (l *Ledger) MoveDelivery(ctx context.Context, lease ledger.DeliveryLease, m ledger.DeliveryMove) error {
	if err := m.Check(); err != nil {
		return classify("move a delivery", err)
	}
	return l.write(ctx, "move a delivery", func(w *conn) error {
		n, err := w.exec(ctx, `UPDATE webhooks SET lease_owner = NULL, lease_until = NULL, lease_n = NULL
			WHERE id = ? AND lease_owner = ? AND term = ? AND lease_n = ?
				AND EXISTS (SELECT 1 FROM webhook_deliveries WHERE n = ?)`,
			lease.WebhookID, lease.Owner, lease.Term, lease.N, lease.N)
		if err != nil {
			return err
		}
		if n == 0 {
			return fmt.Errorf("the lease is stale: %w", blobd.ErrConflict)
		}
		due, ended := any(nil), any(m.At.UnixMicro())
		if m.To == ledger.DeliveryPending {
			due, ended = m.Due.UnixMicro(), nil
		}
		_, err = w.exec(ctx, `UPDATE webhook_deliveries SET state = ?, attempts = ?, status = ?, last_error = ?, due_at = ?, ended_at = ?
			WHERE n = ?`, string(m.To), m.Attempts, m.Status, m.LastError, due, ended, lease.N)
		if err != nil {
			return err
		}
		if m.Disable != "" {
			if err := disable(ctx, w, lease.WebhookID, m.At, m.Disable); err != nil {
				return err
			}
		}
		gone, err := w.exec(ctx, wasTold, lease.WebhookID)
		if err != nil || gone > 0 {
			return err
		}
		return setDue(ctx, w, lease.WebhookID)
	})
}

// wasTold deletes a callback that was told the end of its erasure, and all else that it
// had to be told.
const wasTold = `DELETE FROM webhooks WHERE id = ? AND erasure <> ''
	AND NOT EXISTS (SELECT 1 FROM webhook_deliveries d WHERE d.webhook = webhooks.id AND d.state <> 'delivered')
	AND EXISTS (SELECT 1 FROM webhook_deliveries d WHERE d.webhook = webhooks.id
		AND d.type IN ('erasure.erased', 'erasure.denied', 'erasure.cancelled'))`

func disable(ctx context.Context, w *conn, id string, at time.Time, reason string) error {
	_, err := w.exec(ctx, "UPDATE webhooks SET disabled_at = ?, disabled_for = ? WHERE id = ?", at.UnixMicro(), reason, id)
	if err != nil {
		return err
	}
	_, err = w.exec(ctx, `UPDATE webhook_deliveries SET state = 'dead', last_error = ?, due_at = NULL, ended_at = ?
		WHERE webhook = ? AND state = 'pending'`, ledger.DeliveryDisabled, at.UnixMicro(), id)
	return err
}

func setDue(ctx context.Context, w *conn, id string) error {
	_, err := w.exec(ctx, "UPDATE webhooks SET due_at = "+firstDue+" WHERE id = ?", id)
	return err
}

// ListDeliveries implements ledger.Deliveries.
func (l *Ledger) ListDeliveries(ctx context.Context, q ledger.DeliveryQuery) (all []ledger.Delivery, err error) {
	if err := checkLimit(q.Limit); err != nil {
		return nil, classify("list deliveries", err)
	}
	query := "SELECT " + deliveryColumns + ` FROM webhook_deliveries
		WHERE webhook = (SELECT id FROM webhooks WHERE id = ? AND tenant = ?)`
	args := []any{q.WebhookID, q.Tenant}
	if q.State != "" {
		query += " AND state = ?"
		args = append(args, string(q.State))
	}
	if q.Before > 0 {
		query += " AND n < ?"
		args = append(args, q.Before)
	}
	args = append(args, int64(q.Limit))
	err = l.read(ctx, "list deliveries", func(c *conn) error {
		return c.query(ctx, query+" ORDER BY n DESC LIMIT ?", func(r *row) { all = append(all, r.delivery()) }, args...)
	})
	return all, err
}

// Redeliver implements ledger.Deliveries.
func (l *Ledger) Redeliver(ctx context.Context, r ledger.Redelivery, e ledger.Entry) (n int64, err error) {
	err = l.write(ctx, "redeliver", func(w *conn) error {
		found, err := w.exec(ctx, "UPDATE webhooks SET disabled_at = NULL, disabled_for = '' WHERE id = ? AND tenant = ?", r.WebhookID, r.Tenant)
		if err := orNotFound(found > 0, err); err != nil {
			return err
		}
		n, err = w.exec(ctx, `UPDATE webhook_deliveries SET state = 'pending', attempts = 0, due_at = ?, ended_at = NULL
			WHERE webhook = ? AND (state <> 'delivered' OR created_at >= ?)`, r.At.UnixMicro(), r.WebhookID, micros(r.Since))
		if err != nil {
			return err
		}
		if err := setDue(ctx, w, r.WebhookID); err != nil {
			return err
		}
		return appendEntries(ctx, w, e)
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// TrimDeliveries implements ledger.Deliveries.
func (l *Ledger) TrimDeliveries(ctx context.Context, before time.Time, limit int) (removed int, dead int64, err error) {
	if err := checkLimit(limit); err != nil {
		return 0, 0, classify("trim deliveries", err)
	}
	err = l.write(ctx, "trim deliveries", func(w *conn) error {
		n, err := w.exec(ctx, `DELETE FROM webhook_deliveries WHERE n IN (SELECT n FROM webhook_deliveries
			WHERE ended_at IS NOT NULL AND ended_at < ? ORDER BY ended_at LIMIT ?)`, before.UnixMicro(), int64(limit))
		if err != nil {
			return err
		}
		removed = int(n)
		_, err = w.exec(ctx, `DELETE FROM webhooks WHERE seq IN (SELECT h.seq FROM webhooks h JOIN erasures e ON e.id = h.erasure
			WHERE h.erasure <> '' AND coalesce(e.erased_at, e.decided_at) < ?
				AND NOT EXISTS (SELECT 1 FROM webhook_deliveries d WHERE d.webhook = h.id) LIMIT ?)`, before.UnixMicro(), int64(limit))
		if err != nil {
			return err
		}
		_, err = w.one(ctx, "SELECT count(*) FROM webhook_deliveries WHERE state = 'dead'", func(r *row) { dead = r.int(0) })
		return err
	})
	if err != nil {
		return 0, 0, err
	}
	return removed, dead, nil
}
