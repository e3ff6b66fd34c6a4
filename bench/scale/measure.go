package scale

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/bench/target"
	"github.com/blobd/blobd/evidence"
	"github.com/blobd/blobd/ledger"
)

// Figures are what one operation took.
type Figures struct {
	Op        string
	Settings  string // of the engine's URL
	Clients   int
	Acts      int
	PerSecond float64
	P50, P99  time.Duration
	// Processor time per act: of this process, which holds the ledger's methods
	// and the loop that calls them, and of the engine's server.
	Own, Server time.Duration
}

// Bounds are how long one operation is measured.
type Bounds struct {
	Clients int
	Time    time.Duration
	Acts    int // at most, of operations that use something up
}

// operation is one act on a ledger of so many executions. Reads and puts go to
// the older half, sweeps to the beginning of the younger, erasures to its end.
type operation struct {
	name  string
	max   int  // acts; 0: none
	alone bool // by one client
	act   func(ctx context.Context, r *rand.Rand, k int) error
}

// batchParts is how many refs a batch resolve names.
const batchParts = 64

// perRound keeps apart what is put in several rounds on one ledger.
const perRound = 10_000_000

// operations lists what is measured, in this order. Each round on a ledger
// erases other executions, and sweeps other rows.
func operations(l ledger.Ledger, executions, fences, round int) []operation {
	older := func(r *rand.Rand) int { return r.IntN(executions / 2) }
	w := &sweeper{ledger: l, executions: executions, round: round}
	return []operation{
		{name: "resolve one", act: func(ctx context.Context, r *rand.Rand, _ int) error {
			return lookup(ctx, l, older(r), r.IntN(BlobsPerExecution), 1)
		}},
		{name: "resolve batch of 64", act: func(ctx context.Context, r *rand.Rand, _ int) error {
			return lookup(ctx, l, older(r), 0, batchParts)
		}},
		{name: "put, known execution", act: func(ctx context.Context, r *rand.Rand, k int) error {
			return put(ctx, l, older(r), BlobsPerExecution+round*perRound+k)
		}},
		{name: "put, new execution", act: func(ctx context.Context, _ *rand.Rand, k int) error {
			return put(ctx, l, executions+round*perRound+k, 0)
		}},
		{name: "list 100 executions", act: func(ctx context.Context, r *rand.Rand, _ int) error {
			return listExecutions(ctx, l, older(r))
		}},
		{name: "erase an execution", max: fences, act: func(ctx context.Context, _ *rand.Rand, k int) error {
			return fence(ctx, l, executions-1-round*fences-k)
		}},
		{name: "claim a due job", max: fences, act: func(ctx context.Context, _ *rand.Rand, k int) error {
			at := time.Now()
			_, err := l.Claim(ctx, "scale", at, at.Add(time.Hour))
			if errors.Is(err, blobd.ErrNotFound) && k > 0 {
				return errUsedUp // fewer were erased in the time
			}
			return err
		}},
		{name: "list 256 due rows", act: func(ctx context.Context, r *rand.Rand, _ int) error { return listDue(ctx, l, older(r)) }},
		{name: "sweep 1,000 rows", max: sweepsMost(executions), alone: true, act: func(ctx context.Context, _ *rand.Rand, k int) error { return w.batch(ctx, k) }},
	}
}

// errUsedUp ends an operation that has nothing left to act on.
var errUsedUp = errors.New("used up")

func lookup(ctx context.Context, l ledger.Ledger, i, from, n int) error {
	refs := make([]blobd.Ref, n)
	for k := range refs {
		refs[k] = Ref(i, from+k)
	}
	v, err := l.Lookup(ctx, Tag(i), refs)
	if err != nil {
		return err
	}
	for k, b := range v.Blobs {
		if b == nil || b.Ref != refs[k] || b.State != ledger.BlobLive {
			return fmt.Errorf("blob %d of execution %d is %+v", from+k, i, b)
		}
	}
	return nil
}

// put does what a put asks of the ledger.
func put(ctx context.Context, l ledger.Ledger, i, n int) error {
	v, err := l.LookupRepeats(ctx, Tag(i), [][32]byte{repeat(i, n)})
	if err != nil {
		return err
	}
	if v.Blobs[0] != nil {
		return fmt.Errorf("blob %d of execution %d is stored before it is put", n, i)
	}
	c, err := capture(i, n, time.Now())
	if err != nil {
		return err
	}
	if v.Execution != nil {
		c.Key = *v.Execution.Key
	}
	done, err := l.Commit(ctx, c)
	if err == nil && !done.Created[0] {
		err = errors.New("the put made no row")
	}
	return err
}

func listExecutions(ctx context.Context, l ledger.Ledger, i int) error {
	page, err := l.ListExecutions(ctx, ledger.ExecutionQuery{Tenant: tenant, Limit: 100, Before: ledger.ExecutionCursor{
		CreatedAt: start().Add(time.Duration(i+1) * time.Second),
	}})
	if err == nil && (len(page) == 0 || page[0].ID != executionID(i)) {
		err = fmt.Errorf("the page from execution %d on has %d", i, len(page))
	}
	return err
}

func fence(ctx context.Context, l ledger.Ledger, i int) error {
	at := time.Now()
	id := fmt.Sprintf("erasure-of-%d", i)
	scope := ledger.Scope{Tenant: tenant, Tag: Tag(i), ExecutionID: executionID(i)}
	entry, err := scribe().Erasure(at, scope, evidence.ErasureStep{Step: evidence.StepFenced, Erasure: id}, "token-of-the-officer")
	if err != nil {
		return err
	}
	e, _, err := l.Fence(ctx, ledger.Fence{
		ID: id, Scope: scope,
		RequestedBy: "token-of-the-officer", Reason: "asked for", At: at, RunAt: at, Entries: []ledger.Entry{entry},
	})
	if err != nil {
		return err
	}
	if e.Plan.Blobs != BlobsPerExecution {
		return fmt.Errorf("the erasure of execution %d covers %d blobs", i, e.Plan.Blobs)
	}
	v, err := l.Lookup(ctx, Tag(i), []blobd.Ref{Ref(i, 0)})
	if err == nil && (v.Execution == nil || v.Execution.State != ledger.ExecutionErased || v.Execution.Key != nil) {
		err = fmt.Errorf("after its fence execution %d is %+v", i, v.Execution)
	}
	return err
}

// Measure measures every operation on a filled ledger of so many executions,
// with each of the settings in a round of its own.
func Measure(ctx context.Context, e Engine, executions int, settings []string, b Bounds) (all []Figures, err error) {
	fences := min(b.Acts, executions/4/len(settings))
	for round, s := range settings {
		l, err := e.Open(ctx, s)
		if err != nil {
			return all, err
		}
		for _, o := range operations(l, executions, fences, round) {
			f, err := measure(ctx, e, o, b)
			if err != nil {
				return all, errors.Join(fmt.Errorf("%s: %w", o.name, err), l.Close())
			}
			f.Settings = s
			all = append(all, f)
		}
		if err := l.Close(); err != nil {
			return all, err
		}
	}
	return all, nil
}

// measure runs acts until the time is over or all are done.
func measure(ctx context.Context, e Engine, o operation, b Bounds) (f Figures, err error) {
	before, err := usage(e)
	if err != nil {
		return f, err
	}
	var mu sync.Mutex
	var times []time.Duration
	var next atomic.Int64
	began := time.Now()
	end := began.Add(b.Time)
	g, ctx := errgroup.WithContext(ctx)
	clients := b.Clients
	if o.alone {
		clients = 1
	}
	for c := range clients {
		g.Go(func() error {
			r := rand.New(rand.NewPCG(1, uint64(c)))
			var mine []time.Duration
			for time.Now().Before(end) && ctx.Err() == nil {
				k := int(next.Add(1)) - 1
				if o.max > 0 && k >= o.max {
					break
				}
				from := time.Now()
				err := o.act(ctx, r, k)
				if errors.Is(err, errUsedUp) {
					break
				}
				if err != nil {
					return err
				}
				mine = append(mine, time.Since(from))
			}
			mu.Lock()
			defer mu.Unlock()
			times = append(times, mine...)
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return f, err
	}
	took := time.Since(began)
	after, err := usage(e)
	if err != nil || len(times) == 0 {
		return f, errors.Join(err, ctx.Err())
	}
	slices.Sort(times)
	n := len(times)
	return Figures{
		Op: o.name, Clients: clients, Acts: n, PerSecond: float64(n) / took.Seconds(),
		P50: times[n/2], P99: times[n*99/100],
		Own: (after.own - before.own) / time.Duration(n), Server: (after.server - before.server) / time.Duration(n),
	}, nil
}

type used struct{ own, server time.Duration }

func usage(e Engine) (u used, err error) {
	if u.own, err = target.OwnCPU(); err != nil {
		return u, err
	}
	u.server, err = e.CPU()
	return u, err
}
