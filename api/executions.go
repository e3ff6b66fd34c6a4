package api

import (
	"net/http"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/ledger"
)

// execution answers GET …/{executionId}: metadata only.
func (a *API) execution(c *call) error {
	tag, err := a.Store.Tag(c.r.Context(), c.who.tenant, c.executionID)
	if err != nil {
		return err
	}
	if err := a.Store.Serving(); err != nil {
		return err
	}
	s, err := a.Ledger.Execution(c.r.Context(), c.who.tenant, tag)
	if err != nil {
		return err
	}
	holds, err := a.holdsOver(c.r.Context(), s)
	if err != nil {
		return err
	}
	out := &wire.ExecutionSummary{
		Execution: executionOf(s.Execution), Classes: s.Classes, Steps: s.Steps,
		NextDue: timeOrNull(s.NextDue), Holds: holds,
	}
	if out.ExecutionID == nil {
		out.ExecutionID = &c.executionID
	}
	return c.reply(http.StatusOK, out)
}

func executionOf(x ledger.Execution) wire.Execution {
	out := wire.Execution{
		State: stateWord(x.State), Blobs: x.Blobs, Bytes: x.Bytes, CreatedAt: x.CreatedAt.UTC(),
		EndedAt: timeOrNull(x.EndedAt), ErasedAt: timeOrNull(x.ErasedAt),
	}
	if x.ID != "" {
		out.ExecutionID = &x.ID
	}
	if x.State == ledger.ExecutionClosed {
		out.CloseReason = string(wire.CodeErasurePending)
		if x.CloseReason == ledger.ClosedRestricted {
			out.CloseReason = string(wire.CodeRestricted)
		}
	}
	return out
}

// executionStates are the words of the contract.
func executionStates() map[string]ledger.ExecutionState {
	return map[string]ledger.ExecutionState{
		"open": ledger.ExecutionOpen, "closed": ledger.ExecutionClosed, "erased": ledger.ExecutionErased,
	}
}

func stateWord(s ledger.ExecutionState) string {
	for word, state := range executionStates() {
		if state == s {
			return word
		}
	}
	return ""
}

// listExecutions answers GET /v1/executions.
func (a *API) listExecutions(c *call) error {
	p, err := c.paging()
	if err != nil {
		return err
	}
	q := ledger.ExecutionQuery{Tenant: c.who.tenant, Class: c.param("class"), Limit: p.limit + 1}
	if q.Class != "" {
		if err := blobd.CheckClass(q.Class); err != nil {
			return invalid(err)
		}
	}
	if word := c.param("state"); word != "" {
		state, ok := executionStates()[word]
		if !ok {
			return refuse(wire.CodeInvalid, "state: want open, closed or erased")
		}
		q.State = state
	}
	if q.Before, err = executionCursor(p.after); err != nil {
		return err
	}
	if err := a.Store.Serving(); err != nil {
		return err
	}
	rows, err := a.Ledger.ListExecutions(c.r.Context(), q)
	if err != nil {
		return err
	}
	rows, next := cut(rows, p.limit, func(x ledger.Execution) string { return timedKey(x.CreatedAt, x.Tag.String()) })
	out := &wire.Executions{Items: make([]wire.Execution, len(rows)), Next: next}
	for i, x := range rows {
		out.Items[i] = executionOf(x)
	}
	return c.reply(http.StatusOK, out)
}

func executionCursor(after string) (ledger.ExecutionCursor, error) {
	if after == "" {
		return ledger.ExecutionCursor{}, nil
	}
	at, id, err := readTimedKey(after)
	if err != nil {
		return ledger.ExecutionCursor{}, err
	}
	tag, err := blobd.ParseExecutionTag(id)
	if err != nil {
		return ledger.ExecutionCursor{}, errCursor()
	}
	return ledger.ExecutionCursor{CreatedAt: at, Tag: tag}, nil
}
