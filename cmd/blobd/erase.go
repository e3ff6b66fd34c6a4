package main

import (
	"context"
	"fmt"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/client"
)

type eraseCmd struct {
	Execution   string        `arg:"" optional:"" help:"Execution id. It is fenced for ever, also if it was never seen."`
	Ref         []string      `help:"Erase only these refs of it." placeholder:"REF"`
	Status      string        `help:"Show this erasure instead of asking for one." placeholder:"ID"`
	Reason      string        `help:"Why." default:"requested on the command line"`
	LegalBasis  string        `help:"Legal basis." placeholder:"TEXT"`
	Regime      string        `help:"gdpr, uk, ccpa, lgpd or custom." placeholder:"WORD"`
	ExternalRef string        `help:"Your own reference." placeholder:"TEXT"`
	DryRun      bool          `help:"Say what would be erased, and do nothing."`
	Yes         bool          `help:"Do not ask."`
	Wait        bool          `help:"Wait until it is erased: keys destroyed, every object read back as absent."`
	Timeout     time.Duration `help:"Wait no longer than this (default: no limit)." placeholder:"DURATION"`
}

// Run asks for an erasure, or follows one.
func (e eraseCmd) Run(a *app) error {
	if (e.Execution == "") == (e.Status == "") {
		return fmt.Errorf("name an execution, or an erasure with --status: %w", blobd.ErrInvalid)
	}
	r, err := a.remote()
	if err != nil {
		return err
	}
	if e.DryRun && e.Status == "" {
		return e.plan(a, r)
	}
	erasure, err := e.begin(a, r)
	if err != nil {
		return err
	}
	if e.Wait {
		if erasure, err = a.waitErased(r, erasure, e.Timeout); err != nil {
			return err
		}
	}
	if err := a.printErasure(erasure); err != nil {
		return err
	}
	return status(e.code(erasure.State))
}

func (e eraseCmd) request() wire.EraseRequest {
	return wire.EraseRequest{
		Scope:  &wire.Scope{ExecutionID: &e.Execution, Refs: e.Ref},
		Reason: e.Reason, LegalBasis: e.LegalBasis, Regime: e.Regime, ExternalRef: e.ExternalRef,
	}
}

func (e eraseCmd) plan(a *app, r *client.Client) error {
	plan, err := r.PlanErasure(a.ctx, e.request())
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(wire.DryRun{Plan: plan})
	}
	fmt.Fprintf(a.stdout, "would erase %d executions, %d blobs, %d bytes (already erased %d, not found %d, held %d)\n",
		plan.Executions, plan.Blobs, plan.Bytes, plan.AlreadyErased, plan.NotFound, plan.Held)
	return nil
}

func (e eraseCmd) begin(a *app, r *client.Client) (wire.Erasure, error) {
	if e.Status != "" {
		return r.Erasure(a.ctx, e.Status)
	}
	if !e.Yes {
		what := "Erase the execution for ever"
		if len(e.Ref) > 0 {
			what = fmt.Sprintf("Erase %d blobs of the execution for ever", len(e.Ref))
		}
		if err := a.confirm(what, e.Execution); err != nil {
			return wire.Erasure{}, err
		}
	}
	return r.Erase(a.ctx, e.request(), "")
}

// code says how far an erasure got. One that was only asked for is done when it
// is accepted.
func (e eraseCmd) code(state string) int {
	switch state {
	case "erased":
		return exitOK
	case "partial":
		return exitPartly
	case "deferred", "denied", "cancelled", "awaiting_approval":
		return exitRefused
	}
	return exitOK
}

// waitErased waits until the erasure will not move by itself any more.
func (a *app) waitErased(r *client.Client, e wire.Erasure, limit time.Duration) (wire.Erasure, error) {
	ctx := a.ctx
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	bar := a.total("objects deleted", e.Plan.Blobs)
	defer bar.end()
	last, err := r.WaitErased(ctx, e.ID, func(e wire.Erasure) { bar.set(e.Progress.ObjectsDeleted) })
	if err != nil {
		return e, fmt.Errorf("erasure %s has not ended: %w", e.ID, err)
	}
	return last, nil
}

func (a *app) printErasure(e wire.Erasure) error {
	if a.json {
		return a.printJSON(e)
	}
	fmt.Fprintf(a.stdout, "erasure %s: %s\n", e.ID, e.State)
	fmt.Fprintf(a.stdout, "in scope: %d blobs, %d bytes; keys destroyed %d, objects deleted %d, versions deleted %d, failed %d, remaining %d\n",
		e.Plan.Blobs, e.Plan.Bytes, e.Progress.KeysDestroyed, e.Progress.ObjectsDeleted,
		e.Progress.VersionsDeleted, e.Progress.Failed, e.Progress.Remaining)
	return nil
}
