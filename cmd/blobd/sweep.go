package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/client"
)

type sweepCmd struct {
	Status  string        `help:"Show this sweep instead of starting one." placeholder:"ID"`
	List    bool          `help:"List the newest sweeps."`
	Debt    bool          `help:"List what is past its maximum and still there, and why."`
	DryRun  bool          `help:"Say what would be erased, and do nothing."`
	Confirm int64         `help:"Erase so many blobs though the breaker would stop the sweep." placeholder:"BLOBS"`
	Yes     bool          `help:"Do not ask."`
	NoWait  bool          `help:"Do not wait for its end."`
	Timeout time.Duration `help:"Wait no longer than this (default: no limit)." placeholder:"DURATION"`
}

var errOneSweep = fmt.Errorf("one of --status, --list, --debt and --dry-run: %w", blobd.ErrInvalid)

// Run starts a sweep and waits for its end, or shows what there is.
func (s sweepCmd) Run(a *app) error {
	asked := 0
	for _, is := range []bool{s.Status != "", s.List, s.Debt, s.DryRun} {
		if is {
			asked++
		}
	}
	if asked > 1 {
		return errOneSweep
	}
	r, err := a.remote()
	if err != nil {
		return err
	}
	switch {
	case s.List:
		return listSweeps(a, r)
	case s.Debt:
		return listDebt(a, r)
	case s.DryRun:
		plan, err := r.PlanSweep(a.ctx)
		if err != nil {
			return err
		}
		return a.printSweep(plan)
	}
	sweep, err := s.begin(a, r)
	if err != nil {
		return err
	}
	if !s.NoWait {
		if sweep, err = s.wait(a, r, sweep); err != nil {
			return err
		}
	}
	if err := a.printSweep(sweep); err != nil {
		return err
	}
	switch {
	case sweep.State == "stopped":
		return status(exitRefused)
	case sweep.Failed > 0:
		return status(exitPartly)
	}
	return nil
}

func (s sweepCmd) begin(a *app, r *client.Client) (wire.Sweep, error) {
	if s.Status != "" {
		return r.Sweep(a.ctx, s.Status)
	}
	var q wire.SweepRequest
	if s.Confirm != 0 {
		q.Confirm = &s.Confirm
	}
	if !s.Yes {
		plan, err := r.PlanSweep(a.ctx)
		if err != nil {
			return plan, err
		}
		fmt.Fprintf(a.stderr, "%d blobs are past their maximum; %d would be erased, %d bytes\n", plan.Due, plan.Erased, plan.Bytes)
		if err := a.confirm("Erase them for ever", "sweep"); err != nil {
			return plan, err
		}
	}
	return r.StartSweep(a.ctx, q)
}

func (s sweepCmd) wait(a *app, r *client.Client, started wire.Sweep) (wire.Sweep, error) {
	ctx := a.ctx
	if s.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.Timeout)
		defer cancel()
	}
	bar := a.count("blobs erased")
	defer bar.end()
	last, err := r.WaitSweep(ctx, started.ID, func(w wire.Sweep) { bar.set(w.Erased) })
	if err != nil {
		return last, fmt.Errorf("sweep %s has not ended: %w", started.ID, err)
	}
	return last, nil
}

func (a *app) printSweep(s wire.Sweep) error {
	if a.json {
		return a.printJSON(s)
	}
	if s.ID == "" {
		fmt.Fprintf(a.stdout, "would erase %d of %d blobs past their maximum", s.Erased, s.Due)
	} else {
		fmt.Fprintf(a.stdout, "sweep %s: %s; erased %d of %d blobs past their maximum", s.ID, s.State, s.Erased, s.Due)
	}
	fmt.Fprintf(a.stdout, " (held %d, floor %d, review %d, failed %d)\n", s.Held, s.Floor, s.Review, s.Failed)
	if s.StoppedBy != "" {
		fmt.Fprintf(a.stdout, "stopped by the %s: more would be erased than one should; look at the policies and the clock, then --confirm %d\n",
			s.StoppedBy, s.Due-s.Held-s.Floor-s.Review)
	}
	if s.NextRun != nil {
		fmt.Fprintf(a.stdout, "next run %s\n", s.NextRun.Format(time.RFC3339))
	}
	return nil
}

func listSweeps(a *app, r *client.Client) error {
	page, err := r.Sweeps(a.ctx, client.Page{})
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(page)
	}
	for _, s := range page.Items {
		fmt.Fprintf(a.stdout, "%s\t%s\t%s\t%s\tdue %d\terased %d\tfailed %d\n",
			s.StartedAt.Format(time.RFC3339), s.ID, s.Trigger, s.State, s.Due, s.Erased, s.Failed)
	}
	return nil
}

func listDebt(a *app, r *client.Client) error {
	all := []wire.Debt{}
	for page := (client.Page{Limit: wire.MaxList}); ; {
		answer, err := r.Debt(a.ctx, page)
		if err != nil {
			return err
		}
		all = append(all, answer.Items...)
		if answer.Next == nil {
			break
		}
		page.Cursor = *answer.Next
	}
	if a.json {
		return a.printJSON(all)
	}
	for _, d := range all {
		line := []string{d.Ref, d.Class, d.Reason}
		if d.ExpiredAt != nil {
			line = append(line, "expired "+d.ExpiredAt.Format(time.RFC3339))
		}
		fmt.Fprintln(a.stdout, strings.Join(line, "\t"))
	}
	return nil
}
