package api

import "github.com/prometheus/client_golang/prometheus"

// logCollector tells how the evidence log is doing, as far as this node knows.
type logCollector struct {
	log       Evidence
	published *prometheus.Desc
	stopped   *prometheus.Desc
}

func newLogCollector(log Evidence) *logCollector {
	return &logCollector{
		log:       log,
		published: prometheus.NewDesc("blobd_evidence_published_entries", "Entries that a published checkpoint covers.", nil, nil),
		stopped: prometheus.NewDesc("blobd_evidence_stopped",
			"1 while the log is stopped, because the ledger does not continue what was published.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (l *logCollector) Describe(ch chan<- *prometheus.Desc) { ch <- l.published; ch <- l.stopped }

// Collect implements prometheus.Collector.
func (l *logCollector) Collect(ch chan<- prometheus.Metric) {
	s := l.log.Stats()
	stopped := 0.0
	if s.Stopped {
		stopped = 1
	}
	ch <- prometheus.MustNewConstMetric(l.published, prometheus.GaugeValue, float64(s.Published))
	ch <- prometheus.MustNewConstMetric(l.stopped, prometheus.GaugeValue, stopped)
}
