package api

import (
	"context"
	"net/http"
	"time"

	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/store"
)

// LedgerClock is what the API needs of the watch of the ledger's clock.
type LedgerClock interface {
	LookAtClock(ctx context.Context) (store.ClockState, error)
	ConfirmClock(ctx context.Context, tenant, actor string) (store.ClockState, error)
	ClockSuspect() bool
}

func ledgerClockRoutes() []route {
	return []route{
		{
			method: "GET", path: "/v1/clock", id: "getLedgerClock", roles: operatorRole | adminRole, deployment: true,
			about: "the ledger's clock, and whether it may have jumped",
			act:   (*API).ledgerClock, answers: []reply{{200, wire.LedgerClock{}, nil}},
		},
		{
			method: "POST", path: "/v1/clock/confirm", id: "confirmLedgerClock", roles: operatorRole | adminRole, deployment: true,
			about: "say that the ledger's clock is right, for the whole deployment; without effect where it is not suspect",
			act:   (*API).confirmLedgerClock, answers: []reply{{200, wire.LedgerClock{}, nil}},
		},
	}
}

// ledgerClock answers GET /v1/clock.
func (a *API) ledgerClock(c *call) error {
	if err := a.Store.Serving(); err != nil {
		return err
	}
	s, err := a.Store.LookAtClock(c.r.Context())
	if err != nil {
		return err
	}
	return c.reply(http.StatusOK, ledgerClockOf(s))
}

// confirmLedgerClock answers POST /v1/clock/confirm.
func (a *API) confirmLedgerClock(c *call) error {
	s, err := a.Store.ConfirmClock(c.r.Context(), c.who.tenant, c.who.token)
	if err != nil {
		return err
	}
	return c.reply(http.StatusOK, ledgerClockOf(s))
}

func ledgerClockOf(s store.ClockState) *wire.LedgerClock {
	out := &wire.LedgerClock{
		Now: s.Now, Watched: s.Watched, Suspect: s.Suspect(), Since: timeOrNull(s.Since), Trusted: timeOrNull(s.Trusted),
	}
	if !s.Suspect() {
		return out
	}
	off := s.Off().Round(time.Second)
	out.Why = "the ledger's clock is " + off.Abs().String() + " ahead of what was seen of it"
	if off < 0 {
		out.Why = "the ledger's clock is " + off.Abs().String() + " behind what was seen of it"
	}
	return out
}

// clockWarnings are the warnings of readiness.
func clockWarnings(s LedgerClock) []string {
	if s.ClockSuspect() {
		return []string{"clock_suspect"}
	}
	return nil
}

// suspectFigure is the gauge.
func suspectFigure(s LedgerClock) int64 {
	if s.ClockSuspect() {
		return 1
	}
	return 0
}
