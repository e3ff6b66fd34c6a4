package report_test

import (
	"strings"
	"testing"
	"time"

	"github.com/blobd/blobd/bench/load"
	"github.com/blobd/blobd/bench/report"
	"github.com/blobd/blobd/bench/target"
)

func rounds(perSecond ...float64) []load.Result {
	var all []load.Result
	for _, v := range perSecond {
		all = append(all, load.Result{OpsPerSec: v, P50: time.Millisecond})
	}
	return all
}

// A slow minute hits all servers alike, so ratios are taken round by round.
func TestRatiosCompareRoundWithRound(t *testing.T) {
	floor := &report.Cell{Op: "put", Server: "floor", Clients: 16, Rounds: rounds(10_000, 1_000, 8_000)}
	minio := &report.Cell{Op: "put", Server: "minio", Clients: 16, Rounds: rounds(1_000, 100, 1_000)}
	blobd := &report.Cell{Op: "put", Server: "blobd", Clients: 16, Rounds: rounds(5_000, 400, 4_000)}
	blobd.Against(floor, minio)
	r := &report.Report{Cells: []*report.Cell{floor, blobd, minio}}
	r.Finish()
	if blobd.PerFloor != 0.5 || blobd.PerPeer != 4 || blobd.Median.OpsPerSec != 4_000 {
		t.Errorf("per floor %g, per peer %g, median %g; want 0.5, 4, 4000", blobd.PerFloor, blobd.PerPeer, blobd.Median.OpsPerSec)
	}
	if floor.PerFloor != 0 || minio.PerPeer != 0 {
		t.Error("a base is compared with itself")
	}
	var out strings.Builder
	if err := r.Print(&out); err != nil {
		t.Fatal(err)
	}
	if s := out.String(); !strings.Contains(s, "0.50") || !strings.Contains(s, "4.00") {
		t.Errorf("the table lacks a ratio:\n%s", s)
	}
}

func TestErasedNeedsEveryRun(t *testing.T) {
	done := target.Erasure{Null: 2 * time.Millisecond, Erased: time.Second, State: "erased"}
	open := target.Erasure{Null: 4 * time.Millisecond, State: "running"}
	r := &report.Report{Erasures: []*report.ErasureRow{
		{Blobs: 10, Runs: []target.Erasure{done, done, done}},
		{Blobs: 1000, Runs: []target.Erasure{done, open, open}},
	}}
	r.Finish()
	if got := r.Erasures[0]; got.Erased != time.Second || got.Null != 2*time.Millisecond {
		t.Errorf("all erased: %s, null %s", got.Erased, got.Null)
	}
	if got := r.Erasures[1]; got.Erased != 0 || got.Null != 4*time.Millisecond {
		t.Errorf("some running: %s, null %s; want no time", got.Erased, got.Null)
	}
}
