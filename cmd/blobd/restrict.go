package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/client"
)

type restrictCmd struct {
	Place restrictPlaceCmd `cmd:"" help:"Restrict processing: reads in the scope are null, puts are refused."`
	List  restrictListCmd  `cmd:"" help:"List restrictions, newest first."`
	Show  restrictShowCmd  `cmd:"" help:"Show a restriction."`
	Lift  restrictLiftCmd  `cmd:"" help:"Lift a restriction; its scope can be read again."`
}

type restrictPlaceCmd struct {
	scopeFlags
	Reason  string   `help:"Why." required:"" placeholder:"TEXT"`
	Purpose []string `help:"A purpose for which a person may read all the same, word for word. Repeatable." placeholder:"TEXT" sep:"none"`
}

// Run places a restriction.
func (c restrictPlaceCmd) Run(a *app) error {
	scope, err := c.scope(a)
	if err != nil {
		return err
	}
	r, err := a.remote()
	if err != nil {
		return err
	}
	placed, err := r.Restrict(a.ctx, wire.RestrictionRequest{Scope: scope, Reason: c.Reason, Purposes: c.Purpose}, "")
	if err != nil {
		return err
	}
	return a.printRestriction(placed)
}

type restrictListCmd struct {
	State string `help:"open, lifted or all." default:"open" enum:"open,lifted,all"`
}

// Run lists restrictions.
func (c restrictListCmd) Run(a *app) error {
	r, err := a.remote()
	if err != nil {
		return err
	}
	list, err := all(a.ctx, func(ctx context.Context, p client.Page) ([]wire.Restriction, *string, error) {
		p.Filters = filters("state", c.State)
		out, err := r.Restrictions(ctx, p)
		return out.Items, out.Next, err
	})
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(list)
	}
	for _, x := range list {
		fmt.Fprintf(a.stdout, "%s\t%s\t%s\t%s\t%s\n",
			x.PlacedAt.Format(time.RFC3339), x.ID, x.State, coveredText(x.Scope), heldText(x.Covers))
	}
	return nil
}

type restrictShowCmd struct {
	ID string `arg:"" help:"The restriction."`
}

// Run shows a restriction.
func (c restrictShowCmd) Run(a *app) error {
	r, err := a.remote()
	if err != nil {
		return err
	}
	found, err := r.Restriction(a.ctx, c.ID)
	if err != nil {
		return err
	}
	return a.printRestriction(found)
}

type restrictLiftCmd struct {
	ID     string `arg:"" help:"The restriction."`
	Reason string `help:"Why." placeholder:"TEXT"`
	DryRun bool   `help:"Show what it covers, and lift nothing."`
	Yes    bool   `help:"Do not ask."`
}

// Run asks, and lifts.
func (c restrictLiftCmd) Run(a *app) error {
	if c.DryRun {
		return restrictShowCmd{c.ID}.Run(a)
	}
	r, err := a.remote()
	if err != nil {
		return err
	}
	if !c.Yes {
		if err := a.confirm("Lift it; its scope can be read again, and the person was told before", "lift"); err != nil {
			return err
		}
	}
	lifted, err := r.LiftRestriction(a.ctx, c.ID, c.Reason)
	if err != nil {
		return err
	}
	return a.printRestriction(lifted)
}

func (a *app) printRestriction(r wire.Restriction) error {
	if a.json {
		return a.printJSON(r)
	}
	fmt.Fprintf(a.stdout, "restriction %s: %s\n", r.ID, r.State)
	fmt.Fprintf(a.stdout, "%s: %s\n", coveredText(r.Scope), heldText(r.Covers))
	if len(r.Purposes) > 0 {
		fmt.Fprintf(a.stdout, "may be read for: %s\n", plain(strings.Join(r.Purposes, "; ")))
	}
	return nil
}
