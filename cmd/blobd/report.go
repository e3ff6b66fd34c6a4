package main

import (
	"fmt"
	"os"

	"github.com/blobd/blobd"
)

type reportCmd struct {
	Report string `arg:"" help:"erasures, retention, holds or sweeps." enum:"erasures,retention,holds,sweeps"`
	From   string `help:"From this time on, RFC 3339 or a date." placeholder:"TIME"`
	To     string `help:"Up to this time, not included." placeholder:"TIME"`
	CSV    bool   `name:"csv" help:"As CSV, for a spreadsheet (default: JSON)."`
	Out    string `help:"File to write (0600; default: standard output)." type:"path" placeholder:"FILE"`
}

// Run gets a report as the server wrote it.
func (c reportCmd) Run(a *app) error {
	if c.CSV && a.json {
		return fmt.Errorf("one of --csv and --json: %w", blobd.ErrInvalid)
	}
	r, err := a.remote()
	if err != nil {
		return err
	}
	b, err := r.Report(a.ctx, c.Report, c.From, c.To, c.CSV)
	if err != nil {
		return err
	}
	if c.Out != "" {
		return os.WriteFile(c.Out, b, 0o600)
	}
	if _, err = a.stdout.Write(b); err != nil || c.CSV {
		return err
	}
	_, err = fmt.Fprintln(a.stdout)
	return err
}
