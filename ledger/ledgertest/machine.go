package ledgertest

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/ledger/mem"
)

// runMachine applies random calls to the engine and to the ledger in memory:
// both must answer alike and look alike.
func runMachine(t *testing.T, h Harness) {
	rapid.Check(t, func(r *rapid.T) {
		c := &clock{now: start}
		m := &machine{clock: c, engine: h.New(t, c.Now), model: mem.New(c.Now)}
		defer func() { _ = m.engine.Close() }()
		m.both(r, "create tenant", func(l ledger.Ledger) (any, error) {
			return nil, l.CreateTenant(ctx, ledger.Tenant{ID: tenant, CreatedAt: start, MinimumWrap: 1}, entry(ledger.EntryTenant))
		})
		r.Repeat(m.acts())
		m.compare(r)
	})
}

var ctx = context.Background()

// machine is the pair under test and what the acts have learned so far.
type machine struct {
	clock         *clock
	engine, model ledger.Ledger
	seconds       int
	erasures      int
	jobs          []ledger.Job
	epochs        int
	epochJobs     []ledger.EpochJob
	sweeps        int
	sweepJobs     []ledger.SweepJob
}

// answer is what a call said, in a form that two engines share.
type answer struct {
	Result any
	Err    error
	Winner ledger.WrappedKey
	Refs   []blobd.Ref
}

var closedSet = []error{
	blobd.ErrBlobErased, blobd.ErrTenantErased, blobd.ErrRestricted, blobd.ErrSuppressed, blobd.ErrPlanDrift, blobd.ErrNotFound, blobd.ErrErased, blobd.ErrExpired, blobd.ErrClosed,
	blobd.ErrDenied, blobd.ErrInvalid, blobd.ErrTooLarge, blobd.ErrConflict, blobd.ErrHeld, blobd.ErrPolicy,
	blobd.ErrCorrupt, blobd.ErrMissing, blobd.ErrUnavailable,
}

func answerOf(result any, err error) answer {
	if err == nil {
		return answer{Result: result}
	}
	a := answer{Err: errors.New("not of the closed set")}
	for _, e := range closedSet {
		if errors.Is(err, e) {
			a.Err = e
			break
		}
	}
	var key *ledger.KeyConflict
	if errors.As(err, &key) {
		a.Winner = key.Winner
	}
	var refs *blobd.RefsError
	if errors.As(err, &refs) {
		a.Refs = refs.Refs
	}
	return a
}

// both makes one call on both ledgers and compares the answers.
func (m *machine) both(r *rapid.T, what string, call func(ledger.Ledger) (any, error)) any {
	result, err := call(m.engine)
	want, wantErr := call(m.model)
	got, expected := answerOf(result, err), answerOf(want, wantErr)
	if reflect.DeepEqual(got, expected) { // much quicker than a report
		return got.Result
	}
	if d := cmp.Diff(expected, got, cmpopts.EquateEmpty(), cmpopts.EquateErrors()); d != "" {
		r.Fatalf("%s (%v): -model +engine\n%s", what, err, d)
	}
	return got.Result
}

func (m *machine) now() time.Time { return at(m.seconds) }

// Small sets make calls meet.
func execution(r *rapid.T) int { return rapid.IntRange(0, 2).Draw(r, "execution") }
func blob(r *rapid.T) int      { return rapid.IntRange(0, 5).Draw(r, "blob") }

func refs(r *rapid.T) (rs []blobd.Ref) {
	for _, n := range rapid.SliceOfN(rapid.IntRange(0, 6), 1, 4).Draw(r, "refs") {
		rs = append(rs, refOf(n))
	}
	return rs
}

func (m *machine) acts() map[string]func(*rapid.T) {
	acts := map[string]func(*rapid.T){
		"compare": m.compare,
		"commit":  m.commit,
		"retained": func(r *rapid.T) {
			c := retained(execution(r), m.now(), refOf(blob(r)))
			c.Attempt, c.Subjects = rapid.Int64Range(1, 2).Draw(r, "attempt"), someSubjects(r, 0)
			m.both(r, "commit", func(l ledger.Ledger) (any, error) { return l.Commit(ctx, c) })
		},
		"time": func(r *rapid.T) {
			m.seconds += rapid.IntRange(1, 20).Draw(r, "seconds")
			m.clock.set(m.now())
		},
		"policy": func(r *rapid.T) {
			p := m.policy(r)
			m.both(r, "set policy", func(l ledger.Ledger) (any, error) { return nil, l.SetPolicy(ctx, p, entry(ledger.EntryPolicy)) })
		},
		"missing": func(r *rapid.T) {
			p := []ledger.Position{position(execution(r), blob(r)), position(execution(r), 6)}
			m.both(r, "enter missing", func(l ledger.Ledger) (any, error) { return l.EnterMissing(ctx, p, m.now()) })
		},
		"loss": func(r *rapid.T) {
			x, n := execution(r), blob(r)
			m.both(r, "accept loss", func(l ledger.Ledger) (any, error) {
				return nil, l.AcceptLoss(ctx, tagOf(x), refOf(n), m.now(), entry(ledger.EntryRecovery))
			})
		},
		"collect": func(r *rapid.T) {
			p := position(execution(r), blob(r))
			m.both(r, "collect", func(l ledger.Ledger) (any, error) { return nil, l.Collect(ctx, p, m.now()) })
		},
		"mark": func(r *rapid.T) {
			m.both(r, "mark", func(l ledger.Ledger) (any, error) { return l.Mark(ctx, m.now()) })
		},
	}
	for name, act := range m.erasureActs() {
		acts[name] = act
	}
	for name, act := range m.epochActs() {
		acts[name] = act
	}
	for name, act := range m.sweepActs() {
		acts[name] = act
	}
	for name, act := range m.orderActs() {
		acts[name] = act
	}
	return acts
}

func (m *machine) commit(r *rapid.T) {
	x := execution(r)
	c := capture(x, m.now())
	c.Parts = nil
	for i, n := range rapid.SliceOfN(rapid.IntRange(0, 5), 1, 3).Draw(r, "blobs") {
		b := newBlob(n)
		if n == 5 {
			b.Class = "other"
		}
		if rapid.Bool().Draw(r, "same text") {
			b.Repeat = repeatOf(n / 2)
		}
		c.Blobs = append(c.Blobs, b)
		c.Parts = append(c.Parts, ledger.Part{Index: i, Kind: b.Kind, Status: ledger.PartKept, Blob: i})
	}
	if rapid.IntRange(0, 9).Draw(r, "key") == 0 {
		c.Key = keyOf(x + 1)
	}
	c.Key.Version = uint32(rapid.IntRange(0, 9).Draw(r, "version"))
	c.Subjects = someSubjects(r, 0)
	m.both(r, "commit", func(l ledger.Ledger) (any, error) { return l.Commit(ctx, c) })
}

func (m *machine) erasureActs() map[string]func(*rapid.T) {
	fence := func(r *rapid.T, f ledger.Fence) {
		f.At, f.RunAt = m.now(), m.now().Add(second)
		m.both(r, "plan", func(l ledger.Ledger) (any, error) { return l.Plan(ctx, f.Scope) })
		m.both(r, "fence", func(l ledger.Ledger) (any, error) {
			e, rec, err := l.Fence(ctx, f)
			return []any{e, rec}, err
		})
		m.erasures++
	}
	return map[string]func(*rapid.T){
		"fence":         func(r *rapid.T) { fence(r, fenceOf(m.erasures, execution(r))) },
		"fence of refs": func(r *rapid.T) { fence(r, fenceOf(m.erasures, execution(r), refs(r)...)) },
		"off-board": func(r *rapid.T) {
			if rapid.IntRange(0, 9).Draw(r, "rarely") == 0 {
				fence(r, offboard(m.erasures))
			}
		},
		"fence again": func(r *rapid.T) {
			f := fenceOf(rapid.IntRange(0, m.erasures).Draw(r, "erasure"), execution(r))
			fence(r, f)
		},
		"claim": func(r *rapid.T) {
			until := m.now().Add(time.Duration(rapid.IntRange(1, 20).Draw(r, "lease")) * second)
			j := m.both(r, "claim", func(l ledger.Ledger) (any, error) { return l.Claim(ctx, "worker", m.now(), until) })
			if job, ok := j.(ledger.Job); ok {
				m.jobs = append(m.jobs, job)
			}
		},
		"work": m.work,
	}
}

// work does a step of a job whose lease may be stale.
func (m *machine) work(r *rapid.T) {
	if len(m.jobs) == 0 {
		r.Skip("no job")
	}
	lease := rapid.SampledFrom(m.jobs).Draw(r, "job").Lease
	p := ledger.Progress{ObjectsDeleted: int64(m.seconds)}
	es := []ledger.Entry{entry(ledger.EntryErasure)}
	switch rapid.IntRange(0, 5).Draw(r, "step") {
	case 0:
		m.both(r, "postpone", func(l ledger.Ledger) (any, error) { return nil, l.Postpone(ctx, lease, m.now(), p, es) })
	case 1:
		m.both(r, "renew", func(l ledger.Ledger) (any, error) { return nil, l.Renew(ctx, lease, m.now().Add(second)) })
	case 2:
		m.both(r, "finish", func(l ledger.Ledger) (any, error) { return nil, l.Finish(ctx, lease, p, m.now(), es) })
	case 3:
		limit := rapid.IntRange(1, 3).Draw(r, "limit")
		m.both(r, "drop keys", func(l ledger.Ledger) (any, error) {
			p, more, err := l.DropKeys(ctx, lease, limit)
			return []any{p, more}, err
		})
	default: // without a limit in the way: which rows come first is the engine's own
		m.both(r, "tombstone", func(l ledger.Ledger) (any, error) { return l.Tombstone(ctx, lease, 100) })
	}
}

// compare looks at everything, now and then and at the end.
func (m *machine) compare(r *rapid.T) {
	m.both(r, "stats", func(l ledger.Ledger) (any, error) {
		s, err := l.Stats(ctx)
		s.WALBytes = 0
		return s, err
	})
	m.both(r, "scan", func(l ledger.Ledger) (any, error) { return l.ScanBlobs(ctx, ledger.Position{}, 1000) })
	m.both(r, "head", func(l ledger.Ledger) (any, error) { return l.Head(ctx) })
	m.both(r, "unpublished", func(l ledger.Ledger) (any, error) { return l.Unpublished(ctx, 1000) })
	m.both(r, "entries", func(l ledger.Ledger) (any, error) { return l.Entries(ctx, 0, 1000) })
	m.both(r, "tenant", func(l ledger.Ledger) (any, error) { return l.Tenant(ctx, tenant) })
	m.both(r, "executions", func(l ledger.Ledger) (any, error) {
		return l.ListExecutions(ctx, ledger.ExecutionQuery{Tenant: tenant, Limit: 1000})
	})
	m.both(r, "erasures", func(l ledger.Ledger) (any, error) {
		return l.ListErasures(ctx, ledger.ErasureQuery{Tenant: tenant, Limit: 1000})
	})
	m.both(r, "epochs", func(l ledger.Ledger) (any, error) {
		return l.ListEpochs(ctx, ledger.EpochQuery{Tenant: tenant, Limit: 1000})
	})
	m.compareRetention(r)
	m.compareOrders(r)
	m.both(r, "wraps", func(l ledger.Ledger) (any, error) {
		return l.Wraps(ctx, ledger.WrapQuery{Tenant: tenant, Below: 1 << 30, Limit: 1000})
	})
	for x := range 3 {
		m.both(r, "execution", func(l ledger.Ledger) (any, error) { return l.Execution(ctx, tenant, tagOf(x)) })
		m.both(r, "lookup", func(l ledger.Ledger) (any, error) { return l.Lookup(ctx, tagOf(x), refsOf(0, 7)) })
		m.both(r, "repeats", func(l ledger.Ledger) (any, error) {
			return l.LookupRepeats(ctx, tagOf(x), [][32]byte{repeatOf(0), repeatOf(1), repeatOf(2), repeatOf(3), repeatOf(4), repeatOf(5)})
		})
		m.both(r, "records", func(l ledger.Ledger) (any, error) {
			rs, err := l.Records(ctx, ledger.RecordQuery{Tag: tagOf(x), Limit: 1000})
			for i := range rs {
				rs[i].Seq = 0 // engines may leave gaps
			}
			return rs, err
		})
	}
}
