package main

import (
	"fmt"
	"time"

	"github.com/blobd/blobd/api/wire"
)

type timeCmd struct {
	Show    timeShowCmd    `cmd:"" help:"Show the ledger's clock, and whether it may have jumped; exit code 4 if so."`
	Confirm timeConfirmCmd `cmd:"" help:"Say that the ledger's clock is right, for the whole deployment, on record."`
}

type timeShowCmd struct{}

// Run shows the ledger's clock.
func (timeShowCmd) Run(a *app) error {
	r, err := a.remote()
	if err != nil {
		return err
	}
	c, err := r.LedgerClock(a.ctx)
	if err != nil {
		return err
	}
	if err := a.printLedgerClock(c); err != nil {
		return err
	}
	if c.Suspect {
		return status(exitUnsure)
	}
	return nil
}

type timeConfirmCmd struct {
	Yes bool `help:"Do not ask."`
}

// Run confirms the ledger's clock, once a person has seen what it says.
func (t timeConfirmCmd) Run(a *app) error {
	r, err := a.remote()
	if err != nil {
		return err
	}
	c, err := r.LedgerClock(a.ctx)
	if err != nil {
		return err
	}
	if !c.Suspect {
		return a.printLedgerClock(c)
	}
	if !t.Yes {
		question := fmt.Sprintf("%s. Is it %s now", c.Why, c.Now.Format(time.RFC3339))
		if err := a.confirm(question, "right"); err != nil {
			return err
		}
	}
	if c, err = r.ConfirmLedgerClock(a.ctx); err != nil {
		return err
	}
	return a.printLedgerClock(c)
}

func (a *app) printLedgerClock(c wire.LedgerClock) error {
	if a.json {
		return a.printJSON(c)
	}
	switch {
	case !c.Watched:
		fmt.Fprintf(a.stdout, "%s, not watched (clock.maxJump is 0)\n", c.Now.Format(time.RFC3339))
	case c.Suspect:
		fmt.Fprintf(a.stdout, "%s, suspect since %s: %s; it should be about %s\n",
			c.Now.Format(time.RFC3339), timeOrDash(c.Since), c.Why, timeOrDash(c.Trusted))
	default:
		fmt.Fprintf(a.stdout, "%s, trusted\n", c.Now.Format(time.RFC3339))
	}
	return nil
}
