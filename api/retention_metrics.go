package api

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// RetentionStats are figures of retention as this node last counted them.
type RetentionStats struct {
	// Debt counts what is past its maximum and still there, of all tenants, by the
	// words of the debt listing.
	Debt map[string]int64
	// CountedAt is when it was counted; zero: not yet.
	CountedAt time.Time
	// LastSweep is when the tenant that has waited longest was swept last, to its
	// end; zero: a tenant never was.
	LastSweep time.Time
	// Erased, Failed and Stopped count what this node's sweeps did since it started:
	// blobs, objects that stayed, and sweeps that the breaker stopped.
	Erased, Failed, Stopped int64
}

// retentionCollector tells the debt and what sweeps did.
type retentionCollector struct {
	stats                                      func() RetentionStats
	debt, counted, last, erased, fail, stopped *prometheus.Desc
}

func newRetentionCollector(stats func() RetentionStats) *retentionCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return &retentionCollector{
		stats:   stats,
		debt:    desc("blobd_retention_debt_blobs", "Blobs past their maximum and still there, as last counted.", "reason"),
		counted: desc("blobd_retention_debt_counted_timestamp_seconds", "When the debt was last counted."),
		last:    desc("blobd_sweep_last_done_timestamp_seconds", "When the tenant that has waited longest was last swept to the end; 0: never."),
		erased:  desc("blobd_sweep_erased_total", "Blobs that this node's sweeps erased."),
		fail:    desc("blobd_sweep_failed_total", "Objects that this node's sweeps could not delete."),
		stopped: desc("blobd_sweep_stopped_total", "Sweeps of this node that the breaker stopped."),
	}
}

// Describe implements prometheus.Collector.
func (r *retentionCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{r.debt, r.counted, r.last, r.erased, r.fail, r.stopped} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (r *retentionCollector) Collect(ch chan<- prometheus.Metric) {
	s := r.stats()
	seconds := func(t time.Time) float64 {
		if t.IsZero() {
			return 0
		}
		return float64(t.UnixMilli()) / 1000
	}
	for reason, n := range s.Debt {
		ch <- prometheus.MustNewConstMetric(r.debt, prometheus.GaugeValue, float64(n), reason)
	}
	ch <- prometheus.MustNewConstMetric(r.counted, prometheus.GaugeValue, seconds(s.CountedAt))
	ch <- prometheus.MustNewConstMetric(r.last, prometheus.GaugeValue, seconds(s.LastSweep))
	ch <- prometheus.MustNewConstMetric(r.erased, prometheus.CounterValue, float64(s.Erased))
	ch <- prometheus.MustNewConstMetric(r.fail, prometheus.CounterValue, float64(s.Failed))
	ch <- prometheus.MustNewConstMetric(r.stopped, prometheus.CounterValue, float64(s.Stopped))
}
