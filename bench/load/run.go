package load

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// Op does one operation on a client's own connection and returns how long the
// server took for it. An answer other than the one expected is an error.
type Op func(c Client) (time.Duration, error)

// Cell is one measurement: some clients doing one operation against one server.
type Cell struct {
	Driver   Driver
	Addr     string // host:port
	Clients  int
	Warmup   time.Duration // not measured
	Duration time.Duration // measured
	// New makes the operation of one client, numbered from 0. It may prepare
	// what the operation needs; that is done before the clock starts.
	New func(ctx context.Context, client int, c Client) (Op, error)
	// CPU returns the processor time that the server has used so far.
	CPU func() (time.Duration, error)
	// OwnCPU returns the same for the load itself.
	OwnCPU func() (time.Duration, error)
}

// Result is what one cell showed.
type Result struct {
	Ops       int           `json:"ops"`
	OpsPerSec float64       `json:"opsPerSecond"`
	P50       time.Duration `json:"p50Nanoseconds"`
	P99       time.Duration `json:"p99Nanoseconds"`
	ServerCPU time.Duration `json:"serverCpuNanosecondsPerOp"`
	ClientCPU time.Duration `json:"clientCpuNanosecondsPerOp"`
}

// Run measures one cell. The first error of any client ends it.
func Run(ctx context.Context, cell Cell) (Result, error) {
	clients, err := prepare(ctx, cell)
	for _, c := range clients {
		defer c.conn.Close()
	}
	if err != nil {
		return Result{}, err
	}
	runtime.GC() // what earlier cells left is not this cell's cost

	from := time.Now().Add(cell.Warmup)
	to := from.Add(cell.Duration)
	group, ctx := errgroup.WithContext(ctx)
	for _, c := range clients {
		group.Go(func() error { return c.loop(ctx, from, to) })
	}
	var used usage
	group.Go(func() (err error) {
		used, err = cell.measure(ctx, from, to)
		return err
	})
	if err := group.Wait(); err != nil {
		return Result{}, err
	}
	return summarise(clients, cell.Duration, used), nil
}

type worker struct {
	number int
	conn   Client
	op     Op
	took   []time.Duration
}

// prepare makes every client's operation and then connects all of them anew:
// while one client prepares, a server may close the others' idle connections.
func prepare(ctx context.Context, cell Cell) ([]*worker, error) {
	var clients []*worker
	for i := range cell.Clients {
		op, err := cell.operation(ctx, i)
		if err != nil {
			return nil, fmt.Errorf("prepare client %d: %w", i, err)
		}
		clients = append(clients, &worker{number: i, op: op})
	}
	deadline := time.Now().Add(cell.Warmup + cell.Duration + time.Minute)
	for i, c := range clients {
		var err error
		if c.conn, err = cell.Driver(ctx, cell.Addr); err != nil {
			return clients[:i], err
		}
		if err := c.conn.SetDeadline(deadline); err != nil {
			return clients[:i+1], err
		}
	}
	return clients, nil
}

func (cell Cell) operation(ctx context.Context, client int) (Op, error) {
	conn, err := cell.Driver(ctx, cell.Addr)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return cell.New(ctx, client, conn)
}

// loop repeats the operation until to. An operation counts when it ran wholly
// inside the measured time.
func (c *worker) loop(ctx context.Context, from, to time.Time) error {
	for ctx.Err() == nil {
		start := time.Now()
		if !start.Before(to) {
			return nil
		}
		took, err := c.op(c.conn)
		if err != nil {
			return fmt.Errorf("client %d: %w", c.number, err)
		}
		if start.After(from) && !time.Now().After(to) {
			c.took = append(c.took, took)
		}
	}
	return ctx.Err()
}

type usage struct{ server, own time.Duration }

func (cell Cell) measure(ctx context.Context, from, to time.Time) (used usage, err error) {
	before, err := cell.usageAt(ctx, from)
	if err != nil {
		return used, err
	}
	after, err := cell.usageAt(ctx, to)
	return usage{after.server - before.server, after.own - before.own}, err
}

func (cell Cell) usageAt(ctx context.Context, at time.Time) (used usage, err error) {
	select {
	case <-ctx.Done():
		return used, ctx.Err()
	case <-time.After(time.Until(at)):
	}
	if used.server, err = cell.CPU(); err != nil {
		return used, fmt.Errorf("server's processor time: %w", err)
	}
	if used.own, err = cell.OwnCPU(); err != nil {
		return used, fmt.Errorf("own processor time: %w", err)
	}
	return used, nil
}

func summarise(clients []*worker, span time.Duration, used usage) Result {
	var took []time.Duration
	for _, c := range clients {
		took = append(took, c.took...)
	}
	slices.Sort(took)
	r := Result{
		Ops:       len(took),
		OpsPerSec: float64(len(took)) / span.Seconds(),
		P50:       Quantile(took, 0.50),
		P99:       Quantile(took, 0.99),
	}
	if n := time.Duration(len(took)); n > 0 {
		r.ServerCPU, r.ClientCPU = used.server/n, used.own/n
	}
	return r
}
