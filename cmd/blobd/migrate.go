package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger/postgres"
)

type migrateCmd struct {
	Up     migrateUpCmd     `cmd:"" help:"Bring the shared ledger up to this program's schema; programs that do so at once wait for each other."`
	Status migrateStatusCmd `cmd:"" help:"Compare the shared ledger's schema with this program's; changes nothing. Exits 1 if it is newer, 4 if it is older."`
}

type (
	migrateUpCmd     struct{}
	migrateStatusCmd struct{}
)

// schemaReport is what migrate says, as JSON.
type schemaReport struct {
	Schema int64  `json:"schema"` // of the database; 0: an empty one
	Known  int64  `json:"known"`  // to this program
	State  string `json:"state"`  // current, older or newer
}

func reportOf(s postgres.Schema) schemaReport {
	r := schemaReport{Schema: s.Have, Known: s.Known, State: "current"}
	switch {
	case s.Have < s.Known:
		r.State = "older"
	case s.Have > s.Known:
		r.State = "newer"
	}
	return r
}

func (r schemaReport) print(a *app) error {
	if a.json {
		return a.printJSON(r)
	}
	_, err := fmt.Fprintf(a.stdout, "schema %d, this program knows %d: %s\n", r.Schema, r.Known, r.State)
	return err
}

// sharedLedger returns the URL of the shared ledger.
func (a *app) sharedLedger() (string, error) {
	cfg, err := a.config(nil)
	if err == nil && cfg.LedgerURL == "" {
		err = fmt.Errorf("ledger.dsn names no shared ledger: SQLite in the data folder is migrated by the first start: %w", blobd.ErrInvalid)
	}
	return cfg.LedgerURL, err
}

// Run migrates, and says what the schema is then.
func (migrateUpCmd) Run(a *app) error {
	url, err := a.sharedLedger()
	if err != nil {
		return err
	}
	if err := postgres.Migrate(a.ctx, url); err != nil {
		return err
	}
	s, err := postgres.Status(a.ctx, url)
	if err != nil {
		return err
	}
	return reportOf(s).print(a)
}

// Run compares.
func (migrateStatusCmd) Run(a *app) error {
	url, err := a.sharedLedger()
	if err != nil {
		return err
	}
	s, err := postgres.Status(a.ctx, url)
	if err != nil {
		return err
	}
	r := reportOf(s)
	if err := r.print(a); err != nil {
		return err
	}
	switch r.State {
	case "older":
		return status(exitUnsure)
	case "newer":
		return status(exitError)
	}
	return nil
}

// hasLedger reports whether there is a ledger to work on: a shared one, or a
// file in the data folder. Else it is os.ErrNotExist.
func (c *config) hasLedger() error {
	if c.LedgerURL != "" {
		return nil
	}
	_, err := os.Stat(filepath.Join(c.DataDir, ledgerFile))
	return err
}
