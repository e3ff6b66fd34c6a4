package main

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/client"
)

type eraseApproveCmd struct {
	ID     string `arg:"" help:"The erasure."`
	Plan   string `help:"Digest of the plan that is approved, as the preview told it (default: the erasure's own, which is shown)." placeholder:"DIGEST"`
	DryRun bool   `help:"Show the plan, and approve nothing."`
	Yes    bool   `help:"Do not ask."`
}

// Run shows the plan, asks, and approves it.
func (e eraseApproveCmd) Run(a *app) error {
	r, err := a.remote()
	if err != nil {
		return err
	}
	digest := e.Plan
	if digest == "" || e.DryRun {
		erasure, err := r.Erasure(a.ctx, e.ID)
		if err != nil {
			return err
		}
		if e.DryRun {
			return a.printErasure(erasure)
		}
		digest = erasure.Plan.Digest
		fmt.Fprintf(a.stderr, "erasure %s: %s: %s\n", erasure.ID, erasure.State, coveredText(erasure.Scope))
		printPlan(a.stderr, erasure.Plan)
	}
	if !e.Yes {
		if err := a.confirm("Approve it", "approve"); err != nil {
			return err
		}
	}
	erasure, err := r.ApproveErasure(a.ctx, e.ID, digest)
	var answer *client.Error
	if errors.As(err, &answer) && answer.Problem.Code == wire.CodeForbidden {
		return &exitStatus{exitRefused, err} // an approval that may not be given
	}
	if err != nil {
		return err
	}
	if err := a.printErasure(erasure); err != nil {
		return err
	}
	if erasure.State == "awaiting_approval" { // it waits for others: this one is given
		return nil
	}
	return status(erasureCode(erasure.State))
}

type eraseDenyCmd struct {
	ID     string `arg:"" help:"The erasure."`
	Code   string `help:"Why: ART17_3_A to ART17_3_E, LEGAL_FLOOR, LEGAL_HOLD, ID_UNVERIFIED, UNFOUNDED_12_5, NO_MATCH, SHARED_SUBJECT, DUPLICATE, OUT_OF_SCOPE, CCPA_105_D or BLOCKED_ES32." placeholder:"CODE"`
	Reason string `help:"Why, in words." placeholder:"TEXT"`
}

// Run denies.
func (e eraseDenyCmd) Run(a *app) error {
	r, err := a.remote()
	if err != nil {
		return err
	}
	erasure, err := r.DenyErasure(a.ctx, e.ID, e.Code, e.Reason)
	if err != nil {
		return err
	}
	return a.printErasure(erasure)
}

type eraseCancelCmd struct {
	ID     string `arg:"" help:"The erasure."`
	Reason string `help:"Why, in words." placeholder:"TEXT"`
}

// Run cancels.
func (e eraseCancelCmd) Run(a *app) error {
	r, err := a.remote()
	if err != nil {
		return err
	}
	erasure, err := r.CancelErasure(a.ctx, e.ID, e.Reason)
	if err != nil {
		return err
	}
	return a.printErasure(erasure)
}

type eraseStatusCmd struct {
	ID string `arg:"" help:"The erasure."`
	waitFlags
}

// Run shows an erasure.
func (e eraseStatusCmd) Run(a *app) error {
	r, err := a.remote()
	if err != nil {
		return err
	}
	erasure, err := r.Erasure(a.ctx, e.ID)
	if err != nil {
		return err
	}
	return a.endErasure(r, erasure, e.waitFlags)
}

type eraseListCmd struct {
	State  string `help:"Only those in this state." placeholder:"STATE"`
	Regime string `help:"Only those of this regime." placeholder:"WORD"`
}

// Run lists all that the filters leave.
func (e eraseListCmd) Run(a *app) error {
	r, err := a.remote()
	if err != nil {
		return err
	}
	page := client.Page{Limit: wire.MaxList, Filters: filters("state", e.State, "regime", e.Regime)}
	erasures := []wire.Erasure{}
	for {
		answer, err := r.Erasures(a.ctx, page)
		if err != nil {
			return err
		}
		erasures = append(erasures, answer.Items...)
		if answer.Next == nil {
			break
		}
		page.Cursor = *answer.Next
	}
	if a.json {
		return a.printJSON(erasures)
	}
	for _, x := range erasures {
		fmt.Fprintf(a.stdout, "%s\t%s\t%s\t%s\t%d blobs\n",
			x.RequestedAt.Format(time.RFC3339), x.ID, x.State, coveredText(x.Scope), x.Plan.Blobs)
	}
	return nil
}

// filters makes query keys of names and values; an empty value is left out.
func filters(pairs ...string) url.Values {
	v := make(url.Values)
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			v.Set(pairs[i], pairs[i+1])
		}
	}
	return v
}
