package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"text/tabwriter"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
)

// doctorTime bounds an examination.
const doctorTime = 2 * time.Minute

type doctorCmd struct{}

// diagnosis is what doctor found, as JSON.
type diagnosis struct {
	OK        bool               `json:"ok"`      // nothing failed
	Erasure   bool               `json:"erasure"` // nothing makes an erasure impossible
	Driver    string             `json:"driver"`
	Place     string             `json:"place"`
	Findings  []backends.Finding `json:"findings"`
	reachable bool
	unreached string // why it is not reachable
}

// Run examines the store. It touches neither ledger nor keys, so that it may run
// beside a service, and exits 1 if something failed, 4 if nobody answered.
func (doctorCmd) Run(a *app) error {
	cfg, err := a.config(nil)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(a.ctx, doctorTime)
	defer cancel()
	findings, err := examine(ctx, cfg)
	if err != nil {
		return err
	}
	d := diagnose(cfg, findings)
	if err := d.print(a); err != nil {
		return err
	}
	switch {
	case !d.reachable:
		return status(exitUnsure)
	case !d.OK:
		return status(exitError)
	}
	return nil
}

func diagnose(cfg config, findings []backends.Finding) diagnosis {
	d := diagnosis{
		OK: true, Erasure: len(backends.ErasureImpossible(findings)) == 0, reachable: true,
		Driver: cfg.Backend, Place: cfg.place(), Findings: findings,
	}
	for _, f := range findings {
		if f.Status == backends.Fail {
			d.OK = false
			if f.Check == "reachable" {
				d.reachable, d.unreached = false, f.Detail
			}
		}
	}
	d.Erasure = d.Erasure && d.reachable
	return d
}

func (d diagnosis) print(a *app) error {
	if a.json {
		return a.printJSON(d)
	}
	fmt.Fprintf(a.stdout, "%s: %s\n\n", d.Driver, plain(d.Place))
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CHECK\tRESULT\tDETAIL")
	for _, f := range d.Findings {
		fmt.Fprintf(w, "%s\t%s\t%s\n", f.Check, f.Status, plain(f.Detail))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "\n%s\n", d.verdict())
	return nil
}

func (d diagnosis) verdict() string {
	switch {
	case !d.reachable:
		return "The store does not answer: nothing is known about it."
	case !d.Erasure:
		return "blobd would not serve from here: what is erased could not all be deleted (--allow-residue serves all the same)."
	case !d.OK:
		return "Something failed: put it right before trust is placed in this store."
	}
	return "blobd can keep its promises here."
}

// examine opens the configured store and examines it.
func examine(ctx context.Context, cfg config) (found []backends.Finding, err error) {
	if cfg.Backend == "fs" {
		if _, err := os.Stat(objectsFolder(cfg)); errors.Is(err, os.ErrNotExist) {
			return []backends.Finding{{
				Check: "reachable", Status: backends.Warn, Detail: "the folder is not there yet: the first start makes it",
			}}, nil
		}
	}
	objects, err := openObjects(ctx, cfg, time.Now)
	if errors.Is(err, blobd.ErrConflict) {
		return []backends.Finding{{
			Check: "reachable", Status: backends.Warn, Detail: "a running process has the folder: ask its /readyz",
		}}, nil
	}
	if err != nil {
		return nil, err
	}
	if closer, ok := objects.(io.Closer); ok {
		defer func() { err = errors.Join(err, closer.Close()) }()
	}
	if examiner, ok := objects.(backends.Examiner); ok {
		return examiner.Examine(ctx, time.Now)
	}
	f := backends.Finding{Check: "reachable", Status: backends.Pass, Detail: "takes writes and gives them back"}
	if err := objects.Check(ctx); err != nil {
		f.Status, f.Detail = backends.Fail, err.Error()
	}
	return []backends.Finding{f}, nil
}

// errNoErasure refuses a store where what is erased could not all be deleted.
var errNoErasure = fmt.Errorf("the store cannot delete all that an erasure should (see blobd doctor; --allow-residue serves all the same): %w", blobd.ErrPolicy)

// admit examines the store before it is served from. A store that does not
// answer is ErrUnavailable; one where the promised erasure is impossible is
// errNoErasure, unless that was allowed.
func (c *core) admit(ctx context.Context, log *slog.Logger) error {
	examiner, ok := c.objects.(backends.Examiner)
	if !ok {
		return nil
	}
	findings, err := examiner.Examine(ctx, time.Now)
	if err != nil {
		return err
	}
	if d := diagnose(c.config, findings); !d.reachable {
		return fmt.Errorf("the object store: %s: %w", d.unreached, blobd.ErrUnavailable)
	}
	for _, f := range findings {
		if f.Status != backends.Pass {
			log.Warn("object store", "check", f.Check, "result", f.Status, "detail", f.Detail, "noErasure", f.NoErasure)
		}
	}
	no := backends.ErasureImpossible(findings)
	if len(no) == 0 {
		return nil
	}
	if c.config.Bucket.AllowResidue {
		residuals := make([]string, len(no))
		for i, f := range no {
			residuals[i] = "object store: " + f.Check
		}
		c.store.Residuals = residuals
		return nil
	}
	return fmt.Errorf("%s: %s: %w", no[0].Check, no[0].Detail, errNoErasure)
}
