package api

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/store"
)

// Paths of orders.
const (
	pathHolds        = "/v1/holds"
	pathRestrictions = "/v1/restrictions"
	pathSuppressions = "/v1/suppressions"
)

// orderWords are the routes of one kind of order.
type orderWords struct {
	path, one, place, lift string
	placing, reading       roleSet
	request, answer, page  any
	placed                 func(*API, *call) error
	shown, listed, ended   func(*API, *call) error
	states                 string
}

func orderRoutes() []route {
	var table []route
	for _, w := range []orderWords{
		{
			path: pathHolds, one: "Hold", place: "place a hold: nothing in its scope is erased while it is open",
			lift:    "release a hold; what it deferred goes on",
			placing: holdsRole, reading: holdsRole | dpoRole,
			request: wire.HoldRequest{}, answer: wire.Hold{}, page: wire.Holds{},
			placed: (*API).placeHold, shown: holds().show, listed: holds().list, ended: holds().lift,
			states: "open (default), released or all",
		},
		{
			path: pathRestrictions, one: "Restriction", place: "restrict processing: reads in its scope are null, puts are refused",
			lift:    "lift a restriction",
			placing: dpoRole, reading: dpoRole,
			request: wire.RestrictionRequest{}, answer: wire.Restriction{}, page: wire.Restrictions{},
			placed: (*API).placeRestriction, shown: restrictions().show, listed: restrictions().list, ended: restrictions().lift,
			states: "open (default), lifted or all",
		},
		{
			path: pathSuppressions, one: "Suppression", place: "have puts that name one of the subjects refused",
			lift:    "lift a suppression",
			placing: dpoRole, reading: dpoRole,
			request: wire.SuppressionRequest{}, answer: wire.Suppression{}, page: wire.Suppressions{},
			placed: (*API).placeSuppression, shown: suppressions().show, listed: suppressions().list, ended: suppressions().lift,
			states: "open (default), expired, lifted or all",
		},
	} {
		table = append(table, w.routes()...)
	}
	return append(table, route{
		method: "GET", path: "/v1/blobs/{ref}/explain", id: "explainBlob", roles: dpoRole | auditorRole | operatorRole,
		about: "what keeps a blob, until when, and what happens next, once for each execution that has it",
		query: []param{{"executionId", "only of this execution"}}, act: (*API).explain,
		answers: []reply{{200, wire.Explanations{}, nil}},
	})
}

func (w orderWords) routes() []route {
	return []route{
		{
			method: "POST", path: w.path, id: "place" + w.one, about: w.place, roles: w.placing,
			headers: []param{aboutIdempotency()}, request: w.request, act: w.placed,
			answers: []reply{{201, w.answer, []string{headerLocation}}},
		},
		{
			method: "GET", path: w.path, id: "list" + w.one + "s", about: "those of the tenant, newest first", roles: w.reading,
			query: append(listQuery(), param{"state", w.states}), act: w.listed, answers: []reply{{200, w.page, nil}},
		},
		{
			method: "GET", path: w.path + "/{id}", id: "get" + w.one, about: "one of them", roles: w.reading,
			act: w.shown, answers: []reply{{200, w.answer, nil}},
		},
		{
			method: "DELETE", path: w.path + "/{id}", id: "lift" + w.one, about: w.lift, roles: w.placing,
			request: wire.LiftRequest{}, optionalBody: true, act: w.ended, answers: []reply{{200, w.answer, nil}},
		},
	}
}

// orderOf begins the request of an order with its scope.
func (c *call) orderOf(q *wire.Scope) (store.OrderRequest, error) {
	s, err := readScope(q, false)
	return store.OrderRequest{
		Tenant: c.who.tenant, Actor: c.who.token, ExecutionID: s.executionID, Refs: s.refs, Subjects: s.subjects,
		Class: s.class, CapturedBefore: s.capturedBefore, WholeTenant: s.wholeTenant,
	}, err
}

// inFuture checks an optional time that must lie ahead by the server's clock.
func (c *call) inFuture(name string, t *time.Time) (time.Time, error) {
	switch {
	case t == nil:
		return time.Time{}, nil
	case !t.After(c.rt.api.Now()):
		return time.Time{}, refuse(wire.CodeInvalid, "%s: is in the past", name)
	case t.Year() > maxYear:
		return time.Time{}, refuse(wire.CodeInvalid, "%s: want a year up to %d", name, maxYear)
	}
	return t.UTC(), nil
}

// orderKind is what one kind of order has of its own: W is how it is told.
type orderKind[W any] struct {
	kind   ledger.OrderKind
	states []string // that one may have; the first is a listing's default
	state  func(a *API, o *ledger.Order) string
	// view tells an order. It counts at most so many of the blobs under it.
	view func(ctx context.Context, a *API, o *ledger.Order, atMost int64) (W, error)
	page func(items []W, next *string) any
}

// place places an order, once under an Idempotency-Key, and answers with it.
func (k orderKind[W]) place(a *API, c *call, body []byte, place func(ctx context.Context) (ledger.Order, error)) error {
	return a.once(c, body, func(ctx context.Context) (outcome, error) {
		o, err := place(ctx)
		if err != nil {
			return outcome{}, err
		}
		v, err := k.view(ctx, a, &o, countOne)
		if err != nil {
			return outcome{}, err
		}
		return outcomeOf(http.StatusCreated, c.rt.path+"/"+o.ID, v)
	})
}

// show answers with the order that the path names.
func (k orderKind[W]) show(a *API, c *call) error {
	o, err := a.order(c, k.kind)
	if err != nil {
		return err
	}
	return k.reply(a, c, &o)
}

func (k orderKind[W]) reply(a *API, c *call, o *ledger.Order) error {
	v, err := k.view(c.r.Context(), a, o, countOne)
	if err != nil {
		return err
	}
	return c.reply(http.StatusOK, v)
}

// lift ends the order that the path names, and answers with it.
func (k orderKind[W]) lift(a *API, c *call) error {
	id, err := c.pathID()
	if err != nil {
		return err
	}
	var q wire.LiftRequest
	return a.withJSON(c, &q, func([]byte) error {
		if err := bounded("reason", q.Reason); err != nil {
			return err
		}
		o, err := a.Store.LiftOrder(c.r.Context(), c.who.tenant, k.kind, id, c.who.token, q.Reason)
		if err != nil {
			return err
		}
		return k.reply(a, c, &o)
	})
}

// list answers with one page of the orders in the state that is asked for.
func (k orderKind[W]) list(a *API, c *call) error {
	rows, next, err := k.rows(a, c)
	if err != nil {
		return err
	}
	items := make([]W, len(rows))
	for i := range rows {
		if items[i], err = k.view(c.r.Context(), a, &rows[i], countOf(len(rows))); err != nil {
			return err
		}
	}
	return c.reply(http.StatusOK, k.page(items, next))
}

func (k orderKind[W]) rows(a *API, c *call) ([]ledger.Order, *string, error) {
	p, err := c.paging()
	if err != nil {
		return nil, nil, err
	}
	state, err := c.wordParam("state", append(slices.Clone(k.states), stateAll)...)
	if err != nil {
		return nil, nil, err
	}
	q := ledger.OrderQuery{Tenant: c.who.tenant, Kind: k.kind, Open: state == stateOpen}
	if p.after != "" {
		if q.Before.PlacedAt, q.Before.ID, err = readTimedKey(p.after); err != nil {
			return nil, nil, err
		}
	}
	if err := a.Store.Serving(); err != nil {
		return nil, nil, err
	}
	pass := func(o *ledger.Order) bool { return state == stateAll || k.state(a, o) == state }
	return lookThrough(p.limit, a.readOrders(c.r.Context(), q), pass, orderKey)
}

// order reads the order of a kind that the path names.
func (a *API) order(c *call, kind ledger.OrderKind) (ledger.Order, error) {
	id, err := c.pathID()
	if err != nil {
		return ledger.Order{}, err
	}
	if err := a.Store.Serving(); err != nil {
		return ledger.Order{}, err
	}
	o, err := a.Ledger.Order(c.r.Context(), c.who.tenant, id)
	if err == nil && o.Kind != kind {
		err = blobd.ErrNotFound
	}
	return o, err
}

func orderKey(o ledger.Order) string { return timedKey(o.PlacedAt, o.ID) }

// readOrders reads on in a query.
func (a *API) readOrders(ctx context.Context, q ledger.OrderQuery) func(n int, after *ledger.Order) ([]ledger.Order, error) {
	return func(n int, after *ledger.Order) ([]ledger.Order, error) {
		q.Limit = n
		if after != nil {
			q.Before = ledger.OrderCursor{PlacedAt: after.PlacedAt, ID: after.ID}
		}
		return a.Ledger.ListOrders(ctx, q)
	}
}

// The states that every kind of order has.
const (
	stateOpen = "open"
	stateAll  = "all"
)

// wordParam reads a query key as one of some words; the first is the default.
func (c *call) wordParam(key string, words ...string) (string, error) {
	got := c.param(key)
	if got == "" {
		return words[0], nil
	}
	for _, w := range words {
		if w == got {
			return got, nil
		}
	}
	return "", refuse(wire.CodeInvalid, "%s: want one of %v", key, words)
}

// Bounds of what is counted under an order: for one that is asked for, and for
// each of a listing or a report.
const (
	countOne  = 100_000
	countEach = 1_000
)

// countOf is how much is counted under each of n orders, so that a page of many
// takes no longer than one of few.
func countOf(n int) int64 { return min(countEach, countOne/int64(max(n, 1))) }

// held counts what an open order covers. A closed one covers nothing.
func (a *API) held(ctx context.Context, o *ledger.Order, atMost int64) (wire.Held, error) {
	if !o.Open() {
		return wire.Held{}, nil
	}
	rows, bytes, err := a.Ledger.CountHeld(ctx, o.Scope.Tenant, o.ID, atMost)
	return wire.Held{Blobs: rows, Bytes: bytes, AtLeast: rows >= atMost}, err
}
