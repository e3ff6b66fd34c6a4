package main

import (
	"context"
	"fmt"
	"time"

	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/client"
)

type tenantDeleteCmd struct {
	ID      string        `arg:"" help:"The tenant."`
	DryRun  bool          `help:"Say what would be erased, and do nothing."`
	Yes     bool          `help:"Do not ask."`
	Wait    bool          `help:"Wait until it is erased: keys destroyed, every object read back as absent."`
	Timeout time.Duration `help:"Wait no longer than this (default: no limit)." placeholder:"DURATION"`
}

// Run off-boards a tenant. It asks for the tenant's id, typed.
func (t tenantDeleteCmd) Run(a *app) error {
	r, err := a.remote()
	if err != nil {
		return err
	}
	if t.DryRun {
		return t.plan(a, r)
	}
	if !t.Yes {
		if err := a.confirm("Erase everything of the tenant for ever, and destroy its key", t.ID); err != nil {
			return err
		}
	}
	erasure, err := r.OffboardTenant(a.ctx, t.ID)
	if err != nil {
		return err
	}
	if !t.Wait {
		if a.json {
			return a.printJSON(erasure)
		}
		fmt.Fprintf(a.stdout, "tenant %s: every read is null; erasure %s: %s\n", t.ID, erasure.ID, erasure.State)
		return nil
	}
	return t.wait(a, r)
}

func (t tenantDeleteCmd) plan(a *app, r *client.Client) error {
	plan, err := r.PlanOffboarding(a.ctx, t.ID)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(wire.DryRun{Plan: plan})
	}
	fmt.Fprintf(a.stdout, "would erase tenant %s for ever: %d executions, %d blobs, %d bytes (already erased %d)\n",
		t.ID, plan.Executions, plan.Blobs, plan.Bytes, plan.AlreadyErased)
	return nil
}

func (t tenantDeleteCmd) wait(a *app, r *client.Client) error {
	ctx := a.ctx
	if t.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, t.Timeout)
		defer cancel()
	}
	last, err := r.WaitOffboarded(ctx, t.ID)
	if err != nil {
		return fmt.Errorf("the erasure of tenant %s has not ended: %w", t.ID, err)
	}
	if a.json {
		err = a.printJSON(last)
	} else {
		_, err = fmt.Fprintf(a.stdout, "tenant %s: erasure %s: %s\n", t.ID, last.ErasureID, last.ErasureState)
	}
	if err == nil && last.ErasureState != "erased" {
		err = status(exitPartly)
	}
	return err
}
