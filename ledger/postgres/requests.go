package postgres

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
	oldest := notBefore.UnixMicro()
	err = l.write(ctx, "begin request", func(ctx context.Context, x *tx) error {
		existing, found = ledger.Request{Tenant: r.Tenant, Route: r.Route, Key: r.Key}, false
		var claimed int64
		x.exec("DELETE FROM requests WHERE tenant = $1 AND route = $2 AND key = $3 AND at < $4", r.Tenant, r.Route, r.Key[:], oldest)
		x.exec(`DELETE FROM requests WHERE (tenant, route, key) IN
			(SELECT tenant, route, key FROM requests WHERE at < $1 ORDER BY at LIMIT $2 FOR UPDATE SKIP LOCKED)`, oldest, forgetRequests)
		x.count(&claimed, `INSERT INTO requests (tenant, route, key, body, at, status) VALUES ($1, $2, $3, $4, $5, 0)
			ON CONFLICT DO NOTHING`, r.Tenant, r.Route, r.Key[:], r.Body[:], r.At.UnixMicro())
		x.scan(&found, []any{fixed(existing.Body[:]), moment{&existing.At}, &existing.Status, &existing.Answer},
			"SELECT body, at, status, answer FROM requests WHERE tenant = $1 AND route = $2 AND key = $3", r.Tenant, r.Route, r.Key[:])
		switch err := x.flush(ctx); {
		case err != nil:
			return err
		case claimed == 1:
			existing, found = ledger.Request{}, false
			return nil
		case !found:
			return errAgain // it was abandoned in between
		}
		return nil
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
	return l.endRequest(ctx, "complete request", `UPDATE requests SET status = $5, answer = $6
		WHERE tenant = $1 AND route = $2 AND key = $3 AND body = $4 AND status = 0`, r, r.Status, orNull(r.Answer))
}

// Abandon implements ledger.Requests.
func (l *Ledger) Abandon(ctx context.Context, r ledger.Request) error {
	return l.endRequest(ctx, "abandon request", `DELETE FROM requests
		WHERE tenant = $1 AND route = $2 AND key = $3 AND body = $4 AND status = 0`, r)
}

// endRequest ends a running request, which must be there.
func (l *Ledger) endRequest(ctx context.Context, op, sql string, r ledger.Request, more ...any) error {
	args := append([]any{r.Tenant, r.Route, r.Key[:], r.Body[:]}, more...)
	return l.write(ctx, op, func(ctx context.Context, x *tx) error {
		var n int64
		x.count(&n, sql, args...)
		if err := x.flush(ctx); err != nil {
			return err
		}
		if n == 0 {
			return fmt.Errorf("no such running request: %w", blobd.ErrConflict)
		}
		return nil
	})
}
