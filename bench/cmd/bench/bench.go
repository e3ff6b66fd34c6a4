package main

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"github.com/blobd/blobd/bench/load"
	"github.com/blobd/blobd/bench/report"
	"github.com/blobd/blobd/bench/target"
)

// idleTime is how long servers are left alone before their memory is read.
const idleTime = 3 * time.Second

// bench is one run over all cells.
type bench struct {
	cfg      config
	servers  *servers
	progress io.Writer
	report   *report.Report
	cells    []*planned
	seed     uint64 // of the next bodies; never used twice
}

// planned is a cell of the table and how it is measured.
type planned struct {
	*report.Cell
	process *target.Process
	blobd   *target.Blobd // nil unless it is one
	// prepare makes the operation of one client.
	prepare func(ctx context.Context, seed uint64, client int, c load.Client) (load.Op, error)
	failed  bool
}

func newBench(cfg config, s *servers, progress io.Writer) *bench {
	b := &bench{cfg: cfg, servers: s, progress: progress, report: newReport(cfg, time.Now()), seed: randomSeed()}
	b.plan()
	return b
}

// randomSeed lets a run meet no body of an earlier one.
func randomSeed() uint64 {
	var s [8]byte
	_, _ = rand.Read(s[:]) // crypto/rand never fails
	return binary.LittleEndian.Uint64(s[:])
}

func (b *bench) nextSeed() uint64 {
	b.seed++
	return b.seed
}

// fail keeps an error for the end: other measurements go on.
func (b *bench) fail(what string, err error) {
	b.report.Errors = append(b.report.Errors, fmt.Sprintf("%s: %v", what, err))
	fmt.Fprintf(b.progress, "%s: %v\n", what, err)
}

func (b *bench) measureIdle(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(idleTime):
	}
	for _, p := range b.servers.running {
		rss, err := p.Resident()
		if err != nil {
			return err
		}
		b.report.IdleRSS[p.Name] = rss
	}
	return nil
}

// measureCells goes round by round over all cells, so that the servers that
// are compared run within seconds of each other. A cell that failed once is
// left out of later rounds.
func (b *bench) measureCells(ctx context.Context) {
	for round := range b.cfg.rounds {
		for _, cell := range b.cells {
			if cell.failed || ctx.Err() != nil {
				continue
			}
			result, err := load.Run(ctx, b.loadOf(cell))
			if err != nil {
				cell.failed = true
				b.fail(cell.name(), err)
				continue
			}
			cell.Rounds = append(cell.Rounds, result)
			fmt.Fprintf(b.progress, "round %d  %-34s %8.0f ops/s\n", round+1, cell.name(), result.OpsPerSec)
		}
	}
}

func (b *bench) loadOf(cell *planned) load.Cell {
	seed := b.nextSeed()
	return load.Cell{
		Driver: b.cfg.driver, Addr: cell.process.Addr, Clients: cell.Clients,
		Warmup: b.cfg.warmup, Duration: b.cfg.duration,
		New: func(ctx context.Context, client int, c load.Client) (load.Op, error) {
			return cell.prepare(ctx, seed, client, c)
		},
		CPU: cell.process.CPU, OwnCPU: target.OwnCPU,
	}
}

func (c *planned) name() string { return fmt.Sprintf("%s %s, %d clients", c.Server, c.Op, c.Clients) }

// measureErasures erases executions of every size in turn, on every blobd.
func (b *bench) measureErasures(ctx context.Context) {
	if !b.cfg.does(opErase) {
		return
	}
	for _, i := range b.servers.blobds {
		for _, blobs := range b.cfg.erase {
			b.measureErasure(ctx, i.Blobd, blobs)
		}
	}
}

func (b *bench) measureErasure(ctx context.Context, server *target.Blobd, blobs int) {
	row := &report.ErasureRow{Server: server.Name, Blobs: blobs}
	b.report.Erasures = append(b.report.Erasures, row)
	for range b.cfg.eraseRuns {
		if ctx.Err() != nil {
			return
		}
		e, err := server.Erase(ctx, b.nextSeed(), blobs, b.cfg.eraseWait)
		if err != nil {
			b.fail(fmt.Sprintf("erase %d blobs of %s", blobs, server.Name), err)
			return
		}
		row.Runs = append(row.Runs, e)
		fmt.Fprintf(b.progress, "%s: erase %d blobs: null after %s, then %s\n", server.Name, blobs, e.Null.Round(10*time.Microsecond), e.State)
	}
}
