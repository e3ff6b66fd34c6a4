package ledgertest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// runProtection applies random calls to an engine and checks, after each of them and
// by a model that knows nothing but what was asked for, that no row under an open hold
// or floor loses its key and that what is closed is told as closed; and in the end,
// when every hold was lifted and the jobs ran, that each erasure that nobody undid is
// erased, with all that it covered.
func runProtection(t *testing.T, h Harness) {
	rapid.Check(t, func(r *rapid.T) {
		c := &clock{now: start}
		p := &protection{
			r: r, clock: c, Ledger: h.New(t, c.Now), rows: map[int]*modelRow{}, holds: map[int]ledger.Scope{},
			closes: map[string]ledger.Scope{}, waits: map[ledger.Lease]time.Time{},
		}
		defer func() { _ = p.Close() }()
		p.must(p.CreateTenant(ctx, ledger.Tenant{ID: tenant, CreatedAt: start, MinimumWrap: 1}, entry(ledger.EntryTenant)))
		for _, name := range []string{"reasoning", "other"} {
			p.must(p.SetPolicy(ctx, policyOf(name, 4*second), entry(ledger.EntryPolicy)))
		}
		for range 4 {
			p.put()
		}
		p.last = p.seen()
		r.Repeat(p.acts())
		p.settle()
	})
}

// protection is the engine and the model: open orders and what was asked for.
type protection struct {
	ledger.Ledger
	r       *rapid.T
	clock   *clock
	seconds int
	rows    map[int]*modelRow // by the blob's number
	orders  int
	holds   map[int]ledger.Scope
	closes  map[string]ledger.Scope // restrictions and closings, by their ids
	asked   []*modelErasure
	jobs    []ledger.Job
	waits   map[ledger.Lease]time.Time // until when what a pass kept is
	sweeps  int
	sweep   ledger.SweepLease
	floor   int             // of the class "other", in seconds; 0: none
	last    map[int]seenRow // what check saw last
}

func (p *protection) must(err error) {
	if err != nil {
		p.r.Fatalf("unexpected error: %v", err)
	}
}

// one reports an error that is none of those that may come, and whether there was none.
func (p *protection) one(err error, may ...error) bool {
	if err != nil && !slices.ContainsFunc(may, func(want error) bool { return errors.Is(err, want) }) {
		p.r.Fatalf("unexpected error: %v", err)
	}
	return err == nil
}

func (p *protection) now() time.Time { return at(p.seconds) }

func (p *protection) acts() map[string]func(*rapid.T) {
	act := func(f func()) func(*rapid.T) {
		return func(r *rapid.T) {
			p.r = r
			f()
			p.check()
		}
	}
	return map[string]func(*rapid.T){
		"put": act(p.put), "put more": act(p.put), "tag": act(p.tag),
		"hold": act(p.placeHold), "restrict": act(p.restrict), "lift": act(p.liftHold), "lapse": act(p.lapse),
		"erase": act(p.erase), "erase more": act(p.erase), "decide": act(p.decide),
		"claim": act(p.claim), "worker": act(p.worker), "worker again": act(p.worker), "work": act(p.work), "work more": act(p.work),
		"sweep": act(p.runSweep), "policy": act(p.policy),
		"time": act(func() {
			p.seconds += rapid.IntRange(1, 9).Draw(p.r, "seconds")
			p.clock.set(p.now())
		}),
	}
}

func (p *protection) scope() ledger.Scope {
	x := rapid.IntRange(0, 2).Draw(p.r, "execution")
	switch rapid.IntRange(0, 9).Draw(p.r, "form") {
	case 0, 1:
		return executionScope(x)
	case 2, 3, 4:
		s := executionScope(x)
		for n, row := range p.rows {
			if row.execution == x && n%2 == 0 {
				s.Refs = append(s.Refs, refOf(n))
			}
		}
		if len(s.Refs) == 0 {
			s.Refs = refsOf(0, 1)
		}
		s.Refs = sortedRefs(s.Refs...)
		return s
	case 5, 6:
		return subjectScope(rapid.IntRange(1, 3).Draw(p.r, "subject"))
	case 7:
		return classScope(class(p.r), time.Time{})
	case 8:
		return classScope(class(p.r), p.now().Add(-time.Duration(rapid.IntRange(0, 9).Draw(p.r, "before"))*second))
	}
	return tenantScope()
}

func (p *protection) put() {
	n, x := len(p.rows), rapid.IntRange(0, 2).Draw(p.r, "execution")
	row := &modelRow{execution: x, class: class(p.r), captured: p.seconds, keyed: true}
	b := newBlob(n)
	b.Class = row.class
	c := capture(x, p.now(), b)
	if s := rapid.IntRange(0, 3).Draw(p.r, "subject"); s > 0 {
		row.subjects, c.Subjects = []int{s}, [][32]byte{subjectOf(s)}
	}
	_, err := p.Commit(ctx, c)
	closed := p.closed(row, n)
	if p.one(err, blobd.ErrErased, blobd.ErrClosed, blobd.ErrSuppressed) {
		p.rows[n] = row
	}
	if refused := errors.Is(err, blobd.ErrClosed); refused != closed && !errors.Is(err, blobd.ErrErased) {
		p.r.Fatalf("a put into what is closed (%v): %v", closed, err)
	}
}

// tag adds a subject to a row that is there.
func (p *protection) tag() {
	if len(p.rows) == 0 {
		p.r.Skip("no row")
	}
	n, s := rapid.IntRange(0, len(p.rows)-1).Draw(p.r, "row"), rapid.IntRange(1, 3).Draw(p.r, "subject")
	row := p.rows[n]
	c := retained(row.execution, p.now(), refOf(n))
	c.Subjects = [][32]byte{subjectOf(s)}
	_, err := p.Commit(ctx, c)
	if p.one(err, blobd.ErrErased, blobd.ErrClosed, blobd.ErrSuppressed, blobd.ErrConflict) && !slices.Contains(row.subjects, s) {
		row.subjects = append(row.subjects, s)
	}
}

func (p *protection) placeHold() {
	s := p.scope()
	_, _, err := p.PlaceOrder(ctx, orderOf(p.orders, ledger.OrderHold, s), entry(ledger.EntryOrder))
	if p.one(err, blobd.ErrTenantErased) {
		p.holds[p.orders] = s
	}
	p.orders++
}

func (p *protection) restrict() {
	s := p.scope()
	o := orderOf(p.orders, ledger.OrderRestriction, s)
	_, _, err := p.PlaceOrder(ctx, o, entry(ledger.EntryOrder))
	if p.one(err, blobd.ErrTenantErased) {
		p.closes[o.ID] = s
	}
	p.orders++
}

func (p *protection) liftHold() {
	for id := range p.orders {
		if _, open := p.holds[id]; open {
			p.lift(id, ledger.OrderHold)
			delete(p.holds, id)
			return
		}
	}
	p.r.Skip("no hold")
}

func (p *protection) lapse() {
	for id := range p.orders {
		if _, open := p.closes[orderID(id)]; open {
			p.lift(id, ledger.OrderRestriction)
			delete(p.closes, orderID(id))
			return
		}
	}
	p.r.Skip("no restriction")
}

func (p *protection) lift(id int, kind ledger.OrderKind) {
	lift := liftOf(id, kind)
	lift.At = p.now()
	_, _, err := p.LiftOrder(ctx, lift, entry(ledger.EntryOrder))
	p.must(err)
}

func (p *protection) erase() {
	f := eraseOf(len(p.asked), p.scope())
	if f.Scope.WholeTenant && len(p.holds) == 0 {
		p.r.Skip("not the whole tenant")
	}
	f.At, f.RunAt, f.RequestedBy = p.now(), p.now(), "asker"
	if rapid.Bool().Draw(p.r, "planned") { // with counts that no scope here has
		f.Plan, f.PlanDigest = ledger.Plan{Executions: 90, Blobs: 91, Bytes: 92, Held: 93}, hash("plan", len(p.asked))
	}
	switch rapid.IntRange(0, 4).Draw(p.r, "way") {
	case 0:
		f.Approvals = 1
	case 1:
		f.GraceUntil = p.now().Add(4 * second)
	case 2:
		f.Strict = true
	}
	x := &modelErasure{id: f.ID, scope: f.Scope, awaits: f.Approvals > 0, digest: f.PlanDigest}
	e, _, err := p.Fence(ctx, f)
	if err == nil && e.Planned {
		x.plan = f.Plan
	}
	p.asked = append(p.asked, x)
	if !p.one(err, blobd.ErrHeld) {
		x.undone = true // it was refused
		return
	}
	if !x.awaits {
		p.begins(x, e)
	}
}

// begins notes what an erasure covers once it has closed or fenced its scope.
func (p *protection) begins(x *modelErasure, e ledger.Erasure) {
	x.awaits, x.covered = false, map[int]bool{}
	for n, row := range p.rows {
		x.covered[n] = row.covers(x.scope, n)
	}
	if e.Closing {
		p.closes[x.id] = x.scope
	}
}

func (p *protection) decide() {
	if len(p.asked) == 0 {
		p.r.Skip("no erasure")
	}
	id := rapid.IntRange(0, len(p.asked)-1).Draw(p.r, "erasure")
	x := p.asked[id]
	d := decisionOf(id, ledger.Act(rapid.SampledFrom([]int{1, 1, 3}).Draw(p.r, "act")), "ann")
	d.PlanDigest, d.At, d.RunAt = x.digest, p.now(), p.now()
	e, _, err := p.Decide(ctx, d)
	if !p.one(err, blobd.ErrConflict, blobd.ErrNotFound) {
		return
	}
	switch {
	case d.Act == ledger.ActCancel:
		x.undone = true
		delete(p.closes, x.id)
	case x.awaits:
		p.begins(x, e)
	}
}

func (p *protection) policy() {
	p.floor = rapid.IntRange(0, 15).Draw(p.r, "floor")
	pol := policyOf("other", 3*second)
	pol.At = p.now()
	if p.floor > 0 {
		pol.Floor, pol.LegalBasis = ledger.Period{Time: time.Duration(p.floor) * second}, "a law"
	}
	if !p.one(p.SetPolicy(ctx, pol, entry(ledger.EntryPolicy)), blobd.ErrTenantErased) {
		p.floor = 0
	}
	if rapid.Bool().Draw(p.r, "both") {
		p.one(p.SetPolicy(ctx, policyOf("reasoning", 3*second), entry(ledger.EntryPolicy)), blobd.ErrTenantErased)
	}
}

// runSweep runs a sweep over every row, or a part of one.
func (p *protection) runSweep() {
	if p.sweep.SweepID == "" && !p.startSweep() {
		return
	}
	var rows []ledger.Position
	for n, row := range p.rows {
		rows = append(rows, position(row.execution, n))
	}
	part := rapid.IntRange(0, 3).Draw(p.r, "part")
	if part > 0 {
		_, err := p.Expire(ctx, p.sweep, expiryOf(rows...))
		p.must(err)
	}
	if part > 1 {
		_, err := p.Bury(ctx, p.sweep, rows)
		p.must(err)
		p.must(p.MoveSweep(ctx, p.sweep, ledger.SweepMove{To: ledger.SweepDone, At: p.now()}))
		p.sweep = ledger.SweepLease{}
	}
}

func (p *protection) startSweep() bool {
	n := newSweep(p.sweeps)
	n.RunAt = p.now()
	p.sweeps++
	if _, err := p.StartSweep(ctx, n); !p.one(err, blobd.ErrTenantErased) {
		return false
	}
	j, err := p.ClaimSweep(ctx, "worker", p.now(), p.now().Add(time.Hour))
	p.must(err)
	p.sweep = j.Lease
	return true
}
