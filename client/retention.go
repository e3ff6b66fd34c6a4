package client

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/blobd/blobd/api/wire"
)

// EndExecution says that an execution ended. Repeating it changes nothing.
func (c *Client) EndExecution(ctx context.Context, executionID string) (wire.Ended, error) {
	var out wire.Ended
	r := request{method: http.MethodPost, path: executionPath(executionID, "end"), safe: true}
	if _, err := c.do(ctx, r, &out); err != nil {
		return out, fmt.Errorf("end an execution: %w", err)
	}
	return out, nil
}

// Policies lists the policies of all classes, by class.
func (c *Client) Policies(ctx context.Context, p Page) (wire.Policies, error) {
	return get[wire.Policies](ctx, c, "policies", p.path("/v1/policies"))
}

// Policy returns the policy of a class, or the default that it follows.
func (c *Client) Policy(ctx context.Context, class string) (wire.Policy, error) {
	return get[wire.Policy](ctx, c, "policy", "/v1/policies/"+segment(class))
}

// SetPolicy adds a version to the policy of a class. It is sent once: a repeat
// would be another version.
func (c *Client) SetPolicy(ctx context.Context, class string, q wire.PolicyRequest) (wire.Policy, error) {
	var out wire.Policy
	body, err := json.Marshal(q)
	if err != nil {
		return out, fmt.Errorf("set a policy: %w", err)
	}
	r := request{method: http.MethodPut, path: "/v1/policies/" + segment(class), body: body, header: jsonHeader()}
	if _, err := c.do(ctx, r, &out); err != nil {
		return out, fmt.Errorf("set a policy: %w", err)
	}
	return out, nil
}

// SimulatePolicy counts what a policy would make due, and changes nothing.
func (c *Client) SimulatePolicy(ctx context.Context, class string, q wire.PolicyRequest) (wire.PolicySimulation, error) {
	return post[wire.PolicySimulation](ctx, c, "simulate a policy", "/v1/policies/"+segment(class)+"/simulate", q)
}

// RemovePolicy has a class follow the default again; with existing, what was
// captured before too.
func (c *Client) RemovePolicy(ctx context.Context, class string, existing bool) error {
	r := request{method: http.MethodDelete, path: "/v1/policies/" + segment(class)}
	r.addQuery("existing", strconv.FormatBool(existing))
	if _, err := c.do(ctx, r, nil); err != nil {
		return fmt.Errorf("remove a policy: %w", err)
	}
	return nil
}

// StartSweep starts a sweep; WaitSweep waits for its end. It is sent once: while
// one runs, another is refused.
func (c *Client) StartSweep(ctx context.Context, q wire.SweepRequest) (wire.Sweep, error) {
	q.DryRun = false
	var out wire.Sweep
	body, err := json.Marshal(q)
	if err != nil {
		return out, fmt.Errorf("start a sweep: %w", err)
	}
	r := request{method: http.MethodPost, path: "/v1/sweeps", body: body, header: jsonHeader()}
	if _, err := c.do(ctx, r, &out); err != nil {
		return out, fmt.Errorf("start a sweep: %w", err)
	}
	return out, nil
}

// PlanSweep counts what a sweep would erase, and changes nothing.
func (c *Client) PlanSweep(ctx context.Context) (wire.Sweep, error) {
	return post[wire.Sweep](ctx, c, "plan a sweep", "/v1/sweeps", wire.SweepRequest{DryRun: true})
}

// Sweep returns a sweep.
func (c *Client) Sweep(ctx context.Context, id string) (wire.Sweep, error) {
	return get[wire.Sweep](ctx, c, "sweep", "/v1/sweeps/"+segment(id))
}

// Sweeps lists sweeps, newest first.
func (c *Client) Sweeps(ctx context.Context, p Page) (wire.Sweeps, error) {
	return get[wire.Sweeps](ctx, c, "sweeps", p.path("/v1/sweeps"))
}

// Debt lists what is past its maximum and still there, and why.
func (c *Client) Debt(ctx context.Context, p Page) (wire.Debts, error) {
	return get[wire.Debts](ctx, c, "debt", p.path("/v1/debt"))
}

// WaitSweep asks until the sweep has ended. progress, if not nil, is told every
// answer.
func (c *Client) WaitSweep(ctx context.Context, id string, progress func(wire.Sweep)) (wire.Sweep, error) {
	for {
		s, err := c.Sweep(ctx, id)
		if err != nil {
			return s, err
		}
		if progress != nil {
			progress(s)
		}
		if s.State != "running" {
			return s, nil
		}
		wait := time.NewTimer(waitPoll)
		select {
		case <-ctx.Done():
			wait.Stop()
			return s, ctx.Err()
		case <-wait.C:
		}
	}
}
