package client

import (
	"context"
	"fmt"
	"net/http"

	"github.com/blobd/blobd/api/wire"
)

// LedgerClock returns how the ledger's clock stands.
func (c *Client) LedgerClock(ctx context.Context) (wire.LedgerClock, error) {
	return get[wire.LedgerClock](ctx, c, "ledger clock", "/v1/clock")
}

// ConfirmLedgerClock says that the ledger's clock is right. It is sent once: a repeat
// could confirm a clock that jumped since.
func (c *Client) ConfirmLedgerClock(ctx context.Context) (wire.LedgerClock, error) {
	var out wire.LedgerClock
	if _, err := c.do(ctx, request{method: http.MethodPost, path: "/v1/clock/confirm"}, &out); err != nil {
		return out, fmt.Errorf("confirm the ledger's clock: %w", err)
	}
	return out, nil
}
