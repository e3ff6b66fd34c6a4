package api

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/ledger"
)

// reportErasures answers GET /v1/reports/erasures.
func (a *API) reportErasures(c *call) error {
	from, to, err := c.span()
	if err != nil {
		return err
	}
	if err := a.Store.Serving(); err != nil {
		return err
	}
	now := a.Now()
	sum := newErasureSums()
	f := erasureFilter{ErasureQuery: ledger.ErasureQuery{Tenant: c.who.tenant}}
	each := func(ctx context.Context, yield func(*wire.ErasureLine) error) error {
		return pages(ctx, func(ctx context.Context, n int, after *ledger.Erasure) ([]ledger.Erasure, error) {
			return f.read(ctx, a.Ledger, n, after)
		}, func(e *ledger.Erasure) (bool, error) {
			// Newest first by when it was asked for here, which is never before it was
			// received but for a caller's clock.
			if e.FencedAt.Add(clockSkew).Before(from) {
				return false, nil
			}
			if e.ReceivedAt.Before(from) || !to.IsZero() && !e.ReceivedAt.Before(to) {
				return true, nil
			}
			line := erasureLine(e, now)
			sum.add(&line)
			return true, yield(&line)
		})
	}
	return sendReport(c, c.reportHead("erasures", from, to), report[wire.ErasureLine]{
		name: "erasures", columns: erasureColumns(), lines: each, summary: func() any { return sum.end() },
	})
}

// erasuresCSV is a listing of erasures as CSV: all that pass, or limit.
func (a *API) erasuresCSV(c *call, f erasureFilter) error {
	limit, err := c.intParam("limit", 1<<62, 1, wire.MaxList)
	if err != nil {
		return err
	}
	now := a.Now()
	each := func(ctx context.Context, yield func(*wire.ErasureLine) error) error {
		return pages(ctx, func(ctx context.Context, n int, after *ledger.Erasure) ([]ledger.Erasure, error) {
			return f.read(ctx, a.Ledger, n, after)
		}, func(e *ledger.Erasure) (bool, error) {
			if !f.passes(e) {
				return true, nil
			}
			line := erasureLine(e, now)
			limit--
			return limit > 0, yield(&line)
		})
	}
	return sendReport(c, wire.Report{}, report[wire.ErasureLine]{name: "erasures", columns: erasureColumns(), lines: each})
}

// Outcomes of a report: what a requester was told in the end.
const (
	lineComplied  = "complied"
	linePartial   = "partial"
	lineDenied    = "denied"
	lineCancelled = "cancelled"
	lineOpen      = "open"
)

func erasureLine(e *ledger.Erasure, now time.Time) wire.ErasureLine {
	scope := coveredBy(e)
	held, floor := keptBy(e)
	line := wire.ErasureLine{
		ID: e.ID, Type: "erasure", Scope: scope.Form, Regime: e.Regime, ExternalRef: e.ExternalRef, Received: e.ReceivedAt.UTC(),
		Due: timeOrNull(e.DueAt), Completed: timeOrNull(e.EndedAt()), State: string(e.Stands()), Basis: e.Code,
		Blobs: max(e.Plan.Blobs, doneOf(e)), Erased: doneOf(e), Kept: held + floor + e.Progress.Failed, RequestedBy: e.RequestedBy, ApprovedBy: listOrEmpty(e.ApprovedBy),
	}
	if d := deltaOf(e); d != nil {
		line.DeltaBlobs = &d.Blobs
	}
	switch e.Stands() {
	case ledger.ErasureErased:
		line.Outcome = lineComplied
	case ledger.ErasurePartial:
		line.Outcome, line.Basis = linePartial, string(keptBasis(e))
	case ledger.ErasureDenied:
		line.Outcome = lineDenied
	case ledger.ErasureCancelled:
		line.Outcome = lineCancelled
	default:
		line.Outcome, line.Basis = lineOpen, string(keptBasis(e))
	}
	if !e.EndedAt().IsZero() {
		days := dayOf(e.EndedAt()) - dayOf(e.ReceivedAt)
		line.Days = &days
	}
	if !e.DueAt.IsZero() {
		line.Overdue = !e.State.Ended() && now.After(e.DueAt) || e.EndedAt().After(e.DueAt)
	}
	return line
}

// dayOf numbers the days of UTC.
func dayOf(t time.Time) int64 { return t.Unix() / (24 * 60 * 60) }

func erasureColumns() []column[wire.ErasureLine] {
	type line = wire.ErasureLine
	return []column[line]{
		{"id", func(l *line) string { return l.ID }},
		{"type", func(l *line) string { return l.Type }},
		{"scope", func(l *line) string { return l.Scope }},
		{"regime", func(l *line) string { return l.Regime }},
		{"externalRef", func(l *line) string { return l.ExternalRef }},
		{"received", func(l *line) string { return timeCell(&l.Received) }},
		{"due", func(l *line) string { return timeCell(l.Due) }},
		{"completed", func(l *line) string { return timeCell(l.Completed) }},
		{"state", func(l *line) string { return l.State }},
		{"outcome", func(l *line) string { return l.Outcome }},
		{"basis", func(l *line) string { return l.Basis }},
		{"days", func(l *line) string { return maybeCell(l.Days) }},
		{"overdue", func(l *line) string { return flagCell(l.Overdue) }},
		{"blobs", func(l *line) string { return numberCell(l.Blobs) }},
		{"erased", func(l *line) string { return numberCell(l.Erased) }},
		{"kept", func(l *line) string { return numberCell(l.Kept) }},
		{"requestedBy", func(l *line) string { return l.RequestedBy }},
		{"approvedBy", func(l *line) string { return strings.Join(l.ApprovedBy, " ") }},
		{"deltaBlobs", func(l *line) string { return maybeCell(l.DeltaBlobs) }},
	}
}

// maybeCell is empty where there is no number.
func maybeCell(n *int64) string {
	if n == nil {
		return ""
	}
	return numberCell(*n)
}

// erasureSums adds up a report in memory that does not grow with its lines: days
// are counted, not kept.
type erasureSums struct {
	wire.ErasureSummary
	days map[int64]int64
}

func newErasureSums() *erasureSums {
	return &erasureSums{
		wire.ErasureSummary{States: map[string]int64{}, Outcomes: map[string]int64{}, Denials: map[string]int64{}},
		map[int64]int64{},
	}
}

func (s *erasureSums) add(l *wire.ErasureLine) {
	s.Received++
	s.States[l.State]++
	s.Outcomes[l.Outcome]++
	if l.Outcome == lineDenied && l.Basis != "" {
		s.Denials[l.Basis]++
	}
	if l.Overdue {
		s.Overdue++
	}
	if l.Days != nil && l.Outcome != lineCancelled { // which nobody answered
		s.days[*l.Days]++
	}
}

// end works out the mean and the median of the days.
func (s *erasureSums) end() wire.ErasureSummary {
	var n, total int64
	var distinct []int64
	for days, count := range s.days {
		n += count
		total += days * count
		distinct = append(distinct, days)
	}
	if n == 0 {
		return s.ErasureSummary
	}
	slices.Sort(distinct)
	at := func(rank int64) int64 { // the day of the completed erasure of that rank, from 0
		for _, days := range distinct {
			if rank < s.days[days] {
				return days
			}
			rank -= s.days[days]
		}
		return 0
	}
	mean := float64(total) / float64(n)
	median := float64(at((n-1)/2)+at(n/2)) / 2
	s.MeanDays, s.MedianDays = &mean, &median
	return s.ErasureSummary
}
