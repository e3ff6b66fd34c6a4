package ledgertest

import (
	"fmt"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

func orderID(n int) string { return fmt.Sprintf("order-%03d", n) }

// executionScope is the x-th execution.
func executionScope(x int) ledger.Scope {
	return ledger.Scope{Tenant: tenant, Tag: tagOf(x), ExecutionID: idOf(x)}
}

// refScope is blobs of the x-th execution.
func refScope(x int, refs ...int) ledger.Scope {
	s := executionScope(x)
	for _, n := range refs {
		s.Refs = append(s.Refs, refOf(n))
	}
	return s
}

// subjectScope is what is tagged with any of some people.
func subjectScope(subjects ...int) ledger.Scope {
	s := ledger.Scope{Tenant: tenant}
	for _, n := range subjects {
		s.Subjects = append(s.Subjects, subjectOf(n))
	}
	s.Subjects = sortedHashes(s.Subjects...)
	return s
}

// classScope is a class, or what was captured of it before a time.
func classScope(class string, before time.Time) ledger.Scope {
	return ledger.Scope{Tenant: tenant, Class: class, CapturedBefore: before}
}

func tenantScope() ledger.Scope { return offboard(0).Scope }

// orderOf is an order as it is asked for.
func orderOf(id int, kind ledger.OrderKind, s ledger.Scope) ledger.Order {
	return ledger.Order{ID: orderID(id), Kind: kind, Scope: s, PlacedAt: at(1), PlacedBy: "token"}
}

func (e *env) place(o ledger.Order) (ledger.Order, ledger.Record) {
	e.Helper()
	placed, r, err := e.PlaceOrder(e.ctx, o, entry(ledger.EntryOrder))
	e.must(err)
	return placed, r
}

func (e *env) hold(id int, s ledger.Scope) {
	e.Helper()
	e.place(orderOf(id, ledger.OrderHold, s))
}

// restrict closes the x-th execution by an order.
func (e *env) restrict(x int) ledger.Record {
	e.Helper()
	_, r := e.place(orderOf(800+x, ledger.OrderRestriction, executionScope(x)))
	return r
}

// lapse lifts what restrict placed.
func (e *env) lapse(x int) ledger.Record {
	e.Helper()
	return e.lift(800+x, ledger.OrderRestriction)
}

func liftOf(id int, kind ledger.OrderKind) ledger.Lift {
	return ledger.Lift{Tenant: tenant, Kind: kind, ID: orderID(id), At: at(2), By: "lifter"}
}

func (e *env) lift(id int, kind ledger.OrderKind) ledger.Record {
	e.Helper()
	_, r, err := e.LiftOrder(e.ctx, liftOf(id, kind), entry(ledger.EntryOrder))
	e.must(err)
	return r
}

func (e *env) order(id string) ledger.Order {
	e.Helper()
	o, err := e.Order(e.ctx, tenant, id)
	e.must(err)
	return o
}

// eraseOf is the fence of a scope.
func eraseOf(id int, s ledger.Scope) ledger.Fence {
	f := fenceOf(id, 0)
	f.Scope = s
	f.Closed = []ledger.Entry{bodied(`{"closed":1}`)}
	f.Asked = []ledger.Entry{bodied(`{"asked":1}`)}
	f.Entries = []ledger.Entry{bodied(`{"fenced":1}`)}
	return f
}

// bodied is an entry of an erasure with a body of its own.
func bodied(body string) ledger.Entry {
	e := entry(ledger.EntryErasure)
	e.Body = []byte(body)
	return e
}

// grace closes the x-th execution by an erasure that is in its grace.
func (e *env) grace(x int) ledger.Record {
	e.Helper()
	f := fenceOf(800+x, x)
	f.GraceUntil = at(1000)
	_, r := e.fence(f)
	return r
}

// putTagged puts the n-th blob, with subjects, into the x-th execution at the start.
func (e *env) putTagged(x, n int, subjects ...int) {
	e.Helper()
	c := capture(x, start, newBlob(n))
	for _, s := range subjects {
		c.Subjects = append(c.Subjects, subjectOf(s))
	}
	e.commit(c)
}

// floor gives a class a legal floor, which ends so long after the capture.
func (e *env) floor(class string, d time.Duration) {
	e.Helper()
	p := policyOf(class, time.Hour)
	p.Floor, p.LegalBasis = ledger.Period{Time: d}, "a law"
	e.setPolicy(p)
}

// dropOf is a page of a pass, from its start.
func dropOf(limit int) ledger.Drop {
	return ledger.Drop{At: at(30), Limit: limit, Entry: func(rows []ledger.DueRow) (ledger.Entry, error) {
		return bodied(fmt.Sprintf(`{"dropped":%d}`, len(rows))), nil
	}}
}

// pass drops what it may of a job's scope, in pages.
func (e *env) pass(j ledger.Job, limit int) (dropped []ledger.DueRow, kept []ledger.Kept) {
	e.Helper()
	d := dropOf(limit)
	for range 1000 {
		done, err := e.Drop(e.ctx, j.Lease, d)
		e.must(err)
		if len(done.Dropped)+len(done.Kept) > limit {
			e.Fatalf("a page of %d and %d", len(done.Dropped), len(done.Kept))
		}
		dropped, kept = append(dropped, done.Dropped...), append(kept, done.Kept...)
		if done.Next == (ledger.ScopeCursor{}) {
			return dropped, kept
		}
		d.After = done.Next
	}
	e.Fatal("a pass does not end")
	return nil, nil
}

// droppedRows lists, in pages of two, what a job's objects are to be deleted of.
func (e *env) droppedRows(id string) (all []ledger.Position) {
	e.Helper()
	var after ledger.Position
	for {
		rows, err := e.DroppedRows(e.ctx, id, after, 2)
		e.must(err)
		all = append(all, rows...)
		if len(rows) < 2 {
			return all
		}
		after = rows[1]
	}
}

// refsOfRows returns the refs of rows in byte order.
func refsOfRows(rows []ledger.DueRow) (refs []blobd.Ref) {
	for _, r := range rows {
		refs = append(refs, r.Ref)
	}
	return sortedRefs(refs...)
}

// bodies are the bodies of the entries of erasures after the n-th entry.
func (e *env) bodies(n int) (bodies []string) {
	e.Helper()
	for _, x := range e.entries()[n:] {
		bodies = append(bodies, string(x.Body))
	}
	return bodies
}
