package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/client"
)

// remote connects a client command to its server.
func (a *app) remote() (*client.Client, error) {
	cfg, err := a.config(nil)
	if err != nil {
		return nil, err
	}
	token, err := a.token(cfg)
	if err != nil {
		return nil, err
	}
	return client.New(client.Options{
		Server: cfg.Server, Token: token, Tenant: a.grammar.Tenant, RetryFor: retryFor(a.grammar.RetryFor),
	})
}

// retryFor turns "not at all" into the client's word for it.
func retryFor(d time.Duration) time.Duration {
	if d <= 0 {
		return -1
	}
	return d
}

// token finds the token: the file that was named, the setting, or the admin
// token of the data folder.
func (a *app) token(cfg config) (string, error) {
	if a.grammar.TokenFile != "" {
		return readToken(a.grammar.TokenFile)
	}
	if cfg.Token != "" {
		return cfg.Token, nil
	}
	token, err := readToken(filepath.Join(cfg.DataDir, tokenFile))
	if errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("no token: give --token-file, BLOBD_TOKEN or --data-dir (%w)", err)
	}
	return token, err
}

// answerCode is the exit code of what a server answered, or of nobody answering.
func answerCode(err error) (code int, ok bool) {
	var answer *client.Error
	var transport *url.Error
	switch {
	case errors.Is(err, client.ErrNull):
		return exitNull, true
	case errors.Is(err, client.ErrDamaged):
		return exitUnsure, true
	case errors.As(err, &answer):
		return problemCode(answer), true
	case errors.As(err, &transport):
		return exitUnsure, true
	}
	return 0, false
}

// problemCode: what is not definite is 4, whoever said it; a refusal that no
// repeat can change is 3.
func problemCode(e *client.Error) int {
	if e.Foreign {
		return exitUnsure
	}
	switch e.Problem.Code {
	case wire.CodePolicyForbids, wire.CodeHeld, wire.CodePlanDrift, wire.CodeErasurePending, wire.CodeRestricted,
		wire.CodeExecutionErased, wire.CodeBlobErased:
		return exitRefused
	case wire.CodeNotImplemented:
		return exitError
	case wire.CodeRateLimited:
		return exitUnsure
	}
	if e.Status >= 500 {
		return exitUnsure
	}
	return exitError
}

// all reads a listing to its end.
func all[T any](ctx context.Context, page func(context.Context, client.Page) ([]T, *string, error)) ([]T, error) {
	items := []T{}
	for p := (client.Page{Limit: wire.MaxList}); ; {
		some, next, err := page(ctx, p)
		if err != nil {
			return nil, err
		}
		items = append(items, some...)
		if next == nil {
			return items, nil
		}
		p.Cursor = *next
	}
}

func allTokens(ctx context.Context, c *client.Client) ([]wire.Token, error) {
	return all(ctx, func(ctx context.Context, p client.Page) ([]wire.Token, *string, error) {
		out, err := c.Tokens(ctx, p)
		return out.Items, out.Next, err
	})
}

func allTenants(ctx context.Context, c *client.Client) ([]wire.Tenant, error) {
	return all(ctx, func(ctx context.Context, p client.Page) ([]wire.Tenant, *string, error) {
		out, err := c.Tenants(ctx, p)
		return out.Items, out.Next, err
	})
}
