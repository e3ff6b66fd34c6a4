package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// forgetRequests bounds how many outdated entries one Begin removes.
const forgetRequests = 64

// Begin implements ledger.Requests.
func (l *Ledger) Begin(ctx context.Context, r ledger.Request, notBefore time.Time) (existing ledger.Request, found bool, err error) {
	err = l.write(ctx, "begin request", func(w *conn) error {
		oldest := notBefore.UnixMicro()
		_, err := w.exec(ctx, `DELETE FROM requests WHERE tenant = ? AND route = ? AND key = ? AND at < ?`,
			r.Tenant, r.Route, r.Key[:], oldest)
		if err != nil {
			return err
		}
		_, err = w.exec(ctx, `DELETE FROM requests WHERE (tenant, route, key) IN
			(SELECT tenant, route, key FROM requests WHERE at < ? ORDER BY at LIMIT ?)`, oldest, int64(forgetRequests))
		if err != nil {
			return err
		}
		found, err = w.one(ctx, "SELECT body, at, status, answer FROM requests WHERE tenant = ? AND route = ? AND key = ?",
			func(row *row) {
				existing = ledger.Request{
					Tenant: r.Tenant, Route: r.Route, Key: r.Key,
					Body: row.hash(0), At: row.time(1), Status: int(row.int(2)), Answer: row.bytes(3),
				}
			}, r.Tenant, r.Route, r.Key[:])
		if err != nil || found {
			return err
		}
		_, err = w.exec(ctx, "INSERT INTO requests (tenant, route, key, body, at, status) VALUES (?, ?, ?, ?, ?, 0)",
			r.Tenant, r.Route, r.Key[:], r.Body[:], r.At.UnixMicro())
		return err
	})
	if err != nil {
		return ledger.Request{}, false, err
	}
	return existing, found, nil
}

// Complete implements ledger.Requests.
func (l *Ledger) Complete(ctx context.Context, r ledger.Request) error {
	if r.Status == 0 {
		return classify("complete request", fmt.Errorf("no status: %w", blobd.ErrInvalid))
	}
	return l.write(ctx, "complete request", func(w *conn) error {
		n, err := w.exec(ctx, `UPDATE requests SET status = ?, answer = ?
			WHERE tenant = ? AND route = ? AND key = ? AND body = ? AND status = 0`,
			int64(r.Status), orNull(r.Answer), r.Tenant, r.Route, r.Key[:], r.Body[:])
		return orConflict(n, err)
	})
}

// Abandon implements ledger.Requests.
func (l *Ledger) Abandon(ctx context.Context, r ledger.Request) error {
	return l.write(ctx, "abandon request", func(w *conn) error {
		n, err := w.exec(ctx, `DELETE FROM requests
			WHERE tenant = ? AND route = ? AND key = ? AND body = ? AND status = 0`,
			r.Tenant, r.Route, r.Key[:], r.Body[:])
		return orConflict(n, err)
	})
}

// orConflict is the answer of a change that one row must have met.
func orConflict(changed int64, err error) error {
	if err == nil && changed == 0 {
		return fmt.Errorf("no such running request: %w", blobd.ErrConflict)
	}
	return err
}
