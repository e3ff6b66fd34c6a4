package api

import "github.com/prometheus/client_golang/prometheus"

// WebhookStats are figures of webhooks.
type WebhookStats struct {
	// Delivered, Retried and Dead count what became of this node's tries since it
	// started.
	Delivered, Retried, Dead int64
	// DeadLetters is how many deliveries are dead, of all tenants, as last counted.
	DeadLetters int64
}

// webhookCollector tells what became of deliveries.
type webhookCollector struct {
	stats      func() WebhookStats
	tries, now *prometheus.Desc
}

func newWebhookCollector(stats func() WebhookStats) *webhookCollector {
	return &webhookCollector{
		stats: stats,
		tries: prometheus.NewDesc("blobd_webhook_deliveries_total", "Tries of this node to deliver an event, by what became of them.", []string{"result"}, nil),
		now:   prometheus.NewDesc("blobd_webhook_dead_letters", "Deliveries that were given up and wait for a replay, as last counted.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (w *webhookCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- w.tries
	ch <- w.now
}

// Collect implements prometheus.Collector.
func (w *webhookCollector) Collect(ch chan<- prometheus.Metric) {
	s := w.stats()
	for result, n := range map[string]int64{"delivered": s.Delivered, "retried": s.Retried, "dead": s.Dead} {
		ch <- prometheus.MustNewConstMetric(w.tries, prometheus.CounterValue, float64(n), result)
	}
	ch <- prometheus.MustNewConstMetric(w.now, prometheus.GaugeValue, float64(s.DeadLetters))
}
