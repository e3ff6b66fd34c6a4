package api

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/keys"
)

// metrics is the one registry. Labels are methods, route patterns and statuses:
// never an id.
type metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	inFlight prometheus.Gauge
	alarms   *prometheus.CounterVec
	// suppressed counts the puts that this node refused for a suppressed subject.
	suppressed prometheus.Counter
	handler    http.Handler
}

// latencyBuckets are seconds, from a hot read to the longest wait.
func latencyBuckets() []float64 {
	return []float64{.0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10}
}

func newMetrics(c Config, mem *memory) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "blobd_http_requests_total", Help: "Requests answered.",
		}, []string{"method", "route", "status"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "blobd_http_request_duration_seconds", Help: "Time from the head of a request to the end of its answer.",
			Buckets: latencyBuckets(),
		}, []string{"method", "route"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "blobd_http_requests_in_flight", Help: "Requests being answered.",
		}),
		alarms: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "blobd_alarms_total", Help: "Answers that tell of a lost or damaged blob, or of a panic.",
		}, []string{"code"}),
		suppressed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "blobd_suppressed_writes_total", Help: "Puts and captures refused because one of their subjects is suppressed.",
		}),
	}
	for _, code := range alarmCodes() { // shown before the first one rings
		m.alarms.WithLabelValues(string(code))
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(m.requests, m.seconds, m.inFlight, m.alarms, m.suppressed, newStateCollector(c, mem), newClockCollector(c.Ledger, c.Now),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if c.Retention != nil {
		registry.MustRegister(newRetentionCollector(c.Retention))
	}
	if c.Census != nil {
		registry.MustRegister(newCensusCollector(c.Census))
	}
	if c.WebhookStats != nil {
		registry.MustRegister(newWebhookCollector(c.WebhookStats))
	}
	if c.Evidence != nil {
		registry.MustRegister(newLogCollector(c.Evidence))
	}
	m.handler = promhttp.HandlerFor(registry, promhttp.HandlerOpts{Registry: registry})
	return m
}

// alarmCodes are the answers that an operator must look at.
func alarmCodes() []wire.Code {
	return []wire.Code{wire.CodeBlobMissing, wire.CodeKeyMissing, wire.CodeCorrupt, wire.CodeInternal}
}

// alarm counts a code if it is an alarm.
func (m *metrics) alarm(code wire.Code) {
	if slices.Contains(alarmCodes(), code) {
		m.alarms.WithLabelValues(string(code)).Inc()
	}
}

// figures are one route's metrics. Each status is resolved at its first use, so
// counting takes no lock and no lookup.
type figures struct {
	m             *metrics
	method, route string
	statuses      [600]atomic.Pointer[prometheus.Counter]
	seconds       atomic.Pointer[prometheus.Observer]
}

func (m *metrics) of(method, route string) *figures {
	return &figures{m: m, method: method, route: route}
}

func (f *figures) begin() { f.m.inFlight.Inc() }

func (f *figures) end(status int, took time.Duration) {
	f.m.inFlight.Dec()
	if status < 0 || status >= len(f.statuses) {
		return
	}
	counter := f.statuses[status].Load()
	if counter == nil {
		made := f.m.requests.WithLabelValues(f.method, f.route, strconv.Itoa(status))
		counter = &made
		f.statuses[status].Store(counter)
	}
	(*counter).Inc()
	observer := f.seconds.Load()
	if observer == nil {
		made := f.m.seconds.WithLabelValues(f.method, f.route)
		observer = &made
		f.seconds.Store(observer)
	}
	(*observer).Observe(took.Seconds())
}

// scrapeTimeout bounds the ledger's part of a scrape.
const scrapeTimeout = 2 * time.Second

// stateCollector reads what the parts below count, at every scrape.
type stateCollector struct {
	Config
	memory *memory
	up     *prometheus.Desc
	// gauges and counters name what is read, in the order of read.
	descs []*prometheus.Desc
}

// stateFigures are the names of what read returns, in order; those that end in
// _total are counters.
func stateFigures() []struct{ name, help string } {
	return []struct{ name, help string }{
		{"blobd_blobs", "Live blobs."},
		{"blobd_executions", "Executions."},
		{"blobd_bytes", "Readable bytes of live blobs."},
		{"blobd_erasures_open", "Erasures that have not ended, in whatever state; blobd_erasure_requests tells them by state."},
		{"blobd_erasure_oldest_open_seconds", "Age of the oldest erasure that runs; 0: none does."},
		{"blobd_journal_unpublished", "Records that are not in the journal yet."},
		{"blobd_ledger_wal_bytes", "Size of the write-ahead log, where there is one."},
	}
}

func newStateCollector(c Config, mem *memory) *stateCollector {
	s := &stateCollector{Config: c, memory: mem, up: prometheus.NewDesc("blobd_ledger_up", "1 while the ledger answers.", nil, nil)}
	for _, f := range stateFigures() {
		s.descs = append(s.descs, prometheus.NewDesc(f.name, f.help, nil, nil))
	}
	return s
}

// Describe implements prometheus.Collector: what is collected is not fixed.
func (s *stateCollector) Describe(ch chan<- *prometheus.Desc) { ch <- s.up }

// Collect implements prometheus.Collector.
func (s *stateCollector) Collect(ch chan<- prometheus.Metric) {
	s.collectLedger(ch)
	st := s.Store.Stats()
	counter(ch, "blobd_store_puts_total", "Blobs stored.", st.Puts)
	counter(ch, "blobd_store_opened_total", "Blobs opened.", st.Opened)
	counter(ch, "blobd_store_cache_hits_total", "Sealed blobs found in memory.", st.CacheHits)
	counter(ch, "blobd_store_cache_misses_total", "Sealed blobs not found in memory.", st.CacheMisses)
	gauge(ch, "blobd_store_cache_bytes", "Sealed bytes in memory.", st.CacheBytes)
	gauge(ch, "blobd_memory_budget_bytes", "What requests may hold in memory at once.", s.memory.budget)
	gauge(ch, "blobd_memory_held_bytes", "What requests hold in memory, by what they were charged.", s.memory.held())
	gauge(ch, "blobd_clock_suspect", "1 while the ledger's clock may have jumped: what only time would make null is 503.", suspectFigure(s.Store))
	counter(ch, "blobd_memory_refused_total", "Requests answered 429 for want of memory.", s.memory.refused.Load())
	if s.Keys != nil {
		collectKeys(ch, s.Keys())
	}
}

func (s *stateCollector) collectLedger(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	st, err := s.Ledger.Stats(ctx)
	if err != nil {
		ch <- prometheus.MustNewConstMetric(s.up, prometheus.GaugeValue, 0)
		return
	}
	ch <- prometheus.MustNewConstMetric(s.up, prometheus.GaugeValue, 1)
	oldest := 0.0
	if !st.OldestErasure.IsZero() {
		oldest = max(0, s.Now().Sub(st.OldestErasure).Seconds())
	}
	for i, v := range []float64{
		float64(st.Blobs), float64(st.Executions), float64(st.Bytes), float64(st.ErasuresOpen), oldest,
		float64(st.JournalUnpublished), float64(st.WALBytes),
	} {
		ch <- prometheus.MustNewConstMetric(s.descs[i], prometheus.GaugeValue, v)
	}
}

func counter(ch chan<- prometheus.Metric, name, help string, v int64) {
	ch <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, nil, nil), prometheus.CounterValue, float64(v))
}

func gauge(ch chan<- prometheus.Metric, name, help string, v int64) {
	ch <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, nil, nil), prometheus.GaugeValue, float64(v))
}

func collectKeys(ch chan<- prometheus.Metric, st keys.Stats) {
	counter(ch, "blobd_keys_cache_hits_total", "Execution keys answered from memory.", int64(st.Hits))
	counter(ch, "blobd_keys_cache_misses_total", "Execution keys that were not in memory.", int64(st.Misses))
	counter(ch, "blobd_keys_cache_evictions_total", "Executions dropped because the cache was full.", int64(st.Evictions))
	gauge(ch, "blobd_keys_cached", "Executions whose keys are in memory.", int64(st.Size))
}
