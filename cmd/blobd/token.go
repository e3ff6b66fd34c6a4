package main

import (
	"errors"
	"fmt"
	"os"
	"text/tabwriter"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/client"
	"github.com/blobd/blobd/store"
)

type tokenCmd struct {
	Create tokenCreateCmd `cmd:"" help:"Create a token; works on a stopped data folder too."`
	List   tokenListCmd   `cmd:"" help:"List the tenant's tokens."`
	Revoke tokenRevokeCmd `cmd:"" help:"Revoke a token."`
}

type tokenCreateCmd struct {
	Role    []string      `help:"A role: runtime, auditor, dpo, holds, approver, operator or admin. Repeatable." required:"" placeholder:"ROLE"`
	Name    string        `help:"A label." placeholder:"NAME"`
	Expires time.Duration `help:"How long it is valid (default: until revoked)." placeholder:"DURATION"`
	Out     string        `help:"Write the token to this new file (0600) instead of stdout." type:"path" placeholder:"FILE"`
}

// Run creates a token and shows it once.
func (t tokenCreateCmd) Run(a *app) error {
	created, err := t.create(a)
	if err != nil {
		return err
	}
	if t.Out != "" {
		if err := writeNew(t.Out, created.Secret); err != nil {
			return fmt.Errorf("token %s was created and could not be written down, revoke it: %w", created.ID, err)
		}
		created.Secret = ""
	}
	switch {
	case a.json:
		return a.printJSON(created)
	case t.Out == "":
		fmt.Fprintln(a.stdout, created.Secret)
	default:
		fmt.Fprintln(a.stdout, created.ID)
	}
	return nil
}

// create works on the data folder if nobody serves it and no server was named.
func (t tokenCreateCmd) create(a *app) (wire.CreatedToken, error) {
	c, err := a.openOffline()
	if err != nil {
		return wire.CreatedToken{}, err
	}
	if c != nil {
		created, err := t.offline(a, c)
		return created, errors.Join(err, c.Close())
	}
	r, err := a.remote()
	if err != nil {
		return wire.CreatedToken{}, err
	}
	n := wire.NewToken{Name: t.Name, Roles: t.Role}
	if t.Expires > 0 {
		at := time.Now().UTC().Add(t.Expires)
		n.ExpiresAt = &at
	}
	return r.CreateToken(a.ctx, n, "")
}

// openOffline opens the data folder for a command that works without a server:
// nil when a server or a token was named, when there is no ledger, or when a
// server uses it.
func (a *app) openOffline() (*core, error) {
	cfg, err := a.config(nil)
	if err != nil {
		return nil, err
	}
	if cfg.chosen["server"] != "" || cfg.Token != "" || a.grammar.TokenFile != "" {
		return nil, nil
	}
	if err := cfg.hasLedger(); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	c, err := a.openStopped()
	if errors.Is(err, blobd.ErrConflict) {
		return nil, nil
	}
	return c, err
}

func (t tokenCreateCmd) offline(a *app, c *core) (wire.CreatedToken, error) {
	if err := checkRoles(t.Role); err != nil {
		return wire.CreatedToken{}, err
	}
	if err := blobd.CheckName("name", t.Name); err != nil {
		return wire.CreatedToken{}, err
	}
	n := store.NewToken{Tenant: a.grammar.Tenant, Name: t.Name, Roles: t.Role}
	if n.Tenant == "" {
		n.Tenant = defaultTenant
	}
	if t.Expires > 0 {
		n.ExpiresAt = time.Now().UTC().Add(t.Expires)
	}
	secret, row, err := c.store.CreateToken(a.ctx, n)
	if errors.Is(err, blobd.ErrTenantErased) {
		err = fmt.Errorf("%w (tenant %q was off-boarded: name another one with --tenant)", err, n.Tenant)
	}
	if err != nil {
		return wire.CreatedToken{}, err
	}
	out := wire.CreatedToken{Secret: secret, Token: wire.Token{
		ID: row.ID, Tenant: row.Tenant, Name: row.Name, Roles: row.Roles, CreatedAt: row.CreatedAt,
	}}
	if !row.ExpiresAt.IsZero() {
		out.ExpiresAt = &row.ExpiresAt
	}
	return out, nil
}

func checkRoles(roles []string) error {
	known := make(map[string]bool)
	for _, r := range wire.Roles() {
		known[r] = true
	}
	for _, r := range roles {
		if !known[r] {
			return fmt.Errorf("unknown role %q: %w", r, blobd.ErrInvalid)
		}
	}
	return nil
}

// writeNew writes a secret to a file that must not exist.
func writeNew(path, line string) error {
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		return errors.Join(err, fmt.Errorf("%s: %w", path, os.ErrExist))
	}
	return writeSecret(path, line)
}

type tokenListCmd struct{}

// Run lists every token, revoked ones too.
func (tokenListCmd) Run(a *app) error {
	r, err := a.remote()
	if err != nil {
		return err
	}
	tokens, err := allTokens(a.ctx, r)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(tokens)
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tTENANT\tNAME\tROLES\tEXPIRES\tREVOKED")
	for _, t := range tokens {
		fmt.Fprintf(w, "%s\t%s\t%s\t%v\t%s\t%s\n", t.ID, t.Tenant, plain(t.Name), t.Roles, at(t.ExpiresAt), at(t.RevokedAt))
	}
	return w.Flush()
}

// at writes a time that may be absent.
func at(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.Format(time.RFC3339)
}

type tokenRevokeCmd struct {
	ID     string `arg:"" help:"Token id, as token list shows it."`
	DryRun bool   `help:"Say what would be revoked, and do nothing."`
	Yes    bool   `help:"Do not ask."`
}

// Run revokes one token.
func (t tokenRevokeCmd) Run(a *app) error {
	r, err := a.remote()
	if err != nil {
		return err
	}
	if t.DryRun {
		return t.show(a, r)
	}
	if !t.Yes {
		if err := a.confirm("Revoke the token for good", t.ID); err != nil {
			return err
		}
	}
	if err := r.RevokeToken(a.ctx, t.ID); err != nil {
		return err
	}
	if a.json {
		return a.printJSON(map[string]string{"revoked": t.ID})
	}
	fmt.Fprintln(a.stdout, "revoked", t.ID)
	return nil
}

func (t tokenRevokeCmd) show(a *app, r *client.Client) error {
	tokens, err := allTokens(a.ctx, r)
	if err != nil {
		return err
	}
	for _, token := range tokens {
		if token.ID != t.ID {
			continue
		}
		if a.json {
			return a.printJSON(token)
		}
		fmt.Fprintf(a.stdout, "would revoke %s %q %v\n", token.ID, token.Name, token.Roles)
		return nil
	}
	return fmt.Errorf("token: %w", blobd.ErrNotFound)
}
