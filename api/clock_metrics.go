package api

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/ledger"
)

// DueDates is what the metrics of clocks ask of a ledger.
type DueDates interface {
	DueDates(ctx context.Context, at time.Time) ([]ledger.DueDate, error)
}

// clockCollector tells at every scrape what is due, of all tenants.
type clockCollector struct {
	ledger        DueDates
	now           func() time.Time
	next, overdue *prometheus.Desc
}

func newClockCollector(l DueDates, now func() time.Time) *clockCollector {
	return &clockCollector{
		ledger: l, now: now,
		next: prometheus.NewDesc("blobd_erasure_next_due_timestamp_seconds",
			"Earliest due date of an erasure that has not ended and is not paused; it may be past. Absent: there is none.", []string{"regime"}, nil),
		overdue: prometheus.NewDesc("blobd_erasures_overdue", "Erasures that have not ended and are past their due date.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (k *clockCollector) Describe(ch chan<- *prometheus.Desc) { ch <- k.next; ch <- k.overdue }

// Collect implements prometheus.Collector. A ledger that does not answer gives no
// figures: none is better than a zero.
func (k *clockCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	dates, err := k.ledger.DueDates(ctx, k.now().UTC())
	if err != nil {
		return
	}
	var overdue int64
	next := make(map[string]time.Time)
	for _, d := range dates {
		overdue += d.Overdue
		regime := regimeLabel(d.Regime)
		if known, ok := next[regime]; !ok || d.Next.Before(known) {
			next[regime] = d.Next
		}
	}
	for regime, at := range next {
		ch <- prometheus.MustNewConstMetric(k.next, prometheus.GaugeValue, float64(at.Unix()), regime)
	}
	ch <- prometheus.MustNewConstMetric(k.overdue, prometheus.GaugeValue, float64(overdue))
}

// regimeLabel bounds the label: what is no regime of the contract is "none".
func regimeLabel(regime string) string {
	if slices.Contains(wire.Regimes(), regime) {
		return regime
	}
	return "none"
}
