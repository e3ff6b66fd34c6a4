// Package report turns measured rounds into one document: medians, ratios
// against the floor and against an S3 server, and the table people read.
package report

import (
	"slices"
	"time"

	"github.com/blobd/blobd/bench/load"
	"github.com/blobd/blobd/bench/target"
)

// Report is one run of the benchmark. Its JSON is what --json prints.
type Report struct {
	Machine  Machine          `json:"machine"`
	Settings Settings         `json:"settings"`
	Cells    []*Cell          `json:"cells"`
	Erasures []*ErasureRow    `json:"erasures,omitempty"`
	IdleRSS  map[string]int64 `json:"idleResidentBytes"` // by server, before any load
	Errors   []string         `json:"errors,omitempty"`
}

// Settings says what was run.
type Settings struct {
	Driver     string        `json:"driver"`
	BodyBytes  int           `json:"bodyBytes"`
	BatchParts int           `json:"batchParts"`
	Duration   time.Duration `json:"durationNanoseconds"`
	Warmup     time.Duration `json:"warmupNanoseconds"`
	Rounds     int           `json:"rounds"`
}

// Cell is one operation against one server at one number of clients.
type Cell struct {
	Op      string        `json:"op"`
	Server  string        `json:"server"`
	Clients int           `json:"clients"`
	Rounds  []load.Result `json:"rounds"`
	// Median has the median of each figure over the rounds.
	Median load.Result `json:"median"`
	// PerFloor and PerPeer are medians of the rounds' own ratios of operations
	// per second, so drift between rounds does not enter; P50PerPeer is the same of
	// the median times. 0 if not measured.
	PerFloor   float64 `json:"perFloor,omitempty"`
	PerPeer    float64 `json:"perPeer,omitempty"`
	P50PerPeer float64 `json:"p50PerPeer,omitempty"`

	floor, peer *Cell
}

// Against names the cells that this one is compared with, either may be nil.
func (c *Cell) Against(floor, peer *Cell) { c.floor, c.peer = floor, peer }

// Finish computes the medians and ratios of all cells.
func (r *Report) Finish() {
	for _, c := range r.Cells {
		c.Median = median(c.Rounds)
		rate := func(r load.Result) float64 { return r.OpsPerSec }
		c.PerFloor, c.PerPeer = ratio(c, c.floor, rate), ratio(c, c.peer, rate)
		c.P50PerPeer = ratio(c, c.peer, func(r load.Result) float64 { return r.P50.Seconds() })
	}
	for _, e := range r.Erasures {
		e.finish()
	}
}

func median(rounds []load.Result) load.Result {
	return load.Result{
		Ops:       load.Median(each(rounds, func(r load.Result) int { return r.Ops })),
		OpsPerSec: load.Median(each(rounds, func(r load.Result) float64 { return r.OpsPerSec })),
		P50:       load.Median(each(rounds, func(r load.Result) time.Duration { return r.P50 })),
		P99:       load.Median(each(rounds, func(r load.Result) time.Duration { return r.P99 })),
		ServerCPU: load.Median(each(rounds, func(r load.Result) time.Duration { return r.ServerCPU })),
		ClientCPU: load.Median(each(rounds, func(r load.Result) time.Duration { return r.ClientCPU })),
	}
}

func each[T, V any](all []T, value func(T) V) []V {
	out := make([]V, len(all))
	for i, x := range all {
		out[i] = value(x)
	}
	return out
}

// ratio compares round with round.
func ratio(c, base *Cell, figure func(load.Result) float64) float64 {
	if base == nil {
		return 0
	}
	var ratios []float64
	for i := range min(len(c.Rounds), len(base.Rounds)) {
		if b := figure(base.Rounds[i]); b > 0 {
			ratios = append(ratios, figure(c.Rounds[i])/b)
		}
	}
	return load.Median(ratios)
}

// ErasureRow is the erasure of one size of execution; its times are medians.
type ErasureRow struct {
	Server   string           `json:"server"`
	Blobs    int              `json:"blobs"`
	Runs     []target.Erasure `json:"runs"`
	Accepted time.Duration    `json:"acceptedNanoseconds"`
	Null     time.Duration    `json:"nullNanoseconds"`
	Erased   time.Duration    `json:"erasedNanoseconds"` // 0: not every run came so far
}

func (e *ErasureRow) finish() {
	e.Accepted = load.Median(each(e.Runs, func(r target.Erasure) time.Duration { return r.Accepted }))
	e.Null = load.Median(each(e.Runs, func(r target.Erasure) time.Duration { return r.Null }))
	erased := each(e.Runs, func(r target.Erasure) time.Duration { return r.Erased })
	if !slices.Contains(erased, 0) {
		e.Erased = load.Median(erased)
	}
}
