package main

import (
	"context"
	"fmt"
	"time"

	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/client"
)

type holdCmd struct {
	Place   holdPlaceCmd   `cmd:"" help:"Place a hold: nothing in its scope is erased while it is open (role holds)."`
	List    holdListCmd    `cmd:"" help:"List holds, newest first."`
	Show    holdShowCmd    `cmd:"" help:"Show a hold and what it holds."`
	Release holdReleaseCmd `cmd:"" help:"Release a hold; the erasures that it deferred go on by themselves (role holds)."`
}

type holdPlaceCmd struct {
	scopeFlags
	Matter   string `help:"What it is for: a case, a request, a file number." required:"" placeholder:"TEXT"`
	Reason   string `help:"Why." required:"" placeholder:"TEXT"`
	Owner    string `help:"Who answers for it." required:"" placeholder:"TEXT"`
	ReviewAt string `help:"When somebody looks at it again, RFC 3339 or a date." placeholder:"TIME"`
}

// Run places a hold.
func (h holdPlaceCmd) Run(a *app) error {
	scope, err := h.scope(a)
	if err != nil {
		return err
	}
	q := wire.HoldRequest{Scope: scope, Matter: h.Matter, Reason: h.Reason, Owner: h.Owner}
	if q.ReviewAt, err = optionalTime("--review-at", h.ReviewAt); err != nil {
		return err
	}
	r, err := a.remote()
	if err != nil {
		return err
	}
	hold, err := r.PlaceHold(a.ctx, q, "")
	if err != nil {
		return err
	}
	return a.printHold(hold)
}

type holdListCmd struct {
	State string `help:"open, released or all." default:"open" enum:"open,released,all"`
}

// Run lists holds.
func (h holdListCmd) Run(a *app) error {
	r, err := a.remote()
	if err != nil {
		return err
	}
	holds, err := all(a.ctx, func(ctx context.Context, p client.Page) ([]wire.Hold, *string, error) {
		p.Filters = filters("state", h.State)
		out, err := r.Holds(ctx, p)
		return out.Items, out.Next, err
	})
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(holds)
	}
	for _, x := range holds {
		fmt.Fprintf(a.stdout, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n",
			x.PlacedAt.Format(time.RFC3339), x.ID, x.State, coveredText(x.Scope), plain(x.Matter), plain(x.Owner), heldText(x.Held))
	}
	return nil
}

type holdShowCmd struct {
	ID string `arg:"" help:"The hold."`
}

// Run shows a hold.
func (h holdShowCmd) Run(a *app) error {
	r, err := a.remote()
	if err != nil {
		return err
	}
	hold, err := r.Hold(a.ctx, h.ID)
	if err != nil {
		return err
	}
	return a.printHold(hold)
}

type holdReleaseCmd struct {
	ID     string `arg:"" help:"The hold."`
	Reason string `help:"Why." placeholder:"TEXT"`
	DryRun bool   `help:"Show what it holds, and release nothing."`
	Yes    bool   `help:"Do not ask."`
}

// Run shows what is held, asks, and releases.
func (h holdReleaseCmd) Run(a *app) error {
	r, err := a.remote()
	if err != nil {
		return err
	}
	if h.DryRun {
		return holdShowCmd{h.ID}.Run(a)
	}
	if !h.Yes {
		hold, err := r.Hold(a.ctx, h.ID)
		if err != nil {
			return err
		}
		fmt.Fprintf(a.stderr, "%s: %s\n", coveredText(hold.Scope), heldText(hold.Held))
		if err := a.confirm("Release it; what waited for it is erased at once, and what is past its maximum by the next sweep", "release"); err != nil {
			return err
		}
	}
	hold, err := r.ReleaseHold(a.ctx, h.ID, h.Reason)
	if err != nil {
		return err
	}
	return a.printHold(hold)
}

func (a *app) printHold(h wire.Hold) error {
	if a.json {
		return a.printJSON(h)
	}
	w := a.stdout
	fmt.Fprintf(w, "hold %s: %s\n", h.ID, h.State)
	fmt.Fprintf(w, "%s: %s\n", coveredText(h.Scope), heldText(h.Held))
	fmt.Fprintf(w, "matter %s, owner %s, placed %s\n", plain(h.Matter), plain(h.Owner), h.PlacedAt.Format(time.RFC3339))
	switch {
	case h.ReleasedAt != nil:
		fmt.Fprintf(w, "released %s\n", h.ReleasedAt.Format(time.RFC3339))
	case h.ReviewOverdue:
		fmt.Fprintf(w, "its review is overdue since %s\n", h.ReviewAt.Format(time.RFC3339))
	case h.ReviewAt != nil:
		fmt.Fprintf(w, "to be reviewed %s\n", h.ReviewAt.Format(time.RFC3339))
	}
	return nil
}

func heldText(h wire.Held) string {
	text := fmt.Sprintf("%d blobs, %d bytes", h.Blobs, h.Bytes)
	if h.AtLeast {
		return "at least " + text
	}
	return text
}
