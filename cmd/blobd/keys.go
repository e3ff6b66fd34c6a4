package main

import (
	"errors"
	"fmt"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/retention"
	"github.com/blobd/blobd/store"
)

type keysCmd struct {
	Status keysStatusCmd `cmd:"" help:"Show KEK versions, epochs and dates. Of every tenant, or of --tenant."`
	Rotate keysRotateCmd `cmd:"" help:"Run an epoch: a new KEK version, and every live key wrapped by it."`
	Rewrap keysRewrapCmd `cmd:"" help:"Go on with an epoch that was cut short."`
	Trim   keysTrimCmd   `cmd:"" help:"Destroy the KEK versions whose horizon is reached."`
}

// tenantKeys is where a tenant's keys stand, as JSON.
type tenantKeys struct {
	Tenant  string     `json:"tenant"`
	Newest  uint32     `json:"newest"`
	Oldest  uint32     `json:"oldest"`
	Minimum uint32     `json:"minimum"`
	Epochs  []keyEpoch `json:"epochs"`
	// Of an off-boarded tenant: when it was, and when its KEK was destroyed.
	OffboardedAt   *time.Time `json:"offboardedAt,omitempty"`
	KEKDestroyedAt *time.Time `json:"kekDestroyedAt,omitempty"`
}

type keyEpoch struct {
	ID          string     `json:"id"`
	State       string     `json:"state"`
	Version     uint32     `json:"version"`
	Rewrapped   int64      `json:"rewrapped"`
	Total       int64      `json:"total"`
	Rekeyed     int64      `json:"rekeyed"`
	StartedAt   time.Time  `json:"startedAt"`
	CompletedAt *time.Time `json:"completedAt"`
	TrimAt      *time.Time `json:"trimAt"`
	TrimmedAt   *time.Time `json:"trimmedAt"`
	LastError   string     `json:"lastError,omitempty"`
}

func keyEpochOf(e ledger.Epoch) keyEpoch {
	return keyEpoch{
		ID: e.ID, State: e.State.String(), Version: e.Version, Rewrapped: e.Rewrapped, Total: e.Total, Rekeyed: e.Rekeyed,
		StartedAt: e.StartedAt, CompletedAt: orNil(e.CompletedAt), TrimAt: orNil(e.TrimAt), TrimmedAt: orNil(e.TrimmedAt),
		LastError: e.LastError,
	}
}

func orNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// withKeys opens and starts what a keys command works on: like a start of the
// service it first brings the ledger up to date with its journal. A dry run
// starts nothing, so that it changes nothing.
func (a *app) withKeys(dryRun bool, work func(c *core, tenants []string) error) (err error) {
	c, err := a.openStopped()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if !dryRun {
		if err := c.store.Start(a.ctx); err != nil {
			return err
		}
	}
	tenants, err := a.tenants(c, false)
	if err != nil {
		return err
	}
	return work(c, tenants)
}

// tenants are those that a command is about: all, or all that live, or the one
// that was named.
func (a *app) tenants(c *core, living bool) ([]string, error) {
	if a.grammar.Tenant != "" {
		_, err := c.ledger.Tenant(a.ctx, a.grammar.Tenant)
		return []string{a.grammar.Tenant}, err
	}
	var ids []string
	for after := ""; ; {
		const page = 100
		ts, err := c.ledger.ListTenants(a.ctx, after, page)
		if err != nil {
			return nil, err
		}
		for _, t := range ts {
			if after = t.ID; !living || !t.Fenced() {
				ids = append(ids, t.ID)
			}
		}
		if len(ts) < page {
			return ids, nil
		}
	}
}

type keysStatusCmd struct{}

// Run shows, and changes nothing.
func (keysStatusCmd) Run(a *app) error {
	return a.withKeys(true, a.printKeys)
}

func (a *app) printKeys(c *core, tenants []string) error {
	all := []tenantKeys{}
	for _, id := range tenants {
		k, err := c.store.KeyStatus(a.ctx, id)
		if err != nil {
			return err
		}
		out := tenantKeys{Tenant: id, Newest: uint32(k.Newest), Oldest: uint32(k.Oldest), Minimum: k.MinimumWrap, Epochs: []keyEpoch{}}
		out.OffboardedAt, out.KEKDestroyedAt = orNil(k.FencedAt), orNil(k.DestroyedAt)
		for _, e := range k.Epochs {
			out.Epochs = append(out.Epochs, keyEpochOf(e))
		}
		all = append(all, out)
	}
	if a.json {
		return a.printJSON(all)
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	for _, k := range all {
		if k.OffboardedAt != nil {
			fmt.Fprintf(w, "tenant %s: off-boarded %s, KEK destroyed %s\n", k.Tenant, at(k.OffboardedAt), at(k.KEKDestroyedAt))
			continue
		}
		fmt.Fprintf(w, "tenant %s: KEK versions %d to %d, new keys from version %d on\n", k.Tenant, k.Oldest, k.Newest, k.Minimum)
		if len(k.Epochs) == 0 {
			continue
		}
		fmt.Fprintln(w, "EPOCH\tSTATE\tVERSION\tKEYS\tSTARTED\tCOMPLETED\tTRIM AT\tTRIMMED\tLAST ERROR")
		for _, e := range k.Epochs {
			fmt.Fprintf(w, "%s\t%s\t%d\t%d of %d\t%s\t%s\t%s\t%s\t%s\n", e.ID, e.State, e.Version, e.Rewrapped, e.Total,
				at(&e.StartedAt), at(e.CompletedAt), at(e.TrimAt), at(e.TrimmedAt), e.LastError)
		}
	}
	return w.Flush()
}

type keysRotateCmd struct {
	DryRun bool `help:"Say what would be done, and do nothing."`
}

// Run starts an epoch of each tenant and runs it until it waits for its horizon.
func (k keysRotateCmd) Run(a *app) error {
	return a.withKeys(k.DryRun, func(c *core, _ []string) error {
		tenants, err := a.tenants(c, true)
		if err != nil {
			return err
		}
		if k.DryRun {
			for _, id := range tenants {
				fmt.Fprintf(a.stderr, "would give tenant %s a new KEK version and wrap its live keys by it\n", id)
			}
			return nil
		}
		for _, id := range tenants {
			_, err := c.store.StartEpoch(a.ctx, id, "", "")
			if errors.Is(err, blobd.ErrConflict) {
				err = fmt.Errorf("%w (blobd keys rewrap goes on with it)", err)
			}
			if err != nil {
				return err
			}
		}
		return a.runEpochs(c, tenants, false)
	})
}

type keysRewrapCmd struct {
	DryRun bool `help:"Say what is left to do, and do nothing."`
}

// Run goes on with what is due.
func (k keysRewrapCmd) Run(a *app) error {
	return a.withKeys(k.DryRun, func(c *core, tenants []string) error {
		if k.DryRun {
			return a.printKeys(c, tenants)
		}
		return a.runEpochs(c, tenants, false)
	})
}

// runEpochs runs the epochs of tenants that are due and shows where they stand:
// those that wait for their horizon if trim is set, the others if it is not. One
// that is not complete then is exit code 2: it is tried again by whoever comes next.
func (a *app) runEpochs(c *core, tenants []string, trim bool) error {
	bar := counter{}
	o := c.config.Epochs
	o.Wants = func(e ledger.Epoch) bool {
		return slices.Contains(tenants, e.Tenant) && (e.State == ledger.EpochWaiting) == trim
	}
	o.Progress = func(_ ledger.Epoch, done, total int64) {
		if bar.bar == nil {
			bar = a.total("re-wrapped", total)
		}
		bar.set(done)
	}
	runner := retention.NewEpochs(c.store, c.ledger, "command", o, time.Now, a.log(c.config.LogLevel))
	for worked := true; worked; {
		var err error
		if worked, err = runner.RunOne(a.ctx); err != nil {
			bar.end()
			return err
		}
	}
	bar.end()
	if err := a.printKeys(c, tenants); err != nil {
		return err
	}
	return a.epochsComplete(c, tenants)
}

func (a *app) epochsComplete(c *core, tenants []string) error {
	for _, id := range tenants {
		es, err := c.ledger.ListEpochs(a.ctx, ledger.EpochQuery{Tenant: id, Limit: 1})
		if err != nil {
			return err
		}
		for _, e := range es {
			if e.CompletedAt.IsZero() && e.State != ledger.EpochEnded {
				fmt.Fprintf(a.stderr, "epoch %s of tenant %s is not complete (%s); it is due again at %s\n",
					e.ID, id, e.LastError, e.RunAt.Format(time.RFC3339))
				return status(exitPartly)
			}
		}
	}
	return nil
}

type keysTrimCmd struct {
	DryRun bool `help:"Say what would be destroyed, and do nothing."`
	Yes    bool `help:"Do not ask."`
}

// Run destroys old KEK versions for good. Before their horizon it refuses.
func (k keysTrimCmd) Run(a *app) error {
	return a.withKeys(k.DryRun, func(c *core, tenants []string) error {
		due, next, err := a.trims(c, tenants)
		if err != nil {
			return err
		}
		for _, e := range due {
			fmt.Fprintf(a.stderr, "tenant %s: KEK versions below %d\n", e.Tenant, e.Version)
		}
		switch {
		case len(due) == 0 && next.IsZero():
			return fmt.Errorf("no epoch waits for its horizon: %w", blobd.ErrPolicy)
		case len(due) == 0:
			return fmt.Errorf("the next horizon is reached at %s: %w", next.Format(time.RFC3339), blobd.ErrPolicy)
		case k.DryRun:
			return nil
		}
		if !k.Yes {
			if err := a.confirm("Destroy these KEK versions, and with them what older backups can open, for good", "trim"); err != nil {
				return err
			}
		}
		return a.runEpochs(c, tenants, true)
	})
}

// trims returns the epochs that may be trimmed now, and when the next may.
func (a *app) trims(c *core, tenants []string) (due []ledger.Epoch, next time.Time, err error) {
	for _, id := range tenants {
		var k store.KeyStatus
		if k, err = c.store.KeyStatus(a.ctx, id); err != nil {
			return nil, next, err
		}
		for _, e := range k.Epochs {
			at := store.TrimDue(e, c.config.Epochs.Horizon)
			switch {
			case e.State != ledger.EpochWaiting:
			case !time.Now().Before(at):
				due = append(due, e)
			case next.IsZero() || at.Before(next):
				next = at
			}
		}
	}
	return due, next, nil
}
