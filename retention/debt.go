package retention

import (
	"context"
	"fmt"
	"time"

	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/store"
)

// debtInterval is how often debt is counted, and debtTime how long a count may
// take. A count reads what is due, so it is short where sweeps do their work.
const (
	debtInterval = 5 * time.Minute
	debtTime     = time.Minute
)

// SweepStats are figures of retention.
type SweepStats struct {
	Debt      map[store.DebtReason]int64 // of all tenants, as last counted; never changed
	CountedAt time.Time                  // zero: not yet
	LastDone  time.Time                  // of the tenant that has waited longest; zero: one never was swept
	Erased    int64                      // by this node since it started
	Failed    int64
	Stopped   int64
}

// Stats returns the figures as they stand.
func (w *Sweeps) Stats() SweepStats {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stats
}

// CountDebt counts what is past its maximum and still there, of every tenant.
func (w *Sweeps) CountDebt(ctx context.Context) error {
	if w.store.Serving() != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, debtTime)
	defer cancel()
	now := w.now().UTC()
	debt := make(map[store.DebtReason]int64)
	for _, reason := range store.DebtReasons() {
		debt[reason] = 0
	}
	oldest := now
	err := w.eachTenant(ctx, func(t ledger.Tenant) error {
		counts, err := w.store.CountDebt(ctx, t.ID)
		if err != nil {
			return err
		}
		for reason, n := range counts {
			debt[reason] += n
		}
		done, err := w.ledger.ListSweeps(ctx, ledger.SweepQuery{Tenant: t.ID, State: ledger.SweepDone, Limit: 1})
		if err != nil {
			return err
		}
		last := time.Time{}
		if len(done) > 0 {
			last = done[0].FinishedAt
		}
		if last.Before(oldest) {
			oldest = last
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("count the debt: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stats.Debt, w.stats.CountedAt, w.stats.LastDone = debt, now, oldest
	return nil
}

// count takes in how a sweep ended.
func (w *Sweeps) count(s ledger.Sweep) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stats.Erased += s.Erased
	w.stats.Failed += s.Failed
	if s.State == ledger.SweepStopped {
		w.stats.Stopped++
	}
}

// eachTenant visits the tenants that are not off-boarded.
func (w *Sweeps) eachTenant(ctx context.Context, visit func(ledger.Tenant) error) error {
	const page = 100
	for after := ""; ; {
		tenants, err := w.ledger.ListTenants(ctx, after, page)
		if err != nil {
			return err
		}
		for _, t := range tenants {
			after = t.ID
			if t.Fenced() {
				continue
			}
			if err := visit(t); err != nil {
				return fmt.Errorf("tenant %q: %w", t.ID, err)
			}
		}
		if len(tenants) < page {
			return nil
		}
	}
}
