package api

import (
	"net/http"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/store"
)

// explain answers GET /v1/blobs/{ref}/explain.
func (a *API) explain(c *call) error {
	ref, err := c.pathRef()
	if err != nil {
		return err
	}
	id := c.param("executionId")
	if id != "" {
		if err := blobd.CheckExecutionID(id); err != nil {
			return invalid(err)
		}
	}
	found, err := a.Store.Explain(c.r.Context(), c.who.tenant, ref, id)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return blobd.ErrNotFound
	}
	out := &wire.Explanations{Items: make([]wire.Explanation, len(found))}
	for i, x := range found {
		out.Items[i] = explanationOf(x)
	}
	return c.reply(http.StatusOK, out)
}

func explanationOf(x store.Explanation) wire.Explanation {
	out := wire.Explanation{
		Ref: x.Ref.String(), ExecutionID: textOrNull(x.ExecutionID), State: x.State, Class: x.Class,
		Start: timeOrNull(x.Start), Due: timeOrNull(x.End), Floor: timeOrNull(x.FloorEnd),
		Holds: listOrEmpty(x.Holds), Restrictions: listOrEmpty(x.Restrictions), Erasures: listOrEmpty(x.Erasures),
		Verdict: x.Verdict, Next: x.Next,
	}
	if !x.Policy.Maximum.IsZero() {
		out.Rule = ruleOf(x.Policy)
	}
	if s := x.LastSweep; s != nil {
		out.LastSweep = &wire.SweepOfBlob{
			ID: s.ID, State: string(s.State), StartedAt: timeOrNull(s.StartedAt), FinishedAt: timeOrNull(s.FinishedAt),
		}
	}
	return out
}

func ruleOf(p ledger.Policy) *wire.Rule {
	return &wire.Rule{
		Version: p.Version, Period: p.Maximum.String(), StartEvent: p.Start.String(), Floor: textOrNull(p.Floor.String()),
		LegalBasis: textOrNull(p.LegalBasis), OnExpiry: p.OnExpiry.String(),
	}
}

func listOrEmpty(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}
