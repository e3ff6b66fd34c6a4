package api

import (
	"context"
	"strings"
	"time"

	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/ledger"
)

// reportRetention answers GET /v1/reports/retention.
func (a *API) reportRetention(c *call) error {
	from, to, err := c.span()
	if err != nil {
		return err
	}
	if err := a.Store.Serving(); err != nil {
		return err
	}
	each := func(ctx context.Context, yield func(*wire.RetentionLine) error) error {
		return pages(ctx, func(ctx context.Context, n int, after *ledger.Class) ([]ledger.Class, error) {
			name := ""
			if after != nil {
				name = after.Name
			}
			return a.Ledger.Classes(ctx, c.who.tenant, name, n)
		}, func(class *ledger.Class) (bool, error) {
			line := retentionLine(class)
			var err error
			if line.Blobs, line.AtLeast, err = a.countClass(ctx, c.who.tenant, class.Name, from, to); err != nil {
				return false, err
			}
			return true, yield(&line)
		})
	}
	return sendReport(c, c.reportHead("retention", from, to), report[wire.RetentionLine]{
		name: "retention", columns: retentionColumns(), lines: each,
	})
}

func retentionLine(class *ledger.Class) wire.RetentionLine {
	p := policyOf(*class)
	return wire.RetentionLine{
		Class: p.Class, Default: p.Default, StartEvent: p.StartEvent, Period: p.Period, Floor: textCell(p.Floor),
		LegalBasis: textCell(p.LegalBasis), OnExpiry: p.OnExpiry, Since: p.Since,
	}
}

// countClass counts the blobs of a class that were captured in a span and still
// have content, up to countOne.
func (a *API) countClass(ctx context.Context, tenant, class string, from, to time.Time) (n int64, more bool, err error) {
	q := ledger.DueQuery{Tenant: tenant, Class: class, From: from, To: to, Limit: reportPage}
	for {
		page, err := inPageTime(ctx, func(ctx context.Context) ([]ledger.DueRow, error) { return a.Ledger.Due(ctx, q) })
		if err != nil {
			return 0, false, err
		}
		for i := range page {
			if page[i].State != ledger.BlobLive && page[i].State != ledger.BlobSuperseded {
				continue
			}
			if n == countOne {
				return n, true, nil
			}
			n++
		}
		if len(page) < reportPage {
			return n, false, nil
		}
		q.After = page[len(page)-1].Cursor()
	}
}

func retentionColumns() []column[wire.RetentionLine] {
	type line = wire.RetentionLine
	return []column[line]{
		{"class", func(l *line) string { return l.Class }},
		{"default", func(l *line) string { return flagCell(l.Default) }},
		{"startEvent", func(l *line) string { return l.StartEvent }},
		{"period", func(l *line) string { return l.Period }},
		{"floor", func(l *line) string { return l.Floor }},
		{"legalBasis", func(l *line) string { return l.LegalBasis }},
		{"onExpiry", func(l *line) string { return l.OnExpiry }},
		{"since", func(l *line) string { return timeCell(l.Since) }},
		{"blobs", func(l *line) string { return numberCell(l.Blobs) }},
		{"atLeast", func(l *line) string { return flagCell(l.AtLeast) }},
	}
}

// reportHolds answers GET /v1/reports/holds.
func (a *API) reportHolds(c *call) error {
	from, to, err := c.span()
	if err != nil {
		return err
	}
	if err := a.Store.Serving(); err != nil {
		return err
	}
	q := ledger.OrderQuery{Tenant: c.who.tenant, Kind: ledger.OrderHold}
	each := func(ctx context.Context, yield func(*wire.Hold) error) error {
		return pages(ctx, func(ctx context.Context, n int, after *ledger.Order) ([]ledger.Order, error) {
			return a.readOrders(ctx, q)(n, after)
		}, func(o *ledger.Order) (bool, error) {
			late := !to.IsZero() && !o.PlacedAt.Before(to)
			if late || !o.Open() && o.LiftedAt.Before(from) {
				return true, nil
			}
			line, err := inPageTime(ctx, func(ctx context.Context) (wire.Hold, error) { return holdOf(ctx, a, o, countEach) })
			if err != nil {
				return false, err
			}
			return true, yield(&line)
		})
	}
	return sendReport(c, c.reportHead("holds", from, to), report[wire.Hold]{name: "holds", columns: holdColumns(), lines: each})
}

func holdColumns() []column[wire.Hold] {
	type line = wire.Hold
	return []column[line]{
		{"id", func(l *line) string { return l.ID }},
		{"state", func(l *line) string { return l.State }},
		{"scope", func(l *line) string { return l.Scope.Form }},
		{"executionId", func(l *line) string { return textCell(l.Scope.ExecutionID) }},
		{"refs", func(l *line) string { return strings.Join(l.Scope.Refs, " ") }},
		{"subjects", func(l *line) string { return numberCell(int64(l.Scope.Subjects)) }},
		{"class", func(l *line) string { return textCell(l.Scope.Class) }},
		{"capturedBefore", func(l *line) string { return timeCell(l.Scope.CapturedBefore) }},
		{"matter", func(l *line) string { return l.Matter }},
		{"reason", func(l *line) string { return l.Reason }},
		{"owner", func(l *line) string { return l.Owner }},
		{"reviewAt", func(l *line) string { return timeCell(l.ReviewAt) }},
		{"reviewOverdue", func(l *line) string { return flagCell(l.ReviewOverdue) }},
		{"placedAt", func(l *line) string { return timeCell(&l.PlacedAt) }},
		{"placedBy", func(l *line) string { return l.PlacedBy }},
		{"releasedAt", func(l *line) string { return timeCell(l.ReleasedAt) }},
		{"releasedBy", func(l *line) string { return textCell(l.ReleasedBy) }},
		{"releaseReason", func(l *line) string { return textCell(l.ReleaseReason) }},
		{"blobs", func(l *line) string { return numberCell(l.Held.Blobs) }},
		{"bytes", func(l *line) string { return numberCell(l.Held.Bytes) }},
		{"atLeast", func(l *line) string { return flagCell(l.Held.AtLeast) }},
	}
}

// reportSweeps answers GET /v1/reports/sweeps.
func (a *API) reportSweeps(c *call) error {
	from, to, err := c.span()
	if err != nil {
		return err
	}
	if err := a.Store.Serving(); err != nil {
		return err
	}
	next, err := inPageTime(c.r.Context(), func(context.Context) (time.Time, error) { return a.nextSweep(c) })
	if err != nil {
		return err
	}
	each := func(ctx context.Context, yield func(*wire.Sweep) error) error {
		return pages(ctx, func(ctx context.Context, n int, after *ledger.Sweep) ([]ledger.Sweep, error) {
			q := ledger.SweepQuery{Tenant: c.who.tenant, Limit: n}
			if after != nil {
				q.Before = ledger.SweepCursor{StartedAt: after.StartedAt, ID: after.ID}
			}
			return a.Ledger.ListSweeps(ctx, q)
		}, func(s *ledger.Sweep) (bool, error) {
			if s.StartedAt.Before(from) {
				return false, nil
			}
			if !to.IsZero() && !s.StartedAt.Before(to) {
				return true, nil
			}
			line := sweepOf(*s, next)
			return true, yield(&line)
		})
	}
	return sendReport(c, c.reportHead("sweeps", from, to), report[wire.Sweep]{name: "sweeps", columns: sweepColumns(), lines: each})
}

func sweepColumns() []column[wire.Sweep] {
	type line = wire.Sweep
	return []column[line]{
		{"id", func(l *line) string { return l.ID }},
		{"state", func(l *line) string { return l.State }},
		{"trigger", func(l *line) string { return l.Trigger }},
		{"startedAt", func(l *line) string { return timeCell(l.StartedAt) }},
		{"finishedAt", func(l *line) string { return timeCell(l.FinishedAt) }},
		{"scanned", func(l *line) string { return numberCell(l.Scanned) }},
		{"due", func(l *line) string { return numberCell(l.Due) }},
		{"erased", func(l *line) string { return numberCell(l.Erased) }},
		{"held", func(l *line) string { return numberCell(l.Held) }},
		{"floor", func(l *line) string { return numberCell(l.Floor) }},
		{"review", func(l *line) string { return numberCell(l.Review) }},
		{"waiting", func(l *line) string { return numberCell(l.Waiting) }},
		{"failed", func(l *line) string { return numberCell(l.Failed) }},
		{"bytes", func(l *line) string { return numberCell(l.Bytes) }},
		{"stoppedBy", func(l *line) string { return l.StoppedBy }},
	}
}
