package api

import (
	"cmp"
	"context"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/store"
)

func erasureRoutes() []route {
	return []route{
		{
			method: "POST", path: pathErasures, id: "erase", roles: dpoRole,
			about:   "erase; 202 once the fence, or the closing, is committed and journalled",
			headers: []param{aboutIdempotency()},
			request: wire.EraseRequest{}, act: (*API).erase,
			answers: []reply{{202, wire.Erasure{}, []string{headerLocation}}, {200, wire.DryRun{}, nil}},
		},
		{
			method: "GET", path: pathErasures, id: "listErasures", roles: dpoRole | approverRole,
			about: "erasures, newest first; as CSV all of them, or limit", act: (*API).listErasures,
			query: append(listQuery(),
				param{"state", "one of the states of an erasure"}, param{"regime", "one of the regimes"},
				param{"dueBefore", "RFC 3339: have not ended and are due before"}, aboutDue()),
			answers: []reply{{200, orCSV{wire.Erasures{}}, nil}},
		},
		{
			method: "GET", path: pathErasure, id: "getErasure", roles: dpoRole | approverRole,
			about: "how far an erasure is", act: (*API).erasure, answers: []reply{{200, wire.Erasure{}, nil}},
		},
		{
			method: "POST", path: pathErasure + "/approve", id: "approveErasure", roles: approverRole,
			about:   "approve an erasure as its plan stands; not by who asked for it",
			request: wire.ApproveRequest{}, act: (*API).approveErasure, answers: []reply{{200, wire.Erasure{}, nil}},
		},
		{
			method: "POST", path: pathErasure + "/deny", id: "denyErasure", roles: approverRole | dpoRole,
			about:   "deny an erasure; what it closed and did not destroy can be read again",
			request: wire.DenyRequest{}, optionalBody: true, act: (*API).denyErasure,
			answers: []reply{{200, wire.Erasure{}, nil}},
		},
		{
			method: "POST", path: pathErasure + "/cancel", id: "cancelErasure", roles: dpoRole,
			about:   "cancel an erasure; what it closed and did not destroy can be read again",
			request: wire.LiftRequest{}, optionalBody: true, act: (*API).cancelErasure,
			answers: []reply{{200, wire.Erasure{}, nil}},
		},
	}
}

func aboutIdempotency() param {
	return param{wire.HeaderIdempotencyKey, "1 to 255 visible ASCII characters"}
}

// erase answers POST /v1/erasures.
func (a *API) erase(c *call) error {
	var q wire.EraseRequest
	return a.withJSON(c, &q, func(body []byte) error {
		if err := noNulls(body, "dryRun", "graceSeconds"); err != nil {
			return err
		}
		r, err := c.eraseRequest(&q)
		if err != nil {
			return err
		}
		if q.DryRun {
			return a.previewErasure(c, r)
		}
		c.offboards = r.WholeTenant
		return a.once(c, body, func(ctx context.Context) (outcome, error) { return a.startErasure(ctx, r, q.Callback) })
	})
}

// startErasure answers with the secret of the callback too, which is shown here and
// nowhere else.
func (a *API) startErasure(ctx context.Context, r store.EraseRequest, callback *string) (outcome, error) {
	secret, err := a.draftCallback(ctx, &r, callback)
	if err != nil {
		return outcome{}, err
	}
	e, err := a.Store.Erase(ctx, r)
	if err != nil {
		return outcome{}, err
	}
	out := erasureOf(e, r.Refs)
	out.CallbackSecret = secret
	return outcomeOf(http.StatusAccepted, pathErasures+"/"+e.ID, out)
}

func (a *API) previewErasure(c *call, r store.EraseRequest) error {
	p, err := a.Store.PreviewErasure(c.r.Context(), r)
	if err != nil {
		return err
	}
	return c.reply(http.StatusOK, previewOf(p))
}

func previewOf(p store.Preview) *wire.DryRun {
	out := &wire.DryRun{
		Plan: planOf(p.Plan, p.Digest), Classes: p.Classes, Oldest: timeOrNull(p.Oldest), Newest: timeOrNull(p.Newest),
		Sample: make([]wire.SampleBlob, 0, len(p.Sample)), Kept: make([]wire.KeptBlob, 0, len(p.Kept)), Holds: p.Holds,
	}
	if out.Holds == nil {
		out.Holds = []string{}
	}
	if c := p.Coverage; c != nil {
		out.Coverage = &wire.Coverage{Blobs: c.Blobs, Tagged: c.Tagged, Untagged: c.Blobs - c.Tagged}
	}
	for _, r := range p.Sample {
		out.Sample = append(out.Sample, wire.SampleBlob{
			ExecutionID: textOrNull(r.ExecutionID), Ref: r.Ref.String(), Class: r.Class, Size: r.Size,
			CreatedAt: r.CreatedAt.UTC(), Held: r.Held, Shared: r.Shared, Erased: r.Erased,
		})
	}
	for _, k := range p.Kept {
		out.Kept = append(out.Kept, wire.KeptBlob{
			ExecutionID: textOrNull(k.ExecutionID), Ref: k.Ref.String(), Outcome: keptOutcome(k), Until: timeOrNull(k.Until),
		})
	}
	return out
}

func planOf(p ledger.Plan, digest [32]byte) wire.Plan {
	return wire.Plan{
		Digest: hex.EncodeToString(digest[:]), Executions: p.Executions, Blobs: p.Blobs, Bytes: p.Bytes,
		Held: p.Held, Floor: p.Floor, Shared: p.Shared, AlreadyErased: p.AlreadyErased, NotFound: p.NotFound,
	}
}

// erasure answers GET /v1/erasures/{id}.
func (a *API) erasure(c *call) error {
	id, err := c.pathID()
	if err != nil {
		return err
	}
	if err := a.Store.Serving(); err != nil {
		return err
	}
	e, err := a.Ledger.Erasure(c.r.Context(), c.who.tenant, id)
	if err != nil {
		return err
	}
	return a.replyErasure(c, e)
}

// replyErasure answers with one erasure whole.
func (a *API) replyErasure(c *call, e ledger.Erasure) error {
	var refs []blobd.Ref
	if e.OfRefs {
		var err error
		if refs, err = a.Ledger.ErasedRefs(c.r.Context(), e.ID); err != nil {
			return err
		}
	}
	out := erasureOf(e, refs)
	var err error
	if out.Clock, err = a.clockOf(c.r.Context(), e); err != nil {
		return err
	}
	return c.reply(http.StatusOK, out)
}

// pathID reads the id in the path.
func (c *call) pathID() (string, error) {
	id := c.r.PathValue("id")
	return id, invalid(blobd.CheckName("id", id))
}

// erasureFilter is what a listing of erasures asks for.
type erasureFilter struct {
	ledger.ErasureQuery
	regime string
}

func (c *call) erasureFilter() (f erasureFilter, err error) {
	f.Tenant, f.State, f.regime = c.who.tenant, ledger.ErasureState(c.param("state")), c.param("regime")
	if f.State != "" && !knownErasureState(f.State) {
		return f, refuse(wire.CodeInvalid, "state: not a state of an erasure")
	}
	if f.regime != "" && !slices.Contains(wire.Regimes(), f.regime) {
		return f, refuse(wire.CodeInvalid, "regime: want one of %v", wire.Regimes())
	}
	if f.DueBefore, err = c.timeParam("dueBefore"); err != nil {
		return f, err
	}
	return f, c.dueParam(&f.ErasureQuery, c.rt.api.Now().UTC())
}

func (f *erasureFilter) passes(e *ledger.Erasure) bool {
	return (f.State == "" || e.Stands() == f.State) && (f.regime == "" || e.Regime == f.regime)
}

// erasureLister is the part of a ledger that lists erasures.
type erasureLister interface {
	ListErasures(ctx context.Context, q ledger.ErasureQuery) ([]ledger.Erasure, error)
}

// read returns up to n rows after one, as they are told. A deferred one that its
// worker looks at runs in the ledger: it is looked for there too.
func (f erasureFilter) read(ctx context.Context, l erasureLister, n int, after *ledger.Erasure) ([]ledger.Erasure, error) {
	q := f.ErasureQuery
	q.Limit = n
	if after != nil {
		q.Before = ledger.ErasureCursor{FencedAt: after.FencedAt, ID: after.ID}
	}
	rows, err := l.ListErasures(ctx, q)
	if err == nil && (f.State == ledger.ErasureDeferred || f.State == ledger.ErasurePartial) {
		var running []ledger.Erasure
		q.State = ledger.ErasureRunning
		if running, err = l.ListErasures(ctx, q); err == nil {
			rows = newestOf(rows, running, n)
		}
	}
	for i := range rows {
		rows[i] = asTold(rows[i])
	}
	return rows, err
}

// newestOf merges two listings, each newest first, to the first n of both.
func newestOf(a, b []ledger.Erasure, n int) []ledger.Erasure {
	all := slices.Concat(a, b)
	slices.SortFunc(all, func(x, y ledger.Erasure) int {
		return cmp.Or(y.FencedAt.Compare(x.FencedAt), strings.Compare(y.ID, x.ID))
	})
	all = slices.CompactFunc(all, func(x, y ledger.Erasure) bool { return x.ID == y.ID })
	return all[:min(n, len(all))]
}

func erasureKey(e ledger.Erasure) string { return timedKey(e.FencedAt, e.ID) }

// listErasures answers GET /v1/erasures.
func (a *API) listErasures(c *call) error {
	p, err := c.paging()
	if err != nil {
		return err
	}
	f, err := c.erasureFilter()
	if err != nil {
		return err
	}
	if p.after != "" {
		if f.Before.FencedAt, f.Before.ID, err = readTimedKey(p.after); err != nil {
			return err
		}
	}
	if err := a.Store.Serving(); err != nil {
		return err
	}
	if c.wantsCSV() {
		return a.erasuresCSV(c, f)
	}
	read := func(n int, after *ledger.Erasure) ([]ledger.Erasure, error) {
		return f.read(c.r.Context(), a.Ledger, n, after)
	}
	rows, next, err := lookThrough(p.limit, read, f.passes, erasureKey)
	if err != nil {
		return err
	}
	out := &wire.Erasures{Items: make([]wire.Erasure, len(rows)), Next: next}
	for i, e := range rows {
		out.Items[i] = *erasureOf(e, nil)
		out.Items[i].Items = nil
	}
	return c.reply(http.StatusOK, out)
}

func knownErasureState(s ledger.ErasureState) bool {
	switch s {
	case ledger.ErasureAwaiting, ledger.ErasureGrace, ledger.ErasureRunning, ledger.ErasureDeferred,
		ledger.ErasureErased, ledger.ErasurePartial, ledger.ErasureDenied, ledger.ErasureCancelled:
		return true
	}
	return false
}

// timeParam reads a query key as a time: RFC 3339, or a date, which is its
// midnight in UTC. Zero: it is absent.
func (c *call) timeParam(key string) (time.Time, error) {
	s := c.param(key)
	if s == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil && t.Year() >= 1970 {
			return t.UTC(), nil
		}
	}
	return time.Time{}, refuse(wire.CodeInvalid, "%s: want an RFC 3339 time, or a date", key)
}
