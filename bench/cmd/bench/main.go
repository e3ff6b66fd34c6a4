// Command bench measures blobd beside a floor that stores nothing and, where a
// binary is at hand, beside MinIO: the same load, the same bodies, one run.
//
//	go run ./cmd/bench                     # the whole table
//	go run ./cmd/bench --ops put --clients 16 --rounds 1
//	go run ./cmd/bench --profile DIR       # keeps profiles of blobd under load
//
// It ends with 1 on an error and with 0 otherwise, however slow anything was.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/blobd/blobd/bench/load"
	"github.com/blobd/blobd/bench/report"
	"github.com/blobd/blobd/bench/target"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) == 2 && os.Args[1] == floorCommand {
		exit(target.ServeFloor(ctx, os.Stdout))
	}
	cfg, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		exit(nil)
	}
	if err != nil {
		exit(err)
	}
	exit(run(ctx, cfg, os.Stdout, os.Stderr))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// run measures everything that cfg asks for and prints it to out; what happens
// meanwhile goes to progress.
func run(ctx context.Context, cfg config, out, progress io.Writer) (err error) {
	dir, err := os.MkdirTemp(cfg.dir, "blobd-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := target.CheckDisk(dir); err != nil {
		return err
	}
	s3Dir := dir
	if cfg.s3Dir != "" {
		if s3Dir, err = os.MkdirTemp(cfg.s3Dir, "blobd-bench-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(s3Dir)) }()
	}
	servers, err := startAll(ctx, cfg, dir, s3Dir, progress)
	defer func() { err = errors.Join(err, servers.stop()) }()
	if err != nil {
		return err
	}
	b := newBench(cfg, servers, progress)
	if err := b.measureIdle(ctx); err != nil {
		return err
	}
	b.measureCells(ctx)
	b.measureErasures(ctx)
	if cfg.profile != "" {
		b.profileCells(ctx)
	}
	b.report.Finish()
	if err := write(out, cfg.json, b.report); err != nil {
		return err
	}
	if n := len(b.report.Errors); n > 0 {
		return fmt.Errorf("%d measurements failed; first: %s", n, b.report.Errors[0])
	}
	return ctx.Err()
}

func write(out io.Writer, asJSON bool, r *report.Report) error {
	if !asJSON {
		return r.Print(out)
	}
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

func newReport(cfg config, now time.Time) *report.Report {
	return &report.Report{
		Machine: report.ThisMachine(now),
		Settings: report.Settings{
			Driver: cfg.driverName, BodyBytes: load.BodySize, BatchParts: target.BatchParts,
			Duration: cfg.duration, Warmup: cfg.warmup, Rounds: cfg.rounds,
		},
		IdleRSS: map[string]int64{},
	}
}
