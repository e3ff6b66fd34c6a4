package api

import (
	"context"
	"encoding/base64"
	"net/http"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/store"
)

// Paths of retention.
const (
	pathPolicies = "/v1/policies"
	pathPolicy   = pathPolicies + "/{class}"
	pathSweeps   = "/v1/sweeps"
	pathSweep    = pathSweeps + "/{id}"
)

func retentionRoutes() []route {
	return []route{
		{
			method: "POST", path: pathExecution + "/end", id: "endExecution", roles: runtimeRole,
			about: "the execution ended: a start event of retention; repeating it changes nothing",
			act:   (*API).endExecution, answers: []reply{{200, wire.Ended{}, nil}},
		},
		{
			method: "GET", path: pathPolicies, id: "listPolicies", roles: dpoRole,
			about: "the policies of all classes, with those that follow the default", query: listQuery(),
			act: (*API).listPolicies, answers: []reply{{200, wire.Policies{}, nil}},
		},
		{
			method: "GET", path: pathPolicy, id: "getPolicy", roles: dpoRole,
			about: "the policy of a class, or the default that it follows",
			act:   (*API).policy, answers: []reply{{200, wire.Policy{}, nil}},
		},
		{
			method: "PUT", path: pathPolicy, id: "setPolicy", roles: dpoRole,
			about: "add a version to the policy of a class", request: wire.PolicyRequest{},
			act: (*API).setPolicy, answers: []reply{{200, wire.Policy{}, nil}},
		},
		{
			method: "DELETE", path: pathPolicy, id: "removePolicy", roles: dpoRole,
			about: "the class follows the default again",
			query: []param{{"existing", "true: blobs captured before, too; default false"}},
			act:   (*API).removePolicy, answers: []reply{{204, nil, nil}},
		},
		{
			method: "POST", path: pathPolicy + "/simulate", id: "simulatePolicy", roles: dpoRole,
			about: "count what a policy would make due; nothing is changed", request: wire.PolicyRequest{},
			act: (*API).simulatePolicy, answers: []reply{{200, wire.PolicySimulation{}, nil}},
		},
		{
			method: "POST", path: pathSweeps, id: "startSweep", roles: operatorRole,
			about:   "start a sweep of the tenant, or count what one would erase",
			request: wire.SweepRequest{}, optionalBody: true, act: (*API).startSweep,
			answers: []reply{{202, wire.Sweep{}, []string{headerLocation}}, {200, wire.Sweep{}, nil}},
		},
		{
			method: "GET", path: pathSweeps, id: "listSweeps", roles: operatorRole | dpoRole,
			about: "sweeps, newest first", act: (*API).listSweeps,
			query:   append(listQuery(), param{"state", "running, done or stopped"}),
			answers: []reply{{200, wire.Sweeps{}, nil}},
		},
		{
			method: "GET", path: pathSweep, id: "getSweep", roles: operatorRole | dpoRole,
			about: "how far a sweep is", act: (*API).sweep, answers: []reply{{200, wire.Sweep{}, nil}},
		},
		{
			method: "GET", path: "/v1/debt", id: "listDebt", roles: operatorRole | dpoRole,
			about: "what is past its maximum and still there, and why", query: listQuery(),
			act: (*API).listDebt, answers: []reply{{200, wire.Debts{}, nil}},
		},
	}
}

// endExecution answers POST …/{executionId}/end.
func (a *API) endExecution(c *call) error {
	x, err := a.Store.EndExecution(c.r.Context(), c.who.tenant, c.executionID, c.who.token)
	if err != nil {
		return err
	}
	return c.reply(http.StatusOK, &wire.Ended{ExecutionID: c.executionID, EndedAt: x.EndedAt.UTC()})
}

// class reads the class of the path.
func (c *call) class() (string, error) {
	name := c.r.PathValue("class")
	return name, invalid(blobd.CheckClass(name))
}

// policy answers GET /v1/policies/{class}.
func (a *API) policy(c *call) error {
	name, err := c.class()
	if err != nil {
		return err
	}
	if err := a.Store.Serving(); err != nil {
		return err
	}
	class, err := a.Store.Class(c.r.Context(), c.who.tenant, name)
	if err != nil {
		return err
	}
	return c.reply(http.StatusOK, policyOf(class))
}

// listPolicies answers GET /v1/policies.
func (a *API) listPolicies(c *call) error {
	p, err := c.paging()
	if err != nil {
		return err
	}
	if err := a.Store.Serving(); err != nil {
		return err
	}
	rows, err := a.Ledger.Classes(c.r.Context(), c.who.tenant, p.after, p.limit+1)
	if err != nil {
		return err
	}
	rows, next := cut(rows, p.limit, func(class ledger.Class) string { return class.Name })
	out := &wire.Policies{Items: make([]wire.Policy, len(rows)), Next: next}
	for i, class := range rows {
		out.Items[i] = *policyOf(class)
	}
	return c.reply(http.StatusOK, out)
}

// policyOf is what governs new blobs of a class, and what still governs old ones.
func policyOf(class ledger.Class) *wire.Policy {
	now := ledger.Policy{Rule: ledger.DefaultRule(), Removed: true}
	if len(class.Policies) > 0 {
		now = class.Policies[0]
	}
	out := &wire.Policy{
		Class: class.Name, Default: now.Removed, Version: now.Version, Since: timeOrNull(now.At),
		Period: now.Maximum.String(), StartEvent: now.Start.String(), Floor: textOrNull(now.Floor.String()),
		LegalBasis: textOrNull(now.LegalBasis), OnExpiry: now.OnExpiry.String(), Existing: now.Existing,
		Slack: textOrNull(now.Slack.String()), SetBy: textOrNull(now.By), Earlier: []wire.EarlierPolicy{},
	}
	for _, s := range ledger.Segments(class.Policies) {
		if s.Policy.Version == now.Version {
			continue
		}
		out.Earlier = append(out.Earlier, wire.EarlierPolicy{
			Version: s.Policy.Version, CapturedFrom: timeOrNull(s.From), CapturedBefore: timeOrNull(s.To),
			Period: s.Policy.Maximum.String(), StartEvent: s.Policy.Start.String(), OnExpiry: s.Policy.OnExpiry.String(),
		})
	}
	return out
}

func textOrNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// setPolicy answers PUT /v1/policies/{class}.
func (a *API) setPolicy(c *call) error {
	return a.withPolicy(c, func(p ledger.Policy) error {
		effect, err := a.changePolicy(c.r.Context(), p)
		if err != nil {
			return err
		}
		class, err := a.Store.Class(c.r.Context(), p.Tenant, p.Class)
		if err != nil {
			return err
		}
		out := policyOf(class)
		out.Simulation = simulationOf(effect)
		return c.reply(http.StatusOK, out)
	})
}

// changePolicy sets a policy that cuts short nothing held.
func (a *API) changePolicy(ctx context.Context, p ledger.Policy) (store.PolicyEffect, error) {
	if err := a.Store.Serving(); err != nil {
		return store.PolicyEffect{}, err
	}
	if err := a.checkHeld(ctx, p); err != nil {
		return store.PolicyEffect{}, err
	}
	return a.Store.SetPolicy(ctx, p)
}

// simulatePolicy answers POST /v1/policies/{class}/simulate.
func (a *API) simulatePolicy(c *call) error {
	return a.withPolicy(c, func(p ledger.Policy) error {
		effect, err := a.Store.SimulatePolicy(c.r.Context(), p)
		if err != nil {
			return err
		}
		return c.reply(http.StatusOK, simulationOf(effect))
	})
}

func simulationOf(e store.PolicyEffect) *wire.PolicySimulation {
	return &wire.PolicySimulation{
		Class: e.Policy.Class, At: e.Policy.At.UTC(), Due: e.After.Due(), DueBefore: e.Before.Due(),
		Erased: e.After.Erase, Bytes: e.After.Bytes, Held: e.After.Held, Floor: e.After.Floor, Review: e.After.Review,
		Waiting: e.After.Waiting,
	}
}

// removePolicy answers DELETE /v1/policies/{class}.
func (a *API) removePolicy(c *call) error {
	name, err := c.class()
	if err != nil {
		return err
	}
	existing := c.param("existing")
	if existing != "" && existing != "true" && existing != "false" {
		return refuse(wire.CodeInvalid, "existing: want true or false")
	}
	_, err = a.changePolicy(c.r.Context(), ledger.Policy{
		Tenant: c.who.tenant, Class: name, Existing: existing == "true", Removed: true, By: c.who.token,
	})
	if err != nil {
		return err
	}
	c.status = http.StatusNoContent
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// withPolicy reads the class and the policy of a request.
func (a *API) withPolicy(c *call, use func(ledger.Policy) error) error {
	name, err := c.class()
	if err != nil {
		return err
	}
	var q wire.PolicyRequest
	return a.withJSON(c, &q, func([]byte) error {
		p, err := policyFrom(q)
		if err != nil {
			return err
		}
		p.Tenant, p.Class, p.By = c.who.tenant, name, c.who.token
		return use(p)
	})
}

// maxLegalBasis bounds a legal basis, in bytes.
const maxLegalBasis = 1024

func policyFrom(q wire.PolicyRequest) (p ledger.Policy, err error) {
	if q.Existing == nil {
		return p, refuse(wire.CodeInvalid, "existing: say true or false: does the policy touch blobs captured before it?")
	}
	p.Existing = *q.Existing
	for _, f := range []struct {
		name, text string
		to         *ledger.Period
		required   bool
	}{{"period", q.Period, &p.Maximum, true}, {"floor", q.Floor, &p.Floor, false}, {"slack", q.Slack, &p.Slack, false}} {
		if f.text == "" && !f.required {
			continue
		}
		if *f.to, err = ledger.ParsePeriod(f.text); err != nil {
			return p, refuse(wire.CodeInvalid, "%s: %v", f.name, err)
		}
	}
	switch q.StartEvent {
	case "", ledger.StartCaptured.String():
	case ledger.StartEnded.String():
		p.Start = ledger.StartEnded
	default:
		return p, refuse(wire.CodeInvalid, "startEvent: want captured or executionEnded")
	}
	switch q.OnExpiry {
	case "", ledger.ExpiryErase.String():
	case ledger.ExpiryReview.String():
		p.OnExpiry = ledger.ExpiryReview
	default:
		return p, refuse(wire.CodeInvalid, "onExpiry: want erase or review")
	}
	if p.LegalBasis = q.LegalBasis; len(p.LegalBasis) > maxLegalBasis {
		return p, refuse(wire.CodeInvalid, "legalBasis: at most %d bytes", maxLegalBasis)
	}
	if p.Floor.IsZero() != (p.LegalBasis == "") {
		return p, refuse(wire.CodeInvalid, "floor and legalBasis come together")
	}
	return p, nil
}

// listDebt answers GET /v1/debt.
func (a *API) listDebt(c *call) error {
	p, err := c.paging()
	if err != nil {
		return err
	}
	after, err := debtCursor(p.after)
	if err != nil {
		return err
	}
	rows, next, err := a.Store.ListDebt(c.r.Context(), c.who.tenant, after, p.limit)
	if err != nil {
		return err
	}
	out := &wire.Debts{Items: make([]wire.Debt, len(rows))}
	for i, d := range rows {
		out.Items[i] = debtOf(d)
	}
	if next != nil {
		cursor := base64.RawURLEncoding.EncodeToString([]byte(debtKey(*next)))
		out.Next = &cursor
	}
	return c.reply(http.StatusOK, out)
}

func debtOf(d store.Debt) wire.Debt {
	out := wire.Debt{
		Ref: d.Ref.String(), ExecutionID: textOrNull(d.ExecutionID), Class: d.Class, CreatedAt: d.CreatedAt.UTC(),
		ExpiredAt: timeOrNull(d.ExpiredAt), Until: timeOrNull(d.Until), Reason: string(d.Reason), PolicyVersion: d.Policy,
	}
	if !d.ExpiredAt.IsZero() {
		out.OverdueAt = timeOrNull(d.OverdueAt)
	}
	return out
}
