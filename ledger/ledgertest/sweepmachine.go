package ledgertest

import (
	"bytes"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/blobd/blobd/ledger"
)

// policy draws a policy; some are not valid.
func (m *machine) policy(r *rapid.T) ledger.Policy {
	p := policyOf(class(r), time.Duration(rapid.IntRange(0, 30).Draw(r, "maximum"))*second)
	p.At = m.now().Add(time.Duration(rapid.IntRange(-3, 3).Draw(r, "at")) * second)
	p.Existing = rapid.Bool().Draw(r, "existing")
	p.Start = ledger.StartEvent(rapid.IntRange(0, 1).Draw(r, "start"))
	switch rapid.IntRange(0, 9).Draw(r, "more") {
	case 0:
		p.OnExpiry = ledger.ExpiryReview
	case 1:
		p.Floor, p.LegalBasis = ledger.Period{Time: 10 * second}, "a law"
	case 2:
		p.Removed = true
	case 3:
		p.Maximum = ledger.Period{Months: 1, Days: 2}
	}
	return p
}

func class(r *rapid.T) string {
	return rapid.SampledFrom([]string{"reasoning", "other"}).Draw(r, "class")
}

func (m *machine) sweepActs() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"end": func(r *rapid.T) {
			x := execution(r)
			m.both(r, "end", func(l ledger.Ledger) (any, error) {
				return l.EndExecution(ctx, tenant, tagOf(x), m.now(), entry(ledger.EntryEnd))
			})
		},
		"start sweep": func(r *rapid.T) {
			n := newSweep(m.sweeps)
			n.RunAt = m.now()
			m.both(r, "start a sweep", func(l ledger.Ledger) (any, error) { return m.noVersion(l.StartSweep(ctx, n)) })
			m.sweeps++
		},
		"claim sweep": func(r *rapid.T) {
			until := m.now().Add(time.Duration(rapid.IntRange(5, 60).Draw(r, "lease")) * second)
			j := m.both(r, "claim a sweep", func(l ledger.Ledger) (any, error) {
				j, err := l.ClaimSweep(ctx, "worker", m.now(), until)
				j.Sweep.Version = 0
				return j, err
			})
			if job, ok := j.(ledger.SweepJob); ok {
				m.sweepJobs = append(m.sweepJobs, job)
			}
		},
		"sweep":       m.workSweep,
		"sweep again": m.workSweep,
	}
}

// noVersion leaves out a number that engines may give with gaps.
func (m *machine) noVersion(s ledger.Sweep, err error) (any, error) {
	s.Version = 0
	return s, err
}

// workSweep does a step of a sweep whose lease may be stale.
func (m *machine) workSweep(r *rapid.T) {
	if len(m.sweepJobs) == 0 {
		r.Skip("no sweep")
	}
	lease := m.sweepJobs[len(m.sweepJobs)-1].Lease
	if rapid.IntRange(0, 4).Draw(r, "which") == 0 {
		lease = rapid.SampledFrom(m.sweepJobs).Draw(r, "sweep").Lease
	}
	var rows []ledger.Position
	for _, n := range rapid.SliceOfN(rapid.IntRange(0, 20), 1, 9).Draw(r, "rows") {
		rows = append(rows, position(n/7, n%7))
	}
	switch rapid.IntRange(0, 4).Draw(r, "step") {
	case 0:
		move := ledger.SweepMove{To: ledger.SweepRunning, Failed: int64(len(rows)), Due: m.now(), LastError: "unavailable"}
		if rapid.Bool().Draw(r, "plan") {
			move.Plan = &ledger.Tally{Scanned: int64(len(rows)), Erase: 1}
		}
		if rapid.Bool().Draw(r, "renew") {
			move.Until = m.now().Add(9 * second)
		}
		if rapid.IntRange(0, 3).Draw(r, "end") == 0 {
			move.To, move.At = ledger.SweepDone, m.now()
		}
		m.both(r, "move a sweep", func(l ledger.Ledger) (any, error) { return nil, l.MoveSweep(ctx, lease, move) })
	case 1:
		m.both(r, "bury", func(l ledger.Ledger) (any, error) { return l.Bury(ctx, lease, rows) })
	default:
		m.both(r, "expire", func(l ledger.Ledger) (any, error) {
			expired, err := l.Expire(ctx, lease, expiryOf(rows...))
			return plain(expired, false), err
		})
	}
}

// plain makes rows of two engines alike: the number is an engine's own, and so is
// the order of what was captured at the same time.
func plain(rows []ledger.DueRow, sort bool) []ledger.DueRow {
	for i := range rows {
		rows[i].N = 0
	}
	if sort {
		slices.SortFunc(rows, func(a, b ledger.DueRow) int {
			return bytes.Compare(append(a.Tag[:], a.Ref[:]...), append(b.Tag[:], b.Ref[:]...))
		})
	}
	return rows
}

func (m *machine) compareRetention(r *rapid.T) {
	m.both(r, "classes", func(l ledger.Ledger) (any, error) {
		cs, err := l.Classes(ctx, tenant, "", 100)
		for i := range cs {
			cs[i].Policies = slices.Clone(cs[i].Policies)
			for j := range cs[i].Policies {
				cs[i].Policies[j].Version = 0
			}
		}
		return cs, err
	})
	for _, name := range []string{"reasoning", "other"} {
		m.both(r, "due", func(l ledger.Ledger) (any, error) {
			rows, err := l.Due(ctx, ledger.DueQuery{Tenant: tenant, Class: name, Limit: 1000})
			return plain(rows, true), err
		})
	}
	m.both(r, "count stored", func(l ledger.Ledger) (any, error) { return l.CountStored(ctx, tenant, 1000) })
	m.both(r, "sweeps", func(l ledger.Ledger) (any, error) {
		all, err := l.ListSweeps(ctx, ledger.SweepQuery{Tenant: tenant, Limit: 1000})
		for i := range all {
			all[i].Version = 0
		}
		return all, err
	})
}
