package main

import (
	"context"
	"fmt"
	"time"

	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/client"
)

type suppressCmd struct {
	Place suppressPlaceCmd `cmd:"" help:"Have puts that name one of some people refused."`
	List  suppressListCmd  `cmd:"" help:"List suppressions, newest first."`
	Show  suppressShowCmd  `cmd:"" help:"Show a suppression; its subjects are told to nobody."`
	Lift  suppressLiftCmd  `cmd:"" help:"Lift a suppression."`
}

type suppressPlaceCmd struct {
	SubjectsFile string `help:"File with one person's identifier per line; - is stdin." required:"" type:"path" placeholder:"FILE"`
	Reason       string `help:"Why." required:"" placeholder:"TEXT"`
	ExpiresAt    string `help:"When it ends, RFC 3339 or a date (default: never)." placeholder:"TIME"`
}

// Run places a suppression.
func (c suppressPlaceCmd) Run(a *app) error {
	scope, err := a.subjectScope(c.SubjectsFile)
	if err != nil {
		return err
	}
	q := wire.SuppressionRequest{Scope: scope, Reason: c.Reason}
	if q.ExpiresAt, err = optionalTime("--expires-at", c.ExpiresAt); err != nil {
		return err
	}
	r, err := a.remote()
	if err != nil {
		return err
	}
	placed, err := r.Suppress(a.ctx, q, "")
	if err != nil {
		return err
	}
	return a.printSuppression(placed)
}

type suppressListCmd struct {
	State string `help:"open, expired, lifted or all." default:"open" enum:"open,expired,lifted,all"`
}

// Run lists suppressions.
func (c suppressListCmd) Run(a *app) error {
	r, err := a.remote()
	if err != nil {
		return err
	}
	list, err := all(a.ctx, func(ctx context.Context, p client.Page) ([]wire.Suppression, *string, error) {
		p.Filters = filters("state", c.State)
		out, err := r.Suppressions(ctx, p)
		return out.Items, out.Next, err
	})
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(list)
	}
	for _, x := range list {
		fmt.Fprintf(a.stdout, "%s\t%s\t%s\t%s\n", x.PlacedAt.Format(time.RFC3339), x.ID, x.State, coveredText(x.Scope))
	}
	return nil
}

type suppressShowCmd struct {
	ID string `arg:"" help:"The suppression."`
}

// Run shows a suppression.
func (c suppressShowCmd) Run(a *app) error {
	r, err := a.remote()
	if err != nil {
		return err
	}
	found, err := r.Suppression(a.ctx, c.ID)
	if err != nil {
		return err
	}
	return a.printSuppression(found)
}

type suppressLiftCmd struct {
	ID     string `arg:"" help:"The suppression."`
	Reason string `help:"Why." placeholder:"TEXT"`
	DryRun bool   `help:"Show it, and lift nothing."`
	Yes    bool   `help:"Do not ask."`
}

// Run asks, and lifts.
func (c suppressLiftCmd) Run(a *app) error {
	if c.DryRun {
		return suppressShowCmd{c.ID}.Run(a)
	}
	r, err := a.remote()
	if err != nil {
		return err
	}
	if !c.Yes {
		if err := a.confirm("Lift it; what names its subjects is kept again", "lift"); err != nil {
			return err
		}
	}
	lifted, err := r.LiftSuppression(a.ctx, c.ID, c.Reason)
	if err != nil {
		return err
	}
	return a.printSuppression(lifted)
}

func (a *app) printSuppression(s wire.Suppression) error {
	if a.json {
		return a.printJSON(s)
	}
	fmt.Fprintf(a.stdout, "suppression %s: %s\n%s\n", s.ID, s.State, coveredText(s.Scope))
	if s.ExpiresAt != nil {
		fmt.Fprintf(a.stdout, "until %s\n", s.ExpiresAt.Format(time.RFC3339))
	}
	return nil
}
