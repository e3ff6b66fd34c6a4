package api

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/blobd/blobd/ledger"
)

// CensusStats are figures of erasures and holds, of all tenants, as this node last
// counted them.
type CensusStats struct {
	// Holds counts holds by state, "open" and "released".
	Holds map[string]int64
	// ReviewOverdue counts open holds that somebody should have looked at again.
	ReviewOverdue int64
	// Erasures counts erasures that have not ended, by state.
	Erasures map[string]int64
	// CountedAt is when it was counted; zero: not yet.
	CountedAt time.Time
}

// CensusLedger is what a Census asks.
type CensusLedger interface {
	ListTenants(ctx context.Context, after string, limit int) ([]ledger.Tenant, error)
	ListOrders(ctx context.Context, q ledger.OrderQuery) ([]ledger.Order, error)
	ListErasures(ctx context.Context, q ledger.ErasureQuery) ([]ledger.Erasure, error)
}

// Census counts erasures and holds for metrics, now and then: a scrape asks for
// the last count. It is safe for concurrent use.
type Census struct {
	ledger CensusLedger
	every  time.Duration
	now    func() time.Time
	log    *slog.Logger
	last   atomic.Pointer[CensusStats]
}

// CensusEvery is how often a service counts.
const CensusEvery = time.Minute

// NewCensus builds a census. It starts nothing.
func NewCensus(l CensusLedger, every time.Duration, now func() time.Time, log *slog.Logger) *Census {
	c := &Census{ledger: l, every: every, now: now, log: log}
	c.last.Store(&CensusStats{})
	return c
}

// Stats returns the last count.
func (c *Census) Stats() CensusStats { return *c.last.Load() }

// Run counts until ctx ends. A count that fails leaves the one before.
func (c *Census) Run(ctx context.Context) error {
	ticker := time.NewTicker(c.every)
	defer ticker.Stop()
	for {
		if err := c.Count(ctx); err != nil && ctx.Err() == nil {
			c.log.Warn("erasures and holds not counted", "error", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// openErasureStates are those of an erasure that has not ended, as it stands.
func openErasureStates() []ledger.ErasureState {
	return []ledger.ErasureState{
		ledger.ErasureAwaiting, ledger.ErasureGrace, ledger.ErasureRunning, ledger.ErasureDeferred, ledger.ErasurePartial,
	}
}

// Count counts once.
func (c *Census) Count(ctx context.Context) error {
	s := &CensusStats{Holds: map[string]int64{stateOpen: 0, stateReleased: 0}, Erasures: map[string]int64{}, CountedAt: c.now()}
	for _, state := range openErasureStates() {
		s.Erasures[string(state)] = 0
	}
	err := pages(ctx, func(ctx context.Context, n int, after *ledger.Tenant) ([]ledger.Tenant, error) {
		id := ""
		if after != nil {
			id = after.ID
		}
		return c.ledger.ListTenants(ctx, id, n)
	}, func(t *ledger.Tenant) (bool, error) { return true, c.countTenant(ctx, t.ID, s) })
	if err != nil {
		return err
	}
	c.last.Store(s)
	return nil
}

func (c *Census) countTenant(ctx context.Context, tenant string, s *CensusStats) error {
	err := pages(ctx, func(ctx context.Context, n int, after *ledger.Order) ([]ledger.Order, error) {
		q := ledger.OrderQuery{Tenant: tenant, Kind: ledger.OrderHold, Limit: n}
		if after != nil {
			q.Before = ledger.OrderCursor{PlacedAt: after.PlacedAt, ID: after.ID}
		}
		return c.ledger.ListOrders(ctx, q)
	}, func(o *ledger.Order) (bool, error) {
		s.Holds[holdState(o)]++
		if reviewOverdue(o, s.CountedAt) {
			s.ReviewOverdue++
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	for _, state := range openErasureStates() {
		f := erasureFilter{ErasureQuery: ledger.ErasureQuery{Tenant: tenant, State: state}}
		err := pages(ctx, func(ctx context.Context, n int, after *ledger.Erasure) ([]ledger.Erasure, error) {
			return f.read(ctx, c.ledger, n, after)
		}, func(e *ledger.Erasure) (bool, error) {
			if f.passes(e) {
				s.Erasures[string(state)]++
			}
			return true, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// censusCollector tells the last count, and the puts that a suppression refused.
type censusCollector struct {
	stats                            func() CensusStats
	holds, overdue, erasures, counts *prometheus.Desc
}

func newCensusCollector(stats func() CensusStats) *censusCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return &censusCollector{
		stats:    stats,
		holds:    desc("blobd_holds", "Holds, as last counted.", "state"),
		overdue:  desc("blobd_holds_review_overdue", "Open holds whose review date is over, as last counted."),
		erasures: desc("blobd_erasure_requests", "Erasures that have not ended, as last counted.", "state"),
		counts:   desc("blobd_census_timestamp_seconds", "When holds and erasures were last counted; 0: never."),
	}
}

// Describe implements prometheus.Collector.
func (c *censusCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.holds, c.overdue, c.erasures, c.counts} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *censusCollector) Collect(ch chan<- prometheus.Metric) {
	s := c.stats()
	for state, n := range s.Holds {
		ch <- prometheus.MustNewConstMetric(c.holds, prometheus.GaugeValue, float64(n), state)
	}
	for state, n := range s.Erasures {
		ch <- prometheus.MustNewConstMetric(c.erasures, prometheus.GaugeValue, float64(n), state)
	}
	ch <- prometheus.MustNewConstMetric(c.overdue, prometheus.GaugeValue, float64(s.ReviewOverdue))
	at := 0.0
	if !s.CountedAt.IsZero() {
		at = float64(s.CountedAt.UnixMilli()) / 1000
	}
	ch <- prometheus.MustNewConstMetric(c.counts, prometheus.GaugeValue, at)
}
