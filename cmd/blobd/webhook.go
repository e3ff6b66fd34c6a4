package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/client"
)

type webhookCmd struct {
	Create     webhookCreateCmd     `cmd:"" help:"Have a URL told of events; its secret is shown once (role dpo)."`
	List       webhookListCmd       `cmd:"" help:"List the tenant's webhooks."`
	Deliveries webhookDeliveriesCmd `cmd:"" help:"List the deliveries of a webhook, newest first."`
	Replay     webhookReplayCmd     `cmd:"" help:"Send what is dead or waits at once, and enable the webhook."`
	Rotate     webhookRotateCmd     `cmd:"" help:"Make a new secret; for a time deliveries are signed with both."`
	Delete     webhookDeleteCmd     `cmd:"" help:"Delete a webhook, its secret and its deliveries."`
}

type webhookCreateCmd struct {
	URL         string   `arg:"" help:"Where to send, https."`
	Event       []string `help:"A type of event, such as erasure.erased. Repeatable; none: all." placeholder:"TYPE"`
	Description string   `help:"A label." placeholder:"TEXT"`
	Out         string   `help:"Write the secret to this new file (0600) instead of stdout." type:"path" placeholder:"FILE"`
}

// Run creates a webhook and shows its secret once.
func (w webhookCreateCmd) Run(a *app) error {
	r, err := a.remote()
	if err != nil {
		return err
	}
	created, err := r.CreateWebhook(a.ctx, wire.NewWebhook{URL: w.URL, Events: w.Event, Description: w.Description}, "")
	if err != nil {
		return err
	}
	return a.printSecret(created, w.Out)
}

// printSecret shows a webhook with its secret, or writes the secret to a new file.
func (a *app) printSecret(w wire.CreatedWebhook, out string) error {
	if out != "" {
		if err := writeNew(out, w.Secret); err != nil {
			return fmt.Errorf("the secret of webhook %s could not be written down, rotate it: %w", w.ID, err)
		}
		w.Secret = ""
	}
	if a.json {
		return a.printJSON(w)
	}
	fmt.Fprintln(a.stdout, w.ID)
	if out == "" {
		fmt.Fprintln(a.stdout, w.Secret)
	}
	return nil
}

type webhookListCmd struct {
	Erasure string `help:"The callback of this erasure instead, while something of it is to be told." placeholder:"ID"`
}

// Run lists every webhook.
func (w webhookListCmd) Run(a *app) error {
	r, err := a.remote()
	if err != nil {
		return err
	}
	hooks, err := all(a.ctx, func(ctx context.Context, p client.Page) ([]wire.Webhook, *string, error) {
		p.Filters = filters("erasure", w.Erasure)
		out, err := r.Webhooks(ctx, p)
		return out.Items, out.Next, err
	})
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(hooks)
	}
	table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tURL\tEVENTS\tDISABLED\tDESCRIPTION")
	for _, h := range hooks {
		events, disabled := "all", "-"
		if len(h.Events) > 0 {
			events = strings.Join(h.Events, ",")
		}
		if h.DisabledAt != nil {
			disabled = h.DisabledFor + " " + at(h.DisabledAt)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", h.ID, plain(h.URL), events, disabled, plain(h.Description))
	}
	return table.Flush()
}

type webhookDeliveriesCmd struct {
	ID    string `arg:"" help:"Webhook id, as webhook list shows it."`
	State string `help:"pending, delivered or dead (default: all)." enum:",pending,delivered,dead" default:""`
	Limit int    `help:"How many." default:"100"`
}

// Run lists the newest deliveries.
func (w webhookDeliveriesCmd) Run(a *app) error {
	r, err := a.remote()
	if err != nil {
		return err
	}
	page, err := r.Webhook(a.ctx, w.ID, client.Page{Limit: w.Limit, Filters: filters("state", w.State)})
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(page)
	}
	out := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "CREATED\tTYPE\tSUBJECT\tSTATE\tFAILED\tLAST\tNEXT TRY")
	for _, d := range page.Deliveries {
		last := d.LastError
		if d.Status != nil {
			last = strings.TrimSpace(strconv.FormatInt(*d.Status, 10) + " " + last)
		}
		if last == "" {
			last = "-"
		}
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%d\t%s\t%s\n", d.CreatedAt.Format(time.RFC3339), d.Type, d.Subject, d.State, d.Attempts, last, at(d.DueAt))
	}
	return out.Flush()
}

type webhookReplayCmd struct {
	ID    string `arg:"" help:"Webhook id."`
	Since string `help:"Also what was delivered and came at this time or later, RFC 3339 or a date." placeholder:"TIME"`
}

// Run replays.
func (w webhookReplayCmd) Run(a *app) error {
	since, err := optionalTime("--since", w.Since)
	if err != nil {
		return err
	}
	r, err := a.remote()
	if err != nil {
		return err
	}
	replayed, err := r.ReplayWebhook(a.ctx, w.ID, wire.ReplayRequest{Since: since})
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(replayed)
	}
	fmt.Fprintln(a.stdout, replayed.Deliveries, "deliveries are due")
	return nil
}

type webhookRotateCmd struct {
	ID      string        `arg:"" help:"Webhook id."`
	Overlap time.Duration `help:"How long the secret before stays valid, at most 168h." default:"24h" placeholder:"DURATION"`
	Out     string        `help:"Write the secret to this new file (0600) instead of stdout." type:"path" placeholder:"FILE"`
}

// Run rotates a secret and shows the new one once.
func (w webhookRotateCmd) Run(a *app) error {
	r, err := a.remote()
	if err != nil {
		return err
	}
	seconds := int64(w.Overlap / time.Second)
	rotated, err := r.RotateWebhook(a.ctx, w.ID, wire.RotateRequest{OverlapSeconds: &seconds})
	if err != nil {
		return err
	}
	return a.printSecret(rotated, w.Out)
}

type webhookDeleteCmd struct {
	ID     string `arg:"" help:"Webhook id."`
	DryRun bool   `help:"Say what would be deleted, and do nothing."`
	Yes    bool   `help:"Do not ask."`
}

// Run deletes one webhook.
func (w webhookDeleteCmd) Run(a *app) error {
	r, err := a.remote()
	if err != nil {
		return err
	}
	if w.DryRun {
		return w.show(a, r)
	}
	if !w.Yes {
		if err := a.confirm("Delete the webhook, and what was not delivered yet", w.ID); err != nil {
			return err
		}
	}
	if err := r.DeleteWebhook(a.ctx, w.ID); err != nil {
		return err
	}
	if a.json {
		return a.printJSON(map[string]string{"deleted": w.ID})
	}
	fmt.Fprintln(a.stdout, "deleted", w.ID)
	return nil
}

func (w webhookDeleteCmd) show(a *app, r *client.Client) error {
	page, err := r.Webhook(a.ctx, w.ID, client.Page{Limit: 1, Filters: filters("state", "pending")})
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(page.Webhook)
	}
	left := "nothing waits to be delivered"
	if len(page.Deliveries) > 0 {
		left = "what waits to be delivered is lost"
	}
	fmt.Fprintf(a.stdout, "would delete %s, %s; %s\n", page.ID, plain(page.URL), left)
	return nil
}
