package api

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/store"
)

// startSweep answers POST /v1/sweeps.
func (a *API) startSweep(c *call) error {
	var q wire.SweepRequest
	return a.withJSON(c, &q, func([]byte) error {
		if q.Confirm != nil && *q.Confirm < 0 {
			return refuse(wire.CodeInvalid, "confirm: must not be negative")
		}
		if q.DryRun {
			return a.planSweep(c)
		}
		n := store.NewSweep{Tenant: c.who.tenant, Trigger: ledger.TriggerManual, Actor: c.who.token}
		if q.Confirm != nil {
			n.Confirm = *q.Confirm
		}
		s, err := a.Store.StartSweep(c.r.Context(), n)
		if err != nil {
			return err
		}
		next, err := a.nextSweep(c)
		if err != nil {
			return err
		}
		c.w.Header()[headerLocation] = []string{pathSweeps + "/" + s.ID}
		out := sweepOf(s, next)
		return c.reply(http.StatusAccepted, &out)
	})
}

// planSweep answers a dry run.
func (a *API) planSweep(c *call) error {
	plan, err := a.Store.PlanSweep(c.r.Context(), c.who.tenant)
	if err != nil {
		return err
	}
	next, err := a.nextSweep(c)
	if err != nil {
		return err
	}
	out := sweepOf(ledger.Sweep{Plan: plan, Erased: plan.Erase}, next)
	return c.reply(http.StatusOK, &out)
}

// nextSweep is when the schedule sweeps the caller's tenant next; zero: never.
func (a *API) nextSweep(c *call) (time.Time, error) {
	if a.NextSweep == nil {
		return time.Time{}, nil
	}
	t, err := a.Store.Tenant(c.r.Context(), c.who.tenant)
	if err != nil {
		return time.Time{}, err
	}
	return a.NextSweep(c.r.Context(), t)
}

func sweepOf(s ledger.Sweep, next time.Time) wire.Sweep {
	out := wire.Sweep{
		ID: s.ID, State: string(s.State), Scanned: s.Plan.Scanned, Due: s.Plan.Due(), Erased: s.Erased,
		Held: s.Plan.Held, Floor: s.Plan.Floor, Review: s.Plan.Review, Waiting: s.Plan.Waiting, Failed: s.Failed,
		Bytes: s.Plan.Bytes, LastError: s.LastError, StartedAt: timeOrNull(s.StartedAt), FinishedAt: timeOrNull(s.FinishedAt),
		Trigger: s.Trigger, NextRun: timeOrNull(next),
	}
	if s.State == ledger.SweepStopped {
		out.StoppedBy = "breaker"
	}
	for _, r := range s.Refused {
		kept := wire.SweepRefused{Version: r.Version, Reason: r.Reason, Until: timeOrNull(r.Until)}
		if r.Ref != (blobd.Ref{}) {
			kept.Ref = r.Ref.String()
		}
		out.Refused = append(out.Refused, kept)
	}
	return out
}

// sweep answers GET /v1/sweeps/{id}.
func (a *API) sweep(c *call) error {
	id := c.r.PathValue("id")
	if err := blobd.CheckName("id", id); err != nil {
		return invalid(err)
	}
	if err := a.Store.Serving(); err != nil {
		return err
	}
	s, err := a.Ledger.Sweep(c.r.Context(), c.who.tenant, id)
	if err != nil {
		return err
	}
	next, err := a.nextSweep(c)
	if err != nil {
		return err
	}
	out := sweepOf(s, next)
	return c.reply(http.StatusOK, &out)
}

// listSweeps answers GET /v1/sweeps.
func (a *API) listSweeps(c *call) error {
	p, err := c.paging()
	if err != nil {
		return err
	}
	q := ledger.SweepQuery{Tenant: c.who.tenant, State: ledger.SweepState(c.param("state")), Limit: p.limit + 1}
	switch q.State {
	case "", ledger.SweepRunning, ledger.SweepDone, ledger.SweepStopped:
	default:
		return refuse(wire.CodeInvalid, "state: want running, done or stopped")
	}
	if p.after != "" {
		if q.Before.StartedAt, q.Before.ID, err = readTimedKey(p.after); err != nil {
			return err
		}
	}
	if err := a.Store.Serving(); err != nil {
		return err
	}
	rows, err := a.Ledger.ListSweeps(c.r.Context(), q)
	if err != nil {
		return err
	}
	after, err := a.nextSweep(c)
	if err != nil {
		return err
	}
	rows, next := cut(rows, p.limit, func(s ledger.Sweep) string { return timedKey(s.StartedAt, s.ID) })
	out := &wire.Sweeps{Items: make([]wire.Sweep, len(rows)), Next: next}
	for i, s := range rows {
		out.Items[i] = sweepOf(s, after)
	}
	return c.reply(http.StatusOK, out)
}

// debtKey is the cursor of debt: a class, a time and the ledger's number.
func debtKey(at store.DebtCursor) string {
	return at.Class + " " + timedKey(at.CreatedAt, strconv.FormatInt(at.N, 10))
}

// debtCursor reads what debtKey made.
func debtCursor(after string) (at store.DebtCursor, err error) {
	if after == "" {
		return at, nil
	}
	class, rest, ok := strings.Cut(after, " ")
	if !ok || class != "" && blobd.CheckClass(class) != nil {
		return at, errCursor()
	}
	created, number, err := readTimedKey(rest)
	if err != nil {
		return at, err
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return at, errCursor()
	}
	return store.DebtCursor{Class: class, DueCursor: ledger.DueCursor{CreatedAt: created, N: n}}, nil
}
