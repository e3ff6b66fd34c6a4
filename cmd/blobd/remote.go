package main

import (
	"context"
	"errors"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/api/wire"
)

type remote struct{}

var errSoon = errors.New("client not there yet")

func dial(url, token, tenant string) (*remote, error) { return &remote{}, nil }
func (a *app) remote() (*remote, error)               { return nil, errSoon }
func (r *remote) put(ctx context.Context, p putCmd, subjects []string, audience []blobd.Principal, body []byte) (wire.Stored, error) {
	return wire.Stored{}, errSoon
}
func (r *remote) capture(ctx context.Context, execution string, q wire.CaptureRequest) (wire.Captured, error) {
	return wire.Captured{}, errSoon
}
func (r *remote) resolve(ctx context.Context, execution string, q wire.ResolveRequest) (wire.Resolved, error) {
	return wire.Resolved{}, errSoon
}
func (r *remote) read(ctx context.Context, execution string, q wire.ReadRequest) (wire.ReadAnswer, error) {
	return wire.ReadAnswer{}, errSoon
}
func (r *remote) erase(ctx context.Context, q wire.EraseRequest) (wire.Erasure, error) {
	return wire.Erasure{}, errSoon
}
func (r *remote) planErasure(ctx context.Context, q wire.EraseRequest) (wire.Plan, error) {
	return wire.Plan{}, errSoon
}
func (r *remote) erasure(ctx context.Context, id string) (wire.Erasure, error) {
	return wire.Erasure{}, errSoon
}
func (r *remote) createToken(ctx context.Context, n wire.NewToken) (wire.CreatedToken, error) {
	return wire.CreatedToken{}, errSoon
}
func (r *remote) tokens(ctx context.Context) ([]wire.Token, error) { return nil, errSoon }
func (r *remote) revokeToken(ctx context.Context, id string) error { return errSoon }
func (r *remote) createTenant(ctx context.Context, id string) (wire.Tenant, error) {
	return wire.Tenant{}, errSoon
}
func (r *remote) tenants(ctx context.Context) ([]wire.Tenant, error) { return nil, errSoon }
func answerCode(err error) (int, bool)                               { return 0, false }
