package mem

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

type requestKey struct {
	tenant, route string
	key           [32]byte
}

// Begin implements ledger.Requests.
func (l *Ledger) Begin(ctx context.Context, r ledger.Request, notBefore time.Time) (ledger.Request, bool, error) {
	if err := l.begin(ctx, "begin request"); err != nil {
		return ledger.Request{}, false, err
	}
	defer l.mu.Unlock()
	key := requestKey{r.Tenant, r.Route, r.Key}
	existing, found := l.requests[key]
	if found && existing.At.UnixMicro() >= notBefore.UnixMicro() {
		existing.Answer = slices.Clone(existing.Answer)
		return existing, true, nil
	}
	r.At, r.Status, r.Answer = kept(r.At), 0, nil
	l.requests[key] = r
	return ledger.Request{}, false, nil
}

// Complete implements ledger.Requests.
func (l *Ledger) Complete(ctx context.Context, r ledger.Request) error {
	if r.Status == 0 {
		return refuse("complete request", fmt.Errorf("no status: %w", blobd.ErrInvalid))
	}
	return l.claimed(ctx, "complete request", r, func(key requestKey, claim ledger.Request) {
		claim.Status, claim.Answer = r.Status, slices.Clone(r.Answer)
		l.requests[key] = claim
	})
}

// Abandon implements ledger.Requests.
func (l *Ledger) Abandon(ctx context.Context, r ledger.Request) error {
	return l.claimed(ctx, "abandon request", r, func(key requestKey, _ ledger.Request) { delete(l.requests, key) })
}

func (l *Ledger) claimed(ctx context.Context, op string, r ledger.Request, f func(requestKey, ledger.Request)) error {
	if err := l.begin(ctx, op); err != nil {
		return err
	}
	defer l.mu.Unlock()
	key := requestKey{r.Tenant, r.Route, r.Key}
	claim, found := l.requests[key]
	if !found || claim.Status != 0 || claim.Body != r.Body {
		return refuse(op, fmt.Errorf("no such running request: %w", blobd.ErrConflict))
	}
	f(key, claim)
	return nil
}
