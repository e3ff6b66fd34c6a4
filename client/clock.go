package client

import (
	"context"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json"

	"github.com/blobd/blobd/api/wire"
)

// MoveClock tells an event of an erasure's clock, and returns the clock. It is sent
// once: a repeat could not tell its own success from another's. Erasure tells the
// clock without an event.
func (c *Client) MoveClock(ctx context.Context, erasureID string, q wire.ClockRequest) (wire.Clock, error) {
	var out wire.Clock
	body, err := json.Marshal(q)
	if err != nil {
		return out, fmt.Errorf("move a clock: the request cannot be written as JSON")
	}
	r := request{method: http.MethodPost, path: "/v1/erasures/" + segment(erasureID) + "/clock", body: body, header: jsonHeader()}
	if _, err := c.do(ctx, r, &out); err != nil {
		return out, fmt.Errorf("move a clock: %w", err)
	}
	return out, nil
}
