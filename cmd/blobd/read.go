package main

import (
	"fmt"
	"strings"

	"github.com/blobd/blobd/api/wire"
)

type readCmd struct {
	Execution  string `arg:"" help:"Execution id."`
	Purpose    string `help:"Why you read; it is recorded." required:""`
	Step       string `help:"Only this step." placeholder:"ID" xor:"step"`
	StepPrefix string `help:"Only steps that begin so." placeholder:"PREFIX" xor:"step"`
	EventsFile string `help:"File with a JSON array of LLM_REASONING_CAPTURED payloads to join; without: blobd's own records." type:"path" placeholder:"FILE"`
	MaxParts   int    `help:"At most so many parts (default: 256)."`
	MaxBytes   int64  `help:"At most so many readable bytes (default: 1 MiB)."`
}

// Run prints an execution's reasoning. The read is recorded before a byte
// leaves the server.
func (r readCmd) Run(a *app) error {
	remote, err := a.remote()
	if err != nil {
		return err
	}
	q := wire.ReadRequest{StepID: r.Step, StepPrefix: r.StepPrefix, Purpose: r.Purpose}
	if r.EventsFile != "" {
		b, err := a.input(r.EventsFile)
		if err != nil {
			return err
		}
		if err := strictJSON(b, &q.Events); err != nil {
			return err
		}
	}
	if r.MaxParts > 0 {
		q.MaxParts = &r.MaxParts
	}
	if r.MaxBytes > 0 {
		q.MaxBytes = &r.MaxBytes
	}
	answer, err := remote.Read(a.ctx, r.Execution, q)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(answer)
	}
	for _, p := range answer.Parts {
		a.printPart(p)
	}
	if answer.Truncated {
		fmt.Fprintln(a.stdout, "(truncated: there is more)")
	}
	return nil
}

// printPart shows a part with its text set off from what blobd says, for the
// text is a model's and proves nothing.
func (a *app) printPart(p wire.ReadPart) {
	superseded := ""
	if p.Superseded {
		superseded = " superseded"
	}
	fmt.Fprintf(a.stdout, "%s attempt %d part %d: %s %s%s %s\n",
		plain(p.StepID), p.Attempt, p.Index, p.Kind, p.Status, superseded, p.Ref)
	if p.Content == nil {
		return
	}
	if p.Content.Text == nil {
		fmt.Fprintf(a.stdout, "  | (%d bytes that are no text; --json has them)\n", len(p.Content.Base64))
		return
	}
	for line := range strings.Lines(plain(string(p.Content.Text.Bytes()))) {
		fmt.Fprintf(a.stdout, "  | %s\n", strings.TrimSuffix(line, "\n"))
	}
}
