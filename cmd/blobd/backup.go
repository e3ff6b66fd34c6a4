package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/blobd/blobd/ledger/postgres"
	"github.com/blobd/blobd/ledger/sqlite"
	"github.com/blobd/blobd/store"
)

type backupCmd struct {
	Check backupCheckCmd `cmd:"" help:"State the horizon, and what an old backup of the ledger could still open."`
}

type backupCheckCmd struct {
	Ledger string `help:"A backup of the ledger to look into: a file of a stopped service, which is copied and not changed, or the postgres:// URL of a database into which a backup was restored, which is brought up to date with this program." placeholder:"FILE|URL"`
}

// backupVerdict is what backup check found, as JSON.
type backupVerdict struct {
	Horizon  string         `json:"horizon"` // how long backups are kept, by keys.horizon
	KeysDate bool           `json:"keysOutsideBackups"`
	Tenants  []tenantBackup `json:"tenants"`
	Backup   *backupOpens   `json:"backup,omitempty"`
}

type tenantBackup struct {
	Tenant string `json:"tenant"`
	// NotOpened: backups taken before this time hold no key that can be unwrapped.
	NotOpened *time.Time `json:"notOpenedBefore"`
	Next      *time.Time `json:"nextHorizon"`
	Closed    int64      `json:"erasuresClosed"`
	Dated     int64      `json:"erasuresDated"`
	Undated   int64      `json:"erasuresUndated"`
	Latest    *time.Time `json:"latestDate"`
}

type backupOpens struct {
	Executions       int64 `json:"executions"`
	Opens            int64 `json:"opens"`
	ErasedExecutions int64 `json:"erasedExecutions"`
	ErasedBlobs      int64 `json:"erasedBlobs"`
}

// Run looks, and changes nothing. A backup that opens what was erased is exit
// code 2.
func (b backupCheckCmd) Run(a *app) error {
	return a.withKeys(true, func(c *core, tenants []string) error {
		v := backupVerdict{Horizon: c.config.Epochs.Horizon.String(), KeysDate: c.config.Keys != "local", Tenants: []tenantBackup{}}
		for _, id := range tenants {
			k, err := c.store.KeyStatus(a.ctx, id)
			if err != nil {
				return err
			}
			v.Tenants = append(v.Tenants, tenantBackupOf(k))
		}
		if b.Ledger != "" {
			opens, err := b.compare(a, c)
			if err != nil {
				return err
			}
			v.Backup = &opens
		}
		return a.printBackup(v)
	})
}

func tenantBackupOf(k store.KeyStatus) tenantBackup {
	t := tenantBackup{Tenant: k.Tenant, Closed: k.Closed, Dated: k.Dated, Undated: k.Undated, Latest: orNil(k.Latest)}
	if !k.FencedAt.IsZero() { // its epochs ended, and all versions of its KEK go at once
		t.NotOpened = orNil(k.DestroyedAt)
		return t
	}
	for _, e := range k.Epochs {
		switch {
		case !e.TrimmedAt.IsZero() && (t.NotOpened == nil || e.StartedAt.After(*t.NotOpened)):
			t.NotOpened = orNil(e.StartedAt)
		case e.TrimmedAt.IsZero() && !e.TrimAt.IsZero() && (t.Next == nil || e.TrimAt.Before(*t.Next)):
			t.Next = orNil(e.TrimAt)
		}
	}
	return t
}

// compare looks into the backup.
func (b backupCheckCmd) compare(a *app, c *core) (backupOpens, error) {
	if isPostgres(b.Ledger) {
		return b.compareDatabase(a, c)
	}
	return b.compareFile(a, c)
}

// compareDatabase looks into a database into which a backup was restored.
func (b backupCheckCmd) compareDatabase(a *app, c *core) (out backupOpens, err error) {
	old, err := postgres.Open(a.ctx, postgres.Options{URL: b.Ledger})
	if err != nil {
		return out, fmt.Errorf("backup: %w", err)
	}
	defer func() { err = errors.Join(err, old.Close()) }()
	r, err := c.store.CompareBackup(a.ctx, old)
	return backupOpens(r), err
}

// isPostgres reports whether a ledger is named by the URL of a database.
func isPostgres(ledger string) bool {
	return strings.HasPrefix(ledger, "postgres://") || strings.HasPrefix(ledger, "postgresql://")
}

// compareFile opens a copy of the backup: opening brings a file up to date with this
// program, and a backup is not changed by looking at it.
func (b backupCheckCmd) compareFile(a *app, c *core) (out backupOpens, err error) {
	dir, err := os.MkdirTemp("", "blobd-backup-")
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	copied := filepath.Join(dir, ledgerFile)
	for _, suffix := range []string{"", "-wal"} {
		if err := copyFile(copied+suffix, b.Ledger+suffix); err != nil && (suffix == "" || !errors.Is(err, os.ErrNotExist)) {
			return out, err
		}
	}
	old, err := sqlite.Open(copied, sqlite.Options{Now: time.Now})
	if err != nil {
		return out, fmt.Errorf("backup: %w", err)
	}
	defer func() { err = errors.Join(err, old.Close()) }()
	r, err := c.store.CompareBackup(a.ctx, old)
	return backupOpens(r), err
}

func copyFile(to, from string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

func (a *app) printBackup(v backupVerdict) error {
	if a.json {
		if err := a.printJSON(v); err != nil {
			return err
		}
	} else {
		a.sayBackup(v)
	}
	if b := v.Backup; b != nil && b.ErasedExecutions+b.ErasedBlobs > 0 {
		return status(exitPartly)
	}
	return nil
}

func (a *app) sayBackup(v backupVerdict) {
	say := func(format string, args ...any) { fmt.Fprintf(a.stdout, format+"\n", args...) }
	say("backups of the ledger are kept for %s (keys.horizon)", v.Horizon)
	if !v.KeysDate {
		say("the keyring lies in the data folder: a backup that holds both opens what it holds, and the dates below are not about it")
	}
	for _, t := range v.Tenants {
		say("tenant %s", t.Tenant)
		if t.NotOpened == nil {
			say("  no KEK version was ever trimmed: every backup opens")
		} else {
			say("  backups taken before %s open nothing", at(t.NotOpened))
		}
		say("  next horizon %s", at(t.Next))
		say("  erasures: %d that no backup opens, %d with a date (the last %s), %d without one (blobd keys rotate gives it)",
			t.Closed, t.Dated, at(t.Latest), t.Undated)
	}
	if b := v.Backup; b != nil {
		say("this backup: keys of %d executions, %d of them can be opened; of what was erased since, %d executions and %d blobs",
			b.Executions, b.Opens, b.ErasedExecutions, b.ErasedBlobs)
	}
}
