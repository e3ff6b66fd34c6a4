package main

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/store"
)

type verifyCmd struct {
	Repair        bool     `help:"Collect objects without a row that are too old to get one."`
	AcceptLoss    []string `help:"Turn these refs, whose objects are gone, into nulls. Needs --execution." placeholder:"REF"`
	Execution     string   `help:"The execution of the refs of --accept-loss." placeholder:"ID"`
	AcceptMissing bool     `help:"After a rollback of the ledger: turn every row that is known as missing into a null."`
	AcceptGap     bool     `help:"After ledger and store were both rolled back: accept that puts of which neither knows are lost."`
	DryRun        bool     `help:"Say what would be done, and do nothing."`
	Yes           bool     `help:"Do not ask."`
}

// verdict is what verify found, as JSON.
type verdict struct {
	OK       bool    `json:"ok"`
	Live     int64   `json:"live"`
	Erased   int64   `json:"erased"`
	Erasing  int64   `json:"erasing"`
	Missing  int64   `json:"missing"`
	Lost     int64   `json:"lost"`
	Other    int64   `json:"other"`
	Objects  int64   `json:"objects"`
	Orphans  int64   `json:"orphans"`
	Repaired int64   `json:"repaired"`
	Faults   []fault `json:"faults"`
	// MissingRows are rows that wait for --accept-missing or --accept-loss.
	MissingRows []fault `json:"missingRows"`
}

type fault struct {
	ExecutionTag string `json:"executionTag"`
	Ref          string `json:"ref"`
	Problem      string `json:"problem"`
}

// Run checks the data folder. Like a start of the service it first brings the
// ledger up to date with its journal.
func (v verifyCmd) Run(a *app) error {
	refs, err := v.refs()
	if err != nil {
		return err
	}
	if err := v.confirm(a, len(refs)); err != nil {
		return err
	}
	c, err := a.openStopped()
	if err != nil {
		return err
	}
	err = v.run(a, c, refs)
	return errors.Join(err, c.Close())
}

func (v verifyCmd) refs() ([]blobd.Ref, error) {
	if len(v.AcceptLoss) > 0 && v.Execution == "" {
		return nil, fmt.Errorf("--accept-loss needs --execution: %w", blobd.ErrInvalid)
	}
	refs := make([]blobd.Ref, len(v.AcceptLoss))
	for i, s := range v.AcceptLoss {
		ref, err := blobd.ParseRef(s)
		if err != nil {
			return nil, err
		}
		refs[i] = ref
	}
	return refs, nil
}

func (v verifyCmd) confirm(a *app, refs int) error {
	switch {
	case v.DryRun || v.Yes:
		return nil
	case refs > 0:
		return a.confirm(fmt.Sprintf("Accept the loss of %d blobs for good", refs), v.Execution)
	case v.AcceptMissing:
		return a.confirm("Accept the loss of every missing blob for good", "accept the missing")
	case v.AcceptGap:
		return a.confirm("Accept that unknown puts are lost", "accept the gap")
	}
	return nil
}

func (v verifyCmd) run(a *app, c *core, refs []blobd.Ref) error {
	if err := v.start(a, c); err != nil {
		return err
	}
	if err := v.accept(a, c, refs); err != nil {
		return err
	}
	bar := a.count("looked at")
	report, err := c.store.Verify(a.ctx, store.VerifyOptions{Repair: v.Repair && !v.DryRun, Progress: bar.set})
	bar.end()
	if err != nil {
		return err
	}
	return a.verdict(report)
}

// start brings the ledger up to date; a dry run only says that it is behind.
func (v verifyCmd) start(a *app, c *core) error {
	if !v.DryRun {
		return c.store.Start(a.ctx)
	}
	lost, err := c.journal.Compare(a.ctx)
	if err == nil && len(lost.Records) > 0 {
		fmt.Fprintf(a.stderr, "the ledger is %d records behind its journal: a start will replay them\n", len(lost.Records))
	}
	return err
}

func (v verifyCmd) accept(a *app, c *core, refs []blobd.Ref) error {
	if v.DryRun {
		return nil
	}
	if len(refs) > 0 {
		tenant := a.grammar.Tenant
		if tenant == "" {
			tenant = defaultTenant
		}
		if err := c.store.AcceptLoss(a.ctx, tenant, v.Execution, refs, ""); err != nil {
			return err
		}
	}
	if v.AcceptMissing {
		if _, err := c.store.AcceptMissing(a.ctx, ""); err != nil {
			return err
		}
	}
	if v.AcceptGap {
		return c.store.AcceptGap(a.ctx)
	}
	return nil
}

// openStopped opens a data folder that no server uses, and makes nothing where
// there is none.
func (a *app) openStopped() (*core, error) {
	cfg, err := a.config(nil)
	if err != nil {
		return nil, err
	}
	if err := cfg.hasLedger(); err != nil {
		return nil, fmt.Errorf("no ledger in the data folder: %w", err)
	}
	c, err := buildCore(a.ctx, cfg, time.Now, a.log(max(cfg.LogLevel, slog.LevelWarn)))
	if errors.Is(err, blobd.ErrConflict) {
		return nil, fmt.Errorf("%w (is a server running on this folder?)", err)
	}
	return c, err
}

func (a *app) verdict(r store.Report) error {
	out := verdict{
		OK: r.OK(), Live: r.Live, Erased: r.Erased, Erasing: r.Erasing, Missing: r.Missing, Lost: r.Lost,
		Other: r.Other, Objects: r.Objects, Orphans: r.Orphans, Repaired: r.Repaired, Faults: []fault{}, MissingRows: []fault{},
	}
	for _, p := range r.MissingRows {
		out.MissingRows = append(out.MissingRows, fault{p.Tag.String(), p.Ref.String(), "missing"})
	}
	for _, f := range r.Faults {
		out.Faults = append(out.Faults, fault{f.Execution.String(), f.Ref.String(), f.Problem})
	}
	if err := a.printVerdict(out); err != nil {
		return err
	}
	if !out.OK {
		return status(exitError)
	}
	return nil
}

func (a *app) printVerdict(v verdict) error {
	if a.json {
		return a.printJSON(v)
	}
	for _, f := range v.Faults {
		fmt.Fprintf(a.stdout, "FAULT %-14s %s (execution tag %s)\n", f.Problem, f.Ref, f.ExecutionTag)
	}
	for _, m := range v.MissingRows {
		fmt.Fprintf(a.stdout, "missing %s (execution tag %s)\n", m.Ref, m.ExecutionTag)
	}
	fmt.Fprintf(a.stdout, "live %d, erased %d, being erased %d, missing %d, lost %d, other %d\n",
		v.Live, v.Erased, v.Erasing, v.Missing, v.Lost, v.Other)
	fmt.Fprintf(a.stdout, "objects %d, without a row %d (no fault), collected %d\n", v.Objects, v.Orphans, v.Repaired)
	if v.OK {
		fmt.Fprintln(a.stdout, "every live row opens")
		return nil
	}
	fmt.Fprintf(a.stdout, "%d faults\n", len(v.Faults))
	return nil
}
