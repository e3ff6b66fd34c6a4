package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/internal/servers"
	"github.com/blobd/blobd/ledger"
)

// outcome is what a caller knows of its change.
type outcome struct {
	x, n  int  // execution and blob; of a fence n is -1
	sure  bool // answered
	fence bool
}

// load keeps putting and fencing until stop, and notes what was answered.
type load struct {
	l    *Ledger
	next atomic.Int64 // numbers of blobs
	sure atomic.Int64

	mu   sync.Mutex
	done []outcome // guarded by mu
}

func (d *load) note(t *testing.T, o outcome, err error) {
	var conflict *ledger.KeyConflict
	switch {
	case err == nil:
		o.sure = true
		d.sure.Add(1)
	case errors.Is(err, blobd.ErrErased) || errors.As(err, &conflict):
		return // nothing happened
	case !errors.Is(err, blobd.ErrUnavailable):
		t.Errorf("execution %d: %v", o.x, err)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.done = append(d.done, o)
}

func (d *load) work(ctx context.Context, t *testing.T, worker int) {
	for i := 0; ctx.Err() == nil; i++ {
		x, n := 1000*worker+i/10, int(d.next.Add(1))
		_, err := d.l.Commit(context.Background(), capture(x, n))
		d.note(t, outcome{x: x, n: n}, err)
		if i%10 == 9 {
			_, _, err := d.l.Fence(context.Background(), fenceOf(x))
			d.note(t, outcome{x: x, n: -1, fence: true}, err)
		}
	}
}

// Each answered commit is there after kill -9, each other one whole or not at
// all, and the same pool of connections works again.
func TestKilledServer(t *testing.T) {
	p := servers.NewPostgres(t, servers.PostgresOptions{})
	url := p.URL(p.Database(t))
	l := openTest(t, Options{URL: url, Timeout: 3 * time.Second})
	addTenant(t, l)
	d := &load{l: l}
	for round := range 3 {
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for w := range 8 {
			wg.Go(func() { d.work(ctx, t, 100*round+w) })
		}
		for before := d.sure.Load(); d.sure.Load() < before+100 && t.Context().Err() == nil; {
			must(t, l.Check(t.Context())) // a wait that is work too
		}
		p.Kill()
		stop()
		wg.Wait()
		p.Start()
		must(t, l.Check(t.Context()))
		d.judge(t)
	}
}

func TestRestartedServer(t *testing.T) {
	p := servers.NewPostgres(t, servers.PostgresOptions{InMemory: true})
	l := openTest(t, Options{URL: p.URL(p.Database(t)), Timeout: 3 * time.Second})
	addTenant(t, l)
	put(t, l, 1, 1)
	p.Stop()
	_, err := l.Lookup(t.Context(), tagOf(1), []blobd.Ref{refOf(1)})
	refused(t, err, blobd.ErrUnavailable)
	_, err = l.Commit(t.Context(), capture(1, 2))
	refused(t, err, blobd.ErrUnavailable)
	p.Start()
	v, err := l.Lookup(t.Context(), tagOf(1), []blobd.Ref{refOf(1), refOf(2)})
	must(t, err)
	if v.Blobs[0] == nil || v.Blobs[1] != nil {
		t.Fatalf("blobs %v", v.Blobs)
	}
	// A server that does not answer at all holds nobody beyond his time.
	p.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err = l.Lookup(ctx, tagOf(1), []blobd.Ref{refOf(1)})
	refused(t, err, blobd.ErrUnavailable)
	_, err = l.Commit(ctx, capture(1, 3))
	refused(t, err, blobd.ErrUnavailable)
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("a caller with 200 ms was kept for %v", took)
	}
	p.Resume()
	put(t, l, 1, 4)
	wholeExecution(t, l, 1)
}

// judge compares all that was ever answered with what is there.
func (d *load) judge(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	fenced := map[int]bool{}
	var live, executions int64
	seen := map[int]bool{}
	for _, o := range d.done {
		if !o.fence {
			continue
		}
		e, err := d.l.Erasure(ctx, acme, fenceOf(o.x).ID)
		switch {
		case err == nil:
			fenced[o.x] = true
			if e.State != ledger.ErasureRunning {
				t.Errorf("erasure %+v", e)
			}
		case o.sure || !errors.Is(err, blobd.ErrNotFound):
			t.Errorf("the fence of %d was answered (%v) and: %v", o.x, o.sure, err)
		}
	}
	for _, o := range d.done {
		if o.fence {
			continue
		}
		v, err := d.l.Lookup(ctx, tagOf(o.x), []blobd.Ref{refOf(o.n)})
		must(t, err)
		there := v.Blobs[0] != nil
		if o.sure && !there {
			t.Errorf("blob %d of %d was answered and is gone", o.n, o.x)
		}
		if there && v.Execution == nil {
			t.Errorf("blob %d has no execution", o.n)
			continue
		}
		if v.Execution == nil {
			continue
		}
		if erased := v.Execution.State == ledger.ExecutionErased; erased != fenced[o.x] || erased == (v.Execution.Key != nil) {
			t.Errorf("execution %d, fenced: %v: %+v", o.x, fenced[o.x], v.Execution)
		}
		if !seen[o.x] && !fenced[o.x] {
			seen[o.x] = true
			live, executions = live+v.Execution.Blobs, executions+1
			wholeExecution(t, d.l, o.x)
		}
	}
	s, err := d.l.Stats(ctx)
	must(t, err)
	if s.Blobs != live || s.Executions != executions || s.Bytes != 100*live {
		t.Errorf("stats %+v, %d blobs of %d executions are live", s, live, executions)
	}
	d.judgeJournal(t, int64(len(fenced)))
}

// judgeJournal checks that the journal has one record per fence, without a gap.
func (d *load) judgeJournal(t *testing.T, fences int64) {
	t.Helper()
	rs, err := d.l.Unpublished(t.Context(), 100_000)
	must(t, err)
	for i, r := range rs {
		if r.Seq != int64(i)+1 || r.Kind != ledger.RecordFence {
			t.Fatalf("record %d: %+v", i, r)
		}
	}
	if int64(len(rs)) != fences {
		t.Errorf("%d records of %d fences", len(rs), fences)
	}
}

// A replica answers nothing, and what was promoted nothing before it is trusted.
func TestAnotherTimelineIsNotBelieved(t *testing.T) {
	p := servers.NewPostgres(t, servers.PostgresOptions{InMemory: true})
	database := p.Database(t)
	l := openTest(t, Options{URL: p.URL(database), Timeout: 3 * time.Second})
	addTenant(t, l)
	put(t, l, 1, 1)
	first, err := l.Timeline(t.Context())
	must(t, err)
	l.Trust(first)
	put(t, l, 1, 2)
	must(t, l.Check(t.Context()))

	p.Stop()
	standby := filepath.Join(p.Data(), "standby.signal")
	must(t, os.WriteFile(standby, nil, 0o666))
	p.Start()
	if _, err := l.Lookup(t.Context(), tagOf(1), []blobd.Ref{refOf(1)}); !errors.Is(err, blobd.ErrUnavailable) {
		t.Fatalf("a replica answered: %v", err)
	}
	p.Exec(t, "postgres", "SELECT pg_promote()")

	second, err := l.Timeline(t.Context())
	must(t, err)
	if second[:8] == first[:8] {
		t.Fatalf("timelines %s and %s", first, second)
	}
	for name, call := range map[string]func() error{
		"lookup":  func() error { _, err := l.Lookup(t.Context(), tagOf(1), []blobd.Ref{refOf(1)}); return err },
		"repeats": func() error { _, err := l.LookupRepeats(t.Context(), tagOf(1), nil); return err },
		"commit":  func() error { _, err := l.Commit(t.Context(), capture(1, 3)); return err },
		"token":   func() error { _, err := l.TokenByHash(t.Context(), hash("token", 1)); return err },
		"check":   func() error { return l.Check(t.Context()) },
	} {
		if err := call(); !errors.Is(err, blobd.ErrUnavailable) {
			t.Errorf("%s on another timeline: %v", name, err)
		}
	}
	// What recovery needs goes on.
	_, err = l.Head(t.Context())
	must(t, err)
	must(t, l.Replay(t.Context(), []ledger.Record{{Seq: 1, Kind: ledger.RecordMark, At: noon, Writes: 2}}))
	l.Trust(second)
	must(t, l.Check(t.Context()))
	put(t, l, 1, 3)
	wholeExecution(t, l, 1)
}

// Every SQLSTATE that an outage, a limit or a broken file makes has its word.
func TestClassify(t *testing.T) {
	for code, want := range map[string]error{
		"08006": blobd.ErrUnavailable, "25006": blobd.ErrUnavailable, "25P03": blobd.ErrUnavailable,
		"28P01": blobd.ErrUnavailable, "3D000": blobd.ErrUnavailable, "40001": blobd.ErrUnavailable,
		"40003": blobd.ErrUnavailable, "40P01": blobd.ErrUnavailable, "53100": blobd.ErrUnavailable,
		"53300": blobd.ErrUnavailable, "55000": blobd.ErrUnavailable, "55P03": blobd.ErrUnavailable,
		"57014": blobd.ErrUnavailable, "57P01": blobd.ErrUnavailable, "57P03": blobd.ErrUnavailable,
		"58030": blobd.ErrUnavailable, "22021": blobd.ErrInvalid, "XX001": blobd.ErrCorrupt, "XX002": blobd.ErrCorrupt,
		"23505": nil, "42P01": nil, "XX000": nil,
	} {
		err := classify("op", fmt.Errorf("wrapped: %w", &pgconn.PgError{Code: code}))
		for _, word := range []error{blobd.ErrUnavailable, blobd.ErrInvalid, blobd.ErrCorrupt, blobd.ErrNotFound, blobd.ErrErased} {
			if errors.Is(err, word) != (word == want) {
				t.Errorf("%s: is %v: %v", code, word, errors.Is(err, word))
			}
		}
	}
}
