package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/store"
)

// erase answers POST /v1/erasures.
func (a *API) erase(c *call) error {
	var q wire.EraseRequest
	return a.withJSON(c, &q, func(body []byte) error {
		if err := nullsOfErasure(body); err != nil {
			return err
		}
		r, err := c.eraseRequest(&q)
		if err != nil {
			return err
		}
		if q.DryRun {
			return a.planErasure(c, r)
		}
		c.offboards = r.WholeTenant
		return a.once(c, body, func(ctx context.Context) (outcome, error) { return a.startErasure(ctx, r) })
	})
}

// nullsOfErasure refuses a null where its reading as "absent" would erase more
// than was meant: a list that a client had not filled in would be the whole
// execution, a dryRun that it had not would be no dry run.
func nullsOfErasure(body []byte) error {
	var q struct {
		Scope  map[string]jsontext.Value `json:"scope"`
		DryRun jsontext.Value            `json:"dryRun"`
		Rest   jsontext.Value            `json:",unknown"`
	}
	if err := json.Unmarshal(body, &q); err != nil {
		return refuse(wire.CodeInvalid, "body: not the JSON of the contract")
	}
	if q.DryRun.Kind() == 'n' {
		return refuse(wire.CodeInvalid, "dryRun: must not be null")
	}
	for name, v := range q.Scope {
		if v.Kind() == 'n' {
			return refuse(wire.CodeInvalid, "scope.%s: must not be null", name)
		}
	}
	return nil
}

func (a *API) startErasure(ctx context.Context, r store.EraseRequest) (outcome, error) {
	e, err := a.Store.Erase(ctx, r)
	if err != nil {
		return outcome{}, err
	}
	return outcomeOf(http.StatusAccepted, pathErasures+"/"+e.ID, erasureOf(e, r.Refs))
}

func (a *API) planErasure(c *call, r store.EraseRequest) error {
	plan, err := a.Store.PlanErasure(c.r.Context(), r)
	if err != nil {
		return err
	}
	var tag blobd.ExecutionTag
	if r.WholeTenant {
		tag, err = a.Store.TenantTag(c.r.Context(), r.Tenant)
	} else {
		tag, err = a.Store.Tag(c.r.Context(), r.Tenant, r.ExecutionID)
	}
	if err != nil {
		return err
	}
	return c.reply(http.StatusOK, &wire.DryRun{Plan: planOf(plan, tag, len(r.Refs) > 0)})
}

// planOf counts a scope. The digest names the scope and the counts; holds and
// floors do not exist in this version, so nothing is held.
func planOf(p ledger.Plan, tag blobd.ExecutionTag, ofRefs bool) wire.Plan {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "blobd/v1/plan\n%s\n%t\n%d\n%d\n%d\n%d\n%d\n",
		tag, ofRefs, p.Executions, p.Blobs, p.Bytes, p.AlreadyErased, p.NotFound)
	return wire.Plan{
		Digest: hex.EncodeToString(h.Sum(nil)), Executions: p.Executions, Blobs: p.Blobs, Bytes: p.Bytes,
		AlreadyErased: p.AlreadyErased, NotFound: p.NotFound,
	}
}

// erasureOf is an erasure in the contract's words. refs are those of an erasure
// of refs.
func erasureOf(e ledger.Erasure, refs []blobd.Ref) *wire.Erasure {
	out := &wire.Erasure{
		ID: e.ID, State: string(e.Stands()), Plan: planOf(e.Plan, e.Scope.Tag, e.OfRefs),
		Progress: wire.Progress{
			KeysDestroyed: e.Progress.KeysDestroyed, ObjectsDeleted: e.Progress.ObjectsDeleted,
			VersionsDeleted: e.Progress.VersionsDeleted, Failed: e.Progress.Failed, Remaining: e.Progress.Remaining,
		},
		RequestedBy: e.RequestedBy, ApprovedBy: []string{},
		ReceivedAt: timeOrNull(e.ReceivedAt), DueAt: timeOrNull(e.DueAt), ErasedAt: timeOrNull(e.ErasedAt),
	}
	if e.State != ledger.ErasureErased { // nothing is proved absent before the end
		out.Progress.Remaining = max(out.Progress.Remaining, e.Plan.Blobs)
		if e.Scope.WholeTenant { // the plan may not be counted yet
			out.Progress.Remaining = max(out.Progress.Remaining, 1)
		}
	}
	item := wire.ErasureItem{State: out.State, Tenant: e.Scope.WholeTenant}
	if e.Scope.ExecutionID != "" {
		item.ExecutionID = &e.Scope.ExecutionID
	}
	if !e.OfRefs {
		out.Items = append(out.Items, item)
	}
	for _, ref := range refs {
		item.Ref = ref.String()
		out.Items = append(out.Items, item)
	}
	for _, r := range e.Progress.Refused {
		out.Items = append(out.Items, refusedItem(item.ExecutionID, r))
	}
	return out
}

// refusedItem is an object that the store keeps although its key is gone.
func refusedItem(executionID *string, r ledger.Refused) wire.ErasureItem {
	item := wire.ErasureItem{
		ExecutionID: executionID, State: string(ledger.ErasurePartial),
		Reason: r.Reason, Version: r.Version, Until: timeOrNull(r.Until),
	}
	if r.Ref != (blobd.Ref{}) {
		item.Ref = r.Ref.String()
	}
	return item
}

// erasure answers GET /v1/erasures/{id}.
func (a *API) erasure(c *call) error {
	id := c.r.PathValue("id")
	if err := blobd.CheckName("id", id); err != nil {
		return invalid(err)
	}
	if err := a.Store.Serving(); err != nil {
		return err
	}
	e, err := a.Ledger.Erasure(c.r.Context(), c.who.tenant, id)
	if err != nil {
		return err
	}
	var refs []blobd.Ref
	if e.OfRefs {
		if refs, err = a.Ledger.ErasedRefs(c.r.Context(), e.ID); err != nil {
			return err
		}
	}
	return c.reply(http.StatusOK, erasureOf(e, refs))
}

// listErasures answers GET /v1/erasures.
func (a *API) listErasures(c *call) error {
	p, err := c.paging()
	if err != nil {
		return err
	}
	q := ledger.ErasureQuery{Tenant: c.who.tenant, State: ledger.ErasureState(c.param("state")), Limit: p.limit + 1}
	if q.State != "" && !knownErasureState(q.State) {
		return refuse(wire.CodeInvalid, "state: not a state of an erasure")
	}
	if p.after != "" {
		if q.Before.FencedAt, q.Before.ID, err = readTimedKey(p.after); err != nil {
			return err
		}
	}
	if strings.HasPrefix(c.r.Header.Get("Accept"), "text/csv") {
		return refuse(wire.CodeNotImplemented, "this version does not write CSV yet: Accept application/json")
	}
	if err := a.Store.Serving(); err != nil {
		return err
	}
	rows, err := a.erasuresThatStand(c.r.Context(), q)
	if err != nil {
		return err
	}
	rows, next := cut(rows, p.limit, func(e ledger.Erasure) string { return timedKey(e.FencedAt, e.ID) })
	out := &wire.Erasures{Items: make([]wire.Erasure, len(rows)), Next: next}
	for i, e := range rows {
		out.Items[i] = *erasureOf(e, nil)
		out.Items[i].Items = nil
	}
	return c.reply(http.StatusOK, out)
}

// erasuresThatStand lists erasures by the state that people are told. What is
// partial runs on, so the ledger's rows of that state are looked through.
func (a *API) erasuresThatStand(ctx context.Context, q ledger.ErasureQuery) ([]ledger.Erasure, error) {
	want := q.State
	if want != ledger.ErasureRunning && want != ledger.ErasurePartial {
		return a.Ledger.ListErasures(ctx, q)
	}
	q.State = ledger.ErasureRunning
	var found []ledger.Erasure
	for {
		rows, err := a.Ledger.ListErasures(ctx, q)
		if err != nil {
			return nil, err
		}
		for i := range rows {
			if rows[i].Stands() == want && len(found) < q.Limit {
				found = append(found, rows[i])
			}
		}
		if len(rows) < q.Limit || len(found) == q.Limit {
			return found, nil
		}
		last := rows[len(rows)-1]
		q.Before = ledger.ErasureCursor{FencedAt: last.FencedAt, ID: last.ID}
	}
}

func knownErasureState(s ledger.ErasureState) bool {
	switch s {
	case ledger.ErasureAwaiting, ledger.ErasureGrace, ledger.ErasureRunning, ledger.ErasureDeferred,
		ledger.ErasureErased, ledger.ErasurePartial, ledger.ErasureDenied, ledger.ErasureCancelled:
		return true
	}
	return false
}
