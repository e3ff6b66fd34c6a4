package ledgertest

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// someSubjects draws at least n subjects of a few.
func someSubjects(r *rapid.T, n int) (subjects [][32]byte) {
	for _, i := range rapid.SliceOfNDistinct(rapid.IntRange(1, 3), n, 2, rapid.ID[int]).Draw(r, "subjects") {
		subjects = append(subjects, subjectOf(i))
	}
	return sortedHashes(subjects...)
}

// scope draws a scope of any form, of a whole tenant rarely.
func (m *machine) scope(r *rapid.T) ledger.Scope {
	switch rapid.IntRange(0, 12).Draw(r, "form") {
	case 0, 1, 2:
		return executionScope(execution(r))
	case 3, 4, 5:
		s := executionScope(execution(r))
		s.Refs = refs(r)
		return s
	case 6, 7, 8:
		return ledger.Scope{Tenant: tenant, Subjects: someSubjects(r, 1)}
	case 9:
		return classScope(class(r), time.Time{})
	case 10, 11:
		return classScope(class(r), m.now().Add(time.Duration(rapid.IntRange(-9, 3).Draw(r, "before"))*second))
	}
	return tenantScope()
}

func (m *machine) orderActs() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"place":           m.placeOrder,
		"lift":            m.liftOrder,
		"lift again":      m.liftOrder,
		"erase":           m.erase,
		"decide":          m.decide,
		"work on closing": m.workClosing,
		"drop":            m.drop,
		"replay":          m.replay,
	}
}

func orderNumber(r *rapid.T) int { return rapid.IntRange(0, 9).Draw(r, "order") }

func (m *machine) placeOrder(r *rapid.T) {
	kind := ledger.OrderKind(rapid.SampledFrom([]int{1, 1, 1, 2, 4}).Draw(r, "kind"))
	o := fullOrder(orderNumber(r), kind, m.scope(r))
	o.PlacedAt = m.now()
	if kind == ledger.OrderSuppression {
		o.ExpiresAt = m.now().Add(20 * second)
	}
	m.both(r, "place", func(l ledger.Ledger) (any, error) {
		o, rec, err := l.PlaceOrder(ctx, o, entry(ledger.EntryOrder))
		return []any{o, rec}, err
	})
}

func (m *machine) liftOrder(r *rapid.T) {
	lift := liftOf(orderNumber(r), ledger.OrderKind(rapid.SampledFrom([]int{1, 1, 2, 4}).Draw(r, "kind")))
	if rapid.IntRange(0, 9).Draw(r, "of an erasure") == 0 && m.erasures > 0 {
		lift.ID, lift.Kind = erasureID(rapid.IntRange(0, m.erasures-1).Draw(r, "erasure")), ledger.OrderSuppression
	}
	lift.At = m.now()
	m.both(r, "lift", func(l ledger.Ledger) (any, error) {
		o, rec, err := l.LiftOrder(ctx, lift, entry(ledger.EntryOrder))
		return []any{o, rec}, err
	})
}

// erase asks for an erasure of any form in any way.
func (m *machine) erase(r *rapid.T) {
	f := eraseOf(m.erasures, m.scope(r))
	if f.Scope.WholeTenant && rapid.IntRange(0, 4).Draw(r, "rarely") != 0 {
		r.Skip("not the whole tenant")
	}
	f.At, f.RunAt, f.RequestedBy = m.now(), m.now(), token(r)
	f.Plan, f.PlanDigest = ledger.Plan{Blobs: int64(m.seconds), Held: 1}, hash("plan", 1)
	f.Strict = rapid.IntRange(0, 4).Draw(r, "strict") == 0
	f.DueAt = m.now().Add(30 * second)
	switch rapid.IntRange(0, 5).Draw(r, "way") {
	case 0:
		f.Approvals = rapid.IntRange(1, 2).Draw(r, "approvals")
		if rapid.Bool().Draw(r, "grace") {
			f.GraceUntil = m.now().Add(7 * second)
		}
	case 1:
		f.GraceUntil = m.now().Add(5 * second)
	case 2:
		f.DeferUntil = m.now().Add(9 * second)
	}
	m.both(r, "erase", func(l ledger.Ledger) (any, error) {
		e, rec, err := l.Fence(ctx, f)
		return []any{e, rec}, err
	})
	m.erasures++
}

func token(r *rapid.T) string {
	return rapid.SampledFrom([]string{"ann", "bob", "cid"}).Draw(r, "token")
}

func (m *machine) decide(r *rapid.T) {
	if m.erasures == 0 {
		r.Skip("no erasure")
	}
	id := rapid.IntRange(0, m.erasures-1).Draw(r, "erasure")
	d := decisionOf(id, ledger.Act(rapid.SampledFrom([]int{1, 1, 1, 1, 2, 3}).Draw(r, "act")), token(r))
	d.PlanDigest, d.At, d.RunAt, d.Code, d.Reason = hash("plan", 1), m.now(), m.now(), "exempt", "a reason"
	switch rapid.IntRange(0, 9).Draw(r, "more") {
	case 0:
		d.PlanDigest = hash("plan", 2)
	case 1:
		d.GraceUntil = m.now().Add(5 * second)
	case 2:
		d.DeferUntil = m.now().Add(9 * second)
	case 3:
		m.both(r, "replan", func(l ledger.Ledger) (any, error) {
			return nil, l.Replan(ctx, tenant, d.ID, ledger.Plan{Blobs: int64(m.seconds)}, hash("plan", 1), entry(ledger.EntryErasure))
		})
	case 4:
		m.both(r, "set approvals", func(l ledger.Ledger) (any, error) {
			return nil, l.SetApprovals(ctx, tenant, m.seconds, entry(ledger.EntryTenant))
		})
	}
	m.both(r, "decide", func(l ledger.Ledger) (any, error) {
		e, rec, err := l.Decide(ctx, d)
		return []any{e, rec}, err
	})
}

// lease draws the lease of a job; it may be stale.
func (m *machine) lease(r *rapid.T) ledger.Lease {
	if len(m.jobs) == 0 {
		r.Skip("no job")
	}
	if rapid.IntRange(0, 3).Draw(r, "which") > 0 {
		return m.jobs[len(m.jobs)-1].Lease
	}
	return rapid.SampledFrom(m.jobs).Draw(r, "job").Lease
}

func (m *machine) workClosing(r *rapid.T) {
	lease, es := m.lease(r), []ledger.Entry{entry(ledger.EntryErasure)}
	switch rapid.IntRange(0, 3).Draw(r, "step") {
	case 0:
		p := ledger.Progress{Held: 1, Kept: []ledger.Kept{{Position: position(1, 1), ExecutionID: idOf(1), Verdict: ledger.VerdictHeld}}}
		due := m.now().Add(time.Duration(rapid.IntRange(1, 60).Draw(r, "due")) * second)
		m.both(r, "defer", func(l ledger.Ledger) (any, error) { return nil, l.Defer(ctx, lease, due, p, es) })
	case 1:
		m.both(r, "tombstone", func(l ledger.Ledger) (any, error) { return l.Tombstone(ctx, lease, 100) })
		p := ledger.Progress{ObjectsDeleted: int64(m.seconds)}
		m.both(r, "finish", func(l ledger.Ledger) (any, error) { return nil, l.Finish(ctx, lease, p, m.now(), es) })
	default:
		m.both(r, "fence closed", func(l ledger.Ledger) (any, error) {
			e, rec, err := l.FenceClosed(ctx, lease, m.now(), es)
			return []any{e, rec}, err
		})
	}
}

// drop does a whole pass: which rows come first is the engine's own.
func (m *machine) drop(r *rapid.T) {
	lease, d := m.lease(r), dropOf(100)
	d.At = m.now()
	m.both(r, "drop", func(l ledger.Ledger) (any, error) {
		done, err := l.Drop(ctx, lease, d)
		done.Dropped = plain(done.Dropped, true)
		slices.SortFunc(done.Kept, func(a, b ledger.Kept) int {
			return bytes.Compare(append(a.Tag[:], a.Ref[:]...), append(b.Tag[:], b.Ref[:]...))
		})
		if done.Next != (ledger.ScopeCursor{}) {
			return nil, fmt.Errorf("a pass of few rows goes on")
		}
		return done, err
	})
}

// replay brings back a record that may be about what is there.
func (m *machine) replay(r *rapid.T) {
	if rapid.IntRange(0, 2).Draw(r, "rarely") != 0 {
		r.Skip("no replay")
	}
	head, err := m.model.Head(ctx)
	if err != nil {
		r.Fatal(err)
	}
	s := m.scope(r)
	rec := lostOrder(head.Seq+1, orderOf(orderNumber(r), ledger.OrderHold, s))
	rec.Writes = head.Writes
	erasure := erasureID(rapid.IntRange(0, m.erasures).Draw(r, "erasure"))
	switch rapid.IntRange(0, 4).Draw(r, "record") {
	case 0:
		rec.OrderKind = ledger.OrderRestriction
	case 1:
		rec = lostLift(rec.Seq, rec.OrderID, ledger.OrderHold)
		if rapid.Bool().Draw(r, "of an erasure") {
			rec.OrderID, rec.OrderKind = erasure, ledger.OrderClosing
			x, err := m.model.Erasure(ctx, tenant, erasure)
			if err == nil && x.Scope.Form() == ledger.ScopeSubjects && rapid.Bool().Draw(r, "ended") {
				rec.OrderKind = ledger.OrderSuppression
			}
		} else if o, err := m.model.Order(ctx, tenant, rec.OrderID); err == nil {
			rec.OrderKind = o.Kind
		}
	case 2:
		rec.OrderKind, rec.OrderID, rec.ErasureID = ledger.OrderClosing, erasureID(m.erasures), erasureID(m.erasures)
		m.erasures++
	case 3:
		x, err := m.model.Erasure(ctx, tenant, erasure)
		undone := x.State == ledger.ErasureDenied || x.State == ledger.ErasureCancelled
		if err != nil || x.Scope.Form() != ledger.ScopeExecution || x.OfRefs || undone {
			r.Skip("no erasure of an execution that could have fenced")
		}
		rec = ledger.Record{Seq: rec.Seq, Kind: ledger.RecordFence, Tenant: tenant, Tag: x.Scope.Tag, ErasureID: x.ID, Wrap: 1}
	}
	rec.At = m.now()
	m.both(r, "replay", func(l ledger.Ledger) (any, error) { return nil, l.Replay(ctx, []ledger.Record{rec}) })
}

func (m *machine) compareOrders(r *rapid.T) {
	for _, kind := range []ledger.OrderKind{ledger.OrderHold, ledger.OrderRestriction, ledger.OrderSuppression} {
		m.both(r, "orders", func(l ledger.Ledger) (any, error) {
			return l.ListOrders(ctx, ledger.OrderQuery{Tenant: tenant, Kind: kind, Limit: 1000})
		})
	}
	for id := range m.erasures {
		m.both(r, "closing", func(l ledger.Ledger) (any, error) { return l.Order(ctx, tenant, erasureID(id)) })
		m.both(r, "dropped rows", func(l ledger.Ledger) (any, error) { return l.DroppedRows(ctx, erasureID(id), ledger.Position{}, 1000) })
	}
	for _, s := range []ledger.Scope{
		executionScope(1), refScope(1, 1, 2, 3), subjectScope(1), subjectScope(1, 2), classScope("reasoning", at(m.seconds-5)), tenantScope(),
	} {
		m.both(r, "scope rows", func(l ledger.Ledger) (any, error) {
			rows, _, err := l.ScopeRows(ctx, s, ledger.ScopeCursor{}, 1000)
			for i := range rows {
				rows[i].N = 0
			}
			slices.SortFunc(rows, func(a, b ledger.ScopeRow) int {
				return bytes.Compare(append(a.Tag[:], a.Ref[:]...), append(b.Tag[:], b.Ref[:]...))
			})
			return rows, err
		})
	}
	m.both(r, "coverage", func(l ledger.Ledger) (any, error) { return l.Coverage(ctx, tenant) })
	m.both(r, "find", func(l ledger.Ledger) (any, error) {
		tags, err := l.FindRef(ctx, tenant, refOf(1), 100)
		slices.SortFunc(tags, func(a, b blobd.ExecutionTag) int { return bytes.Compare(a[:], b[:]) })
		return tags, err
	})
	m.both(r, "count held", func(l ledger.Ledger) (any, error) {
		rows, bytes, err := l.CountHeld(ctx, tenant, orderID(0), 1000)
		return []any{rows, bytes}, err
	})
}
