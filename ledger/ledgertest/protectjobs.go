package ledgertest

import (
	"time"

	"pgregory.net/rapid"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

func (p *protection) claim() {
	j, err := p.Claim(ctx, "worker", p.now(), p.now().Add(9*second))
	if p.one(err, blobd.ErrNotFound) {
		p.jobs = append(p.jobs, j)
	}
}

// never is when a job is due that nothing wakes.
func never() time.Time { return start.AddDate(90, 0, 0) }

// work does one step of a job, whose lease may be stale.
func (p *protection) work() {
	if len(p.jobs) == 0 {
		p.r.Skip("no job")
	}
	j := p.jobs[len(p.jobs)-1]
	if rapid.IntRange(0, 2).Draw(p.r, "which") == 0 {
		j = rapid.SampledFrom(p.jobs).Draw(p.r, "job")
	}
	switch rapid.IntRange(0, 7).Draw(p.r, "step") {
	case 0:
		p.fence(j)
	case 1:
		p.finish(j)
	case 2:
		_, err := p.Tombstone(ctx, j.Lease, rapid.IntRange(1, 3).Draw(p.r, "limit"))
		p.one(err, blobd.ErrConflict)
	case 3:
		_, _, err := p.DropKeys(ctx, j.Lease, 1)
		p.one(err, blobd.ErrConflict)
	case 4:
		p.drop(j, rapid.IntRange(1, 3).Draw(p.r, "limit"))
	default:
		p.deferred(j)
	}
}

// deferred postpones a job by what its last pass kept, which may be long ago.
func (p *protection) deferred(j ledger.Job) {
	until, passed := p.waits[j.Lease]
	if !passed {
		p.drop(j, 100)
		return
	}
	p.one(p.Defer(ctx, j.Lease, until, ledger.Progress{Held: 1}, nil), blobd.ErrConflict)
}

// worker claims a job and does what it can.
func (p *protection) worker() {
	before := len(p.jobs)
	if p.claim(); len(p.jobs) == before {
		return
	}
	j := p.jobs[before]
	if !j.Erasure.Closing || p.fence(j) {
		return
	}
	kept := p.drop(j, 2)
	_, err := p.Tombstone(ctx, j.Lease, 100)
	p.must(err)
	if kept == 0 {
		p.finish(j)
		return
	}
	for len(p.holds) > 0 && rapid.IntRange(0, 4).Draw(p.r, "meanwhile") > 0 {
		p.liftHold()
	}
	p.deferred(j)
}

func (p *protection) fence(j ledger.Job) bool {
	_, _, err := p.FenceClosed(ctx, j.Lease, p.now(), nil)
	if !p.one(err, blobd.ErrHeld, blobd.ErrConflict) {
		return false
	}
	delete(p.closes, j.Erasure.ID)
	return true
}

// drop does a pass, notes until when a worker would wait, and returns how many rows
// were kept.
func (p *protection) drop(j ledger.Job, limit int) (kept int) {
	d, until := dropOf(limit), never()
	d.At = p.now()
	for {
		done, err := p.Drop(ctx, j.Lease, d)
		if !p.one(err, blobd.ErrConflict) {
			return 0
		}
		for _, k := range done.Kept {
			kept++
			if !k.Until.IsZero() && k.Until.Before(until) {
				until = k.Until
			}
		}
		if d.After = done.Next; d.After == (ledger.ScopeCursor{}) {
			break
		}
	}
	delete(p.waits, j.Lease)
	if kept > 0 {
		p.waits[j.Lease] = until
	}
	return kept
}

func (p *protection) finish(j ledger.Job) bool {
	done := p.one(p.Finish(ctx, j.Lease, ledger.Progress{}, p.now(), nil), blobd.ErrConflict)
	if done {
		delete(p.closes, j.Erasure.ID)
	}
	return done
}

// settle lifts all that protects and runs the jobs until none is due.
func (p *protection) settle() {
	p.seconds += 60 // past every grace, lease and floor
	p.clock.set(p.now())
	for id := range p.holds {
		p.lift(id, ledger.OrderHold)
	}
	p.holds = map[int]ledger.Scope{}
	for turn := 0; ; turn++ {
		j, err := p.Claim(ctx, "last", p.now(), p.now().Add(second))
		if !p.one(err, blobd.ErrNotFound) {
			break
		}
		if turn > 20*len(p.asked)+20 {
			p.r.Fatalf("the jobs do not end: %+v", j.Erasure)
		}
		p.runJob(j)
	}
	p.judge()
}

// runJob does all that a worker does with a job.
func (p *protection) runJob(j ledger.Job) {
	if j.Erasure.Closing && !p.fence(j) {
		if kept := p.drop(j, 2); kept > 0 {
			p.r.Fatalf("%d rows are kept, and nothing protects them", kept)
		}
	}
	for more := true; more; {
		var err error
		_, more, err = p.DropKeys(ctx, j.Lease, 1)
		p.must(err)
	}
	for left := 1; left > 0; {
		var err error
		left, err = p.Tombstone(ctx, j.Lease, 3)
		p.must(err)
	}
	if !p.finish(j) { // an earlier one runs
		p.must(p.Postpone(ctx, j.Lease, p.now(), ledger.Progress{}, nil))
		p.seconds++
		p.clock.set(p.now())
	}
}

// judge looks at what is left in the end.
func (p *protection) judge() {
	rows := p.seen()
	for _, x := range p.asked {
		e, err := p.Erasure(ctx, tenant, x.id)
		if x.undone || x.awaits {
			continue
		}
		p.must(err)
		if e.State != ledger.ErasureErased {
			p.r.Fatalf("erasure %s stays %s: %+v", x.id, e.State, e)
		}
		for n, covered := range x.covered {
			if covered && (rows[n].keyed || !rows[n].erased) {
				p.r.Fatalf("blob %d is %+v, and was erased by %s", n, rows[n], x.id)
			}
		}
		if s, open := p.closes[x.id]; open {
			p.r.Fatalf("erasure %s ended, and the model has its closing: %+v", x.id, s)
		}
	}
}
