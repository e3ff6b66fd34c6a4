package ledgertest

import (
	"errors"
	"slices"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// scene puts four blobs, and one of another tenant, over which every form of scope is
// told apart.
func (e *env) scene() {
	e.Helper()
	e.tenant("beta", 0)
	for _, b := range []struct {
		x, n    int
		class   string
		subject int
		when    time.Time
	}{
		{1, 1, "reasoning", 1, start}, {1, 2, "notes", 2, start}, {2, 3, "reasoning", 2, at(6)}, {3, 4, "notes", 0, start},
	} {
		e.commit(sceneCapture(b.x, b.n, b.class, b.subject, b.when))
	}
	foreign := sceneCapture(9, 9, "reasoning", 1, start)
	foreign.Tenant = "beta"
	e.commit(foreign)
}

func sceneCapture(x, n int, class string, subject int, when time.Time) ledger.Capture {
	b := newBlob(n)
	b.Class = class
	c := capture(x, when, b)
	if subject > 0 {
		c.Subjects = [][32]byte{subjectOf(subject)}
	}
	return c
}

// sceneBlobs are the scene's blobs by number, with their executions.
var sceneBlobs = map[int]int{1: 1, 2: 1, 3: 2, 4: 3, 9: 9}

// scopeCase is a scope and what it covers of the scene.
type scopeCase struct {
	form    string
	scope   ledger.Scope
	covered []int
	whole   []int // executions that are covered whole
	// joins is a capture that would join what is covered.
	joins ledger.Capture
}

func sceneScopes() []scopeCase {
	return []scopeCase{
		{"execution", executionScope(1), []int{1, 2}, []int{1}, sceneCapture(1, 20, "free", 0, at(9))},
		{"refs", refScope(1, 1, 20), []int{1}, nil, sceneCapture(1, 20, "free", 0, at(9))},
		{"subject", subjectScope(2), []int{2, 3}, nil, sceneCapture(4, 20, "free", 2, at(9))},
		{"subjects", subjectScope(1, 2), []int{1, 2, 3}, nil, sceneCapture(3, 20, "free", 1, at(9))},
		{"class", classScope("reasoning", time.Time{}), []int{1, 3}, nil, sceneCapture(4, 20, "reasoning", 0, at(9))},
		{"class up to a date", classScope("reasoning", at(6)), []int{1}, nil, sceneCapture(4, 20, "reasoning", 0, at(5))},
		{"tenant", tenantScope(), []int{1, 2, 3, 4}, []int{1, 2, 3}, sceneCapture(4, 20, "free", 0, at(9))},
	}
}

// closings are the ways to close a scope, and the reason that each gives.
func closings() map[ledger.CloseReason]func(*env, ledger.Scope) {
	return map[ledger.CloseReason]func(*env, ledger.Scope){
		ledger.ClosedRestricted: func(e *env, s ledger.Scope) { e.place(orderOf(1, ledger.OrderRestriction, s)) },
		ledger.ClosedErasure: func(e *env, s ledger.Scope) {
			f := eraseOf(1, s)
			f.GraceUntil = at(1000)
			e.fence(f)
		},
	}
}

func reopenings() map[ledger.CloseReason]func(*env) {
	return map[ledger.CloseReason]func(*env){
		ledger.ClosedRestricted: func(e *env) { e.lift(1, ledger.OrderRestriction) },
		ledger.ClosedErasure:    func(e *env) { e.cancel(1) },
	}
}

// closedRows checks that exactly some of the scene's rows are told as closed, by every
// method that tells of rows.
func (e *env) closedRows(form string, why ledger.CloseReason, covered []int) {
	e.Helper()
	scanned := map[int]ledger.CloseReason{}
	rows, err := e.ScanBlobs(e.ctx, ledger.Position{}, 100)
	e.must(err)
	for _, r := range rows {
		for n, x := range sceneBlobs {
			if r.Position == position(x, n) {
				scanned[n] = r.Blob.Closed
			}
		}
	}
	for n, x := range sceneBlobs {
		want := ledger.CloseReason(0)
		if slices.Contains(covered, n) {
			want = why
		}
		recorded := ledger.CloseReason(0)
		for _, r := range e.records(x) {
			if r.Ref == refOf(n) {
				recorded = r.Blob.Closed
			}
		}
		e.equal(form+": lookup, repeat, record, scan",
			[]ledger.CloseReason{e.blob(x, n).Closed, e.repeat(x, n).Closed, recorded, scanned[n]},
			[]ledger.CloseReason{want, want, want, want})
	}
}

// closedExecutions checks that exactly some of the scene's executions are told as
// closed, by every method that tells of executions.
func (e *env) closedExecutions(form string, why ledger.CloseReason, whole []int) {
	e.Helper()
	var listed []blobd.ExecutionTag
	for _, x := range e.listExecutions(ledger.ExecutionQuery{Tenant: tenant, State: ledger.ExecutionClosed}) {
		e.equal("listed", x.CloseReason, why)
		listed = append(listed, x.Tag)
	}
	e.equal(form+": listed as closed", len(listed), len(whole))
	for x := 1; x <= 3; x++ {
		state, reason := ledger.ExecutionOpen, ledger.CloseReason(0)
		if slices.Contains(whole, x) {
			state, reason = ledger.ExecutionClosed, why
		}
		e.equal(form+": listed", slices.Contains(listed, tagOf(x)), reason != 0)
		repeats, err := e.LookupRepeats(e.ctx, tagOf(x), nil)
		e.must(err)
		for _, got := range []ledger.Execution{*e.lookup(x, refOf(1)).Execution, *repeats.Execution, e.summary(x).Execution} {
			e.equal(form+": state and reason", []any{got.State, got.CloseReason}, []any{state, reason})
			if got.Key == nil || got.Blobs == 0 {
				e.Fatalf("%s: execution %+v", form, got)
			}
		}
	}
	rows, err := e.ScanBlobs(e.ctx, ledger.Position{}, 100)
	e.must(err)
	for _, r := range rows {
		for _, x := range whole {
			if r.Tag == tagOf(x) {
				e.equal(form+": scanned", r.ExecutionState, ledger.ExecutionClosed)
			}
		}
	}
}

func orderScopeSentences() []sentence {
	return []sentence{
		{"what a restriction or a closing covers is told as closed, until it ends", func(e *env) {
			for why, place := range closings() {
				for _, c := range sceneScopes() {
					fresh := e.fresh()
					fresh.scene()
					fresh.closedRows(c.form+" before", why, nil)
					fresh.closedExecutions(c.form+" before", why, nil)
					place(fresh, c.scope)
					fresh.closedRows(c.form, why, c.covered)
					fresh.closedExecutions(c.form, why, c.whole)
					reopenings()[why](fresh)
					fresh.closedRows(c.form+" after", why, nil)
					fresh.closedExecutions(c.form+" after", why, nil)
				}
			}
		}},
		{"a commit refuses what would join what is closed, until it ends", func(e *env) {
			for why, place := range closings() {
				for _, c := range sceneScopes() {
					fresh := e.fresh()
					fresh.scene()
					place(fresh, c.scope)
					err := fresh.refusedCommit(c.joins, blobd.ErrClosed)
					e.equal(c.form+": restricted", errors.Is(err, blobd.ErrRestricted), why == ledger.ClosedRestricted)
					reopenings()[why](fresh)
					fresh.commit(c.joins)
				}
			}
		}},
		{"a commit that joins nothing of what is closed is taken", func(e *env) {
			e.scene()
			for i, s := range []ledger.Scope{
				executionScope(1), refScope(2, 3), subjectScope(1), classScope("notes", time.Time{}), classScope("reasoning", at(6)),
			} {
				e.place(orderOf(i, ledger.OrderRestriction, s))
			}
			e.commit(sceneCapture(2, 20, "reasoning", 2, at(6)))
			e.commit(sceneCapture(4, 21, "reasoning", 0, at(7)))
			c := sceneCapture(9, 22, "notes", 1, at(7))
			c.Tenant = "beta"
			e.commit(c)
		}},
		{"a repeat of a row that is closed is refused, expired or not", func(e *env) {
			for why, place := range closings() {
				fresh := e.fresh()
				fresh.maximum("notes", 5*second)
				fresh.scene()
				place(fresh, classScope("notes", at(1)))
				b := again(2, 20)
				b.Class = "free"
				for _, when := range []time.Time{at(4), at(50)} {
					err := fresh.refusedCommit(capture(1, when, b), blobd.ErrClosed)
					e.equal("restricted", errors.Is(err, blobd.ErrRestricted), why == ledger.ClosedRestricted)
				}
			}
		}},
		{"a part that names a row that is closed is refused", func(e *env) {
			e.scene()
			e.place(orderOf(1, ledger.OrderRestriction, refScope(1, 1)))
			e.refusedCommit(retained(1, at(1), refOf(1)), blobd.ErrRestricted)
			e.commit(retained(1, at(1), refOf(2)))
			e.place(orderOf(2, ledger.OrderRestriction, subjectScope(2)))
			e.refusedCommit(retained(1, at(1), refOf(2)), blobd.ErrRestricted)
		}},
		{"a closing comes before a restriction", func(e *env) {
			for _, first := range []ledger.CloseReason{ledger.ClosedErasure, ledger.ClosedRestricted} {
				fresh := e.fresh()
				fresh.scene()
				closings()[first](fresh, executionScope(1))
				closings()[3-first](fresh, tenantScope())
				e.equal("execution", fresh.summary(1).CloseReason, ledger.ClosedErasure)
				e.equal("row", fresh.blob(1, 1).Closed, ledger.ClosedErasure)
				if err := fresh.refusedCommit(capture(1, at(9), newBlob(20)), blobd.ErrClosed); errors.Is(err, blobd.ErrRestricted) {
					e.Fatal(err)
				}
			}
		}},
		{"of two orders over a row the last to be lifted opens it", func(e *env) {
			e.scene()
			e.place(orderOf(1, ledger.OrderRestriction, executionScope(1)))
			e.place(orderOf(2, ledger.OrderRestriction, subjectScope(1)))
			e.lift(1, ledger.OrderRestriction)
			e.equal("execution", e.summary(1).State, ledger.ExecutionOpen)
			e.equal("rows", []ledger.CloseReason{e.blob(1, 1).Closed, e.blob(1, 2).Closed}, []ledger.CloseReason{ledger.ClosedRestricted, 0})
			e.lift(2, ledger.OrderRestriction)
			e.equal("row", e.blob(1, 1).Closed, ledger.CloseReason(0))
		}},
		{"rows that come later are closed too", func(e *env) {
			e.scene()
			e.place(orderOf(1, ledger.OrderRestriction, executionScope(1)))
			e.place(orderOf(2, ledger.OrderRestriction, refScope(2, 30)))
			_, err := e.EnterMissing(e.ctx, []ledger.Position{position(1, 30), position(2, 30), position(3, 30)}, at(3))
			e.must(err)
			e.equal("rows", []ledger.CloseReason{e.blob(1, 30).Closed, e.blob(2, 30).Closed, e.blob(3, 30).Closed},
				[]ledger.CloseReason{ledger.ClosedRestricted, ledger.ClosedRestricted, 0})
		}},
		{"a row that is tagged with a person later is closed from then on", func(e *env) {
			e.putTagged(1, 1)
			e.place(orderOf(1, ledger.OrderRestriction, subjectScope(1)))
			e.lift(1, ledger.OrderRestriction)
			c := retained(1, at(1), refOf(1))
			c.Subjects = [][32]byte{subjectOf(1)}
			e.commit(c)
			e.equal("before", e.blob(1, 1).Closed, ledger.CloseReason(0))
			e.place(orderOf(2, ledger.OrderRestriction, subjectScope(1)))
			e.equal("after", e.blob(1, 1).Closed, ledger.ClosedRestricted)
		}},
		{"an execution that was never seen can be closed", func(e *env) {
			e.restrict(7)
			e.refusedCommit(capture(7, at(9), newBlob(1)), blobd.ErrRestricted)
			e.lapse(7)
			e.put(7, 1)
		}},
		{"an execution that ends while it is closed is told as closed", func(e *env) {
			e.put(1, 1)
			e.restrict(1)
			got := e.end(1, at(5))
			e.equal("execution", []any{got.State, got.CloseReason, got.EndedAt}, []any{ledger.ExecutionClosed, ledger.ClosedRestricted, at(5)})
		}},
		{"an erased execution is erased and no more closed, and nor are its rows", func(e *env) {
			e.put(1, 1)
			e.put(2, 2)
			e.restrict(1)
			e.fence(fenceOf(1, 1))
			e.equal("execution", []any{e.summary(1).State, e.summary(1).CloseReason}, []any{ledger.ExecutionErased, ledger.CloseReason(0)})
			e.equal("row", e.blob(1, 1).Closed, ledger.CloseReason(0))
			e.place(orderOf(1, ledger.OrderRestriction, subjectScope(1)))
			e.place(orderOf(2, ledger.OrderRestriction, classScope("reasoning", time.Time{})))
			e.fence(offboard(2))
			e.equal("row of a fenced tenant", e.blob(2, 2).Closed, ledger.CloseReason(0))
		}},
		{"a hold changes no answer", func(e *env) {
			e.scene()
			before := e.whole()
			for i, c := range sceneScopes() {
				e.hold(i, c.scope)
			}
			after := e.whole()
			after.Picture.Entries, after.Journal, after.Orders = before.Picture.Entries, before.Journal, before.Orders
			after.Picture.Stats.JournalUnpublished = before.Picture.Stats.JournalUnpublished
			e.equal("the ledger", after, before)
			for i, c := range sceneScopes() {
				c.joins.Blobs[0] = newBlob(60 + i)
				c.joins.Blobs[0].Class = "reasoning"
				e.commit(c.joins)
			}
		}},
		{"a hold is told of rows that are past their maximum, and of no others", func(e *env) {
			for _, c := range sceneScopes() {
				fresh := e.fresh()
				fresh.maximum("reasoning", 20*second)
				fresh.maximum("notes", 20*second)
				fresh.scene()
				fresh.hold(1, c.scope)
				fresh.clock.set(at(19))
				fresh.heldRows(c.form+" before", nil)
				fresh.clock.set(at(20)) // 3 was captured later
				fresh.heldRows(c.form, slices.DeleteFunc(slices.Clone(c.covered), func(n int) bool { return n == 3 }))
				fresh.clock.set(at(26))
				fresh.heldRows(c.form+" later", c.covered)
				fresh.lift(1, ledger.OrderHold)
				fresh.heldRows(c.form+" lifted", nil)
			}
		}},
	}
}

// heldRows checks that exactly some of the scene's rows are told as held.
func (e *env) heldRows(form string, want []int) {
	e.Helper()
	for n, x := range sceneBlobs {
		held := slices.Contains(want, n)
		e.equal(form, []bool{e.blob(x, n).Held, e.repeat(x, n).Held, e.records(x)[slices.IndexFunc(e.records(x),
			func(r ledger.RecordedPart) bool { return r.Ref == refOf(n) })].Blob.Held}, []bool{held, held, held})
	}
}
