package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/google/uuid"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/store"
)

// defaultTenant is the tenant of the first start.
const defaultTenant = "default"

// newFolder reports whether the first start of this folder was not finished:
// its identity is not confirmed, or nobody was ever given a token. A default
// tenant that was off-boarded is not made again: its id is never used again.
func (c *core) newFolder(ctx context.Context) (bool, error) {
	if !c.identity.Confirmed {
		return true, nil
	}
	t, err := c.ledger.Tenant(ctx, defaultTenant)
	if err != nil && !errors.Is(err, blobd.ErrNotFound) || t.Fenced() {
		return false, err
	}
	tokens, err := c.ledger.ListTokens(ctx, defaultTenant, "", 1)
	return len(tokens) == 0, err
}

// firstStart makes the default tenant and its admin token. A start that was cut
// short is completed: a token file whose hash was never committed is useless,
// and replaced. Of nodes that start at once over one ledger, the first to commit
// makes the token. Run it after store.Start.
func (c *core) firstStart(ctx context.Context, log *slog.Logger) error {
	_, err := c.store.CreateTenant(ctx, defaultTenant, "")
	if err != nil && !errors.Is(err, blobd.ErrConflict) {
		return fmt.Errorf("first start: %w", err)
	}
	secret, row, err := c.store.DraftToken(ctx, store.NewToken{Tenant: defaultTenant, Name: "admin", Roles: wire.Roles()})
	if err != nil {
		return fmt.Errorf("first start: %w", err)
	}
	row.ID = c.firstTokenID()
	// The file first: a token that is committed and not written down is lost.
	path := filepath.Join(c.config.DataDir, tokenFile)
	if err := writeSecret(path, secret); err != nil {
		return fmt.Errorf("first start: %w", err)
	}
	err = c.store.AddToken(ctx, row, "")
	if errors.Is(err, blobd.ErrConflict) {
		log.Info("another node made the admin token: it is in that node's data folder", "file", tokenFile)
		err = os.Remove(path)
	}
	if err != nil {
		return fmt.Errorf("first start: %w", err)
	}
	return nil
}

// firstTokenID is the same on every node, so that only one first token comes to
// be.
func (c *core) firstTokenID() string {
	return uuid.NewSHA1(uuid.NameSpaceOID, []byte("blobd/first-token/"+c.identity.ID)).String()
}

// writeSecret replaces path by a file (0600) that holds one line, durably.
func writeSecret(path, line string) (err error) {
	temp := path + ".tmp"
	if err := os.Remove(temp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line + "\n")
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	if err := os.Rename(temp, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// makeFolder makes dir (0700) and what is missing above it, durably. An empty
// folder that is there already is closed to others; one that holds something is
// left as it is, and refused later if others may use it.
func makeFolder(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	var parents []string
	for d := dir; ; d = filepath.Dir(d) {
		_, err := os.Stat(d)
		if err == nil {
			break
		}
		if !errors.Is(err, os.ErrNotExist) {
			return err
		}
		parents = append(parents, filepath.Dir(d))
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if len(entries) == 0 {
		if err := os.Chmod(dir, 0o700); err != nil {
			return err
		}
	}
	for _, p := range parents {
		if err := syncDir(p); err != nil {
			return err
		}
	}
	return nil
}

// syncDir makes the entries of a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
